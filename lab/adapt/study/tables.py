"""Tables of the AdaptRaid study: capacity (its Fig. 6), requests per second (Figs 7 to 12), traces and claims."""

from __future__ import annotations

from lab.adapt.capacity import System
from lab.adapt.study.claims import claims_table
from lab.adapt.study.figures import SYSTEMS, TRACE, WORKLOADS, Configuration, Measurements, coverage_note, times_of
from lab.experiments.published import Published
from lab.report.cells import READ, WRITE, Row, interval_text, paired_note, ratio_text
from lab.results.record import ResultRecord
from lab.results.statistics import Estimate, Ratio
from lab.tables import NOTHING, Column, Table
from lab.units import human_bytes


def capacity_table(found: Measurements) -> Table:
    """Fig. 6, with the sizes of the created devices."""
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
    """One figure of the study: requests per second by number of fast disks; None without measurements."""
    counts = sorted({k for system in SYSTEMS for k in found.counts(system, workload)})
    if not counts:
        return None
    columns = (Column("fast disks"), *(Column(f"{title} /s") for title in SYSTEMS.values()))
    columns += (Column("÷ RAID 5"), Column("÷ OnlyFast"))
    body = []
    shown: list[Ratio | None] = []
    for k in counts:
        cells = [found.row(Configuration(system, k), workload) for system in SYSTEMS]
        ours = Configuration(System.ADAPT5, k)
        ratios = [found.ratio(ours, Configuration(other, k), workload) for other in (System.RAID5, System.ONLY_FAST)]
        rates = [interval_text(row.iops if row else None, digits=1) for row in cells]
        known = [ratio.ratio if ratio else None for ratio in ratios]
        shown += known
        body.append((str(k), *rates, *map(ratio_text, known)))
    return Table(WORKLOADS[workload], columns, tuple(body), (coverage_note(found), paired_note(shown)))


def trace_table(found: Measurements) -> Table | None:
    """Figs 13 to 15: mean latencies of a trace's reads and writes; None if no trace was replayed."""
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
    return row.estimate([1000 * value for value in times_of(row).values()]) if row else None


def tables(record: ResultRecord, published: Published | None = None) -> tuple[Table, ...]:
    """All tables of a result, in the order of the report; ``published`` has explanations for claims that fail."""
    found = Measurements(record)
    made = [capacity_table(found), *(workload_table(found, workload) for workload in WORKLOADS)]
    made += [trace_table(found), claims_table(found, published.explanations if published else {})]
    return tuple(table for table in made if table)
