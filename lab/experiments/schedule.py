"""The order of an experiment's measurements, the repetition of some of them, their progress, and the time they take.

The order is deterministic for a given seed. Cells whose median is not yet precise enough get further repeats, and
disturbed measurements are repeated.

A cell is evaluated only after fixed numbers of repeats. Each of these looks has its own interval
(lab.results.statistics), so that stopping as soon as the interval is narrow does not reduce its coverage. Between two
looks every cell continues, so further rounds visit only some cells. Two cells are compared over the rounds that both
have (lab.results.statistics), so a comparison stays balanced, and the number of its rounds does not depend on which of
the two is faster.

A measurement is discarded and repeated if the computer ran other work on the machine's processor. The rule depends on
how long the machine waited and never on the measured figures, since selection by the outcome would bias them.
Discarded measurements are counted in the record (``CellRecord.disturbed_before``). A disturbed measurement that is
stored nevertheless has the stamp ``disturbed``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from lab.arrays.levels import is_array_name
from lab.errors import MachineLost, RunCancelled
from lab.experiments.schema import ArrayPlan, Experiment, Order, Sharing
from lab.host.clock import Clock
from lab.lint.experiment_checks import LEAST_SHARE_MEASURED, MOST_WAITED_FRACTION
from lab.machine.api import CommandResult, Machine
from lab.measure.samples import Rates, Sample, rates_between
from lab.results.record import HEALTHY, PHASES, ResultRecord, Timings
from lab.results.statistics import Estimate, estimate, looks
from lab.workloads.fio_output import window_for
from lab.workloads.workload import Workload


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement, which is one repeat of a workload on an array."""

    array: str
    workload: Workload
    repeat: int
    order_index: int

    @property
    def key(self) -> str:
        return f"{self.array}/{self.workload.id}/{HEALTHY}/{self.repeat}"


@dataclass(frozen=True, slots=True)
class RebuildCell:
    """One rebuild to measure."""

    array: str
    repeat: int
    under: Workload | None

    @property
    def key(self) -> str:
        return f"{self.array}/rebuild/{self.under.id if self.under else 'idle'}/{self.repeat}"

    @property
    def keys(self) -> tuple[str, ...]:
        """The rebuild's own key and those of the cells of its phases."""
        if self.under is None:
            return (self.key,)
        return (*(f"{self.array}/{self.under.id}/{phase}/{self.repeat}" for phase in PHASES), self.key)


def victim_slot(repeat: int, members: int) -> int:
    """Return the slot that fails. It differs between repeats, so that the result does not depend on the member."""
    return repeat % members


def cells(experiment: Experiment) -> tuple[Cell, ...]:
    """Return all job cells in the order of measurement.

    In interleaved order, each repeat visits every cell once, in its own random order. Arrays that share disks are
    visited one after the other, each for ``rounds_per_build`` repeats, since only one of them exists at a time.
    """
    ordered: list[tuple[str, Workload, int]] = []
    if experiment.order is Order.LISTED:
        ordered = [
            (array.id, workload, repeat)
            for array in experiment.arrays
            for workload in experiment.workloads_on(array.id)
            for repeat in range(experiment.repeats)
        ]
    else:
        for first in range(0, experiment.repeats, experiment.rounds_per_build):
            repeats = range(first, min(first + experiment.rounds_per_build, experiment.repeats))
            block = [(array, workload, repeat) for repeat in repeats for array, workload in _round(experiment, repeat)]
            if len(repeats) > 1:
                # One array after another, in the order of the arrays in the first repeat.
                arrays = list(dict.fromkeys(array for array, _, _ in block))
                block.sort(key=lambda each: arrays.index(each[0]))
            ordered += block
    return tuple(Cell(array, workload, repeat, index) for index, (array, workload, repeat) in enumerate(ordered))


def _round(experiment: Experiment, repeat: int) -> list[tuple[str, Workload]]:
    # Not cryptographic, because the order must be the same for the same seed.
    draw = random.Random(experiment.seed * 1000 + repeat)
    arrays = [array.id for array in experiment.arrays]
    if experiment.disks.sharing is Sharing.SEPARATE:
        pairs = [(array, workload) for array in arrays for workload in experiment.workloads_on(array)]
        draw.shuffle(pairs)
        return pairs
    draw.shuffle(arrays)
    chosen: list[tuple[str, Workload]] = []
    for array in arrays:
        workloads = list(experiment.workloads_on(array))
        draw.shuffle(workloads)
        chosen += [(array, workload) for workload in workloads]
    return chosen


def extra_cells(
    experiment: Experiment, repeat: int, wanting: Collection[tuple[str, str]], first_index: int
) -> tuple[Cell, ...]:
    """Return one more repeat of the cells (array, workload) in ``wanting``, in the random order of this repeat."""
    chosen = [(array, workload) for array, workload in _round(experiment, repeat) if (array, workload.id) in wanting]
    return tuple(Cell(array, workload, repeat, first_index + n) for n, (array, workload) in enumerate(chosen))


def rebuild_cells(experiment: Experiment) -> tuple[RebuildCell, ...]:
    """Return all rebuilds: the first repeat on every array, then the second, and so on."""
    if experiment.rebuild is None:
        return ()
    plan = experiment.rebuild
    under = plan.under.build() if plan.under else None
    repeats = plan.repeats or experiment.repeats
    return tuple(RebuildCell(array, repeat, under) for repeat in range(repeats) for array in plan.arrays)


def remaining(experiment: Experiment, done: Collection[str]) -> tuple[tuple[Cell, ...], tuple[RebuildCell, ...]]:
    """Return the cells and rebuilds that are not in ``done``. A rebuild with a missing key is repeated in full."""
    jobs = tuple(cell for cell in cells(experiment) if cell.key not in done)
    rebuilds = tuple(cell for cell in rebuild_cells(experiment) if any(key not in done for key in cell.keys))
    return jobs, rebuilds


def planned_keys(experiment: Experiment) -> tuple[str, ...]:
    """Return the keys of all cells and rebuilds of a complete run."""
    keys = [cell.key for cell in cells(experiment)]
    for rebuild in rebuild_cells(experiment):
        keys += rebuild.keys
    return tuple(dict.fromkeys(keys))


def estimated_seconds(experiment: Experiment, done: Collection[str] = ()) -> float:
    """Estimate the wall time of what is not ``done``, with typical times to start fio and to build arrays."""
    per_cell = 1.3
    total = 10.0
    built = ""
    jobs, rebuilds = remaining(experiment, done)
    for cell in jobs:
        total += load_seconds(cell.workload) + per_cell
        if experiment.disks.sharing is Sharing.SHARED and cell.array != built:
            built = cell.array
            total += _build_seconds(experiment, experiment.array(built))
    if experiment.disks.sharing is Sharing.SEPARATE:
        total += sum(_build_seconds(experiment, array) for array in experiment.arrays)
    for rebuild in rebuilds:
        total += 8.0
        if rebuild.under:
            total += 3 * (load_seconds(rebuild.under) + per_cell)
    return total


def load_seconds(workload: Workload) -> float:
    """Return the runtime of one measurement's load, which is the sum of warm-up, measured time and a margin."""
    return window_for(workload.warmup_seconds, workload.runtime_seconds).issue_seconds


def _build_seconds(experiment: Experiment, array: ArrayPlan) -> float:
    """Estimate the time to build an array. A volume has many arrays, and files may be written before measuring."""
    return (15.0 if array.is_volume else 2.0) + (1.5 if experiment.writes_files_first else 0.0)


MEASURED_AGAIN = 2
"""Maximum number of times that one measurement is repeated."""
_Key = tuple[str, str]


def wide_cells(experiment: Experiment, record: ResultRecord) -> frozenset[_Key]:
    """Return the cells (array, workload) between two looks, and those with a wide interval at any look but the last."""
    planned = {look.n for look in looks(experiment.repeats, experiment.most_repeats)}
    return frozenset(
        key
        for key, found in _estimates(experiment, record)
        if found.n < max(planned, default=0)
        and (found.n not in planned or found.half_width_fraction > experiment.wanted_half_width)
    )


def wide_notes(experiment: Experiment, record: ResultRecord) -> tuple[str, ...]:
    """Return a stamp for every cell whose interval stayed wide, if the experiment requests narrow intervals."""
    if experiment.most_repeats <= experiment.repeats:
        return ()
    wanted = experiment.wanted_half_width
    return tuple(
        f"wide-interval: {array}/{workload}: ±{found.half_width_fraction:.0%} after {found.n} repeats,"
        f" but ±{wanted:.0%} was wanted"
        for (array, workload), found in _estimates(experiment, record)
        if found.half_width_fraction > wanted
    )


def _estimates(experiment: Experiment, record: ResultRecord) -> Iterator[tuple[_Key, Estimate]]:
    """Yield the wider estimate of each cell, that of its reads or that of its writes."""
    planned = looks(experiment.repeats, experiment.most_repeats)
    values: dict[_Key, dict[str, list[float]]] = {}
    for cell in record.cells:
        if cell.phase == HEALTHY:
            for way, section in cell.figures.sections.items():
                values.setdefault((cell.array, cell.workload), {}).setdefault(way, []).append(section.iops)
    for key, both in values.items():
        found = (estimate(samples, planned) for samples in both.values())
        yield key, max(found, key=lambda each: each.half_width_fraction)


class SpareMeasurements:
    """Counts how many measurements of a run may still be repeated.

    The limit is a quarter of the planned measurements, but at least two. On a computer that is always busy, more
    repetitions cost time without benefit. ``used`` is the number of repetitions in the finished part of an interrupted
    run.
    """

    def __init__(self, planned: int, *, used: int = 0) -> None:
        self.left = max(0, max(MEASURED_AGAIN, planned // 4) - used)

    def take(self, waited_fraction: float | None, share_measured: float, disturbed_before: int) -> bool:
        """Whether to repeat a measurement, after this number of disturbed attempts.

        ``waited_fraction`` is the fraction of its time spent waiting for a processor; None if unknown.
        ``share_measured`` is the measured time as a fraction of the requested time; small if the computer stalled.
        """
        has_waited = waited_fraction is not None and waited_fraction > MOST_WAITED_FRACTION
        is_disturbed = has_waited or share_measured < LEAST_SHARE_MEASURED
        if not is_disturbed or disturbed_before >= MEASURED_AGAIN or not self.left:
            return False
        self.left -= 1
        return True


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Progress of a run at one moment."""

    label: str = ""
    fraction: float = 0.0
    """The finished fraction of the expected time, 0 to 1."""
    left_seconds: float | None = 0.0
    """Remaining time on this computer's clock; None if it is not known yet."""
    done_count: int = 0
    planned_count: int = 0
    time_seconds: float | None = None
    """The machine's clock at the newest sample."""
    rates: Rates | None = None
    """Rates of the measured array since the previous sample; None between measurements."""
    step_seconds: float = 0.0
    """Expected time of the current step on this computer's clock; 0 if it is not known yet."""


class ProgressMeter:
    """Converts events of a run to ``RunProgress``. Steps are weighted by their expected time.

    In virtual time the expected time is the machine's. Its ratio to the computer's time comes from finished steps.
    ``done`` holds the keys of the measurements that an interrupted run has completed.

    ``on_sample`` is called on the recorder's thread, the other methods on the thread that runs the experiment.
    """

    def __init__(
        self,
        experiment: Experiment,
        clock: Clock,
        on_progress: Callable[[RunProgress], None],
        is_cancelled: Callable[[], bool] = lambda: False,
        done: Collection[str] = (),
    ) -> None:
        self.is_cancelled = is_cancelled
        self._clock = clock
        self._on_progress = on_progress
        self._total_seconds = max(1.0, estimated_seconds(experiment, done))
        self._steps_seconds = 0.0
        """Expected time of the finished steps."""
        self._step_seconds = 0.0
        self._began_seconds = self._first_seconds = clock.monotonic_seconds()
        self._pace: float | None = 1.0
        """The computer's seconds per expected second; None if it is not known yet."""
        self._is_virtual = False
        self._boot_seconds: float | None = None
        """Expected time of the steps before the first step on a machine with virtual time."""
        self._sample: Sample | None = None
        planned, (jobs, rebuilds) = planned_keys(experiment), remaining(experiment, done)
        # A rebuild is repeated in full.
        due = {*(cell.key for cell in jobs), *(key for cell in rebuilds for key in cell.keys)}
        done_count = sum(key not in due for key in planned)
        self._now = RunProgress("", 0.0, self._total_seconds, done_count, len(planned))

    def watch(self, machine: Machine) -> None:
        if machine.facts.is_virtual_time:
            self._is_virtual, self._pace = True, None

    def doing(self, what: str, expected_seconds: float) -> None:
        """Begin the next step. Raises RunCancelled if the run was cancelled."""
        if self.is_cancelled():
            raise RunCancelled(f"the run was cancelled before this step: {what}")
        self._steps_seconds += self._step_seconds
        self._step_seconds, self._began_seconds = expected_seconds, self._clock.monotonic_seconds()
        if self._is_virtual:
            # Excludes the start of the machine, which takes the computer's time and no virtual time.
            if self._boot_seconds is None:
                self._boot_seconds, self._first_seconds = self._steps_seconds, self._began_seconds
            if over := self._steps_seconds - self._boot_seconds:
                self._pace = (self._began_seconds - self._first_seconds) / over
        self._sample = None
        self._report(replace(self._now, label=what, step_seconds=expected_seconds * (self._pace or 0.0), rates=None))

    def done(self, key: str) -> None:
        count = self._now.done_count + 1
        # Cells with a wide interval get more repeats than planned.
        planned = max(self._now.planned_count, count)
        self._report(replace(self._now, done_count=count, planned_count=planned, rates=None))

    def on_sample(self, sample: Sample) -> None:
        earlier, self._sample = self._sample, sample
        device = next((name for name in sample.disks if is_array_name(name)), None) or next(iter(sample.disks), None)
        rates = rates_between(earlier, sample, device) if earlier and device else None
        self._report(replace(self._now, time_seconds=sample.time_seconds, rates=rates))

    def _report(self, progress: RunProgress) -> None:
        passed = self._clock.monotonic_seconds() - self._began_seconds
        in_step = min(self._step_seconds, passed / self._pace if self._pace else 0.0)
        elapsed = min(self._total_seconds, self._steps_seconds + in_step)
        # Estimates are rough, so never report the end before it is reached.
        fraction = max(self._now.fraction, min(0.99, elapsed / self._total_seconds))
        left = (self._total_seconds - elapsed) * self._pace if self._pace is not None else None
        self._now = replace(progress, fraction=fraction, left_seconds=left)
        self._on_progress(self._now)


class Stopwatch:
    """Attributes time to programs and to waits for resyncs; in virtual time, also by the machine's clock.

    fio's time counts as ``fio`` only in measurements, while probing a disk or writing files counts as ``other``.
    ``started_seconds`` is the start of the run on ``clock``, the clock of this process; None for the current time.
    """

    def __init__(self, clock: Clock, started_seconds: float | None) -> None:
        self._clock = clock
        self._started = clock.monotonic_seconds() if started_seconds is None else started_seconds
        self._seconds = dict.fromkeys(("fio", "mkfs", "mdadm", "resync"), 0.0)
        self._simulated = dict(self._seconds)
        self._machine_clock: Clock | None = None
        self._is_aside = False
        """Whether commands are not counted now, because they are accounted elsewhere."""

    def watch(self, machine: Machine) -> None:
        machine.on_command(self.on_command)
        if machine.facts.is_virtual_time:
            self._machine_clock = machine.clock

    def on_command(self, result: CommandResult) -> None:
        program = result.argv[0].partition(".")[0]
        if program in self._seconds and not self._is_aside:
            self._seconds[program] += result.computer_seconds
            self._simulated[program] += result.duration_seconds

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Do not attribute the time of commands, such as those of preparations, to their programs."""
        before, self._is_aside = self._is_aside, True
        try:
            yield
        finally:
            self._is_aside = before

    @contextmanager
    def resync(self) -> Iterator[None]:
        """Count the time of a wait for a resync or rebuild, including all commands during it."""
        begin, simulated = self._clock.monotonic_seconds(), self._machine_seconds()
        try:
            with self.aside():
                yield
        finally:
            self._seconds["resync"] += self._clock.monotonic_seconds() - begin
            self._simulated["resync"] += self._machine_seconds() - simulated

    def _machine_seconds(self) -> float:
        """Return the seconds since the machine's start in virtual time, else 0. A lost machine has no clock."""
        with suppress(MachineLost):
            return self._machine_clock.monotonic_seconds() if self._machine_clock else 0.0
        return 0.0

    def timings(self, earlier: Timings | None = None) -> Timings:
        """Return the times so far, plus those of an earlier part of the same run."""
        before = earlier or Timings()
        account = _whole(self._seconds, self._clock.monotonic_seconds() - self._started)
        simulated = _whole(self._simulated, self._machine_seconds()) if self._machine_clock else {}
        old = before.simulated_seconds
        return Timings(
            **{f"{word}_seconds": getattr(before, f"{word}_seconds") + seconds for word, seconds in account.items()},
            simulated_seconds={word: old.get(word, 0.0) + seconds for word, seconds in simulated.items()},
        )


def _whole(parts: Mapping[str, float], total: float) -> dict[str, float]:
    return {**parts, "other": max(0.0, total - sum(parts.values())), "total": total}
