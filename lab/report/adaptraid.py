"""The AdaptRaid study's own tables: capacity (its Fig. 6), requests per second (Figs 7 to 12), traces, claims."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.adapt.capacity import System
from lab.experiments.published import Published
from lab.report.cells import NOTHING, interval_text
from lab.report.series import READ, WRITE, Row, rows
from lab.report.table import Column, Table
from lab.results.record import ArrayRecord, ResultRecord
from lab.results.statistics import Estimate, Ratio, estimate, ratio_of_medians
from lab.units import human_bytes

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
    """One of the study's arrays: its system, the number of fast disks, and utilisation factors in hundredths."""

    system: System
    fast: int
    slow_percent: int | None = None
    """How much slow disks are used relative to fast ones; None: as their size is."""

    @classmethod
    def of(cls, array: str) -> Configuration | None:
        """From an array's id such as ``adapt5-k4`` or ``adapt5-k4-s30``; None for any other."""
        found = _ARRAY.fullmatch(array)
        if not found:
            return None
        return cls(System(found[1]), int(found[2]), int(found[4]) if found[3] == "s" else None)


class Measurements:
    """The record's figures by system, number of fast disks and workload."""

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
        """The repeats of one cell; the direction follows from the workload's name, but for traces."""
        way = direction or (READ if workload.startswith("r") else WRITE)
        return self._rows.get((place, workload, way))

    def counts(self, system: System, workload: str) -> tuple[int, ...]:
        """For which numbers of fast disks there are figures."""
        return tuple(k for k in range(10) if self.row(Configuration(system, k), workload))

    def ratio(self, above: Configuration, below: Configuration, workload: str, direction: str = "") -> Ratio | None:
        """Requests per second of one through those of the other; None where either was not measured."""
        first, second = self.row(above, workload, direction), self.row(below, workload, direction)
        if first is None or second is None:
            return None
        return ratio_of_medians(_iops(first), _iops(second))

    def time_ratio(self, above: Configuration, below: Configuration, direction: str) -> Ratio | None:
        """Mean times of the trace's requests, one through the other."""
        first, second = self.row(above, TRACE, direction), self.row(below, TRACE, direction)
        if first is None or second is None:
            return None
        return ratio_of_medians(_times(first), _times(second))

    @property
    def utilisations(self) -> tuple[Configuration, ...]:
        """The arrays of the sweep over utilisation factors, by k and factor."""
        found = [place for place in self.arrays if place.slow_percent is not None]
        return tuple(sorted(found, key=lambda place: (place.fast, place.slow_percent or 0)))


def _iops(row: Row) -> list[float]:
    return row.values(lambda section: section.iops)


def _times(row: Row) -> list[float]:
    return row.values(lambda section: section.mean_seconds)


def capacity_table(found: Measurements) -> Table:
    """Fig. 6, of the devices that were built."""
    columns = (Column("fast disks"), *(Column(title) for title in SYSTEMS.values()), Column("÷ RAID 5"))
    body = []
    for k in sorted({place.fast for place in found.arrays}):
        sizes = {system: found.arrays.get(Configuration(system, k)) for system in SYSTEMS}
        ours, theirs = sizes[System.ADAPT5], sizes[System.RAID5]
        ratio = f"{ours.size_bytes / theirs.size_bytes:.2f}" if ours and theirs else NOTHING
        body.append((str(k), *(human_bytes(array.size_bytes) if array else NOTHING for array in sizes.values()), ratio))
    note = "sizes of the real devices, metadata taken off; AdaptRaid5 keeps a superblock for each slice of each disk"
    return Table("Capacity (the study's Fig. 6)", columns, tuple(body), (note,))


def workload_table(found: Measurements, workload: str) -> Table | None:
    """One figure of the study: requests per second by the number of fast disks. None where nothing was measured."""
    counts = sorted({k for system in SYSTEMS for k in found.counts(system, workload)})
    if not counts:
        return None
    columns = (Column("fast disks"), *(Column(f"{title} /s") for title in SYSTEMS.values()))
    columns += (Column("÷ RAID 5"), Column("÷ OnlyFast"))
    body = []
    for k in counts:
        cells = [found.row(Configuration(system, k), workload) for system in SYSTEMS]
        ours = Configuration(System.ADAPT5, k)
        ratios = [found.ratio(ours, Configuration(other, k), workload) for other in (System.RAID5, System.ONLY_FAST)]
        rates = [interval_text(row.iops if row else None, digits=1) for row in cells]
        body.append((str(k), *rates, *(ratio_text(ratio) for ratio in ratios)))
    return Table(WORKLOADS[workload], columns, tuple(body), (coverage_note(found),))


def ratio_text(ratio: Ratio | None) -> str:
    """``1.24 [1.20–1.31]``."""
    if ratio is None:
        return NOTHING
    return f"{ratio.median:.2f}" if ratio.n == 1 else f"{ratio.median:.2f} [{ratio.low:.2f}–{ratio.high:.2f}]"


def coverage_note(found: Measurements) -> str:
    """What the intervals are worth."""
    coverages = [row.iops.coverage for row in rows(found.record) if len(row.cells) > 1]
    if not coverages:
        return "one repeat: no interval can be given"
    return f"median [interval; covers the true median with at least {min(coverages):.1%}]"


def trace_table(found: Measurements) -> Table | None:
    """Figs 13 to 15: mean times of a trace's reads and writes; None where none was replayed."""
    body = []
    for place, array in sorted(found.arrays.items(), key=lambda each: (each[0].fast, each[0].system, each[1].name)):
        cells = [found.row(place, TRACE, way) for way in (READ, WRITE)]
        if any(cells):
            factor = "by size" if place.slow_percent is None else f"{place.slow_percent / 100:g}"
            times = [interval_text(_milliseconds(row), digits=2) for row in cells]
            factor = factor if place.system is System.ADAPT5 else NOTHING
            body.append((str(place.fast), SYSTEMS[place.system], factor, human_bytes(array.size_bytes), *times))
    if not body:
        return None
    columns = (Column("fast disks"), Column("system", False), Column("use of slow disks"), Column("capacity"))
    note = "the trace is synthetic: made by a seeded program, not recorded; the study's HP99 is not available"
    title = "A synthetic trace (in the place of the study's Figs 13 to 15)"
    return Table(title, (*columns, Column("mean read ms"), Column("mean write ms")), tuple(body), (note,))


def _milliseconds(row: Row | None) -> Estimate | None:
    return estimate([1000 * value for value in _times(row)]) if row else None


def tables(record: ResultRecord, published: Published | None = None) -> tuple[Table, ...]:
    """All of them, in the order of reading; ``published`` knows why a claim may come out otherwise."""
    from lab.report.adaptraid_claims import claims_table

    found = Measurements(record)
    made = [capacity_table(found), *(workload_table(found, workload) for workload in WORKLOADS)]
    made += [trace_table(found), claims_table(found, published.explanations if published else {})]
    return tuple(table for table in made if table)
