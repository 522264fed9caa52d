"""The help for a screen (F1), the command palette, and the welcome dialog at the first start."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Button, Footer, Input, OptionList, Static

from lab.errors import LabError
from lab.plans import Plan
from tui.actions import first_array
from tui.base_app import BaseApp
from tui.dialogs import Modal
from tui.keys import command_key, hidden_key, mode_keys, own_bindings
from tui.look import THEMES
from tui.mode import ModeScreen
from tui.widgets import wrapped


class Palette(CommandPalette, Modal[Any]):
    """The palette, which ignores keys that were typed ahead and arrive after it was dismissed."""

    HELP = "Type a part of a command's name, choose a line with the arrows, and press Enter. Escape closes it."

    def post_message(self, message: Message) -> bool:
        if self.has_left and isinstance(message, Input.Submitted | OptionList.OptionSelected):
            return False
        return super().post_message(message)


CLOCK_IDS = "clock."
"""Prefix of the keys that only show a notice if the machine runs in real time."""


def palette_commands(app: BaseApp, screen: Screen[Any]) -> Iterator[SystemCommand]:
    """Yield all commands that currently apply on this screen."""
    area = screen.AREA if isinstance(screen, ModeScreen) else "Dialog"
    own = {binding.id for _, binding in own_bindings([type(screen)])}
    listed: set[tuple[str, str]] = set()
    for active in screen.active_bindings.values():
        binding = active.binding
        # A second key for the same action, such as ? for F1, is not a second command.
        if (binding.action, binding.description) in listed:
            continue
        if not active.enabled or not binding.id or not binding.tooltip or binding.id == "app.palette":
            continue
        if binding.id.startswith(CLOCK_IDS) and app.lab.pace is None:
            continue
        listed.add((binding.action, binding.description))
        title = f"{_area(binding.id, area, own)}: {binding.description}"
        run = partial(app.run_action, binding.action, active.node)
        yield SystemCommand(title, f"{binding.tooltip} ({app.get_key_display(binding)})", run)
    if isinstance(screen, ModeScreen):
        for entry in screen.palette():
            yield entry._replace(title=f"{screen.AREA}: {entry.title}")
    for theme in THEMES:
        if theme.name != app.theme:
            name = theme.name.removeprefix("raidlab-").replace("-", " ")
            yield SystemCommand(f"Theme: {name}", "Change the colours", partial(setattr, app, "theme", theme.name))


def _area(binding_id: str, area: str, own: set[str | None]) -> str:
    if binding_id in own:
        return area
    first = binding_id.partition(".")[0]
    return "App" if first == "app" else first.capitalize()


class HelpScreen(Modal[None]):
    """The help, shown over the screen that it explains.

    Args:
        about: that screen.
    """

    CSS_PATH = "help.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f1,q,question_mark", "dismiss", "Close", id="help.close", tooltip="Back to the screen"),
    ]

    def __init__(self, about: Screen[Any]) -> None:
        super().__init__()
        self._about = about

    def compose(self) -> ComposeResult:
        title = getattr(self._about, "AREA", "") or "Dialog"
        with VerticalScroll(id="help-box") as box:
            box.border_title = f"Help: {title}"
            if text := getattr(self._about, "HELP", ""):
                yield Static(
                    Content.from_markup(" ".join(text.split("\n")) if "\n\n" not in text else text), id="help-text"
                )
            yield Static("", id="help-keys")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        self.query_one("#help-box").focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_keys)

    def _show_keys(self) -> None:
        width = self.query_one("#help-box").scrollable_content_region.width - 1
        if width > 0:
            self.query_one("#help-keys", Static).update(key_table(self.app, self._about, width))


def key_table(app: BaseApp, screen: Screen[Any], width: int) -> Content:
    """List the keys with descriptions and ids for keymap files, the screen's own keys first, disabled keys dimmed."""
    seen: dict[str, tuple[str, str, str, bool]] = {}
    for active in screen.active_bindings.values():
        binding = active.binding
        if not binding.tooltip or not binding.id:
            continue
        key = app.get_key_display(binding)
        if binding.id in seen:
            key = f"{seen[binding.id][0]} {key}"
        seen[binding.id] = (key, binding.description, binding.tooltip, active.enabled)
    rows = sorted(seen.items(), key=lambda item: item[0].startswith("app."))
    keys = max((len(row[0]) for _, row in rows), default=0)
    names = max((len(row[1]) for _, row in rows), default=0)
    lines = [Content("")]
    for binding_id, row in rows:
        lines += _key_lines(binding_id, row, keys, names, width)
    lines.append(Content.from_markup("\n[$secondary] On the right: ids for keymap.toml, see docs/student.md.[/]"))
    return Content("\n").join(lines)


def _key_lines(binding_id: str, row: tuple[str, str, str, bool], keys: int, names: int, width: int) -> list[Content]:
    """Return the lines of one key. The id is right-aligned, on a separate line if there is no room."""
    key, name, tooltip, is_enabled = row
    start = keys + names + 4
    style = "" if is_enabled else "$foreground-muted"
    key_style = "bold $footer-key-foreground" if is_enabled else style
    texts = wrapped(tooltip, max(10, width - start))
    if cell_len(texts[-1]) + cell_len(binding_id) + 2 > width - start:
        texts.append("")
    lines = []
    for number, text in enumerate(texts):
        is_first, is_last = number == 0, number == len(texts) - 1
        gap = max(1, width - start - cell_len(text) - cell_len(binding_id)) if is_last else 0
        lines.append(
            Content.assemble(
                (f" {key:>{keys}}  " if is_first else " " * (keys + 3), key_style),
                (f"{name:<{names}} " if is_first else " " * (names + 1), f"bold {style}"),
                (text, style),
                (" " * gap + binding_id if is_last else "", "$secondary"),
            )
        )
    return lines


_TEXT = """\
[bold $accent]Welcome to raidlab[/]

Real md arrays on a real kernel, on the lab's own disks. Break everything: \
nothing outside the lab's disks is written.

{bullet} [bold]Enter[/] builds a RAID 5 of four disks.
{bullet} Put a load on it, and fail one of its disks.
{bullet} Add a fresh disk, watch the rebuild, and verify the data.

The line at the bottom always says what to do next. [bold]F1[/] explains. \
[bold]6[/] is a course, lesson by lesson.\
"""


class WelcomeScreen(Modal[None]):
    """The welcome dialog, shown at the first start."""

    CSS_PATH = "welcome.tcss"
    AREA = "Welcome"
    HELP = "Enter builds a first array with the commands shown; Escape lets you look around."
    BINDINGS: ClassVar[list[BindingType]] = [
        command_key("welcome.build", "b", "Build a RAID 5", "array create", "Build a first array of four disks"),
        hidden_key("welcome.next", "right,down,tab", "app.focus_next", "Next", "To the other button"),
        hidden_key("welcome.previous", "left,up,shift+tab", "app.focus_previous", "Previous", "To the other button"),
        Binding("escape,q", "dismiss", "Look around", id="welcome.close", tooltip="Close; nothing is built"),
        # The text mentions one of these keys, and the app does not receive keys while a dialog is open.
        *mode_keys("welcome.to-", "go", "Close this, and go to the"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._plan: Plan | None = None
        self._is_requested = False
        self._is_asked = False

    def compose(self) -> ComposeResult:
        with Vertical(id="welcome-box"):
            yield Static(Content.from_markup(_TEXT.format(bullet=self.app.glyphs.separator)), id="welcome-text")
            yield Static("", id="welcome-state")
            with Horizontal(id="welcome-buttons"):
                yield Button("Build a first RAID 5 (Enter)", name="build", id="welcome-build", variant="primary")
                yield Button("Look around (Esc)", name="dismiss", id="welcome-close")

    def on_mount(self) -> None:
        self.query_one("#welcome-build").focus()
        self.watch(self, "changes", self._show_state)

    def _show_state(self) -> None:
        """Show the state of the machine. Once it runs, request the plan, so that the dialog can show its command."""
        state, line = self.app.lab, self.query_one("#welcome-state", Static)
        if self._plan:
            return
        if state.problem and not state.is_open:
            self._is_asked = False
            self._cannot(state.problem)
        elif not state.is_open:
            line.update(Content.styled("The machine is starting.", "$foreground-muted"))
        elif not self._is_asked:
            self._is_asked = True
            self.app.look_up(first_array, on_done=self._show_plan, on_error=self._cannot)

    def _show_plan(self, plan: Plan) -> None:
        # On a slow machine the plan may arrive after the user has closed the dialog.
        if self.has_left:
            return
        self._plan = plan
        self.query_one("#welcome-build", Button).disabled = False
        command = plan.lines()[0]
        self.query_one("#welcome-state", Static).update(
            Content.from_markup("It runs:  [bold]$command[/]", command=command)
        )
        if self._is_requested:
            self._run()

    def _cannot(self, error: LabError) -> None:
        if self.has_left:
            return
        self.query_one("#welcome-state", Static).update(Content(f"{error.message}. {error.hint}"))
        self.query_one("#welcome-build", Button).disabled = True
        self.query_one("#welcome-close").focus()

    def action_build(self) -> None:
        self._is_requested = True
        if self._plan:
            self._run()
        else:
            self.query_one("#welcome-state", Static).update("It is built as soon as the machine has started.")

    def _run(self) -> None:
        assert self._plan is not None
        app, plan = self.app, self._plan
        self.dismiss()
        app.run_plan(plan, on_done=partial(app.built, plan))

    def action_go(self, mode: str) -> None:
        self.dismiss()
        self.app.call_later(self.app.switch_mode, mode)
