"""The command in a real terminal: however it ends, the terminal is as it was and no machine is left."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.kernel.place import kernel_target
from tests.kernel.student import PATIENCE_SECONDS, kernels_of, own_state
from tui.app import Settings, save_settings

__all__ = ["own_state"]
pytestmark = pytest.mark.kernel


class Terminal:
    """A terminal with the real command in it."""

    def __init__(self, argv: list[str]) -> None:
        self._ours, self._theirs = pty.openpty()
        termios.tcsetwinsize(self._theirs, (40, 120))
        self.settings = termios.tcgetattr(self._theirs)
        self.output = b""
        self.process = subprocess.Popen(
            argv,
            stdin=self._theirs,
            stdout=self._theirs,
            stderr=self._theirs,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )

    def read_until(self, is_reached: Callable[[bytes], object], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_reached(self.output):
            assert time.monotonic() < deadline, f"never: {what}; the terminal shows {self.output[-500:]!r}"
            if select.select([self._ours], [], [], 0.1)[0]:
                self.output += os.read(self._ours, 65536)

    def type(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def end(self) -> int:
        """The exit status; what the command still prints is kept."""
        self.read_until(lambda _: self.process.poll() is not None, "the command ends")
        while select.select([self._ours], [], [], 0)[0]:
            self.output += os.read(self._ours, 65536)
        return self.process.wait()

    def assert_restored(self) -> None:
        """As it was before: modes of the line, the usual screen, a cursor, no reports of the mouse."""
        assert termios.tcgetattr(self._theirs) == self.settings
        for mode, wanted in ((1049, b"l"), (25, b"h"), (1000, b"l"), (1003, b"l"), (2004, b"l")):
            switches = re.findall(rb"\x1b\[\?%d([hl])" % mode, self.output)
            assert switches, mode
            assert switches[-1] == wanted, mode

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._ours)
        os.close(self._theirs)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[[str], Terminal]]:
    """Opens the app in a terminal, by a line of Python, and waits until its machine runs."""
    opened: list[Terminal] = []
    save_settings(tmp_path / "app.json", Settings(was_welcomed=True))

    def open_app(line: str) -> Terminal:
        made = Terminal([sys.executable, "-c", line, "--on", kernel_target().text])
        opened.append(made)
        made.read_until(lambda output: b"No array yet" in output, "the lab is open")
        return made

    yield open_app
    for each in opened:
        each.close()


RAIDLAB = "import sys; from lab.cli.main import run; sys.exit(run())"


WITH_A_BUG = f"""
from tui.lab_screen import LabScreen
def show_state(self, state, shown=LabScreen.show_state):
    shown(self, state)
    if state.selected_disk == "disk03":
        raise RuntimeError("a bug that only a test has")
LabScreen.show_state = show_state
{RAIDLAB}"""


def test_the_terminal_is_restored_after_the_machine_was_killed(
    terminal: Callable[[str], Terminal], tmp_path: Path
) -> None:
    app = terminal(RAIDLAB)
    (kernel,) = kernels_of(app.process.pid, tmp_path)
    os.killpg(kernel, signal.SIGKILL)
    app.read_until(lambda output: b"The machine is lost" in output, "the loss is told")
    app.type("q")
    assert app.end() == 0
    app.assert_restored()


def test_the_terminal_is_restored_and_the_machine_ended_by_a_signal(
    terminal: Callable[[str], Terminal], tmp_path: Path
) -> None:
    app = terminal(RAIDLAB)
    app.process.send_signal(signal.SIGTERM)
    assert app.end() == 128 + signal.SIGTERM
    app.assert_restored()
    assert kernels_of(app.process.pid, tmp_path) == set()


def test_the_terminal_is_restored_and_the_machine_ended_after_a_bug(
    terminal: Callable[[str], Terminal], tmp_path: Path
) -> None:
    app = terminal(WITH_A_BUG)
    app.type("\x1b[B\x1b[B")
    assert app.end() == 1
    app.assert_restored()
    assert b"a bug that only a test has" in app.output
    assert kernels_of(app.process.pid, tmp_path) == set()
