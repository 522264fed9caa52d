"""Observation of an open lab: snapshots of all arrays and disks, the events between them, and their history."""

from __future__ import annotations

import contextlib
import math
import threading
from array import array as number_array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import takewhile

from lab.arrays.discovery import BroughtUp
from lab.arrays.levels import kernel_name
from lab.arrays.status import MDSTAT, ArrayStatus, SyncAction, parse_mdstat
from lab.disks.inventory import absent
from lab.errors import LabError, MachineLost
from lab.gates.decoding import read_seconds
from lab.machine import RawSample, SampleRequest
from lab.machine.api import SampleStream
from lab.measure.samples import (
    TICKS_PER_SECOND,
    DiskCounters,
    ThreadTicks,
    parse_diskstats,
    rates_between,
)
from lab.session.session import LabSession
from lab.units import SECTOR_BYTES
from lab.workloads.fio_output import LiveInterval


class EventKind(StrEnum):
    """The kinds of events."""

    ARRAY_APPEARED = "array-appeared"
    ARRAY_GONE = "array-gone"
    ARRAY_BROKEN = "array-broken"
    MEMBER_FAULTY = "member-faulty"
    MEMBER_REMOVED = "member-removed"
    MEMBER_ADDED = "member-added"
    MEMBER_IN_SYNC = "member-in-sync"
    DEGRADED = "degraded"
    RESTORED = "restored"
    SYNC_STARTED = "sync-started"
    SYNC_FINISHED = "sync-finished"
    MISMATCH = "mismatch"
    DISK_VANISHED = "disk-vanished"
    DISK_RETURNED = "disk-returned"


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    time_seconds: float
    """The time of the snapshot that first showed the event, on the machine's monotonic clock."""
    kind: EventKind
    array: str
    """The array's name, or an empty string for events that concern only a disk."""
    device: str
    """The disk's node, or an empty string for events that concern a whole array."""
    sentence: str


NameOf = Callable[[str], str]


def events_between(before: Snapshot, after: Snapshot, *, name_of: NameOf = lambda node: node) -> Iterator[Event]:
    """Yield the events between two snapshots, with causes before effects. ``name_of`` maps a node to the lab's name."""
    now = after.time_seconds
    for kernel in sorted(after.vanished - before.vanished):
        node = f"/dev/{kernel}"
        yield Event(now, EventKind.DISK_VANISHED, "", node, f"{name_of(node)} has vanished")
    for kernel in sorted(before.vanished - after.vanished):
        node = f"/dev/{kernel}"
        yield Event(now, EventKind.DISK_RETURNED, "", node, f"{name_of(node)} is back")
    for status in before.arrays:
        if after.array(status.name) is None:
            yield Event(now, EventKind.ARRAY_GONE, status.name, "", f"{status.name} was stopped")
    for status in after.arrays:
        earlier = before.array(status.name)
        if earlier is None:
            words = f"{status.name} was started: {status.level} of {status.raid_disks} {status.unit}s"
            yield Event(now, EventKind.ARRAY_APPEARED, status.name, "", words)
            # Sync and degradation are reported as events of the new array.
            earlier = replace(
                status, sync_action=SyncAction.IDLE, sync_progress=None, degraded_count=0, mismatch_sectors=0
            )
        yield from _array_events(earlier, status, now, name_of)


def _array_events(before: ArrayStatus, after: ArrayStatus, now: float, name_of: NameOf) -> Iterator[Event]:
    name = after.name
    yield from _member_events(before, after, now, name_of)
    if after.degraded_count > before.degraded_count:
        yield Event(now, EventKind.DEGRADED, name, "", f"{name} is degraded: {_missing(after)}")
    if after.state.is_broken and not before.state.is_broken:
        loss = after.loss_words or "it has lost more members than it can survive"
        yield Event(now, EventKind.ARRAY_BROKEN, name, "", f"{name} is broken: {loss}")
    was, now_is = before.sync_action, after.sync_action
    if was.is_busy and now_is is not was:
        yield Event(now, EventKind.SYNC_FINISHED, name, "", f"the {was.noun} of {name} has ended")
    if now_is.is_busy and now_is is not was:
        yield Event(now, EventKind.SYNC_STARTED, name, "", f"a {now_is.noun} of {name} has begun")
    if before.is_degraded and not after.is_degraded:
        yield Event(now, EventKind.RESTORED, name, "", f"{name} is whole again")
    elif 0 < after.degraded_count < before.degraded_count:
        yield Event(now, EventKind.RESTORED, name, "", f"{name} is less degraded: {_missing(after)}")
    if (after.mismatch_sectors or 0) > (before.mismatch_sectors or 0):
        words = f"{name}: copies or parity differ somewhere in {after.mismatch_sectors} sectors"
        yield Event(now, EventKind.MISMATCH, name, "", words)


def _member_events(before: ArrayStatus, after: ArrayStatus, now: float, name_of: NameOf) -> Iterator[Event]:
    array, earlier = after.name, {member.device: member for member in before.members}
    for member in after.members:
        device, name = member.device, name_of(member.device)
        was = earlier.pop(device, None)
        if was is None:
            yield Event(now, EventKind.MEMBER_ADDED, array, device, f"{name} has joined {array}")
        if member.is_faulty and not (was and was.is_faulty):
            yield Event(now, EventKind.MEMBER_FAULTY, array, device, after.faulty_sentence(member, name))
        if was and member.is_in_sync and not was.is_in_sync:
            yield Event(now, EventKind.MEMBER_IN_SYNC, array, device, after.in_sync_sentence(member, name))
    for device in earlier:
        yield Event(now, EventKind.MEMBER_REMOVED, array, device, f"{name_of(device)} has left {array}")


def _missing(status: ArrayStatus) -> str:
    count = status.degraded_count
    return f"1 {status.unit} is missing" if count == 1 else f"{count} {status.unit}s are missing"


Point = tuple[float, float | None]
"""A time on the machine's clock in seconds, and the value at that time, or None if it is unknown."""
DEFAULT_HERTZ = 4.0
SLOW_SECONDS = 2.0
"""The maximum age of values that /proc/mdstat does not show: error counts, mismatches, and clean or active."""
STILL_SECONDS = 10.0
"""The maximum age of these values while there is no I/O, because they hardly change then."""
_PARTITIONS = "/proc/partitions"
"""A list of the disks with a size (show_partition() in block/genhd.c), so a vanished disk is missing immediately."""
_WATCHED_ARRAYS = tuple(f"md{number}" for number in (*range(32), *range(120, 128)))
_STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of all arrays and disks at one time."""

    time_seconds: float
    """The time on the machine's monotonic clock."""
    arrays: tuple[ArrayStatus, ...]
    disks: Mapping[str, DiskCounters]
    """The counters of arrays, members and the lab's disks by kernel name, and those of arrays also by their names."""
    md_thread_ticks: Mapping[str, int] = field(default_factory=dict)
    """The CPU time of each array's kernel threads since the first snapshot, in hundredths of a second."""
    vanished: frozenset[str] = frozenset()
    """The kernel names of the lab disks that have disappeared."""

    def array(self, name: str) -> ArrayStatus | None:
        return next((status for status in self.arrays if status.name == name), None)


def take_snapshot(session: LabSession, name: str | None = None) -> Snapshot:
    """Take one snapshot of all arrays, or only of the array ``name``.

    Raises ArrayError if that array is not running.
    """
    arrays = (session.array(name).status(),) if name else session.statuses()
    texts = session.machine.read(["/proc/uptime", "/proc/diskstats", MDSTAT])
    # proc(5): the first number is the uptime in seconds.
    uptime = (texts["/proc/uptime"] or "").partition(" ")[0]
    return Snapshot(
        read_seconds(uptime, "/proc/uptime"),
        tuple(status.with_progress(parse_mdstat(texts[MDSTAT] or "").progress) for status in arrays),
        parse_diskstats(texts["/proc/diskstats"] or ""),
    )


class Monitor:
    """Takes snapshots on its own thread after ``Monitor(session, on_snapshot=…, on_end=…).start()``.

    Args:
        session: an open lab; the monitor follows arrays as they appear and disappear, including those made by hand.
        hertz: snapshots per second. In virtual time these are seconds of this computer's clock, and a snapshot that
            shows no change is not reported.
        on_snapshot: called with each snapshot, on the monitor's thread; a slow callback delays the next snapshot.
        on_end: called once at the end, with None after ``stop``, otherwise with the error (MachineLost).
    """

    def __init__(
        self,
        session: LabSession,
        *,
        on_snapshot: Callable[[Snapshot], None],
        on_end: Callable[[LabError | None], None] = lambda _: None,
        hertz: float = DEFAULT_HERTZ,
    ) -> None:
        self._session = session
        self._on_snapshot = on_snapshot
        self._on_end = on_end
        self._interval = 1 / hertz
        self._is_virtual = session.machine.facts.is_virtual_time
        self._maker = SnapshotMaker(session)
        self._stream: SampleStream | None = None
        self._state = threading.Lock()
        self._stopping = threading.Event()
        self._newest: tuple[float, float] | None = None
        self._thread = threading.Thread(target=self._run, name="raidlab-monitor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop; no snapshot follows after this has returned. It is safe to call repeatedly, and on a lost machine."""
        with self._state:
            self._stopping.set()
            stream = self._stream
        if stream:
            with contextlib.suppress(LabError):
                stream.stop()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=_STOP_SECONDS)

    def machine_seconds(self) -> float | None:
        """Return the machine's time, or None before the first snapshot. It is extrapolated, except in virtual time."""
        if self._newest is None:
            return None
        machine, here = self._newest
        return machine if self._is_virtual else machine + self._session.host.clock.monotonic_seconds() - here

    def _run(self) -> None:
        try:
            if self._is_virtual:
                self._follow_asking()
            else:
                self._follow_streams()
        except LabError as error:
            self._on_end(None if self._stopping.is_set() and not isinstance(error, MachineLost) else error)
        except Exception as error:
            self._on_end(LabError(f"watching the arrays failed: {error!r}", hint="report this"))
            raise
        else:
            self._on_end(None)

    def _follow_streams(self) -> None:
        while not self._stopping.is_set():
            stream = self._session.machine.sample(self._maker.request(self._interval))
            with self._state:
                self._stream = stream
                is_late = self._stopping.is_set()
            if is_late:
                stream.stop()
                break
            for raw in stream:
                self._report(raw)
                if self._maker.misses_devices:
                    # This stream does not cover a device that has appeared, but the next one will.
                    stream.stop()
                    break
            else:
                break

    def _follow_asking(self) -> None:
        reported: object = None
        found: BroughtUp | None = None
        while not self._stopping.is_set():
            # Work takes no time in virtual time, so threads have no CPU time to report.
            request = replace(self._maker.request(0.0), thread_prefixes=())
            for raw in self._session.machine.sample(request):
                if found is not self._session.found:
                    # A plan has run, and may have changed values that only sysfs shows.
                    found, reported = self._session.found, None
                    self._maker.forget()
                # Rounded, because the sample itself takes a few microseconds.
                shown = (raw.files, round(raw.time_seconds, 2))
                if shown != reported:
                    reported = shown
                    self._report(raw)
            self._stopping.wait(self._interval)

    def _report(self, raw: RawSample) -> None:
        snapshot = self._maker.snapshot(raw)
        self._newest = (snapshot.time_seconds, self._session.host.clock.monotonic_seconds())
        self._on_snapshot(snapshot)


class SnapshotMaker:
    """Converts samples into snapshots, and reads sysfs only when necessary."""

    def __init__(self, session: LabSession) -> None:
        self._session = session
        self._arrays: tuple[ArrayStatus, ...] = ()
        self._vanished: frozenset[str] = frozenset()
        self._shown: tuple[str, str | None, BroughtUp] | None = None
        self._counted: str | None = None
        self._read_seconds = 0.0
        self._asked: frozenset[str] = frozenset()
        self._threads = ThreadTicks()
        self._at_work: dict[str, ArrayStatus] = {}

    @property
    def misses_devices(self) -> bool:
        """Whether the last snapshot contains a device whose counters were not requested."""
        return not self._devices() <= self._asked

    def forget(self) -> None:
        """Force the next snapshot to read sysfs."""
        self._shown = None

    def request(self, interval_seconds: float) -> SampleRequest:
        self._asked = self._devices()
        prefixes = tuple(f"{name}_" for name in (*_WATCHED_ARRAYS, *self._inner_names()))
        return SampleRequest(
            interval_seconds,
            ("/proc/diskstats", MDSTAT, _PARTITIONS),
            tuple(sorted(self._asked)),
            prefixes,
        )

    def snapshot(self, raw: RawSample) -> Snapshot:
        text = raw.files.get(MDSTAT) or ""
        stat = parse_mdstat(text)
        # What is known about arrays made of other arrays changes with ``found``.
        shown = (stat.shape, raw.files.get(_PARTITIONS), self._session.found)
        counted = raw.files.get("/proc/diskstats")
        may_be_old = SLOW_SECONDS if counted != self._counted else STILL_SECONDS
        if shown != self._shown or raw.time_seconds - self._read_seconds >= may_be_old:
            # An array that mdadm is still assembling or stopping is treated as absent.
            self._arrays = tuple(each for each in self._session.statuses() if each.state.is_running)
            self._vanished = absent(self._session.machine, [disk.kernel_name for disk in self._session.disks])
            self._shown, self._counted, self._read_seconds = shown, counted, raw.time_seconds
        arrays = tuple(status.with_progress(stat.progress) for status in self._arrays)
        return Snapshot(
            raw.time_seconds,
            tuple(self._bridged(each) for each in arrays),
            _by_array(parse_diskstats(raw.files.get("/proc/diskstats") or ""), arrays),
            self._thread_ticks(raw.thread_cpu_ticks),
            self._vanished,
        )

    def _bridged(self, status: ArrayStatus) -> ArrayStatus:
        """Return the status or, if md is briefly idle during a background plan, the status before that period."""
        if status.sync_action.is_busy:
            self._at_work[status.name] = status
            return status
        before = self._at_work.get(status.name)
        bridged = status.bridged(before) if before and status.name in self._session.going_on else status
        if bridged is status:
            self._at_work.pop(status.name, None)
        return bridged

    def _inner_names(self) -> tuple[str, ...]:
        return tuple(inner.name for status in self._arrays for inner in status.inner)

    def _devices(self) -> frozenset[str]:
        members = {kernel_name(member.device) for status in self._arrays for member in status.members}
        names = {status.kernel_name for status in self._arrays} | set(self._inner_names())
        return frozenset({*_WATCHED_ARRAYS, *names, *members, *(disk.kernel_name for disk in self._session.disks)})

    def _thread_ticks(self, ticks: Mapping[str, int]) -> dict[str, int]:
        """Return the CPU time of each array's threads in ticks, which for a volume is the sum over its arrays."""
        sums = self._threads.add(ticks)
        for status in self._arrays:
            if status.inner:
                sums[status.name] = sum(sums.get(each.name, 0) for each in status.inner)
        return sums


def _by_array(counters: Mapping[str, DiskCounters], arrays: tuple[ArrayStatus, ...]) -> dict[str, DiskCounters]:
    """Return the counters by kernel name, and also by the array's name if its kernel name is different."""
    names = {status.name: status.kernel_name for status in arrays}
    return {**counters, **{name: counters[kernel] for name, kernel in names.items() if kernel in counters}}


RATE_SECONDS = 5.0
"""The period over which a sync's speed is averaged; it is longer if it would contain only a few snapshots."""
_RATE_SNAPSHOTS = 6
LEAST_SECONDS = 1.0
"""The period after which the remaining time is reported; extrapolated from a burst or a pause, it is meaningless."""


@dataclass(frozen=True, slots=True)
class SyncPace:
    """The speed and the remaining time of a sync."""

    bytes_per_second: float
    """The speed on each member."""
    left_seconds: float | None
    """The remaining time, or None while the sync makes no progress and in its first second."""


def sync_pace(snapshots: Sequence[Snapshot], name: str) -> SyncPace | None:
    """Return the pace of the sync in the newest snapshot.

    Returns None if it shows no sync, or if no other snapshot shows the same kind of sync.
    """
    seen = [(snapshot.time_seconds, status) for snapshot in snapshots if (status := snapshot.array(name))]
    if not seen or seen[-1][1].sync_progress is None:
        return None
    newest_time, newest = seen[-1]
    for time, status in seen:
        before, now = status.sync_progress, newest.sync_progress
        if before is None or now is None or status.sync_action is not newest.sync_action:
            continue
        moved = (now.done_sectors - before.done_sectors) * SECTOR_BYTES
        if time < newest_time and moved >= 0:
            stretch = newest_time - time
            rate = moved / stretch
            left = (now.total_sectors - now.done_sectors) * SECTOR_BYTES
            return SyncPace(rate, left / rate if rate > 0 and stretch >= LEAST_SECONDS else None)
    return None


def recent(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """Return the snapshots of the last ``RATE_SECONDS``, but at least a few, with the oldest first."""
    oldest = snapshots[-1].time_seconds - RATE_SECONDS if snapshots else 0.0
    few = len(snapshots) - _RATE_SNAPSHOTS
    return [snapshot for number, snapshot in enumerate(snapshots) if snapshot.time_seconds >= oldest or number >= few]


DEFAULT_SECONDS = 600.0


class Measure(StrEnum):
    """The values recorded for every device."""

    READ_IOPS = "read_iops"
    WRITE_IOPS = "write_iops"
    READ_BYTES_PER_SECOND = "read_bytes_per_second"
    WRITE_BYTES_PER_SECOND = "write_bytes_per_second"
    UTILISATION = "utilisation"
    """The fraction of time during which the device was busy, 0 to 1."""


_MEASURES = tuple(Measure)


class LoadMeasure(StrEnum):
    """The values recorded for a load, for reads and writes together."""

    IOPS = "iops"
    BYTES_PER_SECOND = "bytes_per_second"
    P50_SECONDS = "p50_seconds"
    P99_SECONDS = "p99_seconds"


@dataclass(frozen=True, slots=True)
class _Moment:
    """The values for the period since the previous snapshot."""

    time_seconds: float
    rates: Mapping[str, number_array[float]]
    """The values of each device (array, member or disk), in the order of ``Measure``, stored compactly."""
    md_cpus: Mapping[str, float]
    """The number of CPUs that each array's kernel threads kept busy."""
    syncs: Mapping[str, float]
    """The speed of each array's sync, in bytes per second."""


class History:
    """Stores snapshots and intervals of loads, and returns time series. It is not thread-safe."""

    def __init__(self, *, seconds: float = DEFAULT_SECONDS, hertz: float = DEFAULT_HERTZ) -> None:
        size = max(2, round(seconds * hertz))
        self._moments: deque[_Moment] = deque(maxlen=size)
        self._snapshots: deque[Snapshot] = deque(maxlen=max(2, round(6 * hertz)))
        self._load: deque[tuple[float, LiveInterval]] = deque(maxlen=size)

    @property
    def newest(self) -> Snapshot | None:
        return self._snapshots[-1] if self._snapshots else None

    def span_seconds(self, snapshots: int) -> float:
        """Return the machine time that the newest ``snapshots`` snapshots cover."""
        if not self._moments:
            return 0.0
        first = self._moments[max(0, len(self._moments) - snapshots - 1)]
        return self._moments[-1].time_seconds - first.time_seconds

    def add(self, snapshot: Snapshot) -> None:
        """Append a snapshot. Snapshots that are not later than the newest are ignored."""
        before = self.newest
        if before and snapshot.time_seconds <= before.time_seconds:
            return
        self._snapshots.append(snapshot)
        rates: dict[str, number_array[float]] = {}
        md_cpus: dict[str, float] = {}
        if before:
            found = ((device, rates_between(before, snapshot, device)) for device in snapshot.disks)
            rates = {
                device: number_array("d", [getattr(each, measure.value) for measure in Measure])
                for device, each in found
                if each
            }
            seconds = snapshot.time_seconds - before.time_seconds
            for name, ticks in snapshot.md_thread_ticks.items():
                more = ticks - before.md_thread_ticks.get(name, 0)
                md_cpus[name] = max(0.0, more / TICKS_PER_SECOND / seconds)
        paces = ((status.name, self.pace(status.name)) for status in snapshot.arrays if status.sync_progress)
        syncs = {name: pace.bytes_per_second for name, pace in paces if pace}
        self._moments.append(_Moment(snapshot.time_seconds, rates, md_cpus, syncs))

    def add_load(self, interval: LiveInterval, time_seconds: float) -> None:
        self._load.append((time_seconds, interval))

    def rates(self, device: str, measure: Measure, *, seconds: float | None = None) -> list[Point]:
        """Return one measure of one device (an array, a member or a disk) over the last ``seconds``."""
        return self._points(lambda moment: _rate(moment, device, measure), seconds)

    def md_cpu(self, name: str, *, seconds: float | None = None) -> list[Point]:
        """Return how many CPUs an array's kernel threads kept busy, from a clock with a resolution of 10 ms."""
        return self._points(lambda moment: moment.md_cpus.get(name), seconds)

    def sync_rate(self, name: str, *, seconds: float | None = None) -> list[Point]:
        """Return the speed of an array's sync, in bytes per second on each member."""
        return self._points(lambda moment: moment.syncs.get(name), seconds)

    def pace(self, name: str) -> SyncPace | None:
        return sync_pace(recent(tuple(self._snapshots)), name)

    def load(self, measure: LoadMeasure, *, seconds: float | None = None) -> list[Point]:
        start = self._start(seconds)
        return [(time, load_value(each, measure)) for time, each in self._load if time >= start]

    def now_rate(self, device: str, measure: Measure) -> float | None:
        return _rate(self._moments[-1], device, measure) if self._moments else None

    def _start(self, seconds: float | None) -> float:
        newest = self.newest
        return newest.time_seconds - seconds if newest and seconds is not None else -math.inf

    def _points(self, value: Callable[[_Moment], float | None], seconds: float | None) -> list[Point]:
        """Return the values over the last ``seconds``, or none if no value was known at any time."""
        if all(value(moment) is None for moment in self._moments):
            return []
        start = self._start(seconds)
        newest = takewhile(lambda moment: moment.time_seconds >= start, reversed(self._moments))
        return [(moment.time_seconds, value(moment)) for moment in newest][::-1]


def _rate(moment: _Moment, device: str, measure: Measure) -> float | None:
    rates = moment.rates.get(device)
    return rates[_MEASURES.index(measure)] if rates else None


def load_value(interval: LiveInterval, measure: LoadMeasure) -> float | None:
    """Return one measure of one interval for reads and writes together; a percentile is that of the worse direction."""
    parts = [part for part in (interval.reads, interval.writes) if part]
    if not parts:
        return None
    match measure:
        case LoadMeasure.IOPS:
            return sum(part.iops for part in parts)
        case LoadMeasure.BYTES_PER_SECOND:
            return sum(part.bandwidth_bytes_per_second for part in parts)
        case _:
            values = (getattr(part, measure.value) for part in parts)
            return max((value for value in values if value is not None), default=None)
