"""One measured start of fio on one array: figures, CPU account, live values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import Thread

import msgspec

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.disks import Lab
from lab.errors import RunCancelled, WorkloadError
from lab.gates.numbers import told
from lab.host.clock import wait_for
from lab.measure.fio_run import Finished, FioRun, longest_seconds
from lab.measure.samples import DEFAULT_HERTZ, Recorder, Sample, cpu_figures
from lab.measure.steady import steadiness
from lab.results.record import CpuFigures, SteadyFigures
from lab.workloads.addresses import fingerprint
from lab.workloads.dd_job import dd_invocation
from lab.workloads.fio_job import Invocation, JobTarget, PathKind, fio_invocations, prepare_invocation
from lab.workloads.fio_output import JobFigures
from lab.workloads.live import LiveInterval
from lab.workloads.workload import LoadProgram, Workload

START_SECONDS = 60.0
"""More than fio needs to lay out what it lacks and begin."""
BACKGROUND_INTERVAL_SECONDS = 0.5
"""Between the counters of a load in the background: what is not measured at its end is at most so long."""


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """Where loads work: an array or a bare disk, or the file system on it."""

    array: str | None
    """Its name; None for a bare disk, and where the threads of several arrays would have to be accounted for."""
    device: str
    members: tuple[str, ...]
    """Kernel names of the members (of the disk itself, without an array)."""
    file_system: FileSystem
    available_bytes: int
    """What of the device loads may use, or free bytes of the file system before any job's files exist."""
    uuid: str = ""
    """Of an array or volume that lasts."""
    mark_bytes: int = 0
    """Behind the available bytes of a bare array that lasts: its data mark's."""

    @property
    def is_raw(self) -> bool:
        return self.file_system is FileSystem.RAW

    def job_target(self, *, repeat: int = 0, file_bytes: int | None = None, seed: int = 0) -> JobTarget:
        """The target as fio jobs need it."""
        path = self.device if self.is_raw else filesystem.mount_point(self.device)
        kind = PathKind.DEVICE if self.is_raw else PathKind.DIRECTORY
        return JobTarget(path, kind, self.available_bytes, file_bytes, repeat, seed)


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
    """What came of it. A load that was not sampled has figures and addresses alone."""

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
    """What md did in the measured stretch, as sync_action words."""
    waited_fraction: float | None = None
    """Part of the time in which the machine could have run and this computer gave its processor to others; None where
    that cannot be told."""
    asked_seconds: float | None = None
    """How long a stretch was to be measured; None: all of the run."""

    @property
    def share_measured(self) -> float:
        """The stretch that was measured, as a part of the one that was asked for: fio may have been held up."""
        return longest_seconds(self.figures) / self.asked_seconds if self.asked_seconds else 1.0


def prepare(lab: Lab, target: LoadTarget, workload: Workload, file_bytes: int | None) -> None:
    """Write every block that ``workload`` will touch once, with random data."""
    FioRun(lab, workload).run((prepare_invocation(workload, target.job_target(file_bytes=file_bytes)),))


def run_workload(
    lab: Lab,
    target: LoadTarget,
    workload: Workload,
    options: MeasureOptions,
    *,
    repeat: int = 0,
    on_sample: Callable[[Sample], None] = lambda _: None,
    on_live: Callable[[LiveInterval], None] = lambda _: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Measured:
    """Run one repeat of a workload while sampling.

    ``is_cancelled`` is asked at every sample; fio is stopped when it says so.
    Raises WorkloadError if fio fails or the data do not verify, SpecError if the files do not fit, RunCancelled.
    """
    job_target = target.job_target(repeat=repeat, file_bytes=options.file_bytes, seed=options.seed)
    if workload.program is LoadProgram.DD:
        invocations: tuple[Invocation, ...] = (dd_invocation(workload, job_target),)
    else:
        invocations = fio_invocations(
            workload,
            job_target,
            runtime_seconds=options.runtime_seconds,
            warmup_seconds=options.warmup_seconds,
            status_interval_seconds=options.live_interval_seconds,
        )
    fio = FioRun(lab, workload, on_live)

    def hear(sample: Sample) -> None:
        """On the recorder's thread."""
        if is_cancelled():
            fio.stop()
        on_sample(sample)

    waited = lab.machine.waited_seconds()
    began = lab.host.clock.monotonic_seconds()
    with Recorder(lab.machine, target.array, target.members, hertz=options.hertz, on_sample=hear) as recorder:
        parts = fio.run(invocations)
        if fio.is_stopped or is_cancelled():
            raise RunCancelled(f"{workload.title} was stopped before its end")
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
    """What starts of fio say by themselves; a verify workload's writing and reading half are one set of figures."""
    invocation, figures = parts[0].invocation, parts[0].figures
    if len(parts) > 1:
        last = parts[-1].figures
        figures = msgspec.structs.replace(figures, reads=last.reads, raw_json=f"[{figures.raw_json},{last.raw_json}]")
    addresses = fingerprint(invocation.job_text, invocation.traces, figures.fio_version)
    return Measured(figures, invocation.job_text, invocation.target.file_bytes, addresses)


def _waited_fraction(lab: Lab, waited_before: float | None, began_seconds: float) -> float | None:
    waited = lab.machine.waited_seconds()
    # In virtual time a machine that waits loses nothing.
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


class BackgroundLoad:
    """A workload that runs while something else happens, until it is stopped.

    Its figures are those of the time between the first and the last document that fio printed meanwhile; of a load that
    was over before there were two, of its whole time.
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
        # Of a load that rereads, the part that writes would never end.
        invocation = fio_invocations(
            workload,
            job_target,
            runtime_seconds=longest_run_seconds,
            warmup_seconds=0.0,
            status_interval_seconds=BACKGROUND_INTERVAL_SECONDS,
            is_endless=True,
            prepare=False,
        )[-1]
        lab.guard.check(invocation.step())
        self._lab, self._kernel_name = lab, target.array or target.members[0]
        self._ios_before = self._ios()
        self._fio = FioRun(lab, workload, is_aside=True)
        self._outcome: Future[tuple[Finished, ...]] = Future()
        # Read as it comes: the documents of hours would fill the memory.
        Thread(target=self._run, args=(invocation,), name="raidlab-background-load", daemon=True).start()
        # What is asked of the machine from here on comes after it, each time.
        self._fio.has_begun.wait()

    def _run(self, invocation: Invocation) -> None:
        try:
            self._outcome.set_result(self._fio.run((invocation,)))
        except BaseException as error:
            self._outcome.set_exception(error)
        finally:
            self._fio.has_begun.set()

    def _ios(self) -> int:
        # Fields 1 and 5: reads and writes that were completed (kernel document block/stat).
        path = f"/sys/block/{self._kernel_name}/stat"
        fields = (self._lab.machine.read([path])[path] or "").split()
        return told(fields[0], path) + told(fields[4], path) if len(fields) > 4 else 0

    def wait_until_busy(self) -> None:
        """Wait for its first I/Os. Raises WaitTimedOut if none comes."""
        wait_for(
            self._ios,
            lambda ios: ios > self._ios_before or self._outcome.done(),
            what="the first I/O of the load",
            timeout_seconds=START_SECONDS,
            clock=self._lab.machine.clock,
            hint="raidlab --verbose shows what was run",
        )

    def stop(self, samples: Callable[[float, float], tuple[Sample, ...]]) -> Measured:
        """End the load by SIGINT, on which fio prints its result. ``samples`` gives those of a stretch of time."""
        self._fio.stop()
        parts = self._outcome.result()
        if not parts:
            raise WorkloadError("the load did no I/O before the rebuild was over", hint="use larger disks")
        window = samples(*parts[0].stretch)
        return replace(measured_by(parts), cpu=account(window, parts[0].figures, self._idle_baseline), samples=window)
