"""However the app ends, the terminal is as it was. A real process on a real (pseudo) terminal; no machine is needed."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE_SECONDS = 60.0
_ENTERED, _LEFT = b"\x1b[?1049h", b"\x1b[?1049l"
_CURSOR_SHOWN, _MOUSE_OFF, _PASTE_OFF = b"\x1b[?25h", b"\x1b[?1003l", b"\x1b[?2004l"
# Port 9 of this computer answers nobody: the machine does not start, the app does.
_RUN = "from lab.cli.main import run; import sys; sys.exit(run(['--on', 'ssh:nobody@127.0.0.1:9']))"
_PATCH = "from tui.app import RaidlabApp; RaidlabApp.action_next_theme = lambda self: "
_CRASH = f"{_PATCH}self.call_later(lambda: 1 / 0); {_RUN}"
_BUG_OF_A_KEY = f"{_PATCH}1 / 0; {_RUN}"


class Terminal:
    """One program on a terminal of its own."""

    def __init__(self, program: str, state: Path) -> None:
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(self.master, (24, 80))
        self.before = termios.tcgetattr(slave)
        self.slave = slave
        self.output = b""
        environment = {
            **os.environ,
            "RAIDLAB_STATE": str(state),
            "RAIDLAB_CONFIG": str(state),
            "TMPDIR": str(state),
            "TERM": "xterm-256color",
        }
        self.process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
        )

    def read_until(self, words: bytes) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while words not in self.output:
            assert time.monotonic() < deadline, self.output[-2000:]
            if select.select([self.master], [], [], 0.05)[0]:
                self.output += os.read(self.master, 1 << 16)

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def end(self) -> int:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None:
            assert time.monotonic() < deadline, "it does not end"
            if select.select([self.master], [], [], 0.05)[0]:
                self.output += os.read(self.master, 1 << 16)
        while select.select([self.master], [], [], 0.05)[0]:
            self.output += os.read(self.master, 1 << 16)
        return self.process.returncode

    def assert_as_before(self) -> None:
        assert termios.tcgetattr(self.slave) == self.before
        for order in (_LEFT, _CURSOR_SHOWN, _MOUSE_OFF, _PASTE_OFF):
            assert order in self.output, order
        assert self.output.rindex(_LEFT) > self.output.rindex(_ENTERED)


@pytest.fixture
def started(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(getattr(request, "param", _RUN), tmp_path)
    try:
        terminal.read_until(_ENTERED)
        # The welcome stands over the Lab screen: what is on the screen can be typed into.
        terminal.read_until(b"Welcome")
        yield terminal
    finally:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.master)
        os.close(terminal.slave)


def test_after_leaving(started: Terminal) -> None:
    started.type(b"\x11")  # Ctrl+Q
    assert started.end() == 0
    started.assert_as_before()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=["SIGTERM", "SIGHUP"])
def test_after_a_signal(started: Terminal, number: signal.Signals) -> None:
    started.process.send_signal(number)
    assert started.end() != 0
    started.assert_as_before()


@pytest.mark.parametrize("started", [_CRASH], indirect=True)
def test_after_a_crash(started: Terminal) -> None:
    started.type(b"\x14")  # Ctrl+T
    assert started.end() != 0
    started.assert_as_before()
    assert b"ZeroDivisionError" in started.output


@pytest.mark.parametrize("started", [_BUG_OF_A_KEY], indirect=True)
def test_a_bug_of_a_key_is_told_and_ends_nothing(started: Terminal) -> None:
    started.type(b"\x14")  # Ctrl+T
    started.read_until(b"this should not happen")
    started.type(b"\x11")
    assert started.end() == 0
    started.assert_as_before()
