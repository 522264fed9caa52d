"""A student's terminal: a program on a pseudo-terminal, what it shows, and keys."""

from __future__ import annotations

import fcntl
import os
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

ROWS, COLUMNS = 36, 120
# Operating-system commands, control sequences, and the short ones that choose a character set.
_ESCAPES = re.compile(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b\[[0-?]*[ -/]*[@-~]|\x1b[ -/]*[0-~]")


@dataclass(slots=True)
class Terminal:
    """What has been shown so far is ``seen``, with the signs that place and colour it taken out."""

    process: subprocess.Popen[bytes]
    master: int
    raw: bytes = b""
    read_from: int = 0

    @property
    def seen(self) -> str:
        return _ESCAPES.sub(b"", self.raw[self.read_from :]).decode("utf-8", "replace")

    def wait_for(self, *words: str, seconds: float = 120) -> None:
        """Until all of these have been shown since the last keys; fails the test with what was shown instead."""
        deadline = time.monotonic() + seconds
        while not all(word in self.seen for word in words):
            left = deadline - time.monotonic()
            assert left > 0, f"{words} did not appear within {seconds:.0f} s; there was:\n{self.seen[-4000:]}"
            self._read(left)

    def send(self, keys: str) -> None:
        self.read_from = len(self.raw)
        os.write(self.master, keys.encode())

    def end(self, seconds: float = 60) -> int:
        """The program's status, once it has ended by itself."""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None:
            assert time.monotonic() < deadline, (
                f"it did not end within {seconds:.0f} s; there was:\n{self.seen[-4000:]}"
            )
            self._read(0.2)
        return self.process.returncode

    def _read(self, seconds: float) -> None:
        if select.select([self.master], [], [], min(seconds, 1.0))[0]:
            try:
                self.raw += os.read(self.master, 65536)
            except OSError:
                # Nobody holds the other side any more.
                time.sleep(0.05)


@contextmanager
def terminal(argv: Sequence[str], environment: Mapping[str, str]) -> Iterator[Terminal]:
    """Start a program on a terminal of its own, and end it with the block."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        argv,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**environment, "TERM": "xterm-256color"},
        start_new_session=True,
    )
    os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)
