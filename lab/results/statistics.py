"""Medians with intervals of order statistics, also where these decide how long is measured; and outliers.

What an interval takes for granted: independent repeats of one distribution, of any shape. Then the number of samples
below the median is binomial with p = 1/2, so the k-th smallest and k-th largest of n enclose it with
1 - 2 P(fewer than k below). Source for storage: Maricq et al., OSDI 2018.
The interval of a fixed number of repeats is that of scipy.stats.quantile_test (a test compares them); it is worked out
here since every screen shows it and scipy takes a second to load. Ratios need scipy: lab.results.ratios.

Measuring until an interval is narrow stops on lucky ones: with a look after every round, 6 % of all intervals miss
the median where 3 % are said to (tests/unit/results/test_looks.py). So it is looked at three times at most, at fixed
numbers of repeats, and the chances to miss at all looks together are 5 % at most; then whatever makes a cell stop, the
interval that it stops with covers with 95 %. That is so over all cells: of noisy ones those that stop early are still
the lucky ones. Source: Jennison and Turnbull, J. R. Stat. Soc. B 51 (1989), 305-361; a union bound over order
statistics stands in the place of their normal boundaries. Pure.
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
"""Reached from six repeats on; five give 93.75 %."""
_MISSES = 1 - WANTED_COVERAGE
FEWEST_FOR_INTERVAL = 6
DEFAULT_REPEATS = FEWEST_FOR_INTERVAL
"""The fewest whose range covers the median with 95 %."""


@dataclass(frozen=True, slots=True)
class InterimLook:
    """After ``n`` repeats the interval goes from the ``k``-th smallest to the ``k``-th largest."""

    n: int
    k: int

    @property
    def miss(self) -> float:
        """How often an interval of so many repeats does not hold the median."""
        return 1 - order_statistic_coverage(self.n, self.k)


class _Lengths(msgspec.Struct, frozen=True):
    """What an experiment's file says of its number of repeats; everything else in it is left unread."""

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
    """When it is looked whether a cell needs more repeats: first, last, and once between; () for a fixed number.

    The range of six repeats misses 3.1 %, which leaves 1.9 % to the others: half of that to the second look, which lies
    between the geometric and the arithmetic mean of the other two, where it uses its share best; the rest to the last.
    """
    if most_repeats <= repeats:
        return ()
    # With fewer than six no interval reaches 95 %, so nothing can be decided.
    first = max(repeats, FEWEST_FOR_INTERVAL)
    if first >= most_repeats:
        return (_largest(most_repeats, _MISSES),)
    # The range of six alone takes more than a third.
    made = [_largest(first, max(_MISSES / 3, InterimLook(first, 1).miss))]
    left = _MISSES - made[0].miss
    places = range(math.ceil(math.sqrt(first * most_repeats)), (first + most_repeats) // 2 + 1)
    between = [look for n in places if first < n < most_repeats and (look := _largest(n, left / 2)).miss <= left / 2]
    if between:
        made.append(max(between, key=lambda look: look.miss))
        left -= made[-1].miss
    return (*made, _largest(most_repeats, left))


def looks_of(record: ResultRecord) -> tuple[InterimLook, ...]:
    """Those of the experiment that a record is of; () where it measured a fixed number of repeats."""
    return _looks_in(record.experiment_toml)


@cache
def _looks_in(experiment_toml: str) -> tuple[InterimLook, ...]:
    try:
        lengths = convert(parse_toml(experiment_toml), _Lengths)
    except (SpecError, msgspec.ValidationError):
        # Written by another raidlab in another way.
        return ()
    if not 1 <= lengths.repeats <= lengths.most_repeats <= MOST_REPEATS:
        return ()
    return looks(lengths.repeats, lengths.most_repeats)


def order_statistic(n: int, planned: Sequence[InterimLook] = ()) -> tuple[int, float]:
    """The order statistic that bounds the interval of ``n`` repeats, and the coverage.

    With fewer repeats than the first look, nothing was decided yet, and the number counts as fixed. Between two looks
    (repeats that were lost, a run that was interrupted) the interval may miss as often as that of the next one.
    """
    if not planned or n < planned[0].n:
        k = _largest(n, _MISSES).k
        return k, order_statistic_coverage(n, k)
    nearest = next((look for look in planned if look.n >= n), planned[-1])
    k = nearest.k if n == nearest.n else _largest(n, nearest.miss).k
    return k, 1 - sum(look.miss for look in planned)


def _largest(n: int, misses: float) -> InterimLook:
    """The narrowest interval that misses at most so often; min..max where none does."""
    found = InterimLook(n, 1)
    while found.k + 1 <= (n + 1) // 2 and (narrower := InterimLook(n, found.k + 1)).miss <= misses:
        found = narrower
    return found


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

    def text(self, digits: int = 2) -> str:
        """``0.53 [0.50–0.56]``; of one sample without an interval."""
        middle = f"{self.median:.{digits}f}"
        return middle if self.n == 1 else f"{middle} [{self.low:.{digits}f}–{self.high:.{digits}f}]"


def estimate(samples: Sequence[float], looks: Sequence[InterimLook] = ()) -> Estimate:
    """The median and the tightest order statistics with 95 % or more; min..max where n is too small for that.

    Args:
        samples: one figure of each repeat.
        looks: those of an experiment that measures until intervals are narrow (lab.results.statistics).

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
