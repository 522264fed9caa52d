"""What a lesson file says, and what a translation says. Read strictly; ``lab.lessons.validation`` checks the rest.

A lesson is one TOML file: its structure and its English text. A translation is one more file with the texts alone.
"""

from __future__ import annotations

from typing import Any

import msgspec

FORMAT_VERSION = 1
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
    """Where the right number comes from: its name under ``get`` (lab.lessons.readings), and its arguments."""
    unit: str = ""
    """Such as ``ms``; empty: a plain number."""
    within_percent: float = 0.0
    """How far a typed number may lie from the right one: as much as rounding in what is shown makes of it."""


class Mistake(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A state that students get into by mistake, and what helps them out of it."""

    id: str
    when: tuple[Arguments, ...]
    """Checks that all hold in that state."""
    hint: str


class Step(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step: say, ask, do, check, read, three hints, explain."""

    id: str
    say: str
    """Markdown: what is to be done, and what to look at."""
    ask: Question | None = None
    do: tuple[Arguments, ...] = ()
    """The step's own solution, which the app can carry out."""
    check: tuple[Arguments, ...] = ()
    """What must hold on the real lab; a question and a reading count as checks of their own."""
    read: ReadingPlan | None = None
    """A number to be read off, once everything is done."""
    hints: tuple[str, ...]
    explain: str
    """Markdown, shown after success: why it is so."""
    mistakes: tuple[Mistake, ...] = ()


class Wrong(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recorded wrong solution: done instead of a step's own, it must not pass, and the mistake must be recognised."""

    step: str
    do: tuple[Arguments, ...]
    mistake: str


class Lesson(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One lesson with its English text."""

    format_version: int
    id: str
    """Equal to the file's name; the number in front is its place in the course."""
    title: str
    goal: str
    """One sentence: what the student can do or explain afterwards."""
    needs: tuple[str, ...] = ()
    """Lessons that come before."""
    minutes: int
    disks: int
    """The seed draws from disk01 up to this number, so the lab must have them."""
    seed: dict[str, Variable] = {}
    measure: dict[str, str] = {}
    """Name -> an experiment file (TOML in text), run on disks of its own; its id and format_version are filled in."""
    steps: tuple[Step, ...]
    wrong: tuple[Wrong, ...]

    def step(self, step_id: str) -> Step | None:
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

    format_version: int
    id: str
    language: str
    title: str
    goal: str
    steps: dict[str, StepText]
