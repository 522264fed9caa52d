"""The claims C1 to C13 of the AdaptRaid study, with a verdict from the measurements.

A claim holds if all of its comparisons are as claimed: its p-value is the largest of theirs (an intersection-union
test, Berger 1982, for which no adjustment is needed). It does not hold if some comparison is contrary; since the
smallest of many p-values may be small by chance, theirs are combined by Simes. Both verdicts exclude each other, and
all measured claims are one family of tests (lab.results.statistics).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from lab.adapt.capacity import System, capacity
from lab.adapt.study.figures import SYSTEMS, Configuration, Measurements, coverage_note
from lab.report.cells import READ, WRITE, ratio_text
from lab.results.record import ResultRecord
from lab.results.statistics import SIGNIFICANCE, PValues, RatioTest, Side, adjusted, repeats_needed
from lab.tables import Column, Table

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
    """One comparison: its configuration, its value, and p-values for the claim and for its opposite."""

    where: str
    value: str
    p_values: PValues
    n: int = 0
    """Number of paired repeats; 0 for sizes, which are exact."""

    @property
    def agrees(self) -> bool | None:
        """The result of this comparison alone, without adjustment for others; None if it is not significant."""
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
    """The reason for an unclear verdict, if the comparisons do not show it."""

    @property
    def is_exact(self) -> bool:
        """Whether all comparisons are of sizes, which are exact and not part of the family of tests."""
        return all(finding.n == 0 for finding in self.findings)

    @property
    def p_values(self) -> PValues:
        """The p-values for the claim and for its opposite."""
        from scipy import stats

        against = [finding.p_values.opposite for finding in self.findings]
        holds = max(finding.p_values.claim for finding in self.findings)
        return PValues(holds, float(min(stats.false_discovery_control(against))))

    @property
    def evidence(self) -> str:
        """The comparisons that contradict the claim, else the unclear ones, else the number of those as claimed."""
        against = [finding for finding in self.findings if finding.agrees is False]
        unclear = [finding for finding in self.findings if finding.agrees is None]
        shown = against or unclear
        if shown:
            rest = f"; {len(self.findings) - len(shown)} of {len(self.findings)} comparisons as claimed"
            said = "; ".join(f"{finding.where}: {finding.value}" for finding in shown) + rest
        else:
            said = f"{len(self.findings)} comparisons as claimed" if self.findings else ""
        return f"{said}; {self.reason}" if self.reason else said


def above(test: RatioTest, least: float = 1.0) -> PValues:
    """A ratio above ``least``, or not above it."""
    return PValues(test.p_value(Side.GREATER, at=least), test.p_value(Side.LESS, at=least))


def below(test: RatioTest) -> PValues:
    """A ratio below 1, or not below 1."""
    return PValues(test.p_value(Side.LESS), test.p_value(Side.GREATER))


def equal(test: RatioTest, margin: float = FLAT_MARGIN) -> PValues:
    """A ratio within the margin of 1, or beyond it on either side."""
    beyond = (test.p_value(Side.GREATER, at=1 + margin), test.p_value(Side.LESS, at=1 / (1 + margin)))
    return PValues(test.equivalence_p_value(margin), min(1.0, 2 * min(beyond)))


_Test = Callable[[RatioTest], PValues]


def _finding(where: str, test: RatioTest, p_values: PValues) -> ClaimedComparison:
    return ClaimedComparison(where, ratio_text(test.ratio), p_values, test.n)


def _exact(where: str, value: str, agrees: bool) -> ClaimedComparison:
    return ClaimedComparison(where, value, PValues(0.0, 1.0) if agrees else PValues(1.0, 0.0))


def _compare(
    found: Measurements, first: Configuration, second: Configuration, workloads: Iterable[str], test: _Test, what: str
) -> Iterator[ClaimedComparison]:
    for workload in workloads:
        ratio = found.ratio(first, second, workload)
        if ratio:
            yield _finding(f"{workload.upper()} {what}", ratio, test(ratio))


def _against(
    found: Measurements, other: System, counts: Iterable[int], workloads: Iterable[str], test: _Test = above
) -> tuple[ClaimedComparison, ...]:
    """AdaptRaid5 against another system."""
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


def _flat(found: Measurements, workloads: Iterable[str]) -> tuple[ClaimedComparison, ...]:
    """RAID 5 with different numbers of fast disks against that with the fewest, while at least one disk is slow."""
    made: list[ClaimedComparison] = []
    for workload in workloads:
        counts = [k for k in found.counts(System.RAID5, workload) if k < 9]
        for k in counts[1:]:
            first, second = Configuration(System.RAID5, k), Configuration(System.RAID5, counts[0])
            made += _compare(found, first, second, [workload], equal, f"k={k} ÷ k={counts[0]}")
    return tuple(made)


def _depressed(found: Measurements, workloads: Iterable[str]) -> tuple[ClaimedComparison, ...]:
    """OnlyFast against itself with the next lower good number of fast disks: below it at bad numbers, else above."""
    made: list[ClaimedComparison] = []
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


def _no_dip(test: RatioTest) -> PValues:
    return above(test, 1 - DIP_MARGIN)


def _smooth(found: Measurements, workloads: Iterable[str]) -> tuple[ClaimedComparison, ...]:
    made: list[ClaimedComparison] = []
    for workload in workloads:
        counts = found.counts(System.ADAPT5, workload)
        for before, k in itertools.pairwise(counts):
            first, second = Configuration(System.ADAPT5, k), Configuration(System.ADAPT5, before)
            made += _compare(found, first, second, [workload], _no_dip, f"k={k} ÷ k={before}")
        if len(counts) > 2:
            first, second = Configuration(System.ADAPT5, counts[-1]), Configuration(System.ADAPT5, counts[0])
            made += _compare(found, first, second, [workload], above, f"k={counts[-1]} ÷ k={counts[0]}")
    return tuple(made)


def _capacities(found: Measurements) -> tuple[ClaimedComparison, ...]:
    """The sizes of the created devices."""
    made = []
    for place, array in found.arrays.items():
        if place.system is not System.ADAPT5 or place.slow_percent is not None:
            continue
        for other in (System.RAID5, System.ONLY_FAST):
            theirs = found.arrays.get(Configuration(other, place.fast))
            if theirs:
                ratio = array.size_bytes / theirs.size_bytes
                # With fewer than two fast disks, both are the same array except for the volume's label and headers.
                least = 1.0 if 2 <= place.fast <= 8 else 0.98
                made.append(_exact(f"{other} k={place.fast}", f"{ratio:.3f}", ratio > least))
    return tuple(made)


def _overheads(record: ResultRecord) -> tuple[ClaimedComparison, ...]:
    """The cost of the divisor rule, which is exact, from the sizes of the experiment's disks."""
    sizes = {disk.name[:4]: disk.size_bytes // 512 for disk in record.conditions.disks}
    if {"fast", "slow"} - set(sizes):
        return ()
    made = []
    for k in range(2, 9):
        lines = [sizes["fast"]] * k + [sizes["slow"]] * (9 - k)
        lost = 1 - float(capacity(System.ADAPT5, lines) / capacity(System.SHR, lines))
        made.append(_exact(f"k={k}", f"{lost:.1%}", round(lost, 3) <= SHR_OVERHEAD))
    return tuple(made)


def _closer(found: Measurements) -> tuple[ClaimedComparison, ...]:
    """R8: AdaptRaid5 is the fastest, by less than in W8."""
    made = [
        *_against(found, System.RAID5, range(2, 9), ["r8"]),
        *_against(found, System.ONLY_FAST, range(2, 9), ["r8"]),
    ]
    for k in range(2, 9):
        ours = Configuration(System.ADAPT5, k)
        for other in (System.RAID5, System.ONLY_FAST):
            gaps = found.gap_ratio(ours, Configuration(other, k), "w8", "r8")
            if gaps:
                made.append(_finding(f"W8 gap ÷ R8 gap to {other} k={k}", gaps, above(gaps)))
    return tuple(made)


def _crossing(found: Measurements) -> tuple[ClaimedComparison, ...]:
    return (*_flat(found, ["r2048"]), *_against(found, System.ONLY_FAST, (7, 8), ["r2048"], below))


def _trace(found: Measurements) -> tuple[ClaimedComparison, ...]:
    made = []
    for k in range(2, 9):
        for other in (System.RAID5, System.ONLY_FAST):
            for way in (READ, WRITE):
                ratio = found.time_ratio(Configuration(System.ADAPT5, k), Configuration(other, k), way)
                if ratio and not (other is System.ONLY_FAST and k == 8):
                    made.append(_finding(f"{way} time ÷ {other} k={k}", ratio, below(ratio)))
    return tuple(made)


def _sweep(found: Measurements) -> tuple[ClaimedComparison, ...]:
    """With many fast disks, each increase in the use of slow disks increases the latency."""
    made = []
    places = [place for place in found.utilisations if place.fast >= 5]
    for before, place in itertools.pairwise(places):
        if place.fast != before.fast:
            continue
        for way in (READ, WRITE):
            ratio = found.time_ratio(place, before, way)
            if ratio:
                where = f"{way} time k={place.fast}, .{place.slow_percent} ÷ .{before.slow_percent}"
                made.append(_finding(where, ratio, above(ratio)))
    return tuple(made)


def claims(found: Measurements) -> Iterator[Claim]:
    """All claims with their verdicts, in the study's order."""
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
    """The number of repeats needed for a significant contrary comparison, if there are too few; else empty."""
    repeats = min(finding.n for finding in claim.findings)
    needed = repeats_needed(family * len(claim.findings), are_paired=True)
    is_unsure = all(finding.agrees is None for finding in claim.findings) and repeats > 5
    return (
        ""
        if is_unsure or repeats >= needed
        else f"one contrary comparison among so many takes {needed} repeats, and there are {repeats}"
    )


def _claims(found: Measurements) -> tuple[Claim, ...]:
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
    """The claims, their verdicts and evidence; notes give possible explanations for those that do not hold."""
    columns = (Column("", False), Column("the study says", False), Column("verdict", False), Column("how far", False))
    judged = list(claims(found))
    body = tuple((each.number, each.statement, each.verdict.value, each.evidence) for each in judged)
    due = [each.number for each in judged if each.verdict is ClaimVerdict.FAILS and each.number in explanations]
    notes = (
        f"{coverage_note(found)}; a claim holds if every comparison shows it, and does not if one shows the contrary; "
        "of all that is said here 5 % at most is expected to be wrong",
        f"flat and equal: within {FLAT_MARGIN:.0%}; no dip: no step down by more than {DIP_MARGIN:.0%}; "
        f"a ratio is the first system's requests per second through the other's",
        *(f"{number}: why it may be different here: {explanations[number]}" for number in due),
    )
    return Table("The study's claims", columns, body, notes)
