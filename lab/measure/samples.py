"""Samples of the values that the agent reads at each tick of its clock, and the recorder that collects them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Protocol, Self

from lab.arrays.levels import md_path
from lab.arrays.status import SyncProgress, parse_count, parse_progress
from lab.errors import LabError
from lab.gates.decoding import read_count
from lab.machine.api import Machine, RawSample, SampleRequest
from lab.units import SECTOR_BYTES

DEFAULT_HERTZ = 4.0
TICKS_PER_SECOND = 100
"""USER_HZ, the unit of CPU times in /proc, which is 100 on every architecture that the lab runs on (proc(5))."""
FEWEST_TICKS = 10
"""With fewer busy ticks the CPU cost of an I/O has an error of more than 10 %, and is not reported."""
_MD_FILES = ("sync_action", "sync_completed", "degraded")


@dataclass(frozen=True, slots=True)
class DiskCounters:
    """The counters of one block device since its start (kernel: Documentation/admin-guide/iostats.rst)."""

    reads: int
    read_bytes: int
    read_wait_seconds: float
    writes: int
    written_bytes: int
    write_wait_seconds: float
    in_flight: int
    """Requests that are waiting or being served now."""
    busy_seconds: float

    def since(self, before: DiskCounters) -> DiskCounters:
        """Return the increase since ``before``. ``in_flight`` is not a running total, and remains unchanged."""
        increase = {each.name: getattr(self, each.name) - getattr(before, each.name) for each in fields(self)}
        return DiskCounters(**increase | {"in_flight": self.in_flight})


@dataclass(frozen=True, slots=True)
class CpuTicks:
    """The first line of /proc/stat, in clock ticks summed over all CPUs."""

    busy: int
    idle: int
    steal: int


@dataclass(frozen=True, slots=True)
class Sample:
    """The values at one tick of the sampling clock."""

    time_seconds: float
    disks: Mapping[str, DiskCounters]
    cpu: CpuTicks | None
    md_thread_ticks: int
    """CPU ticks of all kernel threads of the array seen so far, including those that have exited."""
    sync_action: str
    sync_progress: SyncProgress | None
    degraded_count: int | None


def sample_request(array: str | None, disks: Sequence[str], *, hertz: float = DEFAULT_HERTZ) -> SampleRequest:
    """Return the sample request for an array and its members, given by kernel names.

    ``array`` is None for a bare disk.
    """
    files = ["/proc/stat", "/proc/diskstats"]
    prefixes: tuple[str, ...] = ()
    if array:
        files += [md_path(array, attribute) for attribute in _MD_FILES]
        prefixes = (f"{array}_",)
    devices = (*((array,) if array else ()), *disks)
    return SampleRequest(1 / hertz, tuple(files), devices, prefixes)


class ThreadTicks:
    """The CPU ticks of md's kernel threads, summed per array. The ticks of threads that have exited stay in the sum."""

    def __init__(self) -> None:
        self._newest: dict[str, int] = {}

    def add(self, seen: Mapping[str, int]) -> dict[str, int]:
        """Add the agent's ticks by thread, such as ``md0_raid5/812``, and return the sum so far of each array."""
        self._newest.update(seen)
        sums: dict[str, int] = {}
        for thread, ticks in self._newest.items():
            array = thread.partition("_")[0]
            sums[array] = sums.get(array, 0) + ticks
        return sums


def read_sample(raw: RawSample, array: str | None, threads: ThreadTicks) -> Sample:
    """Convert one raw sample of a request; ``threads`` holds the ticks from all earlier samples."""

    def text(path: str) -> str:
        return (raw.files.get(path) or "").strip()

    md = {name: text(md_path(array, name)) if array else "" for name in _MD_FILES}
    return Sample(
        time_seconds=raw.time_seconds,
        disks=parse_diskstats(text("/proc/diskstats")),
        cpu=parse_cpu(text("/proc/stat")),
        md_thread_ticks=threads.add(raw.thread_cpu_ticks).get(array or "", 0),
        sync_action=md["sync_action"],
        sync_progress=parse_progress(md["sync_completed"]),
        degraded_count=parse_count(md["degraded"]),
    )


def parse_diskstats(text: str) -> dict[str, DiskCounters]:
    """Parse /proc/diskstats into counters by device name."""
    found = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 14:
            continue
        numbers = [read_count(field, "/proc/diskstats") for field in fields[3:14]]
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
    """Parse the sums over all CPUs, or return None if there are none.

    User time includes the time of guests, and iowait counts as idle time (proc(5)).
    """
    for line in text.splitlines():
        fields = line.split()
        if fields and fields[0] == "cpu" and len(fields) >= 5:
            numbers = [read_count(field, "/proc/stat") for field in fields[1:9]] + [0] * 8
            user, nice, system, idle, wait, irq, soft_irq, steal = numbers[:8]
            return CpuTicks(user + nice + system + irq + soft_irq, idle + wait, steal)
    return None


@dataclass(frozen=True, slots=True)
class Rates:
    """The rates of one device between two samples."""

    read_iops: float
    write_iops: float
    read_bytes_per_second: float
    write_bytes_per_second: float
    mean_wait_seconds: float | None
    utilisation: float


class Counted(Protocol):
    """An object with the counters of disks at one time, such as a sample."""

    @property
    def time_seconds(self) -> float: ...
    @property
    def disks(self) -> Mapping[str, DiskCounters]: ...


def rates_between(earlier: Counted, later: Counted, device: str) -> Rates | None:
    """Return a device's rates between two samples, or None if one of them lacks the device or if no time passed."""
    before, after = earlier.disks.get(device), later.disks.get(device)
    seconds = later.time_seconds - earlier.time_seconds
    if before is None or after is None or seconds <= 0:
        return None
    moved = after.since(before)
    ios, waits = moved.reads + moved.writes, moved.read_wait_seconds + moved.write_wait_seconds
    return Rates(
        read_iops=moved.reads / seconds,
        write_iops=moved.writes / seconds,
        read_bytes_per_second=moved.read_bytes / seconds,
        write_bytes_per_second=moved.written_bytes / seconds,
        mean_wait_seconds=waits / ios if ios else None,
        utilisation=min(1.0, moved.busy_seconds / seconds),
    )


def busy_fraction(earlier: Sample, later: Sample) -> float | None:
    """Return the busy fraction of all CPU time between two samples, or None if there are no CPU counters."""
    if earlier.cpu is None or later.cpu is None:
        return None
    busy = later.cpu.busy - earlier.cpu.busy
    total = busy + later.cpu.idle - earlier.cpu.idle
    return busy / total if total > 0 else None


class Recorder:
    """Collects samples on its own thread while its context is open.

    Usage: ``with Recorder(machine, "md0", ["ubda", "ubdb"]) as recorder: …``, and then ``recorder.samples``.
    ``on_sample`` is called on the recorder's thread. If the machine is lost, the recording ends without an error; other
    calls to the machine raise the error.
    """

    def __init__(
        self,
        machine: Machine,
        array: str | None,
        disks: Sequence[str],
        *,
        hertz: float = DEFAULT_HERTZ,
        on_sample: Callable[[Sample], None] | None = None,
    ) -> None:
        self._machine = machine
        self._request = sample_request(array, disks, hertz=hertz)
        self._array = array
        self._threads = ThreadTicks()
        self._on_sample = on_sample
        self._samples: list[Sample] = []
        self._thread = threading.Thread(target=self._collect, name="raidlab-recorder", daemon=True)

    @property
    def samples(self) -> tuple[Sample, ...]:
        return tuple(self._samples)

    def between(self, start_seconds: float, end_seconds: float) -> tuple[Sample, ...]:
        """Return the samples in an interval of the machine's clock."""
        return tuple(sample for sample in self._samples if start_seconds <= sample.time_seconds <= end_seconds)

    def __enter__(self) -> Self:
        self._stream = self._machine.sample(self._request)
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            self._stream.stop()
        except LabError:
            if error is None:
                raise
        self._thread.join(timeout=5.0)

    def _collect(self) -> None:
        try:
            for raw in self._stream:
                sample = read_sample(raw, self._array, self._threads)
                self._samples.append(sample)
                if self._on_sample:
                    self._on_sample(sample)
        except LabError:
            return
