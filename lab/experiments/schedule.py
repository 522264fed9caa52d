"""Order of the measurements of an experiment, and repetition of some. Pure, and deterministic for a given seed.

Cells whose median is not yet precise enough get further repeats, and disturbed measurements are repeated.

A cell is evaluated only after fixed numbers of repeats, with the interval of that look (lab.results.statistics), so
that stopping as soon as the interval is narrow does not reduce its coverage. Between two looks every cell continues.
Further rounds visit only some cells. Two cells are compared over the rounds that both have (lab.results.statistics), so
a comparison stays balanced, and the number of its rounds does not depend on which of the two is faster.

A measurement is discarded and repeated if the computer ran other work on the machine's processor. The rule depends on
how long the machine waited and never on the measured figures, since selection by the outcome would bias them.
Discarded measurements are counted in the record (``CellRecord.disturbed_before``); a disturbed measurement that is
stored has the stamp ``disturbed``.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lab.experiments.schema import ArrayPlan, Experiment, Order, Sharing
from lab.lint.experiment_checks import LEAST_SHARE_MEASURED, MOST_WAITED_FRACTION
from lab.results.record import ResultRecord
from lab.results.statistics import Estimate, estimate, looks
from lab.workloads.fio_output import window_for
from lab.workloads.workload import Workload

HEALTHY, DEGRADED, REBUILDING, RESTORED = "healthy", "degraded", "rebuilding", "restored"


@dataclass(frozen=True, slots=True)
class Cell:
    """One measurement: one repeat of a workload on an array."""

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
        phases = (HEALTHY, DEGRADED, REBUILDING, RESTORED)
        return (*(f"{self.array}/{self.under.id}/{phase}/{self.repeat}" for phase in phases), self.key)


def victim_slot(repeat: int, members: int) -> int:
    """The member that fails: a different one in each repeat, so the result does not depend on the member."""
    return repeat % members


def cells(experiment: Experiment) -> tuple[Cell, ...]:
    """All job cells in the order of measurement.

    Interleaved, each repeat visits every cell once in its own random order; arrays that share disks are visited one
    after the other, each for ``rounds_per_build`` repeats, since only one of them exists at a time.
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
            ordered += _block(experiment, range(first, min(first + experiment.rounds_per_build, experiment.repeats)))
    return tuple(Cell(array, workload, repeat, index) for index, (array, workload, repeat) in enumerate(ordered))


def _block(experiment: Experiment, repeats: range) -> list[tuple[str, Workload, int]]:
    """All of these repeats on one array after the other, with the arrays in the order of the first repeat."""
    rounds = {repeat: _round(experiment, repeat) for repeat in repeats}
    if len(repeats) == 1:
        return [(array, workload, repeats[0]) for array, workload in rounds[repeats[0]]]
    arrays = dict.fromkeys(array for array, _ in rounds[repeats[0]])
    return [
        (array, workload, repeat)
        for array in arrays
        for repeat in repeats
        for on, workload in rounds[repeat]
        if on == array
    ]


def _round(experiment: Experiment, repeat: int) -> list[tuple[str, Workload]]:
    # Not cryptographic: the order must be the same for the same seed.
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
    """One more round over the cells (array, workload) in ``wanting``, in the random order of this repeat."""
    chosen = [(array, workload) for array, workload in _round(experiment, repeat) if (array, workload.id) in wanting]
    return tuple(Cell(array, workload, repeat, first_index + n) for n, (array, workload) in enumerate(chosen))


def rebuild_cells(experiment: Experiment) -> tuple[RebuildCell, ...]:
    """All rebuilds, repeat by repeat over the arrays."""
    if experiment.rebuild is None:
        return ()
    plan = experiment.rebuild
    under = plan.under.build() if plan.under else None
    repeats = plan.repeats or experiment.repeats
    return tuple(RebuildCell(array, repeat, under) for repeat in range(repeats) for array in plan.arrays)


def remaining(experiment: Experiment, done: Collection[str]) -> tuple[tuple[Cell, ...], tuple[RebuildCell, ...]]:
    """Cells and rebuilds not in ``done``; a rebuild with any missing key is repeated in full."""
    jobs = tuple(cell for cell in cells(experiment) if cell.key not in done)
    rebuilds = tuple(cell for cell in rebuild_cells(experiment) if any(key not in done for key in cell.keys))
    return jobs, rebuilds


def planned_keys(experiment: Experiment) -> tuple[str, ...]:
    """Keys of all cells and rebuilds of a complete run."""
    keys = [cell.key for cell in cells(experiment)]
    for rebuild in rebuild_cells(experiment):
        keys += rebuild.keys
    return tuple(dict.fromkeys(keys))


def estimated_seconds(experiment: Experiment) -> float:
    """Expected wall time: the measured times, plus typical times to start fio and to build arrays."""
    per_cell = 1.3
    total = 10.0
    standing = ""
    for cell in cells(experiment):
        total += load_seconds(cell.workload) + per_cell
        if experiment.disks.sharing is Sharing.SHARED and cell.array != standing:
            standing = cell.array
            total += _build_seconds(experiment, experiment.array(standing))
    if experiment.disks.sharing is Sharing.SEPARATE:
        total += sum(_build_seconds(experiment, array) for array in experiment.arrays)
    for rebuild in rebuild_cells(experiment):
        total += 8.0
        if rebuild.under:
            total += 3 * (load_seconds(rebuild.under) + per_cell)
    return total


def load_seconds(workload: Workload) -> float:
    """Runtime of the load of one measurement: ramp time, measured time and a margin."""
    return window_for(workload.warmup_seconds, workload.runtime_seconds).issue_seconds


def _build_seconds(experiment: Experiment, array: ArrayPlan) -> float:
    """A volume of unequal disks has many arrays; files are written before the measurement."""
    return (15.0 if array.is_volume else 2.0) + (1.5 if experiment.writes_files_first else 0.0)


MEASURED_AGAIN = 2
"""Maximum number of times that one measurement is repeated."""
_Key = tuple[str, str]


def wide_cells(experiment: Experiment, record: ResultRecord) -> frozenset[_Key]:
    """Cells (array, workload) that need more repeats: those between two looks, or too wide at a look but the last."""
    planned = {look.n for look in looks(experiment.repeats, experiment.most_repeats)}
    return frozenset(
        key
        for key, found in _estimates(experiment, record)
        if found.n < max(planned, default=0)
        and (found.n not in planned or found.half_width_fraction > experiment.wanted_half_width)
    )


def wide_notes(experiment: Experiment, record: ResultRecord) -> tuple[str, ...]:
    """A stamp for every cell that stayed wide, if the experiment requests narrow intervals."""
    if experiment.most_repeats <= experiment.repeats:
        return ()
    wanted = experiment.wanted_half_width
    return tuple(
        f"wide-interval: {array}/{workload}: ±{found.half_width_fraction:.0%} after {found.n} repeats,"
        f" and ±{wanted:.0%} was wanted"
        for (array, workload), found in _estimates(experiment, record)
        if found.half_width_fraction > wanted
    )


def _estimates(experiment: Experiment, record: ResultRecord) -> Iterator[tuple[_Key, Estimate]]:
    """The wider estimate of each cell: that of its reads or that of its writes."""
    planned = looks(experiment.repeats, experiment.most_repeats)
    values: dict[_Key, dict[str, list[float]]] = {}
    for cell in record.cells:
        if cell.phase == HEALTHY:
            both = values.setdefault((cell.array, cell.workload), {})
            for name, section in (("read", cell.figures.reads), ("write", cell.figures.writes)):
                if section:
                    both.setdefault(name, []).append(section.iops)
    for key, both in values.items():
        if both:
            found = (estimate(samples, planned) for samples in both.values())
            yield key, max(found, key=lambda each: each.half_width_fraction)


class SpareMeasurements:
    """Number of measurements of a run that may still be repeated.

    The limit is a quarter of the planned ones, or two if that is more: on a computer that is always busy, more
    repetitions cost time without benefit. ``used``: repetitions in the finished part of an interrupted run.
    """

    def __init__(self, planned: int, *, used: int = 0) -> None:
        self.left = max(0, max(MEASURED_AGAIN, planned // 4) - used)

    def take(self, waited_fraction: float | None, share_measured: float, disturbed_before: int) -> bool:
        """Whether to repeat a measurement.

        Args:
            waited_fraction: fraction of its time spent waiting for a processor; None if unknown.
            share_measured: measured time as a fraction of the requested time: the computer may have stalled.
            disturbed_before: number of disturbed attempts so far.
        """
        has_waited = waited_fraction is not None and waited_fraction > MOST_WAITED_FRACTION
        is_disturbed = has_waited or share_measured < LEAST_SHARE_MEASURED
        if not is_disturbed or disturbed_before >= MEASURED_AGAIN or not self.left:
            return False
        self.left -= 1
        return True
