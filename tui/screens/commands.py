"""The Commands screen: the commands that ran on the machine, and a terminal on the machine."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from tui.glyphs import glyphs_of
from tui.keys import CommandKey
from tui.screens.mode import LessonSide, ModeScreen
from tui.state import CommandEntry, LabState, Origin
from tui.widgets.terminal import TerminalView
from tui.widgets.words import titled

_ORIGINS = {Origin.PLAN: "plan", Origin.SHELL: "you", Origin.LAB: "lab"}
_OF_THE_LIST = ("all", "copy", "copy_all", "leave")
_LEAVES = "F12 or Ctrl+] leaves, F11: whole screen"


class CommandsScreen(ModeScreen):
    """The Commands screen, key 5."""

    CSS_PATH = "commands.tcss"
    AREA = "Commands"
    HELP = (
        "Every command that ran on the machine, as a line that you can copy and type at a root shell, with its status "
        "and how long it took. Below is a terminal: a shell as root, with editors, pagers, colours and completion. "
        "What you do there shows up in the app at once.\n\n"
        "While the terminal has the focus, all keys are its programs'. F12 or Ctrl+] brings you to the list, where the "
        "app's keys hold again, and back. F11 gives it the whole screen. Shift+PageUp shows what has gone by, and so "
        "does PageUp where no editor or pager wants it.\n\n"
        "On the embedded kernel you are root of a machine that has nothing but the lab; elsewhere you are root there."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "all", "All/steps", id="commands.all", tooltip="Show what the lab runs for itself too, or not"),
        Binding("f3", "copy", "Copy", id="commands.copy", tooltip="Copy the selected command, else the newest"),
        Binding("f4", "copy_all", "Copy all", id="commands.copy-all", tooltip="Copy all commands shown, one a line"),
        CommandKey(
            "f12",
            "terminal",
            "Terminal",
            id="commands.terminal",
            tooltip="To the terminal on the machine",
            command="shell",
        ),
        CommandKey(
            "ctrl+right_square_bracket",
            "terminal",
            "Terminal",
            id="commands.terminal-too",
            show=False,
            tooltip="As F12",
            command="shell",
        ),
        Binding("f11", "full", "Full", id="commands.full", tooltip="The terminal over the whole screen, and back"),
        Binding("escape", "leave", "Lab", id="commands.leave", show=False, tooltip="Back to the Lab screen"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._shows_all = False
        self._drawn = 0
        self._shown: list[CommandEntry] = []

    def body(self) -> ComposeResult:
        yield titled(OptionList(id="command-log", markup=False), "What ran on the machine")
        yield titled(TerminalView(id="terminal"), "Terminal on the machine, as root")

    def show_state(self, state: LabState) -> None:
        log = self.query_one("#command-log", OptionList)
        new = min(state.command_count - self._drawn, len(state.commands))
        if new:
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
            return "[b]F12[/b] goes to the terminal, [b]Enter[/b] brings the chosen command there, [b]Esc[/b]: Lab."
        if view := self.app.drills.view:
            then = "[b]9 d[/b]: end the drill" if view.is_committed else "[b]9 c[/b]: commit"
            return f"[b]F12[/b] leaves the terminal; then [b]F6[/b]: task, [b]F7[/b]: hint, {then}."
        about = state.selected.inspecting_command if state.selected else "cat /proc/mdstat"
        return f"[b]F12[/b] leaves the terminal. Type a command, such as {about}."

    def _append(self, log: OptionList, entries: list[CommandEntry]) -> None:
        wanted = [entry for entry in entries if self._shows_all or entry.origin is not Origin.LAB]
        if not wanted:
            return
        was_last = log.highlighted is None or log.highlighted == len(self._shown) - 1
        self._shown += wanted
        log.add_options([Option(self._prompt(entry)) for entry in wanted])
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
        """Insert the selected command at the prompt."""
        self.query_one(TerminalView).bring(self._shown[event.option_index].line)

    def on_terminal_view_left(self) -> None:
        if self.has_class("-full"):
            self.action_full()
        self.query_one("#command-log").focus()

    def on_terminal_view_enlarged(self) -> None:
        self.action_full()

    def on_screen_resume(self) -> None:
        self.query_one(TerminalView).focus()

    def on_descendant_focus(self) -> None:
        self.app.show_soon()

    def action_terminal(self) -> None:
        self.query_one(TerminalView).focus()

    def action_full(self) -> None:
        """Switch between the terminal on the whole screen and the normal layout."""
        is_full = not self.has_class("-full")
        self.set_class(is_full, "-full")
        self.query_one(LessonSide).show(None if is_full else self.lesson_beside)
        self.query_one(TerminalView).focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While the terminal has the focus, disable the keys of the list: the programs in the terminal receive them."""
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
        what = "1 command" if len(lines) == 1 else f"{len(lines)} commands"
        self.notify(f"Copied {what}, if the terminal allows it.")

    def action_leave(self) -> None:
        self.app.switch_mode("lab")
