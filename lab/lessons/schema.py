"""The format of lesson files and translations, and the values of a student's seed: ``{seed.members}`` in both.

A lesson is one TOML file: its structure and its English text. A translation is another file with only the texts. Both
are read strictly; ``lab.lessons.validation`` checks the rest.

A value depends only on the lesson, the variable and the seed, by SHA-256. So it is the same on every computer and with
every version of Python, and a new variable does not change the others.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from lab import tomlfile
from lab.errors import SpecError
from lab.gates.decoding import DiskCount, FormatVersion
from lab.gates.text import shortened
from lab.session.versions import NeededMdadm
from lab.tomlfile import DRAWN_AS

FORMAT_VERSION = 2
FORMAT_VERSIONS = range(1, FORMAT_VERSION + 1)
"""Formats that can be read; lab.tomlfile has the names that earlier ones used."""
_LONGEST_VALUE = 500
HINTS = 3
"""From a nudge to the complete answer."""

SOURCE_LANGUAGE = "en"

Arguments = dict[str, Any]
"""A check or an action as in the file: its name under ``that`` or ``act``, and its arguments."""


class Variable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that the student's seed selects, in one of five ways. Variables may use those above them.

    Without a seed the first choice is used, so all students without one have the same lesson.
    """

    one_of: tuple[int | float | str, ...] = ()
    """Choices, such as ``["64K", "128K"]``."""
    disks: int | str = ""
    """This number of neighbouring disks of the lab, as ``disk02,disk03,disk04``; or the name of a variable with the
    number.
    """
    disk_from: str = ""
    """One disk of this variable."""
    disk_besides: tuple[str, ...] = ()
    """One disk of the lab, or of ``disk_from``, that is in none of these variables."""
    index: int | None = None
    """Selects the disk at this index, from 0, instead of any."""
    case: str = ""
    """The name of a variable that determines this one: ``of`` has a value for each of its choices."""
    of: dict[str, int | float | str] = {}


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A prediction, asked before the student acts. No answer counts as wrong: the measurement decides."""

    question: str
    options: dict[str, str]
    """Key -> text for the student; the keys are the same in every language."""
    answer: str = ""
    """The key of the option that proves correct; empty: a matter of opinion."""


class ReadingPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number that the student reads and types; it is compared with the current value."""

    question: str
    value: Arguments
    """The source of the correct number: its name under ``get`` (lab.checks.readings), and its arguments."""
    unit: str = ""
    """Such as ``ms``; empty: a number without unit."""
    within_percent: float = 0.0
    """Tolerance of a typed number: the effect of rounding in the displayed number."""


class Mistake(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A common state after a mistake of the student, and a hint."""

    id: str
    when: tuple[Arguments, ...] = ()
    """Checks that all hold in that state."""
    types: Arguments = {}
    """The source of the number that is typed by mistake, as in a reading; empty: the mistake concerns the lab only."""
    times: float | str = 1.0
    """Factor for the number of ``types``; a text may have placeholders of the seed."""
    hint: str


class LessonStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step: say, ask, do, check, read, three hints, explain."""

    id: str
    say: str
    """Markdown: what the student should do, and examine."""
    ask: Question | None = None
    do: tuple[Arguments, ...] = ()
    """The step's own solution, which the app can run."""
    check: tuple[Arguments, ...] = ()
    """Checks on the real lab; a question and a reading count as additional checks."""
    secret: tuple[str, ...] = ()
    """Names of checks whose requirement would reveal the choice: it is shown only when they hold."""
    read: ReadingPlan | None = None
    """A number to read when the step's actions are done."""
    hints: tuple[str, ...]
    explain: str
    """Markdown, shown after success: the explanation."""
    mistakes: tuple[Mistake, ...] = ()


class Wrong(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recorded wrong solution: instead of the step's own it must not pass, and the mistake must be recognised."""

    step: str
    do: tuple[Arguments, ...] = ()
    """Actions of the wrong solution; omitted if the step's own solution is followed by the mistake's number."""
    mistake: str


class Lesson(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One lesson with its English text."""

    format_version: FormatVersion
    id: str
    """The name of the file; the digits at its beginning are the position in the course."""
    title: str
    goal: str
    """One sentence: what the student can do or explain after the lesson."""
    needs: tuple[str, ...] = ()
    """Lessons that must precede this one."""
    needs_mdadm: NeededMdadm | None = None
    """Required version; None: any supported one."""
    minutes: int
    disks: DiskCount
    """Number of lab disks that must exist; the seed selects from disk01 up to this number."""
    seed: dict[str, Variable] = {}
    measure: dict[str, str] = {}
    """Name -> an experiment file (TOML text), run on separate disks; id and format_version are added."""
    steps: tuple[LessonStep, ...]
    wrong: tuple[Wrong, ...]

    def step(self, step_id: str) -> LessonStep | None:
        """The step with this id; None if there is none."""
        return next((step for step in self.steps if step.id == step_id), None)


class QuestionText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question in another language."""

    question: str
    options: dict[str, str]


class StepText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The texts of a step in another language."""

    say: str
    ask: QuestionText | None = None
    read: str = ""
    """The question of the reading; empty: there is none."""
    hints: tuple[str, ...]
    explain: str
    mistakes: dict[str, str] = {}


class Translation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All texts of a lesson in another language."""

    format_version: FormatVersion
    id: str
    language: str
    title: str
    goal: str
    steps: dict[str, StepText]


Value = int | float | str
Values = dict[str, Value]


class Varied(Protocol):
    """What a seed applies to: a lesson or a drill."""

    @property
    def id(self) -> str: ...
    @property
    def disks(self) -> int: ...
    @property
    def seed(self) -> Mapping[str, Variable]: ...


SEED = "seed."
"""Prefix of placeholders: ``{seed.disk}``."""


def draw(varied: Varied, seed: str) -> Values:
    """All values for this seed; for an empty seed, the first choices.

    Raises SpecError for a variable that has no valid choice.
    """
    values: Values = {}
    for name, variable in varied.seed.items():
        values[name] = _draw_one(varied, name, variable, seed, values)
        # A chain of variables, each made of two copies of the previous one, would grow exponentially.
        if len(str(values[name])) > _LONGEST_VALUE:
            raise SpecError(
                f"{varied.id}: seed.{shortened(name)} is longer than {_LONGEST_VALUE} characters",
                hint="make it of fewer others",
            )
    return values


def fill(text: str, values: Mapping[str, Value]) -> str:
    """The text with all ``{seed.…}`` filled in. Raises SpecError with the nearest name for an unknown one."""
    return tomlfile.fill(text, values, SEED, "seed variable")


def fill_tree(tree: Any, values: Mapping[str, Value]) -> Any:
    """As ``fill``, for all texts in a tree. A text that is a single placeholder becomes the value, number or text."""
    return tomlfile.fill_tree(tree, values, SEED, "seed variable")


def _draw_one(varied: Varied, name: str, variable: Variable, seed: str, values: Values) -> Value:
    choices = _choices(varied, name, variable, values)
    if not choices:
        raise SpecError(
            f"{varied.id}: nothing can be drawn for seed.{name}",
            hint="give it something to choose from",
        )
    return choices[_number(f"{varied.id}/{DRAWN_AS.get((varied.id, name), name)}/{seed}") % len(choices) if seed else 0]


def _choices(varied: Varied, name: str, variable: Variable, values: Values) -> list[Value]:
    ways = {
        "one_of": bool(variable.one_of),
        "disks": variable.disks != "",
        "disk_from": bool(variable.disk_from),
        "disk_besides": bool(variable.disk_besides) and not variable.disk_from,
        "case": bool(variable.case),
    }
    if sum(ways.values()) != 1:
        raise SpecError(
            f"{varied.id}: seed.{name} has {sum(ways.values())} of the keys {', '.join(ways)}",
            hint="give exactly one",
        )
    if variable.one_of:
        return list(variable.one_of)
    if variable.case:
        return [_case(varied, name, variable, values)]
    if variable.disk_from or variable.disk_besides:
        given = variable.disk_from
        disks = _disks_in(varied, name, given, values) if given else _lab_disks(varied.disks)
        taken = {disk for other in variable.disk_besides for disk in _disks_in(varied, name, other, values)}
        left = [disk for disk in disks if disk not in taken]
        return list(left if variable.index is None else left[variable.index : variable.index + 1])
    count = _count(varied, name, variable.disks, values)
    disks = _lab_disks(varied.disks)
    return [",".join(disks[first : first + count]) for first in range(varied.disks - count + 1)]


def _case(varied: Varied, name: str, variable: Variable, values: Values) -> Value:
    if variable.case not in values:
        raise _not_drawn_yet(varied, name, variable.case)
    key = str(values[variable.case])
    if key not in variable.of:
        raise SpecError(
            f"{varied.id}: seed.{name} has no value for {variable.case} = {key}", hint=f"write of.{key} = …"
        )
    value = variable.of[key]
    return fill(value, values) if isinstance(value, str) else value


def _count(varied: Varied, name: str, asked: int | str, values: Values) -> int:
    count = asked if isinstance(asked, int) else values.get(asked)
    if not isinstance(count, int) or not 1 <= count <= varied.disks:
        raise SpecError(
            f"{varied.id}: seed.{name} wants '{asked}' disks",
            hint=f"write a number up to {varied.disks}, or the name of a number drawn above it",
        )
    return count


def _disks_in(varied: Varied, name: str, other: str, values: Values) -> list[str]:
    if other not in values:
        raise _not_drawn_yet(varied, name, other)
    return str(values[other]).split(",")


def _not_drawn_yet(varied: Varied, name: str, other: str) -> SpecError:
    return SpecError(
        f"{varied.id}: seed.{name} builds on seed.{other}, which is not drawn before it",
        hint=f"put {other} above {name}",
    )


def _lab_disks(count: int) -> list[str]:
    return [f"disk{number:02d}" for number in range(1, count + 1)]


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
