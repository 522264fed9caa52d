"""One measured start of fio on one array: figures, CPU account, live values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.disks import Lab
from lab.errors import RunCancelled, WorkloadError
from lab.machine.api import CommandResult, RunningCommand
from lab.measure.cpu import cpu_figures
from lab.measure.recorder import Recorder
from lab.measure.samples import DEFAULT_HERTZ, Sample
from lab.measure.steady import steadiness
from lab.results.record import CpuFigures, SteadyFigures
from lab.seams.clock import wait_for
from lab.workloads.dd_job import dd_invocation, parse_dd
from lab.workloads.fio_job import Invocation, JobTarget, Phase, TargetKind, fio_invocations, prepare_invocation
from lab.workloads.fio_output import DirectionFigures, JobFigures, parse_figures
from lab.workloads.live import LiveFeed, LiveInterval
from lab.workloads.workload import Program, Workload

START_SECONDS = 60.0
"""More than fio needs to lay out what it lacks and begin."""


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

    def job_target(self, *, repeat: int, file_bytes: int | None) -> JobTarget:
        """The place as fio jobs need it."""
        is_raw = self.file_system is FileSystem.RAW
        path = self.device if is_raw else filesystem.mount_point(self.device)
        kind = TargetKind.DEVICE if is_raw else TargetKind.DIRECTORY
        return JobTarget(path, kind, self.available_bytes, file_bytes, repeat, self.virtual_time)


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """How one job is measured; None leaves a time to the workload."""

    runtime_seconds: float | None = None
    warmup_seconds: float | None = None
    file_bytes: int | None = None
    hertz: float = DEFAULT_HERTZ
    idle_baseline: float = 0.0
    live_interval_seconds: float | None = None
    """Ask fio for true interval values this often; None: only the sampler's."""


@dataclass(frozen=True, slots=True)
class MemberBytes:
    """What the members moved while fio ran, its warm-up too, until the last sample."""

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
    target = place.job_target(repeat=repeat, file_bytes=options.file_bytes)
    invocations = _invocations(workload, target, options)
    parts: list[tuple[Invocation, JobFigures, CommandResult]] = []
    watch = _CancelWatch(is_cancelled, on_sample)
    with Recorder(lab.machine, place.array, place.members, hertz=options.hertz, on_sample=watch.hear) as recorder:
        for invocation in invocations:
            lab.guard.check(invocation.step())
            watch.command = command = lab.machine.stream(invocation.argv, stdin_text=invocation.stdin_text)
            result = _follow(command, on_live if invocation.phase is not Phase.PREPARE else None)
            if is_cancelled():
                raise RunCancelled(f"{workload.title} was stopped before its end")
            figures = _figures(workload, result)
            if invocation.phase is not Phase.PREPARE:
                parts.append((invocation, figures, result))
    figures = joined_figures([part[1] for part in parts])
    _, first, result = parts[0]
    end_seconds = result.started_seconds + result.duration_seconds
    window = recorder.between(end_seconds - longest_seconds(first), end_seconds)
    return Measured(
        figures,
        account(window, first, options.idle_baseline),
        recorder.samples,
        parts[0][0].job_text,
        target.file_bytes,
        steadiness(recorder.samples, place.array or place.members[0], longest_seconds(first)),
        member_bytes(recorder.samples, place.members, result, longest_seconds(first)),
        frozenset(sample.sync_action for sample in window if place.array),
    )


def member_bytes(
    samples: tuple[Sample, ...], members: tuple[str, ...], command: CommandResult, seconds: float
) -> MemberBytes | None:
    """From the members' counters, from the start of fio on; None if they are not in the samples.

    More than fio counts is in it, as its warm-up: less than fio moved must not be.
    """
    before = [sample for sample in samples if sample.time_seconds <= command.started_seconds] or list(samples[:1])
    if (
        not samples
        or not seconds
        or any(name not in each.disks for name in members for each in (before[-1], samples[-1]))
    ):
        return None
    first, last = before[-1].disks, samples[-1].disks
    measured_from = command.started_seconds + command.duration_seconds - seconds
    return MemberBytes(
        read_bytes=sum(last[name].read_bytes - first[name].read_bytes for name in members),
        written_bytes=sum(last[name].written_bytes - first[name].written_bytes for name in members),
        share=max(0.0, min(1.0, (samples[-1].time_seconds - measured_from) / seconds)),
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


def _figures(workload: Workload, result: CommandResult) -> JobFigures:
    if workload.program is Program.DD:
        return parse_dd(result.stderr, workload, exit_status=result.status)
    return parse_figures(result.stdout, exit_status=result.status, stderr_text=result.stderr)


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


def _follow(command: RunningCommand, on_live: Callable[[LiveInterval], None] | None) -> CommandResult:
    if on_live is None:
        return command.result()
    feed = LiveFeed()
    for chunk in command.chunks():
        for interval in feed.feed(chunk):
            on_live(interval)
    for interval in feed.finish():
        on_live(interval)
    return command.result()


def joined_figures(parts: list[JobFigures]) -> JobFigures:
    """A verify workload's writing and reading half as one set of figures."""
    first = parts[0]
    if len(parts) == 1:
        return first
    reads: DirectionFigures | None = parts[-1].reads
    return msgspec.structs.replace(first, reads=reads, raw_json=f"[{first.raw_json},{parts[-1].raw_json}]")


class BackgroundLoad:
    """A workload that runs while something else happens, until it is stopped; its figures cover exactly that time."""

    def __init__(
        self, lab: Lab, place: Place, workload: Workload, options: MeasureOptions, *, longest_run_seconds: float
    ) -> None:
        self._idle_baseline = options.idle_baseline
        target = place.job_target(repeat=0, file_bytes=options.file_bytes)
        invocations = fio_invocations(
            workload, target, runtime_seconds=longest_run_seconds, warmup_seconds=0.0, prepare=False
        )
        self._invocation = invocations[-1]
        lab.guard.check(self._invocation.step())
        self._lab, self._kernel_name = lab, place.array or place.members[0]
        self._ios_before = self._ios()
        self._command = lab.machine.stream(self._invocation.argv, stdin_text=self._invocation.stdin_text)

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
        self._command.stop()
        result = self._command.result()
        figures = parse_figures(
            result.stdout, exit_status=result.status, stderr_text=result.stderr, accept_interrupted=True
        )
        if not figures.reads and not figures.writes:
            raise WorkloadError("the load did no I/O before the rebuild was over", hint="use larger disks")
        end_seconds = result.started_seconds + result.duration_seconds
        window = samples(end_seconds - longest_seconds(figures), end_seconds)
        cpu = account(window, figures, self._idle_baseline)
        return Measured(figures, cpu, window, self._invocation.job_text, self._invocation.target.file_bytes)
