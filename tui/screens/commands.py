"""Commands: everything that ran on the machine, and a line to type more."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Log, OptionList, Static
from textual.widgets.option_list import Option

from tui.glyphs import glyphs_of
from tui.screens.mode import ModeScreen
from tui.state import CommandEntry, LabState, Origin
from tui.widgets.words import titled

KEPT_LINES = 200


class ShellInput(Input):
    """Up and down walk through what was typed; Enter posts ``Input.Submitted``."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "older", "Older", show=False, id="shell.older", tooltip="The command typed before"),
        Binding("down", "newer", "Newer", show=False, id="shell.newer", tooltip="The command typed after"),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(
            id=id,
            placeholder="cat /proc/mdstat",
            tooltip="A command for the machine: Enter runs it, Up brings back the one before",
            compact=True,
            select_on_focus=False,
        )
        self._lines: list[str] = []
        self._position = 0

    def keep(self, line: str) -> None:
        """Remember a line that was run."""
        if not self._lines or self._lines[-1] != line:
            self._lines.append(line)
            del self._lines[:-KEPT_LINES]
        self._position = len(self._lines)

    def action_older(self) -> None:
        self._go(self._position - 1)

    def action_newer(self) -> None:
        self._go(self._position + 1)

    def _go(self, position: int) -> None:
        if not self._lines or position < 0:
            return
        self._position = min(position, len(self._lines))
        self.value = self._lines[self._position] if self._position < len(self._lines) else ""
        self.cursor_position = len(self.value)


_ORIGINS = {Origin.PLAN: "plan", Origin.SHELL: "you", Origin.LAB: "lab"}
_OUTPUT_LINES = 5000


class CommandsScreen(ModeScreen):
    """Screen 5."""

    CSS_PATH = "commands.tcss"
    AREA = "Commands"
    HELP = (
        "Every command that ran on the machine, as a line that you can copy and type at a root shell, with its status "
        "and how long it took. Below you can type commands yourself: mdadm, cat /proc/mdstat, fio. What they do shows "
        "up in the app at once.\n\n"
        "On the embedded kernel you are root of a machine that has nothing but the lab; elsewhere you are root there."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2", "all", "All/steps", id="commands.all", tooltip="Show what the lab runs for itself too, or not"),
        Binding("f3", "copy", "Copy", id="commands.copy", tooltip="Copy the selected command, else the newest"),
        Binding("f4", "copy_all", "Copy all", id="commands.copy-all", tooltip="Copy all commands shown, one a line"),
        Binding("ctrl+c", "interrupt", "Interrupt", id="commands.interrupt", tooltip="Ctrl-C to the command that runs"),
        Binding("ctrl+l", "clear", "Clear", id="commands.clear", show=False, tooltip="Clear the shell's output"),
        Binding("escape", "leave", "Lab", id="commands.leave", show=False, tooltip="Back to the Lab screen"),
    ]  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self._shows_all = False
        self._drawn = 0
        self._shown: list[CommandEntry] = []
        self._printed = 0

    def body(self) -> ComposeResult:
        yield titled(OptionList(id="command-log", markup=False), "What ran on the machine")
        with titled(Vertical(id="shell"), "Shell on the machine"):
            yield Log(id="shell-output", max_lines=_OUTPUT_LINES)
            with Horizontal(id="shell-line"):
                yield Static("#", id="shell-prompt")
                yield ShellInput(id="shell-input")

    def on_mount(self) -> None:
        self.query_one("#shell-output", Log).can_focus = False
        self.query_one(ShellInput).focus()

    def show_state(self, state: LabState) -> None:
        log = self.query_one("#command-log", OptionList)
        new = min(state.command_count - self._drawn, len(state.commands))
        if new:
            self._drawn = state.command_count
            self._append(log, list(state.commands)[-new:])
        kind = "all commands" if self._shows_all else "plans and yours"
        log.border_subtitle = f"{kind}; F2 {'hides the lab’s own' if self._shows_all else 'shows all'}"
        typed = self.app.shell
        self.query_one("#shell-output", Log).write(typed.unseen(self._printed))
        self._printed = typed.count
        running = typed.running_line
        folder = "" if running else typed.folder
        self.query_one("#shell-prompt", Static).update(Content(f"{folder} #" if folder else "#"))
        shell = self.query_one("#shell", Vertical)
        shell.border_subtitle = "running; Ctrl+C interrupts" if running else "Enter runs, Up brings back"
        shell.set_class(bool(running), "-running")

    def hint(self, state: LabState) -> str | None:
        if not state.is_open:
            return None
        if self.app.shell.running_line:
            return "[b]Ctrl+C[/b] interrupts the command, a second one kills it. [b]Esc[/b] goes to the Lab."
        about = state.selected.inspecting_command if state.selected else "cat /proc/mdstat"
        return f"Type a command, such as {about}; its effects show everywhere. [b]Esc[/b]: Lab."

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

    def on_input_submitted(self, event: Input.Submitted) -> None:
        line = event.value.strip()
        if not line:
            return
        if not self.app.shell.run(line):
            why = "the command before still runs" if self.app.shell.running_line else "the machine does not run"
            self.notify(f"Not run: {why}.", severity="warning")
            return
        field = self.query_one(ShellInput)
        field.keep(line)
        field.value = ""
        self.app.show_soon()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Enter on a command brings it to the prompt."""
        field = self.query_one(ShellInput)
        field.value = self._shown[event.option_index].line
        field.cursor_position = len(field.value)
        field.focus()

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

    def action_interrupt(self) -> None:
        self.app.shell.interrupt()

    def action_clear(self) -> None:
        self.app.shell.clear()
        self.query_one("#shell-output", Log).clear()

    def action_leave(self) -> None:
        self.app.switch_mode("lab")
