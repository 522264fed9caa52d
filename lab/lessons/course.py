"""The course: lesson files and translations, a lesson for one student, and the sentences that lessons share.

A lesson is one TOML file, such as ``03-mirroring.toml``, which contains its structure and its English text. A
translation is another file, such as ``03-mirroring.es.toml``, which contains only translated texts. Unknown keys in
either are errors. ``lesson_problems`` checks the contents of these files, and ``lab.lessons.proof`` proves on a real
lab that a lesson is correct. Texts may contain values drawn for the student's seed, such as ``{seed.members}``.

A value is derived with SHA-256 from the lesson, the variable and the seed. It is therefore the same on every computer
and with every version of Python, and a new variable does not change the others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from lab import tomlfile
from lab.actions import ACTIONS as LAB_ACTIONS
from lab.actions import shell
from lab.actions.action import Action
from lab.checks.catalogue import make_check, make_source
from lab.checks.readings import (
    UNITS,
    RatioWithin,
    Reading,
    RebuildIntact,
    ResultCheck,
    ResultFigure,
    ResultRatio,
    Source,
)
from lab.checks.state import Check
from lab.errors import LabError, SpecError
from lab.experiments import schema as experiments
from lab.experiments.schema import Experiment
from lab.gates.decoding import DiskCount, FormatVersion, digits
from lab.gates.text import shortened
from lab.lessons import actions
from lab.lessons.actions import ApartAction, RunMeasurement
from lab.plugins import catalogue
from lab.session.session import NeededMdadm
from lab.tomlfile import (
    DRAWN_AS,
    decode_toml,
    kinds_by_tag,
    make_tagged,
    nearest,
    read_toml,
    unknown_word,
    with_new_arguments,
)

FORMAT_VERSIONS = range(1, 3)
"""Formats that can be read; lab.tomlfile has the names that earlier formats used."""
_LONGEST_VALUE = 500
HINTS = 3
"""The number of hints in a step, from a nudge to the complete answer."""

SOURCE_LANGUAGE = "en"

Arguments = dict[str, Any]
"""A check or an action as the file gives it: its name under ``that`` or ``act``, and its arguments."""


class Variable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A value that the student's seed selects, in one of five ways. A variable may use those defined above it.

    Without a seed the first choice is used, so all students without one have the same lesson.
    """

    one_of: tuple[int | float | str, ...] = ()
    """Choices, such as ``["64K", "128K"]``."""
    disks: int | str = ""
    """The number of consecutive lab disks to draw, such as 3 for ``disk02,disk03,disk04``, or the name of a variable
    that holds this number.
    """
    disk_from: str = ""
    """The name of a variable; one of its disks is drawn."""
    disk_besides: tuple[str, ...] = ()
    """Names of variables whose disks are excluded. One of the other disks of ``disk_from``, or of the lab, is drawn."""
    index: int | None = None
    """The index, from 0, of the disk to use; None if the seed selects the disk."""
    case: str = ""
    """The name of a variable that determines this one; ``of`` maps each of that variable's choices to a value."""
    of: dict[str, int | float | str] = {}


class Exercise(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys that lesson files and drill files have in common."""

    format_version: FormatVersion
    id: str
    """The file's name; the digits at its beginning are the position in the course or in the list of drills."""
    title: str
    minutes: int
    disks: DiskCount
    """The number of lab disks that must exist, from disk01 on."""
    seed: dict[str, Variable] = {}
    needs_mdadm: NeededMdadm | None = None
    """The required version of mdadm; None: any supported one."""


class QuestionText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question in one language."""

    question: str
    options: dict[str, str]
    """The text of each option by its key; the keys are the same in every language."""


class Question(QuestionText, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question that asks for a prediction before the student acts. Any prediction is accepted."""

    answer: str = ""
    """The key of the correct option; empty if the answer is a matter of opinion."""


class ReadingPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number that the student reads and types. The typed number is compared with the current value."""

    question: str
    value: Arguments
    """The source of the correct number: its name under ``get`` (lab.checks.readings), and its arguments."""
    unit: str = ""
    """The unit, such as ``ms``; empty if the number has none."""
    within_percent: float = 0.0
    """The tolerance for a typed number, because displayed numbers are rounded."""


class Mistake(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A common mistake, recognised by the state that it leads to or by the number that is typed, with a hint."""

    id: str
    when: tuple[Arguments, ...] = ()
    """Checks that all hold in that state."""
    types: Arguments = {}
    """The source of the wrong number, as in a reading; empty if the mistake concerns only the lab."""
    times: float | str = 1.0
    """The factor by which the number of ``types`` is multiplied. It may be a text with placeholders of the seed."""
    hint: str


class LessonStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step: instructions, a question, a solution, checks, a reading, three hints and an explanation."""

    id: str
    say: str
    """What the student should do and examine, in Markdown."""
    ask: Question | None = None
    do: tuple[Arguments, ...] = ()
    """The step's own solution, which the app can run."""
    check: tuple[Arguments, ...] = ()
    """Checks on the real lab; a question and a reading count as additional checks."""
    secret: tuple[str, ...] = ()
    """Names of checks whose requirements would reveal the choice; each is shown only when its check holds."""
    read: ReadingPlan | None = None
    """The number that the student reads when the step's actions are done."""
    hints: tuple[str, ...]
    explain: str
    """The explanation that is shown after success, in Markdown."""
    mistakes: tuple[Mistake, ...] = ()


class Wrong(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A recorded wrong solution, which must fail the step's checks, and whose mistake must be recognised."""

    step: str
    do: tuple[Arguments, ...] = ()
    """Actions of the wrong solution; if there are none, the step's own are run and the mistake's number is typed."""
    mistake: str


class Lesson(Exercise, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One lesson with its English text."""

    goal: str
    """One sentence that says what the student can do or explain after the lesson."""
    needs: tuple[str, ...] = ()
    """Lessons that must precede this one."""
    measure: dict[str, str] = {}
    """The text of an experiment file, by the measurement's name. The experiment runs on separate disks. ``id`` and
    ``format_version`` are added to the text.
    """
    steps: tuple[LessonStep, ...]
    wrong: tuple[Wrong, ...]

    def step(self, step_id: str) -> LessonStep | None:
        return next((step for step in self.steps if step.id == step_id), None)


class StepText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The texts of a step in one language."""

    say: str
    ask: QuestionText | None = None
    read: str = ""
    """The question of the reading; empty if there is none."""
    hints: tuple[str, ...]
    explain: str
    mistakes: dict[str, str] = {}
    """The hint for each mistake by its id."""


class Translation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All texts of a lesson in one language."""

    format_version: FormatVersion
    id: str
    language: str
    title: str
    goal: str
    steps: dict[str, StepText]


Value = int | float | str
Values = dict[str, Value]


def draw(varied: Exercise, seed: str) -> Values:
    """Return all values for this seed; an empty seed selects the first choices.

    Raises SpecError if a variable has no valid choice.
    """
    values: Values = {}
    for name, variable in varied.seed.items():
        choices = _choices(varied, name, variable, values)
        if not choices:
            raise SpecError(f"{varied.id}: nothing can be drawn for seed.{name}", hint="give it values to choose from")
        key = f"{varied.id}/{DRAWN_AS.get((varied.id, name), name)}/{seed}"
        number = int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") if seed else 0
        values[name] = choices[number % len(choices)]
        # A chain of variables, each made of two copies of the previous one, would grow exponentially.
        if len(str(values[name])) > _LONGEST_VALUE:
            raise SpecError(
                f"{varied.id}: seed.{shortened(name)} is longer than {_LONGEST_VALUE} characters",
                hint="refer to fewer variables in it",
            )
    return values


def fill(text: str, values: Mapping[str, Value]) -> str:
    """Return the text with all ``{seed.…}`` filled in.

    Raises SpecError, which suggests the nearest name, if a variable is unknown.
    """
    return str(fill_tree(text, values))


def fill_tree(tree: Any, values: Mapping[str, Value]) -> Any:
    """Fill in all texts of a tree. A text that is a single placeholder becomes its value, a number or a text."""
    return tomlfile.fill_tree(tree, values, "seed.", "seed variable")


def _choices(varied: Exercise, name: str, variable: Variable, values: Values) -> list[Value]:
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
            hint="give exactly one of them",
        )
    if variable.one_of:
        return list(variable.one_of)
    if variable.case:
        return [_case(varied, name, variable, values)]
    disks = lab_disks(varied.disks)
    if variable.disk_from or variable.disk_besides:
        others = (*filter(None, [variable.disk_from]), *variable.disk_besides)
        drawn = {other: str(_drawn(varied, name, other, values)).split(",") for other in others}
        taken = {disk for other in variable.disk_besides for disk in drawn[other]}
        left = [disk for disk in drawn.get(variable.disk_from, disks) if disk not in taken]
        return list(left if variable.index is None else left[variable.index : variable.index + 1])
    count = _count(varied, name, variable.disks, values)
    return [",".join(disks[first : first + count]) for first in range(varied.disks - count + 1)]


def _case(varied: Exercise, name: str, variable: Variable, values: Values) -> Value:
    key = str(_drawn(varied, name, variable.case, values))
    if key not in variable.of:
        raise SpecError(
            f"{varied.id}: seed.{name} has no value for {variable.case} = {key}", hint=f"write of.{key} = …"
        )
    value = variable.of[key]
    return fill(value, values) if isinstance(value, str) else value


def _count(varied: Exercise, name: str, asked: int | str, values: Values) -> int:
    count = asked if isinstance(asked, int) else values.get(asked)
    if not isinstance(count, int) or not 1 <= count <= varied.disks:
        raise SpecError(
            f"{varied.id}: seed.{name} asks for '{asked}' disks",
            hint=f"write a number from 1 to {varied.disks}, or the name of a variable above it that holds one",
        )
    return count


def _drawn(varied: Exercise, name: str, other: str, values: Values) -> Value:
    if other not in values:
        raise SpecError(
            f"{varied.id}: seed.{name} uses seed.{other}, which is not defined above it",
            hint=f"put {other} above {name}",
        )
    return values[other]


def lab_disks(count: int) -> list[str]:
    """Return the names of the lab's first ``count`` disks."""
    return [f"disk{number:02d}" for number in range(1, count + 1)]


ACTIONS: Mapping[str, type[Action]] = {
    **{str(kind.__struct_config__.tag): kind for kind in LAB_ACTIONS if kind.in_lessons},
    **kinds_by_tag("act", vars(shell), vars(actions)),
}


def make_action(written: Mapping[str, Any], *, where: str) -> Action:
    """Create an action from its TOML table.

    Raises SpecError, which suggests the nearest name, if the name or a key is unknown.
    """
    return make_tagged(with_new_arguments(written), ACTIONS, what="action", key="act", where=where)


BY_HAND = "{by_hand}"
"""The placeholder in a hint that is replaced by the step's own solution, as shell commands or as keys of the app."""


@dataclass(frozen=True, slots=True)
class ReadyMistake:
    """A mistake whose checks can be evaluated."""

    id: str
    when: tuple[Check, ...]
    typed: Reading | None
    """The wrong number; None if the mistake concerns only the lab."""
    hint: str


@dataclass(frozen=True, slots=True)
class ReadyStep:
    """One step, with the texts and values for one student."""

    id: str
    text: str
    ask: Question | None
    do: tuple[Action, ...]
    checks: tuple[Check, ...]
    secret: tuple[str, ...]
    read: Reading | None
    hints: tuple[str, ...]
    """These still contain ``BY_HAND``, which ``hints_by_hand`` replaces."""
    explain: str
    mistakes: tuple[ReadyMistake, ...]
    values: Values
    """The values drawn for the seed that occur in texts that are visible as soon as the step begins."""

    @property
    def hints_by_hand(self) -> tuple[str, ...]:
        commands = "\n".join(action.by_hand() for action in self.do)
        return tuple(hint.replace(BY_HAND, f"\n```\n{commands}\n```\n") for hint in self.hints)

    @property
    def apart(self) -> tuple[ApartAction, ...]:
        return tuple(action for action in self.do if isinstance(action, ApartAction))

    @property
    def checks_and_sources(self) -> tuple[Check | Source, ...]:
        """All checks of the step and of its mistakes, and the sources of all numbers."""
        readings = (self.read, *(mistake.typed for mistake in self.mistakes))
        checks = (*self.checks, *(check for mistake in self.mistakes for check in mistake.when))
        return (*checks, *(reading.source for reading in readings if reading))

    @property
    def check_count(self) -> int:
        """The number of checks of the step, including its question and its reading."""
        return len(self.checks) + (self.ask is not None) + (self.read is not None)


def number_of(lesson_id: str) -> str:
    """Return a lesson's number in the course, such as ``3``, which its id contains."""
    return lesson_id[:2].lstrip("0")


@dataclass(frozen=True, slots=True)
class ReadyLesson:
    """One lesson, with the texts and values for one student."""

    id: str
    title: str
    goal: str
    needs_mdadm: NeededMdadm | None
    minutes: int
    disks: int
    language: str
    seed: str
    steps: tuple[ReadyStep, ...]
    measures: Mapping[str, tuple[Experiment, str]]
    """The experiment and the text of its file, by the measurement's name."""
    wrong: tuple[tuple[Wrong, tuple[Action, ...]], ...]
    """The recorded wrong solutions, and the actions of each."""

    @property
    def number(self) -> str:
        return number_of(self.id)

    @property
    def check_count(self) -> int:
        return sum(step.check_count for step in self.steps)

    def step(self, step_id: str) -> ReadyStep:
        for step in self.steps:
            if step.id == step_id:
                return step
        raise unknown_word(f"step of lesson {self.id}", step_id, [step.id for step in self.steps])


def _english_texts(lesson: Lesson) -> Translation:
    steps = {
        step.id: StepText(
            say=step.say,
            ask=QuestionText(question=step.ask.question, options=step.ask.options) if step.ask else None,
            read=step.read.question if step.read else "",
            hints=step.hints,
            explain=step.explain,
            mistakes={mistake.id: mistake.hint for mistake in step.mistakes},
        )
        for step in lesson.steps
    }
    return Translation(
        format_version=lesson.format_version,
        id=lesson.id,
        language=SOURCE_LANGUAGE,
        title=lesson.title,
        goal=lesson.goal,
        steps=steps,
    )


def make_ready(lesson: Lesson, seed: str = "", translation: Translation | None = None) -> ReadyLesson:
    """Return the lesson for this seed and language. Raises a SpecError that names the step and the remedy."""
    values = draw(lesson, seed)
    english = _english_texts(lesson)
    texts = translation or english
    step_texts = english.steps | texts.steps
    measures = {name: _experiment(lesson, name, values) for name in lesson.measure}
    steps = tuple(_step(lesson, step, step_texts[step.id], values) for step in lesson.steps)
    wrong = tuple(
        (each, _actions(each.do, values, f"lesson {lesson.id}, wrong solution of step {each.step}"))
        for each in lesson.wrong
    )
    for action in (*(each for step in steps for each in step.do), *(each for _, do in wrong for each in do)):
        if isinstance(action, RunMeasurement) and action.measure not in measures:
            raise unknown_word(f"measurement of lesson {lesson.id}", action.measure, measures)
    return ReadyLesson(
        id=lesson.id,
        title=fill(texts.title, values),
        goal=fill(texts.goal, values),
        needs_mdadm=lesson.needs_mdadm,
        minutes=lesson.minutes,
        disks=lesson.disks,
        language=texts.language,
        seed=seed,
        steps=steps,
        measures=measures,
        wrong=wrong,
    )


def experiment_id(lesson_id: str, measure: str) -> str:
    """Return the id under which the result of a lesson's measurement is stored."""
    return f"lesson-{lesson_id}-{measure}"


def _step(lesson: Lesson, step: LessonStep, text: StepText, values: Values) -> ReadyStep:
    where = f"lesson {lesson.id}, step {step.id}"
    asked = (step.ask.question, *step.ask.options.values()) if step.ask else ()
    shown = "\n".join((step.say, *asked, step.read.question if step.read else ""))
    return ReadyStep(
        id=step.id,
        text=fill(text.say, values),
        ask=_question(step.ask, text.ask or step.ask, values) if step.ask else None,
        do=_actions(step.do, values, where),
        checks=_checks(step.check, values, where),
        secret=step.secret,
        read=_reading(step.read, text.read or step.read.question, values, where) if step.read else None,
        hints=tuple(fill(hint, values) for hint in text.hints),
        explain=fill(text.explain, values),
        mistakes=tuple(_mistake(step, each, text, values, where) for each in step.mistakes),
        values={name: value for name, value in values.items() if f"{{seed.{name}}}" in shown},
    )


def _question(ask: Question, text: QuestionText, values: Values) -> Question:
    options = {key: fill(option, values) for key, option in text.options.items()}
    return Question(question=fill(text.question, values), options=options, answer=fill(ask.answer, values))


def _reading(plan: ReadingPlan, question: str, values: Values, where: str) -> Reading:
    if plan.unit not in UNITS and plan.value.get("get") != "number":
        raise unknown_word(f"unit in {where}", plan.unit, UNITS)
    return Reading(
        question=fill(question, values),
        unit=plan.unit,
        source=make_source(fill_tree(plan.value, values), where=f"{where}, reading"),
        within_percent=plan.within_percent,
    )


def _mistake(step: LessonStep, mistake: Mistake, text: StepText, values: Values, where: str) -> ReadyMistake:
    where = f"{where}, mistake {mistake.id}"
    typed = None
    if mistake.types and step.read is not None:
        source = make_source(fill_tree(mistake.types, values), where=where)
        times = fill(str(mistake.times), values)
        try:
            typed = Reading("", step.read.unit, source, step.read.within_percent, float(times))
        except ValueError:
            hint = "write a number or a seed variable that holds one"
            raise SpecError(f"{where}: times is '{times}'", hint=hint) from None
    return ReadyMistake(
        mistake.id,
        _checks(mistake.when, values, where),
        typed,
        fill(text.mistakes.get(mistake.id, mistake.hint), values),
    )


def _actions(written: Iterable[Arguments], values: Values, where: str) -> tuple[Action, ...]:
    return tuple(make_action(fill_tree(each, values), where=where) for each in written)


def _checks(written: Iterable[Arguments], values: Values, where: str) -> tuple[Check, ...]:
    return tuple(make_check(fill_tree(each, values), where=where) for each in written)


def _experiment(lesson: Lesson, name: str, values: Values) -> tuple[Experiment, str]:
    where = f"lesson {lesson.id}, measure {name}"
    head = f'format_version = {lesson.format_version}\nid = "{experiment_id(lesson.id, name)}"\n'
    text = head + fill(lesson.measure[name].lstrip("\n"), values)
    experiment = decode_toml(text, Experiment, source=where)
    try:
        experiments.check(experiment)
    except SpecError as error:
        raise SpecError(f"{where}: {error.message}", hint=error.hint) from None
    return experiment, text


COURSE_FOLDER = Path(__file__).with_name("course")
_TRANSLATION_FILE = re.compile(r"(\d\d-[a-z0-9-]+)\.([a-z]{2})")


@dataclass(frozen=True, slots=True)
class LessonFiles:
    """One lesson and its translations, as read from their files."""

    lesson: Lesson
    path: Path
    translations: dict[str, Translation]

    @property
    def languages(self) -> tuple[str, ...]:
        return (SOURCE_LANGUAGE, *sorted(self.translations))

    @property
    def shell_lines(self) -> tuple[str, ...]:
        """The shell lines that the lab runs as root if the student lets it do a step."""
        actions = (action for step in self.lesson.steps for action in step.do)
        return tuple(str(action.get("line", "")) for action in actions if action.get("act") == "shell")

    def ready(self, seed: str = "", language: str = SOURCE_LANGUAGE) -> ReadyLesson:
        """Return the lesson for a student, in English if it has no translation into this language."""
        return make_ready(self.lesson, seed, self.translations.get(language))


def is_path(word: str) -> bool:
    """Whether a word names a file rather than a lesson or drill that comes with raidlab."""
    return word.endswith(".toml") or "/" in word


def find_id(what: str, word: str, ids: Collection[str]) -> str:
    """Return the id that ``word`` stands for. It may be the id, its number or a unique part of it.

    Raises a SpecError that suggests the nearest id if there is none.
    """
    number = digits(word)
    near = [each for each in ids if (each.startswith(f"{number:02d}-") if number is not None else word in each)]
    if word in ids or len(near) == 1:
        return word if word in ids else near[0]
    if near:
        raise SpecError(f"'{word}' may mean {' or '.join(near)}", hint="write a longer part of the name")
    raise unknown_word(what, word, ids)


@dataclass(frozen=True, slots=True)
class Course:
    """All lessons of a folder, in order."""

    lessons: tuple[LessonFiles, ...]

    def find(self, word: str) -> LessonFiles:
        return self.lessons[self.ids.index(find_id("lesson", word, self.ids))]

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(files.lesson.id for files in self.lessons)


def read_lesson(path: Path) -> LessonFiles:
    """Read one lesson and its translations. Raises SpecError if a file is invalid."""
    others = sorted(path.parent.glob(f"{path.stem}.*.toml"))
    matches = ((other, _TRANSLATION_FILE.fullmatch(other.stem)) for other in others)
    translations = {match[2]: read_toml(other, Translation) for other, match in matches if match}
    return LessonFiles(read_toml(path, Lesson), path, translations)


def read_course(paths: Iterable[Path]) -> Course:
    """Read the lessons among these files, with their translations. Raises SpecError if a file is invalid."""
    return Course(tuple(read_lesson(path) for path in paths if not _TRANSLATION_FILE.fullmatch(path.stem)))


@cache
def built_in_course() -> Course:
    """Return the course that comes with raidlab."""
    return read_course(catalogue(COURSE_FOLDER).values())


def is_lesson_name(stem: str) -> bool:
    """Whether this is a valid name for a lesson file, which is two digits, a hyphen and a name."""
    return bool(re.fullmatch(r"\d\d-[a-z0-9-]+", stem))


WORDS_FOLDER = Path(__file__).with_name("words")


_SECRET = ".secret"
"""The suffix of the keys of sentences that stand in for a hidden requirement."""


class LessonWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sentences in one language, with placeholders such as ``{array}``."""

    language: str
    name: str
    """The name of the language in that language."""
    wanted: dict[str, str]
    """What each check requires, by the check's key."""
    found: dict[str, str]
    """What was found, by the outcome's key."""
    states: dict[str, str]
    """Translations of states of disks and arrays in outcomes; other states remain as md writes them."""
    frame: dict[str, str]
    """Headings and labels."""

    def requirement(self, key: str, facts: Mapping[str, object]) -> str:
        return self._sentence("wanted", key, facts)

    def find(self, key: str, facts: Mapping[str, object]) -> str:
        return self._sentence("found", key, facts)

    def _sentence(self, table: str, key: str, facts: Mapping[str, object]) -> str:
        """Raises SpecError if there is no such sentence."""
        sentences: dict[str, str] = getattr(self, table)
        if key not in sentences:
            raise SpecError(
                f"there is no sentence for '{key}'",
                hint=f"add it to [{table}] in lab/lessons/words/{SOURCE_LANGUAGE}.toml",
            )
        translated = {
            key: self.states.get(fact, fact) if isinstance(fact, str) else fact for key, fact in facts.items()
        }
        return sentences[key].format_map(translated)

    def label(self, key: str, **facts: object) -> str:
        return self.frame[key].format_map(facts)

    def predicted(self, ask: Question, chosen: str) -> str:
        """Return the prediction and its outcome, or an empty string if there is no prediction."""
        if chosen not in ask.options:
            return ""
        facts = {"answer": ask.options[chosen]}
        if not ask.answer:
            return self.label("predicted", **facts)
        if chosen == ask.answer:
            return self.label("predicted-right", **facts)
        return self.label("predicted-wrong", **facts, truth=ask.options[ask.answer])

    def secret_key(self, check: str) -> str:
        """Return the key of the sentence that hides a check's requirement. Raises SpecError if there is none."""
        key = f"{check}{_SECRET}"
        if key not in self.wanted:
            known = [each.removesuffix(_SECRET) for each in self.wanted if each.endswith(_SECRET)]
            raise unknown_word("check that can be secret", check, known)
        return key


def placeholders(text: str) -> set[str]:
    """Return the placeholders in a text, with their braces, such as ``{array}``."""
    return {"{" + part.partition("}")[0] + "}" for part in text.split("{")[1:]}


@cache
def words_in(language: str) -> LessonWords:
    """Return the sentences in a language; those that it lacks are in English."""
    english = read_toml(WORDS_FOLDER / f"{SOURCE_LANGUAGE}.toml", LessonWords)
    path = WORDS_FOLDER / f"{language}.toml"
    if language == SOURCE_LANGUAGE or not path.exists():
        return english
    own = read_toml(path, LessonWords)
    tables = {table: {**getattr(english, table), **getattr(own, table)} for table in ("wanted", "found", "frame")}
    return msgspec.structs.replace(own, **tables)


def word_languages() -> tuple[str, ...]:
    """Return the languages that have sentences, English first."""
    found = sorted(path.stem for path in WORDS_FOLDER.glob("*.toml"))
    return (SOURCE_LANGUAGE, *(language for language in found if language != SOURCE_LANGUAGE))


MOST_WITHIN_PERCENT = 10.0
"""The largest tolerance of a reading. With a larger one, a guess could be accepted."""
TRIED_SEEDS = ("", *(f"try-{number}" for number in range(12)))
"""The seeds that are tried, because a lesson must be valid for every seed."""


def course_problems(course: Course) -> tuple[str, ...]:
    """Return the problems of all lessons and of their order."""
    problems = [problem for files in course.lessons for problem in lesson_problems(files)]
    return (*problems, *_order_problems(course))


def lesson_problems(files: LessonFiles) -> tuple[str, ...]:
    """Return the problems of one lesson and its translations."""
    seeds = seed_problems(lambda seed: _require_sound(make_ready(files.lesson, seed)))
    problems = (*_lesson_head_problems(files), *_step_problems(files.lesson), *seeds)
    name = files.path.name
    found = [f"{name}: {problem}" for problem in dict.fromkeys(problems)]
    for language, translation in files.translations.items():
        other = f"{files.path.stem}.{language}.toml"
        found += [f"{other}: {problem}" for problem in _translation_problems(files.lesson, translation, language)]
    return tuple(found)


def check_file(path: Path) -> LessonFiles:
    """Read and check one lesson. Raises a SpecError that lists every problem."""
    files = read_lesson(path)
    known = (*built_in_course().ids, files.lesson.id)
    unknown = (f"{path.name}: {_unknown_need(need, known)}" for need in files.lesson.needs if need not in known)
    refuse_problems("lesson", path, (*lesson_problems(files), *unknown))
    return files


def refuse_problems(what: str, path: Path, problems: Sequence[str]) -> None:
    """Raises a SpecError that lists the problems of a lesson or drill, if there are any."""
    if problems:
        listed = "".join(f"\n  - {problem}" for problem in problems)
        raise SpecError(f"{what} '{path}' is not sound:{listed}", hint="fix these problems, then verify it again")


def head_problems(exercise: Exercise, stem: str, versions: range) -> Iterator[str]:
    """Yield problems with the keys that lessons and drills share; ``versions`` are the formats that can be read."""
    yield from _version_problems(exercise.format_version, versions)
    if exercise.id != stem:
        yield f"id is '{exercise.id}': write id = \"{stem}\", the name of the file"


def seed_problems(make: Callable[[str], object]) -> Iterator[str]:
    """Yield the first error that ``make`` raises for one of ``TRIED_SEEDS``."""
    try:
        for seed in TRIED_SEEDS:
            make(seed)
    except LabError as error:
        yield f"{error.message}: {error.hint}" if error.hint else error.message


def _version_problems(found: int, versions: range) -> Iterator[str]:
    if found not in versions:
        yield f"format_version is {found}, but this raidlab reads {versions[-1]}: write {versions[-1]}"


def _lesson_head_problems(files: LessonFiles) -> Iterator[str]:
    lesson, stem = files.lesson, files.path.stem
    yield from head_problems(lesson, stem, FORMAT_VERSIONS)
    if not is_lesson_name(stem):
        yield f"the name '{stem}' is not like 05-mirroring (two digits, a hyphen, lowercase letters): rename the file"
    if not 1 <= lesson.minutes <= 60:
        yield f"minutes is {lesson.minutes}: write 1 to 60, or split the lesson in two"
    if not 1 <= lesson.disks <= 16:
        yield f"disks is {lesson.disks}: write 1 to 16"
    for name in lesson.measure:
        if not re.fullmatch(r"[a-z0-9-]+", name):
            yield f"measurement '{name}': use lowercase letters, digits and hyphens, because results are named after it"
    if not lesson.steps:
        yield "it has no steps: write at least one [[steps]]"
    if not lesson.wrong:
        yield "it has no recorded wrong solution: write a [[wrong]] that a step's mistake recognises"


def _step_problems(lesson: Lesson) -> Iterator[str]:
    ids = [step.id for step in lesson.steps]
    for name in {each for each in ids if ids.count(each) > 1}:
        yield f"two steps are called '{name}': give each its own id"
    for step in lesson.steps:
        where = f"step {step.id}"
        yield from (f"{where}: {problem}" for problem in _one_step(step))
    for wrong in lesson.wrong:
        step_found = lesson.step(wrong.step)
        if step_found is None:
            yield f"wrong solution: there is no step '{wrong.step}': {_choose(wrong.step, ids)}"
        elif wrong.mistake not in (known := [mistake.id for mistake in step_found.mistakes]):
            problem = f"there is no mistake '{wrong.mistake}': {_choose(wrong.mistake, known)}"
            yield f"wrong solution of step {wrong.step}: {problem}"


def _one_step(step: LessonStep) -> Iterator[str]:
    for what in ("say", "explain"):
        if not getattr(step, what).strip():
            yield f"'{what}' is empty: write it"
    yield from _secret_problems(step)
    if len(step.hints) != HINTS:
        yield f"it has {len(step.hints)} hints: write {HINTS}, from a nudge to the whole answer"
    if not all(hint.strip() for hint in step.hints):
        yield "a hint is empty: write it"
    if len(set(step.hints)) < len(step.hints):
        yield "two hints are the same: make each more specific than the previous one"
    if not step.check and step.read is None:
        yield "nothing is checked, so a guess passes: write a check or a [steps.read]"
    if step.read and not step.read.question.strip():
        yield "its reading has no question: write one"
    if step.read and not 0 <= step.read.within_percent <= MOST_WITHIN_PERCENT:
        wide = step.read.within_percent
        yield f"within_percent is {wide:g}: write 0 to {MOST_WITHIN_PERCENT:g}, or a guess may pass"
    if step.check and not step.do:
        yield "it has checks, but no solution: write do = […]"
    if step.ask and len(step.ask.options) < 2:
        yield "its question has fewer than two options: add another"
    if step.ask and step.ask.answer and "{" not in step.ask.answer and step.ask.answer not in step.ask.options:
        yield f"the answer '{step.ask.answer}' is not an option: {_choose(step.ask.answer, step.ask.options)}"
    ids = [mistake.id for mistake in step.mistakes]
    for name in {each for each in ids if ids.count(each) > 1}:
        yield f"two mistakes are called '{name}': give each its own id"
    for mistake in step.mistakes:
        if not (mistake.when or mistake.types) or not mistake.hint.strip():
            yield f"mistake {mistake.id} needs 'when' or 'types', and 'hint': write them"
        if mistake.types and step.read is None:
            yield f"mistake {mistake.id} is about a number, but the step asks for none: write a [steps.read]"


def _secret_problems(step: LessonStep) -> Iterator[str]:
    names = [str(check.get("that", "")) for check in step.check]
    for name in step.secret:
        if name not in names:
            yield f"secret names '{name}', which is not one of its checks: {_choose(name, names)}"
            continue
        try:
            for language in word_languages():
                words_in(language).secret_key(name)
        except SpecError as error:
            yield f"{error.message}: {error.hint}"


def _require_sound(ready: ReadyLesson) -> None:
    """Raises SpecError if there is a problem that appears only with the values of the seed."""
    for step in ready.steps:
        where = f"step {step.id}"
        if step.ask and step.ask.answer and step.ask.answer not in step.ask.options:
            raise SpecError(
                f"{where}: the answer '{step.ask.answer}' is not an option", hint=_choose("", step.ask.options)
            )
        for check in step.checks_and_sources:
            _require_measured(ready, check, where)


def _require_measured(ready: ReadyLesson, check: Check | Source, where: str) -> None:
    if not isinstance(check, ResultCheck | ResultFigure | ResultRatio):
        return
    if check.measure not in ready.measures:
        raise SpecError(
            f"{where}: there is no measurement '{check.measure}'", hint=_choose(check.measure, ready.measures)
        )
    experiment = ready.measures[check.measure][0]
    arrays = [array.id for array in experiment.arrays]
    named = [check.of, check.to] if isinstance(check, RatioWithin | ResultRatio) else []
    named += [check.of] if isinstance(check, ResultFigure) else []
    asked = [choice.array for choice in named] + ([check.array] if isinstance(check, RebuildIntact) else [])
    for name in asked:
        if name not in arrays:
            raise SpecError(f"{where}: measurement {check.measure} has no array '{name}'", hint=_choose(name, arrays))
    load = experiment.rebuild.under if experiment.rebuild else None
    jobs = [job.id or job.workload for job in (*experiment.jobs, *([load] if load else []))]
    for choice in named:
        if choice.workload and choice.workload not in jobs:
            raise SpecError(
                f"{where}: measurement {check.measure} has no workload '{choice.workload}'",
                hint=_choose(choice.workload, jobs),
            )


def _order_problems(course: Course) -> Iterator[str]:
    """Yield duplicate numbers, and required lessons that do not exist or do not come earlier."""
    ids = course.ids
    numbers = [each[:2] for each in ids]
    for number in sorted({each for each in numbers if numbers.count(each) > 1}):
        yield f"two lessons have the number {number}: give each its own place"
    for position, files in enumerate(course.lessons):
        for need in files.lesson.needs:
            if need not in ids:
                yield f"{files.path.name}: {_unknown_need(need, ids)}"
            elif ids.index(need) >= position:
                yield f"{files.path.name}: needs '{need}', which does not come before it: change needs or the numbers"


def _unknown_need(need: str, ids: Iterable[str]) -> str:
    return f"needs '{need}', which is not a lesson: {_choose(need, ids)}"


def _translation_problems(lesson: Lesson, translation: Translation, language: str) -> Iterator[str]:
    """Yield the problems of a translation, such as texts that are missing or have different placeholders."""
    yield from _version_problems(translation.format_version, FORMAT_VERSIONS)
    if translation.id != lesson.id:
        yield f"id is '{translation.id}': write id = \"{lesson.id}\", as in the lesson"
    if translation.language != language:
        yield f"language is '{translation.language}': write language = \"{language}\", as in the file's name"
    own, other = msgspec.to_builtins(_english_texts(lesson)), msgspec.to_builtins(translation)
    for key in ("title", "goal", "steps"):
        yield from _text_problems(key, own[key], other[key])


def _text_problems(where: str, original: Any, translated: Any) -> Iterator[str]:
    """Compare a text, a list or a table of texts with its translation."""
    if isinstance(original, dict):
        yield from (f"{where}.{key} is missing: translate it" for key in original if key not in translated)
        for key, text in translated.items():
            if key in original:
                yield from _text_problems(f"{where}.{key}", original[key], text)
            else:
                yield f"{where}.{key} is not in the lesson: {_choose(key, original)}"
        return
    if isinstance(original, list | tuple):
        if len(translated) != len(original):
            yield f"{where} has {len(translated)} texts, but the lesson has {len(original)}: write the same number"
        for number, pair in enumerate(zip(original, translated, strict=False), 1):
            yield from _text_problems(f"{where}, number {number}", *pair)
        return
    if not translated.strip():
        yield f"{where} is empty: translate it"
    missing = sorted(placeholders(original) - placeholders(translated))
    strange = sorted(placeholders(translated) - placeholders(original))
    if missing or strange:
        words = [f"lacks {', '.join(missing)}"] if missing else []
        words += [f"has {', '.join(strange)}, which the lesson does not have"] if strange else []
        yield f"{where} {' and '.join(words)}: use the same placeholders in braces"


def _choose(word: str, known: Iterable[str]) -> str:
    names = sorted(known)
    near = nearest(word, names)
    return f"did you mean '{near}'?" if near else f"known here: {', '.join(names) or 'none'}"
