"""The dialog of the first start: what raidlab is, and a key that builds a first array."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Button, Static

from tui.actions import first_array
from tui.frontend import PlanRun
from tui.keys import CommandKey
from tui.registry import SCREENS
from tui.screens.modal import Modal

if TYPE_CHECKING:
    from lab.errors import LabError
    from lab.plans import Plan

_TEXT = """\
[bold $accent]Welcome to raidlab[/]

Real md arrays on a real kernel, on the lab's own disks. Break everything: \
nothing outside the lab's disks is written.

{bullet} [bold]Enter[/] builds a RAID 5 of four disks.
{bullet} Put a load on it, and fail a disk under it.
{bullet} Add a fresh disk, watch the rebuild, see that no byte is lost.

The line at the bottom always says what to do next. [bold]F1[/] explains. \
[bold]6[/] is a course, lesson by lesson.\
"""


class WelcomeScreen(Modal[None]):
    """The welcome dialog, shown at the first start."""

    CSS_PATH = "welcome.tcss"
    AREA = "Welcome"
    HELP = "Enter builds a first array with the commands shown; Escape lets you look around."
    BINDINGS: ClassVar[list[BindingType]] = [
        CommandKey(
            "b",
            "build",
            "Build a RAID 5",
            id="welcome.build",
            tooltip="Build a first array of four disks",
            command="array create",
        ),
        Binding(
            "right,down,tab", "app.focus_next", "Next", show=False, id="welcome.next", tooltip="To the other button"
        ),
        Binding(
            "left,up,shift+tab",
            "app.focus_previous",
            "Previous",
            show=False,
            id="welcome.previous",
            tooltip="To the other button",
        ),
        Binding("escape,q", "close", "Look around", id="welcome.close", tooltip="Close; nothing is built"),
        # The text mentions one of these keys, and the app does not receive keys while a dialog is open.
        *(
            Binding(
                entry.key,
                f"go('{entry.mode}')",
                entry.title,
                show=False,
                id=f"welcome.to-{entry.mode}",
                tooltip=f"Close this, and go to the screen {entry.title}",
            )
            for entry in SCREENS
        ),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._plan: Plan | None = None
        self._is_wanted = False
        self._is_asked = False
        self._is_closed = False

    def compose(self) -> ComposeResult:
        with Vertical(id="welcome-box"):
            yield Static(Content.from_markup(_TEXT.format(bullet=self.app.glyphs.separator)), id="welcome-text")
            yield Static("", id="welcome-state")
            with Horizontal(id="welcome-buttons"):
                yield Button("Build a first RAID 5 (Enter)", id="welcome-build", variant="primary")
                yield Button("Look around (Esc)", id="welcome-close")

    def on_mount(self) -> None:
        self.query_one("#welcome-build").focus()
        self.watch(self.app, "changes", self._show_state)

    def _show_state(self) -> None:
        """Show the state of the machine; when it runs, request the plan, so that its command is shown beforehand."""
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
        if self._is_closed:
            return
        self._plan = plan
        self.query_one("#welcome-build", Button).disabled = False
        command = plan.lines()[0]
        self.query_one("#welcome-state", Static).update(
            Content.from_markup("It runs:  [bold]$command[/]", command=command)
        )
        if self._is_wanted:
            self._run()

    def _cannot(self, error: LabError) -> None:
        if self._is_closed:
            return
        self.query_one("#welcome-state", Static).update(Content(f"{error.message}. {error.hint}"))
        self.query_one("#welcome-build", Button).disabled = True
        self.query_one("#welcome-close").focus()

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        if event.button.id == "welcome-build":
            self.action_build()
        else:
            self.action_close()

    def action_build(self) -> None:
        """Build the array now, or as soon as the machine runs."""
        self._is_wanted = True
        if self._plan:
            self._run()
        else:
            self.query_one("#welcome-state", Static).update("It is built as soon as the machine has started.")

    def _run(self) -> None:
        assert self._plan is not None
        app, plan = self.app, self._plan
        self.dismiss()
        PlanRun(app, plan, on_done=(partial(app.built, plan),)).go_on()

    def action_close(self) -> None:
        self._is_closed = True
        self.dismiss()

    def action_go(self, mode: str) -> None:
        self.action_close()
        self.app.call_later(self.app.switch_mode, mode)
