"""The fio job files and command lines, the synthetic traces and the dd commands of workloads.

Some published recipes measure with dd (GNU coreutils, dd(1)), which prints ``BYTES bytes (...) copied, SECONDS s,
...`` on standard error when it ends. Its figures are those of writes to the page cache, unless the recipe has
oflag=direct or conv=fdatasync.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256

from lab.errors import SpecError, WorkloadError
from lab.gates.decoding import Seconds, SecondsOrZero, checked, version_numbers
from lab.gates.text import shortened
from lab.plans import Danger, Step
from lab.tomlfile import unknown_word
from lab.units import KIB, MIB, human_bytes
from lab.workloads.fio_output import DirectionFigures, JobFigures, MeasuredWindow, window_for
from lab.workloads.workload import (
    COUNT,
    FILE_FORMAT,
    TRACE_PATH,
    AccessPattern,
    Direction,
    Verify,
    Workload,
    dd_problems,
    job_problems,
    require_permitted,
)

_SEEDED_BY_REPEATABLE = (3, 35)
"""First fio version whose ``randrepeat=1`` uses ``randseed``."""
_DEAF_DISTRIBUTIONS = (3, 33)
"""From this fio version on, distributions such as zipf also use one constant seed."""
_CONSTANT = "constant"
_OF_ADDRESSES = ("bs", "size", "filesize", "numjobs", "offset_increment", "rw", "readwrite", "rwmixread")
_FINGERPRINT_CHARACTERS = 16


def fingerprint(job_text: str, traces: Sequence[str], fio_version: str) -> str:
    """Return a text that is equal for two runs of a load if they access the same addresses in the same order.

    The text is empty if addresses are not random, if the seed comes from the system, or if the traces of a
    replay are missing. ``traces`` are the replayed traces, if any. ``fio_version`` is as printed by fio, such as
    ``fio-3.33``.
    """
    if traces:
        return _digest("\n".join(traces))
    options = _options(job_text)
    if not _is_random(options):
        return ""
    seed = _effective_seed(options, fio_version)
    if seed is None:
        return ""
    shape = [f"{name}={options[name]}" for name in _OF_ADDRESSES if name in options]
    return _digest("\n".join([seed, options.get("random_distribution", ""), *shape]))


def deaf_jobs(job_text: str, fio_version: str) -> tuple[int, int]:
    """Return the number of jobs of a random load that use a constant seed, and the number of all jobs."""
    options = _options(job_text)
    jobs = int(options["numjobs"]) if re.fullmatch(r"[0-9]{1,6}", options.get("numjobs", "")) else 1
    return int(_is_random(options) and _is_first_deaf(options, fio_version)), jobs


def _is_random(options: dict[str, str]) -> bool:
    return "read_iolog" not in options and any(options.get(name, "").startswith("rand") for name in ("rw", "readwrite"))


def _is_repeatable(options: dict[str, str]) -> bool:
    return options.get("randrepeat", "1").lower() not in ("0", "false", "no")


def _is_first_deaf(options: dict[str, str], fio_version: str) -> bool:
    is_uniform = options.get("random_distribution", "random") == "random"
    version = version_numbers(fio_version)
    is_old = (0, 0) < version < _SEEDED_BY_REPEATABLE and (is_uniform or version >= _DEAF_DISTRIBUTIONS)
    return _is_repeatable(options) and is_old


def _effective_seed(options: dict[str, str], fio_version: str) -> str | None:
    """Return the seed of the addresses, ``constant`` if it is fio's own seed, or None if it comes from the system."""
    if _is_first_deaf(options, fio_version) and options.get("numjobs", "1") == "1":
        return _CONSTANT
    return options.get("randseed", _CONSTANT if _is_repeatable(options) else None)


def _options(job_text: str) -> dict[str, str]:
    """Merge the options of all sections, and use each option's first value. raidlab's own jobs have one section."""
    found: dict[str, str] = {}
    for line in job_text.splitlines():
        name, sign, value = line.partition("=")
        if sign and not line.lstrip().startswith(("#", ";", "[")):
            found.setdefault(name.strip().lower(), value.strip())
    return found


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_FINGERPRINT_CHARACTERS]


LEAST_SPACE_BYTES = 16 * MIB
LEAD_MILLISECONDS = 1000
"""Time for fio to start before the first I/O is due."""
_HEAD_LINES = 3


# The synthetic trace imitates a server with mail, home directories and a small database, as in traces of the 1990s
# (Ruemmler and Wilkes, "UNIX disk access patterns", USENIX 1993). Most requests are 8 KiB long, there are slightly more
# writes than reads, and a few requests belong to scans. Requests arrive in bursts. Most go to a hot part of the data,
# and some are sequential runs of large requests.
TRACE = "server-1990s"
MEAN_PER_SECOND = 45.0
_BURST_FACTOR = 4.0
"""Ratio of the request rate within a burst to the mean rate."""
_BURST_SECONDS = 0.1
WRITE_SHARE = 0.57
_SIZES = {2 * KIB: 0.1, 4 * KIB: 0.15, 8 * KIB: 0.55, 16 * KIB: 0.1, 64 * KIB: 0.1}
"""For each number of bytes, the share of the small requests that have this size."""
_HOT_SPACE_SHARE = 0.1
_HOT_REQUEST_SHARE = 0.6
RUN_SHARE = 0.01
"""Share of the requests that begin a run."""
_RUN_BYTES = 128 * KIB
RUN_REQUESTS = 8


def trace_texts(kind: str, streams: int, *, seconds: float, space_bytes: int, seed: int) -> tuple[str, ...]:
    """Generate a trace over the first ``space_bytes`` of a device, and distribute its requests to ``streams`` streams.

    Streams without a request are omitted, since fio rejects an empty trace. Raises SpecError if the kind is unknown,
    the space is too small, or no request is due within the duration.
    """
    if kind != TRACE:
        raise unknown_word("synthetic trace", kind, (TRACE,))
    if space_bytes < LEAST_SPACE_BYTES:
        raise SpecError(f"a trace needs at least 16 MiB, not {space_bytes} bytes", hint="use a larger array")
    dealt: list[list[str]] = [["fio version 2 iolog", "data add", "data open"] for _ in range(streams)]
    # This is not cryptographic, because the same seed must give the same trace.
    requests = _requests(seconds, space_bytes, random.Random(seed))
    for number, (milliseconds, is_write, offset, length) in enumerate(requests):
        word = "write" if is_write else "read"
        dealt[number % streams] += [f"data wait {milliseconds} 0", f"data {word} {offset} {length}"]
    texts = tuple("\n".join([*lines, "data close"]) + "\n" for lines in dealt if len(lines) > _HEAD_LINES)
    if not texts:
        raise SpecError(f"no request of trace '{kind}' is due within {seconds:g} s", hint="measure for longer")
    return texts


def _requests(seconds: float, space_bytes: int, draw: random.Random) -> Iterator[tuple[int, bool, int, int]]:
    now = 0.0
    burst_ends = 0.0
    # The rate is the factor times the mean within bursts and 0 between them, which gives the requested mean.
    while now < seconds:
        if now >= burst_ends:
            now += draw.expovariate(1 / (_BURST_SECONDS * (_BURST_FACTOR - 1)))
            burst_ends = now + draw.expovariate(1 / _BURST_SECONDS)
        now += draw.expovariate(MEAN_PER_SECOND * _BURST_FACTOR)
        if now >= seconds:
            return
        due = LEAD_MILLISECONDS + int(now * 1000)
        is_write = draw.random() < WRITE_SHARE
        if draw.random() < RUN_SHARE:
            start = _place(space_bytes - _RUN_BYTES * RUN_REQUESTS, _RUN_BYTES, draw)
            for number in range(RUN_REQUESTS):
                yield due, is_write, start + number * _RUN_BYTES, _RUN_BYTES
        else:
            (length,) = draw.choices([*_SIZES], [*_SIZES.values()])
            yield due, is_write, _place(space_bytes - length, length, draw), length


def _place(space_bytes: int, unit: int, draw: random.Random) -> int:
    is_hot = draw.random() < _HOT_REQUEST_SHARE
    reach = int(space_bytes * _HOT_SPACE_SHARE) if is_hot else space_bytes
    return draw.randrange(max(1, reach // unit)) * unit


DD_PREFIX = ("env", "LC_ALL=C", "dd")
# dash reads byte by byte, and head does not read beyond its count, so the job file is left for fio to read.
_KEEP_TRACES = (
    'at=$1; shift; n=0; while read -r size && [ "$size" -gt 0 ]; do head -c "$size" >"$at.$n" || exit 1; n=$((n+1)); '
    'done; exec "$@"'
)
_TRACE_PREFIX = ("sh", "-c", _KEEP_TRACES, "keep-traces", TRACE_PATH)
_OPTION_OF_FIO = re.compile(r"--output-format=json\+|--eta=never|--status-interval=[0-9]{1,9}ms|-")
_PATH = re.compile(r"/[A-Za-z0-9/_.:@%+,=-]*")
PERCENTILES = "50:95:99:99.9"
FILE_PREFIX = "raidlab"
_MARGIN_FRACTION = 0.02
_SEEDS_OF_AN_EXPERIMENT = 1_000_000
"""The distance between the seeds of two experiments. It exceeds any number of repeats, so that no seeds overlap."""
_PREPARE_BLOCK_BYTES = MIB
_STEP_SLACK_SECONDS = 300.0


class PathKind(StrEnum):
    """Type of a target's path."""

    DEVICE = "device"
    DIRECTORY = "directory"
    """A mounted file system, in which each job creates its own file."""


class FioPhase(StrEnum):
    """Purpose of a fio process."""

    PREPARE = "prepare"
    """Write all data once with random content, so that no unwritten blocks and no stale checksums are read."""
    MEASURE = "measure"
    WRITE = "write"
    VERIFY = "verify"


@dataclass(frozen=True, slots=True)
class JobTarget:
    """Target of a workload. The available bytes of a file system are those *before* the job's files exist."""

    path: str
    kind: PathKind
    available_bytes: int
    file_bytes: int | None = None
    """Bytes per job, instead of the workload's. If neither is set, the available bytes are divided between the jobs."""
    repeat: int = 0
    seed: int = 0
    """Seed of the experiment. A different seed gives different addresses, even in the same repeat."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One fio process with ``job_text`` on its standard input, or one dd process, which has no job text."""

    phase: FioPhase
    argv: tuple[str, ...]
    job_text: str
    target: JobTarget
    expected_seconds: float
    """Expected runtime, or 0 if fio ends once it has covered its file."""
    writes: bool
    window: MeasuredWindow | None = None
    """The measured interval, or None for the whole run."""
    traces: tuple[str, ...] = ()
    """The trace of each job, sent on standard input before the job file and stored in files before fio starts."""

    def __post_init__(self) -> None:
        """Check the command one last time before it reaches a machine. Raises SpecError if it is not permitted."""
        argv = self.argv[len(_TRACE_PREFIX) :] if self.argv[: len(_TRACE_PREFIX)] == _TRACE_PREFIX else self.argv
        file = _one_file(self.target)
        if argv[:3] == DD_PREFIX:
            problems = dd_problems(argv[3:], file.replace("\\:", ":"), None, writes=self.writes)
        elif all(_OPTION_OF_FIO.fullmatch(word) for word in argv[1:]) and argv[0] == "fio":
            paths = {"filename": (file,), "replay_redirect": (file,), "directory": (_escaped(self.target.path),)}
            problems = job_problems(self.job_text, paths, writes=self.writes)
        else:
            problems = iter([f"command '{shortened(' '.join(argv))}'"])
        require_permitted(problems, f"a load on {self.target.path}")

    @property
    def stdin_text(self) -> str:
        before = "".join(f"{len(text)}\n{text}" for text in self.traces)
        return f"{before}0\n{self.job_text}" if self.traces else self.job_text

    def step(self) -> Step:
        """Return the process as a step of a plan, for printing and for the guard."""
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
) -> tuple[Invocation, ...]:
    """Return the fio processes, in order, for one repeat of ``workload`` on ``target``.

    The first process of a ``reread`` verify workload writes every byte. ``status_interval_seconds`` (0.1 or more) is
    an upper limit for the status interval of the measured process, which is otherwise a quarter of the runtime, and at
    most two seconds. ``is_endless`` means that the process is stopped before its runtime is over. Raises SpecError if
    the times are inconsistent, and WorkloadError ``file-exceeds-fs`` if the data do not fit.
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
    size = job_bytes(workload, target)
    argv = _argv(status_interval_seconds)
    if workload.verify is Verify.REREAD:
        steps = [prepare_invocation(workload, target)]
        for phase in (FioPhase.WRITE, FioPhase.VERIFY):
            text = _job_text(workload, target, phase, size, runtime)
            steps.append(Invocation(phase, argv, text, target, 0.0, writes=phase is FioPhase.WRITE))
        return tuple(steps)
    phase, seconds = FioPhase.MEASURE, runtime + warmup
    # A recipe is measured the way its authors measured it, and a trace is measured from beginning to end.
    if workload.trace:
        seed = _seed(workload, target)
        traces = trace_texts(workload.trace, workload.jobs, seconds=runtime, space_bytes=size, seed=seed)
        text, argv = _replay_text(workload, target, len(traces)), (*_TRACE_PREFIX, *argv)
        return (Invocation(phase, argv, text, target, seconds, workload.writes, traces=traces),)
    if workload.recipe:
        text = _job_text(workload, target, phase, size, runtime)
        return (Invocation(phase, argv, text, target, seconds, workload.writes),)
    window = window_for(warmup, runtime)
    every = min(status_interval_seconds or window.interval_seconds, window.interval_seconds)
    window = replace(window, seconds=None if is_endless else runtime, interval_seconds=every)
    issue = runtime if is_endless else window.issue_seconds
    text = _job_text(workload, target, phase, size, issue)
    return (Invocation(phase, _argv(every), text, target, issue, workload.writes, window),)


def prepare_invocation(workload: Workload, target: JobTarget) -> Invocation:
    """Return the fio process that writes every block of ``workload`` once. Raises WorkloadError ``file-exceeds-fs``."""
    size = job_bytes(workload, target)
    block, seed = min(_PREPARE_BLOCK_BYTES, size), _seed(workload, target) + 1_000_003
    lines = ["[global]", "ioengine=libaio", f"direct={int(workload.direct)}", "thread=1", "group_reporting=1"]
    lines += ["randrepeat=0", f"randseed={seed}", "refill_buffers=1", *_job_place(workload, target, size)]
    lines += ["", f"[{workload.id}]", "rw=write", f"bs={block}", "iodepth=4", f"numjobs={workload.region_count}"]
    text = "\n".join(lines) + "\n"
    return Invocation(FioPhase.PREPARE, _argv(None), text, target, 0.0, writes=True)


def job_bytes(workload: Workload, target: JobTarget) -> int:
    """Return the bytes of each job's file or region, in whole blocks. Raises WorkloadError ``file-exceeds-fs``."""
    jobs = workload.region_count
    # A file system needs space for its metadata, whereas a device is all data.
    margin = 0 if target.kind is PathKind.DEVICE else max(MIB, int(target.available_bytes * _MARGIN_FRACTION))
    room = target.available_bytes - margin
    size = target.file_bytes or workload.file_bytes
    if size is None:
        size = max(0, room) // jobs
        size -= size % max(workload.block_bytes, MIB if size >= 2 * MIB else 1)
    size -= size % workload.block_bytes
    if size < workload.block_bytes or size * jobs > room:
        needed = max(size, workload.block_bytes)
        raise WorkloadError(
            f"file-exceeds-fs: workload '{workload.id}' needs {jobs} x {human_bytes(needed)} on '{target.path}', "
            f"which has room for {human_bytes(max(0, room))}",
            hint=f"set file_bytes to {max(0, room) // jobs} or less",
        )
    return size


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
            f"path {shortened(path)!r} contains characters that have a special meaning for fio",
            hint="choose another path",
        )
    return path.replace(":", "\\:")


def _one_file(target: JobTarget) -> str:
    is_directory = target.kind is PathKind.DIRECTORY
    return _escaped(f"{target.path.rstrip('/')}/{FILE_PREFIX}.0" if is_directory else target.path)


def _job_place(workload: Workload, target: JobTarget, size_bytes: int) -> Iterator[str]:
    """Yield the lines that give each job its own file or region.

    Otherwise jobs would share the lock of an inode, and overwrite each other's data.
    """
    yield f"size={size_bytes}"
    if target.kind is PathKind.DIRECTORY and not workload.recipe:
        yield f"directory={_escaped(target.path)}"
        yield f"filename_format={FILE_FORMAT}"
    else:
        yield f"filename={_one_file(target)}"
        if workload.region_count > 1:
            yield f"offset_increment={size_bytes}"


def _job_text(workload: Workload, target: JobTarget, phase: FioPhase, size_bytes: int, seconds: float) -> str:
    if workload.recipe:
        text = workload.recipe.strip()
        filled = {"{filename}": _one_file(target), "{size}": str(size_bytes), "{runtime}": _milliseconds(seconds)}
        for word, value in filled.items():
            text = text.replace(word, value)
        return f"{text}\n"
    lines = [*_global_lines(workload, target)]
    lines += _job_place(workload, target, size_bytes)
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
    """Return a job with one section per stream, because fio 3.33 crashes if clones of one job have separate traces."""
    lines = [*_global_lines(workload, target), f"replay_redirect={_one_file(target)}"]
    lines += [f"rw={_rw(workload)}", f"bs={workload.block_bytes}"]
    for number in range(streams):
        name = workload.id if number == 0 else f"{workload.id}-{number}"
        lines += ["", f"[{name}]", f"read_iolog={TRACE_PATH}.{number}"]
    return "\n".join(lines) + "\n"


def _rw(workload: Workload) -> str:
    word = {Direction.READ: "read", Direction.MIX: "rw"}.get(workload.direction, "write")
    return f"rand{word}" if workload.pattern is AccessPattern.RANDOM else word


def _verify_lines(workload: Workload, phase: FioPhase) -> tuple[str, ...]:
    """Return the checksum options. The verify phase repeats the write phase's pattern, so it checks every block."""
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


_COPIED = re.compile(r"^(\d{1,18}) bytes.* copied, (\d{1,9}(?:\.\d{1,9})?(?:e[+-]?\d{1,2})?) s", re.MULTILINE)
_LONGEST_SECONDS = 1800.0


def dd_invocation(workload: Workload, target: JobTarget) -> Invocation:
    """Return the process that runs the recipe, with fewer blocks if not all of them fit.

    Raises WorkloadError ``file-exceeds-fs``.
    """
    size = job_bytes(workload, target)
    path = _one_file(target).replace("\\:", ":")
    fitting = size // workload.block_bytes
    text = COUNT.sub(lambda found: str(min(int(found[1]), fitting)), workload.recipe)
    argv = (*DD_PREFIX, *(word.replace("{filename}", path) for word in text.split()[1:]))
    return Invocation(FioPhase.MEASURE, argv, "", target, _LONGEST_SECONDS, writes=workload.writes)


def parse_dd(text: str, workload: Workload, *, exit_status: int = 0) -> JobFigures:
    """Parse dd's output, whose only latency is the mean time per block. Raises WorkloadError if dd failed."""
    found = _COPIED.search(text)
    if exit_status or not found or int(found[1]) <= 0 or float(found[2]) <= 0:
        output = text.strip() or "it printed nothing"
        raise WorkloadError(f"dd exited with status {exit_status}: {output}", hint="run the recipe by hand to see more")
    copied, seconds = int(found[1]), float(found[2])
    blocks = -(-copied // workload.block_bytes)
    figures = DirectionFigures(
        iops=blocks / seconds,
        bandwidth_bytes_per_second=copied / seconds,
        total_ios=blocks,
        io_bytes=copied,
        runtime_seconds=seconds,
        mean_seconds=seconds / blocks,
    )
    is_read = workload.direction is Direction.READ
    return JobFigures(job_name=workload.id, reads=figures if is_read else None, writes=None if is_read else figures)
