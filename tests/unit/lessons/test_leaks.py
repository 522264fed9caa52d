"""No text of a step reveals its number, its prediction or its choice before the student answers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lab.checks.state import CheckedState
from lab.lessons.course import TRIED_SEEDS, ReadyStep, word_languages, words_in
from lab.lessons.engine import displayed
from tests.unit.lessons.untold import (
    all_in_app,
    files_of,
    measured_all,
    shown_before,
    steps_of_the_course,
    variants,
    view_at,
)

NOT_MEASURED = {
    # Its numbers take seconds to compute; test_likely_mistakes.py searches for them.
    "fleet.figure",
    # Numbers of an array or of a scenario that the student makes in the step itself: before, there are none.
    *("array.size", "bad.block", "bad.bytes", "block.place", "disk.minor", "mark.first_unreadable"),
    *("fault.figure", "fault.ratio", "member.events", "member.offset", "points.figure", "scrub.mismatches"),
}
"""Sources of numbers that are not searched for, since results alone do not contain them."""
ALLOWED = {
    ("06-small-writes", "count", "60"): "the writes a second that are given, where another seed's answer is 60",
    ("16-an-unreadable-sector", "real", "2"): "a digit of the seed, and of 'RAID 5 and a RAID 6'",
    ("14-where-a-block-lives", "parity", "3"): "the rule counts slots from 3 down",
    ("14-where-a-block-lives", "parity", "2"): "the rule counts slots from 3 down",
    ("14-where-a-block-lives", "parity", "1"): "the rule counts slots from 3 down",
    ("18-time-limits", "scterc", "65"): "seconds of the step before; here tenths of a second of another limit",
    ("23-sequential-and-random", "predict", "2"): "the divisor in the textbook's table, N/2",
    ("13-two-new-disks", "failure", "2"): "stripes of 2 + 1, of the step before",
}
"""Lesson, step, number -> why the number may be visible there."""
CHOICES = {
    ("06-small-writes", "build"): "raid10",
    ("07-chunk-size", "build"): "KiB",
    ("12-choosing-a-level", "choose"): "raid",
    ("13-two-new-disks", "band"): "raid1",
    ("22-arithmetic-of-reliability", "build"): "raid6",
}
"""Steps in which students choose -> a word that must not be in any line of the checks before the right choice."""


def forms(value: float, within_percent: float) -> set[str]:
    """The accepted texts of a number."""
    texts = {f"{value:.{digits}g}" for digits in (1, 2, 3, 4, 6, 10)} | {f"{value:.{digits}f}" for digits in (0, 1, 2)}
    if value == round(value):
        texts |= {f"{value:.0f}", f"{value:,.0f}", f"{value:08.0f}"}
    near = abs(value) * within_percent / 100 + 1e-9
    return {text for text in texts if abs(float(text.replace(",", "")) - value) <= near}


def written(text: str, step: ReadyStep, value: float) -> list[str]:
    """The accepted texts of a number that occur in ``text`` as separate words."""
    assert step.read is not None
    found = forms(value, step.read.within_percent)
    return [form for form in found if re.search(rf"(?<![\w.,^]){re.escape(form)}(?![\w^]|[.,]\d)", text)]


def right_number(step: ReadyStep, lab: CheckedState) -> float | None:
    assert step.read is not None
    return step.read.expected(lab)


def steps_that_read() -> list[tuple[str, str]]:
    """Steps in which the student reads a number that follows from results or from the step's text."""
    found = [(each, files_of(each[0]).lesson.step(each[1])) for each in steps_of_the_course()]
    return [each for each, plan in found if plan and plan.read and plan.read.value["get"] not in NOT_MEASURED]


def steps_with_an_answer() -> list[tuple[str, str]]:
    """Steps in which the student predicts, and one of the options is right."""
    found = [(each, files_of(each[0]).ready("").step(each[1])) for each in steps_of_the_course()]
    return [each for each, step in found if step.ask and step.ask.answer]


@pytest.mark.parametrize(("lesson_id", "step_id"), steps_that_read())
def test_no_number_is_shown_before_the_student_gives_it(
    lesson_id: str, step_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for lesson in variants(lesson_id, 6):
        step = lesson.step(step_id)
        lab = CheckedState(results=measured_all(lesson))
        value = right_number(step, lab)
        assert value is not None
        for done in ({}, *([{"answer": next(iter(step.ask.options))}] if step.ask else [])):
            output = shown_before(lesson, step, lab, tmp_path, capsys, **done) + all_in_app(
                lesson, step, lab, tmp_path, **done
            )
            for form in written(output, step, value):
                assert (lesson_id, step_id, form) in ALLOWED, (lesson.seed, form, output)


def test_only_the_prediction_is_asked_for_before_it_is_given(tmp_path: Path) -> None:
    for lesson_id, step_id in steps_of_the_course():
        lesson = files_of(lesson_id).ready("")
        step = lesson.step(step_id)
        if step.ask is None:
            continue
        view = view_at(lesson, step_id, CheckedState(results=measured_all(lesson)), tmp_path)
        for language in word_languages():
            shown = displayed(words_in(language), view)
            assert [check.name for check in shown.checks] == ["answered", "later"], (lesson_id, step_id, language)
            assert shown.mistake is None


@pytest.mark.parametrize(("lesson_id", "step_id"), steps_with_an_answer())
def test_the_right_prediction_is_shown_only_among_the_options(lesson_id: str, step_id: str, tmp_path: Path) -> None:
    for lesson in variants(lesson_id, 4):
        step = lesson.step(step_id)
        assert step.ask
        assert step.ask.answer
        lab = CheckedState(results=measured_all(lesson))
        output = all_in_app(lesson, step, lab, tmp_path)
        option = step.ask.options[step.ask.answer]
        if len(option) > 12:
            assert output.count(option) == 1, (lesson.seed, option)
        assert option not in lesson.goal or len(option) <= 12
        assert "by_hand" not in output


@pytest.mark.parametrize(("lesson_id", "step_id"), CHOICES)
def test_no_command_reveals_the_right_choice(
    lesson_id: str, step_id: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lesson = files_of(lesson_id).ready("")
    step = lesson.step(step_id)
    by_hand = [action.by_hand() for action in step.do]
    assert by_hand
    output = shown_before(lesson, step, CheckedState(), tmp_path, capsys)
    assert not [line for line in by_hand if line in output]


@pytest.mark.parametrize(("lesson_id", "step_id"), CHOICES)
def test_no_check_reveals_the_right_choice(lesson_id: str, step_id: str, tmp_path: Path) -> None:
    for lesson in variants(lesson_id, len(TRIED_SEEDS)):
        step = lesson.step(step_id)
        view = view_at(lesson, step_id, CheckedState(), tmp_path, answer="given")
        for language in word_languages():
            text = " ".join(f"{each.required} {each.found}" for each in displayed(words_in(language), view).checks)
            assert CHOICES[lesson_id, step_id] not in text
        assert step.secret


def test_a_measured_figure_is_shown_only_after_the_number(tmp_path: Path) -> None:
    """A check of lesson 1 shows the median latency that its first step asks for."""
    lesson = files_of("01-what-a-disk-promises").ready("")
    lab = CheckedState(results=measured_all(lesson))
    step = lesson.steps[0]
    value = right_number(step, lab)
    for typed, is_shown in (("", False), ("1", False), (f"{value:.10g}", True)):
        view = view_at(lesson, step.id, lab, tmp_path, answer="same", reading=typed)
        shown = displayed(words_in("en"), view)
        figures = [each.found for each in shown.checks if " ms" in each.found and "ratio" in each.found]
        assert bool(figures) is is_shown
