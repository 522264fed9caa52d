"""A lesson for one student: placeholders filled in, checks and actions created, texts in the student's language."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from lab.actions import ACTIONS as LAB_ACTIONS
from lab.actions.action import Action
from lab.checks.catalogue import make_check, make_source
from lab.checks.readings import UNITS, Reading
from lab.checks.state import Check
from lab.errors import SpecError
from lab.experiments import schema as experiments
from lab.experiments.schema import Experiment
from lab.lessons import actions
from lab.lessons.actions import ApartAction, RunMeasurement
from lab.lessons.schema import (
    SOURCE_LANGUAGE,
    Arguments,
    Lesson,
    LessonStep,
    Mistake,
    Question,
    StepText,
    Translation,
    Values,
    Wrong,
    draw,
    fill,
    fill_tree,
)
from lab.session.versions import NeededMdadm
from lab.tomlfile import decode_toml, kinds_by_tag, make_tagged, unknown_word, with_new_arguments

T = TypeVar("T", bound=msgspec.Struct)


ACTIONS: Mapping[str, type[Action]] = {
    **{str(kind.__struct_config__.tag): kind for kind in LAB_ACTIONS if kind.in_lessons},
    **kinds_by_tag("act", (actions,)),
}


def make_action(written: Mapping[str, Any], *, where: str) -> Action:
    """Create an action from its TOML table. Raises SpecError with the nearest name for an unknown action or key."""
    return make_tagged(with_new_arguments(written), ACTIONS, what="action", key="act", where=where)


BY_HAND = "{by_hand}"
"""Placeholder in a hint for the step's own solution, as shell commands or as keys of the app."""


@dataclass(frozen=True, slots=True)
class ReadyMistake:
    """A mistake whose checks can be evaluated."""

    id: str
    when: tuple[Check, ...]
    typed: Reading | None
    """The number that is typed by this mistake; None: the mistake concerns the lab only."""
    hint: str


@dataclass(frozen=True, slots=True)
class ReadyStep:
    """One step for the student."""

    id: str
    say: str
    ask: Question | None
    do: tuple[Action, ...]
    checks: tuple[Check, ...]
    secret: tuple[str, ...]
    """Names of checks whose requirement is hidden until they hold."""
    read: Reading | None
    hints: tuple[str, ...]
    """With ``BY_HAND`` not replaced: see ``hints_by_hand``."""
    explain: str
    mistakes: tuple[ReadyMistake, ...]
    values: Values
    """Values of the seed that are part of the step's texts."""

    @property
    def hints_by_hand(self) -> tuple[str, ...]:
        """The hints with shell commands."""
        commands = "\n".join(action.by_hand() for action in self.do)
        return tuple(hint.replace(BY_HAND, f"\n```\n{commands}\n```\n") for hint in self.hints)

    @property
    def apart(self) -> tuple[ApartAction, ...]:
        """Actions of the step that use a separate lab: measurements and faults."""
        return tuple(action for action in self.do if isinstance(action, ApartAction))

    @property
    def check_count(self) -> int:
        """Number of checks of the step, including its question and its reading."""
        return len(self.checks) + (self.ask is not None) + (self.read is not None)


@dataclass(frozen=True, slots=True)
class ReadyWrong:
    """A recorded wrong solution."""

    step: str
    do: tuple[Action, ...]
    mistake: str


@dataclass(frozen=True, slots=True)
class ReadyLesson:
    """One lesson for the student."""

    id: str
    title: str
    goal: str
    needs: tuple[str, ...]
    needs_mdadm: NeededMdadm | None
    minutes: int
    disks: int
    language: str
    seed: str
    values: Values
    steps: tuple[ReadyStep, ...]
    measures: Mapping[str, tuple[Experiment, str]]
    """Name -> the experiment, and the text of its file."""
    wrong: tuple[ReadyWrong, ...]

    @property
    def check_count(self) -> int:
        """Number of checks of all steps."""
        return sum(step.check_count for step in self.steps)

    def step(self, step_id: str) -> ReadyStep:
        """Find a step by its id. Raises SpecError with the nearest one."""
        for step in self.steps:
            if step.id == step_id:
                return step
        raise unknown_word(f"step of lesson {self.id}", step_id, [step.id for step in self.steps])

    @property
    def disk_names(self) -> tuple[str, ...]:
        """Names of the lab disks that this lesson may use."""
        return tuple(f"disk{number:02d}" for number in range(1, self.disks + 1))


def make_ready(lesson: Lesson, seed: str = "", translation: Translation | None = None) -> ReadyLesson:
    """The lesson for this seed and language. Raises SpecError with the step and the remedy."""
    values = draw(lesson, seed)
    texts = translation.steps if translation else {}
    measures = {name: _experiment(lesson, name, values) for name in lesson.measure}
    steps = tuple(_step(lesson, step, texts.get(step.id), values) for step in lesson.steps)
    wrong = tuple(_wrong(lesson, each, values) for each in lesson.wrong)
    for action in (*(each for step in steps for each in step.do), *(each for one in wrong for each in one.do)):
        if isinstance(action, RunMeasurement) and action.measure not in measures:
            raise unknown_word(f"measurement of lesson {lesson.id}", action.measure, measures)
    return ReadyLesson(
        id=lesson.id,
        title=fill(translation.title if translation else lesson.title, values),
        goal=fill(translation.goal if translation else lesson.goal, values),
        needs=lesson.needs,
        needs_mdadm=lesson.needs_mdadm,
        minutes=lesson.minutes,
        disks=lesson.disks,
        language=translation.language if translation else SOURCE_LANGUAGE,
        seed=seed,
        values=values,
        steps=steps,
        measures=measures,
        wrong=wrong,
    )


def experiment_id(lesson_id: str, measure: str) -> str:
    """The id under which the result of a lesson's measurement is stored."""
    return f"lesson-{lesson_id}-{measure}"


def _step(lesson: Lesson, step: LessonStep, text: StepText | None, values: Values) -> ReadyStep:
    where = f"lesson {lesson.id}, step {step.id}"
    do = tuple(make_action(each, where=where) for each in _filled(step.do, values))
    hints = text.hints if text else step.hints
    ask = step.ask
    if ask and text and text.ask:
        ask = Question(question=text.ask.question, options=text.ask.options, answer=ask.answer)
    return ReadyStep(
        id=step.id,
        say=fill(text.say if text else step.say, values),
        ask=_question(ask, values) if ask else None,
        do=do,
        checks=_checks(step.check, values, where),
        secret=step.secret,
        read=_reading(step, text, values, where),
        hints=tuple(fill(hint, values) for hint in hints),
        explain=fill(text.explain if text else step.explain, values),
        mistakes=tuple(_mistake(step, each, text, values, where) for each in step.mistakes),
        values={name: value for name, value in values.items() if f"{{seed.{name}}}" in _shown(step)},
    )


def _shown(step: LessonStep) -> str:
    """All texts of a step that are visible from its beginning."""
    asked = (step.ask.question, *step.ask.options.values()) if step.ask else ()
    return "\n".join((step.say, *asked, step.read.question if step.read else ""))


def _question(ask: Question, values: Values) -> Question:
    options = {key: fill(option, values) for key, option in ask.options.items()}
    return Question(question=fill(ask.question, values), options=options, answer=fill(ask.answer, values))


def _reading(step: LessonStep, text: StepText | None, values: Values, where: str) -> Reading | None:
    plan = step.read
    if plan is None:
        return None
    if plan.unit not in UNITS and plan.value.get("get") != "number":
        raise unknown_word(f"unit in {where}", plan.unit, UNITS)
    return Reading(
        question=fill((text.read if text else "") or plan.question, values),
        unit=plan.unit,
        source=make_source(fill_tree(plan.value, values), where=f"{where}, reading"),
        within_percent=plan.within_percent,
    )


def _mistake(step: LessonStep, mistake: Mistake, text: StepText | None, values: Values, where: str) -> ReadyMistake:
    hint = text.mistakes.get(mistake.id, mistake.hint) if text else mistake.hint
    where = f"{where}, mistake {mistake.id}"
    typed = None
    if mistake.types and step.read is not None:
        source = make_source(fill_tree(mistake.types, values), where=where)
        times = _times(fill(str(mistake.times), values), where)
        typed = Reading("", step.read.unit, source, step.read.within_percent, times)
    return ReadyMistake(mistake.id, _checks(mistake.when, values, where), typed, fill(hint, values))


def _times(text: str, where: str) -> float:
    """Raises SpecError for text that is not a number."""
    try:
        return float(text)
    except ValueError:
        raise SpecError(f"{where}: times is '{text}'", hint="write a number, or a seed variable that is one") from None


def _wrong(lesson: Lesson, wrong: Wrong, values: Values) -> ReadyWrong:
    where = f"lesson {lesson.id}, wrong solution of step {wrong.step}"
    return ReadyWrong(
        wrong.step, tuple(make_action(each, where=where) for each in _filled(wrong.do, values)), wrong.mistake
    )


def _checks(written: Iterable[Arguments], values: Values, where: str) -> tuple[Check, ...]:
    return tuple(make_check(each, where=where) for each in _filled(written, values))


def _filled(written: Iterable[Arguments], values: Values) -> list[Arguments]:
    return [fill_tree(each, values) for each in written]


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
