"""Filters terminal input before it is parsed: it passes complete keys and mouse reports, and pastes as plain text.

A paste may contain any character and may never end; a terminal, or a program that writes to it, may send sequences of
any length. Sequences that are not keys are dropped, long ones are truncated, and incomplete ones are discarded after a
period without input.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

ESC = "\x1b"
MOST_PASTED = 64 * 1024
"""Maximum number of characters of one paste."""
MOST_KEYS = 256
"""Maximum number of characters for keys in one read, more than a user can type."""

MOST_MOUSE = 32
"""Maximum number of mouse reports in one read; successive motion reports count as one."""
ESCAPE_SECONDS = 0.1
"""Without input for this long, a single ESC is the key Escape, and an incomplete sequence is discarded."""
PASTE_SECONDS = 1.0
"""Without input for this long, a paste has ended even without its end sequence."""
FEWEST_COLUMNS, FEWEST_ROWS = 20, 5
"""Minimum size for the layout; a smaller window shows part of it. Textual and rich fail if a widget has no room."""
MOST_COLUMNS, MOST_ROWS = 1000, 500
"""Maximum size for the layout, also in larger windows: each cell costs memory and time."""
_PASTE_START, _PASTE_END = "\x1b[200~", "\x1b[201~"
_MOST_SEQUENCE = 32
# Keys of the Linux console and of rxvt; X10 mouse reports of three bytes; control sequences of ECMA-48.
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
    """A paste without control characters; ``cut`` is the number of characters dropped because it was too long."""

    text: str
    cut: int


class InputGate:
    """The filter. ``feed`` handles input, ``tick`` the time without input; both return text and pastes, in order."""

    def __init__(self) -> None:
        self._held = ""
        """The start of a sequence whose remainder may still arrive."""
        self._paste: list[str] | None = None
        self._pasted = self._cut = 0
        self._skipped = ""
        """What is being dropped up to its end: ``string``, ``sequence``, or empty."""
        self._heard = 0.0
        self._out: list[str | Pasted] = []
        self._keys = self._mouse = 0
        self._was_motion = False
        self.dropped = 0
        """Total number of characters dropped because of ``most_keys``."""

    @property
    def is_waiting(self) -> bool:
        """Whether ``tick`` has anything to do."""
        return bool(self._held or self._skipped) or self._paste is not None

    def feed(self, text: str, now: float, *, most_keys: int = MOST_KEYS) -> list[str | Pasted]:
        """Filter the text that was read at ``now``, in seconds of a monotonic clock."""
        data, self._held, self._heard = self._held + text, "", now
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
        """Handle a period without input up to ``now``, in seconds of the same clock."""
        silent = now - self._heard
        if self._paste is not None and silent >= PASTE_SECONDS:
            # The held text may have been the start of the end sequence.
            self._held = ""
            self._end_paste()
        elif self._paste is None and silent >= ESCAPE_SECONDS:
            self._skipped = ""
            # The key Escape, or Alt with a key with which sequences begin.
            if len(self._held) <= 2:
                self._out.append(self._held)
            self._held = ""
        return self._taken()

    def _taken(self) -> list[str | Pasted]:
        taken, self._out = [each for each in self._out if each], []
        return taken

    def _plain(self, text: str) -> None:
        self._was_motion = False
        kept = text[: self._keys]
        self._keys -= len(kept)
        self.dropped += len(text) - len(kept)
        self._out.append(kept)

    def _sequence(self, data: str, at: int) -> int:
        """Handle the sequence that begins at ``at``; returns its end."""
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
        elif all(_is_character(int(number)) for number in _NUMBERS.findall(sequence)):
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
            kept = next((n for n in range(len(_PASTE_END) - 1, 0, -1) if data.endswith(_PASTE_END[:n])), 0)
            kept = min(kept, len(data) - at)
            self._held = data[len(data) - kept :] if kept else ""
            self._add(data[at : len(data) - kept])
            return len(data)
        self._add(data[at:end])
        end += len(_PASTE_END)
        # The paste may contain an end sequence: of two without a start between them, the second is the terminal's.
        again, start = data.find(_PASTE_END, end), data.find(_PASTE_START, end)
        if again < 0 or 0 <= start < again:
            self._end_paste()
        return end

    def _add(self, text: str) -> None:
        assert self._paste is not None
        clean = _UNFIT.sub("", text)
        kept = clean[: MOST_PASTED - self._pasted]
        self._pasted += len(kept)
        self._cut += len(clean) - len(kept)
        if kept:
            self._paste.append(kept)

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


def _is_character(number: int) -> bool:
    return number <= 0x10FFFF and not 0xD800 <= number <= 0xDFFF
