"""A closed terminal window leaves no machine behind, whether or not a process receives SIGHUP."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from lab.machine.state_folder import KERNEL_RECORD
from tests.kernel.place import kernel_target
from tests.window import PATIENCE_SECONDS, RAIDLAB, REPOSITORY, TAKES_CONTROL, Window, command

pytestmark = [pytest.mark.kernel, pytest.mark.wide]

NO_SIGNAL = ""
"""Without a controlling terminal no process receives SIGHUP. The same is true below make, which catches it."""
# As nohup(1) does.
NOHUP = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"


def machines(state: Path) -> list[Path]:
    return list((state / "machines").glob("[0-9]*"))


def assert_released(window: Window, state: Path) -> None:
    assert machines(state) == []
    assert list(Path("/dev/shm").glob(f"raidlab-{window.process.pid}-*")) == []


def opened(code: str, words: list[str], state: Path, settled_seconds: float) -> Window:
    """A window whose command has run for this many seconds since its machine started."""
    window = Window(command(code, "--on", kernel_target().text, *words), state)
    window.until(lambda: list((state / "machines").glob(f"*/{KERNEL_RECORD}")), "a machine")
    window.read(settled_seconds)
    return window


@pytest.mark.parametrize(
    ("words", "settled_seconds", "way"),
    [
        (["exec", "--", "sleep", "1000"], 0.5, TAKES_CONTROL),
        (["watch"], 0.5, NO_SIGNAL),
        (["run", "antioquia-quick"], 3.0, NO_SIGNAL),
        (["shell"], 1.0, NO_SIGNAL),
        (["--text"], 2.0, NO_SIGNAL),
        ([], 4.0, NO_SIGNAL),
        ([], 4.0, TAKES_CONTROL),
    ],
    ids=["exec", "watch", "run", "shell", "text", "app", "app-signal"],
)
def test_a_closed_window_leaves_no_machine(tmp_path: Path, words: list[str], settled_seconds: float, way: str) -> None:
    with opened(way + RAIDLAB, words, tmp_path, settled_seconds) as window:
        window.close()
        # Text mode may see the end of its input first, and then ends with status 0.
        status = window.process.wait(PATIENCE_SECONDS)
        assert status in (128 + signal.SIGHUP, 0 if "--text" in words else None)
        assert_released(window, tmp_path)


def test_a_machine_that_is_not_closed_is_killed_and_the_next_command_works(tmp_path: Path) -> None:
    stuck = "import threading, tui.client as c; c.LabClient.close = lambda self: threading.Event().wait()\n"
    with opened(stuck + RAIDLAB, [], tmp_path, 4.0) as window:
        window.process.terminate()
        assert window.process.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
        assert_released(window, tmp_path)
    environment = {**os.environ, "RAIDLAB_STATE": str(tmp_path), "RAIDLAB_CONFIG": str(tmp_path)}
    shown = command(RAIDLAB, "--on", kernel_target().text, "array", "show")
    done = subprocess.run(shown, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_command_started_with_nohup_continues_after_sighup(tmp_path: Path) -> None:
    script = "echo up; sleep 2; echo done"
    with subprocess.Popen(
        command(NOHUP + RAIDLAB, "--on", kernel_target().text, "exec", "--", "sh", "-c", script),
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
        env={**os.environ, "RAIDLAB_STATE": str(tmp_path)},
        text=True,
    ) as process:
        assert process.stdout
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGHUP)
        assert process.stdout.readline() == "done\n"
        assert process.wait(PATIENCE_SECONDS) == 0
    assert machines(tmp_path) == []
