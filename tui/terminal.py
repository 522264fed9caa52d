"""The app's terminal on the machine, with an alternate screen and scrolled-off lines.

The terminal's session continues when the app shows another screen, and ends with the lab's session.

pyte stores the characters, but this module parses the output, because pyte's own parser fails on unknown sequences, and
pyte has no alternate screen. Sequences that are not in the tables below are dropped, so they never reach the user's own
terminal. The sequences are those of xterm (Control Sequences, ctlseqs) that terminfo's xterm-256color uses.
"""

from __future__ import annotations

import codecs
import re
import threading
import unicodedata
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import pyte
from pyte.screens import Char, Margins, StaticDefaultDict
from wcwidth import wcwidth

from lab.errors import LabError
from lab.machine import Terminal, TypedCommand
from lab.session.session import LabSession
from tui.frontend import Frontend


class TerminalSession:
    """At most one terminal. ``open`` starts it, ``type`` sends input, and ``screen`` holds its contents."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self._terminal: Terminal | None = None
        self._session: LabSession | None = None
        self._lock = threading.Lock()
        self._is_opening = False
        self._early = b""
        """Input that was typed before the shell started."""
        self.screen: TerminalScreen | None = None
        """The contents of the terminal, which remain after its end. None before the first terminal."""
        self.ended = ""
        """Why the shell ended; empty if it is running, or none was started."""
        self.on_change: Callable[[], object] = lambda: None
        """Called, on any thread, when the contents have changed."""

    @property
    def is_open(self) -> bool:
        return self._terminal is not None

    @property
    def takes_keys(self) -> bool:
        """Whether a shell receives input, now or once it has started."""
        return self._is_opening or self.is_open

    @property
    def can_open(self) -> bool:
        """Whether there is a session in which no terminal has been opened yet."""
        session = self._frontend.client.session
        return not self.takes_keys and session is not None and session is not self._session

    def open(self, columns: int, rows: int) -> None:
        """Open a terminal, unless one is open or there is no session. Input until the shell starts is buffered.

        The call does not wait for the machine, which may be busy or far away.
        """
        session = self._frontend.client.session
        if self.takes_keys or session is None:
            return
        self._session, self._is_opening, self._early, self.ended = session, True, b"", ""
        self.screen = TerminalScreen(columns, rows, self.type)
        arguments = (session, self.screen)
        threading.Thread(target=self._follow, args=arguments, name="terminal", daemon=True).start()

    def type(self, data: bytes) -> None:
        with self._lock:
            if self._terminal:
                self._terminal.type(data)
            elif self._is_opening:
                self._early += data

    def resize(self, columns: int, rows: int) -> None:
        if self.screen and (self.screen.columns, self.screen.lines) != (columns, rows):
            with self.screen.lock:
                self.screen.resize(rows, columns)
            if self._terminal:
                self._terminal.resize(columns, rows)

    def _end(self, terminal: Terminal, error: LabError | None) -> None:
        if terminal is self._terminal:
            self._terminal = None
            lost = f"The machine is lost: {error.message}" if error else ""
            self.ended = lost or f"The shell exited with status {terminal.status}."
            self.on_change()

    def _report_command(self, command: TypedCommand) -> None:
        if self._session is not None:
            self._session.on_typed(command.line)
        self._frontend.client.log.ended_in_terminal(command)
        self._frontend.call(self._frontend.rescan)

    def _follow(self, session: LabSession, screen: TerminalScreen) -> None:
        """Open the terminal and read its output, on a separate thread.

        A program that prints faster than its output is shown has to wait.
        """
        columns, rows = screen.columns, screen.lines
        try:
            terminal = session.machine.terminal(columns, rows, on_command=self._report_command)
        except LabError as error:
            self._is_opening, self.ended = False, error.message
            self.on_change()
            return
        with self._lock:
            self._terminal, self._is_opening = terminal, False
            if (screen.columns, screen.lines) != (columns, rows):
                terminal.resize(screen.columns, screen.lines)
            if self._early:
                terminal.type(self._early)
        self._read(terminal, screen)

    def _read(self, terminal: Terminal, screen: TerminalScreen) -> None:
        failure: LabError | None = None
        try:
            with self._frontend.client.on_end(terminal.stop):
                for chunk in terminal.chunks():
                    with screen.lock:
                        screen.feed(chunk)
                    self.on_change()
        except LabError as error:
            failure = error
        finally:
            self._frontend.call(self._end, terminal, failure)


MOST_LINES = 2000
"""Maximum number of scrolled-off lines that are kept."""
_MOST_HELD = 64 * 1024
_MOST = 9999
_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x1f\x7f-\x9f]+)"
    r"|\x1b\[(?P<given>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~])"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, colours, the clipboard: ignored
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
# Final character of a control sequence -> (method, maximum number of parameters).
_SEQUENCES = {
    "@": ("insert_characters", 1), "A": ("cursor_up", 1), "B": ("cursor_down", 1), "C": ("cursor_forward", 1),
    "D": ("cursor_back", 1), "E": ("cursor_down1", 1), "F": ("cursor_up1", 1), "G": ("cursor_to_column", 1),
    "H": ("cursor_position", 2), "I": ("tab_on", 1), "J": ("erase_in_display", 1), "K": ("erase_in_line", 1),
    "L": ("insert_lines", 1), "M": ("delete_lines", 1), "P": ("delete_characters", 1), "S": ("scroll_up", 1),
    "T": ("scroll_down", 1), "X": ("erase_characters", 1), "Z": ("tab_back", 1), "`": ("cursor_to_column", 1),
    "a": ("cursor_forward", 1), "b": ("repeat", 1), "c": ("report_kind", 1), "d": ("cursor_to_line", 1),
    "e": ("cursor_down", 1), "f": ("cursor_position", 2), "g": ("clear_tab_stop", 1), "n": ("report_status", 1),
    "r": ("set_margins", 2), "s": ("save_cursor", 0), "u": ("restore_cursor", 0),
}  # fmt: skip
_PRIVATE_TOO = "JK"
CURSOR_KEYS, REVERSED, ORIGIN, WRAPS, CURSOR_SHOWN, PASTE = 1, 5, 6, 7, 25, 2004
_PRIVATE_MODES = {CURSOR_KEYS, REVERSED, ORIGIN, WRAPS, CURSOR_SHOWN, PASTE}
_ALTERNATE_SCREEN = {47, 1047, 1049}
_MODES = {4, 20}
_VT102 = "\x1b[?6c"

Run = tuple[str, tuple[Any, ...]]
"""(text, look) of a piece of text. The look consists of the fields of a pyte Char after its character."""


class TerminalScreen(pyte.Screen):
    """The screen. One thread may feed it while another one reads it, but both must hold ``lock``.

    ``answer`` gets the replies to queries of a program, such as the position of the cursor.
    """

    def __init__(self, columns: int, lines: int, answer: Callable[[bytes], object] = lambda _: None) -> None:
        self.lock = threading.Lock()
        self.scrolled: deque[list[Run]] = deque(maxlen=MOST_LINES)
        self.scrolled_count = 0
        """Total number of lines that have scrolled off."""
        self._answer = answer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rest = ""
        self._last = " "
        self._main: tuple[Any, tuple[int, int]] | None = None
        """The buffer and the cursor's place of the main screen, while the alternate screen is shown."""
        super().__init__(columns, lines)

    @property
    def is_alternate(self) -> bool:
        """Whether the alternate screen, which editors and pagers use, is shown."""
        return self._main is not None

    def has(self, private_mode: int) -> bool:
        return private_mode << 5 in self.mode

    def feed(self, data: bytes) -> None:
        """Process output. A sequence or a character may continue in the next call."""
        text = self._rest + self._decoder.decode(data)
        self._rest, at = "", 0
        while at < len(text):
            token = _TOKEN.match(text, at)
            if token:
                self._apply(token)
                at = token.end()
            elif _UNFINISHED.match(text, at) and len(text) - at < _MOST_HELD:
                self._rest = text[at:]
                return
            else:
                nonsense = _NONSENSE.match(text, at)
                at = max(at + 1, nonsense.end() if nonsense else 0)

    def _apply(self, token: re.Match[str]) -> None:
        if text := token["text"]:
            self.draw(text)
        elif final := token["final"]:
            self._apply_sequence(final, token["given"], token["between"])
        elif name := _ESCAPES.get(token["escape"] or "") or _CONTROLS.get(token["control"] or ""):
            getattr(self, name)()

    def _apply_sequence(self, final: str, given: str, between: str) -> None:
        is_private = given.startswith("?")
        if between or given[:1] in ("<", "=", ">"):
            return
        if final == "m" and not is_private:
            self.select_graphic_rendition(*_rendition_parameters(given))
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
        if is_private and _ALTERNATE_SCREEN.intersection(modes):
            self._show_alternate() if is_on else self._show_main()

    def _show_alternate(self) -> None:
        if self._main is None:
            self.save_cursor()
            self._main = self.buffer, (self.cursor.x, self.cursor.y)
            self.buffer = defaultdict(lambda: StaticDefaultDict[int, Char](self.default_char))
            self.margins = None
            self.dirty.update(range(self.lines))

    def _show_main(self) -> None:
        if self._main:
            self.buffer, cursor = self._main
            self._main = None
            self.margins = None
            self.restore_cursor()
            self.cursor.x, self.cursor.y = cursor
            self._fit()
            self.dirty.update(range(self.lines))

    def reset(self) -> None:
        """Reset the terminal, but keep the scrolled-off lines."""
        self._main = None
        super().reset()

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size. Lines scroll off at the top until the cursor fits. Lines below the bottom are removed."""
        self.lines, self.columns = lines or self.lines, columns or self.columns
        self.margins = None
        self._fit()
        self.dirty.clear()
        self.dirty.update(range(self.lines))

    def _fit(self) -> None:
        while self.cursor.y >= self.lines:
            self._store_top_line()
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
        """Draw text. Drop zero-width characters that do not combine, since pyte would drop the text after them too."""
        if not data.isascii():
            visible = [sign for sign in data if wcwidth(sign) > 0 or unicodedata.combining(sign)]
            # Format characters (category Cf) could change the display of the app around the terminal.
            data = "".join(
                "\N{REPLACEMENT CHARACTER}" if unicodedata.category(sign) == "Cf" else sign for sign in visible
            )
        if data:
            self._last = data[-1]
            super().draw(data)

    def index(self) -> None:
        """Move the cursor down one line. A line that leaves the main screen at the top becomes a scrolled-off line."""
        top, bottom = self.margins or Margins(0, self.lines - 1)
        if self.cursor.y == bottom and top == 0:
            self._store_top_line()
        super().index()

    def _store_top_line(self) -> None:
        if self._main is None:
            self.scrolled.append(self.runs(0))
            self.scrolled_count += 1

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """Erase the line after the cursor (0), before it (1), or all of it (2)."""
        if how <= 2:
            super().erase_in_line(how)

    def erase_in_display(self, how: int = 0, *args: Any, **kwargs: Any) -> None:
        """Erase the screen after the cursor (0), before it (1), or all of it (2), or the scrolled-off lines (3)."""
        if how == 3:
            self.scrolled.clear()
        elif how <= 2:
            super().erase_in_display(how)

    def next_line(self) -> None:
        self.carriage_return()
        self.index()

    def scroll_up(self, count: int = 1) -> None:
        """Scroll the lines between the margins up, adding blank lines at the bottom."""
        self._scroll(count, at_bottom=True)

    def scroll_down(self, count: int = 1) -> None:
        """Scroll the lines between the margins down, adding blank lines at the top."""
        self._scroll(count, at_bottom=False)

    def _scroll(self, count: int, *, at_bottom: bool) -> None:
        top, bottom = self.margins or Margins(0, self.lines - 1)
        before = self.cursor.y
        self.cursor.y = bottom if at_bottom else top
        for _ in range(min(count or 1, self.lines)):
            self.index() if at_bottom else self.reverse_index()
        self.cursor.y = before

    def tab_on(self, count: int = 1) -> None:
        for _ in range(min(count or 1, self.columns)):
            self.tab()

    def tab_back(self, count: int = 1) -> None:
        for _ in range(min(count or 1, self.columns)):
            self.cursor.x = max((stop for stop in self.tabstops if stop < self.cursor.x), default=0)

    def repeat(self, count: int = 1) -> None:
        self.draw(self._last * min(count or 1, self.columns * self.lines))

    def report_kind(self, asked: int = 0) -> None:
        if asked == 0:
            self._answer(_VT102.encode())

    def report_status(self, asked: int = 0) -> None:
        """Reply that the terminal is ready (5), or with the position of the cursor (6)."""
        if asked == 5:
            self._answer(b"\x1b[0n")
        elif asked == 6:
            self._answer(f"\x1b[{self.cursor.y + 1};{min(self.cursor.x, self.columns - 1) + 1}R".encode())

    def runs(self, y: int) -> list[Run]:
        """Return a line as runs of text with the same look, without trailing blanks."""
        row = self.buffer[y] if y in self.buffer else StaticDefaultDict[int, Char](self.default_char)
        cells = (row[x] for x in range(max(row, default=-1) + 1))
        found = (("".join(cell.data for cell in same), look) for look, same in groupby(cells, _look))
        return [(text, look) for text, look in found if text]


def _look(cell: Char) -> tuple[Any, ...]:
    return cell[1:]


def _rendition_parameters(given: str) -> Iterator[int]:
    """Yield the parameters of a graphic rendition. Those with colons (ITU-T T.416) are converted to semicolon form."""
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
