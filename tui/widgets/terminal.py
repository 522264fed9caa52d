"""The widget of the terminal on the machine. It paints changed lines only, and passes on all but a few keys.

Keys are encoded as xterm encodes them, according to terminfo's xterm-256color.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

if TYPE_CHECKING:
    from textual import getters

    from tui.base_app import BaseApp
    from tui.widgets.terminal_screen import Run, TerminalScreen

_LETTERED = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_FUNCTIONS = {"f1": "P", "f2": "Q", "f3": "R", "f4": "S"}
_NUMBERED = {
    "insert": 2, "delete": 3, "pageup": 5, "pagedown": 6, "f5": 15, "f6": 17, "f7": 18, "f8": 19, "f9": 20, "f10": 21,
    "f11": 23, "f12": 24,
}  # fmt: skip
_PLAIN = {"enter": "\r", "tab": "\t", "escape": "\x1b", "backspace": "\x7f", "space": " ", "shift+tab": "\x1b[Z"}
_CONTROLS = {
    "at": 0, "space": 0, "left_square_bracket": 27, "backslash": 28, "right_square_bracket": 29,
    "circumflex_accent": 30, "underscore": 31, "slash": 31, "minus": 31, "backspace": 8, "h": 8,
}  # fmt: skip
_MODIFIERS = {"shift": 1, "alt": 2, "ctrl": 4}


def typed(key: str, character: str | None, *, cursor_keys: bool) -> bytes:
    """The bytes that a key sends; empty for a key that xterm does not encode.

    Args:
        key: its name in Textual.
        character: the character that it types, if any.
        cursor_keys: whether the program has selected the application form of the arrows, Home and End (DECCKM).
    """
    if key in _PLAIN:
        return _PLAIN[key].encode()
    *held, name = key.split("+")
    if any(each not in _MODIFIERS for each in held):
        return (character or "").encode()
    modifier = sum(_MODIFIERS[each] for each in held)
    if special := _special(name, modifier, cursor_keys=cursor_keys):
        return special.encode()
    before = "\x1b" if "alt" in held else ""
    if "ctrl" in held:
        code = _CONTROLS.get(name, ord(name) & 31 if len(name) == 1 and name.isascii() and name.isalpha() else -1)
        return (before + chr(code)).encode() if code >= 0 else b""
    if name in _PLAIN:
        return (before + _PLAIN[name]).encode()
    letter = character or (name if len(name) == 1 else "")
    return (before + letter).encode() if letter and (before or letter.isprintable()) else b""


def _special(name: str, modifier: int, *, cursor_keys: bool) -> str:
    """The sequence of an arrow, function key and so on, or empty; ``modifier`` has the bits of ``_MODIFIERS``."""
    if name in _NUMBERED:
        return f"\x1b[{_NUMBERED[name]}" + (f";{modifier + 1}~" if modifier else "~")
    final = _LETTERED.get(name) or _FUNCTIONS.get(name)
    if final is None:
        return ""
    if modifier:
        return f"\x1b[1;{modifier + 1}{final}"
    return f"\x1bO{final}" if cursor_keys or name in _FUNCTIONS else f"\x1b[{final}"


def pasted(text: str, *, is_bracketed: bool) -> bytes:
    """The bytes of pasted text: lines end with a carriage return, and no other control characters but tabs remain."""
    lines = text.replace("\r\n", "\r").replace("\n", "\r")
    clean = "".join(sign for sign in lines if sign in "\r\t" or sign.isprintable())
    return (f"\x1b[200~{clean}\x1b[201~" if is_bracketed else clean).encode()


PAINT_SECONDS = 0.04
"""Minimum time between two paints, however much is printed."""
_WHEEL_LINES = 3
_NAMES = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
# The names of pyte (graphics.py), including its misspelling.
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}
_NUMBERS |= {f"bright{name}": number + 8 for number, name in enumerate(_NAMES)}
_NUMBERS["bfightmagenta"] = 13


class TerminalView(Widget, can_focus=True):
    """Shows ``app.terminal``. While it has the focus, the app handles the keys below; the program gets all others."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "f12", "leave", "Leave", id="terminal.leave", tooltip="From the terminal to the list, and so to the app"
        ),
        Binding("ctrl+right_square_bracket", "leave", "Leave", id="terminal.leave-too", show=False, tooltip="As F12"),
        Binding("f11", "full", "Full", id="terminal.full", tooltip="The terminal over the whole screen, and back"),
        Binding("shift+pageup", "page(1)", "Older", id="terminal.older", show=False, tooltip="Lines that have gone by"),
        Binding("shift+pagedown", "page(-1)", "Newer", id="terminal.newer", show=False, tooltip="Back to the newest"),
    ]
    OWN_KEYS: ClassVar[frozenset[str]] = frozenset(
        {"f11", "f12", "ctrl+right_square_bracket", "shift+pageup", "shift+pagedown"}
    )

    if TYPE_CHECKING:
        app = getters.app(BaseApp)

    class Printed(Message):
        """The contents of the terminal have changed."""

        bubble = False

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, TerminalView.Printed)

    class Left(Message):
        """The user leaves the terminal; the screen moves the focus."""

    class Enlarged(Message):
        """The user switches between the whole screen and the normal layout."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._back = 0
        """Number of lines by which the view is scrolled back."""
        self._seen_gone = 0
        self._painted: list[Strip] = []
        self._is_due = False
        self._styles: dict[Any, Style] = {}

    def on_mount(self) -> None:
        self.app.terminal.on_change = self._tell
        self.watch(self.app, "theme", self._forget_styles, init=False)

    def on_unmount(self) -> None:
        self.app.terminal.on_change = lambda: None

    def _tell(self) -> None:
        # Any thread may call this.
        self.post_message(self.Printed())

    def on_terminal_view_printed(self) -> None:
        if not self._is_due:
            self._is_due = True
            self.set_timer(PAINT_SECONDS, self._paint)

    def begin(self) -> None:
        """Open a terminal if there is a session without one; called when the machine may have started."""
        if self.app.terminal.is_wanted and self.size.area:
            self.app.terminal.open(self.size.width, self.size.height)
            self._back = self._seen_gone = 0
            self._paint()

    def on_resize(self) -> None:
        # The size in the event includes the border.
        if self.size.area:
            self.app.terminal.resize(self.size.width, self.size.height)
            self.begin()
            self._paint()

    def on_focus(self) -> None:
        self._paint()

    def on_blur(self) -> None:
        self._paint()

    def _forget_styles(self) -> None:
        self._styles.clear()
        self._paint()

    def notify_style_update(self) -> None:
        self._styles.clear()
        self._painted = []
        super().notify_style_update()

    def _paint(self) -> None:
        """Repaint the lines that have changed."""
        self._is_due = False
        before, self._painted = self._painted, self._lines()
        width = self.size.width
        changed = [
            Region(0, y, width, 1) for y, line in enumerate(self._painted) if y >= len(before) or line != before[y]
        ]
        if changed and len(before) == len(self._painted):
            self.refresh(*changed)
        elif changed or before:
            self.refresh()

    def render_line(self, y: int) -> Strip:
        if len(self._painted) != self.size.height:
            self._painted = self._lines()
        return self._painted[y] if y < len(self._painted) else Strip.blank(self.size.width, self.rich_style)

    def _lines(self) -> list[Strip]:
        width, height = self.size
        terminal, screen = self.app.terminal, self.app.terminal.screen
        lines: list[Strip] = []
        if screen:
            with screen.lock:
                lines = self._lines_of(screen, width, height)
        lines += [Strip.blank(width, self.rich_style)] * (height - len(lines))
        if not terminal.is_open and height:
            wanted = "" if terminal.ended or not self.app.lab.is_open else "The terminal opens …"
            then = " Ctrl+R starts it again." if not self.app.lab.is_open else " Enter opens another."
            text = f"{terminal.ended}{then}" if terminal.ended else wanted or "There is no machine."
            note = Style(bold=True, reverse=True) if terminal.ended else Style()
            row = min(screen.cursor.y + 1, height - 1) if screen else 0
            lines[row] = self._strip([Segment(text, self.rich_style + note)], width)
        return lines

    def _lines_of(self, screen: TerminalScreen, width: int, height: int) -> list[Strip]:
        if screen.is_second:
            self._back = 0
        elif self._back:
            # Keep the visible lines in place while further lines scroll off.
            self._back += screen.gone_count - self._seen_gone
        self._seen_gone = screen.gone_count
        self._back = min(max(self._back, 0), len(screen.gone))
        shown: list[list[Run]] = [screen.gone[len(screen.gone) - back] for back in range(self._back, 0, -1)][:height]
        shown += [screen.runs(y) for y in range(min(height - len(shown), screen.lines))]
        lines = [self._strip([Segment(text, self._style(look)) for text, look in runs], width) for runs in shown]
        cursor = screen.cursor
        is_shown = self.has_focus and self.app.terminal.is_open and not cursor.hidden and not self._back
        if is_shown and cursor.y < len(lines):
            at = min(cursor.x, width - 1)
            line = lines[cursor.y]
            under = line.crop(at, at + 1).apply_style(Style(reverse=True))
            lines[cursor.y] = Strip.join([line.crop(0, at), under, line.crop(at + 1, width)])
        return lines

    def _strip(self, segments: list[Segment], width: int) -> Strip:
        return Strip(segments).adjust_cell_length(width, self.rich_style)

    def _style(self, look: tuple[Any, ...]) -> Style:
        found = self._styles.get(look)
        if found is None:
            foreground, background, bold, italics, underscore, strikethrough, is_reversed, _ = look
            base = self.rich_style
            own = Style(
                color=self._colour(foreground), bgcolor=self._colour(background), bold=bold, italic=italics,
                underline=underscore, strike=strikethrough,
            )  # fmt: skip
            found = base + own
            if is_reversed:
                found += Style(color=found.bgcolor, bgcolor=found.color)
            self._styles[look] = found
        return found

    def _colour(self, name: str) -> str | None:
        """A colour: the sixteen standard ones from the theme, all others as the program sets them."""
        if name in _NUMBERS:
            return self.app.ansi_theme.ansi_colors[_NUMBERS[name]].hex
        return None if name == "default" else f"#{name}"

    async def on_key(self, event: events.Key) -> None:
        if event.key in self.OWN_KEYS:
            return
        terminal, screen = self.app.terminal, self.app.terminal.screen
        if not terminal.takes_keys or screen is None:
            if event.key == "enter" and self.app.lab.is_open:
                event.stop()
                terminal.open(self.size.width, self.size.height)
                self._back = self._seen_gone = 0
            return
        event.stop()
        event.prevent_default()
        if event.key in ("pageup", "pagedown") and not screen.is_second:
            self.action_page(1 if event.key == "pageup" else -1)
            return
        self._to_newest()
        terminal.type(typed(event.key, event.character, cursor_keys=screen.has(1)))

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        screen = self.app.terminal.screen
        if screen and self.app.terminal.takes_keys:
            self._to_newest()
            self.app.terminal.type(pasted(event.text, is_bracketed=screen.has(2004)))

    def bring(self, line: str) -> None:
        """Insert a line at the prompt, without Enter."""
        screen = self.app.terminal.screen
        if screen and self.app.terminal.takes_keys:
            self.app.terminal.type(pasted(line, is_bracketed=screen.has(2004)))
        self.focus()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll(event, -1)

    def _scroll(self, event: events.MouseEvent, direction: int) -> None:
        event.stop()
        screen = self.app.terminal.screen
        if screen and screen.is_second:
            # As xterm does on the alternate screen (alternateScroll): a pager scrolls by arrow keys.
            key = typed("up" if direction > 0 else "down", None, cursor_keys=screen.has(1))
            self.app.terminal.type(key * _WHEEL_LINES)
        else:
            self._go_back(_WHEEL_LINES * direction)

    def _go_back(self, by: int) -> None:
        self._back = max(0, self._back + by)
        self._paint()

    def _to_newest(self) -> None:
        if self._back:
            self._back = 0
            self._paint()

    def action_page(self, direction: int) -> None:
        self._go_back(direction * max(1, self.size.height - 1))

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def action_full(self) -> None:
        self.post_message(self.Enlarged())
