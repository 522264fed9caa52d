"""Medians and ratios with intervals. Storage measurements are not normally distributed, so nothing assumes it.

Source of the method: Maricq et al., OSDI 2018; coverage of order statistics: the number of samples below the median is
binomial with p = 1/2, so the k-th smallest and k-th largest of n enclose it with 1 - 2 P(fewer than k below).
The interval of a median is that of scipy.stats.quantile_test (a test compares them); it is worked out here since every
screen shows it and scipy takes a second to load. Ratios need rank tests, and those are scipy's: lab.results.ranks.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from lab.errors import SpecError
from lab.results.ranks import paired_interval, unpaired_interval

WANTED_COVERAGE = 0.95
"""Reached from six repeats on; five give 93.75 %."""
_FAR_SCORE, _FAR_FRACTION = 3.5, 0.05
_NORMAL_SPREAD = 0.6745
"""Median absolute deviation of a normal distribution, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median with the interval that covers the true one with probability ``coverage`` (at least)."""

    median: float
    low: float
    high: float
    n: int
    coverage: float

    @property
    def half_width_fraction(self) -> float:
        """Half the interval's width as a part of the median; infinite at a median of 0, and for one sample."""
        if self.n < 2 or self.median == 0:
            return math.inf
        return (self.high - self.low) / 2 / abs(self.median)

    @property
    def is_trustworthy(self) -> bool:
        """Whether the interval reaches the wanted 95 %."""
        return self.coverage >= WANTED_COVERAGE


def order_statistic_coverage(n: int, k: int) -> float:
    """Probability that the k-th smallest and the k-th largest of ``n`` independent samples enclose the median."""
    if not 1 <= k <= (n + 1) // 2:
        raise SpecError(
            f"there is no order statistic {k} from both ends of {n} samples", hint="use 1 ≤ k ≤ (n + 1) / 2"
        )
    # Integers until the last division, so that large n do not overflow a float.
    outside = 2 * sum(comb(n, below) for below in range(k))
    return max(0.0, 1 - outside / (1 << n))


def estimate(samples: Sequence[float]) -> Estimate:
    """The median and the tightest order statistics with 95 % or more; min..max where n is too small for that.

    Raises SpecError without samples.
    """
    if not samples:
        raise SpecError("no samples: there is no median", hint="measure first")
    if not all(map(math.isfinite, samples)):
        raise SpecError(
            "a sample is no number: there is no median", hint="look at the repeat that gave NaN or infinity"
        )
    ordered = sorted(samples)
    n = len(ordered)
    k = 1
    while k + 1 <= (n + 1) // 2 and order_statistic_coverage(n, k + 1) >= WANTED_COVERAGE:
        k += 1
    return Estimate(statistics.median(ordered), ordered[k - 1], ordered[n - k], n, order_statistic_coverage(n, k))


@dataclass(frozen=True, slots=True)
class Ratio(Estimate):
    """A ratio of two medians, with the interval of ratios that a rank test accepts. ``n``: the smaller count."""

    p_value: float
    """Of "there is no difference", two-sided."""


def ratio_of_medians(
    numerator: Sequence[float], denominator: Sequence[float], *, are_interleaved: bool = True
) -> Ratio:
    """median(numerator) / median(denominator), with an interval.

    Samples of equal number are taken as interleaved repeats and compared pair by pair, so that drift common to both
    drops out; ``are_interleaved=False`` is for two runs of their own. The interval is widened to the ratio if need be.
    Raises SpecError without samples, or where a value is not above 0.
    """
    above, below = estimate(numerator), estimate(denominator)
    if min(*numerator, *denominator) <= 0:
        raise SpecError("a ratio of values that are 0 or less means nothing", hint="look at the repeats that gave 0")
    ratio = above.median / below.median
    is_paired = are_interleaved and len(numerator) == len(denominator)
    found = (paired_interval if is_paired else unpaired_interval)(numerator, denominator)
    low, high = min(found.low, ratio), max(found.high, ratio)
    return Ratio(ratio, low, high, min(above.n, below.n), found.coverage, found.p_value)


def outliers(samples: Sequence[float]) -> tuple[int, ...]:
    """Places of the samples far from the others. They are kept in every figure, and shown.

    Far: a modified z-score above 3.5 (Iglewicz and Hoaglin 1993), and more than 5 % from the median.
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
