"""Does a quantity grow? An estimate that single jumps and noise do not move, over rounds of work."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

Series = Sequence[tuple[float, float]]
"""Pairs of round and value."""


def growth_per_round(groups: Sequence[Series], *, skip: int = 0) -> float | None:
    """Theil and Sen's slope: the median of the slopes of all pairs. None where there are no pairs.

    Values are compared within a group only (one machine, say), and its first ``skip`` rounds are left out: there what
    is used for the first time is loaded. Source: P. K. Sen, Estimates of the Regression Coefficient Based on Kendall's
    Tau, JASA 63 (1968); it bears 29 % of wild values.
    """
    slopes = [
        (later - earlier) / (end - begin)
        for group in groups
        for index, (begin, earlier) in enumerate(group[skip:])
        for end, later in group[skip + index + 1 :]
    ]
    return statistics.median(slopes) if slopes else None
