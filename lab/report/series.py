"""Looking things up in a record: the repeats of a figure, in their order, and names of its parts in plain words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lab.errors import LabError
from lab.experiments.schema import Experiment
from lab.results.record import CellRecord, ResultRecord
from lab.results.statistics import Estimate, InterimLook, estimate, looks_of
from lab.tomlfile import decode_toml
from lab.units import human_bytes
from lab.workloads.fio_output import DirectionFigures
from lab.workloads.workload import Direction, Workload

READ, WRITE = "read", "write"


@dataclass(frozen=True, slots=True)
class Row:
    """All repeats of one array, workload, phase and direction."""

    array: str
    workload: str
    phase: str
    direction: str
    cells: tuple[CellRecord, ...]
    looks: tuple[InterimLook, ...] = ()
    """Of a result that was measured until its intervals were narrow."""

    def section(self, cell: CellRecord) -> DirectionFigures:
        """The figures of this row's direction."""
        section = cell.figures.reads if self.direction == READ else cell.figures.writes
        assert section is not None
        return section

    def values(self, pick: Callable[[DirectionFigures], float | None]) -> list[float]:
        """One figure of each repeat that has it."""
        return list(self.by_repeat(pick).values())

    def by_repeat(self, pick: Callable[[DirectionFigures], float | None]) -> dict[int, float]:
        """The same by the number of the repeat: what two rows of one result are paired by."""
        return {cell.repeat: value for cell in self.cells if (value := pick(self.section(cell))) is not None}

    def estimate(self, values: Sequence[float]) -> Estimate:
        """The median of this row's repeats, or of what was made from them, with the interval that they allow."""
        return estimate(values, self.looks)

    @property
    def iops(self) -> Estimate:
        """I/Os per second."""
        return self.estimate(self.values(lambda section: section.iops))

    @property
    def bytes_per_second(self) -> Estimate:
        """Throughput."""
        return self.estimate(self.values(lambda section: section.bandwidth_bytes_per_second))

    def latency_seconds(self, name: str) -> Estimate | None:
        """A latency percentile by field name, such as ``p99_seconds``."""
        values = self.values(lambda section: getattr(section, name))
        return self.estimate(values) if values else None

    @property
    def cpu_microseconds_per_io(self) -> Estimate | None:
        """CPU time of everything on the machine per I/O, the idle machine's taken off."""
        values = [
            cell.cpu.cpu_microseconds_per_io
            for cell in self.cells
            if cell.cpu is not None and cell.cpu.cpu_microseconds_per_io is not None
        ]
        return self.estimate(values) if values else None

    @property
    def predicted_iops(self) -> float | None:
        """What theory said before; of a mix, which it predicts as a whole, this direction's part."""
        cell, ours = self.cells[0], self.section(self.cells[0])
        if cell.predicted_iops is None or not (cell.figures.reads and cell.figures.writes):
            return cell.predicted_iops
        both = cell.figures.reads.total_ios + cell.figures.writes.total_ios
        return cell.predicted_iops * ours.total_ios / both if both else None


def rows(record: ResultRecord) -> tuple[Row, ...]:
    """Every row of a record, arrays in their own order, reads before writes."""
    found: dict[tuple[str, str, str, str], list[CellRecord]] = {}
    for cell in sorted(record.cells, key=lambda cell: cell.repeat):
        for direction, section in ((READ, cell.figures.reads), (WRITE, cell.figures.writes)):
            if section is not None:
                found.setdefault((cell.array, cell.workload, cell.phase, direction), []).append(cell)
    order = {array.name: number for number, array in enumerate(record.arrays)}
    keys = sorted(found, key=lambda key: (order.get(key[0], 99), key[3], _phase_rank(key[2]), key[1]))
    looks = looks_of(record)
    return tuple(Row(*key, tuple(found[key]), looks) for key in keys)


def row_for(all_rows: Iterable[Row], array: str, direction: str, phase: str = "healthy") -> Row | None:
    """The first row of an array in a direction; None where nothing was measured."""
    for row in all_rows:
        if (row.array, row.direction, row.phase) == (array, direction, phase):
            return row
    return None


def _phase_rank(phase: str) -> int:
    phases = ("healthy", "degraded", "rebuilding", "restored")
    return phases.index(phase) if phase in phases else len(phases)


_WAYS = {Direction.READ: "reads", Direction.WRITE: "writes"}
_LARGE_BLOCK_BYTES = 128 * 1024
"""From here on MB/s says more than I/Os per second."""


@dataclass(frozen=True, slots=True)
class ResultLabels:
    """Names of one result's arrays and workloads."""

    title: str
    question: str = ""
    arrays: Mapping[str, str] = field(default_factory=dict)
    workloads: Mapping[str, Workload] = field(default_factory=dict)

    def array(self, name: str) -> str:
        return self.arrays.get(name) or name

    def workload(self, name: str) -> str:
        """``Random reads, 4 KiB, queue depth 4 × 4 jobs``."""
        found = self.workloads.get(name)
        if found is None or found.recipe or found.trace:
            return found.title if found else name
        # Not the catalogue's title: an experiment may have given the workload another block size.
        what = _WAYS.get(found.direction)
        title = f"{found.pattern.capitalize()} {what}, {human_bytes(found.block_bytes)}" if what else found.title
        jobs = f" × {found.jobs} jobs" if found.jobs > 1 else ""
        return f"{title}, queue depth {found.queue_depth}{jobs}"

    def in_flight(self, name: str) -> int | None:
        """I/Os that the workload keeps in flight; None where that is not known."""
        found = self.workloads.get(name)
        return found.queue_depth * found.jobs if found and not found.recipe and not found.trace else None


def labels_of(record: ResultRecord) -> ResultLabels:
    """From the experiment's text in the record; ids alone where another raidlab wrote keys that this one has not."""
    try:
        experiment = decode_toml(record.experiment_toml, Experiment, source=f"{record.id}/experiment")
        jobs = [job.build() for job in experiment.jobs]
        if experiment.rebuild and experiment.rebuild.under:
            jobs.append(experiment.rebuild.under.build())
    except LabError:
        return ResultLabels(record.experiment)
    return ResultLabels(
        experiment.title,
        experiment.question,
        {plan.id: plan.label for plan in experiment.arrays},
        {job.id: job for job in jobs},
    )


def is_large(row: Row) -> bool:
    """Whether the row's I/Os are so large that MB/s are the figure to look at."""
    section = row.section(row.cells[0])
    return section.total_ios > 0 and section.io_bytes / section.total_ios >= _LARGE_BLOCK_BYTES
