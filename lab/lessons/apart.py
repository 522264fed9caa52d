"""Runs the parts of a lesson that use a separate lab: measurements, fault scenarios and power cuts."""

from __future__ import annotations

from collections.abc import Callable

from lab.errors import RunCancelled
from lab.experiments.progress import RunProgress
from lab.experiments.service import RunRequest, run_experiment
from lab.faults.crash_points import MOST_DRIVES, explore, find_configuration, keep_points
from lab.faults.place import open_place, with_own_kernel
from lab.faults.scenario import DRIVES, find_scenario
from lab.faults.scenario_run import ScenarioHooks, ScenarioRunner, begun_run
from lab.lessons.actions import ApartAction, PlayScenario, RunMeasurement, TryPoints
from lab.lessons.ready import ReadyLesson
from lab.tomlfile import unknown_word


def do_apart(lesson: ReadyLesson, action: ApartAction, request: RunRequest) -> None:
    """Run the action, and store its result.

    Raises SpecError with the nearest name for a measurement that the lesson does not have, RunCancelled if it was
    cancelled, and any error that stops it.
    """
    match action:
        case RunMeasurement():
            if action.measure not in lesson.measures:
                raise unknown_word(f"measurement of lesson {lesson.id}", action.measure, lesson.measures)
            run_experiment(*lesson.measures[action.measure], request)
        case PlayScenario():
            _play(action, request)
        case TryPoints():
            _try_points(action, request)


def _play(action: PlayScenario, request: RunRequest) -> None:
    scenario = find_scenario(str(action.scenario))
    target = with_own_kernel(request.target, request.host)
    advance = _meter(request, sum(1 for _ in scenario.ready(action.seed)))
    journal = begun_run(request.host, str(target), action.seed, [scenario.id])
    try:
        with open_place(target, request.host, drives=DRIVES, seed=action.seed, on_notice=request.on_notice) as place:
            request.on_machine(place.lab.machine)
            journal.note_place(place)
            hooks = ScenarioHooks(
                on_variant=lambda variant: advance(variant.name), on_step=lambda _: _stop_if_cancelled(request)
            )
            journal.add(ScenarioRunner(place, action.seed, hooks).play(scenario))
    finally:
        journal.forget_if_empty()


def _try_points(action: TryPoints, request: RunRequest) -> None:
    configuration = find_configuration(action.configuration)
    advance = _meter(request, action.count)
    with open_place(request.target, request.host, drives=MOST_DRIVES, on_notice=request.on_notice) as place:
        request.on_machine(place.lab.machine)
        explored = explore(
            place,
            configuration,
            seed=str(action.seed),
            points=action.count,
            on_point=lambda _: advance(action.told),
            is_stopped=request.is_cancelled,
        )
    _stop_if_cancelled(request)
    if explored.error:
        raise explored.error
    keep_points(request.host, explored)


def _stop_if_cancelled(request: RunRequest) -> None:
    if request.is_cancelled():
        raise RunCancelled("cancelled")


def _meter(request: RunRequest, count: int) -> Callable[[str], None]:
    """A function that reports the progress after each of ``count`` parts."""
    done = 0

    def advance(doing: str) -> None:
        nonlocal done
        fraction = min(1.0, done / max(1, count))
        request.on_progress(RunProgress(label=doing, fraction=fraction, left_seconds=None))
        done += 1

    return advance
