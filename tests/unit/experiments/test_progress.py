"""What a watcher of a run is told, and how it ends a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lab.errors import RunCancelled
from lab.experiments.schedule import ProgressMeter, RunProgress, estimated_seconds, planned_keys
from tests.unit.experiments.experiments import experiment
from tests.unit.fakes import FACTS, FakeClock, FakeMachine, as_machine
from tests.unit.measure.samples_of import counters, sample


def meter(clock: FakeClock) -> tuple[ProgressMeter, list[RunProgress]]:
    told: list[RunProgress] = []
    return ProgressMeter(experiment(), clock, told.append), told


def test_steps_fill_the_bar_by_the_time_they_should_take() -> None:
    clock = FakeClock()
    watched, told = meter(clock)
    total = estimated_seconds(experiment())
    watched.doing("build", total / 4)
    clock.sleep(total / 8)
    watched.on_sample(sample(1.0))
    assert told[-1].fraction == pytest.approx(0.125)
    # Quicker than expected: the next step begins where this one should have ended.
    watched.doing("measure", total / 4)
    assert told[-1].fraction == pytest.approx(0.25)
    assert told[-1].left_seconds == pytest.approx(0.75 * total)
    assert told[-1].label == "measure"


def test_a_slow_step_neither_leaves_its_share_nor_goes_back() -> None:
    clock = FakeClock()
    watched, told = meter(clock)
    total = estimated_seconds(experiment())
    watched.doing("build", total / 4)
    clock.sleep(total)
    watched.on_sample(sample(1.0))
    assert told[-1].fraction == pytest.approx(0.25)
    assert [each.fraction for each in told] == sorted(each.fraction for each in told)


def test_the_bar_is_never_full_before_the_end() -> None:
    clock = FakeClock()
    watched, told = meter(clock)
    for _ in range(4):
        watched.doing("a long step", estimated_seconds(experiment()))
    assert told[-1].fraction < 1
    assert told[-1].left_seconds == 0


def test_measurements_are_counted() -> None:
    watched, told = meter(FakeClock())
    watched.done("a/rand-read-4k/healthy/0")
    assert (told[-1].done_count, told[-1].planned_count) == (1, len(planned_keys(experiment())))


def test_rates_are_those_of_the_last_moment() -> None:
    watched, told = meter(FakeClock())
    watched.doing("measure", 5)
    watched.on_sample(sample(10.0, disk=counters(reads=100)))
    watched.on_sample(sample(10.5, disk=counters(reads=600)))
    first, second = told[-2:]
    assert first.rates is None
    assert second.rates is not None
    assert second.rates.read_iops == 1000
    assert second.time_seconds == 10.5


def test_a_run_ends_at_the_next_step_after_it_was_cancelled() -> None:
    told: list[RunProgress] = []
    cancelled: list[bool] = []
    observer = ProgressMeter(experiment(), FakeClock(), told.append, lambda: bool(cancelled))
    observer.doing("build", 1)
    cancelled.append(True)
    # What was measured until then is still kept.
    observer.done("a/rand-read-4k/healthy/0")
    with pytest.raises(RunCancelled, match="before: measure"):
        observer.doing("measure", 1)
    assert told[-1].done_count == 1


def test_in_virtual_time_what_is_left_is_told_from_what_the_steps_took() -> None:
    clock = FakeClock()
    watched, told = meter(clock)
    total = estimated_seconds(experiment())
    watched.doing("start the machine", 3.0)
    clock.sleep(2.0)
    watched.watch(as_machine(FakeMachine(facts=replace(FACTS, is_virtual_time=True))))
    watched.doing("build", total / 4)
    assert (told[-1].left_seconds, told[-1].step_seconds) == (None, 0.0)
    clock.sleep(total / 4 / 50)
    watched.doing("measure", total / 4)
    assert told[-1].step_seconds == pytest.approx(total / 4 / 50)
    assert told[-1].left_seconds == pytest.approx((0.75 * total - 3) / 50)
    # Half of the step is over.
    clock.sleep(total / 8 / 50)
    watched.on_sample(sample(1.0))
    assert told[-1].fraction == pytest.approx(0.375 + 3 / total)
