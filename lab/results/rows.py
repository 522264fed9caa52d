"""The rows of a result. Each row contains all repeats of one array, workload, phase and direction, with estimates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from lab.results.record import PHASES, CellRecord, ResultRecord
from lab.results.statistics import Estimate, InterimLook, estimate, looks_of
from lab.workloads.fio_output import DirectionFigures

READ, WRITE = "read", "write"
T = TypeVar("T")
K = TypeVar("K")


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Group the items by key, in the order in which the keys first appear."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


@dataclass(frozen=True, slots=True)
class Row:
    """All repeats of one array, workload, phase and direction."""

    array: str
    workload: str
    phase: str
    direction: str
    cells: tuple[CellRecord, ...]
    looks: tuple[InterimLook, ...] = ()
    """The looks, if measuring continued until the intervals were narrow. The intervals take the looks into account."""

    def section(self, cell: CellRecord) -> DirectionFigures:
        return cell.figures.sections[self.direction]

    def values(self, pick: Callable[[DirectionFigures], float | None]) -> list[float]:
        """Return the figure that ``pick`` selects, for each repeat that has this figure."""
        return list(self.by_repeat(pick).values())

    def by_repeat(self, pick: Callable[[DirectionFigures], float | None]) -> dict[int, float]:
        """Map the number of each repeat to its figure. Rows of one result are paired by this number."""
        return {cell.repeat: value for cell in self.cells if (value := pick(self.section(cell))) is not None}

    def estimate(self, values: Sequence[float]) -> Estimate:
        return estimate(values, self.looks)

    @property
    def iops(self) -> Estimate:
        return self.estimate(self.values(lambda section: section.iops))

    @property
    def bytes_per_second(self) -> Estimate:
        return self.estimate(self.values(lambda section: section.bandwidth_bytes_per_second))

    def latency_seconds(self, name: str) -> Estimate | None:
        """Return a latency by field name, such as ``p99_seconds``, or None if no repeat has it."""
        values = self.values(lambda section: getattr(section, name))
        return self.estimate(values) if values else None

    @property
    def cpu_microseconds_per_io(self) -> Estimate | None:
        """The CPU time of the whole machine per I/O, minus that of the idle machine, or None if it was not measured."""
        values = [*self.cpu_by_repeat("cpu_microseconds_per_io").values()]
        return self.estimate(values) if values else None

    def cpu_by_repeat(self, name: str) -> dict[int, float]:
        """Map the number of each repeat to its CPU figure ``name``, if it has one."""
        figures = {cell.repeat: getattr(cell.cpu, name) for cell in self.cells if cell.cpu}
        return {repeat: value for repeat, value in figures.items() if value is not None}

    @property
    def predicted_iops(self) -> float | None:
        """The predicted IOPS of this direction. For a mixed load, this is its share of the whole prediction."""
        cell, ours = self.cells[0], self.section(self.cells[0])
        if cell.predicted_iops is None or len(cell.figures.sections) < 2:
            return cell.predicted_iops
        both = sum(section.total_ios for section in cell.figures.sections.values())
        return cell.predicted_iops * ours.total_ios / both if both else None


def rows(record: ResultRecord) -> tuple[Row, ...]:
    """Return all rows of a record, with arrays in the record's order and reads before writes."""
    found: dict[tuple[str, str, str, str], list[CellRecord]] = {}
    for cell in sorted(record.cells, key=lambda cell: cell.repeat):
        for direction in cell.figures.sections:
            found.setdefault((cell.array, cell.workload, cell.phase, direction), []).append(cell)
    order = {array.name: number for number, array in enumerate(record.arrays)}
    ranks = {phase: number for number, phase in enumerate(PHASES)}
    keys = sorted(found, key=lambda key: (order.get(key[0], 99), key[3], ranks.get(key[2], len(ranks)), key[1]))
    looks = looks_of(record.experiment_toml)
    return tuple(Row(*key, tuple(found[key]), looks) for key in keys)
