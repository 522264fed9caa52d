"""Shows a plan before and while it runs: the reason for each step, and its command line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import reactive

from lab.arrays.names import is_array_name
from lab.plans import Danger, Plan, Step
from tui.widgets.lines import FittedLines, Line, wrapped

_INDENT_CELLS = 3
_NAMES_SHOWN = 6
_LEAST_ALIKE = 3
"""Minimum number of similar steps that are shown as one group."""
_DANGERS = {Danger.NONE: "", Danger.ARRAY: "warning", Danger.DATA: "danger"}
"""Danger -> style of a command; only a command that can lose data is red."""


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """The progress of a plan."""

    done: int
    """Number of finished steps."""
    running: bool = True
    failed: str = ""
    """The error of the step after the finished ones; empty if it did not fail."""


class PlanView(FittedLines, can_focus=True):
    """The steps of a plan; a long plan needs a VerticalScroll around it."""

    PREFIX = "plan-view"
    HELP = "The commands that the lab runs, in order, with the reason for each. Copy them to run them by hand."
    DEFAULT_CSS = """
    PlanView {
        height: auto;
        & > .plan-view--why { color: $foreground-muted; }
        & > .plan-view--prompt { color: $foreground-muted; }
        & > .plan-view--command { color: $text-primary; }
        & > .plan-view--danger { color: $text-error; text-style: bold; }
        & > .plan-view--warning { color: $text-warning; }
        & > .plan-view--pending { color: $foreground-muted; }
        & > .plan-view--running { color: $text-warning; text-style: bold; }
        & > .plan-view--done { color: $text-success; }
        & > .plan-view--failed { color: $text-error; text-style: bold; }
        & > .plan-view--empty { color: $foreground-muted; text-style: italic; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "copy", "Copy", id="plan.copy", tooltip="Copy the commands, to run them by hand"),
    ]

    brief: reactive[bool] = reactive(False)
    """Show only commands and warnings."""

    @dataclass
    class Copied(Message):
        """The commands were copied to the clipboard."""

        text: str

    def __init__(
        self,
        plan: Plan | None = None,
        *,
        brief: bool = False,
        empty_text: str = "nothing to do",
        name_of: Callable[[str], str] = lambda node: node.removeprefix("/dev/"),
        id: str | None = None,  # noqa: A002 (textual's name)
    ) -> None:
        """``brief`` omits the reasons; ``name_of`` returns the name of a device for sentences."""
        super().__init__(id=id)
        self._name_of = name_of
        self.set_reactive(PlanView.brief, brief)
        self.empty_text = empty_text
        self._plan = plan
        self._progress: PlanProgress | None = None

    @property
    def plan(self) -> Plan | None:
        return self._plan

    def show(self, plan: Plan | None, progress: PlanProgress | None = None) -> None:
        """Show this plan and its progress."""
        if (plan, progress) != (self._plan, self._progress):
            self._plan, self._progress = plan, progress
            self.changed(layout=True)

    def action_copy(self) -> None:
        if self._plan and self._plan.steps:
            text = "\n".join(self._plan.lines()) + "\n"
            self.app.copy_to_clipboard(text)
            self.post_message(self.Copied(text))

    def watch_brief(self) -> None:
        self.changed(layout=True)

    def paint(self, width: int, height: int) -> list[Line]:
        if self._plan is None or not self._plan.steps:
            return [self.line(width).add(self.empty_text, self.style("empty"))]
        groups = alike(self._plan.steps, self._name_of)
        return [line for group in groups for line in self._group_lines(group, width)]

    def _group_lines(self, group: Sequence[int], width: int) -> Iterator[Line]:
        """The lines of one step, or of a group of similar steps."""
        assert self._plan is not None
        steps = [self._plan.steps[index] for index in group]
        danger = _DANGERS[steps[0].danger]
        sign, style = self._state(group)
        why = group_why(steps, self._name_of)
        said = [(text, "why") for text in wrapped(why, width - _INDENT_CELLS)] if not self.brief else []
        if steps[0].danger is Danger.DATA:
            warning = f"Data on {self._names(steps)} will be lost."
            said += [(text, "danger") for text in wrapped(warning, width - _INDENT_CELLS)]
        for text, component in said:
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
        if self._progress and self._progress.failed and self._progress.done in group:
            for text in wrapped(self._progress.failed, width - _INDENT_CELLS):
                yield self.line(width).add(" " * _INDENT_CELLS).add(text, self.style("failed"))

    def _state(self, group: Sequence[int]) -> tuple[str, str]:
        progress, glyphs = self._progress, self.glyphs
        if progress is None:
            danger = _DANGERS[self._plan.steps[group[0]].danger] if self._plan else ""
            return (glyphs.danger, danger) if danger else (glyphs.pending, "pending")
        if group[-1] < progress.done:
            return glyphs.good, "done"
        if progress.done in group and progress.failed:
            return glyphs.bad, "failed"
        if progress.done in group and progress.running:
            return glyphs.busy, "running"
        return glyphs.pending, "pending"

    def _names(self, steps: Sequence[Step]) -> str:
        """The devices that lose data: a step that adds a disk to an array writes to both, but only the disk does."""
        nodes = list(dict.fromkeys(device for step in steps for device in step.writes_devices))
        disks = [node for node in nodes if not is_array_name(node.removeprefix("/dev/"))]
        return ", ".join(map(self._name_of, disks or nodes)) or "the disks named below"


def own_device(step: Step) -> str:
    """The only device to which a step writes; empty for a step with none or several."""
    return step.writes_devices[0] if len(step.writes_devices) == 1 else ""


def alike(steps: Sequence[Step], name_of: Callable[[str], str]) -> list[list[int]]:
    """The indices of the steps, grouped: successive steps that do the same with different disks are one group."""
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
    """The reason for a group of steps, with the names of its disks."""
    first = steps[0]
    if len(steps) == 1:
        return first.why
    names = [name_of(own_device(step)).partition(" ")[0] for step in steps]
    which = ", ".join(names) if len(names) <= _NAMES_SHOWN else f"{len(names)} disks, {names[0]} to {names[-1]}"
    device = own_device(first)
    why = first.why.replace(name_of(device), "each").replace(device, "each")
    return f"{which}: {why[:1].lower()}{why[1:]}"


def _command_lines(argv: Sequence[str], width: int) -> list[str]:
    """A command, broken between arguments into lines that end with a backslash, so that a shell reads one command.

    An argument longer than a line is broken without a backslash, because a shell does not allow one there.
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
