"""Standard input, output and error.

Guarantee: all three are open, so no other file takes their descriptors, and a stream that cannot be written to ends the
command with a sentence, or silently where no user could read it.
"""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from typing import IO

from lab.errors import BrokenOutput
from lab.host.files import advice, require_kept

_OUTPUT, _ERROR = 1, 2


class _Guarded(io.FileIO):
    """A descriptor that discards all output after its first error."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)

    def write(self, data: object) -> int:
        """Raises BrokenPipeError or BrokenOutput, for stdout only: a broken stderr cannot be reported anywhere."""
        while True:
            try:
                written = super().write(data)  # type: ignore[arg-type]
            except OSError as error:
                give_up(self.fileno())
                if self.fileno() == _ERROR:
                    return memoryview(data).nbytes  # type: ignore[arg-type]
                if isinstance(error, BrokenPipeError):
                    raise
                raise _lost(error) from None
            if written is not None:
                return written
            # The pipe has been made non-blocking, and its reader is slow.
            select.select([], [self], [])


def _lost(error: OSError) -> BrokenOutput:
    is_closed = error.errno == errno.EBADF
    otherwise = "it is closed: send it to a file, a pipe or /dev/null" if is_closed else "look at where it is sent to"
    return BrokenOutput(f"standard output cannot be written: {error.strerror}", hint=advice(error, otherwise))


def finish() -> None:
    """Flush standard output and verify that all of it was written. Raises BrokenOutput, BrokenPipeError."""
    sys.stdout.flush()
    try:
        require_kept(_OUTPUT)
    except OSError as error:
        give_up(_OUTPUT)
        raise _lost(error) from None


def prepare() -> None:
    """Open closed streams as /dev/null at the start of a process, as after ``</dev/null 2>/dev/null``.

    Only a closed standard output is opened read-only: printing then fails, as in coreutils, since a caller may wait for
    the output.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError as error:
            if error.errno == errno.EBADF:
                # open(2) returns the lowest free descriptor.
                mode = os.O_RDONLY if descriptor == _OUTPUT else os.O_RDWR
                os.set_inheritable(os.open(os.devnull, mode), True)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = _guarded(_OUTPUT, sys.stdout)
    sys.stderr = _guarded(_ERROR, sys.stderr)


def give_up(descriptor: int) -> None:
    """Send all further output on the descriptor to /dev/null."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _guarded(descriptor: int, stream: IO[str] | None) -> io.TextIOWrapper:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    raw = _Guarded(descriptor)
    # A character that the terminal's encoding lacks is written as an escape.
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=raw.isatty())
