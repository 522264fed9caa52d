"""Ratios of two configurations: Hodges-Lehmann estimates, with confidence intervals from inverting exact rank tests.

Interleaved repeats are paired by number and tested with Wilcoxon's signed-rank test on the logarithms of the pairs'
ratios; it assumes that these logarithms are symmetric about the true one, as they are if both configurations have the
same noise. Separate runs use the Mann-Whitney test, which assumes that the two distributions differ only by a factor.
Sources: Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, chapters 3 and 4; scipy.stats (loaded when used).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any, Self

from lab.errors import SpecError
from lab.results.statistics import Estimate

SIGNIFICANCE = 0.05
_EXACT_PAIRS = 50
"""Up to this number the exact signed-rank distribution of scipy is used; above, the normal approximation is as good."""
_EXACT_PRODUCT = 2500


class Side(StrEnum):
    """Alternative hypothesis of a test: the ratio is different, greater or less."""

    TWO_SIDED = "two-sided"
    GREATER = "greater"
    LESS = "less"


@dataclass(frozen=True, slots=True)
class Ratio(Estimate):
    """``median`` is the Hodges-Lehmann estimate, which lies in the interval; ``n`` the pairs, or the smaller count."""

    p_value: float
    """Two-sided p-value of "there is no difference", for this ratio alone."""


@dataclass(frozen=True, slots=True)
class RatioTest:
    """Logarithms of the samples of one ratio, and rank tests of any value of it."""

    first: tuple[float, ...]
    """Logarithms of the pairs' ratios, or of the numerator's samples."""
    second: tuple[float, ...] | None
    """Logarithms of the denominator's samples; None for pairs."""

    @classmethod
    def paired(cls, numerator: Mapping[int, float], denominator: Mapping[int, float]) -> Self:
        """Test of interleaved repeats, by number: common drift cancels out. Only numbers that both have are used.

        Raises SpecError if they share none, or if a value is not above 0.
        """
        shared = [number for number in numerator if number in denominator]
        if not shared:
            raise SpecError("there is no repeat that both have", hint="measure both in the same rounds")
        _require_speeds([*numerator.values(), *denominator.values()])
        return cls(tuple(math.log(numerator[number] / denominator[number]) for number in sorted(shared)), None)

    @classmethod
    def apart(cls, numerator: Sequence[float], denominator: Sequence[float]) -> Self:
        """Test of two separate runs. Raises SpecError without samples, or if a value is not above 0."""
        if not numerator or not denominator:
            raise SpecError("no samples: there is no ratio", hint="measure first")
        _require_speeds([*numerator, *denominator])
        return cls(tuple(map(math.log, numerator)), tuple(map(math.log, denominator)))

    @property
    def n(self) -> int:
        """Number of pairs, or of samples of the smaller group."""
        return len(self.first) if self.second is None else min(len(self.first), len(self.second))

    @property
    def smallest_p_value(self) -> float:
        """Smallest two-sided p-value that is possible with this number of samples, however large the difference."""
        return smallest_p_value(len(self.first), None if self.second is None else len(self.second))

    def p_value(self, side: Side = Side.TWO_SIDED, *, at: float = 1.0) -> float:
        """p-value of the ratio being ``at`` (two-sided), at most ``at`` (GREATER) or at least ``at`` (LESS)."""
        return float(self._p_values([math.log(at)], side)[0])

    def equivalence_p_value(self, margin: float, *, at: float = 1.0) -> float:
        """p-value of the ratio differing from ``at`` by more than ``margin``: two one-sided tests (Schuirmann 1987)."""
        above, below = at / (1 + margin), at * (1 + margin)
        return max(self.p_value(Side.GREATER, at=above), self.p_value(Side.LESS, at=below))

    @property
    def ratio(self) -> Ratio:
        """The estimate and the closed interval of ratios that the test does not reject at 5 %.

        The result of a rank test changes only at the candidates, so one test is made between each two and one outside.
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
        # Too few samples for 95 %: the full range, with its actual coverage.
        coverage = 1 - max(rejected, default=p_values[0])
        middle = statistics.median(candidates)
        return Ratio(math.exp(middle), math.exp(low), math.exp(high), self.n, coverage, p_zero)

    def _candidates(self) -> list[float]:
        """Means of any two pairs, or differences of any two samples; their median is the estimate."""
        if self.second is None:
            return [(a + b) / 2 for number, a in enumerate(self.first) for b in self.first[number:]]
        return [a - b for a in self.first for b in self.second]

    def _p_values(self, shifts: Sequence[float], side: Side) -> Any:
        import numpy as np
        from scipy import stats

        moved = np.asarray(self.first)[:, None] - np.asarray(shifts)
        if self.second is None:
            # Exact zeros occur only if two values are equal; splitting them keeps the size of the test.
            method = "exact" if len(self.first) <= _EXACT_PAIRS else "asymptotic"
            return stats.wilcoxon(moved, zero_method="zsplit", method=method, alternative=side, axis=0).pvalue
        others = np.repeat(np.asarray(self.second)[:, None], len(shifts), axis=1)
        method = "exact" if len(self.first) * len(self.second) <= _EXACT_PRODUCT else "asymptotic"
        return stats.mannwhitneyu(moved, others, method=method, alternative=side, axis=0).pvalue


def paired_ratio(numerator: Mapping[int, float], denominator: Mapping[int, float]) -> Ratio:
    """The ratio of interleaved repeats, by number. Raises SpecError as RatioTest.paired."""
    return RatioTest.paired(numerator, denominator).ratio


def ratio_apart(numerator: Sequence[float], denominator: Sequence[float]) -> Ratio:
    """The ratio of two separate runs. Raises SpecError as RatioTest.apart."""
    return RatioTest.apart(numerator, denominator).ratio


def smallest_p_value(first: int, second: int | None) -> float:
    """For a two-sided test of ``first`` pairs, or of ``first`` and ``second`` samples of separate runs."""
    outcomes = 2**first if second is None else math.comb(first + second, first)
    return min(1.0, 2 / outcomes)


def repeats_needed(comparisons: int, *, are_paired: bool) -> int:
    """Minimum repeats to detect one clear difference among this number of comparisons, if all others have none."""
    count = 1
    while smallest_p_value(count, None if are_paired else count) > SIGNIFICANCE / comparisons:
        count += 1
    return count


def _require_speeds(values: Iterable[float]) -> None:
    if not all(math.isfinite(value) and value > 0 for value in values):
        raise SpecError(
            "a ratio of values that are no number, 0 or less means nothing", hint="look at the repeats that gave them"
        )
