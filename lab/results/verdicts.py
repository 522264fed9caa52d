"""Verdicts on families of ratios: faster, slower, the same, or undecided. Pure.

All comparisons of one table are a family. Each comparison has two mutually exclusive claims (different and the same;
as published and not as published), so it is represented by the smaller of their two p-values, and these are adjusted
for their number (Benjamini and Hochberg 1995): at most 5 % of the claims of a table are expected to be wrong. Proof:
at most one of a comparison's two claims is wrong, and if its p-value is small nevertheless, the comparison is among
the claimed ones, as in the original proof; this assumes that the comparisons are independent, or positively dependent
as those that share an array are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.errors import SpecError
from lab.results.ratios import SIGNIFICANCE, Ratio, RatioTest, repeats_needed

DEFAULT_MARGIN = 0.05
"""Ratios within 5 % of 1 count as no difference."""


class RatioOutcome(StrEnum):
    """Verdict on the first of two configurations relative to the second."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "the same"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome; ``reason`` is why there is no verdict, and empty otherwise."""

    outcome: RatioOutcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PValues:
    """p-values of the two claims of one comparison, of which at most one is wrong."""

    claim: float
    opposite: float


@dataclass(frozen=True, slots=True)
class Asked:
    """One ratio and the kind of its figures."""

    test: RatioTest
    is_time: bool = False
    """The figures are times: less is faster."""


def check_margin(margin: float) -> None:
    """Raises SpecError for an invalid margin."""
    if not 0 <= margin < 1:
        raise SpecError(f"a margin of {margin:g} is not possible", hint="write a fraction of 1, such as 0.05")


def adjusted(family: Sequence[PValues]) -> list[PValues]:
    """The p-values of a family, with each claim adjusted for all comparisons."""
    import numpy as np
    from scipy import stats

    if not family:
        return []
    smaller = np.array([min(each.claim, each.opposite) for each in family])

    def one(place: int, p_value: float) -> float:
        # The other comparisons are represented by the smaller of their p-values.
        beside = smaller.copy()
        beside[place] = p_value
        return float(stats.false_discovery_control(beside)[place])

    return [PValues(one(n, each.claim), one(n, each.opposite)) for n, each in enumerate(family)]


def difference_p_values(test: RatioTest, margin: float = DEFAULT_MARGIN, *, at: float = 1.0) -> PValues:
    """Claim: the ratio differs from ``at``; opposite: it is within the margin of ``at``."""
    return PValues(test.p_value(at=at), test.equivalence_p_value(margin, at=at))


def is_beyond(ratio: Ratio, margin: float, *, at: float = 1.0) -> bool:
    """Whether the estimate differs from ``at`` by more than the margin."""
    return not at / (1 + margin) <= ratio.median <= at * (1 + margin)


def judge_family(family: Sequence[Asked], *, margin: float = DEFAULT_MARGIN) -> list[Verdict]:
    """The verdicts on all ratios of one table.

    A difference is claimed if the test rejects "no difference" *and* the estimate lies beyond the margin, so far fewer
    than 5 % of the runs without a difference are reported as different; "the same" is claimed if the equivalence test
    shows that the ratio lies within the margin: from 1 / (1 + margin) to 1 + margin.
    """
    check_margin(margin)
    raw = [difference_p_values(each.test, margin) for each in family]
    sure = adjusted(raw)
    return [
        _verdict(each, alone, surely, margin, len(family))
        for each, alone, surely in zip(family, raw, sure, strict=True)
    ]


def judge(test: RatioTest, *, margin: float = DEFAULT_MARGIN, is_time: bool = False) -> Verdict:
    """The verdict on a single ratio."""
    return judge_family([Asked(test, is_time)], margin=margin)[0]


def _verdict(asked: Asked, alone: PValues, sure: PValues, margin: float, family: int) -> Verdict:
    if sure.opposite <= SIGNIFICANCE:
        return Verdict(RatioOutcome.SAME)
    ratio = asked.test.ratio
    if sure.claim > SIGNIFICANCE:
        return Verdict(RatioOutcome.CANNOT_TELL, why_not(asked.test, alone.claim, family))
    if is_beyond(ratio, margin):
        return Verdict(RatioOutcome.FASTER if (ratio.median > 1) is not asked.is_time else RatioOutcome.SLOWER)
    return Verdict(RatioOutcome.CANNOT_TELL, f"there is a difference, perhaps less than the margin of {margin:.0%}")


def why_not(test: RatioTest, p_value: float, family: int) -> str:
    """Why a difference is not significant: too few repeats, too many comparisons for them, or too much noise."""
    needed = repeats_needed(family, are_paired=test.second is None)
    what = "1 repeat is" if test.n == 1 else f"{test.n} repeats are"
    among = f" for one clear difference among {family} comparisons" if family > 1 else ""
    if test.smallest_p_value > SIGNIFICANCE:
        return f"{what} too few: at least {needed} are needed{among}"
    if p_value <= SIGNIFICANCE:
        if test.n < needed:
            return (
                f"clear alone, but not among {family} comparisons with {test.n} repeats: at least {needed} are needed"
            )
        return f"clear alone, but not among {family} comparisons: that takes more repeats or less noise"
    return "the interval holds both a difference and none"
