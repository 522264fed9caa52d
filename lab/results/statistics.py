"""Medians with order-statistic confidence intervals, including sequential sampling; and outliers.

An interval assumes independent repeats of one distribution of any shape. Then the number of samples below the median
is binomial with p = 1/2, so the k-th smallest and k-th largest of n samples enclose the median with probability
1 - 2 P(fewer than k below). Source for storage: Maricq et al., OSDI 2018.
The interval of a fixed number of repeats equals that of scipy.stats.quantile_test (a test compares them); it is
computed here because every screen shows it and scipy takes a second to load. Ratios need scipy: lab.results.ratios.

Sampling until an interval is narrow favours intervals that are narrow by chance: with a look after every round, 6 % of
all intervals miss the median at a nominal 3 % (tests/unit/results/test_looks.py). So there are at most three looks, at
fixed numbers of repeats, and their probabilities of a miss add up to at most 5 %; the final interval then has 95 %
coverage whatever the reason to stop. This holds over all cells: noisy cells that stop early still do so by chance.
Source: Jennison and Turnbull, J. R. Stat. Soc. B 51 (1989), 305-361, with a union bound over order statistics in place
of their normal boundaries. Pure.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import comb
from typing import TYPE_CHECKING

import msgspec

from lab.errors import SpecError
from lab.gates.decoding import convert
from lab.gates.numbers import MOST_REPEATS
from lab.gates.toml import parse_toml

if TYPE_CHECKING:
    from lab.results.record import ResultRecord

WANTED_COVERAGE = 0.95
"""Reached with six or more repeats; five give 93.75 %."""
_MISSES = 1 - WANTED_COVERAGE
FEWEST_FOR_INTERVAL = 6
DEFAULT_REPEATS = FEWEST_FOR_INTERVAL
"""The smallest number of repeats whose range covers the median with 95 %."""


@dataclass(frozen=True, slots=True)
class InterimLook:
    """A look after ``n`` repeats, with the interval from the ``k``-th smallest to the ``k``-th largest."""

    n: int
    k: int

    @property
    def miss(self) -> float:
        """Probability that the interval does not contain the median."""
        return 1 - order_statistic_coverage(self.n, self.k)


class _Lengths(msgspec.Struct, frozen=True):
    """Numbers of repeats in an experiment's file; all other keys are ignored."""

    repeats: int = DEFAULT_REPEATS
    most_repeats: int = 0


def order_statistic_coverage(n: int, k: int) -> float:
    """Probability that the k-th smallest and the k-th largest of ``n`` independent samples enclose the median."""
    if not 1 <= k <= (n + 1) // 2:
        raise SpecError(
            f"there is no order statistic {k} from both ends of {n} samples", hint="use 1 ≤ k ≤ (n + 1) / 2"
        )
    # Integers until the last division, so that large n do not overflow a float.
    outside = 2 * sum(comb(n, below) for below in range(k))
    return max(0.0, 1 - outside / (1 << n))


@cache
def looks(repeats: int, most_repeats: int) -> tuple[InterimLook, ...]:
    """The looks that decide whether a cell needs more repeats: first, last and one between; () for a fixed number.

    The range of six repeats misses the median in 3.1 %, which leaves 1.9 %: half of it for the second look, which lies
    between the geometric and the arithmetic mean of the other two, where it uses its share best; the rest for the last.
    """
    if most_repeats <= repeats:
        return ()
    # With fewer than six repeats no interval reaches 95 %, so there is no look.
    first = max(repeats, FEWEST_FOR_INTERVAL)
    if first >= most_repeats:
        return (_largest(most_repeats, _MISSES),)
    # The range of six repeats alone takes more than a third.
    made = [_largest(first, max(_MISSES / 3, InterimLook(first, 1).miss))]
    left = _MISSES - made[0].miss
    places = range(math.ceil(math.sqrt(first * most_repeats)), (first + most_repeats) // 2 + 1)
    between = [look for n in places if first < n < most_repeats and (look := _largest(n, left / 2)).miss <= left / 2]
    if between:
        made.append(max(between, key=lambda look: look.miss))
        left -= made[-1].miss
    return (*made, _largest(most_repeats, left))


def looks_of(record: ResultRecord) -> tuple[InterimLook, ...]:
    """The looks of a record's experiment; () for a fixed number of repeats."""
    return _looks_in(record.experiment_toml)


@cache
def _looks_in(experiment_toml: str) -> tuple[InterimLook, ...]:
    try:
        lengths = convert(parse_toml(experiment_toml), _Lengths)
    except (SpecError, msgspec.ValidationError):
        # Written by another version of raidlab in a different format.
        return ()
    if not 1 <= lengths.repeats <= lengths.most_repeats <= MOST_REPEATS:
        return ()
    return looks(lengths.repeats, lengths.most_repeats)


def order_statistic(n: int, planned: Sequence[InterimLook] = ()) -> tuple[int, float]:
    """The order statistic that bounds the interval of ``n`` repeats, and the coverage.

    With fewer repeats than the first look there was no decision yet, and the number counts as fixed. Between two looks
    (lost repeats, an interrupted run) the interval may miss the median as often as that of the next look.
    """
    if not planned or n < planned[0].n:
        k = _largest(n, _MISSES).k
        return k, order_statistic_coverage(n, k)
    nearest = next((look for look in planned if look.n >= n), planned[-1])
    k = nearest.k if n == nearest.n else _largest(n, nearest.miss).k
    return k, 1 - sum(look.miss for look in planned)


def _largest(n: int, misses: float) -> InterimLook:
    """The narrowest interval that misses the median with probability ``misses`` at most; min..max if there is none."""
    found = InterimLook(n, 1)
    while found.k + 1 <= (n + 1) // 2 and (narrower := InterimLook(n, found.k + 1)).miss <= misses:
        found = narrower
    return found


_FAR_SCORE, _FAR_FRACTION = 3.5, 0.05
_NORMAL_SPREAD = 0.6745
"""Median absolute deviation of a normal distribution, in standard deviations."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A median with an interval that covers the true median with probability ``coverage`` or more."""

    median: float
    low: float
    high: float
    n: int
    coverage: float

    @property
    def half_width_fraction(self) -> float:
        """Half the interval's width as a fraction of the median; infinite at a median of 0, and for one sample."""
        if self.n < 2 or self.median == 0:
            return math.inf
        return (self.high - self.low) / 2 / abs(self.median)

    @property
    def has_enough(self) -> bool:
        """Whether there are enough repeats for an interval with the wanted coverage."""
        return self.coverage >= WANTED_COVERAGE

    def text(self, digits: int = 2) -> str:
        """``0.53 [0.50–0.56]``; without an interval for one sample."""
        middle = f"{self.median:.{digits}f}"
        return middle if self.n == 1 else f"{middle} [{self.low:.{digits}f}–{self.high:.{digits}f}]"


def estimate(samples: Sequence[float], looks: Sequence[InterimLook] = ()) -> Estimate:
    """The median and the tightest order statistics with 95 % or more; min..max if n is too small for that.

    Args:
        samples: one figure per repeat.
        looks: looks of an experiment that measures until intervals are narrow (lab.results.statistics).

    Raises:
        SpecError: there are no samples, or one is not finite.
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
    """Indices of the samples far from the others. They are not excluded from any figure, but marked.

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
