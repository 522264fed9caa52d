"""Fit zones along the stroke of the arm, and a seek curve, to the measured times of a drive."""

from __future__ import annotations

import math
import statistics
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.disks.drive_models import MAX_ZONES
from lab.errors import SpecError
from lab.units import KIB

PAGE = 4 * KIB
SAME_RATE = 0.04
"""Neighbouring places whose rates differ by less belong to one zone."""


def page_at(offset: float) -> int:
    """Offset of the page that contains a byte."""
    return int(offset) // PAGE * PAGE


def falling(rates: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """The rates, made non-increasing towards the inside: increases are noise and averaged (pool adjacent violators)."""
    pools: list[tuple[float, list[int]]] = []
    for offset, rate in rates:
        pools.append((rate, [offset]))
        while len(pools) > 1 and pools[-1][0] > pools[-2][0]:
            (last, inner), (before, outer) = pools.pop(), pools.pop()
            mean = (last * len(inner) + before * len(outer)) / (len(inner) + len(outer))
            pools.append((mean, outer + inner))
    return [(offset, rate) for rate, offsets in pools for offset in offsets]


@dataclass(frozen=True, slots=True)
class Stroke:
    """Maps shares of the arm's stroke to bytes: fast zones hold more bytes in each part of the stroke."""

    bounds: tuple[float, ...]
    """Start offsets of the zones, then the size of the disk, in bytes."""
    shares: tuple[float, ...]
    """Share of the stroke before each bound."""
    rates: tuple[float, ...]
    """Bytes per second of each zone."""

    @classmethod
    def along(cls, rates: Sequence[tuple[int, float]], size_bytes: int) -> Stroke:
        """Group neighbouring places of about the same rate into zones."""
        groups: list[list[tuple[int, float]]] = []
        for place in falling(rates):
            middle = statistics.median(rate for _, rate in groups[-1]) if groups else 0.0
            if groups and (abs(place[1] / middle - 1) < SAME_RATE or len(groups) == MAX_ZONES):
                groups[-1].append(place)
            else:
                groups.append([place])
        between = [(left[-1][0] + right[0][0]) / 2 for left, right in pairwise(groups)]
        bounds = [0.0, *between, float(size_bytes)]
        pace = [statistics.median(rate for _, rate in group) for group in groups]
        parts = [(end - begin) / rate for begin, end, rate in zip(bounds, bounds[1:], pace, strict=False)]
        shares = [sum(parts[:index]) / sum(parts) for index in range(len(parts) + 1)]
        return cls(tuple(bounds), tuple(shares), tuple(pace))

    @property
    def zones(self) -> list[tuple[float, float]]:
        """Share of the stroke and rate of each zone."""
        widths = [end - begin for begin, end in pairwise(self.shares)]
        return list(zip(widths, self.rates, strict=True))

    def byte(self, share: float) -> int:
        """Offset of the page at a share of the stroke."""
        index = min(len(self.rates), bisect(self.shares, share)) - 1
        part = (share - self.shares[index]) / (self.shares[index + 1] - self.shares[index])
        return page_at(self.bounds[index] + part * (self.bounds[index + 1] - self.bounds[index] - PAGE))

    def tracks(self, turn: float) -> int:
        """Approximate number of tracks, as if all were on one surface."""
        mean_track = sum(share * rate for share, rate in self.zones) * turn
        return max(100, round(self.bounds[-1] / mean_track))


@dataclass(frozen=True, slots=True)
class Curve:
    """Seek time in seconds over a distance in tracks."""

    a_short: float
    b_short: float
    until: int
    a_long: float
    b_long: float


def fit_curve(seeks: Sequence[tuple[float, float]], tracks: int) -> Curve:
    """Least-squares fit of a square root up to a distance, and a line from there on.

    ``seeks``: share of the stroke and seconds, sorted by distance. Raises SpecError for fewer than five.
    """
    best: tuple[float, Curve] | None = None
    for split in range(3, len(seeks) - 2):
        short, long = seeks[:split], seeks[split:]
        a_short, b_short, error_short = _line([(math.sqrt(share * tracks), seconds) for share, seconds in short])
        a_long, b_long, error_long = _line([(share * tracks, seconds) for share, seconds in long])
        until = max(1, round((short[-1][0] + long[0][0]) / 2 * tracks))
        curve = Curve(a_short, b_short, until, a_long, b_long)
        if best is None or error_short + error_long < best[0]:
            best = error_short + error_long, curve
    if best is None:
        raise SpecError("too few seek distances for a curve", hint="measure five or more")
    return best[1]


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Intercept and slope, neither below 0, and the sum of squared errors."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    slope, intercept = statistics.linear_regression(xs, ys)
    if slope < 0:
        slope, intercept = 0.0, statistics.fmean(ys)
    elif intercept < 0:
        slope, intercept = statistics.linear_regression(xs, ys, proportional=True)
    return intercept, slope, sum((intercept + slope * x - y) ** 2 for x, y in points)
