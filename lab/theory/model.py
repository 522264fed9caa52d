"""Closed forms for what an array should do, each with its reason in a sentence.

Teaching models: disks that serve one I/O after another, members picked evenly at random, no caches, no merging.
A measured figure far from them has another limiter, and that is the question to ask (Gregg's benchmarking checklist).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from lab.arrays.levels import Level, LevelName
from lab.errors import SpecError
from lab.units import human_bytes, human_rate
from lab.workloads.workload import Direction, Pattern, Workload


@dataclass(frozen=True, slots=True)
class DiskRates:
    """What one disk does on its own, measured or nominal."""

    random_read_iops: float
    """At queue depth 1: the inverse of its service time."""
    random_write_iops: float
    sequential_read_bytes_per_second: float
    sequential_write_bytes_per_second: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """A number and why; the unit stands in the name of the function that made it."""

    value: float
    reason: str


def expected_busy_disks(disks: int, depth: int) -> float:
    """How many of ``disks`` have work when ``depth`` I/Os each fall on a disk at random: n(1 - (1 - 1/n)^Q).

    An approximation of a closed queue: it throws all I/Os anew each time, although those that wait stay where they are.
    Exact at Q = 1 and for Q far above n; between, up to 30 % above a network of exponential servers, nQ / (n + Q - 1).
    Raises SpecError for fewer than one disk or I/O.
    """
    if disks < 1 or depth < 1:
        raise SpecError(f"{disks} disks at queue depth {depth} do no work", hint="use 1 or more of both")
    return disks * (1 - (1 - 1 / disks) ** depth)


def random_read_iops(level: Level, disks: Sequence[DiskRates], depth: int) -> Prediction:
    """Small random reads per second with ``depth`` I/Os in flight over all jobs. Raises SpecError without disks."""
    parallel = level.read_parallelism(len(disks)) if disks else 0
    busy = expected_busy_disks(parallel, depth)
    rate = _joint_rate([disk.random_read_iops for disk in disks], busy, parallel)
    return Prediction(
        rate,
        f"{depth} I/Os in flight keep {busy:.2g} of {parallel} members busy, and each read is one I/O of one member",
    )


def random_write_iops(level: Level, disks: Sequence[DiskRates], depth: int) -> Prediction:
    """Writes smaller than a chunk per second: member I/Os per second divided by member I/Os per write.

    Raises SpecError without disks.
    """
    members = len(disks)
    cost = level.small_write_ios(members)
    reads = _reads_in(level, members)
    # Each write brings its member I/Os along, half of them (the writes) only after the reads are back.
    in_flight = max(1, depth * max(1, cost - reads))
    busy = expected_busy_disks(members, in_flight)
    service = [(reads / disk.random_read_iops + (cost - reads) / disk.random_write_iops) / cost for disk in disks]
    rate = _joint_rate([1 / seconds for seconds in service], busy, members) / cost
    how = f"{reads} reads and {cost - reads} writes" if reads else f"{cost} write{'s' if cost > 1 else ''}"
    return Prediction(
        rate, f"one small write costs {cost} member I/Os ({how}), and {busy:.2g} of {members} members work"
    )


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


def workload_iops(level: Level, disks: Sequence[DiskRates], workload: Workload) -> Prediction:
    """What ``workload`` should give on this array, in I/Os per second; for a mix, reads and writes together.

    Raises SpecError for a verify workload, whose work is no steady direction.
    """
    if workload.direction is Direction.VERIFY:
        raise SpecError(f"no prediction for verify workload '{workload.id}'", hint="ask for a read or write workload")
    if workload.pattern is Pattern.SEQUENTIAL and workload.direction is not Direction.MIX:
        stream = sequential_bytes_per_second(level, disks, workload.direction)
        return Prediction(stream.value / workload.block_bytes, stream.reason)
    reads = random_read_iops(level, disks, workload.depth_total)
    writes = random_write_iops(level, disks, workload.depth_total)
    if workload.read_percent is None:
        return reads if workload.direction is Direction.READ else writes
    share = workload.read_percent / 100
    value = 1 / (share / reads.value + (1 - share) / writes.value)
    how = f"reads alone {human_rate(reads.value)}, writes alone {human_rate(writes.value)}"
    return Prediction(value, f"{how}, weighted by time at {workload.read_percent} % reads")


def _joint_rate(rates: Sequence[float], busy: float, parallel: int) -> float:
    """Members are hit equally often: few I/Os in flight see the mean service time, many wait for the slowest member."""
    if min(rates) <= 0:
        raise SpecError("a disk with 0 I/Os a second has no service time", hint="measure the disks again")
    mean_rate = len(rates) / sum(1 / rate for rate in rates)
    return min(busy * mean_rate, parallel * min(rates))


def _reads_in(level: Level, members: int) -> int:
    """How many of a small write's member I/Os are reads of old data."""
    cost = level.small_write_ios(members)
    if level.name not in (LevelName.RAID4, LevelName.RAID5, LevelName.RAID6):
        return 0
    written = 3 if level.name is LevelName.RAID6 else 2
    return cost - written
