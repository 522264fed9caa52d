"""Textual's terminal driver, hardened against terminals that send arbitrary data, accept no output, or disappear.

``InputGate`` filters input before it is parsed. It passes complete keys and mouse reports, and pastes as plain text. A
paste may contain any character and may never end. A terminal, or a program that writes to it, may send sequences of any
length. Sequences that are not keys or are too long are dropped, long pastes are truncated, and incomplete sequences are
discarded after some time without input.
"""

from __future__ import annotations

import os
import re
import select
import termios
import threading
from codecs import getincrementaldecoder
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from lab.host import signals
from lab.host.clock import HostClock
from lab.host.streams import USUAL_MODES
from tui.base_app import BaseApp

ESC = "\x1b"
MOST_PASTED = 64 * 1024
"""Maximum number of characters of one paste."""
MOST_KEYS = 256
"""Maximum number of characters for keys in one read, which is more than a user can type."""

MOST_MOUSE = 32
"""Maximum number of mouse reports in one read. Successive motion reports count as one."""
ESCAPE_SECONDS = 0.1
"""Without input for this long, a single ESC is the key Escape, and an incomplete sequence is discarded."""
PASTE_SECONDS = 1.0
"""Without input for this long, a paste has ended even without its end sequence."""
FEWEST_COLUMNS, FEWEST_ROWS = 20, 5
"""Minimum size for the layout. A smaller window shows part of it, since Textual and rich fail without any room."""
MOST_COLUMNS, MOST_ROWS = 1000, 500
"""Maximum size for the layout, even in larger windows, because each cell costs memory and time."""
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
_MOST_SEQUENCE = 32
# These are keys of the Linux console and rxvt, X10 mouse reports of three bytes, and control sequences of ECMA-48.
_CONTROL = re.compile(r"\x1b\[(?:\[[A-E]|[0-9]{1,2}\$(?=[^y])|M[^\x1b]{3}|(?![M\[])[0-?]*[ -/]*[@-~])")
_UNFINISHED = re.compile(r"\x1b(?:\[(?:\[|M[^\x1b]{0,2}|[0-?]*[ -/]*)?|O[0-9;]*)?\Z")
_THREE = re.compile(r"\x1bO[0-9;]{0,4}[ -~]")
_STRING = re.compile(r"\x1b[]PX^_]")
_STRING_END = re.compile(r"[\x07\x18\x1a\x9c]|\x1b\\")
_MOUSE = re.compile(r"\x1b\[<([0-9]+);-?[0-9]+;-?[0-9]+[Mm]")
_SIZE = re.compile(r"\x1b\[48;([0-9]+)[0-9:]*;([0-9]+)[0-9:]*;([0-9]+)[0-9:]*;([0-9]+)[0-9:]*t")
_NUMBERS = re.compile(r"[0-9]+")
_UNFIT = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]+")
_MOTION, _ANY_BUTTON = 32, 3


@dataclass(frozen=True, slots=True)
class Pasted:
    """A paste without control characters. ``cut`` is the number of characters dropped because it was too long."""

    text: str
    cut: int


class InputGate:
    """The filter. ``feed`` handles input, and ``tick`` handles pauses. Both return text and pastes, in order."""

    def __init__(self) -> None:
        self._held = ""
        """The start of a sequence whose remainder may still arrive."""
        self._paste: list[str] | None = None
        self._pasted = self._cut = 0
        self._skipped = ""
        """What is being dropped until its end, ``string`` or ``sequence``; empty if nothing is."""
        self._received_seconds = 0.0
        self._out: list[str | Pasted] = []
        self._keys = self._mouse = 0
        self._was_motion = False

    @property
    def is_waiting(self) -> bool:
        """Whether ``tick`` has anything to do."""
        return bool(self._held or self._skipped) or self._paste is not None

    def feed(self, text: str, now: float, *, most_keys: int = MOST_KEYS) -> list[str | Pasted]:
        """Filter the text that was read at ``now``, in seconds of a monotonic clock."""
        data, self._held, self._received_seconds = self._held + text, "", now
        self._keys, self._mouse, self._was_motion = most_keys, MOST_MOUSE, False
        at = 0
        while at < len(data):
            if self._paste is not None:
                at = self._go_on_pasting(data, at)
            elif self._skipped:
                at = self._skip(data, at)
            elif data[at] == ESC:
                at = self._sequence(data, at)
            else:
                end = data.find(ESC, at)
                end = len(data) if end < 0 else end
                self._plain(data[at:end])
                at = end
        return self._taken()

    def tick(self, now: float) -> list[str | Pasted]:
        """Handle a period without input that ends at ``now``, in seconds of the same clock."""
        silent = now - self._received_seconds
        if self._paste is not None and silent >= PASTE_SECONDS:
            # The held text may have been the beginning of an end sequence.
            self._held = ""
            self._end_paste()
        elif self._paste is None and silent >= ESCAPE_SECONDS:
            self._skipped = ""
            # This is Escape, or Alt with a key whose character begins a sequence.
            if len(self._held) <= 2:
                self._out.append(self._held)
            self._held = ""
        return self._taken()

    def _taken(self) -> list[str | Pasted]:
        taken, self._out = [each for each in self._out if each], []
        return taken

    def _plain(self, text: str) -> None:
        self._was_motion = False
        accepted = text[: self._keys]
        self._keys -= len(accepted)
        self._out.append(accepted)

    def _sequence(self, data: str, at: int) -> int:
        """Handle the sequence that begins at ``at``, and return its end."""
        if found := _CONTROL.match(data, at):
            self._control(found[0])
            return found.end()
        if found := _THREE.match(data, at):
            self._plain(found[0])
            return found.end()
        if _UNFINISHED.match(data, at):
            if len(data) - at <= _MOST_SEQUENCE:
                self._held = data[at:]
            else:
                self._skipped = "sequence"
            return len(data)
        if found := _STRING.match(data, at):
            if found.end() == len(data):
                # Alt with this key sends the same characters.
                self._held = found[0]
            else:
                self._skipped = "string"
            return found.end()
        if data[at + 1] in "[O":
            # The sequence ended at a character that is not allowed in one.
            return at + len(re.compile(r"\x1b.[ -?]*").match(data, at)[0])  # type: ignore[index]
        length = 1 if data[at + 1] == ESC else 2
        self._plain(data[at : at + length])
        return at + length

    def _control(self, sequence: str) -> None:
        if sequence == _PASTE_START:
            self._paste, self._pasted, self._cut = [], 0, 0
        elif len(sequence) > _MOST_SEQUENCE or sequence == _PASTE_END or sequence.startswith("\x1b[M"):
            pass
        elif found := _MOUSE.fullmatch(sequence):
            self._mouse_report(sequence, int(found[1][:9]))
        elif found := _SIZE.fullmatch(sequence):
            self._size(*(int(number) for number in found.groups()))
        elif all(
            number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF for number in map(int, _NUMBERS.findall(sequence))
        ):
            # Textual interprets the numbers as code points.
            self._plain(sequence)

    def _mouse_report(self, sequence: str, button: int) -> None:
        is_motion = bool(button & _MOTION) and button & _ANY_BUTTON == _ANY_BUTTON
        if is_motion and self._was_motion:
            # Only the last position of the pointer matters.
            self._out[-1] = sequence
        elif self._mouse:
            self._mouse -= 1
            self._out.append(sequence)
        self._was_motion = is_motion

    def _size(self, rows: int, columns: int, high: int, wide: int) -> None:
        if rows and columns:
            rows, columns = min(rows, MOST_ROWS), min(columns, MOST_COLUMNS)
            self._out.append(f"\x1b[48;{rows};{columns};{min(high, 99999) or rows};{min(wide, 99999) or columns}t")

    def _go_on_pasting(self, data: str, at: int) -> int:
        end = data.find(_PASTE_END, at)
        if end < 0:
            # The end sequence may have arrived in part.
            partial = next((n for n in range(len(_PASTE_END) - 1, 0, -1) if data.endswith(_PASTE_END[:n])), 0)
            partial = min(partial, len(data) - at)
            self._held = data[len(data) - partial :] if partial else ""
            self._add(data[at : len(data) - partial])
            return len(data)
        self._add(data[at:end])
        end += len(_PASTE_END)
        # The pasted text may contain an end sequence. Of two with no start between them, the second is the terminal's.
        again, start = data.find(_PASTE_END, end), data.find(_PASTE_START, end)
        if again < 0 or 0 <= start < again:
            self._end_paste()
        return end

    def _add(self, text: str) -> None:
        assert self._paste is not None
        clean = _UNFIT.sub("", text)
        accepted = clean[: MOST_PASTED - self._pasted]
        self._pasted += len(accepted)
        self._cut += len(clean) - len(accepted)
        if accepted:
            self._paste.append(accepted)

    def _end_paste(self) -> None:
        text, self._paste = "".join(self._paste or ()), None
        if text:
            self._out.append(Pasted(text, self._cut))

    def _skip(self, data: str, at: int) -> int:
        if self._skipped == "string":
            found = _STRING_END.search(data, at)
            if found is None:
                # ESC and backslash may arrive in different reads.
                self._held = ESC if data.endswith(ESC) else ""
                return len(data)
            self._skipped = ""
            return found.end()
        end = next((place for place in range(at, len(data)) if not " " <= data[place] <= "?"), len(data))
        if end == len(data):
            return end
        self._skipped = ""
        return end + ("@" <= data[end] <= "~")


_MOST_WAITING_BYTES = 2**20
"""Maximum number of bytes that wait for the terminal. Beyond that, frames are dropped."""
_PIECE_BYTES = 4096
_CLOSING_SECONDS = 0.5
_READ_BYTES = 64 * 1024
_MOST_EVENTS = 8
"""Maximum number of events that wait for the app. Beyond that, no input is read."""
_POLL_SECONDS = 0.1
_FEW_PASTED = 4 * 1024
_KITTY_OFF, _SYNC_OFF = "\x1b[<u", "\x1b[?2026l"


class Output:
    """Writes to the terminal on a separate thread. If the terminal accepts no output, frames are dropped.

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
        """Queue text for the terminal, or drop it. This never blocks, and any thread may call it."""
        data = text.encode("utf-8", "replace")
        with self._changed:
            if self._is_over or not data:
                return
            # A single waiting frame of any size is within the limit, because the text that ends it must be queued too.
            if self._waiting_bytes > _MOST_WAITING_BYTES + self._largest_bytes:
                self._is_behind = True
                return
            self._largest_bytes = max(self._largest_bytes, len(data))
            self._pieces.append(data)
            self._waiting_bytes += len(data)
            self._changed.notify_all()

    def close(self, seconds: float = _CLOSING_SECONDS) -> None:
        """Wait at most ``seconds`` until everything is written. Later text is discarded."""
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
        # Ignore unsolicited size reports, because any program could send one, for a window of a million cells.
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
                self.exit_event.wait(_POLL_SECONDS / 10)
                continue
            if poll.poll(_POLL_SECONDS * 1000 / (2 if gate.is_waiting else 1)):
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
        """Return all available input, up to about ``_READ_BYTES``, or nothing if the terminal is lost."""
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
        """Pass on one item, and return the parser for the next. A failed parser is replaced, so the app continues."""
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
            words = f"The paste was truncated to {most // 1024} KiB; use a file for larger texts."
            self._app.call_later(self._app.show_message, words)
        self.process_message(events.Paste(text))
