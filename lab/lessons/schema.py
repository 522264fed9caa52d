"""What a lesson file says, what a translation says, and what a student's seed chooses: ``{seed.members}`` in both.

A lesson is one TOML file: its structure and its English text. A translation is one more file with the texts alone. Both
are read strictly; ``lab.lessons.validation`` checks the rest.

A choice depends on the lesson, the variable and the seed alone, by SHA-256, so it is the same on every computer and
with every Python, and a variable that is added later leaves the others as they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from lab import tomlfile
from lab.errors import SpecError
from lab.gates.numbers import DiskCount, FormatVersion
from lab.gates.text import shortened
from lab.old_names import DRAWN_AS
from lab.session.versions import NeededMdadm

FORMAT_VERSION = 2
FORMAT_VERSIONS = range(1, FORMAT_VERSION + 1)
"""What is read; lab.old_names tells what the earlier ones call otherwise."""
_LONGEST_VALUE = 500
HINTS = 3
"""From a nudge to the whole answer."""

SOURCE_LANGUAGE = "en"

Arguments = dict[str, Any]
"""A check or an action as written: its name under ``that`` or ``act``, and its arguments."""


class Variable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One value that the student's seed chooses, in one of five ways. Variables build on those above them.

    Without a seed the first choice is taken, so everybody who gives none has the same lesson.
    """

    one_of: tuple[int | float | str, ...] = ()
    """Plain choices, such as ``["64K", "128K"]``."""
    disks: int | str = ""
    """That many neighbouring disks of the lab, as ``disk02,disk03,disk04``; or the name of a variable that says how
    many."""
    disk_from: str = ""
    """One disk of this variable's disks."""
    disk_besides: tuple[str, ...] = ()
    """One disk that is in none of these variables: of the lab, or of ``disk_from``."""
    index: int | None = None
    """Not any of these disks, but the one at this place, from 0."""
    case: str = ""
    """What another variable decides: ``of`` has a value for each of its choices."""
    of: dict[str, int | float | str] = {}


class Question(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A prediction, asked before the student acts. There is no wrong answer yet: the measurement decides."""

    question: str
    options: dict[str, str]
    """Key -> what the student reads; the keys are the same in every language."""
    answer: str = ""
    """The key of the option that turns out right; empty: a matter of opinion."""


class ReadingPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number that the student reads off and types; it is compared with what is really there."""

    question: str
    value: Arguments
    """Where the right number comes from: its name under ``get`` (lab.checks.readings), and its arguments."""
    unit: str = ""
    """Such as ``ms``; empty: a plain number."""
    within_percent: float = 0.0
    """How far a typed number may lie from the right one: as much as rounding in what is shown makes of it."""


class Mistake(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A state that students get into by mistake, and what helps them out of it."""

    id: str
    when: tuple[Arguments, ...] = ()
    """Checks that all hold in that state."""
    types: Arguments = {}
    """The number that is typed by mistake: a source as in a reading; nothing: it is about the lab alone."""
    times: float | str = 1.0
    """So many times the number of ``types``; a text has the seed's places in braces."""
    hint: str


class LessonStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step: say, ask, do, check, read, three hints, explain."""

    id: str
    say: str
    """Markdown: what is to be done, and what to look at."""
    ask: Question | None = None
    do: tuple[Arguments, ...] = ()
    """The step's own solution, which the app can carry out."""
    check: tuple[Arguments, ...] = ()
    """What must hold on the real lab; a question and a reading count as checks of their own."""
    secret: tuple[str, ...] = ()
    """Names of checks whose sentence would give the choice away: it is told only when they hold."""
    read: ReadingPlan | None = None
    """A number to be read off, once everything is done."""
    hints: tuple[str, ...]
    explain: str
    """Markdown, shown after success: why it is so."""
    mistakes: tuple[Mistake, ...] = ()


class Wrong(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recorded wrong solution: done instead of a step's own, it must not pass, and the mistake must be recognised."""

    step: str
    do: tuple[Arguments, ...] = ()
    """What is done instead; left out where only the mistake's number is typed, after the step's own solution."""
    mistake: str


class Lesson(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One lesson with its English text."""

    format_version: FormatVersion
    id: str
    """Equal to the file's name; the number in front is its place in the course."""
    title: str
    goal: str
    """One sentence: what the student can do or explain afterwards."""
    needs: tuple[str, ...] = ()
    """Lessons that come before."""
    needs_mdadm: NeededMdadm | None = None
    """With which it can be done; None: any that raidlab works with."""
    minutes: int
    disks: DiskCount
    """The seed draws from disk01 up to this number, so the lab must have them."""
    seed: dict[str, Variable] = {}
    measure: dict[str, str] = {}
    """Name -> an experiment file (TOML in text), run on disks of its own; its id and format_version are filled in."""
    steps: tuple[LessonStep, ...]
    wrong: tuple[Wrong, ...]

    def step(self, step_id: str) -> LessonStep | None:
        """A step by id."""
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
    """The question of a reading; empty: there is none."""
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
    """What a seed varies: a lesson or a drill."""

    @property
    def id(self) -> str: ...
    @property
    def disks(self) -> int: ...
    @property
    def seed(self) -> Mapping[str, Variable]: ...


SEED = "seed."
"""Of placeholders: ``{seed.disk}``."""


def draw(varied: Varied, seed: str) -> Values:
    """All values for this seed; those of the plain lesson or drill for an empty one.

    Raises SpecError for a variable that cannot be drawn as written.
    """
    values: Values = {}
    for name, variable in varied.seed.items():
        values[name] = _draw_one(varied, name, variable, seed, values)
        # One that is made of two others, again and again, would double in length each time.
        if len(str(values[name])) > _LONGEST_VALUE:
            raise SpecError(
                f"{varied.id}: seed.{shortened(name)} is longer than {_LONGEST_VALUE} characters",
                hint="make it of fewer others",
            )
    return values


def fill(text: str, values: Mapping[str, Value]) -> str:
    """The text with every ``{seed.…}`` filled in. Raises SpecError with the nearest name for an unknown one."""
    return tomlfile.fill(text, values, SEED, "seed variable")


def fill_tree(tree: Any, values: Mapping[str, Value]) -> Any:
    """As ``fill`` for all texts of a tree; a text that is one placeholder becomes the value itself, number or text."""
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
