"""Whoever closes the window of a terminal leaves no machine behind, whether or not anybody sends SIGHUP."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.machine.state_folder import KERNEL_RECORD
from tests.kernel.place import kernel_target

pytestmark = pytest.mark.kernel

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 60.0
# A shell gives a command its terminal, so that closing the window reaches it. The last line: as nohup(1) does.
IN_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
NO_SIGNAL = ""
"""Without a controlling terminal nobody is sent one; so it is below make, which catches it."""
COMMAND = "import sys; from lab.cli.main import run; sys.exit(run())"
NOHUP = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"


def machines(state: Path) -> list[Path]:
    return list((state / "machines").glob("[0-9]*"))


def read(terminal: int, seconds: float) -> None:
    """Take what is written, so that the command never waits for somebody to read."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            os.read(terminal, 1 << 16)


@pytest.mark.parametrize(
    ("words", "settled_seconds", "way"),
    [
        (["exec", "--", "sleep", "1000"], 0.5, IN_TERMINAL),
        (["watch"], 0.5, NO_SIGNAL),
        (["run", "antioquia-quick"], 3.0, NO_SIGNAL),
        (["shell"], 1.0, NO_SIGNAL),
        (["--text"], 2.0, NO_SIGNAL),
        ([], 4.0, NO_SIGNAL),
        ([], 4.0, IN_TERMINAL),
    ],
    ids=["exec", "watch", "run", "shell", "text", "app", "app-signal"],
)
def test_a_closed_window_leaves_no_machine(tmp_path: Path, words: list[str], settled_seconds: float, way: str) -> None:
    window, terminal = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", way + COMMAND, "--on", kernel_target().text, *words],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=REPOSITORY,
        env={**os.environ, "RAIDLAB_STATE": str(tmp_path), "RAIDLAB_CONFIG": str(tmp_path), "TERM": "xterm-256color"},
        start_new_session=True,
    ) as process:
        try:
            os.close(terminal)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not list((tmp_path / "machines").glob(f"*/{KERNEL_RECORD}")):
                assert time.monotonic() < deadline
                read(window, 0.05)
            read(window, settled_seconds)
            os.close(window)
            # Text mode ends as it does at the end of its input, if it sees that first.
            assert process.wait(PATIENCE_SECONDS) in (128 + signal.SIGHUP, 0 if "--text" in words else None)
            assert machines(tmp_path) == []
            assert list(Path("/dev/shm").glob(f"raidlab-{process.pid}-*")) == []
        finally:
            process.kill()


def test_a_machine_that_nobody_closes_is_ended_by_force_and_the_next_command_works(tmp_path: Path) -> None:
    stuck = "import threading, tui.client as c; c.LabClient.close = lambda self: threading.Event().wait()\n"
    window, terminal = pty.openpty()
    environment = {**os.environ, "RAIDLAB_STATE": str(tmp_path), "RAIDLAB_CONFIG": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", stuck + COMMAND, "--on", kernel_target().text],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        cwd=REPOSITORY,
        env={**environment, "TERM": "xterm-256color"},
        start_new_session=True,
    ) as process:
        try:
            os.close(terminal)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not list((tmp_path / "machines").glob(f"*/{KERNEL_RECORD}")):
                assert time.monotonic() < deadline
                read(window, 0.05)
            read(window, 4.0)
            process.terminate()
            assert process.wait(PATIENCE_SECONDS) == 128 + signal.SIGTERM
            assert machines(tmp_path) == []
            assert list(Path("/dev/shm").glob(f"raidlab-{process.pid}-*")) == []
        finally:
            process.kill()
            os.close(window)
    shown = [sys.executable, "-c", COMMAND, "--on", kernel_target().text, "array", "show"]
    done = subprocess.run(shown, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_was_started_with_nohup_goes_on(tmp_path: Path) -> None:
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            NOHUP + COMMAND,
            "--on",
            kernel_target().text,
            "exec",
            "--",
            "sh",
            "-c",
            "echo up; sleep 2; echo done",
        ],
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
