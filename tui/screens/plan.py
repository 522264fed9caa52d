"""The dialog that shows a plan before it runs: the user can run it, copy it or leave it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Button, Static

from lab.errors import LabError
from tui.frontend import MakePlan, PlanRun, named
from tui.keys import CommandKey
from tui.screens.modal import Modal
from tui.widgets.plan_view import PlanProgress, PlanView
from tui.widgets.words import entitle

if TYPE_CHECKING:
    from lab.plans import Plan


_MOST_OF_SCREEN = 0.96
_LEAST_ROWS = 4
_UNSEEN_SECONDS = 0.4
"""The waiting message is shown only if making the plan takes longer than this."""


class PlanScreen(Modal[bool]):
    """Makes a plan, shows it, and runs exactly this plan. Its result is whether the plan ran; it closes after the run.

    It is on the screen from the first moment, so that keys typed for the plan never reach the screen below; the user
    cannot confirm commands that are not shown yet. An error of ``make`` is shown with its hint. If ``make`` returns
    None, no confirmation is needed.

    Args:
        make: makes the plan, on the lab's thread.
        note: a sentence about the plan for the user.
        on_done: called after the plan, or its first part if it waits for md, has run; at once if there is no plan.
    """

    CSS_PATH = "plan.tcss"
    SEEN_FIRST = True
    HELP = "These commands will run on the machine, in this order. Nothing has been changed yet."
    BINDINGS: ClassVar[list[BindingType]] = [
        CommandKey("r", "run", "Run", id="plan.run", tooltip="Run these commands", command="array create"),
        Binding("c,y", "copy", "Copy", id="plan.copy", tooltip="Copy the commands, to paste them at a root shell"),
        Binding("escape,q", "cancel", "Cancel", id="plan.cancel", tooltip="Close; nothing is changed"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="plan.page-up", tooltip="Commands further up"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="plan.page-down", tooltip="Commands further down"),
        Binding("right,down,tab", "app.focus_next", "Next", show=False, id="plan.next", tooltip="To the next button"),
        Binding(
            "left,up,shift+tab",
            "app.focus_previous",
            "Previous",
            show=False,
            id="plan.previous",
            tooltip="To the button before",
        ),
    ]

    def __init__(self, make: MakePlan, *, note: str = "", on_done: Callable[[], object] | None = None) -> None:
        super().__init__()
        self._make, self._note, self._on_done = make, note, on_done
        self._plan: Plan | None = None
        self._run: PlanRun | None = None
        self._followed = -1
        """The step that was scrolled into view last."""

    @property
    def is_made(self) -> bool:
        """Whether the plan has been made."""
        return self._plan is not None

    @property
    def plan(self) -> Plan:
        """The plan, once it has been made."""
        assert self._plan is not None
        return self._plan

    def compose(self) -> ComposeResult:
        if not self.is_made:
            yield Static("Working out which commands would run. Esc cancels.", id="plan-awaited")
            return
        plan, danger = self.plan, self.app.glyphs.danger
        kind = "danger" if plan.destroys_data else "warning" if plan.ends_array else ""
        with Vertical(id="plan-box", classes=kind) as box:
            entitle(box, plan.title)
            if plan.destroys_data:
                box.border_subtitle = f"{danger} data will be lost"
            elif plan.ends_array:
                box.border_subtitle = f"{danger} the array cannot be used afterwards"
            if self._note:
                yield Static(self._note, id="plan-note", markup=False)
            if not plan.steps:
                yield Static("There is nothing to do.", id="plan-empty")
            with VerticalScroll(id="plan-steps", can_focus=False):
                yield PlanView(plan, name_of=self.app.lab.full_disk_name)
            yield Static("", id="plan-failure", markup=False)
            with Horizontal(id="plan-buttons"):
                yield Button(
                    "Run (r)", id="run", variant="error" if plan.destroys_data else "primary", disabled=not plan.steps
                )
                yield Button("Copy (c)", id="copy", disabled=not plan.steps)
                yield Button("Cancel (Esc)", id="cancel")

    def on_mount(self) -> None:
        self.add_class("-awaited")
        self.query_one("#plan-awaited").visible = False
        self.set_timer(_UNSEEN_SECONDS, self._show_awaited)
        self.watch(self.app, "changes", self._show_progress, init=False)
        self.run_worker(self._make_plan())

    def _show_awaited(self) -> None:
        for text in self.query("#plan-awaited"):
            text.visible = True

    async def _make_plan(self) -> None:
        """Make the plan and show it. Dismissing the screen cancels this."""
        try:
            self._plan = await asyncio.wrap_future(self.app.client.submit(partial(named, self._make)))
        except LabError as error:
            self.dismiss(False)
            self.app.show_error(error)
            return
        if self._plan is None:
            self.dismiss(False)
            if self._on_done:
                self._on_done()
            return
        self.remove_class("-awaited")
        await self.recompose()
        self.query_one("#plan-failure").display = False
        # Enter must not destroy data by accident.
        first = "#cancel" if self.plan.destroys_data or self.plan.ends_array or not self.plan.steps else "#run"
        self.query_one(first).focus()
        self._fit()
        self.call_after_refresh(self._note_shown)

    def _note_shown(self) -> None:
        if self.is_made:
            super()._note_shown()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self.is_made or action not in ("run", "copy", "page")

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Limit the height of the steps, so that the buttons are always visible; long plans scroll."""
        if not self.query("#plan-box"):
            return
        box, steps = self.query_one("#plan-box"), self.query_one("#plan-steps")
        others = sum(each.outer_size.height + each.styles.margin.height for each in box.children if each is not steps)
        room = int(self.size.height * _MOST_OF_SCREEN) - box.gutter.height - others
        steps.styles.max_height = max(_LEAST_ROWS, room)

    def action_page(self, by: int) -> None:
        steps = self.query_one("#plan-steps")
        steps.scroll_relative(y=by * max(1, steps.size.height - 1), animate=False)

    def _show_progress(self) -> None:
        """Show the progress of the steps while the plan runs."""
        if self._run and not self._run.is_over:
            step = max(0, self._run.steps_begun - 1)
            self.query_one(PlanView).show(self.plan, PlanProgress(step, running=True))
            self._follow(step)

    def _follow(self, step: int) -> None:
        """Scroll to the running step, once per step, so that the user can scroll meanwhile."""
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
        if self._run or not self.plan.steps:
            return
        self.query_one("#run", Button).disabled = True
        self.query_one("#cancel", Button).label = "Hide (Esc)"
        close = partial(self.dismiss, True)
        self._run = PlanRun(self.app, self.plan, on_done=(close, self._on_done), on_error=self._failed)
        self._run.go_on()

    def action_copy(self) -> None:
        if self.plan.steps:
            self.app.copy_to_clipboard("\n".join(self.plan.lines()) + "\n")
            self.notify("Copied, if the terminal allows it")

    def action_cancel(self) -> None:
        self.dismiss(False)

    def _failed(self, error: LabError) -> None:
        if not self.is_attached:
            self.app.show_error(error)
            return
        done = max(0, self._run.steps_begun - 1) if self._run else 0
        self.query_one(PlanView).show(self.plan, PlanProgress(done, running=False, failed=error.message))
        failure = self.query_one("#plan-failure", Static)
        failure.update(f"{self.app.glyphs.bad} {error.message}" + (f"\nnext: {error.hint}" if error.hint else ""))
        failure.display = True
        self.call_after_refresh(self._fit)
        self.query_one("#cancel", Button).label = "Close (Esc)"
        self.query_one("#cancel").focus()
