"""Looking things up in a record: the repeats of a figure, in the order of the repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lab.results.looks import Look, looks_of
from lab.results.record import CellRecord, ResultRecord
from lab.results.statistics import Estimate, estimate
from lab.workloads.fio_output import DirectionFigures

READ, WRITE = "read", "write"


@dataclass(frozen=True, slots=True)
class Row:
    """All repeats of one array, workload, phase and direction."""

    array: str
    workload: str
    phase: str
    direction: str
    cells: tuple[CellRecord, ...]
    looks: tuple[Look, ...] = ()
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
