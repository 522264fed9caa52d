"""Intervals of ratios from rank tests: the ratios that the exact test does not reject. Loads scipy on first use.

No distribution is assumed. Interleaved repeats are compared pair by pair (Wilcoxon's signed ranks of the logarithms:
under equal conditions the ratio of a pair is as likely above 1 as below), runs apart by Mann-Whitney's test.
Sources: Hollander, Wolfe, Chicken, Nonparametric Statistical Methods, sections 3.3 and 4.3; scipy.stats.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

SIGNIFICANCE = 0.05
_EXACT_PAIRS = 50
"""Up to here scipy's signed-rank distribution is exact; above, its normal approximation is as good."""


_DRAWS = 500
"""Of the bootstrap: its interval ends then waver by less than a step of tau."""


@dataclass(frozen=True, slots=True)
class RankInterval:
    """The ratios that a test does not reject."""

    low: float
    high: float
    coverage: float
    """At least this probability to hold the true ratio; below 95 % where the samples are too few for the test."""
    p_value: float
    """Of "there is no difference", two-sided."""


def paired_interval(numerator: Sequence[float], denominator: Sequence[float]) -> RankInterval:
    """Of interleaved repeats: what drifts in both alike drops out. All values must be above 0."""
    logs = [math.log(a / b) for a, b in zip(numerator, denominator, strict=True)]
    means = [(a + b) / 2 for number, a in enumerate(logs) for b in logs[number:]]
    return _inverted(means, lambda shifts: _signed_rank_p(logs, shifts))


def unpaired_interval(numerator: Sequence[float], denominator: Sequence[float]) -> RankInterval:
    """Of two runs of their own. All values must be above 0."""
    above, below = [math.log(value) for value in numerator], [math.log(value) for value in denominator]
    return _inverted([a - b for a in above for b in below], lambda shifts: _mann_whitney_p(above, below, shifts))


def agreement(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau-b of two orders: 1 the same order, -1 the reverse; nan where one of them is all ties."""
    from scipy import stats

    return float(stats.kendalltau(first, second).statistic)


def agreement_interval(
    first: Sequence[Sequence[float]], second: Sequence[Sequence[float]]
) -> tuple[float, float, float]:
    """Kendall's tau of the medians of two lists of samples, and the 95 % interval of a percentile bootstrap.

    Samples are drawn anew from the repeats of each (the same draws every time), so the interval tells how far the
    order hangs on which repeats were measured.
    """
    import numpy as np

    draw = np.random.default_rng(1)
    medians = [[float(np.median(each)) for each in side] for side in (first, second)]
    drawn = [
        np.array([np.median(draw.choice(each, (_DRAWS, len(each))), axis=1) for each in map(np.asarray, side)])
        for side in (first, second)
    ]
    taus = [agreement(list(drawn[0][:, column]), list(drawn[1][:, column])) for column in range(_DRAWS)]
    known = [tau for tau in taus if not math.isnan(tau)]
    low, high = np.percentile(known, [2.5, 97.5]) if known else (math.nan, math.nan)
    return agreement(*medians), float(low), float(high)


def adjusted(p_values: Sequence[float]) -> list[float]:
    """P values of several comparisons at once, so that of the differences claimed 5 % at most are none.

    Source: Benjamini and Hochberg 1995.
    """
    from scipy import stats

    return [float(value) for value in stats.false_discovery_control(p_values)] if len(p_values) else []


def _inverted(candidates: list[float], p_of: Callable[[list[float]], Any]) -> RankInterval:
    """The closed set of shifts that the test accepts.

    A rank test changes its mind only at the candidates, so it is asked once between each two and once outside.
    """
    steps = sorted(set(candidates))
    gaps = [steps[0] - 1, *((a + b) / 2 for a, b in pairwise(steps)), steps[-1] + 1]
    p_values = [float(p) for p in p_of([*gaps, 0.0])]
    p_zero = p_values.pop()
    accepted = [number for number, p in enumerate(p_values) if p > SIGNIFICANCE]
    rejected = [p for p in p_values if p <= SIGNIFICANCE]
    if not rejected:
        # Too few samples for 95 %: everything that was seen, and what that covers.
        return RankInterval(math.exp(steps[0]), math.exp(steps[-1]), 1 - p_values[0], p_zero)
    if not accepted:
        return RankInterval(math.exp(steps[0]), math.exp(steps[-1]), 1 - max(rejected), p_zero)
    low, high = steps[max(0, accepted[0] - 1)], steps[min(len(steps) - 1, accepted[-1])]
    return RankInterval(math.exp(low), math.exp(high), 1 - max(rejected), p_zero)


def _signed_rank_p(logs: list[float], shifts: list[float]) -> Any:
    import numpy as np
    from scipy import stats

    differences = np.asarray(logs)[:, None] - np.asarray(shifts)
    if len(logs) > _EXACT_PAIRS:
        return stats.wilcoxon(differences, zero_method="zsplit", method="asymptotic", axis=0).pvalue
    # Exact zeros occur only at 0 itself; splitting them keeps the test's size.
    return stats.wilcoxon(differences, zero_method="zsplit", method="exact", axis=0).pvalue


def _mann_whitney_p(above: list[float], below: list[float], shifts: list[float]) -> Any:
    import numpy as np
    from scipy import stats

    moved = np.asarray(above)[:, None] - np.asarray(shifts)
    others = np.repeat(np.asarray(below)[:, None], len(shifts), axis=1)
    method = "exact" if len(above) * len(below) <= 2500 else "asymptotic"
    return stats.mannwhitneyu(moved, others, method=method, axis=0).pvalue
