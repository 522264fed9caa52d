"""The dialog that shows a plan, so that the user can run it, copy it or dismiss it."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.reactive import reactive
from textual.widgets import Button, Static

from lab.arrays.levels import is_array_name
from lab.errors import LabError
from lab.plans import Danger, Plan, Step
from tui.dialogs import Modal
from tui.frontend import PlanRun
from tui.keys import command_key, hidden_key
from tui.widgets import Line, LineWidget, entitle, wrapped

_INDENT_CELLS = 3
_NAMES_SHOWN = 6
_LEAST_ALIKE = 3
"""At least this many similar steps are shown as one group."""
_DANGERS = {Danger.NONE: "", Danger.ARRAY: "warning", Danger.DATA: "danger"}
"""The style of a command by its danger. Only a command that can lose data is red."""


class PlanView(LineWidget, can_focus=True):
    """The steps of a plan. A long plan needs a VerticalScroll around it."""

    HELP = "The commands that the lab runs, in order, with the reason for each. Copy them to run them by hand."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "copy", "Copy", id="plan.copy", tooltip="Copy the commands, to run them by hand"),
    ]

    plan: reactive[Plan | None] = reactive(None, layout=True)
    done: reactive[int | None] = reactive(None, layout=True)
    """Number of finished steps, or None if the plan is not running."""
    failed: reactive[str] = reactive("", layout=True)
    """The error of the step after the finished ones; empty if it did not fail."""
    brief: reactive[bool] = reactive(False, layout=True)
    """Whether to show only commands and warnings."""

    def __init__(
        self,
        plan: Plan | None = None,
        *,
        empty_text: str = "nothing to do",
        name_of: Callable[[str], str] = lambda node: node.removeprefix("/dev/"),
    ) -> None:
        """``name_of`` returns the name of a device for sentences."""
        super().__init__()
        self._name_of = name_of
        self._empty_text = empty_text
        self.plan = plan

    def action_copy(self) -> None:
        if self.plan and self.plan.steps:
            self.app.copy_to_clipboard("\n".join(self.plan.lines()) + "\n")
            self.notify("The commands are on the clipboard, if the terminal allows it")

    def paint(self, width: int, height: int) -> list[Line]:
        if self.plan is None or not self.plan.steps:
            style = self.style("empty")
            return [self.line(width).add(text, style) for text in wrapped(self._empty_text, width)]
        steps = self.plan.steps
        groups = alike(steps, self._name_of)
        return [line for group in groups for line in self._group_lines(group, [steps[at] for at in group], width)]

    def _group_lines(self, group: Sequence[int], steps: Sequence[Step], width: int) -> Iterator[Line]:
        """Yield the lines of a step, or of a group of similar steps, whose indices are ``group``."""
        danger = _DANGERS[steps[0].danger]
        sign, style = self._state(group, danger)
        why = group_why(steps, self._name_of)
        parts = [(text, "why") for text in wrapped(why, width - _INDENT_CELLS)] if not self.brief else []
        if steps[0].danger is Danger.DATA:
            warning = f"Data on {self._names(steps)} will be lost."
            parts += [(text, "danger") for text in wrapped(warning, width - _INDENT_CELLS)]
        for text, component in parts:
            yield self.line(width).add(f" {sign} ", self.style(style)).add(text, self.style(component))
            sign = " "
        for number, text in enumerate(_command_lines(steps[0].argv, width - _INDENT_CELLS - 2)):
            line = self.line(width).add(f" {sign} ", self.style(style))
            sign = " "
            line.add("# " if number == 0 else "  ", self.style("prompt"))
            yield line.add(text, self.style(danger or "command"))
        if len(steps) > 1:
            rest = ", ".join(own_device(step).removeprefix("/dev/") for step in steps[1:])
            for text in wrapped(f"and the same for {rest}", width - _INDENT_CELLS - 2):
                yield self.line(width).add(" " * (_INDENT_CELLS + 2)).add(text, self.style("why"))
        if self.failed and self.done in group:
            for text in wrapped(self.failed, width - _INDENT_CELLS):
                yield self.line(width).add(" " * _INDENT_CELLS).add(text, self.style("failed"))

    def _state(self, group: Sequence[int], danger: str) -> tuple[str, str]:
        done, glyphs = self.done, self.glyphs
        if done is None:
            return (glyphs.notice, danger) if danger else (glyphs.pending, "pending")
        if group[-1] < done:
            return glyphs.good, "done"
        if done in group:
            return (glyphs.bad, "failed") if self.failed else (glyphs.busy, "running")
        return glyphs.pending, "pending"

    def _names(self, steps: Sequence[Step]) -> str:
        """Name the devices that lose data. Adding a disk to an array writes to both, but only the disk loses data."""
        nodes = list(dict.fromkeys(device for step in steps for device in step.writes_devices))
        disks = [node for node in nodes if not is_array_name(node.removeprefix("/dev/"))]
        return ", ".join(map(self._name_of, disks or nodes)) or "the disks named below"


def own_device(step: Step) -> str:
    """Return the device that a step writes to, or an empty string if it writes to none or to several."""
    return step.writes_devices[0] if len(step.writes_devices) == 1 else ""


def alike(steps: Sequence[Step], name_of: Callable[[str], str]) -> list[list[int]]:
    """Return the steps' indices in groups. Consecutive steps that do the same to different disks form a group."""
    groups: list[list[int]] = []
    before: object = None
    for index, step in enumerate(steps):
        device = own_device(step)
        form = (
            tuple("" if word == device else word for word in step.argv),
            step.why.replace(name_of(device), "").replace(device, "") if device else step.why,
            step.danger,
            step.stdin_text,
        )
        if device and form == before:
            groups[-1].append(index)
        else:
            groups.append([index])
        before = form if device else None
    return [part for group in groups for part in ([group] if len(group) >= _LEAST_ALIKE else [[at] for at in group])]


def group_why(steps: Sequence[Step], name_of: Callable[[str], str]) -> str:
    """Return the reason for a group of steps, with the names of its disks."""
    first = steps[0]
    if len(steps) == 1:
        return first.why
    names = [name_of(own_device(step)).partition(" ")[0] for step in steps]
    which = ", ".join(names) if len(names) <= _NAMES_SHOWN else f"{len(names)} disks, {names[0]} to {names[-1]}"
    device = own_device(first)
    why = first.why.replace(name_of(device), "each").replace(device, "each")
    return f"{which}: {why[:1].lower()}{why[1:]}"


def _command_lines(argv: Sequence[str], width: int) -> list[str]:
    """Break a command between arguments into lines that end with a backslash, so that a shell reads one command.

    An argument longer than a line is broken without a backslash, because a shell would keep a backslash in quotes.
    """
    room = max(8, width - 2)
    lines = [""]
    for word in (shlex.quote(argument) for argument in argv):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if cell_len(joined) <= room or not lines[-1]:
            lines[-1] = joined
        else:
            lines.append(word)
    lines = [f"{line} \\" for line in lines[:-1]] + lines[-1:]
    return [line[start : start + width] for line in lines for start in range(0, len(line), max(1, width))]


_MOST_OF_SCREEN = 0.96
_LEAST_ROWS = 4
_UNSEEN_SECONDS = 0.4
"""The waiting message appears only if it takes longer than this to make the plan."""


class PlanScreen(Modal[None]):
    """Shows the plan that ``RaidlabApp.ask`` makes, asks whether to run it, and shows its progress.

    The dialog opens while the plan is still being made. The user cannot confirm commands that are not shown yet.

    Args:
        note: a sentence about the plan for the user.
    """

    CSS_PATH = "plan_screen.tcss"
    SEEN_FIRST = True
    AREA = "Plan"
    HELP = "These commands will run on the machine, in this order. Nothing has been changed yet."
    BINDINGS: ClassVar[list[BindingType]] = [
        command_key("plan.run", "r", "Run", "array create", "Run these commands"),
        Binding("c,y", "copy", "Copy", id="plan.copy", tooltip="Copy the commands, to paste them at a root shell"),
        Binding("escape,q", "dismiss", "Cancel", id="plan.cancel", tooltip="Close; nothing is changed"),
        hidden_key("plan.page-up", "pageup", "page(-1)", "Page up", "Commands further up"),
        hidden_key("plan.page-down", "pagedown", "page(1)", "Page down", "Commands further down"),
        hidden_key("plan.next", "right,down,tab", "app.focus_next", "Next", "To the next button"),
        hidden_key("plan.previous", "left,up,shift+tab", "app.focus_previous", "Previous", "To the previous button"),
    ]

    plan_run: reactive[PlanRun | None] = reactive(None, recompose=True)
    """The plan that is shown; None while it is being made."""

    def __init__(self, note: str = "") -> None:
        super().__init__()
        self._note = note
        self.consent: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Whether the user agrees to the plan. Dismissing the dialog means no."""
        self._is_shown = False
        """Whether the plan's widgets are mounted, so that keys may act on them."""
        self._followed = -1
        """The step that was scrolled into view last."""

    @property
    def plan(self) -> Plan:
        assert self.plan_run is not None
        return self.plan_run.plan

    def compose(self) -> ComposeResult:
        self.set_class(self.plan_run is None, "-awaited")
        if self.plan_run is None:
            yield Static("Working out which commands would run. Esc cancels.", id="plan-awaited")
            return
        plan, sign = self.plan, self.app.glyphs.notice
        kind = "danger" if plan.destroys_data else "warning" if plan.ends_array else ""
        with Vertical(id="plan-box", classes=kind) as box:
            entitle(box, plan.title)
            if plan.destroys_data:
                box.border_subtitle = f"{sign} data will be lost"
            elif plan.ends_array:
                box.border_subtitle = f"{sign} the array cannot be used afterwards"
            if self._note:
                yield Static(self._note, id="plan-note", markup=False)
            if not plan.steps:
                yield Static("There is nothing to do.", id="plan-empty")
            with VerticalScroll(id="plan-steps", can_focus=False):
                yield PlanView(plan, name_of=self.app.lab.full_disk_name)
            yield Static("", id="plan-failure", markup=False)
            with Horizontal(id="plan-buttons"):
                yield Button(
                    "Run (r)",
                    variant="error" if plan.destroys_data else "primary",
                    name="run",
                    id="run",
                    disabled=not plan.steps,
                )
                yield Button("Copy (c)", name="copy", id="copy", disabled=not plan.steps)
                yield Button("Cancel (Esc)", name="dismiss", id="cancel")

    async def recompose(self) -> None:
        await super().recompose()
        # Every widget of the plan is mounted only now.
        self._is_shown = True
        self._plan_shown()

    def on_mount(self) -> None:
        self.query_one("#plan-awaited").visible = False
        self.set_timer(_UNSEEN_SECONDS, self._show_awaited)

    def on_unmount(self) -> None:
        if not self.consent.done():
            self.consent.set_result(False)

    def _show_awaited(self) -> None:
        for text in self.query("#plan-awaited"):
            text.visible = True

    def _plan_shown(self) -> None:
        # Enter must not destroy data by accident.
        first = "#cancel" if self.plan.destroys_data or self.plan.ends_array or not self.plan.steps else "#run"
        for button in self.query(first):
            button.focus()
        self._fit()
        self.call_after_refresh(self._note_shown)

    def _note_shown(self) -> None:
        if self.query("#plan-box"):
            super()._note_shown()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return self._is_shown or action not in ("run", "copy", "page")

    def on_resize(self) -> None:
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Limit the height of the steps, so that the buttons are always visible. Long plans scroll."""
        # The screen is also resized and refreshed while its widgets are mounted or removed.
        for box in self.query("#plan-box"):
            for steps in box.query("#plan-steps"):
                others = (each for each in box.children if each is not steps)
                taken = sum(each.outer_size.height + each.styles.margin.height for each in others)
                room = int(self.size.height * _MOST_OF_SCREEN) - box.gutter.height - taken
                steps.styles.max_height = max(_LEAST_ROWS, room)

    def action_page(self, by: int) -> None:
        steps = self.query_one("#plan-steps")
        steps.scroll_relative(y=by * max(1, steps.size.height - 1), animate=False)

    def watch_changes(self) -> None:
        if self.plan_run and self.plan_run.is_running:
            step = max(0, self.plan_run.steps_begun - 1)
            self.query_one(PlanView).done = step
            self._follow(step)

    def _follow(self, step: int) -> None:
        """Scroll to the running step, once per step, so that the user can scroll meanwhile."""
        if step != self._followed:
            self._followed = step
            steps = self.query_one("#plan-steps")
            at = steps.virtual_size.height * step // len(self.plan.steps)
            steps.scroll_to(y=max(0, at - steps.size.height // 2), animate=False)

    def action_run(self) -> None:
        if self.consent.done() or not self.plan.steps:
            return
        self.query_one("#run", Button).disabled = True
        self.query_one("#cancel", Button).label = "Hide (Esc)"
        self.consent.set_result(True)

    def action_copy(self) -> None:
        self.query_one(PlanView).action_copy()

    def show_failure(self, error: LabError) -> None:
        """Show why the plan failed or cannot be made. If the user has left, report only the failure of a plan."""
        if self.plan_run is None and self.has_left:
            return
        if self.plan_run is None or not self.is_attached:
            self.dismiss()
            self.app.show_error(error)
            return
        view = self.query_one(PlanView)
        view.done = max(0, self.plan_run.steps_begun - 1)
        view.failed = error.message
        failure = self.query_one("#plan-failure", Static)
        failure.update(f"{self.app.glyphs.bad} {error.message}" + (f"\nnext: {error.hint}" if error.hint else ""))
        failure.display = True
        self.call_after_refresh(self._fit)
        self.query_one("#cancel", Button).label = "Close (Esc)"
        self.query_one("#cancel").focus()
