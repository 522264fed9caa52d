"""One measured fio job on one array (its processes, figures, CPU time and live values), and the measuring conditions.

The load was in a steady state if five equal slices of the measured interval agree.

Conditions are stored with every result. In real time, an emulated drive completes an I/O slightly later than its model
specifies, because of sockets, threads and wake-ups. Its service times are therefore measured at queue depth 1, as in
the tables of docs/theory.md.
"""

from __future__ import annotations

import hashlib
import re
import statistics
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from threading import Thread

import msgspec

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import md_path
from lab.disks import DiskKind, Lab, LabDisk
from lab.disks.attaching import is_kernel_drive
from lab.disks.kinds import find_drive_model
from lab.errors import LabError, MachineLost, RunCancelled, WorkloadError
from lab.gates.decoding import read_count
from lab.host.clock import wait_for
from lab.machine import Host, parse_target
from lab.machine.api import CommandResult, RunningCommand
from lab.machine.kernel_image import find_kernel
from lab.machine.mdadm_versions import find_mdadm
from lab.measure.samples import DEFAULT_HERTZ, FEWEST_TICKS, TICKS_PER_SECOND, Recorder, Sample
from lab.plans import Plan, Step
from lab.results.record import Conditions, CpuFigures, DiskRecord, SteadyFigures
from lab.theory.model import DiskRates, nominal_rates
from lab.units import GIB
from lab.workloads.fio_output import DirectionFigures, JobFigures, LiveFeed, LiveInterval
from lab.workloads.jobs import (
    FioPhase,
    Invocation,
    JobTarget,
    PathKind,
    dd_invocation,
    fingerprint,
    fio_invocations,
    parse_dd,
    prepare_invocation,
)
from lab.workloads.workload import AccessPattern, Direction, LoadProgram, Workload, changed, find_workload


@dataclass(frozen=True, slots=True)
class Finished:
    """One finished process."""

    invocation: Invocation
    figures: JobFigures
    result: CommandResult
    load_seconds: float
    """Time from the first request to the last completion."""

    @property
    def stretch(self) -> tuple[float, float]:
        """The start and end of the measured interval, on the machine's clock."""
        end = self.result.started_seconds + self.result.duration_seconds
        seconds = _longest_seconds(self.figures)
        if self.figures.window_begin_seconds is None:
            return end - seconds, end
        begin = end - self.load_seconds + self.figures.window_begin_seconds
        return begin, begin + seconds


class FioRun:
    """``FioRun(lab, workload).run(invocations)``; ``stop`` may be called on any other thread.

    ``on_live`` is called with the values of each interval, on the thread of ``run``, except during preparation.
    ``is_aside`` means that the load runs while the caller waits for something else (Machine.stream). ``is_due`` is
    passed to LiveFeed.
    """

    def __init__(
        self,
        lab: Lab,
        workload: Workload,
        on_live: Callable[[LiveInterval], None] = lambda _: None,
        *,
        is_aside: bool = False,
        is_due: Callable[[], bool] = lambda: True,
    ) -> None:
        self._lab = lab
        self._is_due = is_due
        self._is_aside = is_aside
        self.has_begun = threading.Event()
        """Set once the start of the load has been requested or cancelled."""
        self._workload = workload
        self._on_live = on_live
        self._lock = threading.Lock()
        self._command: RunningCommand | None = None
        self._stop = threading.Event()

    @property
    def is_stopped(self) -> bool:
        return self._stop.is_set()

    def run(self, invocations: Iterable[Invocation]) -> tuple[Finished, ...]:
        """Run the invocations until stop is requested.

        Return the processes that measured something. Raises WorkloadError.
        """
        finished: list[Finished] = []
        for invocation in invocations:
            measures = invocation.phase is not FioPhase.PREPARE
            self._lab.guard.check(invocation.step())
            with self._lock:
                if self._stop.is_set():
                    break
                self._command = command = self._lab.machine.stream(
                    invocation.argv, stdin_text=invocation.stdin_text, is_aside=self._is_aside and measures
                )
            self.has_begun.set()
            feed = LiveFeed(invocation.window, self._workload.request_bytes, self._is_due)
            try:
                for interval in feed.intervals(command.chunks()):
                    if measures:
                        self._on_live(interval)
            except BaseException:
                # Nothing would read the command's output any more.
                with suppress(LabError):
                    command.stop()
                raise
            finally:
                with self._lock:
                    self._command = None
            result = command.result()
            if self._workload.program is LoadProgram.DD:
                figures = parse_dd(result.stderr, self._workload, exit_status=result.status)
            elif self.is_stopped and not feed.last_document:
                break
            else:
                figures = feed.figures(
                    exit_status=result.status, stderr_text=result.stderr, accept_interrupted=self.is_stopped
                )
            if self._lab.machine.facts.is_virtual_time:
                # Computation takes no virtual time.
                figures = msgspec.structs.replace(figures, fio_user_cpu_percent=None, fio_system_cpu_percent=None)
            if self.is_stopped and not figures.sections:
                break
            if measures:
                finished.append(Finished(invocation, figures, result, feed.load_seconds))
        return tuple(finished)

    def stop(self) -> None:
        """Stop fio, which then prints its results so far; no further process is started. Idempotent."""
        with self._lock:
            command = None if self._stop.is_set() else self._command
            self._stop.set()
        if command:
            # If the machine is lost, the thread that reads the output raises the error.
            with suppress(MachineLost):
                command.stop()


def _longest_seconds(figures: JobFigures) -> float:
    """Return the measured time of a job, which excludes the warm-up."""
    return max((section.runtime_seconds for section in figures.sections.values()), default=0.0)


SLICES = 5
MAX_RANGE_FRACTION = 0.20
MAX_SLOPE_FRACTION = 0.10
FEWEST_IOS = 650
"""Per slice. Poisson counts have a relative standard deviation of 1/√N: with fewer I/Os, five slices of a perfectly
steady load exceed a threshold in more than 5 % of cases, mostly that of the slope (1.26/√N from end to end). The range
alone would need 372: 3.86² / 0.2², by the studentised range. tests/unit/measure/test_steady.py simulates this."""


def steadiness(samples: Sequence[Sample], device: str, seconds: float) -> SteadyFigures | None:
    """Compare the I/Os of ``device`` in five equal slices of the measured interval.

    Returns None if there is too little data. The interval is the last ``seconds`` with I/O, since the device is idle
    for a while before fio exits.
    """
    values = list(_slice_rates(_busy_end(samples, device, seconds), device))
    return steady_figures(values) if len(values) == SLICES else None


def steady_figures(values: Sequence[float]) -> SteadyFigures:
    """Apply the thresholds to the values of one figure in consecutive slices."""
    mean = statistics.fmean(values)
    slope = statistics.linear_regression(range(len(values)), values).slope
    range_fraction = (max(values) - min(values)) / mean
    slope_fraction = abs(slope) * (len(values) - 1) / mean
    return SteadyFigures(
        range_fraction=range_fraction,
        slope_fraction=slope_fraction,
        is_steady=range_fraction <= MAX_RANGE_FRACTION and slope_fraction <= MAX_SLOPE_FRACTION,
    )


def _busy_end(samples: Sequence[Sample], device: str, seconds: float) -> Sequence[Sample]:
    """Return the samples of the measured interval, without sampling intervals that are only partly inside it."""
    counts = [_count(sample, device) if device in sample.disks else 0 for sample in samples]
    busy = [place for place in range(1, len(samples)) if counts[place] > counts[place - 1]]
    if not busy:
        return ()
    end = busy[-1] - 1
    tick = samples[1].time_seconds - samples[0].time_seconds
    begin = samples[busy[-1]].time_seconds - seconds + tick
    return [sample for sample in samples[: end + 1] if sample.time_seconds >= begin]


def _count(sample: Sample, device: str) -> int:
    return sample.disks[device].reads + sample.disks[device].writes


def _slice_rates(samples: Sequence[Sample], device: str) -> Iterator[float]:
    """Yield the I/Os per second of each slice.

    Yields nothing if there are too few I/Os or samples, or if a sample lacks the device.
    """
    counted = [(sample.time_seconds, _count(sample, device)) for sample in samples if device in sample.disks]
    if len(counted) <= SLICES or len(counted) < len(samples) or counted[-1][1] - counted[0][1] < SLICES * FEWEST_IOS:
        return
    begin, end = counted[0][0], counted[-1][0]
    edges = [
        min(counted, key=lambda one: abs(one[0] - (begin + (end - begin) * n / SLICES))) for n in range(SLICES + 1)
    ]
    for (t0, n0), (t1, n1) in pairwise(edges):
        if t1 > t0:
            yield (n1 - n0) / (t1 - t0)


START_SECONDS = 60.0
"""More than fio needs to lay out missing files and start."""
BACKGROUND_INTERVAL_SECONDS = 0.5
"""Status interval of a background load; at most this much of its end is not measured."""


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """The target of a load, which is an array, a bare disk, or the file system on one of them."""

    array: str | None
    """Name of the array; None for a bare disk, and for a volume of several arrays, whose CPU time is not accounted."""
    device: str
    members: tuple[str, ...]
    """Kernel names of the members (of the disk itself, without an array)."""
    file_system: FileSystem
    available_bytes: int
    """Bytes of the device that loads may use, or free bytes of the file system before any job's files exist."""
    uuid: str = ""
    """UUID of a persistent array or volume."""
    mark_bytes: int = 0
    """Size of the data mark, which follows the available bytes of a bare persistent array."""

    @property
    def is_raw(self) -> bool:
        return self.file_system is FileSystem.RAW

    def job_target(self, *, repeat: int = 0, file_bytes: int | None = None, seed: int = 0) -> JobTarget:
        path = self.device if self.is_raw else filesystem.mount_point(self.device)
        kind = PathKind.DEVICE if self.is_raw else PathKind.DIRECTORY
        return JobTarget(path, kind, self.available_bytes, file_bytes, repeat, seed)


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """The measurement options of one job. A time that is None is taken from the workload."""

    runtime_seconds: float | None = None
    warmup_seconds: float | None = None
    file_bytes: int | None = None
    seed: int = 0
    hertz: float = DEFAULT_HERTZ
    idle_baseline: float = 0.0
    on_sample: Callable[[Sample], None] = lambda _: None
    is_cancelled: Callable[[], bool] = lambda: False
    """Called at every sample; the job is stopped when it returns True."""


@dataclass(frozen=True, slots=True)
class MemberBytes:
    """The bytes that the members transferred from fio's start to the last sample, including those of the warm-up."""

    read_bytes: int
    written_bytes: int
    share: float
    """Fraction of the measured interval before that sample."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a job. Without sampling, only the figures, the job and the addresses are set."""

    figures: JobFigures
    job_text: str
    file_bytes: int | None
    addresses: str = ""
    """Fingerprint of the addresses of a random load; empty for others."""
    cpu: CpuFigures | None = None
    samples: tuple[Sample, ...] = ()
    steady: SteadyFigures | None = None
    members: MemberBytes | None = None
    sync_actions: frozenset[str] = frozenset()
    waited_fraction: float | None = None
    """Fraction of the time in which the machine was runnable, but its processor ran other work; None if unknown."""
    asked_seconds: float | None = None
    """Requested length of the measured interval; None for the whole run."""

    @property
    def share_measured(self) -> float:
        """The measured time as a fraction of the requested time. It is below 1 if fio was delayed."""
        return _longest_seconds(self.figures) / self.asked_seconds if self.asked_seconds else 1.0


def prepare(lab: Lab, target: LoadTarget, workload: Workload, file_bytes: int | None) -> None:
    """Write random data once to every block that ``workload`` will touch."""
    FioRun(lab, workload).run((prepare_invocation(workload, target.job_target(file_bytes=file_bytes)),))


def run_workload(
    lab: Lab,
    target: LoadTarget,
    workload: Workload,
    options: MeasureOptions,
    *,
    repeat: int = 0,
) -> Measured:
    """Run one repeat of a workload while sampling.

    Raises WorkloadError if the files do not fit, fio fails or the verification finds wrong data, SpecError if the times
    are inconsistent, and RunCancelled if ``options.is_cancelled`` returns True.
    """
    job_target = target.job_target(repeat=repeat, file_bytes=options.file_bytes, seed=options.seed)
    if workload.program is LoadProgram.DD:
        invocations: tuple[Invocation, ...] = (dd_invocation(workload, job_target),)
    else:
        invocations = fio_invocations(
            workload, job_target, runtime_seconds=options.runtime_seconds, warmup_seconds=options.warmup_seconds
        )
    fio = FioRun(lab, workload)

    def on_recorded(sample: Sample) -> None:
        if options.is_cancelled():
            fio.stop()
        options.on_sample(sample)

    waited = lab.machine.waited_seconds()
    began = lab.host.clock.monotonic_seconds()
    with Recorder(lab.machine, target.array, target.members, hertz=options.hertz, on_sample=on_recorded) as recorder:
        parts = fio.run(invocations)
        if fio.is_stopped or options.is_cancelled():
            raise RunCancelled(f"{workload.title} was stopped before it was complete")
    waited_fraction = _waited_fraction(lab, waited, began)
    first = parts[0]
    begin, end = first.stretch
    window = recorder.between(begin, end)
    cpu = account(window, first.figures, options.idle_baseline)
    until_end = [sample for sample in recorder.samples if sample.time_seconds <= end]
    return replace(
        measured_by(parts),
        cpu=cpu,
        samples=recorder.samples,
        steady=steadiness(until_end, target.array or target.members[0], end - begin),
        members=member_bytes(recorder.samples, target.members, first.result.started_seconds, begin, end),
        sync_actions=frozenset(sample.sync_action for sample in window if target.array),
        waited_fraction=waited_fraction if waited_fraction is not None or cpu is None else cpu.steal_fraction,
        asked_seconds=first.invocation.window.seconds if first.invocation.window else None,
    )


def measured_by(parts: Sequence[Finished]) -> Measured:
    """Combine the output of fio's processes; the write and read phases of a verify workload give one set of figures."""
    invocation, figures = parts[0].invocation, parts[0].figures
    if len(parts) > 1:
        last = parts[-1].figures
        figures = msgspec.structs.replace(figures, reads=last.reads, raw_json=f"[{figures.raw_json},{last.raw_json}]")
    addresses = fingerprint(invocation.job_text, invocation.traces, figures.fio_version)
    return Measured(figures, invocation.job_text, invocation.target.file_bytes, addresses)


def _waited_fraction(lab: Lab, waited_before: float | None, began_seconds: float) -> float | None:
    waited = lab.machine.waited_seconds()
    # In virtual time a delay of the machine has no effect.
    if waited is None or waited_before is None or lab.machine.facts.is_virtual_time:
        return None
    return (waited - waited_before) / max(1e-9, lab.host.clock.monotonic_seconds() - began_seconds)


def member_bytes(
    samples: tuple[Sample, ...],
    members: tuple[str, ...],
    started_seconds: float,
    measured_from: float,
    measured_until: float,
) -> MemberBytes | None:
    """Return the bytes in the members' counters since fio's start, or None if a member is missing from the samples.

    They may exceed the bytes that fio reports, since they include those of the warm-up, but must not fall below them.
    """
    before = [sample for sample in samples if sample.time_seconds <= started_seconds] or list(samples[:1])
    if (
        not samples
        or measured_until <= measured_from
        or any(name not in each.disks for name in members for each in (before[-1], samples[-1]))
    ):
        return None
    first, last = before[-1].disks, samples[-1].disks
    moved = [last[name].since(first[name]) for name in members]
    share = (samples[-1].time_seconds - measured_from) / (measured_until - measured_from)
    return MemberBytes(
        read_bytes=sum(each.read_bytes for each in moved),
        written_bytes=sum(each.written_bytes for each in moved),
        share=max(0.0, min(1.0, share)),
    )


def account(samples: Sequence[Sample], figures: JobFigures, idle_baseline: float) -> CpuFigures | None:
    """Compute the CPU figures of a measured interval, with I/Os scaled to the time between its first and last sample.

    Return None if there are fewer than two samples, or if the first or the last one has no CPU counters.
    """
    if len(samples) < 2 or samples[0].cpu is None or samples[-1].cpu is None:
        return None
    first, last = samples[0].cpu, samples[-1].cpu
    busy, idle, steal = last.busy - first.busy, last.idle - first.idle, last.steal - first.steal
    cpu_seconds = max(0.0, busy - idle_baseline * (busy + idle)) / TICKS_PER_SECOND
    seconds = _longest_seconds(figures)
    share = min(1.0, (samples[-1].time_seconds - samples[0].time_seconds) / seconds) if seconds else 0.0
    sections = figures.sections.values()
    total_ios = round(sum(section.total_ios for section in sections) * share)
    total_bytes = round(sum(section.io_bytes for section in sections) * share)
    is_known = busy >= FEWEST_TICKS
    return CpuFigures(
        cpu_seconds_total=cpu_seconds,
        md_thread_cpu_seconds=(samples[-1].md_thread_ticks - samples[0].md_thread_ticks) / TICKS_PER_SECOND,
        cpu_microseconds_per_io=cpu_seconds * 1e6 / total_ios if total_ios and is_known else None,
        cpu_seconds_per_gib=cpu_seconds * GIB / total_bytes if total_bytes and is_known else None,
        idle_baseline_fraction=idle_baseline,
        steal_fraction=steal / (busy + idle + steal) if busy + idle + steal else None,
    )


class BackgroundLoad:
    """A workload that runs in the background until it is stopped.

    Its figures cover the time between fio's first and last status document, or the whole run if the load
    ended before there were two.
    """

    def __init__(
        self,
        lab: Lab,
        target: LoadTarget,
        workload: Workload,
        options: MeasureOptions,
        *,
        longest_run_seconds: float,
        repeat: int = 0,
    ) -> None:
        self._idle_baseline = options.idle_baseline
        job_target = target.job_target(repeat=repeat, file_bytes=options.file_bytes, seed=options.seed)
        # Use only the last invocation, because the write phase of a reread workload would never end.
        invocation = fio_invocations(
            workload,
            job_target,
            runtime_seconds=longest_run_seconds,
            warmup_seconds=0.0,
            status_interval_seconds=BACKGROUND_INTERVAL_SECONDS,
            is_endless=True,
        )[-1]
        lab.guard.check(invocation.step())
        self._lab, self._kernel_name = lab, target.array or target.members[0]
        self._ios_before = self._ios()
        self._fio = FioRun(lab, workload, is_aside=True)
        self._outcome: Future[tuple[Finished, ...]] = Future()
        # Read continuously, because hours of status documents would fill the memory.
        Thread(target=self._run, args=(invocation,), name="raidlab-background-load", daemon=True).start()
        # Later requests to the machine are then always ordered after this start.
        self._fio.has_begun.wait()

    def _run(self, invocation: Invocation) -> None:
        try:
            self._outcome.set_result(self._fio.run((invocation,)))
        except BaseException as error:
            self._outcome.set_exception(error)
        finally:
            self._fio.has_begun.set()

    def _ios(self) -> int:
        # Fields 1 and 5: completed reads and writes (kernel: Documentation/block/stat.rst).
        path = f"/sys/block/{self._kernel_name}/stat"
        fields = (self._lab.machine.read([path])[path] or "").split()
        return read_count(fields[0], path) + read_count(fields[4], path) if len(fields) > 4 else 0

    def wait_until_busy(self) -> None:
        """Wait for the first I/O. Raises WaitTimedOut if there is none."""
        wait_for(
            self._ios,
            lambda ios: ios > self._ios_before or self._outcome.done(),
            what="the first I/O of the load",
            timeout_seconds=START_SECONDS,
            clock=self._lab.machine.clock,
            hint="use 'raidlab --verbose' to see the commands that are run",
        )

    def stop(self, samples: Callable[[float, float], tuple[Sample, ...]]) -> Measured:
        """Stop the load with SIGINT; fio then prints its result. ``samples`` returns the samples of a time interval."""
        self._fio.stop()
        parts = self._outcome.result()
        if not parts:
            raise WorkloadError("the load did no I/O before the rebuild ended", hint="use larger disks")
        window = samples(*parts[0].stretch)
        return replace(measured_by(parts), cpu=account(window, parts[0].figures, self._idle_baseline), samples=window)


_VERSION = re.compile(r"(\d+(?:\.\d+)+)")
TUNABLES = ("/proc/sys/dev/raid/speed_limit_min", "/proc/sys/dev/raid/speed_limit_max")


def read_conditions(lab: Lab) -> Conditions:
    """Read the kernel, tools, processors, disks and tunables of an open lab."""
    facts = lab.machine.facts
    # md's limits exist only after its driver is loaded.
    lab.machine.run(("modprobe", "md_mod"), check=False)
    queue_files = [
        f"/sys/block/{disk.kernel_name}/queue/{name}" for disk in lab.disks for name in ("scheduler", "write_cache")
    ]
    texts = lab.machine.read(["/proc/cpuinfo", *TUNABLES, *queue_files])
    has_servers = any(disk.kind is DiskKind.SPINDLE and not is_kernel_drive(disk) for disk in lab.disks)
    known = {path: text.strip() for path, text in texts.items() if text is not None and path != "/proc/cpuinfo"}
    return Conditions(
        **asdict(facts),
        cpu_model=_cpu_model(texts["/proc/cpuinfo"] or ""),
        mdadm_version=_version(lab, "mdadm"),
        fio_version=_version(lab, "fio"),
        nbdkit_version=_version(lab, "nbdkit") if has_servers else "",
        disks=tuple(
            DiskRecord(
                name=disk.name,
                path=disk.node,
                kind=disk.kind.value,
                model=disk.model,
                size_bytes=disk.size_bytes,
                write_cache=known.get(f"/sys/block/{disk.kernel_name}/queue/write_cache", ""),
            )
            for disk in lab.disks
        ),
        host_cache_notes=_cache_notes(lab),
        tunables={path: value for path, value in known.items() if "write_cache" not in path},
        depends_on=_depends_on(lab) if facts.is_virtual_time else {},
    )


_PACKAGE = Path(__file__).resolve().parents[1]
# The installed programs, not those that the lab places ahead of them in PATH, and the libraries that they load.
PROGRAMS = """
PATH=/usr/sbin:/usr/bin:/sbin:/bin
own=$(for name in fio mdadm python3; do readlink -f "$(command -v $name)"; done)
sha256sum $own $(ldd $own | grep -o '/[^ :]*' | sort -u)
"""


def _depends_on(lab: Lab) -> dict[str, str]:
    options = parse_target(lab.machine.facts.target).options
    found = depends_on(lab.host, options.get("kernel", ""))
    if "mdadm" in options:
        # For a fetched version, this is a script that names the version.
        found["mdadm"] = _known_digest(_stamps([find_mdadm(options["mdadm"]) / "mdadm"]))
    return found


def depends_on(host: Host, chosen_kernel: str = "", *, virtual_time: bool = True) -> dict[str, str]:
    """Return the SHA-256 of each input that, with the experiment and its seed, determines figures in virtual time.

    In real time, the figures depend on the computer as well. Raises ToolMissing if the kernel is not installed.
    """
    kernel = find_kernel(host.processes, host.files, virtual_time=virtual_time, chosen=chosen_kernel).path
    files = [kernel, *kernel.parent.glob("quick_clock.so"), *kernel.parent.glob("fio/lib*")]
    return {"kernel": _known_digest(_stamps(files)), "programs": _programs_digest(host), "raidlab": own_digest()}


def differing(expected: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Name the inputs that differ between two results of ``depends_on``, or return an empty string if none does."""
    names = {
        "kernel": "embedded kernel",
        "programs": "fio, mdadm or Python",
        "mdadm": "fetched mdadm",
        "raidlab": "raidlab",
    }
    return ", ".join(words for name, words in names.items() if expected.get(name) != here.get(name))


_Stamps = tuple[tuple[Path, int, int], ...]
_programs_known: dict[_Stamps, str] = {}


def _stamps(files: Iterable[Path]) -> _Stamps:
    """Return the size and mtime of files.

    They are the cache key of the files' digest, which thousands of cells share.
    """
    return tuple((path, (found := path.stat()).st_size, found.st_mtime_ns) for path in files)


@cache
def _known_digest(stamps: _Stamps) -> str:
    return _digest(path for path, _, _ in stamps)


def _programs_digest(host: Host) -> str:
    for stamps, digest in _programs_known.items():
        with suppress(OSError):
            if stamps and _stamps(path for path, _, _ in stamps) == stamps:
                return digest
    # The embedded kernel's root file system is this computer's, and reading the files here is faster.
    lines = sorted(host.processes.run(("env", "-i", "sh", "-c", PROGRAMS)).stdout.splitlines())
    digest = hashlib.sha256("".join(lines).encode()).hexdigest()
    with suppress(OSError):
        _programs_known[_stamps(Path(line.partition("  ")[2]) for line in lines)] = digest
    return digest


@cache
def own_digest() -> str:
    """Return the SHA-256 of raidlab's own files, computed once per process."""
    return _digest(path for path in _PACKAGE.rglob("*") if path.is_file() and path.suffix != ".pyc")


def _digest(files: Iterable[Path]) -> str:
    found = sorted((path.name, hashlib.sha256(path.read_bytes()).digest()) for path in files)
    return hashlib.sha256(repr(found).encode()).hexdigest()


def _cache_notes(lab: Lab) -> tuple[str, ...]:
    # Virtual time does not advance while the computer reads or writes.
    is_felt = lab.folder is not None and not lab.machine.facts.is_virtual_time
    if is_felt and any(disk.kind is DiskKind.FILE for disk in lab.disks):
        return ("file disks are cached by the computer that runs the embedded kernel",)
    return ()


def _version(lab: Lab, program: str) -> str:
    result = lab.machine.run((program, "--version"), check=False)
    found = _VERSION.search(result.stdout + result.stderr)
    return found[1] if found else ""


def _cpu_model(text: str) -> str:
    """Return the first processor's model name; the embedded kernel reports the host's in the field ``host``."""
    names = dict(line.split(":", 1) for line in reversed(text.splitlines()) if ":" in line)
    fields = {key.strip(): value.strip() for key, value in names.items()}
    return fields.get("model name") or fields.get("host", "")


PROBE_SECONDS = 1.0
SERVICE_PROBE_SECONDS = 3.0
_PROBED_BYTES = 256 * 1024 * 1024


def probe_disk(lab: Lab, disk: LabDisk, workloads: Sequence[Workload], *, rebuilds: bool) -> DiskRates:
    """Measure the rates of a disk that theory needs for these workloads and for rebuilds.

    These are sequential rates, measured for one second in each direction, and the service times of an emulated drive.
    The service time of a mechanical drive comes from its model, since a probe of only a few blocks measures only short
    seeks. Rates that are not needed come from the model, or are 0 for a disk without a model. Overwrites the disk's
    content.
    """
    target = LoadTarget(None, disk.node, (disk.kernel_name,), FileSystem.RAW, disk.size_bytes)
    file_bytes = min(_PROBED_BYTES, disk.size_bytes)

    is_random = [each.pattern is AccessPattern.RANDOM or each.direction is Direction.MIX for each in workloads]
    sequential = None
    if rebuilds or not all(is_random):
        options = MeasureOptions(runtime_seconds=PROBE_SECONDS, warmup_seconds=0.0, file_bytes=file_bytes)
        written, read = (
            _probe(lab, target, f"seq-{way}-1m", options).bandwidth_bytes_per_second for way in ("write", "read")
        )
        sequential = (read, written)
    if not disk.model:
        return DiskRates(0.0, 0.0, *(sequential or (0.0, 0.0)))
    drive = find_drive_model(disk.model)
    rates = nominal_rates(drive, sequential=sequential)
    if drive.mechanics or not any(is_random):
        return rates
    options = MeasureOptions(runtime_seconds=SERVICE_PROBE_SECONDS, warmup_seconds=0.2, file_bytes=file_bytes)
    # Probe separately, because in the embedded kernel a write takes about 0.4 ms longer than a read.
    if any(each.direction is not Direction.READ for each in workloads):
        rates = replace(rates, random_write_iops=_probe(lab, target, "rand-write-4k", options).iops)
    # Parity writes start with reads.
    return replace(rates, random_read_iops=_probe(lab, target, "rand-read-4k", options).iops)


def _probe(lab: Lab, target: LoadTarget, name: str, options: MeasureOptions) -> DirectionFigures:
    workload = changed(find_workload(name), jobs=1)
    if workload.pattern is AccessPattern.RANDOM:
        workload = changed(workload, queue_depth=1)
    (figures,) = run_workload(lab, target, workload, options).figures.sections.values()
    return figures


DROP_CACHES = "/proc/sys/vm/drop_caches"
_FEWEST_STRIPES = 17
"""The minimum of stripe_cache_size (kernel: drivers/md/raid5.c, raid5_set_cache_size)."""
_EMPTY_STRIPES = (
    f'for at; do read -r size <"$at" && echo {_FEWEST_STRIPES} >"$at" && echo "$size" >"$at" || exit 1; done'
)


def cold_plan(kind: FileSystem, device: str, drives: Sequence[str]) -> Plan:
    """Drop caches with the file system unmounted (kernel: Documentation/admin-guide/sysctl/vm.rst, drop_caches).

    A drive with thousands of extents in its write cache writes them out at md's next flush and serves no other request
    for seconds. That time belongs to the previous job. The drives are synced directly, because device mapper repeats a
    flush for each target of a volume, and a volume of unequal disks has tens of thousands of targets.
    """
    drop = Step(
        ("sh", "-c", f"sync; sync {' '.join(drives)}; echo 3 > {DROP_CACHES}"),
        "The kernel drops clean pages, dentries and inodes, and drives write out their caches.",
    )
    if kind is FileSystem.RAW:
        return Plan("Drop caches", (drop,))
    # The mount point stays, because creating it again would add two commands before every job.
    leave, enter = filesystem.unmount(kind, device).steps[0], filesystem.mount(kind, device).steps[-1]
    return Plan("Cold caches", (leave, drop, enter))


def make_cold(
    lab: Lab, kind: FileSystem, device: str, disks: Sequence[LabDisk], parity_arrays: Sequence[str] = ()
) -> tuple[str, ...]:
    """Drop the caches before a job on ``disks`` and on md arrays that have a stripe cache. Return the cache events."""
    lab.execute(cold_plan(kind, device, [disk.node for disk in disks]))
    events = ["remounted"] if kind is not FileSystem.RAW else []
    events.append("kernel caches dropped")
    if parity_arrays:
        # Shrinking a cache for a moment drops all but 17 stripes (Documentation/admin-guide/md.rst, stripe_cache_size).
        paths = tuple(md_path(name, "stripe_cache_size") for name in parity_arrays)
        why = "md keeps the data and parity of recently used stripes; small writes to them would read nothing."
        step = Step(("sh", "-c", _EMPTY_STRIPES, "empty-stripes", *paths), why)
        lab.execute(Plan("Empty stripe caches", (step,)))
        events.append("md's stripe caches emptied")
    if lab.drop_host_cache(disks):
        events.append("host cache of the disk images dropped")
    return tuple(events)
