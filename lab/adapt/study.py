"""The claims C1 to C13 of the AdaptRaid study, with the verdicts that follow from the measurements.

A claim holds if all of its comparisons are as claimed. Its p-value is the largest among those of its comparisons (an
intersection-union test, Berger 1982, which needs no adjustment). A claim does not hold if any comparison contradicts
it. The p-values of contradictions are combined by Simes' method, because the smallest of many may be small by chance.
The two verdicts exclude each other, and all measured claims are one family of tests (lab.results.statistics).
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from lab.adapt.layout import AdaptLevel, System, capacity
from lab.experiments.published import Published
from lab.report.page.blocks import PageGroup, Plot
from lab.report.page.plots import line
from lab.report.tables import interval_note, interval_text, paired_note, ratio_text
from lab.results.record import ArrayRecord, ResultRecord
from lab.results.rows import READ, WRITE, Row, grouped, rows
from lab.results.statistics import (
    SIGNIFICANCE,
    Estimate,
    PValues,
    Ratio,
    RatioTest,
    Side,
    adjusted,
    estimate,
    repeats_needed,
)
from lab.tables import NOTHING, Column, Table
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
    """One array of the study, described by its system, its number of fast disks, and the use of its slow disks."""

    system: System
    fast: int
    slow_percent: int | None = None
    """Utilisation of the slow disks relative to the fast ones in per cent, or None for the full size."""

    @classmethod
    def of(cls, array: str) -> Configuration | None:
        """Parse an array's id such as ``adapt5-k4`` or ``adapt5-k4-s30``. Return None for any other id."""
        found = _ARRAY.fullmatch(array)
        if not found:
            return None
        return cls(System(found[1]), int(found[2]), int(found[4]) if found[3] == "s" else None)


class Measurements:
    """The figures of a result by system, number of fast disks and workload."""

    def __init__(self, record: ResultRecord) -> None:
        self.record = record
        self._rows: dict[tuple[Configuration, str, str], Row] = {
            (place, row.workload, row.direction): row for row in rows(record) if (place := Configuration.of(row.array))
        }
        self.arrays: dict[Configuration, ArrayRecord] = {
            place: array for array in record.arrays if (place := Configuration.of(array.name))
        }

    def row(self, place: Configuration, workload: str, direction: str = "") -> Row | None:
        """Return the repeats of a cell, or None. Except for traces, the workload's name implies the direction."""
        way = direction or (READ if workload.startswith("r") else WRITE)
        return self._rows.get((place, workload, way))

    def counts(self, system: System, workload: str) -> tuple[int, ...]:
        return tuple(k for k in range(10) if self.row(Configuration(system, k), workload))

    def ratio(self, above: Configuration, below: Configuration, workload: str) -> RatioTest | None:
        """Return the ratio of two arrays' requests per second, or None if they have no repeat in common."""
        return _paired(*(iops_of(self.row(place, workload)) for place in (above, below)))

    def time_ratio(self, above: Configuration, below: Configuration, direction: str) -> RatioTest | None:
        """Return the ratio of two arrays' mean latencies in the trace, or None if they have no repeat in common."""
        return _paired(*(times_of(self.row(place, TRACE, direction)) for place in (above, below)))

    def gap_ratio(self, ours: Configuration, other: Configuration, wide: str, narrow: str) -> RatioTest | None:
        """Divide the ratio of ``ours`` to ``other`` in workload ``wide`` by that in ``narrow``, paired by repeat."""
        values = [iops_of(self.row(place, workload)) for workload in (wide, narrow) for place in (ours, other)]
        shared = [n for n in values[0] if all(n in each for each in values)]
        ratios = [{n: above[n] / below[n] for n in shared} for above, below in (values[:2], values[2:])]
        return _paired(*ratios)


def iops_of(row: Row | None) -> dict[int, float]:
    """Return the requests per second of each repeat in which there were any."""
    values = row.by_repeat(lambda section: section.iops) if row else {}
    return {n: value for n, value in values.items() if value > 0}


def times_of(row: Row | None) -> dict[int, float]:
    """Return the mean latency of each repeat in seconds."""
    values = row.by_repeat(lambda section: section.mean_seconds) if row else {}
    return {n: value for n, value in values.items() if value > 0}


def _paired(above: dict[int, float], below: dict[int, float]) -> RatioTest | None:
    return RatioTest.paired(above, below) if above.keys() & below.keys() else None


FLAT_MARGIN = 0.10
"""Relative difference up to which figures count as flat or equal."""
DIP_MARGIN = 0.05
"""A decrease by less than this share does not count as a dip."""
SHR_OVERHEAD = 0.042
"""Maximum cost of the divisor rule on the study's drives (docs/adaptraid.md)."""
BAD_COUNTS = (4, 6, 7, 8)
"""Numbers of fast disks whose stripes do not divide eight blocks, so that OnlyFast must read before it writes."""


class ClaimVerdict(StrEnum):
    """The verdict on a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNCLEAR = "cannot tell"
    MISSING = "not measured"


@dataclass(frozen=True, slots=True)
class ClaimedComparison:
    """One comparison, with its configuration, its value, and p-values for the claim and for its opposite."""

    where: str
    value: str
    p_values: PValues
    n: int = 0
    """Number of paired repeats, which is 0 for sizes, because sizes are exact."""

    @property
    def agrees(self) -> bool | None:
        """The result of this comparison alone, without adjustment for others, or None if it is not significant."""
        if self.p_values.claim <= SIGNIFICANCE:
            return True
        return False if self.p_values.opposite <= SIGNIFICANCE else None


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim, its comparisons, and the verdict."""

    number: str
    statement: str
    findings: tuple[ClaimedComparison, ...]
    verdict: ClaimVerdict = ClaimVerdict.MISSING
    reason: str = ""
    """The reason for an unclear verdict, if the comparisons themselves do not show it."""

    @property
    def is_exact(self) -> bool:
        """Whether all comparisons are of sizes. These are exact, and not part of the family of tests."""
        return all(finding.n == 0 for finding in self.findings)

    @property
    def p_values(self) -> PValues:
        from scipy import stats

        against = [finding.p_values.opposite for finding in self.findings]
        holds = max(finding.p_values.claim for finding in self.findings)
        return PValues(holds, float(min(stats.false_discovery_control(against))))

    @property
    def evidence(self) -> str:
        """The comparisons that contradict the claim, or else the unclear ones, or else how many agree with it."""
        against = [finding for finding in self.findings if finding.agrees is False]
        unclear = [finding for finding in self.findings if finding.agrees is None]
        shown, count = against or unclear, len(self.findings)
        parts = [f"{finding.where}: {finding.value}" for finding in shown]
        if count:
            parts.append(f"{f'{count - len(shown)} of ' if shown else ''}{count} comparisons as claimed")
        return "; ".join(filter(None, (*parts, self.reason)))


def above(test: RatioTest, least: float = 1.0) -> PValues:
    """Return the p-values of the claim that the ratio is above ``least``, and of its opposite."""
    return PValues(test.p_value(Side.GREATER, at=least), test.p_value(Side.LESS, at=least))


def below(test: RatioTest) -> PValues:
    """Return the p-values of the claim that the ratio is below 1, and of its opposite."""
    return PValues(test.p_value(Side.LESS), test.p_value(Side.GREATER))


def equal(test: RatioTest) -> PValues:
    """Return the p-values of the claim that the ratio is within ``FLAT_MARGIN`` of 1, and of its opposite."""
    most = 1 + FLAT_MARGIN
    beyond = (test.p_value(Side.GREATER, at=most), test.p_value(Side.LESS, at=1 / most))
    return PValues(test.equivalence_p_value(FLAT_MARGIN), min(1.0, 2 * min(beyond)))


_Test = Callable[[RatioTest], PValues]
_Comparisons = Iterator[ClaimedComparison]


def _finding(where: str, test: RatioTest, p_values: PValues) -> ClaimedComparison:
    return ClaimedComparison(where, ratio_text(test.ratio), p_values, test.n)


def _exact(where: str, value: str, agrees: bool) -> ClaimedComparison:
    return ClaimedComparison(where, value, PValues(0.0, 1.0) if agrees else PValues(1.0, 0.0))


def _against(
    found: Measurements, other: System, counts: Iterable[int], workloads: Sequence[str], test: _Test = above
) -> _Comparisons:
    """Compare AdaptRaid5 with a different system that has the same number of fast disks."""
    for k in counts:
        for workload in workloads:
            ratio = found.ratio(Configuration(System.ADAPT5, k), Configuration(other, k), workload)
            if ratio:
                yield _finding(f"{workload.upper()} ÷ {SYSTEMS[other]} k={k}", ratio, test(ratio))


def _within(found: Measurements, system: System, k: int, before: int, workload: str, test: _Test) -> _Comparisons:
    """Compare a system that has ``k`` fast disks with the same system that has ``before`` fast disks."""
    ratio = found.ratio(Configuration(system, k), Configuration(system, before), workload)
    if ratio:
        yield _finding(f"{workload.upper()} k={k} ÷ k={before}", ratio, test(ratio))


def _flat(found: Measurements, workloads: Iterable[str]) -> _Comparisons:
    """Compare RAID 5 at each number of fast disks below nine with RAID 5 at the smallest of these numbers."""
    for workload in workloads:
        counts = [k for k in found.counts(System.RAID5, workload) if k < 9]
        for k in counts[1:]:
            yield from _within(found, System.RAID5, k, counts[0], workload, equal)


def _depressed(found: Measurements, workloads: Iterable[str]) -> _Comparisons:
    """Compare OnlyFast at each number of fast disks with OnlyFast at the next smaller good number.

    It must be slower at bad numbers (``BAD_COUNTS``) and faster at good ones.
    """
    for workload in workloads:
        counts = found.counts(System.ONLY_FAST, workload)
        for k in counts:
            earlier = [other for other in counts if other < k and other not in BAD_COUNTS]
            if earlier:
                test = below if k in BAD_COUNTS else above
                yield from _within(found, System.ONLY_FAST, k, earlier[-1], workload, test)


def _smooth(found: Measurements, workloads: Iterable[str]) -> _Comparisons:
    for workload in workloads:
        counts = found.counts(System.ADAPT5, workload)
        for before, k in itertools.pairwise(counts):
            yield from _within(found, System.ADAPT5, k, before, workload, lambda test: above(test, 1 - DIP_MARGIN))
        if len(counts) > 2:
            yield from _within(found, System.ADAPT5, counts[-1], counts[0], workload, above)


def _capacities(found: Measurements) -> _Comparisons:
    for place, array in found.arrays.items():
        if place.system is not System.ADAPT5 or place.slow_percent is not None:
            continue
        for other in (System.RAID5, System.ONLY_FAST):
            theirs = found.arrays.get(Configuration(other, place.fast))
            if theirs:
                ratio = array.size_bytes / theirs.size_bytes
                # With fewer than two fast disks, both systems build the same array except for the volume's label and
                # headers.
                least = 1.0 if 2 <= place.fast <= 8 else 0.98
                yield _exact(f"{other} k={place.fast}", f"{ratio:.3f}", ratio > least)


def _overheads(record: ResultRecord) -> _Comparisons:
    """Compute the exact cost of the divisor rule from the sizes of the experiment's disks."""
    sizes = {disk.name[:4]: disk.size_bytes // 512 for disk in record.conditions.disks}
    if {"fast", "slow"} - set(sizes):
        return
    for k in range(2, 9):
        lines = [sizes["fast"]] * k + [sizes["slow"]] * (9 - k)
        lost = 1 - float(capacity(AdaptLevel.ADAPT5, lines) / capacity(AdaptLevel.SHR, lines))
        yield _exact(f"k={k}", f"{lost:.1%}", round(lost, 3) <= SHR_OVERHEAD)


def _closer(found: Measurements) -> _Comparisons:
    """Check that AdaptRaid5 is the fastest in R8, by a smaller margin than in W8."""
    yield from _against(found, System.RAID5, range(2, 9), ["r8"])
    yield from _against(found, System.ONLY_FAST, range(2, 9), ["r8"])
    for k in range(2, 9):
        ours = Configuration(System.ADAPT5, k)
        for other in (System.RAID5, System.ONLY_FAST):
            gaps = found.gap_ratio(ours, Configuration(other, k), "w8", "r8")
            if gaps:
                yield _finding(f"W8 gap ÷ R8 gap to {other} k={k}", gaps, above(gaps))


def _trace(found: Measurements) -> _Comparisons:
    for k in range(2, 9):
        for other in (System.RAID5, System.ONLY_FAST):
            for way in (READ, WRITE):
                ratio = found.time_ratio(Configuration(System.ADAPT5, k), Configuration(other, k), way)
                if ratio and not (other is System.ONLY_FAST and k == 8):
                    yield _finding(f"{way} time ÷ {other} k={k}", ratio, below(ratio))


def _sweep(found: Measurements) -> _Comparisons:
    """Check that with many fast disks, each increase in the use of the slow disks increases the latency."""
    places = [place for place in found.arrays if place.slow_percent is not None and place.fast >= 5]
    places.sort(key=lambda place: (place.fast, place.slow_percent or 0))
    for before, place in itertools.pairwise(places):
        if place.fast != before.fast:
            continue
        for way in (READ, WRITE):
            ratio = found.time_ratio(place, before, way)
            if ratio:
                where = f"{way} time k={place.fast}, .{place.slow_percent} ÷ .{before.slow_percent}"
                yield _finding(where, ratio, above(ratio))


def claims(found: Measurements) -> Iterator[Claim]:
    """Yield all claims with their verdicts, in the study's order."""
    claims = _claims(found)
    asked = [claim for claim in claims if claim.findings and not claim.is_exact]
    sure = dict(zip((claim.number for claim in asked), adjusted([claim.p_values for claim in asked]), strict=True))
    for claim in claims:
        if not claim.findings:
            yield claim
            continue
        p_values = sure.get(claim.number, claim.p_values)
        if p_values.claim <= SIGNIFICANCE:
            yield replace(claim, verdict=ClaimVerdict.HOLDS)
        elif p_values.opposite <= SIGNIFICANCE:
            yield replace(claim, verdict=ClaimVerdict.FAILS)
        else:
            yield replace(claim, verdict=ClaimVerdict.UNCLEAR, reason=_why_not(claim, len(asked)))


def _why_not(claim: Claim, family: int) -> str:
    """Say how many repeats a significant contrary comparison needs. Return "" if there are enough."""
    repeats = min(finding.n for finding in claim.findings)
    needed = repeats_needed(family * len(claim.findings), are_paired=True)
    is_unsure = all(finding.agrees is None for finding in claim.findings) and repeats > 5
    if is_unsure or repeats >= needed:
        return ""
    return f"a significant contrary comparison among these needs {needed} repeats, but there are only {repeats}"


def _claims(found: Measurements) -> tuple[Claim, ...]:
    full, small, mixed = ("w1024", "w2048"), ("w8", "w256"), range(2, 9)
    raid5, only_fast = System.RAID5, System.ONLY_FAST
    equal_first = _against(found, raid5, (0, 1), full, equal)
    crossing = _against(found, only_fast, (7, 8), ["r2048"], below)
    claims: tuple[tuple[str, Iterable[ClaimedComparison]], ...] = (
        ("capacity: AdaptRaid5 above RAID 5 and OnlyFast for 2 to 8 fast disks", _capacities(found)),
        ("the short stripes of the divisor rule cost at most 4.2 % of the capacity", _overheads(found.record)),
        ("full writes: RAID 5 flat while a slow disk remains", _flat(found, full)),
        ("full writes: OnlyFast low with 4, 6, 7, 8 fast disks, else growing", _depressed(found, full)),
        ("full writes: AdaptRaid5 grows smoothly", _smooth(found, full)),
        (
            "full writes: AdaptRaid5 above RAID 5 from 2 fast disks on, before that equal",
            (*equal_first, *_against(found, raid5, mixed, full)),
        ),
        ("full writes: AdaptRaid5 above OnlyFast", _against(found, only_fast, mixed, full)),
        ("small writes: AdaptRaid5 above RAID 5", _against(found, raid5, mixed, small)),
        ("small writes: AdaptRaid5 above OnlyFast", _against(found, only_fast, mixed, small)),
        ("small reads: AdaptRaid5 best, the others nearer than for writes", _closer(found)),
        (
            "large reads: RAID 5 flat, OnlyFast above AdaptRaid5 with 7 and 8 fast disks",
            (*_flat(found, ["r2048"]), *crossing),
        ),
        ("trace (synthetic): AdaptRaid5 faster, except perhaps than OnlyFast of 8", _trace(found)),
        ("trace (synthetic): the more the slow disks are used, the longer requests take", _sweep(found)),
    )
    return tuple(
        Claim(f"C{number}", statement, tuple(findings)) for number, (statement, findings) in enumerate(claims, start=1)
    )


def claims_table(found: Measurements, explanations: Mapping[str, str]) -> Table:
    """Return a table of the claims with their verdicts and evidence. Notes explain the claims that do not hold."""
    columns = (Column("", False), Column("the study says", False), Column("verdict", False), Column("evidence", False))
    judged = list(claims(found))
    body = tuple((each.number, each.statement, each.verdict.value, each.evidence) for each in judged)
    due = [each.number for each in judged if each.verdict is ClaimVerdict.FAILS and each.number in explanations]
    notes = (
        f"{interval_note(rows(found.record))}; a claim holds if every comparison shows it, and does not hold if one "
        "shows the contrary; at most 5 % of these claims are expected to be wrong",
        f"flat and equal: within {FLAT_MARGIN:.0%}; no dip: no step down by more than {DIP_MARGIN:.0%}; "
        f"a ratio is the first system's requests per second divided by the other's",
        *(f"possible reason for the difference in {number}: {explanations[number]}" for number in due),
    )
    return Table("The study's claims", columns, body, notes)


def by_fast_disks(record: ResultRecord) -> PageGroup:
    """Return the plots of the study's figures 6 to 12, with the capacity and requests per second of three systems."""
    return PageGroup("By the number of fast disks", plots=tuple(_plots(record)))


def _plots(record: ResultRecord) -> Iterator[Plot]:
    found = Measurements(record)
    arrays = sorted(found.arrays.items(), key=lambda each: each[0].fast)
    by_system = grouped((each for each in arrays if each[0].slow_percent is None), lambda each: each[0].system)
    capacities = [(name, by_system[system]) for system, name in SYSTEMS.items() if system in by_system]
    if any(len(points) > 1 for _, points in capacities):
        traces = [
            line(name, [str(k.fast) for k, _ in points], [estimate([a.size_bytes / 1e9]) for _, a in points], place, 1)
            for place, (name, points) in enumerate(capacities)
        ]
        yield Plot("Capacity", "Gigabytes by the number of fast disks.", traces, _axes("GB"))
    for workload, title in WORKLOADS.items():
        lines = []
        for place, (system, name) in enumerate(SYSTEMS.items()):
            counts = found.counts(system, workload)
            rows = [row for k in counts if (row := found.row(Configuration(system, k), workload))]
            if rows:
                lines.append(line(name, [str(k) for k in counts], [row.iops for row in rows], place, 1))
        if lines:
            summary = "Requests per second of each system, by the number of fast disks among nine."
            yield Plot(title, summary, lines, _axes("requests per second"))


def _axes(unit: str) -> dict[str, object]:
    return {
        "xaxis": {
            "type": "category",
            "title": {"text": "fast disks"},
            "categoryorder": "array",
            "categoryarray": [str(k) for k in range(10)],
        },
        "yaxis": {"title": {"text": unit}, "rangemode": "tozero"},
    }


def capacity_table(found: Measurements) -> Table:
    """Return the table for the study's figure 6, with the sizes of the created devices."""
    columns = (Column("fast disks"), *(Column(title) for title in SYSTEMS.values()), Column("÷ RAID 5"))
    body = []
    for k in sorted({place.fast for place in found.arrays}):
        arrays = [found.arrays.get(Configuration(system, k)) for system in SYSTEMS]
        theirs, _, ours = arrays
        ratio = f"{ours.size_bytes / theirs.size_bytes:.2f}" if ours and theirs else NOTHING
        body.append((str(k), *(human_bytes(array.size_bytes) if array else NOTHING for array in arrays), ratio))
    note = "sizes of the real devices, less metadata; AdaptRaid5 keeps a superblock for each slice of each disk"
    return Table("Capacity (the study's Fig. 6)", columns, tuple(body), (note,))


def workload_table(found: Measurements, workload: str) -> Table | None:
    """Tabulate requests per second for one figure of the study, by number of fast disks. None if not measured."""
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
    return Table(WORKLOADS[workload], columns, tuple(body), (interval_note(rows(found.record)), paired_note(shown)))


def trace_table(found: Measurements) -> Table | None:
    """Tabulate the mean latencies of a trace (the study's figures 13 to 15). Return None if none was replayed."""
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
    note = "the trace was generated from a seed, not recorded, because the study's HP99 is not available"
    title = "A synthetic trace (instead of the one in the study's Figs 13 to 15)"
    return Table(title, (*columns, Column("mean read ms"), Column("mean write ms")), tuple(body), (note,))


def _milliseconds(row: Row | None) -> Estimate | None:
    return row.estimate([1000 * value for value in times_of(row).values()]) if row else None


def tables(record: ResultRecord, published: Published | None = None) -> tuple[Table, ...]:
    """Return all tables of a result in the report's order. ``published`` explains the claims that do not hold."""
    found = Measurements(record)
    made = [capacity_table(found), *(workload_table(found, workload) for workload in WORKLOADS)]
    made += [trace_table(found), claims_table(found, published.explanations if published else {})]
    return tuple(table for table in made if table)
