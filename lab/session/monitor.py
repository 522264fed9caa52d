"""Looks at all arrays and disks, several times a second, on the machine's own clock.

The agent samples a handful of files. The many files of the arrays' sysfs folders are read only when /proc/mdstat has
changed its shape, and every other second for what it does not show, more rarely where nothing is read or written: on
the embedded kernel each file costs some 0.1 ms.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lab.adapt.summary import VolumeArray, with_progress
from lab.arrays.bring_up import BroughtUp
from lab.arrays.mdstat import MDSTAT, parse_mdstat
from lab.arrays.names import kernel_name
from lab.arrays.status import ArrayStatus, SyncAction, SyncProgress
from lab.errors import LabError, MachineLost
from lab.machine import RawSample, SampleRequest
from lab.machine.api import SampleStream
from lab.measure.samples import CpuTicks, DiskCounters, parse_cpu, parse_diskstats
from lab.session.session import LabSession

DEFAULT_HERTZ = 4.0
SLOW_SECONDS = 2.0
"""How old what /proc/mdstat does not show may become: error counts, mismatches, clean or active."""
STILL_SECONDS = 10.0
"""The same where nothing has been read or written since: hardly anything of it can have changed."""
_PARTITIONS = "/proc/partitions"
"""Lists only disks that have a size (show_partition() in block/genhd.c): shows at once that one has vanished."""
_WATCHED_ARRAYS = tuple(f"md{number}" for number in (*range(32), *range(120, 128)))
_ARRAY_OF_THREAD = re.compile(r"(md\d+)_")
_STOP_SECONDS = 5.0
_SCRUBS = (SyncAction.CHECK, SyncAction.REPAIR)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at everything."""

    time_seconds: float
    """On the machine's monotonic clock."""
    arrays: tuple[ArrayStatus, ...]
    disks: Mapping[str, DiskCounters]
    """Counters by kernel name: arrays, their members, the lab's disks; volumes by their own names, such as adapt0."""
    cpu: CpuTicks | None = None
    md_thread_ticks: Mapping[str, int] = field(default_factory=dict)
    """Array -> CPU time of its kernel threads since the first look, in hundredths of a second."""
    vanished: frozenset[str] = frozenset()
    """Kernel names of lab disks that are not there any more."""

    def array(self, name: str) -> ArrayStatus | None:
        """The array of this name."""
        return next((status for status in self.arrays if status.name == name), None)


def look_once(session: LabSession, name: str | None = None) -> Look:
    """Read everything once; with ``name`` this array alone. Raises ArrayError if it does not run."""
    arrays = (session.status(name),) if name else session.all_statuses()
    texts = session.machine.read(["/proc/uptime", "/proc/diskstats", "/proc/stat", MDSTAT])
    # proc(5): the first number is the seconds since the start.
    uptime = (texts["/proc/uptime"] or "0").split()[0]
    return Look(
        float(uptime),
        _with_progress(arrays, texts[MDSTAT] or ""),
        parse_diskstats(texts["/proc/diskstats"] or ""),
        parse_cpu(texts["/proc/stat"] or ""),
    )


class Monitor:
    """``Monitor(session, on_look=…, on_end=…).start()``: looks at ``hertz`` a second, on a thread of its own.

    Args:
        session: an open lab; the monitor follows arrays that come and go, those made by hand too.
        hertz: looks a second.
        on_look: told each look, on the monitor's thread; what takes long delays the next.
        on_end: told once how it ended: None after ``stop``, otherwise why (MachineLost).
    """

    def __init__(
        self,
        session: LabSession,
        *,
        on_look: Callable[[Look], None],
        on_end: Callable[[LabError | None], None] = lambda _: None,
        hertz: float = DEFAULT_HERTZ,
    ) -> None:
        self._session = session
        self._on_look = on_look
        self._on_end = on_end
        self._interval = 1 / hertz
        self._maker = LookMaker(session)
        self._stream: SampleStream | None = None
        self._state = threading.Lock()
        self._stopping = threading.Event()
        self._newest: tuple[float, float] | None = None
        self._thread = threading.Thread(target=self._run, name="raidlab-monitor", daemon=True)

    def start(self) -> None:
        """Begin; the first look comes at once."""
        self._thread.start()

    def stop(self) -> None:
        """End; returns when no further look will come. A second call, or one on a lost machine, does no harm."""
        with self._state:
            self._stopping.set()
            stream = self._stream
        if stream:
            with contextlib.suppress(LabError):
                stream.stop()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(timeout=_STOP_SECONDS)

    def machine_seconds(self) -> float | None:
        """What the machine's clock should show now: to put things on the axis of the looks. None before the first."""
        if self._newest is None:
            return None
        machine, here = self._newest
        return machine + self._session.host.clock.monotonic_seconds() - here

    def _run(self) -> None:
        try:
            while self._open_stream():
                self._follow()
        except LabError as error:
            self._on_end(None if self._stopping.is_set() and not isinstance(error, MachineLost) else error)
        except Exception as error:
            self._on_end(LabError(f"watching the arrays failed: {error!r}", hint="report this"))
            raise
        else:
            self._on_end(None)

    def _open_stream(self) -> bool:
        """Ask for samples of what is there now; False if nobody wants any."""
        request = self._maker.request(self._interval)
        if self._stopping.is_set():
            return False
        stream = self._session.machine.sample(request)
        with self._state:
            self._stream = stream
            if not self._stopping.is_set():
                return True
        stream.stop()
        return False

    def _follow(self) -> None:
        """Until the stream ends, or a device has come that it does not tell of."""
        assert self._stream is not None
        for raw in self._stream:
            look = self._maker.look(raw)
            self._newest = (look.time_seconds, self._session.host.clock.monotonic_seconds())
            self._on_look(look)
            if self._maker.misses_devices:
                self._stream.stop()
                return
        self._stopping.set()


class LookMaker:
    """Makes looks of samples; reads sysfs when it must."""

    def __init__(self, session: LabSession) -> None:
        self._session = session
        self._arrays: tuple[ArrayStatus, ...] = ()
        self._vanished: frozenset[str] = frozenset()
        self._shown: tuple[str, str | None, BroughtUp] | None = None
        self._counted: str | None = None
        self._read_seconds = 0.0
        self._asked: frozenset[str] = frozenset()
        self._ticks: dict[str, int] = {}
        self._ended_ticks: dict[str, int] = {}
        self._at_work: dict[str, VolumeArray] = {}

    @property
    def misses_devices(self) -> bool:
        """Whether the last look has a device whose counters nobody asked for."""
        return not self._devices() <= self._asked

    def request(self, interval_seconds: float) -> SampleRequest:
        """What the agent is to sample."""
        self._asked = self._devices()
        prefixes = tuple(f"{name}_" for name in (*_WATCHED_ARRAYS, *self._inner_names()))
        return SampleRequest(
            interval_seconds,
            ("/proc/stat", "/proc/diskstats", MDSTAT, _PARTITIONS),
            tuple(sorted(self._asked)),
            prefixes,
        )

    def look(self, raw: RawSample) -> Look:
        """The look at the time of a sample."""
        text = raw.files.get(MDSTAT) or ""
        shape = parse_mdstat(text).shape
        # What is known of volumes changes with ``found``.
        shown = (shape, raw.files.get(_PARTITIONS), self._session.found)
        counted = raw.files.get("/proc/diskstats")
        may_be_old = SLOW_SECONDS if counted != self._counted else STILL_SECONDS
        if shown != self._shown or raw.time_seconds - self._read_seconds >= may_be_old:
            # One that mdadm is still putting together, or taking apart, is not there for anybody.
            self._arrays = tuple(each for each in self._session.all_statuses() if each.state.is_running)
            self._vanished = self._vanished_disks()
            self._shown, self._counted, self._read_seconds = shown, counted, raw.time_seconds
        arrays = _with_progress(self._arrays, text)
        return Look(
            raw.time_seconds,
            tuple(self._bridged(each) if isinstance(each, VolumeArray) else each for each in arrays),
            _with_volumes(parse_diskstats(raw.files.get("/proc/diskstats") or ""), arrays),
            parse_cpu(raw.files.get("/proc/stat") or ""),
            self._thread_ticks(raw.thread_cpu_ticks),
            self._vanished,
        )

    def _bridged(self, status: VolumeArray) -> VolumeArray:
        """Between two of its arrays a rebuild or a scrub goes on, although md rests for a moment."""
        if status.sync_action.is_busy:
            self._at_work[status.name] = status
            return status
        before = self._at_work.get(status.name, status)
        sync = before.sync
        has_more = sync is not None and not sync.is_last and (sync.action in _SCRUBS or status.is_interrupted)
        if not has_more or status.name not in self._session.going_on:
            self._at_work.pop(status.name, None)
            return status
        return replace(status, sync_action=before.sync_action, sync_progress=before.sync_progress, sync=sync)

    def _inner_names(self) -> tuple[str, ...]:
        volumes = (status.whole for status in self._arrays if isinstance(status, VolumeArray))
        return tuple(window.array.name for volume in volumes for window in volume.windows if window.array)

    def _devices(self) -> frozenset[str]:
        members = {kernel_name(member.device) for status in self._arrays for member in status.members}
        names = {status.name for status in self._arrays if not isinstance(status, VolumeArray)}
        names |= {status.whole.kernel_name for status in self._arrays if isinstance(status, VolumeArray)}
        names |= set(self._inner_names())
        return frozenset({*_WATCHED_ARRAYS, *names, *members, *(disk.kernel_name for disk in self._session.disks)})

    def _vanished_disks(self) -> frozenset[str]:
        """A disk whose driver has let go of it has no folder, or no size."""
        paths = {disk.kernel_name: f"/sys/block/{disk.kernel_name}/size" for disk in self._session.disks}
        sizes = self._session.machine.read(list(paths.values()))
        return frozenset(name for name, path in paths.items() if (sizes[path] or "0").strip() == "0")

    def _thread_ticks(self, ticks: Mapping[str, int]) -> dict[str, int]:
        """Sums for each array; what ended threads had used is kept, since each sync has a thread of its own."""
        for key in [key for key in self._ticks if key not in ticks]:
            if found := _ARRAY_OF_THREAD.match(key):
                self._ended_ticks[found[1]] = self._ended_ticks.get(found[1], 0) + self._ticks.pop(key)
        self._ticks.update(ticks)
        sums = dict(self._ended_ticks)
        for key, value in self._ticks.items():
            if found := _ARRAY_OF_THREAD.match(key):
                sums[found[1]] = sums.get(found[1], 0) + value
        for status in self._arrays:
            if isinstance(status, VolumeArray):
                inner = (window.array for window in status.whole.windows if window.array)
                sums[status.name] = sum(sums.get(each.name, 0) for each in inner)
        return sums


def _with_progress(arrays: tuple[ArrayStatus, ...], mdstat: str) -> tuple[ArrayStatus, ...]:
    """Arrays with the finer progress of /proc/mdstat, where a sync is in both."""
    progress = parse_mdstat(mdstat).progress
    return tuple(_refreshed(status, progress) for status in arrays)


def _refreshed(status: ArrayStatus, progress: Mapping[str, SyncProgress]) -> ArrayStatus:
    if isinstance(status, VolumeArray):
        return with_progress(status, progress)
    if status.name in progress and status.sync_action.is_busy:
        return replace(status, sync_progress=progress[status.name])
    return status


def _with_volumes(counters: Mapping[str, DiskCounters], arrays: tuple[ArrayStatus, ...]) -> dict[str, DiskCounters]:
    """Counters with those of mapped devices under the names of their volumes too."""
    volumes = {status.name: status.whole.kernel_name for status in arrays if isinstance(status, VolumeArray)}
    return {**counters, **{name: counters[kernel] for name, kernel in volumes.items() if kernel in counters}}
