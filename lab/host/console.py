"""The user's terminal: read key by key while another program draws on it, and restored afterwards."""

from __future__ import annotations

import os
import re
import select
import signal
import termios
import threading
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_READ_BYTES = 65536
_ALTERNATE = re.compile(rb"\x1b\[\?(?:1049|1047|47)([hl])")
# Default keys, no mouse, no bracketed paste, visible cursor, default colours (xterm, Control Sequences).
_USUAL = b"\x1b[?1l\x1b>\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?25h\x1b[0m"
_FIRST_SCREEN = b"\x1b[?1049l"
USUAL_MODES = _FIRST_SCREEN + _USUAL
"""Resets a terminal after a program that could not restore it."""


class Console:
    """Standard input and output in raw mode. Call ``show`` and ``end`` from any thread, the rest from one."""

    def __init__(self) -> None:
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_resized = False
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self.is_on_second_screen = False
        """Whether the output has switched to the alternate screen, as editors and pagers do."""

    def size(self) -> tuple[int, int]:
        """Return columns and rows. Raises OSError if the terminal is gone."""
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
        """Handle SIGWINCH: the window's size has changed."""
        self._is_resized = True
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Stop all output and close the event descriptor."""
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
                # The program that drew had no time to restore the terminal.
                os.write(1, _FIRST_SCREEN * console.is_on_second_screen + _USUAL + b"\r\n")
            termios.tcsetattr(0, termios.TCSADRAIN, before)
        except (OSError, termios.error):
            # The window has been closed: there is nothing to restore.
            pass
