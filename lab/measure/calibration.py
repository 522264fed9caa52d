"""Measures a drive's mechanics by reading, and says which drive model would behave like it.

Methods after Worthington, Ganger, Patt and Wilkes, "On-line extraction of SCSI disk drive parameters" (SIGMETRICS
1995), those that need no writes: when one sector comes by again and again tells the turn; the shortest of many accesses
over one distance is the seek; the rate along the disk tells the zones.
"""

from __future__ import annotations

import cmath
import math
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lab.disks.drive_models import DriveModel, Mechanics, Zone
from lab.errors import CommandFailed, LabError, SpecError
from lab.gates.numbers import told_seconds
from lab.machine.api import Machine
from lab.measure.drive_curves import PAGE, Stroke, fit_curve, page_at
from lab.measure.programs import LONGEST_SECONDS, READ_PLACES
from lab.units import KIB, MIB, SECTOR_BYTES, human_bytes

Place = tuple[int, int]
"""Byte offset and length."""
Times = tuple[float, float]
"""Begin and end of a read, in seconds."""
Read = Callable[[Sequence[Place], int], list[Times]]
"""Reads places with so many reads in flight."""

LEAST_BYTES = 16 * MIB
SEED = 1994

TURN_READS = 60
SHORTEST_TURN, LONGEST_TURN = 0.0037, 0.0175
"""16 000 to 3400 turns a minute."""
COHERENT = 0.6
"""How alike the phases of the platter must be (1: all the same); chance alone gives about 0.25."""
RATE_PLACES, BURSTS = 24, 3
BURST_READS, BURST_BYTES, BURST_DEPTH, STREAM_BYTES = 4, 512 * KIB, 4, 128 * KIB
SEEK_DISTANCES = 14
SHORTEST_SHARE, LONGEST_SHARE = 0.002, 0.95
SHORTEST_TRACKS = 40
"""Shorter seeks might be none at all, on a drive of many surfaces."""
SCATTER_TRACKS = 4
SEEK_PAIRS = 40
GAPS = 48
QUEUE_READS, QUEUE_DEPTH = 96, 32
QUEUE_GAIN = 1.25
"""A drive that puts its commands in order gains far more by 32 in flight; one that does not, hardly anything."""
NOMINAL_READ_AHEAD, NOMINAL_WRITE_CACHE = 256 * KIB, 8 * MIB
"""What reading does not tell, as drives commonly have it."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was found, and how well it fits."""

    model: DriveModel
    coherence: float
    """Of the platter's phases, 0 to 1."""
    seek_error_seconds: float
    """Root mean square of measured minus fitted seek times."""
    seeks: tuple[tuple[float, float], ...]
    """Measured: share of the stroke, seconds."""
    rates: tuple[tuple[int, float], ...]
    """Measured: byte offset, bytes a second."""


def calibrate(
    read: Read, size_bytes: int, *, title: str, has_write_cache: bool, pairs: int = SEEK_PAIRS
) -> Calibration:
    """Measure the drive behind ``read``; takes about 25 s on a drive of 7200 rpm.

    ``pairs``: accesses for each seek distance. Raises SpecError for a disk that is too small, LabError for one that
    shows no rotation.
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
    seeks = _seeks(read, stroke, turn, overhead, source, pairs)
    tracks = stroke.tracks(turn)
    curve = fit_curve(seeks, tracks)
    # A turn and the move to the next track for each track: the rates hold both.
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
    """Reads places of a disk of the machine. The reader raises LabError with the machine's reason if one cannot."""

    def read(places: Sequence[Place], depth: int) -> list[Times]:
        text = "".join(f"{offset} {length}\n" for offset, length in places)
        try:
            times = machine.call(READ_PLACES, (node, str(depth), text), timeout_seconds=LONGEST_SECONDS)
        except CommandFailed as error:
            raise LabError(f"{node} cannot be read: {error.stderr_tail}") from error
        lines = [line.split() for line in times.splitlines()]
        found = [(told_seconds(line[0], node), told_seconds(line[1], node)) for line in lines if len(line) == 2]
        if len(found) != len(places):
            raise LabError(
                f"{node}: {len(found)} of {len(places)} reads were told of", hint="look at the machine's log"
            )
        return found

    return read


def _anywhere(size_bytes: int, source: random.Random) -> Place:
    return page_at(source.random() * (size_bytes - PAGE)), PAGE


def _turn(read: Read, size_bytes: int, source: random.Random) -> tuple[float, float]:
    """Seconds of a turn, and the coherence. The same page is read again and again, with other places in between."""
    page = page_at(size_bytes * 0.3), PAGE
    between = 1
    while True:
        places = [
            place
            for _ in range(TURN_READS)
            for place in (page, *(_anywhere(size_bytes, source) for _ in range(between)))
        ]
        times = read(places, 1)[:: between + 1]
        # A page that comes from the drive's buffer tells nothing: read so much in between that it is forgotten.
        if statistics.median(end - begin for begin, end in times) > 0.001 or between > 100:
            break
        between *= 4
    ends = [end - times[0][1] for _, end in times]
    turn, coherence = _period(ends)
    if coherence < COHERENT:
        raise LabError(
            "no rotation can be seen: the disk is solid-state, virtual, or busy with other work",
            hint="calibrate a drive that rotates, on a quiet computer",
        )
    return turn, coherence


def _period(ends: Sequence[float]) -> tuple[float, float]:
    """The longest period at which all times have nearly the same phase, and how alike the phases are."""
    span = ends[-1] - ends[0]
    step = 0.1 * SHORTEST_TURN / span
    count = int(math.log(LONGEST_TURN / SHORTEST_TURN) / step)
    candidates = [SHORTEST_TURN * math.exp(index * step) for index in range(count)]
    found = [(_coherence(ends, each), each) for each in candidates]
    best = max(found)[0]
    # Half and a third of the turn are nearly as good as the turn itself.
    longest = max(each for value, each in found if value > 0.9 * best)
    near = [longest * (1 + step * (index - 300) / 20) for index in range(601)]
    value, turn = max((_coherence(ends, each), each) for each in near)
    return turn, value


def _coherence(ends: Sequence[float], period: float) -> float:
    return abs(sum(cmath.exp(2j * math.pi * end / period) for end in ends)) / len(ends)


def _rates(read: Read, size_bytes: int, *, reads_ahead: bool) -> list[tuple[int, float]]:
    """Byte offset of a burst of sequential reads, and its bytes a second.

    A drive that reads ahead streams to one small read after another; any other needs the next request in time.
    """
    length, depth = (STREAM_BYTES, 1) if reads_ahead else (BURST_BYTES, BURST_DEPTH)
    count = page_at(min(BURST_READS * BURST_BYTES, size_bytes / RATE_PLACES)) // length
    found = []
    for index in range(RATE_PLACES):
        start = page_at(index * (size_bytes - length * count) / (RATE_PLACES - 1))
        places = [(start + length * number, length) for number in range(count)]
        bursts = [[end for _, end in read(places, depth)] for _ in range(BURSTS)]
        paces = [(count - 1) * length / (max(ends) - min(ends)) for ends in bursts]
        found.append((start + length * count // 2, statistics.median(paces)))
    return found


def _overhead(read: Read, size_bytes: int, turn: float, source: random.Random) -> tuple[float, bool]:
    """Seconds that a read takes at least, and whether the drive reads ahead.

    A second read shortly behind the first waits for nothing else if its sector is just about to come by.
    """
    places: list[Place] = []
    for gap in range(GAPS):
        start = page_at(source.random() * (size_bytes - 4 * MIB))
        places += [(start, PAGE), (start + PAGE + gap // 2 * 2 * PAGE, PAGE)]
    taken = [end - begin for begin, end in read(places, 1)[1::2]]
    run = page_at(size_bytes * 0.6)
    following = [end - begin for begin, end in read([(run + index * PAGE, PAGE) for index in range(16)], 1)[1:]]
    reads_ahead = statistics.median(following) < 0.5 * turn
    return min(*taken, *following), reads_ahead


def _seeks(
    read: Read, stroke: Stroke, turn: float, overhead: float, source: random.Random, pairs: int
) -> list[tuple[float, float]]:
    """Share of the stroke and seconds of a seek over it."""
    shortest = min(0.02, max(SHORTEST_SHARE, SHORTEST_TRACKS / stroke.tracks(turn)))
    growth = (LONGEST_SHARE / shortest) ** (1 / (SEEK_DISTANCES - 1))
    distances = [shortest * growth**index for index in range(SEEK_DISTANCES)]
    order = [distance for distance in distances for _ in range(pairs)]
    # In random order, so that drift and other work on the computer fall on all distances alike.
    source.shuffle(order)
    places: list[Place] = []
    for distance in order:
        start = source.random() * (1 - distance)
        # Bytes of a fixed distance would always have the same part of a turn between them.
        somewhere = source.random() * SCATTER_TRACKS / stroke.tracks(turn)
        ends = [stroke.byte(start), stroke.byte(min(1.0, start + distance + somewhere))]
        source.shuffle(ends)
        places += [(ends[0], PAGE), (ends[1], PAGE)]
    taken: dict[float, list[float]] = {distance: [] for distance in distances}
    for distance, (begin, end) in zip(order, read(places, 1)[1::2], strict=True):
        taken[distance].append(end - begin)
    overhead += PAGE / statistics.fmean(stroke.rates)
    # The rest of the turn is anything from none to all of it: the least of n is one (n + 1)th of a turn on average.
    return [(distance, max(0.0, min(found) - turn / (len(found) + 1) - overhead)) for distance, found in taken.items()]


def _queue_depth(read: Read, size_bytes: int, source: random.Random) -> int:
    """32 if the drive puts waiting commands in an order of its own, else 1."""

    def seconds(depth: int) -> float:
        times = read([_anywhere(size_bytes, source) for _ in range(QUEUE_READS)], depth)
        return max(end for _, end in times) - min(begin for begin, _ in times)

    return QUEUE_DEPTH if seconds(1) > QUEUE_GAIN * seconds(QUEUE_DEPTH) else 1
