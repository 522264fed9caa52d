"""Before anything is changed: what will run and why, to be run, copied or left."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Static

from lab.plans import Danger
from tui.plan_runs import PlanRun
from tui.screens.modal import Modal
from tui.widgets.plan_view import PlanProgress, PlanView
from tui.widgets.words import entitle

if TYPE_CHECKING:
    from lab.errors import LabError
    from lab.plans import Plan
    from tui.state import LabState


_MOST_OF_SCREEN = 0.96
_LEAST_ROWS = 4


class PlanScreen(Modal[bool]):
    """Shows a plan and runs the very same one; closes by itself when it is done.

    Args:
        plan: what is to run.
        note: what a user should know before, in a sentence.
        on_done: called after it has run.
    """

    CSS_PATH = "plan.tcss"
    HELP = "These commands will run on the machine, in this order. Nothing has been changed yet."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "run", "Run", id="plan.run", tooltip="Run these commands"),
        Binding("c,y", "copy", "Copy", id="plan.copy", tooltip="Copy the commands, to paste them at a root shell"),
        Binding("escape,q", "cancel", "Cancel", id="plan.cancel", tooltip="Close; nothing is changed"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="plan.page-up", tooltip="Commands further up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="plan.page-down", tooltip="Commands further down"),
        Binding("right,down,tab", "app.focus_next", "Next", show=False, id="plan.next", tooltip="To the next button"),
        Binding(
            "left,up,shift+tab", "app.focus_previous", "Previous", show=False, id="plan.previous",
            tooltip="To the button before",
        ),
    ]  # fmt: skip

    def __init__(self, plan: Plan, *, note: str = "", on_done: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.plan = plan
        self._note = note
        self._on_done = on_done
        self._is_running = False
        self._is_over = False
        self._followed = -1
        """The step that was brought into sight last."""
        self._failure = ""

    @property
    def _is_dangerous(self) -> bool:
        """Whether something would be lost that is in use: building on free disks overwrites nobody's array."""
        free = {disk.node for disk in self.app.lab.free_disks}
        lost = {node for step in self.plan.steps if step.danger is Danger.DATA for node in step.writes_devices}
        # A step that takes a disk into an array writes on both, and only the disk's own data go.
        disks = lost & {disk.node for disk in self.app.lab.disks}
        return self.plan.destroys_data and not (disks and disks <= free)

    def compose(self) -> ComposeResult:
        dangerous = self._is_dangerous
        with Vertical(id="plan-box", classes="danger" if dangerous else "") as box:
            entitle(box, self.plan.title)
            if dangerous:
                box.border_subtitle = f"{self.app.glyphs.danger} data on these devices will be lost"
            elif self.plan.destroys_data:
                box.border_subtitle = "these disks are free: no array loses anything"
            if self._note:
                yield Static(self._note, id="plan-note", markup=False)
            if not self.plan.steps:
                yield Static("There is nothing to do.", id="plan-empty")
            with VerticalScroll(id="plan-steps", can_focus=False):
                yield PlanView(self.plan)
            yield Static("", id="plan-failure", markup=False)
            with Horizontal(id="plan-buttons"):
                yield Button(
                    "Run (r)", id="run", variant="error" if dangerous else "primary", disabled=not self.plan.steps
                )
                yield Button("Copy (c)", id="copy", disabled=not self.plan.steps)
                yield Button("Cancel (Esc)", id="cancel")

    def on_mount(self) -> None:
        self.query_one("#plan-failure").display = False
        # Enter must not destroy anything by accident.
        first = "#cancel" if self._is_dangerous or not self.plan.steps else "#run"
        self.query_one(first).focus()

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Long plans scroll, so that the buttons always show."""
        box, steps = self.query_one("#plan-box"), self.query_one("#plan-steps")
        others = sum(each.outer_size.height + each.styles.margin.height for each in box.children if each is not steps)
        room = int(self.size.height * _MOST_OF_SCREEN) - box.gutter.height - others
        steps.styles.max_height = max(_LEAST_ROWS, room)

    def action_page(self, by: int) -> None:
        steps = self.query_one("#plan-steps")
        steps.scroll_relative(y=by * max(1, steps.size.height - 1), animate=False)

    def update_from(self, state: LabState) -> None:
        """Follow the steps while they run."""
        operation = state.operation
        if self._is_running and operation and operation.title == self.plan.title:
            self._show(PlanProgress(max(0, operation.step - 1), running=True))
            self._follow(max(0, operation.step - 1))

    def _follow(self, step: int) -> None:
        """A long plan goes along with the step that runs; in between it can be scrolled."""
        if step != self._followed:
            self._followed = step
            steps = self.query_one("#plan-steps")
            at = steps.virtual_size.height * step // len(self.plan.steps)
            steps.scroll_to(y=max(0, at - steps.size.height // 2), animate=False)

    def on_button_pressed(self, event: Button.Pressed) -> None:
        event.stop()
        actions: dict[str | None, Callable[[], Any]] = {
            "run": self.action_run,
            "copy": self.action_copy,
            "cancel": self.action_cancel,
        }
        actions[event.button.id]()

    def action_run(self) -> None:
        if self._is_running or self._is_over or not self.plan.steps:
            return
        self._is_running = True
        self.query_one("#run", Button).disabled = True
        self.query_one("#cancel", Button).label = "Hide (Esc)"
        close = partial(self.dismiss, True)
        PlanRun(self.app, self.plan, on_done=(close, self._on_done), on_error=self._failed).go_on()

    def action_copy(self) -> None:
        if self.plan.steps:
            self.app.copy_to_clipboard("\n".join(self.plan.lines()) + "\n")
            self.notify("Copied, if the terminal allows it")

    def action_cancel(self) -> None:
        self.dismiss(False)

    def _failed(self, error: LabError) -> None:
        self._is_running, self._is_over = False, True
        if not self.is_attached:
            self.app.tell(error)
            return
        self._show(PlanProgress(self._steps_done(), running=False, failed=error.message))
        failure = self.query_one("#plan-failure", Static)
        failure.update(f"{self.app.glyphs.bad} {error.message}" + (f"\nnext: {error.hint}" if error.hint else ""))
        failure.display = True
        self.call_after_refresh(self._fit)
        self.query_one("#cancel", Button).label = "Close (Esc)"
        self.query_one("#cancel").focus()

    def _steps_done(self) -> int:
        operation = self.app.lab.operation
        return max(0, operation.step - 1) if operation else 0

    def _show(self, progress: PlanProgress) -> None:
        self.query_one(PlanView).show(self.plan, progress)
