"""Discrete-event simulation of a load on an array as a closed queueing network, and the I/Os of md for a small request.

The reads and writes that md issues to the members, and their order, follow the source of Linux 6.1 (drivers/md):
``handle_stripe_dirtying`` and ``need_this_block`` of raid5.c for parity, ``read_balance`` of raid1.c and raid10.c for
mirrors. A request lies within a chunk, or consists of several whole chunks.

``depth`` requests are always in flight, because the next request is issued as soon as one completes, as with fio's
libaio engine. A request passes through md's stages, and each member serves its I/Os in order. No closed form exists for
this, because a parity write forks to several members, joins, and forks again. Each run is short, uses a fixed seed, and
is deterministic.
"""

from __future__ import annotations

import heapq
import random
from abc import ABC, abstractmethod
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from lab.arrays.geometry import LEFT_SYMMETRIC, PARITY_LAST, ParityRow, level_geometry, parity_row
from lab.arrays.levels import Level, LevelName, Raid10, Raid10Layout
from lab.errors import SpecError
from lab.units import counted

Random = Callable[[], float]
"""A source of numbers that are uniformly distributed in [0, 1)."""

Stage = tuple[tuple[int, ...], bool]
"""The slots with I/Os in parallel, and whether these are writes. The next stage starts when all of them are complete.
"""

Pages = frozenset[int]
"""The slots of a stripe whose pages are in md's stripe cache and up to date."""

_NOTHING: Pages = frozenset()


class Balance(StrEnum):
    """md's policy for choosing the copy to read."""

    HEAD = "head"
    """An idle member or, if there is none, the one whose head is nearest."""
    PENDING = "pending"
    """The member with the fewest pending I/Os."""
    FIRST = "first"
    """The first copy, which has the lowest address."""


STRIPE_CACHE_STRIPES = 256
"""The default of md/stripe_cache_size (NR_STRIPES in raid5.c): cached stripes of one page per member."""

STRIPE_PAGE_BYTES = 4096

_SHARE_PLACES = 1000
"""The number of places for a load that is spread unequally over the members."""


@dataclass(frozen=True, slots=True)
class Server:
    """One member."""

    read_seconds: float
    write_seconds: float
    concurrent_requests: int = 1
    """The number of I/Os that the member serves in parallel."""


class Servers:
    """The members of an array and their queues.

    Members serve I/Os in order of arrival, so the completion time of an I/O is known when it is queued.
    """

    def __init__(self, servers: Sequence[Server], *, follows_heads: bool) -> None:
        self._seconds = ([server.read_seconds for server in servers], [server.write_seconds for server in servers])
        self._free = [0.0] * len(servers)
        """The time at which each member has served its queue or, if it serves I/Os in parallel, can start another."""
        self._later = [[0.0] * (server.concurrent_requests - 1) for server in servers]
        self._is_simple = not follows_heads and all(server.concurrent_requests == 1 for server in servers)
        self._ends: list[deque[tuple[float, float]]] = [deque() for _ in servers]
        self._heads = [0.0] * len(servers)
        self._follows_heads = follows_heads
        self.ios = ([0] * len(servers), [0] * len(servers))
        """The number of reads and the number of writes so far, each by slot."""

    @property
    def busy_seconds(self) -> float:
        """The total service time of all I/Os queued so far on any member, whether completed or not."""
        return sum(
            count * each
            for counts, seconds in zip(self.ios, self._seconds, strict=True)
            for count, each in zip(counts, seconds, strict=True)
        )

    def put(self, now: float, slots: tuple[int, ...], is_write: bool, address: float) -> float:
        """Queue an I/O at each of these members, and return the time at which the last of them completes."""
        free, seconds, ios = self._free, self._seconds[is_write], self.ios[is_write]
        last = 0.0
        for slot in slots:
            start = free[slot]
            end = (start if start > now else now) + seconds[slot]
            free[slot] = end
            ios[slot] += 1
            if not self._is_simple:
                self._note(slot, end, address)
            if end > last:
                last = end
        return last

    def _note(self, slot: int, end: float, address: float) -> None:
        if self._later[slot]:
            self._free[slot] = heapq.heappushpop(self._later[slot], end)
        if self._follows_heads:
            self._ends[slot].append((end, address))

    def pending(self, slot: int, now: float) -> int:
        ends = self._ends[slot]
        while ends and ends[0][0] <= now:
            self._heads[slot] = ends.popleft()[1]
        return len(ends)

    def head(self, slot: int) -> float:
        """Return the address of the member's last completed I/O, as a fraction of the member's size.

        ``pending`` updates it.
        """
        return self._heads[slot]


class Requests(ABC):
    """Converts requests into stages of member I/Os. ``place`` is the position of a request in the layout's period."""

    places: int = 1
    """The number of places in a period of the layout. All places are equally likely."""
    address: float = 0.0
    """The address of the last request on the members, as a fraction of their size. Only mirrors set it."""

    @abstractmethod
    def stages(self, place: int, is_write: bool, now: float) -> tuple[Stage, ...]:
        """Return the member I/Os of the next request, or none if all its pages are in the stripe cache."""

    def copies_of(self, place: int) -> tuple[int, ...]:
        """Return the slots among which md chooses for a read at this place, or an empty tuple if md has no choice."""
        return ()


class FixedRequests(Requests):
    """Requests to a bare disk or to RAID 0, and requests for full stripes of RAID 4, 5 and 6.

    Only the place of a request determines its member I/Os.
    """

    def __init__(self, reads: Sequence[tuple[int, ...]], writes: Sequence[tuple[int, ...]]) -> None:
        self.places = len(reads)
        self._stages: list[list[tuple[Stage, ...]]] = [
            [((slots, is_write),) for slots in by_place] for is_write, by_place in ((False, reads), (True, writes))
        ]

    def stages(self, place: int, is_write: bool, now: float) -> tuple[Stage, ...]:
        return self._stages[is_write][place]


def _striped(members: int, chunks: int = 1, shares: Sequence[float] = ()) -> FixedRequests:
    """Return requests with one I/O on each member that has chunks of the request.

    Requests of several chunks are aligned to their size, and the chunks of a request on the same member are merged.
    """
    if len(set(shares)) > 1:
        slots = _slots_by_share(shares, chunks)
    else:
        starts = [place * chunks for place in range(members)]
        slots = [tuple((start + index) % members for index in range(min(chunks, members))) for start in starts]
    return FixedRequests(slots, slots)


def _slots_by_share(shares: Sequence[float], chunks: int) -> list[tuple[int, ...]]:
    """Return places in proportion to each member's share of the requests, to within 0.1 %.

    Raises SpecError if requests have several chunks, because the chunks lie on different members in each zone.
    """
    if chunks > 1:
        raise SpecError(
            "no prediction for requests of several chunks on members of different sizes", hint="use smaller blocks"
        )
    ends = [round(_SHARE_PLACES * sum(shares[: slot + 1])) for slot in range(len(shares))]
    starts = [0, *ends[:-1]]
    return [(slot,) for slot, (start, end) in enumerate(zip(starts, ends, strict=True)) for _ in range(end - start)]


class MirroredRequests(Requests):
    """Requests to RAID 1 and RAID 10. A write goes to every copy, and a read goes to the copy that md prefers."""

    def __init__(
        self,
        copy_sets: Sequence[tuple[int, ...]],
        failed: frozenset[int],
        servers: Servers,
        random: Random,
        balance: Balance,
    ) -> None:
        self._copy_sets = [tuple(slot for slot in copies if slot not in failed) for copies in copy_sets]
        self.places = len(copy_sets)
        self._servers, self._random, self._balance = servers, random, balance

    def stages(self, place: int, is_write: bool, now: float) -> tuple[Stage, ...]:
        copies = self._copy_sets[place]
        self.address = self._random()
        if is_write or len(copies) == 1:
            return ((copies, is_write),)
        return (((self._best(copies, now),), False),)

    def copies_of(self, place: int) -> tuple[int, ...]:
        copies = self._copy_sets[place]
        return copies[:1] if self._balance is Balance.FIRST else copies

    def _best(self, copies: tuple[int, ...], now: float) -> int:
        servers = self._servers
        if self._balance is Balance.FIRST:
            return copies[0]
        if self._balance is Balance.PENDING:
            return min(copies, key=lambda slot: servers.pending(slot, now))
        for slot in copies:
            if servers.pending(slot, now) == 0:
                return slot
        return min(copies, key=lambda slot: abs(servers.head(slot) - self.address))


def _full_stripes(level: Level, members: int) -> FixedRequests:
    """Return requests that read all data chunks of a stripe, or write all its chunks without prior reads."""
    # In reverse order of rows, P of the first place is in slot 0, P of the second in slot 1, and so on.
    rows = [_parity_row(level, members, row) for row in reversed(range(members))]
    return FixedRequests([tuple(sorted(row.data_slots)) for row in rows], [tuple(range(members))] * members)


class ParityRequests(Requests):
    """Requests to RAID 4, and to RAID 5 and 6 in left-symmetric layout, with md's stripe cache."""

    def __init__(self, level: Level, members: int, failed: frozenset[int], random: Random, stripes: int | None) -> None:
        self._rows = [_parity_row(level, members, row) for row in range(members)]
        self._members = members
        self._failed = failed
        self._alive = tuple(slot for slot in range(members) if slot not in failed)
        self._random = random
        self._periods = None if stripes is None else max(1, stripes // members)
        self._cache: OrderedDict[int, Pages] = OrderedDict()
        self._outcomes: dict[tuple[int, bool, Pages], tuple[tuple[Stage, ...], Pages]] = {}
        self.places = members * (members - level.parity_members)

    def stages(self, place: int, is_write: bool, now: float) -> tuple[Stage, ...]:
        # chunk_aligned_read() bypasses the stripe cache, but only on a complete array.
        if self._periods is None or not (is_write or self._failed):
            return self._known(place, is_write, _NOTHING)[0]
        stripe = int(self._random() * self._periods) * self._members + place % self._members
        stages, pages = self._known(place, is_write, self._cache.pop(stripe, _NOTHING))
        if len(self._cache) >= STRIPE_CACHE_STRIPES:
            self._cache.popitem(last=False)
        self._cache[stripe] = pages
        return stages

    def _known(self, place: int, is_write: bool, pages: Pages) -> tuple[tuple[Stage, ...], Pages]:
        key = (place, is_write, pages)
        found = self._outcomes.get(key)
        if found is None:
            found = self._outcomes[key] = self._work_out(place, is_write, pages)
        return found

    def _work_out(self, place: int, is_write: bool, pages: Pages) -> tuple[tuple[Stage, ...], Pages]:
        """Return the stages for a stripe of which ``pages`` are cached, and the pages that are cached afterwards."""
        data, parity = self._slots(place)
        if is_write:
            return self._write(data, parity, pages)
        if data in pages:
            return (), pages
        if data not in self._failed:
            return (((data,), False),), pages | {data}
        # fetch_block() reads all blocks that are not cached, and then computes the lost one.
        missing = tuple(slot for slot in self._alive if slot not in pages)
        return ((missing, False),), frozenset(range(self._members))

    def _slots(self, place: int) -> tuple[int, frozenset[int]]:
        index, stripe = divmod(place, self._members)
        row = self._rows[stripe]
        return row.data_slot(index), frozenset(row.parity_slots)

    def _write(self, data: int, parity: frozenset[int], pages: Pages) -> tuple[tuple[Stage, ...], Pages]:
        reads = self._reads_before(data, parity, pages)
        written = tuple(slot for slot in (data, *sorted(parity)) if slot not in self._failed)
        afterwards = pages | frozenset(reads) | parity | {data}
        stages: tuple[Stage, ...] = ((reads, False), (written, True)) if reads else ((written, True),)
        return stages, afterwards

    def _reads_before(self, data: int, parity: frozenset[int], pages: Pages) -> tuple[int, ...]:
        """Return the slots that md reads before a write. Read-modify-write is chosen only if it reads fewer blocks."""
        failed = self._failed
        others = frozenset(range(self._members)) - parity - {data}
        if len(failed) > 1 and failed & (parity | {data}) and (failed & others) - pages:
            # Parity must be recomputed, but one of the data blocks is lost, so md reads all that it can
            # (need_this_block).
            return tuple(slot for slot in self._alive if slot not in pages)
        modify = (parity | {data}) - pages
        reconstruct = others - pages
        # An unreadable block costs 2 * disks, which is more than any alternative without such a block.
        impossible = 2 * self._members
        modify_cost = sum(impossible if slot in failed else 1 for slot in modify)
        reconstruct_cost = sum(impossible if slot in failed else 1 for slot in reconstruct)
        chosen = modify if modify_cost < reconstruct_cost else reconstruct
        return tuple(sorted(chosen - failed))


def requests_for(
    level: Level,
    members: int,
    failed: frozenset[int],
    servers: Servers,
    random: Random,
    *,
    is_rotational: bool,
    stripes: int | None = None,
    chunks: int = 1,
    shares: Sequence[float] = (),
) -> Requests:
    """Return the object that converts requests into member I/Os for this level.

    ``stripes`` is the number of pages of the working set on each member. If it is given, hits in the stripe cache are
    included. ``chunks`` is the number of chunks of one request. ``shares`` contains the members' shares of the requests
    to a RAID 0 (lab.theory.model). If it is empty, the shares are equal. Raises SpecError if the array has failed. Also
    raises SpecError if requests have several chunks, unless the level is RAID 0 or each request is a full stripe of a
    complete array with parity.
    """
    if failed and not level.survives(failed, members):
        raise SpecError(
            f"{level.name} does not survive the loss of {counted(len(failed), 'member')}",
            hint=f"choose at most {counted(level.minimum_failures_survived(members), 'failed member')}",
        )
    if level.name is LevelName.RAID0:
        return _striped(members, chunks, shares)
    if level.name is LevelName.SINGLE:
        return _striped(members)
    if level.has_chunk and chunks > 1:
        if level.parity_members and chunks == level.data_members(members) and not failed:
            return _full_stripes(level, members)
        raise SpecError(
            f"no prediction for requests of {chunks} chunks on {level.name.value} of {members} members",
            hint="use requests within one chunk, or of exactly one stripe",
        )
    if level.name is LevelName.RAID1:
        balance = Balance.HEAD if is_rotational else Balance.PENDING
        return MirroredRequests([tuple(range(members))], failed, servers, random, balance)
    if isinstance(level, Raid10):
        geometry = level_geometry(level, None, members, 1, level.copies * members)
        # The slots of the copies, in md's order, for each chunk of one period of the layout.
        copy_sets = [tuple(place.slot for place in geometry.places(chunk)) for chunk in range(members)]
        # raid10.c chooses among near copies by the position of the head, and among far copies by the lowest address.
        balance = Balance.HEAD if level.layout is Raid10Layout.NEAR else Balance.FIRST
        return MirroredRequests(copy_sets, failed, servers, random, balance if is_rotational else Balance.PENDING)
    return ParityRequests(level, members, failed, random, stripes)


def _parity_row(level: Level, members: int, row: int) -> ParityRow:
    layout = PARITY_LAST if level.name is LevelName.RAID4 else LEFT_SYMMETRIC
    return parity_row(layout, members, row, has_q=level.parity_members == 2)


BASE_REQUESTS = 2_000
REQUESTS_PER_DEPTH = 100
"""A deep queue needs many rounds to become independent of its initial state. With these two constants, means differ by
about 1 % between seeds, and a simulation takes 2 to 20 ms."""
SEED = 1988
"""The seed of the random addresses. Any other seed gives the same figures within their noise."""
_WARMUP_REQUESTS = 200
_WARMUP_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class ArrayUnderLoad:
    """A load of requests at random addresses on one array."""

    level: Level
    servers: tuple[Server, ...]
    """One server for each slot, including the failed ones."""
    depth: int
    write_share: float = 0.0
    """The share of writes, which is 0 for reads only and 1 for writes only."""
    failed: frozenset[int] = frozenset()
    is_rotational: bool = True
    """Whether the kernel regards the members as rotational. This determines which copy a mirror reads."""
    working_bytes: int | None = None
    """The working set of the load on the array. If it is given, hits in md's stripe cache are included."""
    chunks: int = 1
    shares: tuple[float, ...] = ()
    """Each member's share of the requests to a RAID 0 of unequal members. If it is empty, the shares are equal."""


@dataclass(frozen=True, slots=True)
class LoadFigures:
    """The simulated performance of a load."""

    iops: float
    mean_seconds: float
    p95_seconds: float
    busy_members: float
    reads_per_request: float
    writes_per_request: float


@lru_cache(maxsize=4096)
def play(load: ArrayUnderLoad, requests: int | None = None) -> LoadFigures:
    """Simulate ``requests`` requests after a warm-up, by default as many as a prediction needs. Raises SpecError."""
    if not load.servers or load.depth < 1:
        raise SpecError(
            f"no prediction for {len(load.servers)} disks at queue depth {load.depth}", hint="use at least 1 of each"
        )
    if any(min(server.read_seconds, server.write_seconds) <= 0 for server in load.servers):
        raise SpecError("a disk cannot have a service time of 0", hint="measure the disks again")
    count = BASE_REQUESTS + REQUESTS_PER_DEPTH * load.depth if requests is None else requests
    return _Run(load, count).figures()


@dataclass(slots=True)
class _Tally:
    time: float = 0.0
    busy_seconds: float = 0.0
    reads: int = 0
    writes: int = 0


_Event = tuple[float, int, float, Stage | None, float]
"""The end of a stage, a number that orders equal times, the start of the request, its next stage, and its address."""


class _Run:
    """One simulation. It handles events in the order of their times. Each event is the end of a stage of a request."""

    def __init__(self, load: ArrayUnderLoad, requests: int) -> None:
        self._load = load
        self._warmup = _WARMUP_REQUESTS + _WARMUP_ROUNDS * load.depth
        self._last = self._warmup + requests
        source = random.Random(SEED)
        self._random = source.random
        members = len(load.servers)
        # The bytes of the load's working set on each member.
        used = None if load.working_bytes is None else int(load.working_bytes / load.level.data_members(members))
        is_mirror = load.level.name in (LevelName.RAID1, LevelName.RAID10)
        self._servers = Servers(load.servers, follows_heads=is_mirror)
        self._requests: Requests = requests_for(
            load.level,
            members,
            load.failed,
            self._servers,
            self._random,
            is_rotational=load.is_rotational,
            stripes=None if used is None else max(1, used // STRIPE_PAGE_BYTES),
            chunks=load.chunks,
            shares=load.shares,
        )
        self._places = _shuffled_places(self._requests.places, self._last + load.depth, source)
        self._latencies: list[float] = []

    def _play(self) -> tuple[_Tally, float]:
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
        """Issue requests up to the next one that has member I/Os. Requests that hit the stripe cache take no time."""
        requests, places = self._requests, self._places
        share = self._load.write_share
        is_write = share >= 1
        while places:
            if 0 < share < 1:
                is_write = self._random() < share
            stages = requests.stages(places.pop(), is_write, now)
            if stages:
                address = requests.address
                end = self._servers.put(now, *stages[0], address)
                return (end, number, now, stages[1] if len(stages) > 1 else None, address)
            self._latencies.append(0.0)
        raise SpecError("nearly all of the load fits in md's stripe cache", hint="use a larger file")

    def figures(self) -> LoadFigures:
        begin, seconds = self._play()
        latencies = sorted(self._latencies)
        count = len(latencies)
        return LoadFigures(
            iops=count / seconds,
            mean_seconds=sum(latencies) / count,
            p95_seconds=latencies[int(count * 0.95)],
            busy_members=(self._servers.busy_seconds - begin.busy_seconds) / seconds,
            reads_per_request=(sum(self._servers.ios[False]) - begin.reads) / count,
            writes_per_request=(sum(self._servers.ios[True]) - begin.writes) / count,
        )


def _shuffled_places(places: int, count: int, source: random.Random) -> list[int]:
    """Return at least ``count`` places in random order, all with equal frequency.

    To the queues, the places look independent, because the memory of the queues is far shorter. Yet the run uses all
    members about equally often, so that the mean of a short run is nearly that of a long one.
    """
    rounds = -(-2 * count // places)
    deck = list(range(places)) * rounds
    source.shuffle(deck)
    return deck
