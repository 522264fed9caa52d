"""Guard standard input, output and error, and use the user's terminal in raw mode.

This module guarantees that all three streams are open, so that no other file gets their descriptors. A stream that
cannot be written to ends the command with a message, or silently if no user could read a message. A terminal that is
read key by key while another program draws on it is always restored.
"""

from __future__ import annotations

import errno
import io
import os
import re
import select
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import IO

from lab.errors import BrokenOutput
from lab.host.files import advice, require_written

_OUTPUT, _ERROR = 1, 2


class _Guarded(io.FileIO):
    """A descriptor that discards all output after its first error."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(descriptor, "wb", closefd=False)

    def write(self, data: object) -> int:
        """Write data. Errors of stdout raise BrokenPipeError or BrokenOutput. A broken stderr cannot be reported."""
        while True:
            try:
                written = super().write(data)  # type: ignore[arg-type]
            except OSError as error:
                silence(self.fileno())
                if self.fileno() == _ERROR:
                    return memoryview(data).nbytes  # type: ignore[arg-type]
                if isinstance(error, BrokenPipeError):
                    raise
                raise _lost(error) from None
            if written is not None:
                return written
            # The pipe is non-blocking, and its reader is slow.
            select.select([], [self], [])


def _lost(error: OSError) -> BrokenOutput:
    is_closed = error.errno == errno.EBADF
    otherwise = "it is closed; redirect it to a file or /dev/null" if is_closed else "check where it goes"
    return BrokenOutput(f"cannot write to standard output: {error.strerror}", hint=advice(error, otherwise))


def finish() -> None:
    """Flush standard output and verify that all of it was written. Raises BrokenOutput or BrokenPipeError."""
    sys.stdout.flush()
    try:
        require_written(_OUTPUT)
    except OSError as error:
        silence(_OUTPUT)
        raise _lost(error) from None


def prepare() -> None:
    """Open closed streams as /dev/null at the start of a process, the way ``</dev/null 2>/dev/null`` would.

    Only a closed standard output is opened read-only. Printing to it then fails, as it does in coreutils, because a
    caller may be waiting for the output.
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


def silence(descriptor: int) -> None:
    """Send all further output on the descriptor to /dev/null."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _guarded(descriptor: int, stream: IO[str] | None) -> io.TextIOWrapper:
    encoding = getattr(stream, "encoding", None) or "utf-8"
    raw = _Guarded(descriptor)
    # A character that is not in the terminal's encoding is written as an escape.
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", line_buffering=raw.isatty())


_READ_BYTES = 65536
_ALTERNATE = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])")
# Default keys, no mouse, no bracketed paste, visible cursor, default colours (xterm, Control Sequences).
_USUAL = b"\x1b[?1l\x1b>\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[0m"
_FIRST_SCREEN = b"\x1b[?1049l"
USUAL_MODES = _FIRST_SCREEN + _USUAL
"""The sequence that resets a terminal after a program that could not restore it."""


class Console:
    """Standard input and output in raw mode. Only ``show`` and ``end`` may be called from any thread."""

    def __init__(self) -> None:
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_resized = False
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self.is_on_second_screen = False
        """Whether the output has switched to the alternate screen, as editors and pagers do."""

    def size(self) -> tuple[int, int]:
        """Return the numbers of columns and rows. Raises OSError if the terminal is gone."""
        columns, rows = os.get_terminal_size(0)
        return max(columns, 1), max(rows, 1)

    def show(self, data: bytes) -> None:
        """Write all data, unless ``end`` was called. Raises OSError if the terminal is gone."""
        for found in _ALTERNATE.finditer(data):
            self.is_on_second_screen = found.group(1) == b"h"
        while data and not self._is_over.is_set():
            data = data[os.write(1, data) :]

    def end(self) -> None:
        """End the iteration of ``keys``, from any thread."""
        with self._lock:
            self._is_over.set()
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def keys(self, on_resize: Callable[[int, int], None]) -> Iterator[bytes]:
        """Yield typed input until ``end`` is called or the terminal is gone."""
        while not self._is_over.is_set():
            ready, _, _ = select.select([0, self._wake], [], [])
            if self._wake in ready:
                os.eventfd_read(self._wake)
                if self._is_resized:
                    self._is_resized = False
                    on_resize(*self.size())
            if 0 in ready:
                data = os.read(0, _READ_BYTES)
                if not data:
                    return
                yield data

    def on_winch(self, _number: int, _frame: FrameType | None) -> None:
        """Handle SIGWINCH, which means that the window's size has changed."""
        self._is_resized = True
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        with self._lock:
            self._is_over.set()
            os.close(self._wake)
            self._wake = -1


@contextmanager
def raw_console() -> Iterator[Console]:
    """Put standard input in raw mode and always restore it. Input and output must be terminals."""
    console, before = Console(), termios.tcgetattr(0)
    handler = signal.signal(signal.SIGWINCH, console.on_winch)
    is_whole = False
    try:
        tty.setraw(0)
        yield console
        is_whole = True
    finally:
        signal.signal(signal.SIGWINCH, handler)
        console.close()
        try:
            if not is_whole or console.is_on_second_screen:
                # The program that drew on the terminal had no time to restore it.
                os.write(1, _FIRST_SCREEN * console.is_on_second_screen + _USUAL + b"\r\n")
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        except (OSError, termios.error):
            # The window has been closed, so there is nothing to restore.
            pass
