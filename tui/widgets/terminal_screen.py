"""What a program on the machine has drawn: a screen of characters, a second one for editors, and lines gone by.

pyte keeps the characters; what it is told is read here. Its own reader fails on sequences that it does not know, and it
has no second screen. Whatever is not in the tables below is dropped, so nothing of it reaches the user's own terminal.
Source of the sequences: xterm, Control Sequences (ctlseqs), as far as terminfo's xterm-256color uses them.
"""

from __future__ import annotations

import codecs
import re
import threading
import unicodedata
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyte
from pyte.screens import Char, Margins, StaticDefaultDict
from wcwidth import wcwidth

KEPT_LINES = 2000
"""Lines that have gone by at the top."""
_MOST_HELD = 64 * 1024
_MOST = 9999
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|\x1b\[(?P<given>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, colours, the clipboard: none of a program's business
    r"|\x1b[ -/]+[0-~]"
    r"|\x1b(?P<escape>[0-OQ-WYZ`-~=>])"
    r"|(?P<control>[\x00-\x1a\x1c-\x1f\x7f-\x9f])"
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)\Z")
_NONSENSE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*|[ -/]*)")
_CONTROLS = {
    "\b": "backspace", "\t": "tab", "\n": "linefeed", "\v": "linefeed", "\f": "linefeed", "\r": "carriage_return",
}  # fmt: skip
_ESCAPES = {
    "c": "reset", "D": "index", "E": "next_line", "M": "reverse_index", "H": "set_tab_stop", "7": "save_cursor",
    "8": "restore_cursor",
}  # fmt: skip
# The last character of a sequence, what it does, and how many numbers it takes.
_SEQUENCES = {
    "@": ("insert_characters", 1), "A": ("cursor_up", 1), "B": ("cursor_down", 1), "C": ("cursor_forward", 1),
    "D": ("cursor_back", 1), "E": ("cursor_down1", 1), "F": ("cursor_up1", 1), "G": ("cursor_to_column", 1),
    "H": ("cursor_position", 2), "I": ("tab_on", 1), "J": ("erase_in_display", 1), "K": ("erase_in_line", 1),
    "L": ("insert_lines", 1), "M": ("delete_lines", 1), "P": ("delete_characters", 1), "S": ("scroll_up", 1),
    "T": ("scroll_down", 1), "X": ("erase_characters", 1), "Z": ("tab_back", 1), "`": ("cursor_to_column", 1),
    "a": ("cursor_forward", 1), "b": ("repeat", 1), "c": ("tell_kind", 1), "d": ("cursor_to_line", 1),
    "e": ("cursor_down", 1), "f": ("cursor_position", 2), "g": ("clear_tab_stop", 1), "n": ("tell_status", 1),
    "r": ("set_margins", 2), "s": ("save_cursor", 0), "u": ("restore_cursor", 0),
}  # fmt: skip
_PRIVATE_TOO = "JK"
CURSOR_KEYS, REVERSED, ORIGIN, WRAPS, CURSOR_SHOWN, PASTE = 1, 5, 6, 7, 25, 2004
_PRIVATE_MODES = {CURSOR_KEYS, REVERSED, ORIGIN, WRAPS, CURSOR_SHOWN, PASTE}
_SECOND_SCREEN = {47, 1047, 1049}
_MODES = {4, 20}
_VT102 = "\x1b[?6c"

Run = tuple[str, tuple[Any, ...]]
"""Text, and how it looks: the fields of a pyte Char after its character."""


@dataclass(slots=True)
class _FirstScreen:
    buffer: Any
    cursor: Any
    margins: Margins | None


class TerminalScreen(pyte.Screen):
    """Feed it on one thread, read it on another, each under ``lock``.

    ``answer`` gets what a program is told that asks where the cursor is.
    """

    def __init__(self, columns: int, lines: int, answer: Callable[[bytes], object] = lambda _: None) -> None:
        self.lock = threading.Lock()
        self.gone: deque[list[Run]] = deque(maxlen=KEPT_LINES)
        self.gone_count = 0
        """All lines that have gone by so far."""
        self._answer = answer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._last = " "
        self._first: _FirstScreen | None = None
        super().__init__(columns, lines)

    @property
    def is_second(self) -> bool:
        """Whether the screen of editors and pagers is shown."""
        return self._first is not None

    def has(self, private_mode: int) -> bool:
        """Whether a mode of xterm's is on."""
        return private_mode << 5 in self.mode

    def feed(self, data: bytes) -> None:
        """What was printed; a sequence or a character may end in the next piece."""
        text = self._rest + self._decoder.decode(data)
        self._rest, at = "", 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token:
                self._obey(token)
                at = token.end()
            elif _UNFINISHED.match(text, at) and len(text) - at < _MOST_HELD:
                self._rest = text[at:]
                return
            else:
                nonsense = _NONSENSE.match(text, at)
                at = max(at + 1, nonsense.end() if nonsense else 0)

    def _obey(self, token: re.Match[str]) -> None:
        if text := token["text"]:
            self.draw(text)
        elif final := token["final"]:
            self._obey_sequence(final, token["given"], token["between"])
        elif name := _ESCAPES.get(token["escape"] or "") or _CONTROLS.get(token["control"] or ""):
            getattr(self, name)()

    def _obey_sequence(self, final: str, given: str, between: str) -> None:
        is_private = given.startswith("?")
        if between or given[:1] in ("<", "=", ">"):
            return
        if final == "m" and not is_private:
            self.select_graphic_rendition(*_looks(given))
            return
        numbers = [min(int(part), _MOST) if part.isdecimal() else 0 for part in given.lstrip("?").split(";")]
        if final in "hl":
            self._switch(numbers, is_private=is_private, is_on=final == "h")
        elif final in _SEQUENCES and (not is_private or final in _PRIVATE_TOO):
            name, most = _SEQUENCES[final]
            getattr(self, name)(*numbers[:most])

    def _switch(self, modes: list[int], *, is_private: bool, is_on: bool) -> None:
        known = [mode for mode in modes if mode in (_PRIVATE_MODES if is_private else _MODES)]
        if known:
            (self.set_mode if is_on else self.reset_mode)(*known, private=is_private)
        if is_private and _SECOND_SCREEN.intersection(modes):
            self._show_second() if is_on else self._show_first()

    def _show_second(self) -> None:
        if self._first is None:
            self.save_cursor()
            self._first = _FirstScreen(self.buffer, (self.cursor.x, self.cursor.y), self.margins)
            self.buffer = defaultdict(lambda: StaticDefaultDict[int, Char](self.default_char))
            self.margins = None
            self.dirty.update(range(self.lines))

    def _show_first(self) -> None:
        if first := self._first:
            self._first = None
            self.buffer, self.margins = first.buffer, None
            self.restore_cursor()
            self.cursor.x, self.cursor.y = first.cursor
            self._fit()
            self.dirty.update(range(self.lines))

    def reset(self) -> None:
        """Everything as at the start; the lines that have gone by stay."""
        self._first = None
        super().reset()

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Another size. What has no room any more goes by at the top, once there is nothing blank below the cursor."""
        self.lines, self.columns = lines or self.lines, columns or self.columns
        self.margins = None
        self._fit()
        self.dirty.clear()
        self.dirty.update(range(self.lines))

    def _fit(self) -> None:
        while self.cursor.y >= self.lines:
            self._let_go_by()
            for y in range(max(self.buffer, default=0)):
                self.buffer[y] = self.buffer[y + 1]
            self.buffer.pop(max(self.buffer, default=0), None)
            self.cursor.y -= 1
        for y in [y for y in self.buffer if y >= self.lines]:
            del self.buffer[y]
        for row in self.buffer.values():
            for x in [x for x in row if x >= self.columns]:
                del row[x]
        self.cursor.x = min(self.cursor.x, self.columns - 1)

    def draw(self, data: str) -> None:
        """Letters; what takes no room and joins no letter is left out, since pyte would leave out all after it too."""
        if not data.isascii():
            kept = [sign for sign in data if wcwidth(sign) > 0 or unicodedata.combining(sign)]
            # What changes how its neighbours look (category Cf) must not get at the screen that this one is part of.
            data = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(sign) == "Cf" else sign for sign in kept)
        if data:
            self._last = data[-1]
            super().draw(data)

    def index(self) -> None:
        """One line down; what leaves the first screen at the top goes by."""
        top, bottom = self.margins or Margins(0, self.lines - 1)
        if self.cursor.y == bottom and top == 0:
            self._let_go_by()
        super().index()

    def _let_go_by(self) -> None:
        if self._first is None:
            self.gone.append(self.runs(0))
            self.gone_count += 1

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """What is after the cursor (0), before it (1), or both (2)."""
        if how <= 2:
            super().erase_in_line(how)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        """The same of the whole screen, and the lines that have gone by (3)."""
        if how == 3:
            self.gone.clear()
        elif how <= 2:
            super().erase_in_display(how)

    def next_line(self) -> None:
        """To the start of the next line."""
        self.carriage_return()
        self.index()

    def scroll_up(self, count: int = 1) -> None:
        """Move the lines between the margins up; blank ones come from below."""
        self._scroll(count, at_bottom=True)

    def scroll_down(self, count: int = 1) -> None:
        """The other way."""
        self._scroll(count, at_bottom=False)

    def _scroll(self, count: int, *, at_bottom: bool) -> None:
        top, bottom = self.margins or Margins(0, self.lines - 1)
        before = self.cursor.y
        self.cursor.y = bottom if at_bottom else top
        for _ in range(min(count or 1, self.lines)):
            self.index() if at_bottom else self.reverse_index()
        self.cursor.y = before

    def tab_on(self, count: int = 1) -> None:
        """So many tabulators on."""
        for _ in range(min(count or 1, self.columns)):
            self.tab()

    def tab_back(self, count: int = 1) -> None:
        """So many tabulators back."""
        for _ in range(min(count or 1, self.columns)):
            self.cursor.x = max((stop for stop in self.tabstops if stop < self.cursor.x), default=0)

    def repeat(self, count: int = 1) -> None:
        """The last letter so many times more."""
        self.draw(self._last * min(count or 1, self.columns * self.lines))

    def tell_kind(self, asked: int = 0) -> None:
        """Primary device attributes."""
        if asked == 0:
            self._answer(_VT102.encode())

    def tell_status(self, asked: int = 0) -> None:
        """All is well (5), or where the cursor is (6)."""
        if asked == 5:
            self._answer(b"\x1b[0n")
        elif asked == 6:
            self._answer(f"\x1b[{self.cursor.y + 1};{min(self.cursor.x, self.columns - 1) + 1}R".encode())

    def runs(self, y: int) -> list[Run]:
        """A line as pieces that look alike, without the blanks at its end."""
        row = self.buffer[y] if y in self.buffer else StaticDefaultDict[int, Char](self.default_char)
        return list(_runs(row, max(row, default=-1) + 1))


def _runs(row: StaticDefaultDict[int, Char], columns: int) -> Iterator[Run]:
    text, look = "", None
    for x in range(columns):
        sign, *looks = row[x]
        if tuple(looks) != look:
            if text and look is not None:
                yield text, look
            text, look = "", tuple(looks)
        text += sign
    if text and look is not None:
        yield text, look


def _looks(given: str) -> Iterator[int]:
    """The numbers of a sequence for colours, those with colons as those without (ITU-T T.416)."""
    for part in given.split(";"):
        numbers = [min(int(each), 255) if each.isdecimal() else 0 for each in part.split(":")]
        if len(numbers) == 1:
            yield numbers[0]
        elif numbers[0] in (38, 48) and numbers[1] == 2 and len(numbers) >= 5:
            yield from (numbers[0], 2, *numbers[-3:])
        elif numbers[0] in (38, 48) and numbers[1] == 5 and len(numbers) >= 3:
            yield from (numbers[0], 5, numbers[2])
        elif numbers[0] == 4:
            yield 4 if numbers[1] else 24
