"""Samples: what the agent read at one tick, as numbers on one time axis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lab.arrays.names import md_path
from lab.arrays.state import parse_count, parse_progress
from lab.arrays.status import SyncProgress
from lab.machine.api import RawSample, SampleRequest
from lab.units import SECTOR_BYTES

DEFAULT_HERTZ = 4.0
MAX_HERTZ = 20.0
TICKS_PER_SECOND = 100
"""USER_HZ: the unit of CPU times in /proc, 100 on every architecture that the lab runs on (proc(5))."""


@dataclass(frozen=True, slots=True)
class DiskCounters:
    """Counters of one block device since its start (kernel: Documentation/admin-guide/iostats.rst)."""

    reads: int
    read_bytes: int
    read_wait_seconds: float
    writes: int
    written_bytes: int
    write_wait_seconds: float
    in_flight: int
    busy_seconds: float


@dataclass(frozen=True, slots=True)
class CpuTicks:
    """The first line of /proc/stat, in clock ticks over all CPUs."""

    busy: int
    idle: int
    steal: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One tick."""

    time_seconds: float
    disks: Mapping[str, DiskCounters]
    cpu: CpuTicks | None
    md_thread_ticks: int
    """Sum over all kernel threads of the array that have been seen so far, the ended ones included."""
    sync_action: str
    sync_progress: SyncProgress | None
    degraded_count: int | None


def sample_request(array: str | None, disks: Sequence[str], *, hertz: float = DEFAULT_HERTZ) -> SampleRequest:
    """What to sample for an array (None: a bare disk) and its members, by kernel names."""
    files = ["/proc/stat", "/proc/diskstats"]
    prefixes: tuple[str, ...] = ()
    if array:
        files += [md_path(array, attribute) for attribute in ("sync_action", "sync_completed", "degraded")]
        prefixes = (f"{array}_",)
    devices = (*((array,) if array else ()), *disks)
    return SampleRequest(1 / min(hertz, MAX_HERTZ), tuple(files), devices, prefixes)


class SampleReader:
    """Turns raw samples of one request into samples; keeps what ended threads had used."""

    def __init__(self, array: str | None) -> None:
        self._array = array
        self._ticks: dict[str, int] = {}
        self._ended_ticks = 0

    def read(self, raw: RawSample) -> Sample:
        """One sample. Files that could not be read give empty values, since an array may just have gone."""

        def text(path: str) -> str:
            return (raw.files.get(path) or "").strip()

        for name, ticks in raw.thread_cpu_ticks.items():
            # CPU time never falls: each resync has a new thread of the same name, which begins at 0.
            if ticks < self._ticks.get(name, 0):
                self._ended_ticks += self._ticks[name]
            self._ticks[name] = ticks
        md = {name: text(md_path(self._array, name)) if self._array else "" for name in _MD_FILES}
        return Sample(
            time_seconds=raw.time_seconds,
            disks=parse_diskstats(text("/proc/diskstats")),
            cpu=parse_cpu(text("/proc/stat")),
            md_thread_ticks=self._ended_ticks + sum(self._ticks.values()),
            sync_action=md["sync_action"],
            sync_progress=parse_progress(md["sync_completed"]),
            degraded_count=parse_count(md["degraded"]),
        )


_MD_FILES = ("sync_action", "sync_completed", "degraded")


def parse_diskstats(text: str) -> dict[str, DiskCounters]:
    """Counters by device name."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 14:
            continue
        numbers = [int(field) for field in fields[3:14]]
        found[fields[2]] = DiskCounters(
            reads=numbers[0],
            read_bytes=numbers[2] * SECTOR_BYTES,
            read_wait_seconds=numbers[3] / 1000,
            writes=numbers[4],
            written_bytes=numbers[6] * SECTOR_BYTES,
            write_wait_seconds=numbers[7] / 1000,
            in_flight=numbers[8],
            busy_seconds=numbers[9] / 1000,
        )
    return found


def parse_cpu(text: str) -> CpuTicks | None:
    """The sums over all CPUs; None if the text is not /proc/stat.

    Guest time is counted within user time already, and waiting for I/O is idle (proc(5)).
    """
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0] == "cpu" and len(fields) >= 5:
            numbers = [int(field) for field in fields[1:9]] + [0] * 8
            user, nice, system, idle, wait, irq, soft_irq, steal = numbers[:8]
            return CpuTicks(user + nice + system + irq + soft_irq, idle + wait, steal)
    return None


@dataclass(frozen=True, slots=True)
class Rates:
    """What one device did between two samples."""

    read_iops: float
    write_iops: float
    read_bytes_per_second: float
    write_bytes_per_second: float
    mean_wait_seconds: float | None
    utilisation: float


class Counted(Protocol):
    """Anything that holds counters of disks at one time: a sample, a look."""

    @property
    def time_seconds(self) -> float: ...
    @property
    def disks(self) -> Mapping[str, DiskCounters]: ...


def rates_between(earlier: Counted, later: Counted, device: str) -> Rates | None:
    """True interval values of a device; None if it is missing in one sample or no time passed."""
    before, after = earlier.disks.get(device), later.disks.get(device)
    seconds = later.time_seconds - earlier.time_seconds
    if before is None or after is None or seconds <= 0:
        return None
    reads, writes = after.reads - before.reads, after.writes - before.writes
    waits = (after.read_wait_seconds - before.read_wait_seconds) + (
        after.write_wait_seconds - before.write_wait_seconds
    )
    return Rates(
        read_iops=reads / seconds,
        write_iops=writes / seconds,
        read_bytes_per_second=(after.read_bytes - before.read_bytes) / seconds,
        write_bytes_per_second=(after.written_bytes - before.written_bytes) / seconds,
        mean_wait_seconds=waits / (reads + writes) if reads + writes else None,
        utilisation=min(1.0, (after.busy_seconds - before.busy_seconds) / seconds),
    )


class CpuCounted(Protocol):
    """Anything that holds CPU counters."""

    @property
    def cpu(self) -> CpuTicks | None: ...


def busy_fraction(earlier: CpuCounted, later: CpuCounted) -> float | None:
    """Part of all CPU time that was busy between two samples; None without CPU counters."""
    if earlier.cpu is None or later.cpu is None:
        return None
    busy = later.cpu.busy - earlier.cpu.busy
    total = busy + later.cpu.idle - earlier.cpu.idle
    return busy / total if total > 0 else None
