"""A terminal's window with a program in it: keys, what it shows, and how the program leaves the terminal behind."""

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
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import pyte

REPOSITORY = Path(__file__).resolve().parents[1]
PATIENCE_SECONDS = 120.0
COLUMNS = 120
REST_SECONDS = 30.0
"""Time for the processes that a program started to close the terminal too."""
RAIDLAB = "import sys; from lab.cli.main import run; sys.exit(run())"
TAKES_CONTROL = "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
"""A shell gives a command its terminal, so that closing the window reaches it."""


def command(code: str, *words: str) -> list[str]:
    return [sys.executable, "-c", code, *words]


class Window:
    """``output`` is all that the program has written; ``settings`` are those of the line before it began."""

    def __init__(
        self,
        argv: Sequence[str],
        state: Path | None = None,
        *,
        rows: int = 40,
        folder: Path = REPOSITORY,
        environment: Mapping[str, str] | None = None,
        has_echo: bool = True,
        term: str = "xterm-256color",
        passed: Sequence[int] = (),
    ) -> None:
        """``state`` is the lab's folder; ``environment`` takes the place of this process's.

        ``passed``: descriptors that the program gets.
        """
        self.ours, theirs = pty.openpty()
        termios.tcsetwinsize(theirs, (rows, COLUMNS))
        self.settings = termios.tcgetattr(theirs)
        if not has_echo:
            self.settings[3] &= ~termios.ECHO
            termios.tcsetattr(theirs, termios.TCSANOW, self.settings)
        own = {"RAIDLAB_STATE": str(state), "RAIDLAB_CONFIG": str(state)} if state else {}
        self.process = subprocess.Popen(
            argv,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            pass_fds=passed,
            cwd=folder,
            env={**(os.environ if environment is None else environment), **own, "TERM": term},
        )
        os.close(theirs)
        self.output = b""
        self._screen = pyte.Screen(COLUMNS, rows)
        self._stream = pyte.ByteStream(self._screen)
        self._drawn = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.kill()

    def type(self, keys: str | bytes) -> None:
        os.write(self.ours, keys.encode() if isinstance(keys, str) else keys)

    def take(self, seconds: float) -> bool:
        """Read what is written within this time; False: no process has the terminal open."""
        if select.select([self.ours], [], [], max(0.0, seconds))[0]:
            try:
                self.output += os.read(self.ours, 1 << 16)
            except OSError:
                # No process has the terminal open: the kernel reports an error, not an end.
                return False
        return True

    def read(self, seconds: float, until: Callable[[], object] = lambda: False) -> None:
        """Read for this time, or until it is reached; a full terminal would block its program."""
        end = time.monotonic() + seconds
        while not until() and (left := end - time.monotonic()) > 0:
            if not self.take(min(left, 0.1)):
                time.sleep(min(left, 0.05))

    def until(self, is_reached: Callable[[], object], what: str, seconds: float = PATIENCE_SECONDS) -> None:
        self.read(seconds, is_reached)
        assert is_reached(), f"never: {what}; the terminal shows {self.output[-2000:]!r}"

    def shows(self, words: bytes) -> None:
        self.until(lambda: words in self.output, repr(words))

    @property
    def text(self) -> str:
        self._stream.feed(self.output[self._drawn :])
        self._drawn = len(self.output)
        return "\n".join(self._screen.display)

    def end(self, seconds: float = PATIENCE_SECONDS) -> int:
        """The exit status; what is still printed is kept."""
        self.until(lambda: self.process.poll() is not None, "the program ends", seconds)
        self.read_rest()
        return self.process.wait()

    def read_rest(self) -> None:
        """Read until no process has the terminal open; what was written before can still be read."""
        end = time.monotonic() + REST_SECONDS
        while self.take(end - time.monotonic()) and time.monotonic() < end:
            pass

    def assert_restored(self) -> None:
        """As it was before: modes of the line, the usual screen, a cursor, no reports of the mouse."""
        assert termios.tcgetattr(self.ours) == self.settings
        for mode, wanted in ((1049, b"l"), (25, b"h"), (1000, b"l"), (1003, b"l"), (2004, b"l")):
            switches = re.findall(rb"\x1b\[\?%d([hl])" % mode, self.output)
            assert switches, mode
            assert switches[-1] == wanted, mode

    def close(self) -> None:
        if self.ours >= 0:
            os.close(self.ours)
            self.ours = -1

    def kill(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.close()
