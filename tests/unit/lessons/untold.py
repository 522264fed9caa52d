"""The texts of each step of the course before the student answers, for tests that search them for the answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec.structs import replace

from lab.checks.state import CheckedState
from lab.cli import lesson as lesson_text
from lab.errors import LabError
from lab.experiments.schema import Experiment
from lab.lessons import engine
from lab.lessons.course import TRIED_SEEDS, LessonFiles, ReadyLesson, ReadyStep, built_in_course, draw
from lab.lessons.engine import Progress, StepProgress
from lab.lessons.student import LessonSession
from lab.results.record import CellRecord, RebuildRecord, ResultRecord
from tests.unit.lessons.test_checks import cell, figures, record

EARLY = "2026-01-01T00:00:00Z"


def steps_of_the_course() -> list[tuple[str, str]]:
    """Lesson and step, for every step."""
    return [(files.lesson.id, step.id) for files in built_in_course().lessons for step in files.lesson.steps]


def seat(lesson: ReadyLesson, step_id: str, folder: Path, **done: Any) -> LessonSession:
    """A lesson session whose current step is this one. ``done`` are fields of its progress."""
    steps = {}
    for step in lesson.steps:
        if step.id == step_id:
            steps[step.id] = StepProgress(began_utc=EARLY, **done)
            break
        steps[step.id] = StepProgress(began_utc=EARLY, done_utc=EARLY, answer=step.ask.answer if step.ask else "")
    progress = Progress(lesson=lesson.id, target="uml:", began_utc=EARLY, steps=steps)
    host: Any = SimpleNamespace(state=SimpleNamespace(results=folder), clock=None)
    return LessonSession(lesson, progress, store=lambda _: None, host=host)


def view_at(lesson: ReadyLesson, step_id: str, lab: CheckedState, folder: Path, **done: Any) -> engine.StepView:
    """The result of evaluating this step as the current one."""
    view = engine.evaluate(lesson, seat(lesson, step_id, folder, **done).progress, lab)
    assert view is not None
    return view


def iops_of(number: int) -> float:
    """The IOPS of a row; the first row is 1."""
    return 137.0 * 1.31**number


def latency_of(number: int) -> float:
    """The median latency of a row."""
    return 0.0131 * 1.17**number


OfRow = Callable[[int], float]


def measured_all(lesson: ReadyLesson, iops: OfRow = iops_of, latency: OfRow = latency_of) -> dict[str, ResultRecord]:
    """A result for each measurement, by default with different figures in every row."""
    return {name: _result(experiment, iops, latency) for name, (experiment, _) in lesson.measures.items()}


def _result(experiment: Experiment, iops: OfRow, latency: OfRow) -> ResultRecord:
    cells: list[CellRecord] = []
    load = experiment.rebuild.under if experiment.rebuild else None
    phases = ("healthy", "degraded", "rebuilding", "restored") if load else ("healthy",)
    for array in experiment.arrays:
        for job in (*experiment.jobs, *([load] if load else [])):
            for phase in phases:
                number = len(cells) + 1
                found = figures(iops(number), latency(number))
                workload = job.id or job.workload
                cells.append(replace(cell(array.id, 0, found, phase), workload=workload))
    rebuilds = [
        RebuildRecord(array=array.id, repeat=0, rebuild_seconds=2.0, rebuilt_bytes=93 << 20, data_unchanged=True)
        for array in (experiment.arrays if experiment.rebuild else ())
    ]
    return record(*cells, rebuilds=tuple(rebuilds))


def shown_before(
    lesson: ReadyLesson, step: ReadyStep, lab: CheckedState, folder: Path, capsys: Any, **done: Any
) -> str:
    """The output of the command line about a step, as text and as JSON, and its errors for invalid numbers."""
    opened = seat(lesson, step.id, folder, **done)
    capsys.readouterr()
    lesson_text.show_lesson(opened)
    # Without the step's number.
    said = [re.sub(r"^ \d+ of \d+", "", capsys.readouterr().out.rpartition("## Step")[2])]
    view = engine.evaluate(lesson, opened.progress, lab)
    assert view is not None
    said += lesson_text.check_lines(opened, view)
    value = lesson_text.lesson_value(opened)
    value.update(steps=None, done=None)
    said.append(json.dumps(value, ensure_ascii=False, default=str))
    said.append(json.dumps(lesson_text.view_value(opened, view), ensure_ascii=False))
    for typed in ("", "abc", "0.7531 parsecs"):
        try:
            engine.answer(lesson, opened.progress, typed)
        except LabError as error:
            said.append(f"{error.message} {error.hint}")
    return "\n".join(said)


def all_in_app(lesson: ReadyLesson, step: ReadyStep, lab: CheckedState, folder: Path, **done: Any) -> str:
    """All texts of the step in the app."""
    from tui.lessons import in_app

    opened = seat(lesson, step.id, folder, **done)
    view = engine.evaluate(lesson, opened.progress, lab)
    assert view is not None
    shown = engine.displayed(opened.words, view)
    options = " ".join(step.ask.options.values()) if step.ask else ""
    checks = " ".join(f"{check.required} {check.found}" for check in shown.checks)
    question, mistake = step.ask.question if step.ask else "", in_app(shown.mistake.hint) if shown.mistake else ""
    reading = in_app(shown.reading.question_words) if shown.reading else ""
    return " ".join((in_app(step.text), question, options, checks, mistake, reading))


def files_of(lesson_id: str) -> LessonFiles:
    return built_in_course().find(lesson_id)


@cache
def variants(lesson_id: str, count: int) -> tuple[ReadyLesson, ...]:
    """The lesson for this many seeds. Seeds that select the same values share one lesson."""
    files = files_of(lesson_id)
    seeds = {tuple(draw(files.lesson, seed).items()): seed for seed in TRIED_SEEDS[:count]}
    return tuple(files.ready(seed) for seed in seeds.values())
