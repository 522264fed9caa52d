"""The AdaptRaid study's claims C1 to C13, judged by what was measured: each holds, does not, or nobody can tell."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from lab.adapt.capacity import System, capacity
from lab.report.adaptraid_figures import SYSTEMS, Configuration, Measurements, coverage_note
from lab.report.series import READ, WRITE
from lab.report.table import Column, Table
from lab.results.record import ResultRecord
from lab.results.statistics import Ratio

FLAT_MARGIN = 0.10
"""Within so much of each other figures count as flat, or equal."""
DIP_MARGIN = 0.05
"""A step down by less is no dip."""
SHR_OVERHEAD = 0.042
"""Most that the divisor rule costs on the study's drives (docs/adaptraid.md)."""
BAD_COUNTS = (4, 6, 7, 8)
"""Numbers of fast disks whose stripes do not divide eight blocks, so that OnlyFast has to read first."""


class Verdict(StrEnum):
    """What can be said of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNCLEAR = "cannot tell"
    MISSING = "not measured"


@dataclass(frozen=True, slots=True)
class Finding:
    """One comparison: where, its value, and whether it is as the claim says (None: the interval spans both)."""

    where: str
    value: str
    agrees: bool | None


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim and everything that was compared for it."""

    number: str
    statement: str
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        if not self.findings:
            return Verdict.MISSING
        if any(finding.agrees is False for finding in self.findings):
            return Verdict.FAILS
        return Verdict.UNCLEAR if any(finding.agrees is None for finding in self.findings) else Verdict.HOLDS

    @property
    def evidence(self) -> str:
        """The comparisons that disagree, else those that are unclear, else the closest one of all."""
        against = [finding for finding in self.findings if finding.agrees is False]
        unclear = [finding for finding in self.findings if finding.agrees is None]
        shown = against or unclear
        if shown:
            rest = f"; {len(self.findings) - len(shown)} of {len(self.findings)} comparisons as claimed"
            return "; ".join(f"{finding.where}: {finding.value}" for finding in shown) + rest
        return f"{len(self.findings)} comparisons as claimed" if self.findings else ""


def above(ratio: Ratio, least: float = 1.0) -> bool | None:
    """Whether a ratio is above ``least``: by its interval; a single repeat never tells."""
    if ratio.n == 1:
        return None
    return True if ratio.low > least else False if ratio.high <= least else None


def equal(ratio: Ratio, margin: float = FLAT_MARGIN) -> bool | None:
    """Whether a ratio is 1, up to a margin."""
    lowest, highest = 1 / (1 + margin), 1 + margin
    if ratio.n == 1:
        return None
    if lowest <= ratio.low and ratio.high <= highest:
        return True
    return False if ratio.high < lowest or ratio.low > highest else None


def _words(ratio: Ratio) -> str:
    return f"{ratio.median:.2f}" if ratio.n == 1 else f"{ratio.median:.2f} [{ratio.low:.2f}–{ratio.high:.2f}]"


_Test = Callable[[Ratio], bool | None]


def _compare(
    found: Measurements, first: Configuration, second: Configuration, workloads: Iterable[str], test: _Test, what: str
) -> Iterator[Finding]:
    for workload in workloads:
        ratio = found.ratio(first, second, workload)
        if ratio:
            yield Finding(f"{workload.upper()} {what}", _words(ratio), test(ratio))


def _against(
    found: Measurements, other: System, counts: Iterable[int], workloads: Iterable[str], test: _Test = above
) -> tuple[Finding, ...]:
    """AdaptRaid5 beside another system."""
    return tuple(
        finding
        for k in counts
        for finding in _compare(
            found,
            Configuration(System.ADAPT5, k),
            Configuration(other, k),
            workloads,
            test,
            f"÷ {SYSTEMS[other]} k={k}",
        )
    )


def _flat(found: Measurements, workloads: Iterable[str]) -> tuple[Finding, ...]:
    """RAID 5 with any number of fast disks beside RAID 5 with the fewest, as long as a slow one is left."""
    made: list[Finding] = []
    for workload in workloads:
        counts = [k for k in found.counts(System.RAID5, workload) if k < 9]
        for k in counts[1:]:
            first, second = Configuration(System.RAID5, k), Configuration(System.RAID5, counts[0])
            made += _compare(found, first, second, [workload], equal, f"k={k} ÷ k={counts[0]}")
    return tuple(made)


def _depressed(found: Measurements, workloads: Iterable[str]) -> tuple[Finding, ...]:
    """OnlyFast beside itself with the next smaller good number of fast disks: below it at bad numbers, else above."""
    made: list[Finding] = []
    for workload in workloads:
        counts = found.counts(System.ONLY_FAST, workload)
        for k in counts:
            earlier = [other for other in counts if other < k and other not in BAD_COUNTS]
            if not earlier:
                continue
            first, second = Configuration(System.ONLY_FAST, k), Configuration(System.ONLY_FAST, earlier[-1])
            test = below if k in BAD_COUNTS else above
            made += _compare(found, first, second, [workload], test, f"k={k} ÷ k={earlier[-1]}")
    return tuple(made)


def below(ratio: Ratio) -> bool | None:
    """Whether a ratio is below 1."""
    is_above = above(ratio)
    return None if is_above is None else not is_above


def _no_dip(ratio: Ratio) -> bool | None:
    return above(ratio, 1 - DIP_MARGIN)


def _smooth(found: Measurements, workloads: Iterable[str]) -> tuple[Finding, ...]:
    made: list[Finding] = []
    for workload in workloads:
        counts = found.counts(System.ADAPT5, workload)
        for before, k in itertools.pairwise(counts):
            first, second = Configuration(System.ADAPT5, k), Configuration(System.ADAPT5, before)
            made += _compare(found, first, second, [workload], _no_dip, f"k={k} ÷ k={before}")
        if len(counts) > 2:
            first, second = Configuration(System.ADAPT5, counts[-1]), Configuration(System.ADAPT5, counts[0])
            made += _compare(found, first, second, [workload], above, f"k={counts[-1]} ÷ k={counts[0]}")
    return tuple(made)


def _capacities(found: Measurements) -> tuple[Finding, ...]:
    """Of the devices that were built."""
    made = []
    for place, array in found.arrays.items():
        if place.system is not System.ADAPT5 or place.slow_percent is not None:
            continue
        for other in (System.RAID5, System.ONLY_FAST):
            theirs = found.arrays.get(Configuration(other, place.fast))
            if theirs:
                ratio = array.size_bytes / theirs.size_bytes
                # With less than two fast disks both are the same array, but for the label and header of a volume.
                least = 1.0 if 2 <= place.fast <= 8 else 0.98
                made.append(Finding(f"{other} k={place.fast}", f"{ratio:.3f}", ratio > least))
    return tuple(made)


def _overheads(record: ResultRecord) -> tuple[Finding, ...]:
    """Exact, from the sizes of the experiment's own disks."""
    sizes = {disk.name[:4]: disk.size_bytes // 512 for disk in record.conditions.disks}
    if {"fast", "slow"} - set(sizes):
        return ()
    made = []
    for k in range(2, 9):
        lines = [sizes["fast"]] * k + [sizes["slow"]] * (9 - k)
        lost = 1 - float(capacity(System.ADAPT5, lines) / capacity(System.SHR, lines))
        made.append(Finding(f"k={k}", f"{lost:.1%}", round(lost, 3) <= SHR_OVERHEAD))
    return tuple(made)


def _closer(found: Measurements) -> tuple[Finding, ...]:
    """R8: AdaptRaid5 first, and the others nearer than for W8."""
    made = [
        *_against(found, System.RAID5, range(2, 9), ["r8"]),
        *_against(found, System.ONLY_FAST, range(2, 9), ["r8"]),
    ]
    for k in range(2, 9):
        ours = Configuration(System.ADAPT5, k)
        for other in (System.RAID5, System.ONLY_FAST):
            reads = found.ratio(ours, Configuration(other, k), "r8")
            writes = found.ratio(ours, Configuration(other, k), "w8")
            if reads and writes and reads.n > 1:
                apart = reads.low < writes.high and writes.low < reads.high
                agrees = None if apart else abs(reads.median - 1) < abs(writes.median - 1)
                made.append(Finding(f"gap to {other} k={k}", f"R8 {_words(reads)}, W8 {_words(writes)}", agrees))
    return tuple(made)


def _crossing(found: Measurements) -> tuple[Finding, ...]:
    return (*_flat(found, ["r2048"]), *_against(found, System.ONLY_FAST, (7, 8), ["r2048"], below))


def _trace(found: Measurements) -> tuple[Finding, ...]:
    made = []
    for k in range(2, 9):
        for other in (System.RAID5, System.ONLY_FAST):
            for way in (READ, WRITE):
                ratio = found.time_ratio(Configuration(System.ADAPT5, k), Configuration(other, k), way)
                if ratio and not (other is System.ONLY_FAST and k == 8):
                    made.append(Finding(f"{way} time ÷ {other} k={k}", _words(ratio), below(ratio)))
    return tuple(made)


def _sweep(found: Measurements) -> tuple[Finding, ...]:
    """With many fast disks each step to more use of the slow ones takes longer."""
    made = []
    places = [place for place in found.utilisations if place.fast >= 5]
    for before, place in itertools.pairwise(places):
        if place.fast != before.fast:
            continue
        for way in (READ, WRITE):
            ratio = found.time_ratio(place, before, way)
            if ratio:
                where = f"{way} time k={place.fast}, .{place.slow_percent} ÷ .{before.slow_percent}"
                made.append(Finding(where, _words(ratio), above(ratio)))
    return tuple(made)


def claims(found: Measurements) -> tuple[Claim, ...]:
    """All claims, in the study's order."""
    full, mixed = ("w1024", "w2048"), range(2, 9)
    equal_first = _against(found, System.RAID5, (0, 1), full, equal)
    return (
        Claim("C1", "capacity: AdaptRaid5 above RAID 5 and OnlyFast for 2 to 8 fast disks", _capacities(found)),
        Claim("C2", "short stripes cost at most 4.2 % of the room without the divisor rule", _overheads(found.record)),
        Claim("C3", "full writes: RAID 5 flat while a slow disk remains", _flat(found, full)),
        Claim("C4", "full writes: OnlyFast low with 4, 6, 7, 8 fast disks, else growing", _depressed(found, full)),
        Claim("C5", "full writes: AdaptRaid5 grows smoothly", _smooth(found, full)),
        Claim(
            "C6",
            "full writes: AdaptRaid5 above RAID 5 from 2 fast disks on, before that equal",
            (*equal_first, *_against(found, System.RAID5, mixed, full)),
        ),
        Claim("C7", "full writes: AdaptRaid5 above OnlyFast", _against(found, System.ONLY_FAST, mixed, full)),
        Claim("C8", "small writes: AdaptRaid5 above RAID 5", _against(found, System.RAID5, mixed, ("w8", "w256"))),
        Claim(
            "C9", "small writes: AdaptRaid5 above OnlyFast", _against(found, System.ONLY_FAST, mixed, ("w8", "w256"))
        ),
        Claim("C10", "small reads: AdaptRaid5 best, the others nearer than for writes", _closer(found)),
        Claim("C11", "large reads: RAID 5 flat, OnlyFast above AdaptRaid5 with 7 and 8 fast disks", _crossing(found)),
        Claim("C12", "trace (synthetic): AdaptRaid5 faster, but perhaps than OnlyFast of 8", _trace(found)),
        Claim("C13", "trace (synthetic): the more slow disks are used, the longer requests take", _sweep(found)),
    )


def claims_table(found: Measurements, explanations: Mapping[str, str]) -> Table:
    """Each claim, its verdict, and by how much it is missed; under it why, for those that do not hold."""
    columns = (Column("", False), Column("the study says", False), Column("verdict", False), Column("how far", False))
    judged = claims(found)
    body = tuple((each.number, each.statement, each.verdict.value, each.evidence) for each in judged)
    due = [each.number for each in judged if each.verdict is Verdict.FAILS and each.number in explanations]
    notes = (
        f"judged by intervals: {coverage_note(found)}",
        f"flat and equal: within {FLAT_MARGIN:.0%}; no dip: no step down by more than {DIP_MARGIN:.0%}; "
        f"a ratio is the first system's requests per second through the other's",
        *(f"{number}: why it may be different here: {explanations[number]}" for number in due),
    )
    return Table("The study's claims", columns, body, notes)
