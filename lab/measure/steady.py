"""Steady-state check of a measured interval: five equal slices of it are compared. Pure.

The thresholds are those of SNIA's Solid State Storage Performance Test Specification: (max - min) at most 20 % of the
mean, and the best-fit line at most 10 % of the mean from end to end. It is not SNIA's test, which repeats rounds over
all its loads, one minute each, until five of them agree.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from itertools import pairwise

from lab.measure.samples import Sample
from lab.results.record import SteadyFigures

SLICES = 5
MAX_RANGE_FRACTION = 0.20
MAX_SLOPE_FRACTION = 0.10
FEWEST_IOS = 650
"""Per slice. Poisson counts have a relative standard deviation of 1/√N: with fewer I/Os, five slices of a perfectly
steady load exceed a threshold in more than 5 % of cases, mostly that of the slope (1.26/√N from end to end). The range
alone would need 372: 3.86² / 0.2², by the studentised range. tests/unit/measure/test_steady.py simulates this."""


def steadiness(samples: Sequence[Sample], device: str, seconds: float) -> SteadyFigures | None:
    """Compare the I/Os of ``device`` in five equal slices of the measured interval; None if there is too little data.

    The interval is the last ``seconds`` with I/O: the device is idle for a while before fio exits.
    """
    values = list(_slice_rates(_busy_end(samples, device, seconds), device))
    return steady_figures(values) if len(values) == SLICES else None


def steady_figures(values: Sequence[float]) -> SteadyFigures | None:
    """Apply the thresholds to a figure of consecutive slices; None if the mean is 0 or there are fewer than two."""
    if len(values) < 2 or statistics.fmean(values) <= 0:
        return None
    mean = statistics.fmean(values)
    slope = statistics.linear_regression(range(len(values)), values).slope
    range_fraction = (max(values) - min(values)) / mean
    slope_fraction = abs(slope) * (len(values) - 1) / mean
    return SteadyFigures(
        range_fraction=range_fraction,
        slope_fraction=slope_fraction,
        is_steady=range_fraction <= MAX_RANGE_FRACTION and slope_fraction <= MAX_SLOPE_FRACTION,
    )


def _busy_end(samples: Sequence[Sample], device: str, seconds: float) -> Sequence[Sample]:
    """Samples of the measured interval without its edges, where a sampling interval lies only partly inside."""
    counts = [_count(sample, device) if device in sample.disks else 0 for sample in samples]
    busy = [place for place in range(1, len(samples)) if counts[place] > counts[place - 1]]
    if not busy:
        return ()
    end = busy[-1] - 1
    tick = samples[1].time_seconds - samples[0].time_seconds
    begin = samples[busy[-1]].time_seconds - seconds + tick
    return [sample for sample in samples[: end + 1] if sample.time_seconds >= begin]


def _count(sample: Sample, device: str) -> int:
    return sample.disks[device].reads + sample.disks[device].writes


def _slice_rates(samples: Sequence[Sample], device: str) -> Iterator[float]:
    """I/Os per second of each slice; none if there are too few, or a sample lacks the device."""
    counted = [(sample.time_seconds, _count(sample, device)) for sample in samples if device in sample.disks]
    if len(counted) <= SLICES or len(counted) < len(samples) or counted[-1][1] - counted[0][1] < SLICES * FEWEST_IOS:
        return
    begin, end = counted[0][0], counted[-1][0]
    edges = [
        min(counted, key=lambda one: abs(one[0] - (begin + (end - begin) * n / SLICES))) for n in range(SLICES + 1)
    ]
    for (t0, n0), (t1, n1) in pairwise(edges):
        if t1 > t0:
            yield (n1 - n0) / (t1 - t0)
