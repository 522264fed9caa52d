"""A plan to read before it runs, and to follow while it does: why each step is there, and its command line."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
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


@dataclass(frozen=True, slots=True)
class PlanProgress:
    """How far a plan has come."""

    done: int
    """Steps that are finished."""
    running: bool = True
    failed: str = ""
    """What the step after the finished ones said when it failed."""


class PlanView(FittedLines, can_focus=True):
    """The steps of a plan. Put it in a VerticalScroll where it may be long."""

    PREFIX = "plan-view"
    HELP = "The commands that the lab runs, in order, with the reason for each. Copy them to run them by hand."
    DEFAULT_CSS = """
    PlanView {
        height: auto;
        & > .plan-view--why { color: $foreground-muted; }
        & > .plan-view--prompt { color: $foreground-muted; }
        & > .plan-view--command { color: $text-primary; }
        & > .plan-view--danger { color: $text-error; text-style: bold; }
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
    """Commands and warnings only."""

    @dataclass
    class Copied(Message):
        """The commands were put on the clipboard."""

        text: str

    def __init__(
        self,
        plan: Plan | None = None,
        *,
        brief: bool = False,
        empty_text: str = "nothing to do",
        id: str | None = None,  # noqa: A002 (textual's name)
    ) -> None:
        """``brief`` leaves the reasons out."""
        super().__init__(id=id)
        self.set_reactive(PlanView.brief, brief)
        self.empty_text = empty_text
        self._plan = plan
        self._progress: PlanProgress | None = None

    @property
    def plan(self) -> Plan | None:
        return self._plan

    def show(self, plan: Plan | None, progress: PlanProgress | None = None) -> None:
        """Show this plan, and how far it has come."""
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
        return [line for index, step in enumerate(self._plan.steps) for line in self._step_lines(index, step, width)]

    def _step_lines(self, index: int, step: Step, width: int) -> Iterator[Line]:
        is_danger = step.danger is not Danger.NONE
        sign, style = self._state(index)
        said = [(text, "why") for text in wrapped(step.why, width - _INDENT_CELLS)] if not self.brief else []
        if is_danger:
            warning = f"Data on {_names(step)} will be lost."
            said += [(text, "danger") for text in wrapped(warning, width - _INDENT_CELLS)]
        for text, component in said:
            yield self.line(width).add(f" {sign} ", self.style(style)).add(text, self.style(component))
            sign = " "
        for number, text in enumerate(_command_lines(step.argv, width - _INDENT_CELLS - 2)):
            line = self.line(width).add(f" {sign} ", self.style(style))
            sign = " "
            line.add("# " if number == 0 else "  ", self.style("prompt"))
            yield line.add(text, self.style("danger" if is_danger else "command"))
        if self._progress and self._progress.failed and index == self._progress.done:
            for text in wrapped(self._progress.failed, width - _INDENT_CELLS):
                yield self.line(width).add(" " * _INDENT_CELLS).add(text, self.style("failed"))

    def _state(self, index: int) -> tuple[str, str]:
        progress, glyphs = self._progress, self.glyphs
        if progress is None:
            is_danger = self._plan is not None and self._plan.steps[index].danger is not Danger.NONE
            return (glyphs.danger, "danger") if is_danger else (glyphs.pending, "pending")
        if index < progress.done:
            return glyphs.good, "done"
        if index == progress.done and progress.failed:
            return glyphs.bad, "failed"
        if index == progress.done and progress.running:
            return glyphs.busy, "running"
        return glyphs.pending, "pending"


def _names(step: Step) -> str:
    """What loses data: a step that takes a disk into an array writes on both, and only the disk's own data go."""
    names = [device.removeprefix("/dev/") for device in step.writes_devices]
    disks = [name for name in names if not is_array_name(name)]
    return ", ".join(disks or names) or "the disks named below"


def _command_lines(argv: Sequence[str], width: int) -> list[str]:
    """The command in lines that a shell takes as one: broken between arguments, each but the last with a backslash.

    An argument that is longer than a line goes on in the next without one: it cannot be broken for a shell.
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
