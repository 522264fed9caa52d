"""Statistics of repeats: medians, ratios of two configurations, and verdicts on families of ratios.

Medians have order-statistic confidence intervals, even under sequential sampling. Ratios are Hodges-Lehmann estimates,
whose confidence intervals come from inverting exact rank tests. Only the rank tests need scipy, which takes a second to
load. Verdicts are faster, slower, the same, or undecided.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Any, Self

import msgspec

from lab.errors import SpecError
from lab.gates.decoding import MOST_REPEATS, convert, parse_toml

REQUIRED_COVERAGE = 0.95
"""The coverage of an interval. Six or more repeats reach it, but five give only 93.75 %."""
_MISSES = 1 - REQUIRED_COVERAGE
FEWEST_FOR_INTERVAL = 6
DEFAULT_REPEATS = FEWEST_FOR_INTERVAL
"""The smallest number of repeats whose range covers the median with a probability of 95 %."""


@dataclass(frozen=True, slots=True)
class InterimLook:
    """A planned evaluation of a cell after ``n`` repeats.

    Its interval reaches from the ``k``-th smallest to the ``k``-th largest sample.
    """

    n: int
    k: int

    @property
    def miss(self) -> float:
        return 1 - order_statistic_coverage(self.n, self.k)


class _Lengths(msgspec.Struct, frozen=True):
    """The keys of an experiment's file that set the number of repeats. All other keys are ignored."""

    repeats: int = DEFAULT_REPEATS
    most_repeats: int = 0


def order_statistic_coverage(n: int, k: int) -> float:
    """The probability that the k-th smallest and the k-th largest of ``n`` independent samples enclose the median."""
    if not 1 <= k <= (n + 1) // 2:
        raise SpecError(
            f"there is no order statistic {k} from both ends of {n} samples", hint="use 1 ≤ k ≤ (n + 1) / 2"
        )
    # All values are integers until the last division, so that large n do not overflow a float.
    outside = 2 * sum(math.comb(n, below) for below in range(k))
    return max(0.0, 1 - outside / (1 << n))


@cache
def looks(repeats: int, most_repeats: int) -> tuple[InterimLook, ...]:
    """Return the looks that decide whether a cell needs more repeats, or () if the number is fixed.

    There are at most three looks. An interval may miss the median in 5 % of all cases. If the first look has six
    repeats, their range misses it in 3.1 % of them, which leaves 1.9 %. The second look gets half of this, and the last
    look gets the rest. The number of repeats at the second look lies between the geometric and the arithmetic mean of
    the numbers at the others, where this look uses its share best.
    """
    if most_repeats <= repeats:
        return ()
    # With fewer than six repeats no interval reaches 95 %, so there is no look.
    first = max(repeats, FEWEST_FOR_INTERVAL)
    if first >= most_repeats:
        return (_largest(most_repeats, _MISSES),)
    # The range of six repeats alone uses more than a third of the misses allowed.
    made = [_largest(first, max(_MISSES / 3, InterimLook(first, 1).miss))]
    left = _MISSES - made[0].miss
    places = range(math.ceil(math.sqrt(first * most_repeats)), (first + most_repeats) // 2 + 1)
    between = [look for n in places if first < n < most_repeats and (look := _largest(n, left / 2)).miss <= left / 2]
    if between:
        made.append(max(between, key=lambda look: look.miss))
        left -= made[-1].miss
    return (*made, _largest(most_repeats, left))


@cache
def looks_of(experiment_toml: str) -> tuple[InterimLook, ...]:
    """Return the looks of an experiment, given the text of its file, or () if its number of repeats is fixed."""
    try:
        lengths = convert(parse_toml(experiment_toml), _Lengths)
    except (SpecError, msgspec.ValidationError):
        # Another version of raidlab wrote the file in a different format.
        return ()
    if not 1 <= lengths.repeats <= lengths.most_repeats <= MOST_REPEATS:
        return ()
    return looks(lengths.repeats, lengths.most_repeats)


def order_statistic(n: int, planned: Sequence[InterimLook] = ()) -> tuple[int, float]:
    """Return the order statistic that bounds the interval of ``n`` repeats, and the coverage.

    Before the first look, no decision has been made, so the number of repeats counts as fixed. The number lies between
    those of two looks if repeats were lost or the run was interrupted. The interval may then miss the median as often
    as the interval of the next look may.
    """
    if not planned or n < planned[0].n:
        k = _largest(n, _MISSES).k
        return k, order_statistic_coverage(n, k)
    nearest = next((look for look in planned if look.n >= n), planned[-1])
    k = nearest.k if n == nearest.n else _largest(n, nearest.miss).k
    return k, 1 - sum(look.miss for look in planned)


def _largest(n: int, misses: float) -> InterimLook:
    """Return the narrowest interval that misses the median with probability at most ``misses``, or the full range."""
    found = InterimLook(n, 1)
    while found.k + 1 <= (n + 1) // 2 and (narrower := InterimLook(n, found.k + 1)).miss <= misses:
        found = narrower
    return found


_FAR_SCORE, _FAR_FRACTION = 3.5, 0.05
_NORMAL_SPREAD = 0.6745
"""The median absolute deviation of a normal distribution, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median, with an interval that covers the true median with a probability of at least ``coverage``."""

    median: float
    low: float
    high: float
    n: int
    coverage: float

    @property
    def half_width_fraction(self) -> float:
        """Half the interval's width as a fraction of the median, or infinity for a single sample or a median of 0."""
        if self.n < 2 or self.median == 0:
            return math.inf
        return (self.high - self.low) / 2 / abs(self.median)

    @property
    def has_enough(self) -> bool:
        return self.coverage >= REQUIRED_COVERAGE

    def text(self, digits: int = 2) -> str:
        """Return text such as ``0.53 [0.50–0.56]``, or text without an interval for a single sample."""
        middle = f"{self.median:.{digits}f}"
        return middle if self.n == 1 else f"{middle} [{self.low:.{digits}f}–{self.high:.{digits}f}]"


def estimate(samples: Sequence[float], looks: Sequence[InterimLook] = ()) -> Estimate:
    """Return the median and the tightest order statistics that cover 95 % or more, or else the full range.

    ``looks`` are the looks of an experiment that measures until the intervals are narrow. Raises SpecError if there are
    no samples, or if one is not finite.
    """
    if not samples:
        raise SpecError("a median needs samples, but there are none", hint="measure first")
    if not all(map(math.isfinite, samples)):
        raise SpecError(
            "a sample is not a number, so there is no median", hint="check the repeat that produced NaN or infinity"
        )
    ordered = sorted(samples)
    n = len(ordered)
    k, coverage = order_statistic(n, looks)
    return Estimate(statistics.median(ordered), ordered[k - 1], ordered[n - k], n, coverage)


def outliers(samples: Sequence[float]) -> tuple[int, ...]:
    """Return the indices of samples that are far from the others. They are marked, but not excluded from any figure.

    A sample is far if its modified z-score is above 3.5 (Iglewicz and Hoaglin 1993) and it is more than 5 % from the
    median.
    """
    if len(samples) < 3:
        return ()
    middle = statistics.median(samples)
    spread = statistics.median(abs(value - middle) for value in samples)
    return tuple(
        number
        for number, value in enumerate(samples)
        if abs(value - middle) > max(_FAR_SCORE * spread / _NORMAL_SPREAD, _FAR_FRACTION * abs(middle))
    )


SIGNIFICANCE = 0.05
_EXACT_PAIRS = 50
"""Up to this many pairs, the exact signed-rank distribution is used. For more, the normal approximation is as good."""
_EXACT_PRODUCT = 2500


class Side(StrEnum):
    """The alternative hypothesis of a test: that the ratio differs from the tested value, is greater, or is less."""

    TWO_SIDED = "two-sided"
    GREATER = "greater"
    LESS = "less"


@dataclass(frozen=True, slots=True)
class Ratio(Estimate):
    """A Hodges-Lehmann estimate with its interval. ``n`` is the number of pairs, or of samples in the smaller group."""

    p_value: float
    """The two-sided p-value of "there is no difference" for this ratio alone."""


@dataclass(frozen=True, slots=True)
class RatioTest:
    """The logarithms of the samples of one ratio, with rank tests for any value of the ratio."""

    first: tuple[float, ...]
    """Logarithms of the pairs' ratios, or of the numerator's samples."""
    second: tuple[float, ...] | None
    """Logarithms of the denominator's samples, or None for pairs."""

    @classmethod
    def paired(cls, numerator: Mapping[int, float], denominator: Mapping[int, float]) -> Self:
        """Test interleaved repeats.

        Repeats with the same number form a pair, so that common drift cancels out, and all others are ignored. Raises
        SpecError if the two have no repeat in common, or if a value is not above 0.
        """
        shared = [number for number in numerator if number in denominator]
        if not shared:
            raise SpecError("the two samples have no repeat in common", hint="measure both in the same rounds")
        _require_speeds([*numerator.values(), *denominator.values()])
        return cls(tuple(math.log(numerator[number] / denominator[number]) for number in sorted(shared)), None)

    @classmethod
    def apart(cls, numerator: Sequence[float], denominator: Sequence[float]) -> Self:
        """Test two separate runs. Raises SpecError if there are no samples, or if a value is not above 0."""
        if not numerator or not denominator:
            raise SpecError("a ratio needs samples, but there are none", hint="measure first")
        _require_speeds([*numerator, *denominator])
        return cls(tuple(map(math.log, numerator)), tuple(map(math.log, denominator)))

    @property
    def n(self) -> int:
        """The number of pairs, or of samples in the smaller group."""
        return len(self.first) if self.second is None else min(len(self.first), len(self.second))

    @property
    def smallest_p_value(self) -> float:
        """The smallest two-sided p-value that this number of samples can give, however large the difference."""
        return smallest_p_value(len(self.first), None if self.second is None else len(self.second))

    def p_value(self, side: Side = Side.TWO_SIDED, *, at: float = 1.0) -> float:
        """The p-value of the ratio being ``at`` (two-sided), at most ``at`` (GREATER) or at least ``at`` (LESS)."""
        return float(self._p_values([math.log(at)], side)[0])

    def equivalence_p_value(self, margin: float, *, at: float = 1.0) -> float:
        """Return the p-value of two one-sided tests (Schuirmann 1987).

        Their null hypothesis is that the ratio is not within ``margin`` of ``at``.
        """
        above, below = at / (1 + margin), at * (1 + margin)
        return max(self.p_value(Side.GREATER, at=above), self.p_value(Side.LESS, at=below))

    @property
    def ratio(self) -> Ratio:
        """The estimate and the closed interval of ratios that the test does not reject at 5 %.

        The result of a rank test changes only at the candidates, so one test is made in each gap between two
        neighbouring candidates, and one beyond each end.
        """
        candidates = self._candidates()
        steps = sorted(set(candidates))
        gaps = [steps[0] - 1, *((a + b) / 2 for a, b in pairwise(steps)), steps[-1] + 1]
        p_values = [float(p) for p in self._p_values([*gaps, 0.0], Side.TWO_SIDED)]
        p_zero = p_values.pop()
        accepted = [number for number, p in enumerate(p_values) if p > SIGNIFICANCE]
        rejected = [p for p in p_values if p <= SIGNIFICANCE]
        low, high = steps[0], steps[-1]
        if rejected and accepted:
            low, high = steps[max(0, accepted[0] - 1)], steps[min(len(steps) - 1, accepted[-1])]
        # There are too few samples for 95 %, so the interval is the full range, with its actual coverage.
        coverage = 1 - max(rejected, default=p_values[0])
        middle = statistics.median(candidates)
        return Ratio(math.exp(middle), math.exp(low), math.exp(high), self.n, coverage, p_zero)

    def _candidates(self) -> list[float]:
        """Return the means of any two pairs, or the differences of any two samples. Their median is the estimate."""
        if self.second is None:
            return [(a + b) / 2 for number, a in enumerate(self.first) for b in self.first[number:]]
        return [a - b for a in self.first for b in self.second]

    def _p_values(self, shifts: Sequence[float], side: Side) -> Any:
        import numpy as np
        from scipy import stats

        moved = np.asarray(self.first)[:, None] - np.asarray(shifts)
        if self.second is None:
            # Exact zeros occur only if two values are equal. Counting half of them keeps the size of the test.
            method = "exact" if len(self.first) <= _EXACT_PAIRS else "asymptotic"
            return stats.wilcoxon(moved, zero_method="zsplit", method=method, alternative=side, axis=0).pvalue
        others = np.repeat(np.asarray(self.second)[:, None], len(shifts), axis=1)
        method = "exact" if len(self.first) * len(self.second) <= _EXACT_PRODUCT else "asymptotic"
        return stats.mannwhitneyu(moved, others, method=method, alternative=side, axis=0).pvalue


def smallest_p_value(first: int, second: int | None) -> float:
    """Return the smallest two-sided p-value that so many pairs, or separate samples of these sizes, can give."""
    outcomes = 2**first if second is None else math.comb(first + second, first)
    return min(1.0, 2 / outcomes)


def repeats_needed(comparisons: int, *, are_paired: bool) -> int:
    """Return how many repeats are needed to show a difference in one of ``comparisons`` if the others show none."""
    count = 1
    while smallest_p_value(count, None if are_paired else count) > SIGNIFICANCE / comparisons:
        count += 1
    return count


def _require_speeds(values: Iterable[float]) -> None:
    if not all(math.isfinite(value) and value > 0 for value in values):
        raise SpecError(
            "a ratio is meaningless if its values are not numbers above 0",
            hint="check the repeats that produced them",
        )


DEFAULT_MARGIN = 0.05
"""Ratios within 5 % of 1 count as no difference."""


class RatioOutcome(StrEnum):
    """The verdict on the first of two configurations, relative to the second."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "the same"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, and the ``reason`` if it is undecided. Otherwise, ``reason`` is empty."""

    outcome: RatioOutcome
    reason: str = ""


@dataclass(frozen=True, slots=True)
class PValues:
    """The p-values of the two claims of one comparison, of which at most one is wrong."""

    claim: float
    opposite: float


@dataclass(frozen=True, slots=True)
class Asked:
    """One ratio and the kind of its figures."""

    test: RatioTest
    is_time: bool = False
    """Whether the figures are times, so that a smaller figure means faster."""


def adjusted(family: Sequence[PValues]) -> list[PValues]:
    """Return the p-values of a family, with each claim adjusted for all comparisons."""
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
    """Return the p-values of two claims: that the ratio differs from ``at``, and that it is within ``margin`` of it."""
    return PValues(test.p_value(at=at), test.equivalence_p_value(margin, at=at))


def is_beyond(ratio: Ratio, margin: float, *, at: float = 1.0) -> bool:
    """Whether the estimate differs from ``at`` by more than the margin."""
    return not at / (1 + margin) <= ratio.median <= at * (1 + margin)


def judge_family(family: Sequence[Asked], *, margin: float = DEFAULT_MARGIN) -> list[Verdict]:
    """Return the verdicts on all ratios of one table.

    A difference is claimed if the test rejects "no difference" *and* the estimate lies beyond the margin, so far fewer
    than 5 % of the runs without a difference are reported as different. "The same" is claimed if the equivalence test
    shows that the ratio lies within the margin, from 1 / (1 + margin) to 1 + margin. Raises SpecError if the margin is
    not a fraction of 1.
    """
    if not 0 <= margin < 1:
        raise SpecError(f"a margin of {margin:g} is not possible", hint="use a fraction of 1, such as 0.05")
    raw = [difference_p_values(each.test, margin) for each in family]
    sure = adjusted(raw)
    return [
        _verdict(each, alone, surely, margin, len(family))
        for each, alone, surely in zip(family, raw, sure, strict=True)
    ]


def _verdict(asked: Asked, alone: PValues, sure: PValues, margin: float, family: int) -> Verdict:
    if sure.opposite <= SIGNIFICANCE:
        return Verdict(RatioOutcome.SAME)
    if sure.claim > SIGNIFICANCE:
        return Verdict(RatioOutcome.CANNOT_TELL, why_not(asked.test, alone.claim, family))
    ratio = asked.test.ratio
    if is_beyond(ratio, margin):
        return Verdict(RatioOutcome.FASTER if (ratio.median > 1) is not asked.is_time else RatioOutcome.SLOWER)
    return Verdict(RatioOutcome.CANNOT_TELL, f"there is a difference, perhaps less than the margin of {margin:.0%}")


def why_not(test: RatioTest, p_value: float, family: int) -> str:
    """Say whether too few repeats, too many comparisons or too much noise keep a difference from being significant."""
    needed = repeats_needed(family, are_paired=test.second is None)
    what = "1 repeat is" if test.n == 1 else f"{test.n} repeats are"
    among = f" for one clear difference among {family} comparisons" if family > 1 else ""
    if test.smallest_p_value > SIGNIFICANCE:
        return f"{what} too few: at least {needed} are needed{among}"
    if p_value <= SIGNIFICANCE:
        if test.n < needed:
            repeats = f"{test.n} repeats: at least {needed} are needed"
            return f"clear on its own, but not among {family} comparisons with {repeats}"
        return f"clear on its own, but not among {family} comparisons: this needs more repeats or less noise"
    return "the interval allows both a difference and none"
