"""Medians with intervals of order statistics, and repeats far from the others.

What an interval takes for granted: independent repeats of one distribution, of any shape. Then the number of samples
below the median is binomial with p = 1/2, so the k-th smallest and k-th largest of n enclose it with
1 - 2 P(fewer than k below). Source for storage: Maricq et al., OSDI 2018.
The interval of a fixed number of repeats is that of scipy.stats.quantile_test (a test compares them); it is worked out
here since every screen shows it and scipy takes a second to load. Ratios need scipy: lab.results.ratios.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from lab.errors import SpecError
from lab.results.looks import WANTED_COVERAGE, Look, order_statistic, order_statistic_coverage

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


def estimate(samples: Sequence[float], looks: Sequence[Look] = ()) -> Estimate:
    """The median and the tightest order statistics with 95 % or more; min..max where n is too small for that.

    Args:
        samples: one figure of each repeat.
        looks: those of an experiment that measures until intervals are narrow (lab.results.looks).

    Raises:
        SpecError: there are no samples, or one is no number.
    """
    if not samples:
        raise SpecError("no samples: there is no median", hint="measure first")
    if not all(map(math.isfinite, samples)):
        raise SpecError(
            "a sample is no number: there is no median", hint="look at the repeat that gave NaN or infinity"
        )
    ordered = sorted(samples)
    n = len(ordered)
    k, coverage = order_statistic(n, looks)
    return Estimate(statistics.median(ordered), ordered[k - 1], ordered[n - k], n, coverage)


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


__all__ = ["WANTED_COVERAGE", "Estimate", "estimate", "order_statistic_coverage", "outliers"]
