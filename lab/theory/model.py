"""Predictions of array performance, each with its reason in a sentence or two.

There are two kinds. **Closed forms** are for teaching and for checks by hand: capacity in I/Os, penalties, and bounds
from operational analysis (Denning and Buzen, 1978). An array completes at most one request in the time
that its busiest member needs for its share of a request, and at most ``depth`` requests in the time of a single one.
**Simulation** (``predict_load``) follows md's own order of member reads and writes, on members that serve I/Os in
order of arrival, at a given queue depth. Both ignore the processor, the file system and merging. If a measured
figure is far from its prediction, find out what else limits it (Gregg's benchmarking checklist).

A RAID 0 of unequal members uses all members up to the size of the smallest one, only the larger ones from there to the
next size, and so on. ``member_shares`` returns each member's share of a load, and ``mean_stream_members`` the rate of
one stream.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from lab.arrays.geometry import StripZone, strip_zones
from lab.arrays.levels import Level
from lab.disks.kinds import DriveModel
from lab.errors import SpecError
from lab.theory.simulation import ArrayUnderLoad, LoadFigures, Server, Servers, play, requests_for
from lab.units import MIB, human_bytes
from lab.workloads.workload import AccessPattern, Direction, Workload


def covered_zones(member_bytes: Sequence[int], covered_bytes: int | None = None) -> tuple[StripZone, ...]:
    """Return the zones and parts of zones in the first ``covered_bytes`` of an array, or in all of it by default."""
    zones = strip_zones(member_bytes)
    end = zones[-1].end if covered_bytes is None else covered_bytes
    return tuple(replace(zone, end=min(zone.end, end)) for zone in zones if zone.start < end)


def member_shares(member_bytes: Sequence[int], covered_bytes: int | None = None) -> tuple[float, ...]:
    """Return each member's share, by slot, of requests that are distributed uniformly over ``covered_bytes``."""
    zones = covered_zones(member_bytes, covered_bytes)
    total = sum(zone.size for zone in zones)
    return tuple(
        sum(zone.size / len(zone.slots) for zone in zones if slot in zone.slots) / total
        for slot in range(len(member_bytes))
    )


def mean_stream_members(member_bytes: Sequence[int], covered_bytes: int | None = None) -> float:
    """Return the mean rate (size / time) of one stream over ``covered_bytes``, as a multiple of one member's rate."""
    zones = covered_zones(member_bytes, covered_bytes)
    return sum(zone.size for zone in zones) / sum(zone.size / len(zone.slots) for zone in zones)


_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class DiskRates:
    """The rates of a single disk, measured or nominal."""

    random_read_iops: float
    """The rate at queue depth 1, which is the inverse of the service time."""
    random_write_iops: float
    sequential_read_bytes_per_second: float
    sequential_write_bytes_per_second: float
    concurrent_requests: int = 1
    is_rotational: bool = True
    """The disk's queue/rotational attribute, which determines how md chooses the copy to read."""


def nominal_rates(drive: DriveModel, *, sequential: tuple[float, float] | None = None) -> DiskRates:
    """Return the nominal rates of an emulated drive.

    ``sequential`` holds the drive's measured bytes per second for reads and for writes. Without these figures, a drive
    with constant service time is assumed to stream as fast as it serves requests of 1 MiB.
    """
    iops = 1 / drive.service_seconds
    read, write = sequential or (iops * MIB, iops * MIB)
    return DiskRates(iops, iops, read, write, drive.concurrent_requests, drive.is_rotational)


@dataclass(frozen=True, slots=True)
class LoadPrediction:
    """The predicted performance of a load on an array, as the application sees it."""

    iops: float
    mean_seconds: float
    p95_seconds: float | None
    """The 95th percentile, or None for sequential loads, for which only the mean is predicted."""
    reason: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """A predicted value and the reason for it. The name of the function that returns the value contains its unit."""

    value: float
    reason: str


def expected_busy_disks(disks: int, depth: float) -> float:
    """Return how many of ``disks`` are busy on average if ``depth`` I/Os are always in flight, each on a random disk.

    All disks have the same constant service time. In one service time, every busy disk completes one I/O, and the same
    number of I/Os arrives at random disks. If the mean square of the queue lengths is constant, the share of busy disks
    is the solution of a quadratic equation (docs/theory.md). This assumes that the number of busy disks is constant.
    The result is within 2 % of simulated queues. It lies between the result for a network of exponential servers, nQ /
    (n + Q - 1), and that for I/Os that are all redistributed in every service time, n(1 - (1 - 1/n)^Q).

    Raises SpecError if there is not at least one disk and one I/O.
    """
    if disks < 1 or depth < 1:
        raise SpecError(f"no prediction for {disks} disks at queue depth {depth}", hint="use at least 1 of each")
    each = depth / disks
    half = 1 + each - 0.5 / disks
    return float(disks * (half - math.sqrt(half * half - 2 * each)))


def random_iops(level: Level, disks: Sequence[DiskRates], depth: int, *, is_write: bool) -> float:
    """Predict the number of small random reads or writes per second with ``depth`` I/Os in flight, in closed form.

    The result is the number of busy disks divided by the service time of one request. It is limited by the capacity of
    the busiest member. Raises SpecError if there are no disks.
    """
    servers = _servers(disks)
    ceiling = ceiling_iops(level, servers, is_write=is_write)
    work = demand(level, len(disks), is_write=is_write)
    used = [slot for slot in range(len(disks)) if work.reads[slot] + work.writes[slot] > 0]
    # The mean number of a request's member I/Os in flight. The I/Os of a stage run in parallel, and stages in sequence.
    side_by_side = (work.total_reads + work.total_writes) / work.stages
    busy = expected_busy_disks(len(used), max(1.0, depth * side_by_side))
    seconds = sum(
        work.reads[slot] * servers[slot].read_seconds + work.writes[slot] * servers[slot].write_seconds for slot in used
    )
    return min(busy / seconds, ceiling)


def small_write_cost(level: Level, members: int) -> Prediction:
    """Return the number of member I/Os of one small write."""
    cost, textbook = level.small_write(members).ios, level.write_penalty
    if cost == textbook:
        return Prediction(cost, f"md and textbooks agree on {cost} for {members} members")
    return Prediction(cost, f"md needs {cost} on {members} members where textbooks count {textbook}")


def sequential_bytes_per_second(
    level: Level,
    disks: Sequence[DiskRates],
    direction: Direction,
    *,
    member_bytes: Sequence[int] = (),
    covered_bytes: int | None = None,
) -> Prediction:
    """Return an upper bound for the rate of one sequential stream of large requests.

    ``member_bytes`` contains the sizes of a RAID 0's members. If these differ, the array has zones, and the result is
    the mean over the first ``covered_bytes`` of the array, or over the whole array if ``covered_bytes`` is None. Raises
    SpecError if there are no disks, or if the direction is neither read nor write.
    """
    if not disks or direction not in (Direction.READ, Direction.WRITE):
        raise SpecError(f"no sequential prediction for '{direction}' on {len(disks)} disks", hint="use read or write")
    is_read = direction is Direction.READ
    slowest = min(
        disk.sequential_read_bytes_per_second if is_read else disk.sequential_write_bytes_per_second for disk in disks
    )
    if len(set(member_bytes)) > 1:
        mean, last = mean_stream_members(member_bytes, covered_bytes), strip_zones(member_bytes)[-1]
        alone = f"in zones, the last {human_bytes(last.size)} on {len(last.slots)} of {len(disks)} members"
        return Prediction(mean * slowest, f"{mean:.3g} members' worth at the slowest member's pace on average: {alone}")
    rotates = any(disk.is_rotational for disk in disks)
    reads, writes = level.sequential_read_members(len(disks), is_rotational=rotates), level.data_members(len(disks))
    data = reads if is_read else writes
    return Prediction(float(data) * slowest, f"{float(data):g} members' worth of data at the slowest member's pace")


def rebuild_seconds(
    used_device_bytes: int, disks: Sequence[DiskRates], *, sync_speed_max_bytes_per_second: float | None = None
) -> Prediction:
    """Predict the time to rebuild one member without other load, at the rate of the slowest member.

    ``disks`` are the surviving members and the new one. If md's sync_speed_max (md(4)) is given, it limits the rate as
    well. Raises SpecError if there are no disks.
    """
    if not disks:
        raise SpecError("no prediction for a rebuild without disks", hint="supply the members' measured rates")
    limits = {
        "the slowest member's sequential read": min(disk.sequential_read_bytes_per_second for disk in disks),
        "the slowest member's sequential write": min(disk.sequential_write_bytes_per_second for disk in disks),
    }
    if sync_speed_max_bytes_per_second is not None:
        limits["md's sync_speed_max"] = sync_speed_max_bytes_per_second
    limiter = min(limits, key=lambda name: limits[name])
    pace = limits[limiter]
    if pace <= 0:
        raise SpecError(f"{limiter} is {pace:g} bytes per second", hint="measure the disks again")
    reason = f"{human_bytes(used_device_bytes)} at {human_bytes(pace)}/s, set by {limiter}"
    return Prediction(used_device_bytes / pace, reason)


def predict_load(
    level: Level,
    disks: Sequence[DiskRates],
    workload: Workload,
    *,
    failed: frozenset[int] = frozenset(),
    working_bytes: int | None = None,
    chunk_bytes: int | None = None,
    member_bytes: Sequence[int] = (),
) -> LoadPrediction:
    """Predict the performance of ``workload`` on this array, complete or without the slots in ``failed``.

    ``working_bytes`` is the load's working set on the array. If it is given, hits in md's stripe cache are included.
    Random requests are aligned. Without ``chunk_bytes``, each is assumed to lie within a chunk. ``member_bytes``
    contains the sizes of the members. In a RAID 0 of unequal members, the zones beyond ``working_bytes`` are ignored.

    Raises SpecError for a verify workload, because its direction is not constant. Also raises SpecError if the array
    has failed, if the load is sequential and the array is degraded, or if ``requests_for`` does.
    """
    if workload.direction is Direction.VERIFY:
        raise SpecError(f"no prediction for verify workload '{workload.id}'", hint="use a read or write workload")
    if workload.pattern is AccessPattern.SEQUENTIAL and workload.direction is not Direction.MIX:
        if failed:
            raise SpecError("no prediction for a sequential load on a degraded array", hint="use a random load")
        return _sequential_load(level, disks, workload, member_bytes if level.has_zones else (), working_bytes)
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
        chunks=-(-workload.block_bytes // chunk_bytes) if chunk_bytes and level.has_chunk else 1,
        shares=member_shares(member_bytes, working_bytes) if level.has_zones and member_bytes else (),
    )
    found = play(load)
    return LoadPrediction(found.iops, found.mean_seconds, found.p95_seconds, _load_reason(load, found))


def _sequential_load(
    level: Level, disks: Sequence[DiskRates], workload: Workload, member_bytes: Sequence[int], covered_bytes: int | None
) -> LoadPrediction:
    stream = sequential_bytes_per_second(
        level, disks, workload.direction, member_bytes=member_bytes, covered_bytes=covered_bytes
    )
    iops = stream.value / workload.block_bytes
    # By Little's law, the number of requests in flight is throughput x mean latency.
    mean = workload.depth_total / iops
    return LoadPrediction(iops, mean, None, stream.reason)


def _load_reason(load: ArrayUnderLoad, figures: LoadFigures) -> str:
    alive = len(load.servers) - len(load.failed)
    if 0 < load.write_share < 1:
        reads, writes = figures.reads_per_request, figures.writes_per_request
        cost = f"a request is {reads:.3g} member reads and {writes:.3g} member writes on average"
    else:
        is_write = load.write_share >= 1
        work = demand(load.level, len(load.servers), is_write=is_write, failed=load.failed, chunks=load.chunks)
        cost = _cost(work, is_write=is_write, chunks=load.chunks)
    state = f", with {len(load.failed)} missing," if load.failed else ""
    if len(set(load.shares)) > 1:
        cost += f", of which the largest member gets {max(load.shares):.0%}"
    return f"{cost}; {load.depth} in flight keep {figures.busy_members:.2g} of {alive} members{state} busy"


def _cost(work: Demand, *, is_write: bool, chunks: int = 1) -> str:
    """Return the cost as text, such as ``one small write is 2 member reads and, after them, 2 member writes``."""
    small = "small write" if chunks == 1 else f"write of {chunks} chunks"
    reads, writes = work.total_reads, work.total_writes
    if not is_write:
        what = "1 member read" if abs(reads - 1) < _ROUNDING else f"{reads:.3g} member reads on average"
        return f"one read is {what}"
    written = f"{writes:.3g} member write{'' if abs(writes - 1) < _ROUNDING else 's'}"
    if reads:
        return f"one {small} is {reads:.3g} member reads and, after them, {written}"
    return f"one {small} is {written}"


def _servers(disks: Sequence[DiskRates]) -> tuple[Server, ...]:
    """Return the members as servers. Raises SpecError if a disk has a rate of 0."""
    if any(min(disk.random_read_iops, disk.random_write_iops) <= 0 for disk in disks):
        raise SpecError("a disk cannot have a rate of 0 I/Os per second", hint="measure the disks again")
    return tuple(
        Server(1 / disk.random_read_iops, 1 / disk.random_write_iops, disk.concurrent_requests) for disk in disks
    )


@dataclass(frozen=True, slots=True)
class Demand:
    """The mean number of member I/Os of one small request, by slot."""

    reads: tuple[float, ...]
    writes: tuple[float, ...]
    stages: float
    """The number of steps in sequence, for example 2 if md reads before it writes."""

    @property
    def total_reads(self) -> float:
        return sum(self.reads)

    @property
    def total_writes(self) -> float:
        return sum(self.writes)


@lru_cache(maxsize=1024)
def demand(
    level: Level, members: int, *, is_write: bool, failed: frozenset[int] = frozenset(), chunks: int = 1
) -> Demand:
    """Return the demand of a read or write of ``chunks`` chunks, without the stripe cache. Raises SpecError."""
    idle = Servers([Server(1.0, 1.0)] * members, follows_heads=True)
    requests = requests_for(level, members, failed, idle, lambda: 0.0, is_rotational=True, chunks=chunks)
    work = ([0.0] * members, [0.0] * members)
    stages = 0
    for place in range(requests.places):
        found = requests.stages(place, is_write, 0.0)
        stages += len(found)
        for slots, writes in found:
            # Reads of a mirror are spread evenly over the copies, whereas other I/Os keep their slots.
            chosen = slots if is_write else requests.copies_of(place) or slots
            for slot in chosen:
                work[writes][slot] += len(slots) / len(chosen)
    reads, writes_by_slot = ([amount / requests.places for amount in amounts] for amounts in work)
    return Demand(tuple(reads), tuple(writes_by_slot), stages / requests.places)


def ceiling_iops(level: Level, servers: Sequence[Server], *, is_write: bool) -> float:
    """Return the requests per second at which the busiest member is always busy. Raises SpecError without disks."""
    if not servers:
        raise SpecError("no prediction for an array without disks", hint="supply the members' rates")
    work = demand(level, len(servers), is_write=is_write)
    seconds = [
        (reads * server.read_seconds + writes * server.write_seconds) / server.concurrent_requests
        for reads, writes, server in zip(work.reads, work.writes, servers, strict=True)
    ]
    return 1 / max(seconds)
