"""A plan is a list of steps that can be printed, explained, reviewed before execution, and run.

The lab changes a machine only through plans, so the commands that it prints are those that it executes.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

_ROWS_SHOWN = 12
_COLUMNS_SHOWN = 160


class Danger(StrEnum):
    """The damage that a step may do."""

    NONE = "none"
    ARRAY = "array"
    """The array stops working, or md no longer finds it. The data on its members remain."""
    DATA = "data"
    """Data on the devices named in the step are lost."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command, its purpose, and the command that undoes it.

    ``argv`` runs without a shell. To write to a file under /sys, use ``write_file_step``.
    """

    argv: tuple[str, ...]
    why: str
    undo: tuple[str, ...] = ()
    danger: Danger = Danger.NONE
    writes_devices: tuple[str, ...] = ()
    """Every device that this step writes to. The guard checks these devices before the step runs."""
    timeout_seconds: float = 120.0
    stdin_text: str = ""
    """Standard input of the command, such as a long device-mapper table."""
    ignores_partitions: bool = False
    """Whether the guard ignores unused partitions, because the step erases them or starts an array that they belong to.
    """
    only_waits: bool = False
    """Whether the step changes nothing and only waits, perhaps for hours, for work that the machine does by itself."""

    def shell_line(self) -> str:
        """Return the step as a line for a root shell.

        ``stdin_text`` becomes a here-document, which is abbreviated if it is long.
        """
        line = shlex.join(self.argv)
        if not self.stdin_text:
            return line
        rows = [
            row if len(row) <= _COLUMNS_SHOWN else f"{row[:_COLUMNS_SHOWN]} ..." for row in self.stdin_text.split("\n")
        ]
        rows = rows[:-1] if not rows[-1] else rows
        if len(rows) > _ROWS_SHOWN:
            rows = [*rows[: _ROWS_SHOWN - 1], f"... {len(rows) - _ROWS_SHOWN + 1} more lines"]
        return "\n".join((f"{line} <<'END'", *rows, "END"))


def write_file_step(path: str, text: str, why: str, **more: Any) -> Step:
    """Return a step that writes a value to a file under /sys or /proc; ``more`` are further fields of the step."""
    return Step(("sh", "-c", f"echo {shlex.quote(text)} > {shlex.quote(path)}"), why, **more)


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, with a title. The sum of two plans contains the steps of both."""

    title: str
    steps: tuple[Step, ...] = field(default=())

    def __add__(self, other: Plan) -> Plan:
        return Plan(self.title, self.steps + other.steps)

    @classmethod
    def of(cls, title: str, steps: Iterable[Step]) -> Plan:
        return cls(title, tuple(steps))

    @property
    def destroys_data(self) -> bool:
        return any(step.danger is Danger.DATA for step in self.steps)

    @property
    def ends_array(self) -> bool:
        """Whether the plan leaves an array unusable, although the array's members keep their data."""
        return not self.destroys_data and any(step.danger is Danger.ARRAY for step in self.steps)

    def on_blank_disks(self) -> Plan:
        """Return the same plan for disks that are known to be blank, so that no step can lose data."""
        return Plan(self.title, tuple(replace(step, danger=Danger.NONE) for step in self.steps))

    @property
    def until_wait(self) -> tuple[Plan, Step | None, Plan]:
        """The steps before the first step that only waits, that step, and the remaining steps."""
        number = next((index for index, step in enumerate(self.steps) if step.only_waits), None)
        if number is None:
            return self, None, Plan(self.title)
        before, after = self.steps[:number], self.steps[number + 1 :]
        return Plan(self.title, before), self.steps[number], Plan(self.title, after)

    def lines(self) -> list[str]:
        return [step.shell_line() for step in self.steps]
