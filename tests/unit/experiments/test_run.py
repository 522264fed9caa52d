"""The parts of a run that decide without a machine: stopwatch, progress, stamps, refusals, repeated measurements."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from lab.errors import ExperimentError, MeasurementDisturbed, ResultError, RunCancelled
from lab.experiments import run
from lab.experiments.linting import stamps_of
from lab.experiments.run import RebuildRunner, Run, _require_same, require_room
from lab.experiments.schedule import (
    MEASURED_AGAIN,
    ProgressMeter,
    RebuildCell,
    RunProgress,
    SpareMeasurements,
    Stopwatch,
    cells,
    estimated_seconds,
    planned_keys,
)
from lab.host.clock import HostClock, utc_second_text
from lab.machine.api import CommandResult
from lab.measure.rebuild import DataSum, RebuildMeasured
from lab.results.record import RebuildRecord, Timings
from lab.units import MIB
from lab.workloads.workload import find_workload
from tests.unit.experiments.experiments import arrays, experiment
from tests.unit.fakes import FACTS, FakeClock, FakeMachine, as_machine
from tests.unit.measure.samples_of import counters, sample
from tests.unit.results.records import CONDITIONS


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def watch(clock: FakeClock) -> Stopwatch:
    return Stopwatch(clock, clock.monotonic_seconds())


def ran(watch: Stopwatch, program: str, seconds: float) -> None:
    watch.on_command(CommandResult((program, "--x"), 0, "", "", seconds, 0.0))


def test_commands_are_counted_by_their_program_and_a_resumed_run_adds_to_them(
    clock: FakeClock, watch: Stopwatch
) -> None:
    clock.sleep(10.0)
    for program, seconds in (("fio", 3.0), ("mkfs.ext4", 1.0), ("mkfs.xfs", 0.5), ("mdadm", 0.25), ("umount", 2.0)):
        ran(watch, program, seconds)
    spent = Timings(fio_seconds=3.0, mkfs_seconds=1.5, mdadm_seconds=0.25, other_seconds=5.25, total_seconds=10.0)
    assert watch.timings() == spent
    before = Timings(fio_seconds=10.0, resync_seconds=7.0, other_seconds=1.0, total_seconds=18.0)
    summed = msgspec.structs.replace(
        spent, fio_seconds=13.0, resync_seconds=7.0, other_seconds=6.25, total_seconds=28.0
    )
    assert watch.timings(before) == summed


def test_a_command_within_a_resync_is_not_counted_twice(clock: FakeClock, watch: Stopwatch) -> None:
    with watch.resync():
        clock.sleep(4.0)
        ran(watch, "mdadm", 3.0)
    ran(watch, "mdadm", 1.0)
    clock.sleep(2.0)
    assert watch.timings() == Timings(resync_seconds=4.0, mdadm_seconds=1.0, other_seconds=1.0, total_seconds=6.0)


def test_a_resync_that_fails_is_timed_and_over(clock: FakeClock, watch: Stopwatch) -> None:
    with suppress(KeyError), watch.resync():
        clock.sleep(4.0)
        raise KeyError
    ran(watch, "fio", 1.0)
    assert (watch.timings().resync_seconds, watch.timings().fio_seconds) == (4.0, 1.0)


def test_preparation_by_fio_is_not_counted_as_measurement(clock: FakeClock, watch: Stopwatch) -> None:
    with watch.aside():
        ran(watch, "fio", 2.0)
    clock.sleep(5.0)
    ran(watch, "fio", 1.0)
    with watch.resync(), watch.aside():
        ran(watch, "fio", 2.0)
    assert (watch.timings().fio_seconds, watch.timings().other_seconds) == (1.0, 4.0)


def test_commands_side_by_side_never_make_the_rest_negative(clock: FakeClock, watch: Stopwatch) -> None:
    clock.sleep(1.0)
    ran(watch, "fio", 3.0)
    assert watch.timings().other_seconds == 0.0


CLEAN = "repeats = 6"
EQUAL = arrays(a="raid1 2", b="raid0 2")
JOB = '[[jobs]]\nworkload = "rand-read-4k"\n'


@pytest.mark.parametrize(
    ("head", "changes", "rules"),
    [
        (CLEAN, {}, []),
        (CLEAN, {"is_embedded": True}, ["simulated-origin"]),
        ('repeats = 1\norder = "listed"', {}, ["too-few-repeats", "ordered-runs"]),
        ('repeats = 6\ndefects = ["one", "two"]', {}, ["recipe", "recipe"]),
        ('repeats = 6\npublication = "adaptraid"', {}, ["recipe", "recipe", "recipe"]),
    ],
)
def test_stamps(head: str, changes: dict[str, object], rules: list[str]) -> None:
    found = stamps_of(experiment(head, arrays=EQUAL, jobs=JOB), msgspec.structs.replace(CONDITIONS, **changes))
    assert [stamp.partition(": ")[0] for stamp in found] == rules
    assert all(stamp.partition(": ")[2] for stamp in found)


ELSEWHERE = {
    "target": "ssh:other",
    "host_name": "other",
    "kernel_release": "6.2",
    "cpu_count": 4,
    "mdadm_version": "4.3",
    "fio_version": "3.36",
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_result_is_resumed_only_where_it_was_begun(name: str) -> None:
    now = msgspec.structs.replace(CONDITIONS, **{name: ELSEWHERE[name]})
    change = f"{name} was {getattr(CONDITIONS, name)} and is now {ELSEWHERE[name]}"
    with pytest.raises(ExperimentError, match=f"result x cannot be resumed here: {change}\n"):
        _require_same(CONDITIONS, now, "x")
    _require_same(CONDITIONS, msgspec.structs.replace(CONDITIONS, disks=(), memory_bytes=1, tunables={"a": "b"}), "x")


def test_a_result_in_virtual_time_is_resumed_only_with_the_versions_that_began_it() -> None:
    before = msgspec.structs.replace(CONDITIONS, depends_on={"kernel": "a", "programs": "b", "raidlab": "c"})
    _require_same(before, before, "x")
    now = msgspec.structs.replace(before, depends_on={"kernel": "a", "programs": "d", "raidlab": "e"})
    with pytest.raises(ExperimentError, match="a different version: fio, mdadm or Python, raidlab\n"):
        _require_same(before, now, "x")


def test_a_full_disk_is_reported_before_anything_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=16 * MIB))
    require_room(tmp_path, 16 * MIB, "results")
    with pytest.raises(ResultError, match="free space for results"):
        require_room(tmp_path, 16 * MIB + 1, "results")


@pytest.fixture
def reports() -> list[RunProgress]:
    return []


@pytest.fixture
def watched(clock: FakeClock, reports: list[RunProgress]) -> ProgressMeter:
    return ProgressMeter(experiment(), clock, reports.append)


Reports = list[RunProgress]


def test_steps_fill_the_bar_by_the_time_they_should_take(
    clock: FakeClock, watched: ProgressMeter, reports: Reports
) -> None:
    total = estimated_seconds(experiment())
    watched.doing("build", total / 4)
    clock.sleep(total / 8)
    watched.on_sample(sample(1.0))
    assert reports[-1].fraction == pytest.approx(0.125)
    # The step was faster than expected: the next one starts where this one should have ended.
    watched.doing("measure", total / 4)
    assert reports[-1].fraction == pytest.approx(0.25)
    assert reports[-1].left_seconds == pytest.approx(0.75 * total)
    assert reports[-1].label == "measure"


def test_a_slow_step_neither_leaves_its_share_nor_goes_back(
    clock: FakeClock, watched: ProgressMeter, reports: Reports
) -> None:
    total = estimated_seconds(experiment())
    watched.doing("build", total / 4)
    clock.sleep(total)
    watched.on_sample(sample(1.0))
    assert reports[-1].fraction == pytest.approx(0.25)
    assert [each.fraction for each in reports] == sorted(each.fraction for each in reports)


def test_the_bar_is_never_full_before_the_end(watched: ProgressMeter, reports: Reports) -> None:
    for _ in range(4):
        watched.doing("a long step", estimated_seconds(experiment()))
    assert reports[-1].fraction < 1
    assert reports[-1].left_seconds == 0


def test_rates_are_those_of_the_last_moment(watched: ProgressMeter, reports: Reports) -> None:
    watched.doing("measure", 5)
    watched.on_sample(sample(10.0, disk=counters(reads=100)))
    watched.on_sample(sample(10.5, disk=counters(reads=600)))
    first, second = reports[-2:]
    assert first.rates is None
    assert second.rates is not None
    assert second.rates.read_iops == 1000
    assert second.time_seconds == 10.5


def test_a_run_ends_at_the_next_step_after_it_was_cancelled() -> None:
    reported: list[RunProgress] = []
    cancelled: list[bool] = []
    observer = ProgressMeter(experiment(), FakeClock(), reported.append, lambda: bool(cancelled))
    observer.doing("build", 1)
    cancelled.append(True)
    # Measurements up to this point are still kept.
    observer.done("a/rand-read-4k/healthy/0")
    with pytest.raises(RunCancelled, match="before this step: measure"):
        observer.doing("measure", 1)
    assert (reported[-1].done_count, reported[-1].planned_count) == (1, len(planned_keys(experiment())))


def test_in_virtual_time_the_time_left_is_estimated_from_finished_steps(
    clock: FakeClock, watched: ProgressMeter, reports: Reports
) -> None:
    total = estimated_seconds(experiment())
    watched.doing("start the machine", 3.0)
    clock.sleep(2.0)
    watched.watch(as_machine(FakeMachine(facts=replace(FACTS, is_virtual_time=True))))
    watched.doing("build", total / 4)
    assert (reports[-1].left_seconds, reports[-1].step_seconds) == (None, 0.0)
    clock.sleep(total / 4 / 50)
    watched.doing("measure", total / 4)
    assert reports[-1].step_seconds == pytest.approx(total / 4 / 50)
    assert reports[-1].left_seconds == pytest.approx((0.75 * total - 3) / 50)
    # Half of the step is done.
    clock.sleep(total / 8 / 50)
    watched.on_sample(sample(1.0))
    assert reports[-1].fraction == pytest.approx(0.375 + 3 / total)


@pytest.mark.parametrize(
    ("waited", "share", "before", "is_again"),
    [
        (0.3, 1.0, 0, True),
        (0.3, 1.0, MEASURED_AGAIN - 1, True),
        (0.3, 1.0, MEASURED_AGAIN, False),
        (0.09, 1.0, 0, False),
        (None, 1.0, 0, False),
        (0.0, 0.5, 0, True),
        (0.0, 0.95, 0, False),
    ],
    ids=["disturbed", "once more", "not for ever", "quiet", "nothing known", "held up", "hardly held up"],
)
def test_a_disturbed_measurement_is_made_again(waited: float | None, share: float, before: int, is_again: bool) -> None:
    spare = SpareMeasurements(planned=40)
    assert spare.take(waited, share, before) is is_again
    assert spare.left == 10 - is_again


def test_a_computer_that_is_never_quiet_costs_a_quarter_more() -> None:
    spare = SpareMeasurements(planned=40)
    assert sum(spare.take(0.9, 1.0, 0) for _ in range(40)) == 10
    assert SpareMeasurements(planned=1).left == MEASURED_AGAIN
    # A resumed run may use what its first part left over.
    assert [SpareMeasurements(planned=40, used=9).left, SpareMeasurements(planned=4, used=3).left] == [1, 0]


def test_one_of_which_nothing_is_known_is_made_again_and_then_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    tries = []

    def hang(*_: object, **__: object) -> None:
        tries.append(1)
        raise MeasurementDisturbed("fio reported nothing")

    monkeypatch.setattr(run, "run_workload", hang)
    monkeypatch.setattr(run, "make_cold", lambda *_: ())
    built = SimpleNamespace(target=SimpleNamespace(file_system=None, device=""), disks=(), parity_arrays=())
    monkeypatch.setattr(Run, "array", lambda *_: built)
    planned = experiment()
    journal = SimpleNamespace(record=SimpleNamespace(cells=(), arrays=(), done_keys=()))
    progress = SimpleNamespace(doing=lambda *_: None, on_sample=None, is_cancelled=None)
    lab = SimpleNamespace(host=SimpleNamespace(clock=HostClock()))
    this_run = cast("Any", Run)(lab, planned, journal, None, progress, frozenset())
    with pytest.raises(MeasurementDisturbed, match="reported nothing"):
        this_run.measure(cells(planned)[0])
    assert len(tries) == MEASURED_AGAIN + 1


SUM, OTHER, LOST = DataSum("sha256:aa"), DataSum("sha256:bb"), DataSum("", "Input/output error")


@pytest.mark.parametrize(
    ("degraded", "after", "is_unchanged"),
    [(SUM, SUM, True), (OTHER, SUM, False), (SUM, OTHER, False), (LOST, SUM, False), (SUM, LOST, False)],
)
def test_data_are_unchanged_only_if_both_sums_are(degraded: DataSum, after: DataSum, is_unchanged: bool) -> None:
    stored: list[RebuildRecord] = []
    journal = SimpleNamespace(add=lambda record, timeline: stored.append(record))
    runner = SimpleNamespace(_run=SimpleNamespace(journal=journal, progress=SimpleNamespace(done=lambda _: None)))
    cell, measured = RebuildCell("a", 0, None), RebuildMeasured(1.0, 1, ())
    RebuildRunner._store(cast(Any, runner), cell, measured, (SUM, degraded, after), None, None)
    assert stored[0].data_unchanged is is_unchanged


def test_a_phase_of_a_rebuild_is_dated_by_its_beginning(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
    dates: list[str] = []

    def minute(*_: object, **__: object) -> SimpleNamespace:
        clock.sleep(60.0)
        return SimpleNamespace(samples=())

    def noted(*parts: object) -> SimpleNamespace:
        dates.append(str(parts[-1]))
        return SimpleNamespace(key="")

    monkeypatch.setattr(run, "run_workload", minute)
    nothing = SimpleNamespace(add=lambda _: None, done=lambda _: None, doing=lambda *_: None)
    nothing.record = SimpleNamespace(cells=())
    part = {"drop_caches": lambda _: None, "options": lambda _: None, "cell_record": noted}
    lab = SimpleNamespace(host=SimpleNamespace(clock=clock))
    runner = RebuildRunner(cast(Any, SimpleNamespace(lab=lab, journal=nothing, progress=nothing, **part)))
    built = cast(Any, SimpleNamespace(plan=SimpleNamespace(label=""), target=None))
    begun = utc_second_text(clock)
    runner._phase(RebuildCell("a", 0, None), built, find_workload("rand-read-4k"), "healthy", [])
    assert dates == [begun] != [utc_second_text(clock)]


def test_a_resumed_run_counts_what_is_measured_and_estimates_the_rest(clock: FakeClock, reports: Reports) -> None:
    keys = planned_keys(experiment())
    resumed = ProgressMeter(experiment(), clock, reports.append, done=keys[:-1])
    resumed.doing("measure", 5.0)
    assert (reports[-1].done_count, reports[-1].planned_count) == (len(keys) - 1, len(keys))
    assert reports[-1].left_seconds == pytest.approx(estimated_seconds(experiment(), keys[:-1]))
    assert estimated_seconds(experiment(), keys[:-1]) < estimated_seconds(experiment()) / 2
