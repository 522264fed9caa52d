"""Measure a drive's mechanics by reading, and fit a drive model to the measurements.

The model has zones along the stroke of the arm, and a seek curve.
"""

from __future__ import annotations

import cmath
import math
import random
import statistics
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lab.disks.kinds import MAX_ZONES, DriveModel, Mechanics, Zone
from lab.errors import CommandFailed, LabError, SpecError
from lab.gates.decoding import read_seconds
from lab.machine.api import Machine
from lab.measure.rebuild import LONGEST_SECONDS, READ_PLACES
from lab.units import KIB, MIB, SECTOR_BYTES, human_bytes

PAGE = 4 * KIB
SAME_RATE = 0.04
"""Neighbouring places whose rates differ by less belong to one zone."""


def _page_at(offset: float) -> int:
    return int(offset) // PAGE * PAGE


def falling(rates: Sequence[tuple[int, float]]) -> list[tuple[int, float]]:
    """Make the rates non-increasing towards the inner tracks by averaging out increases (pool adjacent violators)."""
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
    """Maps fractions of the arm's stroke to byte offsets, since fast zones hold more bytes per unit of stroke."""

    bounds: tuple[float, ...]
    """Start offsets of the zones, then the size of the disk, in bytes."""
    shares: tuple[float, ...]
    """Share of the stroke before each bound."""
    rates: tuple[float, ...]
    """Bytes per second of each zone."""

    @classmethod
    def along(cls, rates: Sequence[tuple[int, float]], size_bytes: int) -> Stroke:
        """Group neighbouring places with about the same rate into zones."""
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
        widths = [end - begin for begin, end in pairwise(self.shares)]
        return list(zip(widths, self.rates, strict=True))

    def byte(self, share: float) -> int:
        """Return the offset of the page at a fraction of the stroke."""
        index = min(len(self.rates), bisect(self.shares, share)) - 1
        part = (share - self.shares[index]) / (self.shares[index + 1] - self.shares[index])
        return _page_at(self.bounds[index] + part * (self.bounds[index + 1] - self.bounds[index] - PAGE))

    def tracks(self, turn: float) -> int:
        """Estimate the number of tracks, as if all were on one surface."""
        mean_track = sum(share * rate for share, rate in self.zones) * turn
        return max(100, round(self.bounds[-1] / mean_track))


@dataclass(frozen=True, slots=True)
class Curve:
    """The seek time in seconds as a function of the distance in tracks."""

    a_short: float
    b_short: float
    until: int
    a_long: float
    b_long: float


def _fit_curve(seeks: Sequence[tuple[float, float]], tracks: int) -> Curve:
    """Fit, by least squares, a square root up to a certain distance, and a line beyond it.

    ``seeks`` are six or more pairs (distance as a fraction of the stroke, seconds), sorted by distance.
    """
    fits: list[tuple[float, Curve]] = []
    for split in range(3, len(seeks) - 2):
        short, long = seeks[:split], seeks[split:]
        a_short, b_short, error_short = _line([(math.sqrt(share * tracks), seconds) for share, seconds in short])
        a_long, b_long, error_long = _line([(share * tracks, seconds) for share, seconds in long])
        until = max(1, round((short[-1][0] + long[0][0]) / 2 * tracks))
        fits.append((error_short + error_long, Curve(a_short, b_short, until, a_long, b_long)))
    return min(fits, key=lambda fit: fit[0])[1]


def _line(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Fit a line, and return its intercept and slope, neither below 0, and the sum of squared errors."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    slope, intercept = statistics.linear_regression(xs, ys)
    if slope < 0:
        slope, intercept = 0.0, statistics.fmean(ys)
    elif intercept < 0:
        slope, intercept = statistics.linear_regression(xs, ys, proportional=True)
    return intercept, slope, sum((intercept + slope * x - y) ** 2 for x, y in points)


Place = tuple[int, int]
"""Byte offset and length."""
Times = tuple[float, float]
"""Start and end of a read, in seconds."""
Read = Callable[[Sequence[Place], int], list[Times]]
"""Reads the places at the given queue depth, and returns the times of each read."""

LEAST_BYTES = 16 * MIB
SEED = 1994

TURN_READS = 60
SHORTEST_TURN, LONGEST_TURN = 0.0037, 0.0175
"""16 000 to 3400 revolutions per minute."""
COHERENT = 0.6
"""Minimum coherence of the platter's phases (1: all equal); chance alone gives about 0.25."""
RATE_PLACES, BURSTS = 24, 3
BURST_READS, BURST_BYTES, BURST_DEPTH, STREAM_BYTES = 4, 512 * KIB, 4, 128 * KIB
SEEK_DISTANCES = 14
"""Six or more, since a curve is fitted to at least three on each side of its bend."""
SHORTEST_SHARE, LONGEST_SHARE = 0.002, 0.95
SHORTEST_TRACKS = 40
"""On a drive with many surfaces, a shorter distance may not need a seek at all."""
SCATTER_TRACKS = 4
SEEK_PAIRS = 40
GAPS = 48
QUEUE_READS, QUEUE_DEPTH = 96, 32
QUEUE_GAIN = 1.25
"""Threshold for the speed-up at queue depth 32. Drives that reorder commands gain far more, others hardly anything."""
NOMINAL_READ_AHEAD, NOMINAL_WRITE_CACHE = 256 * KIB, 8 * MIB
"""Typical values of two properties of a drive that cannot be measured by reading."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The fitted drive model, and the quality of the fit."""

    model: DriveModel
    coherence: float
    """Coherence of the platter's phases, 0 to 1."""
    seek_error_seconds: float
    """Root mean square of measured minus fitted seek times."""
    seeks: tuple[tuple[float, float], ...]
    """Measured seek times, as pairs of share of the stroke and seconds."""
    rates: tuple[tuple[int, float], ...]
    """Measured transfer rates, as pairs of byte offset and bytes per second."""


def calibrate(read: Read, size_bytes: int, *, title: str, has_write_cache: bool) -> Calibration:
    """Measure a drive. This takes about 25 s at 7200 rpm.

    Raises SpecError if the disk is too small, and LabError if it does not rotate.
    """
    if size_bytes < LEAST_BYTES:
        raise SpecError(
            f"a disk of {human_bytes(size_bytes)} is too small", hint=f"use {human_bytes(LEAST_BYTES)} or more"
        )
    source = random.Random(SEED)
    turn, coherence = _turn(read, size_bytes, source)
    overhead, reads_ahead = _overhead(read, size_bytes, turn, source)
    rates = _rates(read, size_bytes, reads_ahead=reads_ahead)
    stroke = Stroke.along(rates, size_bytes)
    seeks = _seeks(read, stroke, turn, overhead, source)
    tracks = stroke.tracks(turn)
    curve = _fit_curve(seeks, tracks)
    # The measured rates include one rotation and one track switch per track.
    switch = curve.a_short + curve.b_short
    zones = [
        Zone(share=round(share, 4), sectors_per_track=max(8, round(rate * (turn + switch) / SECTOR_BYTES)))
        for share, rate in stroke.zones
    ]
    mechanics = Mechanics(
        rpm=round(60 / turn, 1),
        cylinders=tracks,
        surfaces=1,
        zones=tuple(zones),
        seek_short_a_ms=round(curve.a_short * 1000, 4),
        seek_short_b_ms=round(curve.b_short * 1000, 6),
        seek_short_cylinders=curve.until,
        seek_long_a_ms=round(curve.a_long * 1000, 4),
        seek_long_b_ms=round(curve.b_long * 1000, 8),
        track_switch_ms=0.0,
        overhead_ms=round(overhead * 1000, 3),
        queue_depth=_queue_depth(read, size_bytes, source),
        read_ahead_bytes=NOMINAL_READ_AHEAD if reads_ahead else 0,
        write_cache_bytes=NOMINAL_WRITE_CACHE if has_write_cache else 0,
    )
    errors = [(mechanics.seek_seconds(share * tracks) - seconds) ** 2 for share, seconds in seeks]
    return Calibration(
        DriveModel(title=title, mechanics=mechanics),
        coherence,
        math.sqrt(statistics.fmean(errors)),
        tuple(seeks),
        tuple(rates),
    )


def reader(machine: Machine, node: str) -> Read:
    """Return a reader for a disk of the machine. The reader raises LabError with the machine's error message."""

    def read(places: Sequence[Place], depth: int) -> list[Times]:
        text = "".join(f"{offset} {length}\n" for offset, length in places)
        try:
            times = machine.call(READ_PLACES, (node, str(depth), text), timeout_seconds=LONGEST_SECONDS)
        except CommandFailed as error:
            raise LabError(f"{node} cannot be read: {error.stderr_tail}") from error
        lines = [line.split() for line in times.splitlines()]
        found = [(read_seconds(line[0], node), read_seconds(line[1], node)) for line in lines if len(line) == 2]
        if len(found) != len(places):
            raise LabError(f"{node}: {len(found)} of {len(places)} reads were reported", hint="check the machine's log")
        return found

    return read


def _anywhere(size_bytes: int, source: random.Random) -> Place:
    return _page_at(source.random() * (size_bytes - PAGE)), PAGE


def _turn(read: Read, size_bytes: int, source: random.Random) -> tuple[float, float]:
    """Measure the rotation time in seconds and its coherence by reading one page repeatedly among random pages."""
    page = _page_at(size_bytes * 0.3), PAGE
    between = 1
    while True:
        places = [
            place
            for _ in range(TURN_READS)
            for place in (page, *(_anywhere(size_bytes, source) for _ in range(between)))
        ]
        times = read(places, 1)[:: between + 1]
        # A hit in the drive's buffer does not wait for the platter, so read enough in between to evict the page.
        if statistics.median(end - begin for begin, end in times) > 0.001 or between > 100:
            break
        between *= 4
    ends = [end - times[0][1] for _, end in times]
    turn, coherence = _period(ends)
    if coherence < COHERENT:
        raise LabError(
            "no rotation was detected, because the disk is solid-state, virtual, or busy with other work",
            hint="calibrate a drive that rotates, on an otherwise idle computer",
        )
    return turn, coherence


def _period(ends: Sequence[float]) -> tuple[float, float]:
    """Find the longest period at which all times have nearly the same phase, and its coherence."""
    span = ends[-1] - ends[0]
    step = 0.1 * SHORTEST_TURN / span
    count = int(math.log(LONGEST_TURN / SHORTEST_TURN) / step)
    candidates = [SHORTEST_TURN * math.exp(index * step) for index in range(count)]
    found = [(_coherence(ends, each), each) for each in candidates]
    best = max(found)[0]
    # One half and one third of the rotation time are nearly as coherent as the rotation time itself.
    longest = max(each for value, each in found if value > 0.9 * best)
    near = [longest * (1 + step * (index - 300) / 20) for index in range(601)]
    value, turn = max((_coherence(ends, each), each) for each in near)
    return turn, value


def _coherence(ends: Sequence[float], period: float) -> float:
    return abs(sum(cmath.exp(2j * math.pi * end / period) for end in ends)) / len(ends)


def _rates(read: Read, size_bytes: int, *, reads_ahead: bool) -> list[tuple[int, float]]:
    """Measure the transfer rates of bursts of sequential reads, as pairs of byte offset and bytes per second.

    A drive that reads ahead reaches its full rate with small reads at queue depth 1. On other drives, the next request
    must already be queued when the previous one ends.
    """
    length, depth = (STREAM_BYTES, 1) if reads_ahead else (BURST_BYTES, BURST_DEPTH)
    count = _page_at(min(BURST_READS * BURST_BYTES, size_bytes / RATE_PLACES)) // length
    found = []
    for index in range(RATE_PLACES):
        start = _page_at(index * (size_bytes - length * count) / (RATE_PLACES - 1))
        places = [(start + length * number, length) for number in range(count)]
        bursts = [[end for _, end in read(places, depth)] for _ in range(BURSTS)]
        paces = [(count - 1) * length / (max(ends) - min(ends)) for ends in bursts]
        found.append((start + length * count // 2, statistics.median(paces)))
    return found


def _overhead(read: Read, size_bytes: int, turn: float, source: random.Random) -> tuple[float, bool]:
    """Measure the minimum time of a read in seconds, and whether the drive reads ahead.

    A second read just after the first has no rotational delay if its sector is about to pass under the head.
    """
    places: list[Place] = []
    for gap in range(GAPS):
        start = _page_at(source.random() * (size_bytes - 4 * MIB))
        places += [(start, PAGE), (start + PAGE + gap // 2 * 2 * PAGE, PAGE)]
    taken = [end - begin for begin, end in read(places, 1)[1::2]]
    run = _page_at(size_bytes * 0.6)
    following = [end - begin for begin, end in read([(run + index * PAGE, PAGE) for index in range(16)], 1)[1:]]
    reads_ahead = statistics.median(following) < 0.5 * turn
    return min(*taken, *following), reads_ahead


def _seeks(
    read: Read, stroke: Stroke, turn: float, overhead: float, source: random.Random
) -> list[tuple[float, float]]:
    shortest = min(0.02, max(SHORTEST_SHARE, SHORTEST_TRACKS / stroke.tracks(turn)))
    growth = (LONGEST_SHARE / shortest) ** (1 / (SEEK_DISTANCES - 1))
    distances = [shortest * growth**index for index in range(SEEK_DISTANCES)]
    order = [distance for distance in distances for _ in range(SEEK_PAIRS)]
    # Random order spreads drift and other load on the computer evenly over all distances.
    source.shuffle(order)
    places: list[Place] = []
    for distance in order:
        start = source.random() * (1 - distance)
        # At a fixed distance in bytes the rotational delay would always be the same.
        somewhere = source.random() * SCATTER_TRACKS / stroke.tracks(turn)
        ends = [stroke.byte(start), stroke.byte(min(1.0, start + distance + somewhere))]
        source.shuffle(ends)
        places += [(ends[0], PAGE), (ends[1], PAGE)]
    taken: dict[float, list[float]] = {distance: [] for distance in distances}
    for distance, (begin, end) in zip(order, read(places, 1)[1::2], strict=True):
        taken[distance].append(end - begin)
    overhead += PAGE / statistics.fmean(stroke.rates)
    # Rotational delay is uniform over one rotation, so the minimum of n samples is 1 / (n + 1) of it on average.
    return [(distance, max(0.0, min(found) - turn / (len(found) + 1) - overhead)) for distance, found in taken.items()]


def _queue_depth(read: Read, size_bytes: int, source: random.Random) -> int:
    """Return 32 if the drive reorders queued commands, else 1."""

    def seconds(depth: int) -> float:
        times = read([_anywhere(size_bytes, source) for _ in range(QUEUE_READS)], depth)
        return max(end for _, end in times) - min(begin for begin, _ in times)

    return QUEUE_DEPTH if seconds(1) > QUEUE_GAIN * seconds(QUEUE_DEPTH) else 1
