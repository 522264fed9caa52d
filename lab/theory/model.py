"""What an array should do, each figure with its reason in a sentence or two.

Two kinds. **Closed forms** to teach from and to check by hand: capacity in I/Os, penalties, bounds (operational
analysis, Denning and Buzen, 1978: an array does at most one request in the time that its busiest member needs for its
share of one, and with few requests in flight at most ``depth`` in the time that one takes alone). And **a load played
through** (``predict_load``, ``workload_iops``): md's own order of member reads and writes on members that serve one
I/O after another, for a given queue depth. Both leave out the processor, the file system and merging.
A measured figure far from them has another limiter, and that is the question to ask (Gregg's benchmarking checklist).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from lab.arrays.levels import Level
from lab.disks.drive_models import DriveModel
from lab.errors import SpecError
from lab.theory.queueing import ArrayUnderLoad, LoadFigures, play
from lab.theory.requests import Requests, Server, Servers, requests_for
from lab.units import MIB, human_bytes
from lab.workloads.workload import AccessPattern, Direction, Workload

_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class DiskRates:
    """What one disk does on its own, measured or nominal."""

    random_read_iops: float
    """At queue depth 1: the inverse of its service time."""
    random_write_iops: float
    sequential_read_bytes_per_second: float
    sequential_write_bytes_per_second: float
    concurrent_requests: int = 1
    """How many I/Os it works on at a time."""
    is_rotational: bool = True
    """What it tells the kernel; md chooses the copy to read by it."""


def nominal_rates(drive: DriveModel, *, sequential: tuple[float, float] | None = None) -> DiskRates:
    """What an emulated drive should do. ``sequential``: bytes a second that were measured, reading and writing.

    Without it a drive of constant service streams as fast as it serves requests of 1 MiB.
    """
    iops = 1 / drive.service_seconds
    read, write = sequential or (iops * MIB, iops * MIB)
    return DiskRates(iops, iops, read, write, drive.concurrent_requests, drive.is_rotational)


@dataclass(frozen=True, slots=True)
class LoadPrediction:
    """What a load should get on an array, as the application sees it."""

    iops: float
    mean_seconds: float
    """Mean completion latency."""
    p50_seconds: float | None
    """None for sequential loads, of which only the mean is predicted."""
    p95_seconds: float | None
    p99_seconds: float | None
    busy_members: float
    """How many members are at work on average."""
    reason: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """A number and why; the unit stands in the name of the function that made it."""

    value: float
    reason: str


def expected_busy_disks(disks: int, depth: float) -> float:
    """How many of ``disks`` are at work when ``depth`` I/Os are always in flight, each on a disk at random.

    For disks of one constant service time. In such a time every busy disk answers one I/O, and as many fall on the
    disks anew; that the mean square of the queues stays the same gives a quadratic equation for the share of busy
    disks (docs/theory.md). It takes the number of busy disks as steady, and is then within 2 % of the queues played
    through. Between a network of exponential servers, nQ / (n + Q - 1), and all I/Os thrown anew, n(1 - (1 - 1/n)^Q).
    Raises SpecError for fewer than one disk or I/O.
    """
    if disks < 1 or depth < 1:
        raise SpecError(f"{disks} disks at queue depth {depth} do no work", hint="use 1 or more of both")
    each = depth / disks
    half = 1 + each - 0.5 / disks
    return float(disks * (half - math.sqrt(half * half - 2 * each)))


def random_read_iops(
    level: Level, disks: Sequence[DiskRates], depth: int, failed: frozenset[int] = frozenset()
) -> Prediction:
    """Small random reads per second with ``depth`` I/Os in flight, by closed form. Raises SpecError without disks."""
    return _closed_form(level, disks, depth, failed, is_write=False)


def random_write_iops(
    level: Level, disks: Sequence[DiskRates], depth: int, failed: frozenset[int] = frozenset()
) -> Prediction:
    """Small random writes per second with ``depth`` I/Os in flight, by closed form. Raises SpecError without disks."""
    return _closed_form(level, disks, depth, failed, is_write=True)


def _closed_form(
    level: Level, disks: Sequence[DiskRates], depth: int, failed: frozenset[int], *, is_write: bool
) -> Prediction:
    """Busy disks over the work of one request, and never more than the busiest member can do."""
    servers = _servers(disks)
    ceiling = ceiling_iops(level, servers, is_write=is_write, failed=failed)
    work = demand(level, len(disks), is_write=is_write, failed=failed)
    alive = [slot for slot in range(len(disks)) if slot not in failed]
    used = [slot for slot in alive if work.reads[slot] + work.writes[slot] > 0]
    # Member I/Os of one request at a time: those of a stage go side by side, stages one after the other.
    side_by_side = (work.total_reads + work.total_writes) / work.stages
    busy = expected_busy_disks(len(used), max(1.0, depth * side_by_side))
    seconds = sum(
        work.reads[slot] * servers[slot].read_seconds + work.writes[slot] * servers[slot].write_seconds for slot in used
    )
    reason = f"{_cost(work, is_write=is_write)}; {depth} in flight keep about {busy:.2g} of {len(used)} members busy"
    return Prediction(min(busy / seconds, ceiling), reason)


def small_write_cost(level: Level, members: int) -> Prediction:
    """Member I/Os for one small write."""
    cost, textbook = level.small_write_ios(members), level.write_penalty
    if cost != textbook:
        what = f"md needs {cost} on {members} members where textbooks count {textbook}"
    else:
        what = f"md and textbooks agree on {cost} for {members} members"
    return Prediction(cost, what)


def sequential_bytes_per_second(level: Level, disks: Sequence[DiskRates], direction: Direction) -> Prediction:
    """One sequential stream of large requests, at best. Raises SpecError without disks or for a mix."""
    if not disks or direction not in (Direction.READ, Direction.WRITE):
        raise SpecError(f"no sequential prediction for '{direction}' on {len(disks)} disks", hint="use read or write")
    is_read = direction is Direction.READ
    slowest = min(
        disk.sequential_read_bytes_per_second if is_read else disk.sequential_write_bytes_per_second for disk in disks
    )
    data: Fraction = level.sequential_read_members(len(disks)) if is_read else level.data_members(len(disks))
    return Prediction(float(data) * slowest, f"{float(data):g} members' worth of data at the slowest member's pace")


def rebuild_seconds(
    used_device_bytes: int, disks: Sequence[DiskRates], *, sync_speed_max_bytes_per_second: float | None = None
) -> Prediction:
    """Time to rebuild one member: its used bytes at the pace of the slowest part, without other load.

    ``disks`` are the surviving members and the new one; md's own ceiling counts too if given (md(4), sync_speed_max).
    Raises SpecError without disks.
    """
    if not disks:
        raise SpecError("a rebuild without disks has no pace", hint="give the members' measured rates")
    limits = {
        "the slowest member's sequential read": min(disk.sequential_read_bytes_per_second for disk in disks),
        "the slowest member's sequential write": min(disk.sequential_write_bytes_per_second for disk in disks),
    }
    if sync_speed_max_bytes_per_second is not None:
        limits["md's sync_speed_max"] = sync_speed_max_bytes_per_second
    limiter = min(limits, key=lambda name: limits[name])
    pace = limits[limiter]
    if pace <= 0:
        raise SpecError(f"{limiter} is {pace:g} bytes a second", hint="measure the disks again")
    reason = f"{human_bytes(used_device_bytes)} at {human_bytes(pace)}/s, set by {limiter}"
    return Prediction(used_device_bytes / pace, reason)


def predict_load(
    level: Level,
    disks: Sequence[DiskRates],
    workload: Workload,
    *,
    failed: frozenset[int] = frozenset(),
    working_bytes: int | None = None,
) -> LoadPrediction:
    """What ``workload`` should get on this array, healthy or without the slots in ``failed``.

    ``working_bytes``: bytes of the array that the load covers; given, hits in md's stripe cache count. Random blocks
    are taken to be within a chunk. Raises SpecError for a verify workload, whose work is no steady direction, for a
    lost array, and for a sequential load on a degraded one.
    """
    if workload.direction is Direction.VERIFY:
        raise SpecError(f"no prediction for verify workload '{workload.id}'", hint="ask for a read or write workload")
    if workload.pattern is AccessPattern.SEQUENTIAL and workload.direction is not Direction.MIX:
        if failed:
            raise SpecError("no prediction for a sequential load on a degraded array", hint="ask for a random one")
        return _sequential_load(level, disks, workload)
    share = 1.0 if workload.read_percent is None else 1 - workload.read_percent / 100
    share = 0.0 if workload.direction is Direction.READ else share
    load = ArrayUnderLoad(
        level,
        _servers(disks),
        workload.depth_total,
        share,
        failed,
        is_rotational=all(disk.is_rotational for disk in disks),
        working_bytes=working_bytes,
    )
    figures = play(load)
    return LoadPrediction(
        iops=figures.iops,
        mean_seconds=figures.mean_seconds,
        p50_seconds=figures.p50_seconds,
        p95_seconds=figures.p95_seconds,
        p99_seconds=figures.p99_seconds,
        busy_members=figures.busy_members,
        reason=_load_reason(load, figures),
    )


def workload_iops(
    level: Level,
    disks: Sequence[DiskRates],
    workload: Workload,
    *,
    failed: frozenset[int] = frozenset(),
    working_bytes: int | None = None,
) -> Prediction:
    """The I/Os per second of ``predict_load``; for a mix, reads and writes together."""
    load = predict_load(level, disks, workload, failed=failed, working_bytes=working_bytes)
    return Prediction(load.iops, load.reason)


def _sequential_load(level: Level, disks: Sequence[DiskRates], workload: Workload) -> LoadPrediction:
    stream = sequential_bytes_per_second(level, disks, workload.direction)
    iops = stream.value / workload.block_bytes
    # Little's law: what is in flight is what leaves per second times how long it stays.
    mean = workload.depth_total / iops
    return LoadPrediction(iops, mean, None, None, None, float(len(disks)), stream.reason)


def _load_reason(load: ArrayUnderLoad, figures: LoadFigures) -> str:
    alive = len(load.servers) - len(load.failed)
    if 0 < load.write_share < 1:
        cost = (
            f"a request is {figures.reads_per_request:.3g} member reads and {figures.writes_per_request:.3g} member "
            f"writes on average"
        )
    else:
        work = demand(load.level, len(load.servers), is_write=load.write_share >= 1, failed=load.failed)
        cost = _cost(work, is_write=load.write_share >= 1)
    state = f", with {len(load.failed)} missing," if load.failed else ""
    return f"{cost}; {load.depth} in flight keep {figures.busy_members:.2g} of {alive} members{state} busy"


def _cost(work: Demand, *, is_write: bool) -> str:
    """``one small write is 2 reads, then 2 writes of members``."""
    reads, writes = work.total_reads, work.total_writes
    if not is_write:
        what = "1 member read" if abs(reads - 1) < _ROUNDING else f"{reads:.3g} member reads on average"
        return f"one read is {what}"
    written = f"{writes:.3g} member write{'' if abs(writes - 1) < _ROUNDING else 's'}"
    if reads:
        return f"one small write is {reads:.3g} member reads and, after them, {written}"
    return f"one small write is {written}"


def _servers(disks: Sequence[DiskRates]) -> tuple[Server, ...]:
    """Raises SpecError for a disk that does nothing."""
    if any(min(disk.random_read_iops, disk.random_write_iops) <= 0 for disk in disks):
        raise SpecError("a disk with 0 I/Os a second has no service time", hint="measure the disks again")
    return tuple(
        Server(1 / disk.random_read_iops, 1 / disk.random_write_iops, disk.concurrent_requests) for disk in disks
    )


@dataclass(frozen=True, slots=True)
class Demand:
    """Average member I/Os of one small request."""

    reads: tuple[float, ...]
    """By slot."""
    writes: tuple[float, ...]
    """By slot."""
    stages: float
    """Steps that wait for each other: 2 where md reads before it writes."""

    @property
    def total_reads(self) -> float:
        return sum(self.reads)

    @property
    def total_writes(self) -> float:
        return sum(self.writes)


@lru_cache(maxsize=1024)
def demand(level: Level, members: int, *, is_write: bool, failed: frozenset[int] = frozenset()) -> Demand:
    """The demand of a small read or write, md's stripe cache left aside. Raises SpecError for a lost array."""
    idle = Servers([Server(1.0, 1.0)] * members, follows_heads=True)
    requests = requests_for(level, members, failed, idle, lambda: 0.0, is_rotational=True)
    work = ([0.0] * members, [0.0] * members)
    stages = 0
    for place in range(requests.places):
        found = requests.stages(place, is_write, 0.0)
        stages += len(found)
        for slots, writes in found:
            chosen = _copies(requests, place, slots, is_write)
            for slot in chosen:
                work[writes][slot] += len(slots) / len(chosen)
    reads, writes_by_slot = ([amount / requests.places for amount in amounts] for amounts in work)
    return Demand(tuple(reads), tuple(writes_by_slot), stages / requests.places)


def _copies(requests: Requests, place: int, slots: tuple[int, ...], is_write: bool) -> tuple[int, ...]:
    """A mirror's reads spread evenly over the copies; everything else is where it is."""
    return slots if is_write else requests.copies_of(place) or slots


def ceiling_iops(
    level: Level, servers: Sequence[Server], *, is_write: bool, failed: frozenset[int] = frozenset()
) -> float:
    """Requests per second that no queue depth exceeds: then the busiest member never rests.

    Raises SpecError without disks.
    """
    if not servers:
        raise SpecError("an array without disks does no work", hint="give the members' rates")
    work = demand(level, len(servers), is_write=is_write, failed=failed)
    seconds = [
        (reads * server.read_seconds + writes * server.write_seconds) / server.concurrent_requests
        for reads, writes, server in zip(work.reads, work.writes, servers, strict=True)
    ]
    return 1 / max(seconds)
