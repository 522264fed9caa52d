"""Translate a workload and a target to the fio commands that run it. Pure: no process is started here.

Facts checked with fio 3.33 (Debian 12, Linux 6.18, 2026-11-21):

- ``fio -`` reads the job file from standard input, so no file is left on the machine.
- ``directory`` with ``filename_format=raidlab.$jobnum`` gives each of ``numjobs`` jobs its own file;
  ``offset_increment`` = ``size`` gives each its own region of one device.
- Neither ``verify_only`` nor ``rw=read`` with ``verify=crc32c`` detects a valid block of an *earlier* run at the same
  offset. So a verify workload first overwrites its file with plain random data: a lost write then has a bad header.
- ``randseed`` sets the addresses only with ``randrepeat=0``: up to fio 3.34 the default, 1, gives every run of a
  random load the same addresses, whatever the seed (lab.workloads.traces).
- A failed verification ends with status 1, ``"error": 84`` (EILSEQ) in the JSON and the block on standard error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from lab.errors import SpecError, WorkloadError
from lab.gates.decoding import Seconds, SecondsOrZero, checked
from lab.gates.text import shortened
from lab.plans import Danger, Step
from lab.units import MIB, human_bytes
from lab.workloads import permitted
from lab.workloads.fio_output import SHORTEST_INTERVAL_SECONDS, MeasuredWindow, window_for
from lab.workloads.traces import trace_texts
from lab.workloads.workload import AccessPattern, Direction, Verify, Workload

DD_PREFIX = ("env", "LC_ALL=C", "dd")
# dash reads byte by byte, and head does not read beyond its count, so the job file remains for fio.
_KEEP_TRACES = (
    'at=$1; shift; n=0; while read -r size && [ "$size" -gt 0 ]; do head -c "$size" >"$at.$n" || exit 1; n=$((n+1)); '
    'done; exec "$@"'
)
_TRACE_PREFIX = ("sh", "-c", _KEEP_TRACES, "keep-traces", permitted.TRACE_PATH)
_OPTION_OF_FIO = re.compile(r"--output-format=json\+|--eta=never|--status-interval=[0-9]{1,9}ms|-")
_PATH = re.compile(r"/[A-Za-z0-9/_.:@%+,=-]*")
PERCENTILES = "50:95:99:99.9"
FILE_PREFIX = "raidlab"
_MARGIN_FRACTION = 0.02
_SEEDS_OF_AN_EXPERIMENT = 1_000_000
"""Far more than the number of repeats, so that the seeds of two experiments do not overlap."""
_PREPARE_BLOCK_BYTES = MIB
_STEP_SLACK_SECONDS = 300.0


class PathKind(StrEnum):
    """Type of a target's path."""

    DEVICE = "device"
    DIRECTORY = "directory"
    """A mounted file system; each job creates its own file there."""
    FILE = "file"
    """One file for all jobs, with a region for each."""


class FioPhase(StrEnum):
    """Purpose of a fio process."""

    PREPARE = "prepare"
    """Write all data once with random content, to avoid reads of unwritten blocks and stale checksums."""
    MEASURE = "measure"
    WRITE = "write"
    """The write phase of a verify workload."""
    VERIFY = "verify"
    """The read phase of a verify workload."""


@dataclass(frozen=True, slots=True)
class JobTarget:
    """Target of a workload.

    ``available_bytes`` is the size of the device, or the free bytes of the file system *before* the job's files exist.
    """

    path: str
    kind: PathKind
    available_bytes: int
    file_bytes: int | None = None
    """Bytes per job; overrides the workload's. Without both, the available bytes are divided between the jobs."""
    repeat: int = 0
    seed: int = 0
    """Seed of the experiment: a different seed gives different addresses, also in the same repeat."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One fio process: ``argv`` with ``job_text`` on its standard input.

    Also used for dd (lab.workloads.dd_job), which has no job text.
    """

    phase: FioPhase
    argv: tuple[str, ...]
    job_text: str
    target: JobTarget
    expected_seconds: float
    """Expected runtime; 0 if fio ends after covering its file."""
    writes: bool
    window: MeasuredWindow | None = None
    """The measured interval; None: the whole run."""
    traces: tuple[str, ...] = ()
    """The trace of each job: on standard input before the job file, and in files when fio starts."""

    def __post_init__(self) -> None:
        """Final check of every command before it reaches a machine, whatever its origin. Raises SpecError."""
        argv = self.argv[len(_TRACE_PREFIX) :] if self.argv[: len(_TRACE_PREFIX)] == _TRACE_PREFIX else self.argv
        file = _one_file(self.target)
        if argv[:3] == DD_PREFIX:
            problems = permitted.dd_problems(argv[3:], file.replace("\\:", ":"), None, writes=self.writes)
        elif all(_OPTION_OF_FIO.fullmatch(word) for word in argv[1:]) and argv[0] == "fio":
            paths = {"filename": (file,), "replay_redirect": (file,), "directory": (_escaped(self.target.path),)}
            problems = permitted.job_problems(self.job_text, paths, writes=self.writes)
        else:
            problems = iter([f"command '{shortened(' '.join(argv))}'"])
        permitted.require_permitted(problems, f"a load on {self.target.path}")

    @property
    def stdin_text(self) -> str:
        """The complete standard input of the process."""
        before = "".join(f"{len(text)}\n{text}" for text in self.traces)
        return f"{before}0\n{self.job_text}" if self.traces else self.job_text

    def step(self) -> Step:
        """The process as a step of a plan, for printing and for the guard."""
        is_raw_write = self.writes and self.target.kind is PathKind.DEVICE
        return Step(
            self.argv,
            f"{self.argv[0]}: {self.phase} on {self.target.path}",
            danger=Danger.DATA if is_raw_write else Danger.NONE,
            writes_devices=(self.target.path,) if is_raw_write else (),
            timeout_seconds=self.expected_seconds + _STEP_SLACK_SECONDS,
        )


def fio_invocations(
    workload: Workload,
    target: JobTarget,
    *,
    runtime_seconds: float | None = None,
    warmup_seconds: float | None = None,
    status_interval_seconds: float | None = None,
    is_endless: bool = False,
    prepare: bool | None = None,
) -> tuple[Invocation, ...]:
    """The fio processes, in order, for one repeat of ``workload`` on ``target``.

    ``prepare`` (by default for ``reread`` verify workloads only) adds a first process that writes every byte;
    ``status_interval_seconds`` (0.1 or more): maximum status interval of the measured process, for live values more
    often than every quarter of the runtime; ``is_endless``: it is stopped before its runtime is over.
    Raises SpecError for inconsistent times, WorkloadError ``file-exceeds-fs`` if the data do not fit.
    """
    runtime = workload.runtime_seconds if runtime_seconds is None else runtime_seconds
    warmup = workload.warmup_seconds if warmup_seconds is None else warmup_seconds
    checked(runtime, Seconds, "runtime")
    checked(warmup, SecondsOrZero, "warm-up")
    if runtime < warmup:
        raise SpecError(
            f"runtime-short: workload '{workload.id}' would measure {runtime:g} s after {warmup:g} s of warm-up",
            hint="measure at least as long as the warm-up",
        )
    window = _window(runtime, warmup, status_interval_seconds, is_endless=is_endless)
    size = job_bytes(workload, target)
    steps: list[Invocation] = []
    if prepare if prepare is not None else workload.verify is Verify.REREAD:
        steps.append(prepare_invocation(workload, target))
    phases = (FioPhase.WRITE, FioPhase.VERIFY) if workload.verify is Verify.REREAD else (FioPhase.MEASURE,)
    for phase in phases:
        traces = _traces(workload, target, size, runtime)
        # A recipe is measured as its authors did; a trace or a reread is measured from beginning to end.
        is_cut = phase is FioPhase.MEASURE and not workload.recipe and not traces
        issue = runtime if is_endless else window.issue_seconds
        if traces:
            text = _replay_text(workload, target, len(traces))
        else:
            text = _job_text(workload, target, phase, size, issue if is_cut else runtime)
        timed = workload.verify is not Verify.REREAD
        argv = _argv(window.interval_seconds if is_cut else status_interval_seconds)
        steps.append(
            Invocation(
                phase,
                (*_TRACE_PREFIX, *argv) if traces else argv,
                text,
                target,
                (issue if is_cut else runtime + warmup) if timed else 0.0,
                workload.writes and phase is not FioPhase.VERIFY,
                window if is_cut else None,
                traces,
            )
        )
    return tuple(steps)


def _window(runtime: float, warmup: float, interval: float | None, *, is_endless: bool) -> MeasuredWindow:
    if interval is not None and interval < SHORTEST_INTERVAL_SECONDS:
        raise SpecError(
            f"a status interval of {interval:g} s is too short", hint=f"use {SHORTEST_INTERVAL_SECONDS:g} s or more"
        )
    window = window_for(warmup, runtime)
    every = min(interval or window.interval_seconds, window.interval_seconds)
    return MeasuredWindow(warmup, None if is_endless else runtime, every)


def prepare_invocation(workload: Workload, target: JobTarget) -> Invocation:
    """The fio process that writes all files or regions of ``workload`` once, so reads do not hit unallocated space.

    Raises WorkloadError ``file-exceeds-fs`` if the data do not fit.
    """
    size = job_bytes(workload, target)
    lines = ["[global]", "ioengine=libaio", f"direct={int(workload.direct)}", "thread=1", "group_reporting=1"]
    lines += [
        "randrepeat=0",
        f"randseed={_seed(workload, target) + 1_000_003}",
        "refill_buffers=1",
        *_place(workload, target, size),
    ]
    block = min(_PREPARE_BLOCK_BYTES, size)
    lines += ["", f"[{workload.id}]", "rw=write", f"bs={block}", "iodepth=4", f"numjobs={workload.region_count}"]
    text = "\n".join(lines) + "\n"
    return Invocation(FioPhase.PREPARE, _argv(None), text, target, 0.0, writes=True)


def job_bytes(workload: Workload, target: JobTarget) -> int:
    """Bytes of each job's file or region on this target, in whole blocks.

    Raises WorkloadError ``file-exceeds-fs`` if the jobs' files together exceed the available bytes.
    """
    jobs = workload.region_count
    # A file system needs space for its metadata; a device is all data.
    margin = 0 if target.kind is PathKind.DEVICE else max(MIB, int(target.available_bytes * _MARGIN_FRACTION))
    room = target.available_bytes - margin
    wanted = target.file_bytes or workload.file_bytes
    if wanted is None:
        wanted = max(0, room) // jobs
        wanted -= wanted % max(workload.block_bytes, MIB if wanted >= 2 * MIB else 1)
    wanted -= wanted % workload.block_bytes
    if wanted < workload.block_bytes or wanted * jobs > room:
        needed = max(wanted, workload.block_bytes)
        raise WorkloadError(
            f"file-exceeds-fs: workload '{workload.id}' needs {jobs} x {human_bytes(needed)} on '{target.path}', "
            f"which has room for {human_bytes(max(0, room))}",
            hint=f"set file_bytes to {max(0, room) // jobs} or less",
        )
    return wanted


def _argv(status_interval_seconds: float | None) -> tuple[str, ...]:
    argv = ["fio", "--output-format=json+", "--eta=never"]
    if status_interval_seconds is not None:
        argv.append(f"--status-interval={_milliseconds(status_interval_seconds)}")
    return (*argv, "-")


def _milliseconds(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"


def _seed(workload: Workload, target: JobTarget) -> int:
    own = workload.seed + (target.repeat if workload.vary_seed else 0)
    return own + _SEEDS_OF_AN_EXPERIMENT * target.seed


def _escaped(path: str) -> str:
    """Escape a path for fio's filename option, where ':' separates names and '$', '#', ';' or quotes are special."""
    if not _PATH.fullmatch(path):
        raise SpecError(
            f"path {shortened(path)!r} has characters that fio reads in another way", hint="choose another path"
        )
    return path.replace(":", "\\:")


def _one_file(target: JobTarget) -> str:
    is_directory = target.kind is PathKind.DIRECTORY
    return _escaped(f"{target.path.rstrip('/')}/{FILE_PREFIX}.0" if is_directory else target.path)


def _place(workload: Workload, target: JobTarget, size_bytes: int) -> Iterator[str]:
    """A file or region per job, to avoid contention for one inode's lock and overlapping data."""
    yield f"size={size_bytes}"
    if target.kind is PathKind.DIRECTORY and not workload.recipe:
        yield f"directory={_escaped(target.path)}"
        yield f"filename_format={permitted.FILE_FORMAT}"
    else:
        yield f"filename={_one_file(target)}"
        if workload.region_count > 1:
            yield f"offset_increment={size_bytes}"


def _job_text(workload: Workload, target: JobTarget, phase: FioPhase, size_bytes: int, seconds: float) -> str:
    if workload.recipe:
        return _literal_text(workload, target, size_bytes, seconds)
    lines = [*_global_lines(workload, target)]
    lines += _place(workload, target, size_bytes)
    if phase is FioPhase.MEASURE:
        lines += ["time_based=1", f"runtime={_milliseconds(seconds)}"]
    lines += ["", f"[{workload.id}]", f"rw={_rw(workload)}", f"bs={workload.block_bytes}"]
    if workload.read_percent is not None:
        lines.append(f"rwmixread={workload.read_percent}")
    lines += [f"iodepth={workload.queue_depth}", f"numjobs={workload.jobs}", *_verify_lines(workload, phase)]
    return "\n".join(lines) + "\n"


def _global_lines(workload: Workload, target: JobTarget) -> Iterator[str]:
    yield from ("[global]", f"ioengine={workload.engine}", f"direct={int(workload.direct)}", "thread=1")
    yield from ("group_reporting=1", "lat_percentiles=1", "clat_percentiles=0", f"percentile_list={PERCENTILES}")
    yield from ("randrepeat=0", f"randseed={_seed(workload, target)}", f"random_distribution={workload.distribution}")
    if workload.random_data:
        yield "refill_buffers=1"


def _replay_text(workload: Workload, target: JobTarget, streams: int) -> str:
    """One section per stream: fio 3.33 crashes if the clones of one job have separate traces."""
    lines = [*_global_lines(workload, target), f"replay_redirect={_one_file(target)}"]
    lines += [f"rw={_rw(workload)}", f"bs={workload.block_bytes}"]
    for number in range(streams):
        name = workload.id if number == 0 else f"{workload.id}-{number}"
        lines += ["", f"[{name}]", f"read_iolog={permitted.TRACE_PATH}.{number}"]
    return "\n".join(lines) + "\n"


def _traces(workload: Workload, target: JobTarget, size_bytes: int, runtime: float) -> tuple[str, ...]:
    if not workload.trace:
        return ()
    seed, streams = _seed(workload, target), workload.jobs
    return trace_texts(workload.trace, streams, seconds=runtime, space_bytes=size_bytes, seed=seed)


def _literal_text(workload: Workload, target: JobTarget, size_bytes: int, runtime: float) -> str:
    text = workload.recipe.strip() + "\n"
    filled = {"{filename}": _one_file(target), "{size}": str(size_bytes), "{runtime}": _milliseconds(runtime)}
    for word, value in filled.items():
        text = text.replace(word, value)
    return text


def _rw(workload: Workload) -> str:
    is_random = workload.pattern is AccessPattern.RANDOM
    match workload.direction:
        case Direction.READ:
            return "randread" if is_random else "read"
        case Direction.MIX:
            return "randrw" if is_random else "rw"
        case _:
            return "randwrite" if is_random else "write"


def _verify_lines(workload: Workload, phase: FioPhase) -> tuple[str, ...]:
    """The checksum options; the verify phase repeats the pattern of the write phase, so it checks every block."""
    if workload.verify is Verify.NONE:
        return ()
    # Without verify_state_save=0 fio leaves local-*-verify.state files in its working directory.
    common = ("verify=crc32c", "verify_fatal=1", "verify_state_save=0")
    match phase:
        case FioPhase.WRITE:
            return (*common, "do_verify=0")
        case FioPhase.VERIFY:
            return (*common, "verify_only=1")
        case _:
            return (*common, f"verify_backlog={max(64, 4 * workload.queue_depth)}")
