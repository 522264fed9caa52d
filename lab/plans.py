"""A plan is a list of steps that can be printed, taught from, shown before running, and run.

Whatever the lab changes on a machine it changes through a plan, so what is printed is what happens.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

_ROWS_SHOWN = 12
_COLUMNS_SHOWN = 160


class Danger(StrEnum):
    """What a step can destroy."""

    NONE = "none"
    DATA = "data"
    """Data on the devices named in the step is lost."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command, why it is there, and how to take it back.

    ``argv`` is run as it stands, without a shell; for a value in a file under /sys see ``write_file_step``.
    """

    argv: tuple[str, ...]
    why: str
    undo: tuple[str, ...] = ()
    danger: Danger = Danger.NONE
    writes_devices: tuple[str, ...] = ()
    """Every device that this step writes on: what the guard checks before the step runs."""
    timeout_seconds: float = 120.0
    stdin_text: str = ""
    """What the command reads on its standard input, such as a long device-mapper table."""
    only_waits: bool = False
    """Changes nothing: it ends when work that the machine does by itself is done, which may take hours."""

    def shell_line(self) -> str:
        """The step as a line that a person can type at a root shell, with a here-document for its standard input.

        Of a long input only the beginnings are shown; ``stdin_text`` has it all.
        """
        line = shlex.join(self.argv)
        if not self.stdin_text:
            return line
        rows = [
            row if len(row) <= _COLUMNS_SHOWN else f"{row[:_COLUMNS_SHOWN]} ..." for row in self.stdin_text.split("\n")
        ]
        rows = rows[:-1] if not rows[-1] else rows
        if len(rows) > _ROWS_SHOWN:
            rows = [*rows[: _ROWS_SHOWN - 1], f"... {len(rows) - _ROWS_SHOWN + 1} lines more"]
        return "\n".join((f"{line} <<'END'", *rows, "END"))


def write_file_step(path: str, text: str, why: str) -> Step:
    """A value written to a file under /sys or /proc, as a line that can be typed: ``sh -c 'echo V > FILE'``."""
    return Step(("sh", "-c", f"echo {shlex.quote(text)} > {shlex.quote(path)}"), why)


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, under a title. Plans are values: adding two gives a longer one."""

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
    def until_wait(self) -> tuple[Plan, Step | None, Plan]:
        """What comes before the first step that only waits, that step, and the rest."""
        number = next((index for index, step in enumerate(self.steps) if step.only_waits), None)
        if number is None:
            return self, None, Plan(self.title)
        before, after = self.steps[:number], self.steps[number + 1 :]
        return Plan(self.title, before), self.steps[number], Plan(self.title, after)

    def lines(self) -> list[str]:
        """The commands alone, ready to be typed."""
        return [step.shell_line() for step in self.steps]
