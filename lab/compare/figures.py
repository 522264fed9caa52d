"""The figures of a record by measurement: repeats by number, each direction separately. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lab.results.record import CellRecord, ResultRecord
from lab.workloads.fio_output import DirectionFigures

HEALTHY = "healthy"
SINGLE = "single"
_SMALLEST = 1e-12
_SEQUENTIAL = re.compile(r"^rw=(read|write)\s*$", re.MULTILINE)


class Key(NamedTuple):
    """The measurement that a figure belongs to."""

    array: str
    workload: str
    phase: str
    direction: str

    @property
    def words(self) -> str:
        phase = "" if self.phase == HEALTHY else f", {self.phase}"
        return f"{self.array}, {self.workload}, {self.direction}{phase}"


@dataclass(frozen=True, slots=True)
class Repeats:
    """All repeats of one figure, by number."""

    iops: Mapping[int, float]
    bytes_per_second: Mapping[int, float]
    cpu_microseconds_per_io: Mapping[int, float]
    predicted_iops: float | None
    is_sequential: bool


def figures_of(record: ResultRecord) -> Mapping[Key, Repeats]:
    """All figures.

    Repeats without a valid speed (0, NaN, infinite) are omitted, and figures with no repeats left too.
    """
    cells: dict[Key, list[tuple[CellRecord, DirectionFigures]]] = {}
    for cell in sorted(record.cells, key=lambda cell: cell.repeat):
        for direction, section in (("read", cell.figures.reads), ("write", cell.figures.writes)):
            if section is not None and is_speed(section.iops):
                key = Key(cell.array, cell.workload, cell.phase, direction)
                cells.setdefault(key, []).append((cell, section))
    return {key: _repeats(found) for key, found in cells.items()}


def _repeats(found: list[tuple[CellRecord, DirectionFigures]]) -> Repeats:
    first = found[0][0]
    predicted = first.predicted_iops
    costs = {cell.repeat: cell.cpu.cpu_microseconds_per_io for cell, _ in found if cell.cpu}
    return Repeats(
        iops=_values(found, lambda section: section.iops),
        bytes_per_second=_values(found, lambda section: section.bandwidth_bytes_per_second),
        cpu_microseconds_per_io={n: cost for n, cost in costs.items() if cost is not None and is_speed(cost)},
        predicted_iops=predicted if predicted is not None and is_speed(predicted) else None,
        is_sequential=bool(_SEQUENTIAL.search(first.job_text)),
    )


def _values(
    found: list[tuple[CellRecord, DirectionFigures]], pick: Callable[[DirectionFigures], float]
) -> Mapping[int, float]:
    return {cell.repeat: pick(section) for cell, section in found}


def is_speed(value: float) -> bool:
    """Whether the value is above 0, and large enough that a quotient with it as the divisor is finite."""
    return math.isfinite(value) and value > _SMALLEST


def bad_repeats(record: ResultRecord) -> tuple[str, ...]:
    """Cells whose figures are 0, NaN or infinite, and planned cells that are missing."""
    sections = (
        (cell.key, section) for cell in record.cells for section in (cell.figures.reads, cell.figures.writes) if section
    )
    bad = [f"{key}: {section.iops:g} IOPS, left out" for key, section in sections if not is_speed(section.iops)]
    bad += [
        f"{cell.key}: no I/O, left out" for cell in record.cells if not cell.figures.reads and not cell.figures.writes
    ]
    return (*bad, *(f"{key}: planned, not measured" for key in record.missing_keys))


def singles(record: ResultRecord) -> frozenset[str]:
    """Arrays that are a single bare disk."""
    return frozenset(array.name for array in record.arrays if array.level == SINGLE)
