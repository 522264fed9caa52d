"""The Commands screen, with the commands that ran on the machine, and a terminal on the machine.

The terminal's widget paints only changed lines, and passes on all but a few keys, in the encoding of xterm (terminfo's
xterm-256color).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events, getters
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from lab.units import counted
from tui.keys import command_key, hidden_key
from tui.look import glyphs_of
from tui.mode import LessonSide, ModeScreen
from tui.state import CommandEntry, LabState, Origin
from tui.terminal import CURSOR_KEYS, PASTE, Run, TerminalScreen
from tui.widgets import titled

if TYPE_CHECKING:
    from tui.base_app import BaseApp

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
    """Return the bytes that a key sends, or nothing for a key that xterm does not encode.

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
    """Return the sequence of an arrow, function key and so on, if any. ``modifier`` has the bits of ``_MODIFIERS``."""
    if name in _NUMBERED:
        return f"\x1b[{_NUMBERED[name]}" + (f";{modifier + 1}~" if modifier else "~")
    final = _LETTERED.get(name) or _FUNCTIONS.get(name)
    if final is None:
        return ""
    if modifier:
        return f"\x1b[1;{modifier + 1}{final}"
    return f"\x1bO{final}" if cursor_keys or name in _FUNCTIONS else f"\x1b[{final}"


def pasted(text: str, *, is_bracketed: bool) -> bytes:
    """Return the bytes of pasted text, with carriage returns at line ends, and no control characters except tabs."""
    lines = text.replace("\r\n", "\r").replace("\n", "\r")
    clean = "".join(sign for sign in lines if sign in "\r\t" or sign.isprintable())
    return (f"\x1b[200~{clean}\x1b[201~" if is_bracketed else clean).encode()


PAINT_SECONDS = 0.04
"""Minimum time between two paints, however much is printed."""
_WHEEL_LINES = 3
_NAMES = ("black", "red", "green", "brown", "blue", "magenta", "cyan", "white")
# These are pyte's names (graphics.py), including its misspelling.
_NUMBERS = {name: number for number, name in enumerate(_NAMES)}
_NUMBERS |= {f"bright{name}": number + 8 for number, name in enumerate(_NAMES)}
_NUMBERS["bfightmagenta"] = 13


class TerminalView(Widget, can_focus=True):
    """Shows ``app.terminal``. While it has the focus, the app handles ``OWN_KEYS``, and the program all other keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f12", "screen.leave_terminal", "Leave", id="terminal.leave", tooltip="From the terminal to the list"),
        hidden_key("terminal.leave-too", "ctrl+right_square_bracket", "screen.leave_terminal", "Leave", "As F12"),
        Binding("f11", "screen.full", "Full", id="terminal.full", tooltip="Enlarge the terminal, or restore its size"),
        hidden_key("terminal.older", "shift+pageup", "page(1)", "Older", "Scroll back"),
        hidden_key("terminal.newer", "shift+pagedown", "page(-1)", "Newer", "Scroll forward"),
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

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(id=id)
        self._back = 0
        """How many lines the view is scrolled back."""
        self._seen_scrolled = 0
        self._painted: list[Strip] = []
        self._is_due = False
        self._styles: dict[Any, Style] = {}

    def on_mount(self) -> None:
        # Any thread may call this.
        self.app.terminal.on_change = lambda: self.post_message(self.Printed())

    def on_unmount(self) -> None:
        self.app.terminal.on_change = lambda: None

    def on_terminal_view_printed(self) -> None:
        if not self._is_due:
            self._is_due = True
            self.set_timer(PAINT_SECONDS, self._paint)

    def begin(self) -> None:
        """Open a terminal if there is a session without one. This is called when the machine may have started."""
        if self.app.terminal.can_open and self.size.area:
            self.app.terminal.open(self.size.width, self.size.height)
            self._back = self._seen_scrolled = 0
            self._paint()

    def on_resize(self) -> None:
        # The size in the event includes the border.
        if self.size.area:
            self.app.terminal.resize(self.size.width, self.size.height)
            self.begin()
            self._paint()

    def notify_style_update(self) -> None:
        self._styles.clear()
        self._painted = []
        super().notify_style_update()

    def _paint(self) -> None:
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

    on_focus = on_blur = _paint

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
            opening = "" if terminal.ended or not self.app.lab.is_open else "Opening the terminal …"
            then = " Ctrl+R starts it again." if not self.app.lab.is_open else " Enter opens another."
            text = f"{terminal.ended}{then}" if terminal.ended else opening or "There is no machine."
            note = Style(bold=True, reverse=True) if terminal.ended else Style()
            row = min(screen.cursor.y + 1, height - 1) if screen else 0
            lines[row] = self._strip([Segment(text, self.rich_style + note)], width)
        return lines

    def _lines_of(self, screen: TerminalScreen, width: int, height: int) -> list[Strip]:
        if screen.is_alternate:
            self._back = 0
        elif self._back:
            # Keep the visible lines in place while further lines scroll off.
            self._back += screen.scrolled_count - self._seen_scrolled
        self._seen_scrolled = screen.scrolled_count
        self._back = min(max(self._back, 0), len(screen.scrolled))
        shown: list[list[Run]] = [screen.scrolled[len(screen.scrolled) - back] for back in range(self._back, 0, -1)][
            :height
        ]
        shown += [screen.runs(y) for y in range(min(height - len(shown), screen.lines))]
        lines = [
            self._strip([Segment(text, self._style(attributes)) for text, attributes in runs], width) for runs in shown
        ]
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

    def _style(self, attributes: tuple[Any, ...]) -> Style:
        found = self._styles.get(attributes)
        if found is None:
            foreground, background, bold, italics, underscore, strikethrough, is_reversed, _ = attributes
            base = self.rich_style
            own = Style(
                color=self._colour(foreground), bgcolor=self._colour(background), bold=bold, italic=italics,
                underline=underscore, strike=strikethrough,
            )  # fmt: skip
            found = base + own
            if is_reversed:
                found += Style(color=found.bgcolor, bgcolor=found.color)
            self._styles[attributes] = found
        return found

    def _colour(self, name: str) -> str | None:
        """Return a colour. The sixteen standard colours are the theme's, and all others are what the program sets."""
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
                self._back = self._seen_scrolled = 0
            return
        event.stop()
        event.prevent_default()
        if event.key in ("pageup", "pagedown") and not screen.is_alternate:
            self.action_page(1 if event.key == "pageup" else -1)
            return
        self._to_newest()
        terminal.type(typed(event.key, event.character, cursor_keys=screen.has(CURSOR_KEYS)))

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self.insert(event.text)

    def insert(self, text: str) -> None:
        """Type text as a paste, without Enter."""
        screen = self.app.terminal.screen
        if screen and self.app.terminal.takes_keys:
            self._to_newest()
            self.app.terminal.type(pasted(text, is_bracketed=screen.has(PASTE)))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        self._scroll(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        self._scroll(event, -1)

    def _scroll(self, event: events.MouseEvent, direction: int) -> None:
        event.stop()
        screen = self.app.terminal.screen
        if screen and screen.is_alternate:
            # xterm does this on the alternate screen too (alternateScroll), where arrow keys scroll a pager.
            key = typed("up" if direction > 0 else "down", None, cursor_keys=screen.has(CURSOR_KEYS))
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


_ORIGINS = {Origin.PLAN: "plan", Origin.SHELL: "you", Origin.LAB: "lab"}
_OF_THE_LIST = ("all", "copy", "copy_all", "leave")
_LEAVES = "F12 or Ctrl+] leaves, F11: whole screen"


class CommandsScreen(ModeScreen):
    """The Commands screen, key 5."""

    CSS_PATH = "terminal_screen.tcss"
    AREA = "Commands"
    HELP = (
        "Every command that ran on the machine, as a line that you can copy and type at a root shell, with its status "
        "and how long it took. Below is a terminal: a shell as root, with editors, pagers, colours and completion. "
        "The app shows the effects of commands immediately.\n\n"
        "While the terminal has the focus, its programs receive the keys. F12 or Ctrl+] moves to the list, where the "
        "app's keys work again, and back. F11 gives it the whole screen. Shift+PageUp scrolls back, and so "
        "does PageUp unless an editor or pager uses it.\n\n"
        "You are root: with the embedded kernel, on a machine that contains only the lab; otherwise, on that computer."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "all", "All/steps", id="commands.all", tooltip="Show or hide the lab's own commands"),
        Binding("f3", "copy", "Copy", id="commands.copy", tooltip="Copy the selected command, else the newest"),
        Binding("f4", "copy_all", "Copy all", id="commands.copy-all", tooltip="Copy all commands shown, one per line"),
        command_key("commands.terminal", "f12", "Terminal", "shell", "To the terminal on the machine"),
        command_key(
            "commands.terminal-too",
            "ctrl+right_square_bracket",
            "Terminal",
            "shell",
            "As F12",
            action="terminal",
            show=False,
        ),
        Binding("f11", "full", "Full", id="commands.full", tooltip="Enlarge the terminal, or restore its size"),
        hidden_key("commands.leave", "escape", "leave", "Lab", "Back to the Lab screen"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._shows_all = False
        self._drawn = 0
        self._shown: list[CommandEntry] = []

    def body(self) -> ComposeResult:
        yield titled(OptionList(id="command-log", markup=False), "Commands on the machine")
        yield titled(TerminalView(id="terminal"), "Terminal on the machine, as root")

    def show_state(self, state: LabState) -> None:
        log = self.query_one("#command-log", OptionList)
        if new := min(state.command_count - self._drawn, len(state.commands)):
            self._drawn = state.command_count
            self._append(log, list(state.commands)[-new:])
        kind = "all commands" if self._shows_all else "plans and yours"
        log.border_subtitle = f"{kind}; F2 {'hides the lab’s own' if self._shows_all else 'shows all'}"
        terminal = self.query_one(TerminalView)
        terminal.begin()
        terminal.border_subtitle = _LEAVES if terminal.has_focus else "F12: to the terminal"

    def hint(self, state: LabState) -> str | None:
        if not state.is_open:
            return None
        if not self.query_one(TerminalView).has_focus:
            if drill := self.app.drills.hint_line():
                return drill
            return "[b]F12[/b] goes to the terminal, [b]Enter[/b] inserts the chosen command, [b]Esc[/b]: Lab."
        if view := self.app.drills.view:
            then = "[b]9 d[/b]: end the drill" if view.is_committed else "[b]9 c[/b]: commit"
            return f"[b]F12[/b] leaves the terminal; then [b]F6[/b]: task, [b]F7[/b]: hint, {then}."
        about = state.selected.inspecting_command if state.selected else "cat /proc/mdstat"
        return f"[b]F12[/b] leaves the terminal. Type a command, such as {about}."

    def _append(self, log: OptionList, entries: list[CommandEntry]) -> None:
        selected = [entry for entry in entries if self._shows_all or entry.origin is not Origin.LAB]
        if not selected:
            return
        was_last = log.highlighted is None or log.highlighted == len(self._shown) - 1
        self._shown += selected
        log.add_options([Option(self._prompt(entry)) for entry in selected])
        if was_last:
            log.highlighted = len(self._shown) - 1

    def _prompt(self, entry: CommandEntry) -> Content:
        glyphs = glyphs_of(self)
        good = entry.status == 0
        parts = [Content.styled(f"# {entry.why}\n", "$foreground-muted")] if entry.why else []
        clock = entry.ended.astimezone().strftime("%H:%M:%S")
        status = "" if good else f"status {entry.status}, "
        parts += [
            Content.styled(f"{glyphs.good if good else glyphs.bad} ", "$text-success" if good else "$text-error"),
            Content.styled(entry.line, "bold"),
            Content.styled(f"  {status}{entry.seconds:.2f} s, {_ORIGINS[entry.origin]} {clock}", "$foreground-muted"),
        ]
        return Content.assemble(*parts)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        terminal = self.query_one(TerminalView)
        terminal.insert(self._shown[event.option_index].line)
        terminal.focus()

    def action_leave_terminal(self) -> None:
        if self.has_class("-full"):
            self.action_full()
        self.query_one("#command-log").focus()

    def on_screen_resume(self) -> None:
        self.query_one(TerminalView).focus()

    def on_descendant_focus(self) -> None:
        self.app.show_soon()

    def action_terminal(self) -> None:
        self.query_one(TerminalView).focus()

    def action_full(self) -> None:
        is_full = not self.has_class("-full")
        self.set_class(is_full, "-full")
        self.query_one(LessonSide).show(None if is_full else self.lesson_beside)
        self.query_one(TerminalView).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the terminal has the focus, disable the list's keys, which the programs in the terminal receive."""
        is_inside = self.app.terminal.is_open and isinstance(self.focused, TerminalView)
        return False if is_inside and action in _OF_THE_LIST else super().check_action(action, parameters)

    def action_all(self) -> None:
        self._shows_all = not self._shows_all
        self._shown = []
        log = self.query_one("#command-log", OptionList)
        log.clear_options()
        self._append(log, list(self.app.lab.commands))
        self.show_state(self.app.lab)

    def action_copy(self) -> None:
        index = self.query_one("#command-log", OptionList).highlighted
        if self._shown:
            self._copy([self._shown[index if index is not None else -1].line])

    def action_copy_all(self) -> None:
        self._copy([entry.line for entry in self._shown])

    def _copy(self, lines: list[str]) -> None:
        self.app.copy_to_clipboard("".join(f"{line}\n" for line in lines))
        self.notify(f"Copied {counted(len(lines), 'command')}, if the terminal allows it.")

    def action_leave(self) -> None:
        self.app.switch_mode("lab")
