"""Somebody who sits at ``raidlab --text``: a process in a terminal of its own, lines typed, and what it says read."""

from __future__ import annotations

import codecs
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kernel.place import kernel_target
from tests.window import RAIDLAB, Window, command

_LONGEST_LINE = 4095
"""Of a line with its newline that a terminal takes: termios(3), canonical mode."""
_LEAVING_SECONDS = 60.0
_STILL_RUNS = "not run: the previous command is still running"


class TextUser:
    """``with TextUser(state) as user: user.hear("is running."); user.type("b")``."""

    def __init__(self, state: Path, *, patience_seconds: float = 180.0) -> None:
        self._patience_seconds = patience_seconds
        self.said = ""
        self._heard = 0
        self._lines_run = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # Without the terminal's echo nobody takes what was typed for what was said.
        argv = command(RAIDLAB, "--text", "--on", kernel_target().text)
        self._window = Window(argv, state, has_echo=False, term="dumb")
        self._process = self._window.process
        self._decoded = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self._process.terminate()
        self.leave()
        self._window.close()

    def type(self, line: str) -> None:
        """A line and Enter."""
        data = f"{line}\n".encode()
        assert len(data) <= _LONGEST_LINE, f"no terminal takes such a line: {line}"
        assert "\n" not in line, line
        self._window.type(data)

    def hear(self, *words: str) -> str:
        """Wait until one of these is said, after what was heard before; returns which."""
        deadline = time.monotonic() + self._patience_seconds
        while not (found := self._first(words)):
            assert time.monotonic() < deadline, f"never: {words}; said: {self.said}"
            assert self._read(0.1), f"it has ended without {words}; said: {self.said}"
        self._heard, word = found
        return word

    def run(self, line: str) -> None:
        """A line for the machine's shell; waits until it has ended."""
        self._lines_run += 1
        # The shell reckons: the line that is repeated before it runs does not say so.
        line = f"{line}; echo ended-$(({self._lines_run} + 1000))"
        self.type(f"! {line}")
        # The one before has said its last word, but what it leaves to the next is still being kept.
        while self.hear(f"# {line}\n", _STILL_RUNS) == _STILL_RUNS:
            time.sleep(0.1)
            self.type(f"! {line}")
        self.hear(f"ended-{self._lines_run + 1000}\n")

    def leave(self) -> int:
        """``q``, unless it is leaving already; returns the exit status."""
        if self._process.poll() is None:
            self.type("q")
        deadline = time.monotonic() + _LEAVING_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            self._read(0.1)
        self._process.kill()
        return self._process.wait()

    def _first(self, words: tuple[str, ...]) -> tuple[int, str] | None:
        """Where the earliest of them ends."""
        places = [(self.said.find(word, self._heard), word) for word in words]
        there = [(place + len(word), word) for place, word in places if place >= 0]
        return min(there) if there else None

    def _read(self, seconds: float) -> bool:
        """What it says within this time; False: nobody is there any more."""
        is_there = self._window.take(seconds)
        self.said += self._decoder.decode(self._window.output[self._decoded :]).replace("\r\n", "\n")
        self._decoded = len(self._window.output)
        return is_there
