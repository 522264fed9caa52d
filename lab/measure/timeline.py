"""Samples of one or more recordings as a timeline. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.arrays.status import SyncAction
from lab.measure.samples import Rates, Sample, busy_fraction, rates_between
from lab.results.timeline import MemberRates, Stretch, Timeline

MOST_POINTS = 400
"""As many as a plot can show; counters make longer intervals as exact as short ones."""
_RECOVER = SyncAction.RECOVER.value


@dataclass(frozen=True, slots=True)
class Recording:
    """Samples without a gap, and what was going on."""

    name: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class _Point:
    earlier: Sample | None
    later: Sample

    def rates(self, device: str) -> Rates | None:
        return rates_between(self.earlier, self.later, device) if self.earlier else None


def timeline_of(recordings: Sequence[Recording], array: str, members: Sequence[str]) -> Timeline | None:
    """The recordings one after the other, on the machine's clock; None without two samples in any."""
    kept = [recording for recording in recordings if len(recording.samples) > 1]
    if not kept:
        return None
    step = math.ceil(sum(len(recording.samples) for recording in kept) / MOST_POINTS)
    points = [point for recording in kept for point in _points(recording.samples, step)]
    start = points[0].later.time_seconds
    whole = [point.rates(array) for point in points]
    return Timeline(
        seconds=tuple(point.later.time_seconds - start for point in points),
        read_iops=tuple(rates.read_iops if rates else None for rates in whole),
        write_iops=tuple(rates.write_iops if rates else None for rates in whole),
        wait_seconds=tuple(rates.mean_wait_seconds if rates else None for rates in whole),
        rebuilt_fraction=tuple(_rebuilt(point.later) for point in points),
        busy_fraction=tuple(busy_fraction(point.earlier, point.later) if point.earlier else None for point in points),
        members=tuple(_member(name, points) for name in members),
        stretches=tuple(_stretches(kept, start)),
    )


def _points(samples: Sequence[Sample], step: int) -> Iterator[_Point]:
    chosen = [*samples[:-1:step], samples[-1]]
    yield _Point(None, chosen[0])
    for earlier, later in pairwise(chosen):
        yield _Point(earlier, later)


def _rebuilt(sample: Sample) -> float | None:
    if sample.sync_action != _RECOVER or sample.sync_progress is None:
        return None
    return sample.sync_progress.fraction


def _member(name: str, points: Sequence[_Point]) -> MemberRates:
    rates = [point.rates(name) for point in points]
    return MemberRates(
        name=name,
        read_bytes_per_second=tuple(each.read_bytes_per_second if each else None for each in rates),
        written_bytes_per_second=tuple(each.write_bytes_per_second if each else None for each in rates),
    )


def _stretches(recordings: Sequence[Recording], start: float) -> Iterator[Stretch]:
    """Where each recording's name holds; a rebuild's is cut at where md begins and ends."""
    for recording in recordings:
        samples = recording.samples
        shown = [sample.time_seconds for sample in samples if _rebuilt(sample) is not None]
        begin, end = (shown[0], shown[-1]) if shown else (samples[0].time_seconds, samples[-1].time_seconds)
        yield Stretch(name=recording.name, start_seconds=begin - start, end_seconds=end - start)
