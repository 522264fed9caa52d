"""Textual's terminal driver, hardened against terminals that send arbitrary data, accept no output, or disappear."""

from __future__ import annotations

import os
import select
import termios
import threading
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver

from lab.host import signals
from lab.host.clock import HostClock
from lab.host.streams import USUAL_MODES
from tui.input_gate import ESC, MOST_PASTED, InputGate, Pasted

if TYPE_CHECKING:
    from textual.message import Message

    from tui.base_app import BaseApp

_MOST_WAITING_BYTES = 2**20
"""Maximum number of bytes that wait for the terminal; beyond that, frames are dropped."""
_PIECE_BYTES = 4096
_CLOSING_SECONDS = 0.5
_READ_BYTES = 64 * 1024
_MOST_EVENTS = 8
"""Maximum number of events that wait for the app; beyond that, no input is read."""
_LOOK_SECONDS = 0.1
_FEW_PASTED = 4 * 1024
_KITTY_OFF, _SYNC_OFF = "\x1b[<u", "\x1b[?2026l"


class Output:
    """Writes to the terminal on a thread of its own. If the terminal accepts no output, frames are dropped.

    Args:
        descriptor: the file descriptor of the terminal.
        on_caught_up: called on that thread when everything has been written after frames were dropped.
    """

    def __init__(self, descriptor: int, on_caught_up: Callable[[], object]) -> None:
        self._descriptor = descriptor
        self._on_caught_up = on_caught_up
        self._pieces: deque[bytes] = deque()
        self._waiting_bytes = self._largest_bytes = 0
        self._is_behind = self._is_over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write_all, name="terminal output", daemon=True)
        self._thread.start()

    def write(self, text: str) -> None:
        """Queue text for the terminal, or drop it. Any thread may call this; it never blocks."""
        data = text.encode("utf-8", "replace")
        with self._changed:
            if self._is_over or not data:
                return
            # A single waiting frame of any size is within the limit: the text that ends it must be queued too.
            if self._waiting_bytes > _MOST_WAITING_BYTES + self._largest_bytes:
                self._is_behind = True
                return
            self._largest_bytes = max(self._largest_bytes, len(data))
            self._pieces.append(data)
            self._waiting_bytes += len(data)
            self._changed.notify_all()

    def close(self, seconds: float = _CLOSING_SECONDS) -> None:
        """Wait for at most ``seconds`` until everything is written; later text is discarded."""
        with self._changed:
            self._changed.wait_for(lambda: not self._waiting_bytes, timeout=seconds)
            self._is_over = True
            self._changed.notify_all()

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._pieces or self._is_over)
                if self._is_over:
                    return
                data = b"".join(self._pieces)
                self._pieces.clear()
            try:
                for start in range(0, len(data), _PIECE_BYTES):
                    piece = data[start : start + _PIECE_BYTES]
                    while piece:
                        piece = piece[os.write(self._descriptor, piece) :]
            except OSError:
                self.close(0.0)
                signals.terminal_is_lost()
                return
            with self._changed:
                self._waiting_bytes -= len(data)
                is_late, self._is_behind = self._is_behind and not self._pieces, self._is_behind and bool(self._pieces)
                self._changed.notify_all()
            if is_late:
                self._on_caught_up()


class TerminalDriver(LinuxDriver):
    """A driver that reads through ``InputGate``, as fast as the app handles events, and writes through ``Output``."""

    _app: BaseApp

    def __init__(self, app: Any, **options: Any) -> None:
        super().__init__(app, **options)
        drawn_on = next((each for each in (2, 1) if os.isatty(each)), 2)
        self._output = Output(drawn_on, self._caught_up)
        self._clock = HostClock()
        self._before: list[Any] | None = None
        with suppress(termios.error):
            self._before = termios.tcgetattr(self.fileno)
        self._drawn_on = drawn_on
        self._forget = signals.at_worst(self._restore)

    def write(self, data: str) -> None:
        self._output.write(data)

    def process_message(self, message: Message) -> None:
        # Ignore unsolicited size reports: any program could send one, for a window of a million cells.
        if not isinstance(message, events.Resize) or self._in_band_window_resize:
            super().process_message(message)

    def close(self) -> None:
        super().close()
        self._output.close()
        self._forget()

    def resume_application_mode(self) -> None:
        """Open a new ``Output`` when the app continues after Ctrl-Z."""
        self._output = Output(self._drawn_on, self._caught_up)
        super().resume_application_mode()

    def _restore(self, _seconds: float) -> None:
        """Restore the terminal's modes if the app could not do so. Never blocks."""
        if self._before is not None:
            termios.tcsetattr(self.fileno, termios.TCSANOW, self._before)
        if select.select([], [self._drawn_on], [], 0)[1]:
            os.write(self._drawn_on, _KITTY_OFF.encode() + USUAL_MODES)

    def _caught_up(self) -> None:
        self.write(_SYNC_OFF)
        self._app.call_later(self._app.refresh)

    def run_input_thread(self) -> None:
        """Read input until ``exit_event`` is set or the terminal is lost."""
        poll = select.poll()
        poll.register(self.fileno, select.POLLIN)
        gate, parser, decode = InputGate(), XTermParser(self._debug), getincrementaldecoder("utf-8")("replace").decode
        while not self.exit_event.is_set():
            if not self._has_room():
                self.exit_event.wait(_LOOK_SECONDS / 10)
                continue
            if poll.poll(_LOOK_SECONDS * 1000 / (2 if gate.is_waiting else 1)):
                data = self._read_all(poll)
                if not data:
                    signals.terminal_is_lost()
                    return
                limit = {"most_keys": _READ_BYTES} if self._app.is_typing_on_machine else {}
                items = gate.feed(decode(data), self._clock.monotonic_seconds(), **limit)
            else:
                items = gate.tick(self._clock.monotonic_seconds())
            for item in items:
                parser = self._hand_over(item, parser)
            self._send_all(parser.tick())

    def _read_all(self, poll: select.poll) -> bytes:
        """All available input, up to about ``_READ_BYTES``; empty if the terminal is lost."""
        data = b""
        try:
            while len(data) < _READ_BYTES:
                some = os.read(self.fileno, _READ_BYTES)
                data += some
                if not some or not poll.poll(0):
                    break
        except OSError:
            pass
        return data

    def _has_room(self) -> bool:
        """Whether the app has handled most events. The app changes concurrently, so the answer is approximate."""
        try:
            pumps = (self._app, self._app.screen, self._app.focused)
            return sum(pump.message_queue_size for pump in pumps if pump) < _MOST_EVENTS
        except Exception:
            return True

    def _hand_over(self, item: str | Pasted, parser: XTermParser) -> XTermParser:
        """Pass on one item; returns the parser for the next. A failed parser is replaced, so that the app continues."""
        if isinstance(item, Pasted):
            self._paste(item)
        elif item == ESC:
            # The gate has already waited for the rest of a sequence.
            self.process_message(events.Key("escape", ESC))
        else:
            try:
                self._send_all(parser.feed(item))
            except Exception:
                return XTermParser(self._debug)
        return parser

    def _send_all(self, messages: Any) -> None:
        message: Message
        for message in messages:
            self.process_message(message)

    def _paste(self, pasted: Pasted) -> None:
        most = MOST_PASTED if self._app.is_typing_on_machine else _FEW_PASTED
        text = pasted.text[:most]
        if len(text) < len(pasted.text) or pasted.cut:
            words = f"The paste was cut after {most // 1024} KiB. Larger texts belong into a file."
            self._app.call_later(self._app.say, words)
        self.process_message(events.Paste(text))
