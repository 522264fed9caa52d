"""The app in a terminal of its own: keys that arrive in one packet have the target of single keys."""

from __future__ import annotations

import fcntl
import os
import pty
import random
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte
import pytest

from tests.kernel.place import disk_name, kernel_target

pytestmark = pytest.mark.kernel

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 120.0
COMMAND = "import sys; from lab.cli.main import run; sys.exit(run())"
COLUMNS, ROWS = 80, 24
DOWN, HOME, ESCAPE = b"\x1b[B", b"\x1b[H", b"\x1b"
MEMBERS = 4


class Window:
    """A terminal's window, and what it shows."""

    def __init__(self) -> None:
        self.end, self.terminal = pty.openpty()
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self._screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self._screen)

    @property
    def text(self) -> str:
        return "\n".join(self._screen.display)

    def until(self, is_reached: Callable[[str], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_reached(self.text):
            assert time.monotonic() < deadline, f"never: {what}\n{self.text}"
            if select.select([self.end], [], [], 0.05)[0]:
                self._stream.feed(os.read(self.end, 1 << 16))

    def read_until_end(self, process: subprocess.Popen[bytes]) -> None:
        """Read on while it leaves, so that it never waits for a reader."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            if select.select([self.end], [], [], 0.05)[0]:
                try:
                    os.read(self.end, 1 << 16)
                except OSError:
                    break
        process.kill()

    def type(self, keys: bytes) -> None:
        os.write(self.end, keys)


def test_an_arrow_and_an_action_in_one_write_have_the_disk_under_the_cursor(tmp_path: Path) -> None:
    window, chance = Window(), random.Random(5)
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, "--on", kernel_target().text],
        stdin=window.terminal,
        stdout=window.terminal,
        stderr=window.terminal,
        cwd=REPOSITORY,
        env={**os.environ, "RAIDLAB_STATE": str(tmp_path), "RAIDLAB_CONFIG": str(tmp_path), "TERM": "xterm-256color"},
        start_new_session=True,
    ) as process:
        try:
            os.close(window.terminal)
            window.until(lambda text: "It runs:" in text, "the plan of the first array")
            window.type(b"\r")
            window.until(lambda text: "of 4 in sync" in text, "the array")
            for _ in range(5):
                # From a known place, and never beyond the members.
                moves = [chance.choice((DOWN, DOWN, HOME)) for _ in range(chance.randint(1, MEMBERS - 1))]
                at = 0
                for move in moves:
                    at = 0 if move is HOME else at + 1
                keys = b"".join((HOME, *moves, b"f\r"))
                window.type(keys)
                window.until(lambda text, at=at: f"Fail disk0{at + 1} (/dev/{disk_name(at)})" in text, f"{keys!r}")  # type: ignore[misc]
                # Nobody agrees to what was not on the screen yet.
                window.until(lambda text: "Run (r)" in text, "the question is open")
                window.type(ESCAPE)
                window.until(lambda text: "Fail disk" not in text, "the dialog is closed")
        finally:
            process.terminate()
            window.read_until_end(process)
            os.close(window.end)
