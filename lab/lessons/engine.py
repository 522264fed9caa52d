"""The state of a student in a lesson, its transitions, and the parts of a step that the student may see.

A step is shown without the answer to its question, the number to read, and the solution of a choice. Nothing here uses
a clock, files or a machine.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from lab.checks.readings import Reading
from lab.checks.state import CheckedState, CheckOutcome, all_hold
from lab.errors import LessonError
from lab.gates.decoding import FormatVersion
from lab.lessons.course import HINTS, Lesson, LessonWords, ReadyLesson, ReadyMistake, ReadyStep
from lab.tomlfile import nearest, unknown_word

FORMAT_VERSION = 2


class StepProgress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A student's progress in one step."""

    began_utc: str
    done_utc: str = ""
    """Empty if the step is not done."""
    answer: str = ""
    """The key of the chosen option."""
    reading: str = ""
    """The number, as it was typed."""
    hints: int = 0
    by_lab: bool = False
    """Whether the lab carried out the step for the student."""
    passed: tuple[int, ...] = ()
    """Indices of the lasting checks that have passed. A correct reading has the index after the last check."""


class Progress(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A student's progress in one lesson. Times are ISO 8601 in UTC."""

    format_version: FormatVersion = 1
    """Format 1 did not write this key."""
    lesson: str
    seed: str = ""
    language: str = "en"
    target: str = ""
    """The machine with the lab for this lesson."""
    began_utc: str
    steps: dict[str, StepProgress] = {}

    def in_step(self, step_id: str) -> StepProgress:
        return self.steps.get(step_id, StepProgress(began_utc=""))

    def is_done(self, step_id: str) -> bool:
        return bool(self.in_step(step_id).done_utc)


@dataclass(frozen=True, slots=True)
class CheckView:
    """A check of a step and its outcome, for display; ``outcome`` is None before the first evaluation."""

    name: str
    facts: dict[str, str | int | float]
    is_passed: bool
    outcome: CheckOutcome | None = None


@dataclass(frozen=True, slots=True)
class StepView:
    """The result of evaluating the current step."""

    step: ReadyStep
    progress: StepProgress
    checks: tuple[CheckView, ...]
    mistake: ReadyMistake | None
    is_done: bool


def begin(lesson: ReadyLesson, *, target: str, now_utc: str) -> Progress:
    """Return the progress at the beginning of a lesson."""
    first = {lesson.steps[0].id: StepProgress(began_utc=now_utc)}
    return Progress(
        format_version=FORMAT_VERSION,
        lesson=lesson.id,
        seed=lesson.seed,
        language=lesson.language,
        target=target,
        began_utc=now_utc,
        steps=first,
    )


def current_step(lesson: ReadyLesson, progress: Progress) -> ReadyStep | None:
    """Return the first step that is not done, or None at the end of the lesson."""
    return next((step for step in lesson.steps if not progress.is_done(step.id)), None)


def done_count(lesson: Lesson | ReadyLesson, progress: Progress) -> int:
    """Return the number of steps that are done."""
    return sum(progress.is_done(step.id) for step in lesson.steps)


def answer(lesson: ReadyLesson, progress: Progress, text: str) -> Progress:
    """Answer the question of the current step, or enter its reading.

    Both may be changed until the step is done. A reading is accepted only after the prediction. Raises LessonError if
    the step does not ask for an answer, and SpecError if the text is neither an option nor a valid number.
    """
    step = _require_step(lesson, progress)
    if step.ask is not None and text in step.ask.options:
        return _with_step(progress, step, answer=text)
    if step.ask is None and step.read is None:
        raise LessonError(f"step '{step.id}' does not ask for an answer", hint="'raidlab lesson show' shows what to do")
    options = step.ask.options if step.ask else {}
    if step.read is None or not is_predicted(step, progress.in_step(step.id)) or nearest(text, options):
        raise unknown_word("answer", text, options)
    step.read.parse(text)
    before = progress.in_step(step.id).passed
    passed = tuple(number for number in before if number != _reading_place(step))
    return _with_step(progress, step, reading=text, passed=passed)


def take_hint(lesson: ReadyLesson, progress: Progress) -> Progress:
    """Take another hint for the current step, if there is one."""
    step = _require_step(lesson, progress)
    return _with_step(progress, step, hints=min(HINTS, progress.in_step(step.id).hints + 1))


def note_help(lesson: ReadyLesson, progress: Progress) -> Progress:
    """Record that the lab does the current step for the student."""
    return _with_step(progress, _require_step(lesson, progress), by_lab=True)


def evaluate(lesson: ReadyLesson, progress: Progress, lab: CheckedState) -> StepView | None:
    """Evaluate the checks of the current step. Returns None at the end of the lesson."""
    step = current_step(lesson, progress)
    if step is None:
        return None
    done = progress.in_step(step.id)
    views = [] if step.ask is None else [CheckView("answered", {}, bool(done.answer))]
    for number, check in enumerate(step.checks):
        outcome = check.evaluate(lab)
        is_passed = outcome.is_passed or (check.lasts and number in done.passed)
        views.append(CheckView(check.requirement_key, dict(check.facts), is_passed, outcome))
    if step.read is not None:
        outcome = step.read.compare(done.reading, lab)
        views.append(
            CheckView(step.read.requirement_key, {}, outcome.is_passed or _reading_place(step) in done.passed, outcome)
        )
    is_done = all(view.is_passed for view in views)
    return StepView(step, done, tuple(views), None if is_done else _mistake(step, done.reading, lab), is_done)


def note(lesson: ReadyLesson, progress: Progress, view: StepView, *, now_utc: str) -> Progress:
    """Record which lasting checks hold, and whether the step is done.

    Returns the same object if nothing changed.
    """
    step = view.step
    offset = step.ask is not None
    held = {
        number for number, check in enumerate(step.checks) if check.lasts and view.checks[number + offset].is_passed
    }
    if step.read is not None and view.checks[-1].is_passed:
        held.add(_reading_place(step))
    before = progress.in_step(step.id)
    if not view.is_done:
        passed = tuple(sorted(held | set(before.passed)))
        return progress if passed == before.passed else _with_step(progress, step, passed=passed)
    progress = _with_step(progress, step, done_utc=now_utc)
    following = current_step(lesson, progress)
    return progress if following is None else _with_step(progress, following, began_utc=now_utc)


def _reading_place(step: ReadyStep) -> int:
    """Return the index that stands for a correct reading in ``StepProgress.passed``."""
    return len(step.checks)


def _mistake(step: ReadyStep, reading: str, lab: CheckedState) -> ReadyMistake | None:
    for mistake in step.mistakes:
        is_typed = mistake.typed is None or mistake.typed.compare(reading, lab).is_passed
        if is_typed and all_hold(mistake.when, lab):
            return mistake
    return None


def _require_step(lesson: ReadyLesson, progress: Progress) -> ReadyStep:
    step = current_step(lesson, progress)
    if step is None:
        raise LessonError(f"lesson {lesson.id} is done", hint="'raidlab lesson reset' starts it again")
    return step


def _with_step(progress: Progress, step: ReadyStep, **changes: object) -> Progress:
    before = progress.in_step(step.id)
    steps = progress.steps | {step.id: msgspec.structs.replace(before, **changes)}
    return msgspec.structs.replace(progress, steps=steps)


_FIGURES = "ratio"
_NO_FIGURES = "ratio-untold"
"""The prefixes of the keys for outcomes of measurements, with and without figures."""


@dataclass(frozen=True, slots=True)
class DisplayedCheck:
    """The texts of a check for display."""

    name: str
    required: str
    found: str
    """What was found, or the measured figures; empty if there is nothing to add."""
    is_passed: bool


@dataclass(frozen=True, slots=True)
class DisplayedStep:
    """A step with its checks and a recognised mistake, for display."""

    ready: ReadyStep
    progress: StepProgress
    checks: tuple[DisplayedCheck, ...]
    mistake: ReadyMistake | None
    """A recognised mistake; None before the prediction."""

    @property
    def reading(self) -> Reading | None:
        """The number that the step asks for; None before the prediction, or if the step asks for no number."""
        return self.ready.read if is_predicted(self.ready, self.progress) else None

    @property
    def must_answer(self) -> bool:
        return not is_predicted(self.ready, self.progress)

    @property
    def must_measure(self) -> bool:
        """Whether a measurement must still run before its number can be read."""
        return bool(self.ready.apart) and not self.must_read_off

    @property
    def must_read_off(self) -> bool:
        """Whether only the number, whose check is the last one, is missing."""
        return self.reading is not None and all(check.is_passed for check in self.checks[:-1])


def is_predicted(step: ReadyStep, progress: StepProgress) -> bool:
    """Whether the question of the step is answered; True for a step without a question."""
    return step.ask is None or bool(progress.answer)


def shows_solution(progress: StepProgress) -> bool:
    """Whether all hints were taken, including the last one, which is the complete answer."""
    return progress.hints >= HINTS


def displayed(words: LessonWords, view: StepView) -> DisplayedStep:
    """Return the parts of a view that may be displayed. The results of checks are omitted before the prediction."""
    step = view.step
    if step.ask is not None and not (asked := view.checks[0]).is_passed:
        question = DisplayedCheck(asked.name, words.requirement(asked.name, asked.facts), "", is_passed=False)
        count = len(view.checks) - 1
        later = DisplayedCheck("later", words.requirement("later", {"count": count}), "", is_passed=False)
        return DisplayedStep(step, view.progress, (question, later) if count else (question,), None)
    hides_figures = step.read is not None and step.read.source.is_of_result and not view.checks[-1].is_passed
    checks = (_displayed_check(words, step, check, hides_figures=hides_figures) for check in view.checks)
    return DisplayedStep(step, view.progress, tuple(checks), view.mistake)


def _displayed_check(words: LessonWords, step: ReadyStep, check: CheckView, *, hides_figures: bool) -> DisplayedCheck:
    is_secret = check.name in step.secret and not check.is_passed
    required = words.requirement(words.secret_key(check.name) if is_secret else check.name, check.facts)
    return DisplayedCheck(check.name, required, _found(words, check, hides_figures=hides_figures), check.is_passed)


def _found(words: LessonWords, check: CheckView, *, hides_figures: bool) -> str:
    outcome = check.outcome
    if outcome is None:
        return ""
    has_figures = outcome.key.startswith(_FIGURES)
    if check.is_passed and not has_figures and not outcome.key.startswith("reading"):
        return ""
    if has_figures and hides_figures:
        key = outcome.key.replace(_FIGURES, _NO_FIGURES, 1).replace("-off-between", "-off")
        key = key.removesuffix("-at-least").removesuffix("-at-most")
        return words.find(key, outcome.facts) if key in words.found else ""
    return words.find(outcome.key, outcome.facts)
