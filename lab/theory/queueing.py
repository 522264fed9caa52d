"""Discrete-event simulation of a load on an array, as a closed queueing network.

``depth`` requests are always in flight, as with fio's libaio engine: each completion immediately issues the next
request. A request passes through md's stages (lab.theory.requests), and each member serves its I/Os in order. There is
no closed form for this: a parity write forks to several members, joins, and forks again. The run is short, has its own
seed, and is deterministic.
"""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass
from functools import lru_cache

from lab.arrays.levels import Level, LevelName
from lab.errors import SpecError
from lab.theory.requests import STRIPE_PAGE_BYTES, Requests, Server, Servers, Stage, requests_for

BASE_REQUESTS = 2_000
REQUESTS_PER_DEPTH = 100
"""A deep queue needs many rounds to become independent of its initial state. With both constants, means differ by
about 1 % between seeds, in 2 to 20 ms."""
SEED = 1988
"""Seed of the random addresses; any other seed gives the same figures within their noise."""
_WARMUP_REQUESTS = 200
_WARMUP_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class ArrayUnderLoad:
    """Small requests at random addresses on one array."""

    level: Level
    servers: tuple[Server, ...]
    """One per slot, including failed ones."""
    depth: int
    """Requests in flight."""
    write_share: float = 0.0
    """0: reads only, 1: writes only."""
    failed: frozenset[int] = frozenset()
    """Slots without a member."""
    is_rotational: bool = True
    """Whether the members are rotational for the kernel, by which mirrors choose the copy."""
    working_bytes: int | None = None
    """Working set of the load on the array, in bytes; if given, hits in md's stripe cache are included."""
    chunks: int = 1
    """Number of chunks of one request."""
    shares: tuple[float, ...] = ()
    """Share of the requests of each member of a RAID 0 with unequal members; empty: equal shares."""


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """Simulated performance of the load."""

    iops: float
    mean_seconds: float
    p50_seconds: float
    p95_seconds: float
    p99_seconds: float
    busy_members: float
    """Mean number of busy members."""
    reads_per_request: float
    """Member reads."""
    writes_per_request: float
    """Member writes."""


@lru_cache(maxsize=4096)
def play(load: ArrayUnderLoad, requests: int | None = None, seed: int = SEED) -> LoadFigures:
    """Simulate ``requests`` requests (None: as many as a prediction needs), after a warm-up.

    Raises SpecError for a load without members or depth, a member without a service time, or a failed array.
    """
    _check(load)
    count = BASE_REQUESTS + REQUESTS_PER_DEPTH * load.depth if requests is None else requests
    return _Run(load, count, seed).figures()


def _check(load: ArrayUnderLoad) -> None:
    if not load.servers or load.depth < 1:
        raise SpecError(
            f"{len(load.servers)} disks at queue depth {load.depth} do no work", hint="use 1 or more of both"
        )
    if any(min(server.read_seconds, server.write_seconds) <= 0 for server in load.servers):
        raise SpecError("a disk that answers in no time has no queue", hint="measure the disks again")


@dataclass(slots=True)
class _Tally:
    """Counters at the end of the warm-up."""

    time: float = 0.0
    busy_seconds: float = 0.0
    reads: int = 0
    writes: int = 0


_Event = tuple[float, int, float, Stage | None, float]
"""End of a stage, a number that keeps the order, start of the request, its next stage, its address."""


class _Run:
    """One simulation: events in order of time, each the end of a request's stage."""

    def __init__(self, load: ArrayUnderLoad, requests: int, seed: int) -> None:
        self._load = load
        self._warmup = _WARMUP_REQUESTS + _WARMUP_ROUNDS * load.depth
        self._last = self._warmup + requests
        source = random.Random(seed)
        self._random = source.random
        members = len(load.servers)
        is_mirror = load.level.name in (LevelName.RAID1, LevelName.RAID10)
        self._servers = Servers(load.servers, follows_heads=is_mirror)
        self._requests: Requests = requests_for(
            load.level,
            members,
            load.failed,
            self._servers,
            self._random,
            is_rotational=load.is_rotational,
            stripes=_stripes(load.level, members, load.working_bytes),
            chunks=load.chunks,
            shares=load.shares,
        )
        self._tables = (self._requests.table(is_write=False), self._requests.table(is_write=True))
        self._places = _shuffled_places(self._requests.places, self._last + load.depth, source)
        self._latencies: list[float] = []

    def figures(self) -> LoadFigures:
        """Run the simulation to its end."""
        begin, seconds = self._play()
        return self._sum_up(begin, seconds)

    def _play(self) -> tuple[_Tally, float]:
        """The counters at the end of the warm-up, and the duration of the measured part."""
        events: list[_Event] = [self._start(0.0, number) for number in range(self._load.depth)]
        heapq.heapify(events)
        start, replace, put, answered = self._start, heapq.heapreplace, self._servers.put, self._latencies.append
        begin, warmup, last = _Tally(), self._warmup, self._last
        done = 0
        while True:
            now, number, started, later, address = events[0]
            if later is not None:
                replace(events, (put(now, *later, address), number, started, None, address))
                continue
            done += 1
            answered(now - started)
            if done == warmup:
                begin = _Tally(now, self._servers.busy_seconds, *map(sum, self._servers.ios))
                self._latencies.clear()
            if done >= last:
                return begin, now - begin.time
            replace(events, start(now, number))

    def _start(self, now: float, number: int) -> _Event:
        """Issue a request. Earlier ones that need no member I/O, as stripe cache hits, complete immediately."""
        requests, places = self._requests, self._places
        share = self._load.write_share
        is_write = share >= 1
        while places:
            if 0 < share < 1:
                is_write = self._random() < share
            table = self._tables[is_write]
            stages = table[places.pop()] if table else requests.stages(places.pop(), is_write, now)
            if stages:
                address = requests.address
                end = self._servers.put(now, *stages[0], address)
                return (end, number, now, stages[1] if len(stages) > 1 else None, address)
            self._latencies.append(0.0)
        raise SpecError("nearly the whole load fits in md's stripe cache", hint="use a larger file")

    def _sum_up(self, begin: _Tally, seconds: float) -> LoadFigures:
        latencies = sorted(self._latencies)
        count = len(latencies)
        return LoadFigures(
            iops=count / seconds,
            mean_seconds=sum(latencies) / count,
            p50_seconds=latencies[int(count * 0.50)],
            p95_seconds=latencies[int(count * 0.95)],
            p99_seconds=latencies[int(count * 0.99)],
            busy_members=(self._servers.busy_seconds - begin.busy_seconds) / seconds,
            reads_per_request=(sum(self._servers.ios[False]) - begin.reads) / count,
            writes_per_request=(sum(self._servers.ios[True]) - begin.writes) / count,
        )


def _stripes(level: Level, members: int, working_bytes: int | None) -> int | None:
    """Pages of the load's working set on each member."""
    if working_bytes is None:
        return None
    return max(1, int(working_bytes / level.data_members(members)) // STRIPE_PAGE_BYTES)


def _shuffled_places(places: int, count: int, source: random.Random) -> list[int]:
    """At least ``count`` places in random order, all with equal frequency.

    The order is random for the queues, whose memory is far shorter, but the whole run uses every member equally often,
    so that a short run has the mean of a long one.
    """
    rounds = -(-2 * count // places)
    deck = list(range(places)) * rounds
    source.shuffle(deck)
    return deck
