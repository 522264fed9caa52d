"""Medians with order-statistic intervals. Storage measurements are not normally distributed, so nothing assumes it.

Source of the method: Maricq et al., OSDI 2018; coverage of order statistics: the number of samples below the median is
binomial with p = 1/2, so the k-th smallest and k-th largest of n enclose it with 1 - 2 P(fewer than k below).
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

from lab.errors import SpecError

WANTED_COVERAGE = 0.95
"""Reached from six repeats on; five give 93.75 %."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median with the interval that covers the true one with probability ``coverage`` (at least)."""

    median: float
    low: float
    high: float
    n: int
    coverage: float

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
    ordered = sorted(samples)
    n = len(ordered)
    k = 1
    while k + 1 <= (n + 1) // 2 and order_statistic_coverage(n, k + 1) >= WANTED_COVERAGE:
        k += 1
    return Estimate(statistics.median(ordered), ordered[k - 1], ordered[n - k], n, order_statistic_coverage(n, k))


def ratio_of_medians(numerator: Sequence[float], denominator: Sequence[float]) -> Estimate:
    """median(numerator) / median(denominator), with an interval.

    Samples of equal number are taken as interleaved repeats: the interval is that of the pairwise ratios, which drift
    common to both leaves alone, widened to the ratio itself if need be. Otherwise it comes from the two medians' own
    intervals, and its coverage is what Bonferroni's inequality leaves of theirs.
    Raises SpecError without samples or where a denominator is not positive.
    """
    above, below = estimate(numerator), estimate(denominator)
    if min(denominator) <= 0:
        raise SpecError("a ratio to 0 or less means nothing", hint="look at the repeats that gave 0")
    ratio = above.median / below.median
    if len(numerator) == len(denominator):
        pairs = estimate([a / b for a, b in zip(numerator, denominator, strict=True)])
        return Estimate(ratio, min(pairs.low, ratio), max(pairs.high, ratio), pairs.n, pairs.coverage)
    coverage = max(0.0, above.coverage + below.coverage - 1)
    return Estimate(ratio, above.low / below.high, above.high / below.low, min(above.n, below.n), coverage)
