"""One measured start of fio on one array: figures, CPU account, live values."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.disks import Lab
from lab.errors import LabError, RunCancelled, WorkloadError
from lab.machine.api import CommandResult, RunningCommand
from lab.measure.cpu import cpu_figures
from lab.measure.recorder import Recorder
from lab.measure.samples import DEFAULT_HERTZ, Sample
from lab.measure.steady import steadiness
from lab.results.record import CpuFigures, SteadyFigures
from lab.seams.clock import wait_for
from lab.workloads.addresses import fingerprint
from lab.workloads.dd_job import dd_invocation, parse_dd
from lab.workloads.fio_job import Invocation, JobTarget, Phase, TargetKind, fio_invocations, prepare_invocation
from lab.workloads.fio_output import DirectionFigures, JobFigures, parse_figures
from lab.workloads.live import LiveFeed, LiveInterval
from lab.workloads.window import WindowCut
from lab.workloads.workload import Program, Workload

START_SECONDS = 60.0
"""More than fio needs to lay out what it lacks and begin."""
BACKGROUND_INTERVAL_SECONDS = 0.5
"""Between the counters of a load in the background: what is not measured at its end is at most so long."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where jobs run: a device, or a file system on it."""

    array: str | None
    """Kernel name of the array; None for a bare disk."""
    device: str
    members: tuple[str, ...]
    """Kernel names of the members (of the disk itself, without an array)."""
    file_system: FileSystem
    available_bytes: int
    """Size of the device, or free bytes of the file system before any job's files exist."""
    virtual_time: bool = False

    def job_target(self, *, repeat: int, file_bytes: int | None, seed: int = 0) -> JobTarget:
        """The place as fio jobs need it."""
        is_raw = self.file_system is FileSystem.RAW
        path = self.device if is_raw else filesystem.mount_point(self.device)
        kind = TargetKind.DEVICE if is_raw else TargetKind.DIRECTORY
        return JobTarget(path, kind, self.available_bytes, file_bytes, repeat, seed, self.virtual_time)


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """How one job is measured; None leaves a time to the workload."""

    runtime_seconds: float | None = None
    warmup_seconds: float | None = None
    file_bytes: int | None = None
    seed: int = 0
    """Of the experiment."""
    hertz: float = DEFAULT_HERTZ
    idle_baseline: float = 0.0
    live_interval_seconds: float | None = None
    """Ask fio for its counters at least this often; None: as often as the measured stretch needs."""


@dataclass(frozen=True, slots=True)
class MemberBytes:
    """What the members moved from the start of fio until the last sample, so its warm-up and its end too."""

    read_bytes: int
    written_bytes: int
    share: float
    """Part of the measured stretch that lies before that sample."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of it."""

    figures: JobFigures
    cpu: CpuFigures | None
    samples: tuple[Sample, ...]
    job_text: str
    file_bytes: int | None
    steady: SteadyFigures | None = None
    members: MemberBytes | None = None
    sync_actions: frozenset[str] = frozenset()
    """What md did in the measured stretch, as sync_action words."""
    waited_fraction: float | None = None
    """Part of the time in which the machine could have run and this computer gave its processor to others; None where
    that cannot be told."""
    asked_seconds: float | None = None
    """How long a stretch was to be measured; None: all of the run."""
    addresses: str = ""
    """Fingerprint of the addresses of a random load; empty for others."""

    @property
    def share_measured(self) -> float:
        """The stretch that was measured, as a part of the one that was asked for: fio may have been held up."""
        return longest_seconds(self.figures) / self.asked_seconds if self.asked_seconds else 1.0


def prepare(lab: Lab, place: Place, workload: Workload, file_bytes: int | None) -> None:
    """Write every block that ``workload`` will touch once, with random data."""
    invocation = prepare_invocation(workload, place.job_target(repeat=0, file_bytes=file_bytes))
    lab.guard.check(invocation.step())
    result = lab.machine.run(invocation.argv, stdin_text=invocation.stdin_text, timeout_seconds=3600, check=False)
    parse_figures(result.stdout, exit_status=result.status, stderr_text=result.stderr)


def run_workload(
    lab: Lab,
    place: Place,
    workload: Workload,
    options: MeasureOptions,
    *,
    repeat: int = 0,
    on_sample: Callable[[Sample], None] | None = None,
    on_live: Callable[[LiveInterval], None] | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Measured:
    """Run one repeat of a workload while sampling.

    ``is_cancelled`` is asked at every sample; fio is stopped when it says so.
    Raises WorkloadError if fio fails or the data do not verify, SpecError if the files do not fit, RunCancelled.
    """
    target = place.job_target(repeat=repeat, file_bytes=options.file_bytes, seed=options.seed)
    parts: list[tuple[Invocation, Finished]] = []
    watch = _CancelWatch(is_cancelled, on_sample)
    waited = lab.machine.waited_seconds()
    began = lab.host.clock.monotonic_seconds()
    with Recorder(lab.machine, place.array, place.members, hertz=options.hertz, on_sample=watch.hear) as recorder:
        for invocation in _invocations(workload, target, options):
            lab.guard.check(invocation.step())
            watch.command = command = lab.machine.stream(
                invocation.argv, stdin_text=invocation.stdin_text, keeps_output=False
            )
            finished = follow(command, invocation, workload, on_live=on_live, accept_interrupted=is_cancelled)
            if finished is None or is_cancelled():
                raise RunCancelled(f"{workload.title} was stopped before its end")
            if invocation.phase is not Phase.PREPARE:
                parts.append((invocation, finished))
    waited_fraction = _waited_fraction(lab, waited, began)
    figures = joined_figures([part[1].figures for part in parts])
    invocation, first = parts[0]
    begin, end = first.stretch
    window = recorder.between(begin, end)
    cpu = account(window, first.figures, options.idle_baseline)
    until_end = [sample for sample in recorder.samples if sample.time_seconds <= end]
    return Measured(
        figures,
        cpu,
        recorder.samples,
        invocation.job_text,
        target.file_bytes,
        steady=steadiness(until_end, place.array or place.members[0], end - begin),
        members=member_bytes(recorder.samples, place.members, first.result.started_seconds, begin, end),
        sync_actions=frozenset(sample.sync_action for sample in window if place.array),
        waited_fraction=waited_fraction if waited_fraction is not None or cpu is None else cpu.steal_fraction,
        asked_seconds=invocation.window.seconds if invocation.window else None,
        addresses=fingerprint(invocation.job_text, invocation.traces, figures.fio_version),
    )


def _waited_fraction(lab: Lab, waited_before: float | None, began_seconds: float) -> float | None:
    waited = lab.machine.waited_seconds()
    # In virtual time a machine that waits loses nothing.
    if waited is None or waited_before is None or lab.machine.facts.is_virtual_time:
        return None
    return (waited - waited_before) / max(1e-9, lab.host.clock.monotonic_seconds() - began_seconds)


@dataclass(frozen=True, slots=True)
class Finished:
    """One start of fio or dd that has ended."""

    figures: JobFigures
    result: CommandResult
    load_seconds: float
    """From the first request to the last answer."""

    @property
    def stretch(self) -> tuple[float, float]:
        """Begin and end of what was measured, on the machine's clock."""
        end = self.result.started_seconds + self.result.duration_seconds
        seconds = longest_seconds(self.figures)
        if self.figures.window_begin_seconds is None:
            return end - seconds, end
        begin = end - self.load_seconds + self.figures.window_begin_seconds
        return begin, begin + seconds


def follow(
    command: RunningCommand,
    invocation: Invocation,
    workload: Workload,
    *,
    on_live: Callable[[LiveInterval], None] | None = None,
    accept_interrupted: Callable[[], bool] = lambda: False,
) -> Finished | None:
    """Read what a start prints until it ends; None if it was told to end before it had printed any figures.

    Raises WorkloadError if it fails.
    """
    feed = LiveFeed(WindowCut(invocation.window) if invocation.window else None)
    tell = on_live if on_live and invocation.phase is not Phase.PREPARE else lambda _: None
    try:
        for chunk in command.chunks():
            for interval in feed.feed(chunk):
                tell(interval)
        for interval in feed.finish():
            tell(interval)
    except BaseException:
        # Nobody would hear of it any more.
        with suppress(LabError):
            command.stop()
        raise
    result = command.result()
    if workload.program is Program.DD:
        figures = parse_dd(result.stderr, workload, exit_status=result.status)
        return Finished(figures, result, longest_seconds(figures))
    if not feed.last_document and accept_interrupted():
        return None
    figures = feed.figures(
        exit_status=result.status, stderr_text=result.stderr, accept_interrupted=accept_interrupted()
    )
    return Finished(figures, result, feed.load_seconds)


def member_bytes(
    samples: tuple[Sample, ...],
    members: tuple[str, ...],
    started_seconds: float,
    measured_from: float,
    measured_until: float,
) -> MemberBytes | None:
    """From the members' counters, from the start of fio on; None if they are not in the samples.

    More than fio counts is in it, as its warm-up: less than fio moved must not be.
    """
    before = [sample for sample in samples if sample.time_seconds <= started_seconds] or list(samples[:1])
    if (
        not samples
        or measured_until <= measured_from
        or any(name not in each.disks for name in members for each in (before[-1], samples[-1]))
    ):
        return None
    first, last = before[-1].disks, samples[-1].disks
    share = (samples[-1].time_seconds - measured_from) / (measured_until - measured_from)
    return MemberBytes(
        read_bytes=sum(last[name].read_bytes - first[name].read_bytes for name in members),
        written_bytes=sum(last[name].written_bytes - first[name].written_bytes for name in members),
        share=max(0.0, min(1.0, share)),
    )


def _invocations(workload: Workload, target: JobTarget, options: MeasureOptions) -> tuple[Invocation, ...]:
    if workload.program is Program.DD:
        return (dd_invocation(workload, target),)
    return fio_invocations(
        workload,
        target,
        runtime_seconds=options.runtime_seconds,
        warmup_seconds=options.warmup_seconds,
        status_interval_seconds=options.live_interval_seconds,
    )


class _CancelWatch:
    """Hears every sample, on the recorder's thread, and stops the running fio once if it is to end."""

    def __init__(self, is_cancelled: Callable[[], bool], on_sample: Callable[[Sample], None] | None) -> None:
        self.command: RunningCommand | None = None
        self._is_cancelled = is_cancelled
        self._on_sample = on_sample
        self._has_stopped = False

    def hear(self, sample: Sample) -> None:
        if self.command and not self._has_stopped and self._is_cancelled():
            self._has_stopped = True
            self.command.stop()
        if self._on_sample:
            self._on_sample(sample)


def account(window: tuple[Sample, ...], figures: JobFigures, idle_baseline: float) -> CpuFigures | None:
    """The CPU account of a measured stretch, scaled to the I/Os that fell between its samples."""
    seconds = longest_seconds(figures)
    covered = window[-1].time_seconds - window[0].time_seconds if len(window) > 1 else 0.0
    share = min(1.0, covered / seconds) if seconds else 0.0
    sections = [section for section in (figures.reads, figures.writes) if section]
    return cpu_figures(
        window,
        idle_baseline=idle_baseline,
        total_ios=round(sum(section.total_ios for section in sections) * share),
        total_bytes=round(sum(section.io_bytes for section in sections) * share),
    )


def longest_seconds(figures: JobFigures) -> float:
    """Measured time of a job: fio's own runtime without the warm-up."""
    return max((part.runtime_seconds for part in (figures.reads, figures.writes) if part), default=0.0)


def joined_figures(parts: list[JobFigures]) -> JobFigures:
    """A verify workload's writing and reading half as one set of figures."""
    first = parts[0]
    if len(parts) == 1:
        return first
    reads: DirectionFigures | None = parts[-1].reads
    return msgspec.structs.replace(first, reads=reads, raw_json=f"[{first.raw_json},{parts[-1].raw_json}]")


class BackgroundLoad:
    """A workload that runs while something else happens, until it is stopped.

    Its figures are those of the time between the first and the last document that fio printed meanwhile; of a load that
    was over before there were two, of its whole time.
    """

    def __init__(
        self,
        lab: Lab,
        place: Place,
        workload: Workload,
        options: MeasureOptions,
        *,
        longest_run_seconds: float,
        repeat: int = 0,
    ) -> None:
        self._idle_baseline = options.idle_baseline
        self._workload = workload
        self._is_stopped = threading.Event()
        target = place.job_target(repeat=repeat, file_bytes=options.file_bytes, seed=options.seed)
        invocations = fio_invocations(
            workload,
            target,
            runtime_seconds=longest_run_seconds,
            warmup_seconds=0.0,
            status_interval_seconds=BACKGROUND_INTERVAL_SECONDS,
            is_endless=True,
            prepare=False,
        )
        self._invocation = invocations[-1]
        lab.guard.check(self._invocation.step())
        self._lab, self._kernel_name = lab, place.array or place.members[0]
        self._ios_before = self._ios()
        self._command = lab.machine.stream(
            self._invocation.argv, stdin_text=self._invocation.stdin_text, keeps_output=False
        )
        self._outcome: Finished | BaseException | None = None
        # Read as it comes: the documents of hours would fill the memory.
        self._reader = threading.Thread(target=self._follow, name="raidlab-background-load", daemon=True)
        self._reader.start()

    def _follow(self) -> None:
        try:
            self._outcome = follow(
                self._command, self._invocation, self._workload, accept_interrupted=self._is_stopped.is_set
            )
        except BaseException as error:
            self._outcome = error

    def _ios(self) -> int:
        # Fields 1 and 5: reads and writes that were completed (kernel document block/stat).
        path = f"/sys/block/{self._kernel_name}/stat"
        fields = (self._lab.machine.read([path])[path] or "").split()
        return int(fields[0]) + int(fields[4]) if fields else 0

    def wait_until_busy(self) -> None:
        """Wait for its first I/Os. Raises WaitTimedOut if none comes."""
        wait_for(
            self._ios,
            lambda ios: ios > self._ios_before,
            what="the first I/O of the load",
            timeout_seconds=START_SECONDS,
            clock=self._lab.host.clock,
            hint="raidlab --verbose shows what was run",
        )

    def stop(self, samples: Callable[[float, float], tuple[Sample, ...]]) -> Measured:
        """End the load by SIGINT, on which fio prints its result. ``samples`` gives those of a stretch of time."""
        self._is_stopped.set()
        self._command.stop()
        self._reader.join()
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        finished = self._outcome
        figures = finished.figures if finished else None
        if finished is None or figures is None or not (figures.reads or figures.writes):
            raise WorkloadError("the load did no I/O before the rebuild was over", hint="use larger disks")
        window = samples(*finished.stretch)
        cpu = account(window, figures, self._idle_baseline)
        return Measured(
            figures,
            cpu,
            window,
            self._invocation.job_text,
            self._invocation.target.file_bytes,
            addresses=fingerprint(self._invocation.job_text, (), figures.fio_version),
        )
