"""Standard input, output and error.

The promise: they are there, so nothing else that is opened takes their place, and one that cannot be written on ends
the command with a sentence, or with nothing where nobody could read it.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import IO

from lab.errors import OutputLost
from lab.host.files import advice

_OUTPUT, _ERROR = 1, 2


class _Guarded(io.FileIO):
    """A descriptor on which nothing is written any more after it has failed once."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)

    def write(self, data: object) -> int:
        """Raises BrokenPipeError, or OutputLost, for standard output alone: of standard error nobody could be told."""
        while True:
            try:
                written = super().write(data)  # type: ignore[arg-type]
            except OSError as error:
                give_up(self.fileno())
                if self.fileno() == _ERROR:
                    return memoryview(data).nbytes  # type: ignore[arg-type]
                if isinstance(error, BrokenPipeError):
                    raise
                hint = advice(error, "look at where it is sent to")
                raise OutputLost(f"standard output cannot be written: {error.strerror}", hint=hint) from None
            if written is not None:
                return written
            # A pipe that somebody made non-blocking, and its reader is slow.
            select.select([], [self], [])


def prepare() -> None:
    """At the start of a process. What was closed is /dev/null from here on, as after ``>/dev/null``."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError as error:
            if error.errno == errno.EBADF:
                # open(2) gives the lowest number that is free.
                os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = _guarded(_OUTPUT, sys.stdout)
    sys.stderr = _guarded(_ERROR, sys.stderr)


def give_up(descriptor: int) -> None:
    """Whatever else is written there goes nowhere."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _guarded(descriptor: int, stream: IO[str] | None) -> io.TextIOWrapper:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    raw = _Guarded(descriptor)
    # A character that the terminal does not have is written out.
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=raw.isatty())
