"""Recent snapshots of a session, as series on one time axis. Bounded and pure: new values displace old ones.

Every snapshot is a position on the axis; every series has one value, or a gap, at each position.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Iterable
from enum import StrEnum

from lab.measure.samples import TICKS_PER_SECOND, Rates, busy_fraction, rates_between
from lab.session.monitor import DEFAULT_HERTZ, Snapshot, SyncPace, recent, sync_pace
from lab.workloads.fio_output import LiveDirection, LiveInterval

Point = tuple[float, float | None]
"""Time on the machine's clock in seconds, value; None if unknown at that time."""
DEFAULT_SECONDS = 600.0


class Measure(StrEnum):
    """Values recorded for every device."""

    READ_IOPS = "read_iops"
    WRITE_IOPS = "write_iops"
    READ_BYTES_PER_SECOND = "read_bytes_per_second"
    WRITE_BYTES_PER_SECOND = "write_bytes_per_second"
    UTILISATION = "utilisation"
    """Fraction of the time in which the device was busy, 0 to 1."""
    WAIT_SECONDS = "mean_wait_seconds"
    """Mean time of an I/O in the device's queue and in the device."""


class LoadMeasure(StrEnum):
    """Values recorded for a load, reads and writes together."""

    IOPS = "iops"
    BYTES_PER_SECOND = "bytes_per_second"
    P50_SECONDS = "p50_seconds"
    P99_SECONDS = "p99_seconds"


class History:
    """Stores snapshots and intervals of loads, and returns series. Not thread-safe: use it from one thread.

    Args:
        seconds: length of the history.
        hertz: snapshots per second.
    """

    def __init__(self, *, seconds: float = DEFAULT_SECONDS, hertz: float = DEFAULT_HERTZ) -> None:
        self._size = max(2, round(seconds * hertz))
        self._times = _Ring(self._size)
        self._series: dict[tuple[str, str], _Ring] = {}
        self._seen_last: dict[tuple[str, str], int] = {}
        self._looks: deque[Snapshot] = deque(maxlen=max(2, round(6 * hertz)))
        self._load: deque[tuple[float, LiveInterval]] = deque(maxlen=self._size)
        self._count = 0

    @property
    def newest(self) -> Snapshot | None:
        """The latest snapshot."""
        return self._looks[-1] if self._looks else None

    @property
    def devices(self) -> tuple[str, ...]:
        """Kernel names of all devices with series."""
        return tuple(sorted({key for key, name in self._series if name == Measure.READ_IOPS}))

    def span_seconds(self, looks: int) -> float:
        """The machine time covered by the newest ``looks`` snapshots."""
        times = self._times.values()[-looks - 1 :]
        return times[-1] - times[0] if times else 0.0

    def add(self, look: Snapshot) -> None:
        """Append a snapshot to the axis. Snapshots that are not later than the newest are ignored."""
        before = self.newest
        if before and look.time_seconds <= before.time_seconds:
            return
        self._looks.append(look)
        self._times.append(look.time_seconds)
        self._count += 1
        if before:
            self._add_rates(before, look)
        for status in look.arrays:
            if status.sync_progress:
                self._put(status.name, "sync_fraction", status.sync_progress.fraction)
                pace = sync_pace(recent(tuple(self._looks)), status.name)
                if pace:
                    self._put(status.name, "sync_bytes_per_second", pace.bytes_per_second)
        self._fill_gaps()

    def _add_rates(self, before: Snapshot, look: Snapshot) -> None:
        for device in look.disks:
            rates = rates_between(before, look, device)
            if rates:
                self._put_rates(device, rates)
        busy = busy_fraction(before, look)
        if busy is not None:
            self._put("", "cpu", busy)
        seconds = look.time_seconds - before.time_seconds
        for name, ticks in look.md_thread_ticks.items():
            more = ticks - before.md_thread_ticks.get(name, 0)
            self._put(name, "md_cpu", max(0.0, more / TICKS_PER_SECOND / seconds))

    def _put_rates(self, device: str, rates: Rates) -> None:
        for measure in Measure:
            value = getattr(rates, measure.value)
            if value is not None:
                self._put(device, measure, value)

    def _put(self, key: str, name: str, value: float) -> None:
        place = (key, name)
        ring = self._series.get(place)
        if ring is None:
            ring = self._series[place] = _Ring(self._size)
            ring.extend_with_gaps(min(self._count, self._size) - 1)
        ring.append(value)
        self._seen_last[place] = self._count

    def _fill_gaps(self) -> None:
        """Append a gap to every series without a value in this snapshot; drop a series that consists of gaps only."""
        for place in list(self._series):
            if self._seen_last[place] == self._count:
                continue
            if self._count - self._seen_last[place] >= self._size:
                del self._series[place], self._seen_last[place]
            else:
                self._series[place].append(math.nan)

    def add_load(self, interval: LiveInterval, time_seconds: float) -> None:
        """Record a load's interval that ended at ``time_seconds`` of the machine's clock."""
        self._load.append((time_seconds, interval))

    def rates(self, device: str, measure: Measure, *, seconds: float | None = None) -> list[Point]:
        """One measure of one device (an array, a member, a disk) over the last ``seconds``."""
        return self._points(device, measure, seconds)

    def cpu(self, *, seconds: float | None = None) -> list[Point]:
        """Busy fraction of the machine's total CPU time, 0 to 1."""
        return self._points("", "cpu", seconds)

    def md_cpu(self, name: str, *, seconds: float | None = None) -> list[Point]:
        """CPUs kept busy by an array's kernel threads: 1 is one whole CPU. The resolution of their clock is 10 ms."""
        return self._points(name, "md_cpu", seconds)

    def sync_fraction(self, name: str, *, seconds: float | None = None) -> list[Point]:
        """Progress of an array's sync, 0 to 1."""
        return self._points(name, "sync_fraction", seconds)

    def sync_rate(self, name: str, *, seconds: float | None = None) -> list[Point]:
        """Speed of a sync, in bytes per second of each member."""
        return self._points(name, "sync_bytes_per_second", seconds)

    def pace(self, name: str) -> SyncPace | None:
        """Speed and remaining time of the current sync."""
        return sync_pace(recent(tuple(self._looks)), name)

    def load(self, measure: LoadMeasure, *, seconds: float | None = None) -> list[Point]:
        """One measure of the loads on the session's arrays."""
        start = self._start(seconds)
        return [(time, load_value(each, measure)) for time, each in self._load if time >= start]

    def now_rate(self, device: str, measure: Measure) -> float | None:
        """The newest value of a device; None if the last snapshot did not include one."""
        ring = self._series.get((device, measure))
        return ring.last() if ring else None

    def _start(self, seconds: float | None) -> float:
        newest = self.newest
        return newest.time_seconds - seconds if newest and seconds is not None else -math.inf

    def _points(self, key: str, name: str, seconds: float | None) -> list[Point]:
        ring = self._series.get((key, name))
        if ring is None:
            return []
        start = self._start(seconds)
        times = self._times.values()
        return [
            (time, None if math.isnan(value) else value)
            for time, value in zip(times, ring.values(len(times)), strict=True)
            if time >= start
        ]


def load_value(interval: LiveInterval, measure: LoadMeasure) -> float | None:
    """One measure of one interval, reads and writes together; for percentiles, the worse direction."""
    parts = [part for part in (interval.reads, interval.writes) if part]
    if not parts:
        return None
    match measure:
        case LoadMeasure.IOPS:
            return sum(part.iops for part in parts)
        case LoadMeasure.BYTES_PER_SECOND:
            return sum(part.bandwidth_bytes_per_second for part in parts)
        case _:
            return max(_known(parts, measure), default=None)


def _known(parts: Iterable[LiveDirection], measure: LoadMeasure) -> list[float]:
    name = measure.value
    return [value for part in parts if (value := getattr(part, name)) is not None]


class _Ring:
    """The last ``size`` numbers, 8 bytes each."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._data = array("d")
        self._start = 0

    def append(self, value: float) -> None:
        if len(self._data) < self._size:
            self._data.append(value)
        else:
            self._data[self._start] = value
            self._start = (self._start + 1) % self._size

    def extend_with_gaps(self, count: int) -> None:
        self._data.extend([math.nan] * count)

    def values(self, count: int | None = None) -> list[float]:
        """Oldest first; with ``count``, only the newest ``count`` values."""
        ordered = [*self._data[self._start :], *self._data[: self._start]]
        return ordered if count is None else ordered[-count:]

    def last(self) -> float | None:
        if not self._data:
            return None
        value = self._data[self._start - 1] if len(self._data) == self._size else self._data[-1]
        return None if math.isnan(value) else value
