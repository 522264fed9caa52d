"""The part of a step's state that a student may see, without answers to the prediction, the number or the choice. Pure.

Every client displays steps through this module. It hides three things: all checks and the question of the reading until
the prediction is given; the requirement of a secret check until it holds; the figures of a measurement until the number
that is read from it is given.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.lessons.course import LessonWords
from lab.lessons.engine import CheckView, StepProgress, StepView
from lab.lessons.ready import ReadyMistake, ReadyStep
from lab.lessons.schema import HINTS
from lab.tomlfile import unknown_word

SECRET = ".secret"
"""Suffix of the keys for secret checks."""
_FIGURES = "ratio"
_UNTOLD = "ratio-untold"
"""Prefixes of the keys for outcomes of measurements, with and without figures."""


@dataclass(frozen=True, slots=True)
class ToldCheck:
    """A check as displayed."""

    name: str
    wanted: str
    found: str
    """What was found instead, or the measured figures; empty: nothing to add."""
    is_passed: bool


@dataclass(frozen=True, slots=True)
class Told:
    """The state of a step as displayed."""

    checks: tuple[ToldCheck, ...]
    mistake: ReadyMistake | None
    """A recognised mistake; None before the prediction."""


def is_predicted(step: ReadyStep, progress: StepProgress) -> bool:
    """Whether the question of the step is answered, or it has none."""
    return step.ask is None or bool(progress.answer)


def shows_solution(progress: StepProgress) -> bool:
    """Whether all hints were taken: the last one is the complete answer."""
    return progress.hints >= HINTS


def tell(words: LessonWords, view: StepView) -> Told:
    """The part of this view that may be displayed."""
    step, first = view.step, view.checks[:1]
    if step.ask is not None and not all(check.is_passed for check in first):
        told = ToldCheck(first[0].name, words.want(first[0].name, first[0].facts), "", is_passed=False)
        count = len(view.checks) - 1
        later = ToldCheck("later", words.want("later", {"count": count}), "", is_passed=False)
        return Told((told, later) if count else (told,), None)
    hides_figures = step.read is not None and step.read.source.is_of_result and not view.checks[-1].is_passed
    checks = (_told(words, step, check, hides_figures=hides_figures) for check in view.checks)
    return Told(tuple(checks), view.mistake)


def secret_key(words: LessonWords, wanted: str) -> str:
    """The key of the sentence that hides the requirement of a check. Raises SpecError if there is none."""
    key = f"{wanted}{SECRET}"
    if key not in words.wanted:
        known = [each.removesuffix(SECRET) for each in words.wanted if each.endswith(SECRET)]
        raise unknown_word("check that can be secret", wanted, known)
    return key


def _told(words: LessonWords, step: ReadyStep, check: CheckView, *, hides_figures: bool) -> ToldCheck:
    is_secret = check.name in step.secret and not check.is_passed
    wanted = words.want(secret_key(words, check.name) if is_secret else check.name, check.facts)
    return ToldCheck(check.name, wanted, _found(words, check, hides_figures=hides_figures), check.is_passed)


def _found(words: LessonWords, check: CheckView, *, hides_figures: bool) -> str:
    outcome = check.outcome
    if outcome is None:
        return ""
    has_figures = outcome.said.startswith(_FIGURES)
    if check.is_passed and not has_figures and not outcome.said.startswith("reading"):
        return ""
    if has_figures and hides_figures:
        untold = outcome.said.replace(_FIGURES, _UNTOLD, 1).replace("-off-between", "-off")
        untold = untold.removesuffix("-at-least").removesuffix("-at-most")
        return words.find(untold, outcome.facts) if untold in words.found else ""
    return words.find(outcome.said, outcome.facts)
