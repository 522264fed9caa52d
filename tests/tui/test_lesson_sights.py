"""What a lesson refers to is visible on the screen to which it sends the student, at 80 and at 120 columns."""

from __future__ import annotations

import msgspec
import pytest

from lab.checks.catalogue import FaultFigure, FaultRatio, PointsFigure
from lab.checks.readings import Figure, RatioWithin, RebuildRate, ResultFigure, ResultRatio
from lab.checks.state import CheckOutcome
from lab.lessons.course import ReadyLesson, built_in_course, experiment_id
from lab.lessons.engine import Progress, StepProgress
from lab.lessons.student import LessonStore, StudentState
from lab.results.record import ResultRecord, RunStatus
from lab.results.store import ResultStore
from lab.units import human_seconds
from tests.tui.conftest import Start
from tests.tui.fake_lab import FakeLab
from tests.tui.lessons import step_of
from tests.tui.results import keep
from tests.tui.user import User
from tests.unit.lessons.samples import played, points
from tests.unit.lessons.test_likely_mistakes import JUDGED, OUTCOMES
from tests.unit.lessons.untold import measured_all
from tui.faults_screen import FaultView, scenario_view
from tui.faults_screen import points_view as view_of_points
from tui.lessons import read_at

pytestmark = pytest.mark.wide

SIZES = [(80, 24), (120, 40)]
EARLY, LATE = "2026-01-01T00:00:00Z", "2099-01-01T00:00:00Z"


def steps_that_read(*kinds: type) -> list[tuple[str, str]]:
    """Steps of the course in which the student reads a number from one of these sources."""
    found = []
    for files in built_in_course().lessons:
        for step in files.ready().steps:
            if step.read is not None and isinstance(step.read.source, kinds):
                found.append((files.lesson.id, step.id))
    return found


def steps_that_measure() -> list[tuple[str, str]]:
    """Steps in which the student measures and reads the result. Other steps compute with an earlier result."""
    reading = steps_that_read(ResultFigure, ResultRatio, RebuildRate)
    return [each for each in reading if built_in_course().find(each[0]).ready().step(each[1]).apart]


def place_student(fake_lab: FakeLab, ready: ReadyLesson, step_id: str) -> None:
    """Store a student who has predicted in this step and has completed all steps before it."""
    steps = {}
    for step in ready.steps:
        answer = next(iter(step.ask.options)) if step.ask else ""
        is_here = step.id == step_id
        steps[step.id] = StepProgress(began_utc=EARLY, answer=answer, done_utc="" if is_here else EARLY)
        if is_here:
            break
    store = LessonStore(fake_lab.host.state)
    store.store_progress(Progress(lesson=ready.id, target="uml:", began_utc=EARLY, steps=steps))
    store.store_desk(StudentState(lesson=ready.id))


def keep_measured(fake_lab: FakeLab, ready: ReadyLesson, name: str) -> ResultRecord:
    """Store the measurement of a step as a complete result."""
    word = experiment_id(ready.id, name)
    kept = msgspec.structs.replace(
        measured_all(ready)[name],
        id=f"20990101T000000Z-{word}",
        created_utc=LATE,
        status=RunStatus.COMPLETE,
        experiment=word,
        experiment_toml=ready.measures[name][1],
    )
    keep(ResultStore(fake_lab.host.state.results), kept)
    return kept


async def shows_what_is_read(user: User, key: str, mode: str, wanted: list[str]) -> None:
    """Require that the lesson is open at its step, and that these texts are visible on the screen."""
    await user.until(lambda: user.app.guide.view is not None, "the lesson is open")
    step = step_of(user)
    assert step.must_read_off, [check for check in step.checks if not check.is_passed]
    assert read_at(step.ready) == mode
    await user.press(key)
    await user.see("t to type the number")
    for words in wanted:
        await user.see(words)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("lesson_id", "step_id"), steps_that_measure())
async def test_the_figure_of_a_result_is_in_sight(
    start: Start, lesson_id: str, step_id: str, monkeypatch: pytest.MonkeyPatch, fake_lab: FakeLab
) -> None:
    def passed(check: RatioWithin, _: ResultRecord) -> CheckOutcome:
        return CheckOutcome(True, "ratio-is", {**check.facts, "above": "2", "below": "1", "ratio": "2"})

    monkeypatch.setattr(RatioWithin, "judge", passed)
    ready = built_in_course().find(lesson_id).ready()
    step = ready.step(step_id)
    assert step.read is not None
    source = step.read.source
    assert isinstance(source, ResultFigure | ResultRatio | RebuildRate)
    place_student(fake_lab, ready, step_id)
    record = keep_measured(fake_lab, ready, source.measure)
    async with start() as user:
        wanted = ["Rebuilds", "46"] if isinstance(source, RebuildRate) else figures_in(record, source)
        await shows_what_is_read(user, "4", "results", wanted)


def figures_in(record: ResultRecord, source: ResultFigure | ResultRatio) -> list[str]:
    """The figures from which the number is computed, in the table's format."""
    found = []
    for choice in (source.of, source.to) if isinstance(source, ResultRatio) else (source.of,):
        reads = choice.find(record)[0].figures.reads
        assert reads is not None
        value = source.figure.of(reads)
        assert value is not None
        if source.figure is Figure.IOPS:
            found.append(f"{value:.0f}" if value < 1000 else f"{value / 1000:.1f}")
        elif source.figure is Figure.BANDWIDTH:
            found.append(f"{value / 1e6:.1f}")
        else:
            found.append(human_seconds(value))
    return found


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("lesson_id", "step_id"), steps_that_read(FaultFigure, FaultRatio, PointsFigure))
async def test_the_fact_of_a_scenario_is_in_sight(
    start: Start, lesson_id: str, step_id: str, monkeypatch: pytest.MonkeyPatch, fake_lab: FakeLab
) -> None:
    ready = built_in_course().find(lesson_id).ready()
    step = ready.step(step_id)
    assert step.read is not None
    stored: dict[str, FaultView] = {}
    for number, variants in OUTCOMES.items():
        outcome = played(number, variants).outcome
        stored[f"scenario-{number}"] = scenario_view(outcome, ("run", "muted"))
    for name, judged in JUDGED.items():
        stored[f"points-{name}"] = view_of_points(points(name, judged))
    monkeypatch.setattr("tui.faults_screen.stored_views", lambda _: stored)
    played_now = {str(number): played(number, variants) for number, variants in OUTCOMES.items()}
    monkeypatch.setattr("lab.lessons.student.played_since", lambda *_: played_now)
    tried = {name: points(name, judged) for name, judged in JUDGED.items()}
    monkeypatch.setattr("lab.lessons.student.points_since", lambda *_: tried)
    place_student(fake_lab, ready, step_id)
    async with start() as user:
        await shows_what_is_read(user, "7", "faults", facts_in(step.read.source))


def facts_in(source: object) -> list[str]:
    match source:
        case FaultFigure():
            return [source.variant, f"{source.fact}: {OUTCOMES[source.scenario][source.variant][source.fact]}"]
        case FaultRatio():
            facts = OUTCOMES[source.scenario]
            return [f"{source.fact}: {facts[name][source.fact]}" for name in (source.of, source.to)]
        case PointsFigure():
            return [f"{source.judgement}: {JUDGED[source.configuration][source.judgement]}"]
    raise AssertionError(source)
