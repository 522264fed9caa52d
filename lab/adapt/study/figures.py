"""The figures of an AdaptRaid result by system, number of fast disks and workload."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.adapt.capacity import System
from lab.report.cells import READ, WRITE, Row, rows
from lab.results.record import ArrayRecord, ResultRecord
from lab.results.statistics import RatioTest

SYSTEMS = {System.RAID5: "RAID 5", System.ONLY_FAST: "OnlyFast", System.ADAPT5: "AdaptRaid5"}
WORKLOADS = {
    "w8": "W8: random writes of 8 KiB",
    "w256": "W256: random writes of 256 KiB",
    "w1024": "W1024: aligned random writes of 1 MiB, a whole stripe of eight chunks",
    "w2048": "W2048: aligned random writes of 2 MiB",
    "r8": "R8: random reads of 8 KiB",
    "r2048": "R2048: random reads of 2 MiB",
}
TRACE = "trace"
_ARRAY = re.compile(r"(raid5|onlyfast|adapt5)-k(\d)(?:-([sf])(\d+))?")


@dataclass(frozen=True, slots=True)
class Configuration:
    """One array of the study: system, number of fast disks, and utilisation factor in hundredths."""

    system: System
    fast: int
    slow_percent: int | None = None
    """Utilisation of the slow disks relative to the fast ones in per cent; None for the full size."""

    @classmethod
    def of(cls, array: str) -> Configuration | None:
        """The configuration in an array's id such as ``adapt5-k4`` or ``adapt5-k4-s30``; None for any other id."""
        found = _ARRAY.fullmatch(array)
        if not found:
            return None
        return cls(System(found[1]), int(found[2]), int(found[4]) if found[3] == "s" else None)


class Measurements:
    """The figures of a result by system, number of fast disks and workload."""

    def __init__(self, record: ResultRecord) -> None:
        self.record = record
        self._rows: dict[tuple[Configuration, str, str], Row] = {}
        for row in rows(record):
            place = Configuration.of(row.array)
            if place:
                self._rows[place, row.workload, row.direction] = row
        self.arrays: dict[Configuration, ArrayRecord] = {
            place: array for array in record.arrays if (place := Configuration.of(array.name))
        }

    def row(self, place: Configuration, workload: str, direction: str = "") -> Row | None:
        """The repeats of one cell, or None; the direction follows from the workload's name, except for traces."""
        way = direction or (READ if workload.startswith("r") else WRITE)
        return self._rows.get((place, workload, way))

    def counts(self, system: System, workload: str) -> tuple[int, ...]:
        """The numbers of fast disks for which there are figures."""
        return tuple(k for k in range(10) if self.row(Configuration(system, k), workload))

    def ratio(self, above: Configuration, below: Configuration, workload: str, direction: str = "") -> RatioTest | None:
        """The ratio of requests per second of two arrays; None if they have no repeat in common."""
        first, second = self.row(above, workload, direction), self.row(below, workload, direction)
        if first is None or second is None:
            return None
        return _paired(iops_of(first), iops_of(second))

    def time_ratio(self, above: Configuration, below: Configuration, direction: str) -> RatioTest | None:
        """The ratio of the mean latencies of two arrays in the trace; None if they have no repeat in common."""
        first, second = self.row(above, TRACE, direction), self.row(below, TRACE, direction)
        if first is None or second is None:
            return None
        return _paired(times_of(first), times_of(second))

    def gap_ratio(self, ours: Configuration, other: Configuration, wide: str, narrow: str) -> RatioTest | None:
        """The ratio of ``ours`` to ``other`` in workload ``wide``, divided by that in ``narrow``, paired by repeat."""
        places = [(place, workload) for workload in (wide, narrow) for place in (ours, other)]
        found = [self.row(*place) for place in places]
        values = [iops_of(row) if row else {} for row in found]
        shared = [n for n in values[0] if all(n in each for each in values)]
        ratios = [{n: above[n] / below[n] for n in shared} for above, below in (values[:2], values[2:])]
        return _paired(*ratios)

    @property
    def utilisations(self) -> tuple[Configuration, ...]:
        """The arrays of the sweep over utilisation factors, by number of fast disks and factor."""
        found = [place for place in self.arrays if place.slow_percent is not None]
        return tuple(sorted(found, key=lambda place: (place.fast, place.slow_percent or 0)))


def iops_of(row: Row) -> dict[int, float]:
    """Repeat -> requests per second, without repeats that have none."""
    return {n: value for n, value in row.by_repeat(lambda section: section.iops).items() if value > 0}


def times_of(row: Row) -> dict[int, float]:
    """Repeat -> mean latency in seconds."""
    return {n: value for n, value in row.by_repeat(lambda section: section.mean_seconds).items() if value > 0}


def _paired(above: dict[int, float], below: dict[int, float]) -> RatioTest | None:
    return RatioTest.paired(above, below) if above.keys() & below.keys() else None


def coverage_note(found: Measurements) -> str:
    """The note on the coverage of the intervals."""
    coverages = [row.iops.coverage for row in rows(found.record) if len(row.cells) > 1]
    if not coverages:
        return "one repeat: no interval can be given"
    return f"median [interval of order statistics; covers the true median with at least {min(coverages):.1%}]"
