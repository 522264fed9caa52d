"""Takes snapshots of all arrays and disks, several times a second, on the machine's own clock.

If that clock does not advance between requests (virtual time), the monitor requests each snapshot individually.

The agent samples a small set of files. The many files of the arrays' sysfs folders are read only when the structure of
/proc/mdstat has changed, and every other second for values that mdstat does not show, less often while there is no I/O:
on the embedded kernel each file costs about 0.1 ms.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab.arrays.discovery import BroughtUp
from lab.arrays.names import kernel_name
from lab.arrays.status import MDSTAT, ArrayStatus, parse_mdstat
from lab.disks.inventory import absent
from lab.errors import LabError, MachineLost
from lab.gates.decoding import read_seconds
from lab.machine import RawSample, SampleRequest
from lab.machine.api import SampleStream
from lab.measure.samples import CpuTicks, DiskCounters, ThreadTicks, parse_cpu, parse_diskstats
from lab.session.session import LabSession
from lab.units import SECTOR_BYTES

DEFAULT_HERTZ = 4.0
SLOW_SECONDS = 2.0
"""Maximum age of values that /proc/mdstat does not show: error counts, mismatches, clean or active."""
STILL_SECONDS = 10.0
"""Maximum age while there is no I/O: these values hardly change then."""
_PARTITIONS = "/proc/partitions"
"""Lists only disks with a size (show_partition() in block/genhd.c), so it shows a vanished disk at once."""
_WATCHED_ARRAYS = tuple(f"md{number}" for number in (*range(32), *range(120, 128)))
_STOP_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of all arrays and disks at one time."""

    time_seconds: float
    """On the machine's monotonic clock."""
    arrays: tuple[ArrayStatus, ...]
    disks: Mapping[str, DiskCounters]
    """Counters by kernel name: arrays, their members, the lab's disks; mapped devices also by their own names."""
    cpu: CpuTicks | None = None
    md_thread_ticks: Mapping[str, int] = field(default_factory=dict)
    """Array -> CPU time of its kernel threads since the first snapshot, in hundredths of a second."""
    vanished: frozenset[str] = frozenset()
    """Kernel names of lab disks that have disappeared."""

    def array(self, name: str) -> ArrayStatus | None:
        """The array of this name."""
        return next((status for status in self.arrays if status.name == name), None)


def take_snapshot(session: LabSession, name: str | None = None) -> Snapshot:
    """Take a single snapshot; with ``name``, of this array alone. Raises ArrayError if it is not running."""
    arrays = (session.array(name).status(),) if name else session.statuses()
    texts = session.machine.read(["/proc/uptime", "/proc/diskstats", "/proc/stat", MDSTAT])
    # proc(5): the first number is the uptime in seconds.
    uptime = (texts["/proc/uptime"] or "").partition(" ")[0]
    return Snapshot(
        read_seconds(uptime, "/proc/uptime"),
        tuple(status.with_progress(parse_mdstat(texts[MDSTAT] or "").progress) for status in arrays),
        parse_diskstats(texts["/proc/diskstats"] or ""),
        parse_cpu(texts["/proc/stat"] or ""),
    )


class Monitor:
    """``Monitor(session, on_look=…, on_end=…).start()``: takes ``hertz`` snapshots a second, on its own thread.

    Args:
        session: an open lab; the monitor follows arrays as they appear and disappear, including those made by hand.
        hertz: snapshots per second; in virtual time, of this computer's clock, and unchanged ones are not reported.
        on_look: called with each snapshot, on the monitor's thread; a slow callback delays the next snapshot.
        on_end: called once at the end: with None after ``stop``, otherwise with the error (MachineLost).
    """

    def __init__(
        self,
        session: LabSession,
        *,
        on_look: Callable[[Snapshot], None],
        on_end: Callable[[LabError | None], None] = lambda _: None,
        hertz: float = DEFAULT_HERTZ,
    ) -> None:
        self._session = session
        self._on_look = on_look
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
        """Start the monitor; the first snapshot follows immediately."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the monitor; no snapshots follow after the return. Repeated calls, or a lost machine, do no harm."""
        with self._state:
            self._stopping.set()
            stream = self._stream
        if stream:
            with contextlib.suppress(LabError):
                stream.stop()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=_STOP_SECONDS)

    def machine_seconds(self) -> float | None:
        """The expected current value of the machine's clock, to place events on the snapshots' axis.

        None before the first snapshot. In virtual time, the time of the newest snapshot: the clock does not advance by
        itself.
        """
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
                self._tell(raw)
                if self._maker.misses_devices:
                    # A new device has appeared that this stream does not cover; the next stream covers it.
                    stream.stop()
                    break
            else:
                break

    def _follow_asking(self) -> None:
        told: object = None
        found: BroughtUp | None = None
        while not self._stopping.is_set():
            # Work takes no time in virtual time, so threads have no CPU time to report.
            request = replace(self._maker.request(0.0), thread_prefixes=())
            for raw in self._session.machine.sample(request):
                if found is not self._session.found:
                    # A plan has run: it may have changed values that only sysfs shows.
                    found, told = self._session.found, None
                    self._maker.forget()
                # The sample itself takes a few microseconds.
                files = {path: text for path, text in raw.files.items() if path != "/proc/stat"}
                shown = (files, round(raw.time_seconds, 2))
                if shown != told:
                    told = shown
                    self._tell(raw)
            self._stopping.wait(self._interval)

    def _tell(self, raw: RawSample) -> None:
        look = self._maker.look(raw)
        self._newest = (look.time_seconds, self._session.host.clock.monotonic_seconds())
        self._on_look(look)


class SnapshotMaker:
    """Converts samples into snapshots; reads sysfs only when necessary."""

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
        """Whether the last snapshot has a device whose counters were not requested."""
        return not self._devices() <= self._asked

    def forget(self) -> None:
        """Force the next snapshot to read sysfs."""
        self._shown = None

    def request(self, interval_seconds: float) -> SampleRequest:
        """The request for the agent."""
        self._asked = self._devices()
        prefixes = tuple(f"{name}_" for name in (*_WATCHED_ARRAYS, *self._inner_names()))
        return SampleRequest(
            interval_seconds,
            ("/proc/stat", "/proc/diskstats", MDSTAT, _PARTITIONS),
            tuple(sorted(self._asked)),
            prefixes,
        )

    def look(self, raw: RawSample) -> Snapshot:
        """The snapshot at the time of a sample."""
        text = raw.files.get(MDSTAT) or ""
        stat = parse_mdstat(text)
        # Knowledge of arrays made of other arrays changes with ``found``.
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
            parse_cpu(raw.files.get("/proc/stat") or ""),
            self._thread_ticks(raw.thread_cpu_ticks),
            self._vanished,
        )

    def _bridged(self, status: ArrayStatus) -> ArrayStatus:
        """While a plan continues in the background, the status before the short idle period of md."""
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
        """Sums for each array, and for each volume over its arrays."""
        sums = self._threads.add(ticks)
        for status in self._arrays:
            if status.inner:
                sums[status.name] = sum(sums.get(each.name, 0) for each in status.inner)
        return sums


def _by_array(counters: Mapping[str, DiskCounters], arrays: tuple[ArrayStatus, ...]) -> dict[str, DiskCounters]:
    """Counters, with devices that have a different kernel name listed under the names of their arrays too."""
    names = {status.name: status.kernel_name for status in arrays}
    return {**counters, **{name: counters[kernel] for name, kernel in names.items() if kernel in counters}}


RATE_SECONDS = 5.0
"""The period over which a sync's speed is averaged; a few snapshots if they are further apart."""
_RATE_LOOKS = 6
LEAST_SECONDS = 1.0
"""The remaining time is reported only after this period: extrapolated from a burst or a pause it has no meaning."""


@dataclass(frozen=True, slots=True)
class SyncPace:
    """Speed and remaining time of a sync."""

    bytes_per_second: float
    """Of each member."""
    left_seconds: float | None
    """None while the sync makes no progress, and in its first second."""


def sync_pace(looks: Sequence[Snapshot], name: str) -> SyncPace | None:
    """The pace of the sync in the newest snapshot; None without a sync, or with only one snapshot of it."""
    seen = [(look.time_seconds, status) for look in looks if (status := look.array(name))]
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


def recent(looks: Sequence[Snapshot], seconds: float = RATE_SECONDS) -> list[Snapshot]:
    """The newest snapshot and those of the period before it, but at least a few; oldest first."""
    oldest = looks[-1].time_seconds - seconds if looks else 0.0
    few = len(looks) - _RATE_LOOKS
    return [look for number, look in enumerate(looks) if look.time_seconds >= oldest or number >= few]
