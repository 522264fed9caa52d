"""Workloads, and the fio options that they may use. Workloads are TOML files, and each is checked as a whole."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec

from lab.errors import SpecError
from lab.gates.decoding import (
    MOST_SECONDS,
    BlockBytes,
    JobCount,
    QueueDepth,
    ReadPercent,
    Seconds,
    SecondsOrZero,
    Seed,
    SizeBytes,
    checked,
    convert,
    parse_bytes,
)
from lab.gates.text import is_name, shortened
from lab.tomlfile import read_toml, unknown_word
from lab.units import GIB, human_bytes

RULE = "foreign-command"
SYNCHRONOUS_ENGINES = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"})
"""Synchronous fio engines, which ignore a queue depth above 1 (fio HOWTO, "I/O engine")."""
ENGINES = frozenset({*SYNCHRONOUS_ENGINES, "libaio", "io_uring", "posixaio"})
"""Engines that do I/O only on the target. fio treats any other word as a library to load."""
TRACE_PATH = "/run/raidlab-trace.log"
FILE_FORMAT = "raidlab.$jobnum"
MOST_BUFFER_BYTES = 2 * GIB
"""Limit on the buffers that fio allocates for all requests in flight."""
_MOST_RUN_SECONDS = 3 * MOST_SECONDS
"""The longest time that an option may set, which includes the warm-up and a margin."""
_LONGEST_LINE = 512
"""fio reads at most 4,095 bytes of a line. The rest of a longer line, even of a comment, would be a separate line."""
MOST_LINES = 500
_PATHS = ("filename", "directory", "replay_redirect")
_ANY_PATH = re.compile(r"[A-Za-z0-9/_.:@%+,=\\-]+")
_NEVER = re.compile(r"(?!)")
_COUNT = r"[0-9]{1,19}"
_SIZE = r"[0-9]{1,19}(?:[kmgtKMGT](?:i?[bB])?)?"
_TIME = r"[0-9]{1,19}(?:us|ms|s|m|h)?"
_READS = r"(?:rand)?read"
_READ = re.compile(rf"{_READS}(?::{_COUNT})?")
_PATTERNS = {
    _COUNT: "rwmixread rwmixwrite percentage_random randrepeat randseed norandommap direct buffered fsync fdatasync "
    "end_fsync invalidate refill_buffers zero_buffers scramble_buffers buffer_compress_percentage dedupe_percentage "
    "group_reporting time_based stonewall wait_for_previous thread lat_percentiles clat_percentiles slat_percentiles "
    "verify_fatal do_verify verify_only verify_backlog verify_backlog_batch numjobs iodepth iodepth_low iodepth_batch "
    "iodepth_batch_submit iodepth_batch_complete rate_iops unified_rw_reporting sync gtod_reduce",
    _TIME: "runtime ramp_time startdelay thinktime",
    rf"{_SIZE}|[0-9]{{1,3}}%": "size filesize io_size offset",
    _SIZE: "offset_increment rate",
    rf"{_SIZE}(?:,{_SIZE}){{0,2}}": "bs blocksize",
    rf"{_SIZE}-{_SIZE}": "bsrange",
    "|".join(sorted(ENGINES)): "ioengine",
    rf"(?:{_READS}|(?:rand)?write|(?:rand)?rw|readwrite)(?::{_COUNT})?": "rw readwrite",
    r"random|(?:zipf|pareto|normal):[0-9.]{1,12}": "random_distribution",
    "tausworthe|tausworthe64|lfsr": "random_generator",
    "crc32c|crc32c-intel|crc32|crc64|crc16|crc7|md5|sha1|sha256|sha512|xxhash": "verify",
    "0": "verify_state_save",
    "clock_gettime|gettimeofday|cpu": "clocksource",
    r"[0-9.]{1,8}(?::[0-9.]{1,8}){0,19}": "percentile_list",
    re.escape(FILE_FORMAT): "filename_format",
    rf"{re.escape(TRACE_PATH)}\.[0-9]{{1,3}}": "read_iolog",
}
_DD = {
    "if": "/dev/zero|/dev/urandom",
    "of": "/dev/null",
    "bs": r"[0-9]{1,12}[KMG]?",
    "count": _COUNT,
    "conv": r"(?:notrunc|fdatasync|fsync)(?:,(?:notrunc|fdatasync|fsync)){0,2}",
    "iflag": r"(?:direct|dsync|sync|fullblock)(?:,(?:direct|dsync|sync|fullblock)){0,3}",
    "oflag": r"(?:direct|dsync|sync)(?:,(?:direct|dsync|sync)){0,2}",
}


@cache
def _options() -> dict[str, re.Pattern[str]]:
    return {name: re.compile(pattern) for pattern, names in _PATTERNS.items() for name in names.split()}


def plays(name: str, value: str) -> bool:
    """Whether a workload may use this fio option with this value."""
    return _options().get(name, _NEVER).fullmatch(value) is not None


def require_permitted(problems: Iterable[str], what: str) -> None:
    """Raise SpecError with the first problem, if there is one."""
    for problem in problems:
        raise SpecError(
            f"{what} would not be run: {RULE}: {problem}",
            hint=f"leave it out; 'raidlab lint --explain {RULE}' says why",
        )


def job_problems(text: str, paths: Mapping[str, Container[str]] | None, *, writes: bool = True) -> Iterator[str]:
    """Yield what is not permitted in a fio job file.

    ``paths`` holds the permitted values of each option that gives a file. Such an option without an entry is forbidden.
    None permits any file, for a job that is checked but not run. ``writes`` says whether the target may be changed.
    """
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        yield f"{len(lines):,} lines, but at most {MOST_LINES} are permitted"
        return
    shared: dict[str, str] = {}
    jobs: list[tuple[str, dict[str, str]]] = []
    options: dict[str, str] | None = None
    for line in lines:
        if len(line) > _LONGEST_LINE or not line.replace("\t", " ").isprintable():
            yield f"a line with control characters, or longer than {_LONGEST_LINE}: '{shortened(line)}'"
            return
        line = line.strip(" \t")
        if not line or line[0] in ";#":
            continue
        if line[0] == "[":
            name = line.removeprefix("[").removesuffix("]")
            # fio treats every section whose name begins with "global" as a global section (init.c).
            if line[-1] != "]" or not is_name(name) or (name.startswith("global") and name != "global"):
                yield f"a section '{shortened(line)}'"
                return
            options = shared if name == "global" else dict(shared)
            if name != "global":
                jobs.append((name, options))
            continue
        key, sign, value = (part.strip(" \t") for part in line.partition("="))
        if key in _PATHS:
            allowed = _ANY_PATH.fullmatch(value) if paths is None else value in paths.get(key, ())
        else:
            # An option without a value is enabled.
            allowed = plays(key, value if sign else "1")
        if not allowed or options is None:
            yield f"'{shortened(line, 80)}' in a fio job"
            return
        options[key] = value
    for name, options in jobs:
        yield from (f"[{name}] {problem}" for problem in _job_problems(options, paths, writes=writes))


def _job_problems(
    options: Mapping[str, str], paths: Mapping[str, Container[str]] | None, *, writes: bool
) -> Iterator[str]:
    if paths is not None and not any(name in options for name in _PATHS):
        yield "names no file, so fio would create one in the folder where it runs: write filename={filename}"
    if paths is not None and "verify" in options and options.get("verify_state_save") != "0":
        yield "leaves a state file where fio runs: write verify_state_save=0"
    directions = [options[name] for name in ("rw", "readwrite") if name in options]
    if not writes and "verify_only" not in options and not all(_READ.fullmatch(each) for each in directions):
        yield "writes, but the workload declares reads"
    try:
        jobs = checked(int(options.get("numjobs", "1")), JobCount, "numjobs")
        depth = checked(int(options.get("iodepth", "1")), QueueDepth, "iodepth")
        words = options.get("bs") or options.get("blocksize") or options.get("bsrange") or "4k"
        block = max(checked(parse_bytes(word), BlockBytes, "bs") for word in re.split("[,-]", words))
        for name in ("runtime", "ramp_time", "startdelay", "thinktime"):
            if _seconds(options.get(name, "0")) > _MOST_RUN_SECONDS:
                yield f"{name}={options[name]} is longer than three weeks"
    except SpecError as error:
        yield f"{error.message}: {error.hint}"
        return
    yield from _buffer_problems(jobs, depth, block)


def _buffer_problems(jobs: int, depth: int, block_bytes: int) -> Iterator[str]:
    if jobs * depth * block_bytes > MOST_BUFFER_BYTES:
        yield (
            f"{jobs} jobs with {depth} requests of {human_bytes(block_bytes)} each would take more than "
            f"{human_bytes(MOST_BUFFER_BYTES)} of memory"
        )


def _seconds(text: str) -> float:
    number, unit = re.fullmatch(r"([0-9]*)([a-z]*)", text).groups()  # type: ignore[union-attr]
    # The default unit of thinktime is microseconds. The result is then too large, which is safe.
    return int(number) * {"us": 1e-6, "ms": 1e-3, "m": 60.0, "h": 3600.0}.get(unit, 1.0)


def dd_problems(operands: Iterable[str], target: str, block_bytes: int | None, *, writes: bool) -> Iterator[str]:
    """Yield what is not permitted in the operands of dd. ``bs`` must be ``block_bytes``, unless that is None."""
    given: dict[str, str] = {}
    for operand in operands:
        key, _, value = operand.partition("=")
        is_target = key in ("if", "of") and value == target
        if key in given or not (is_target or re.fullmatch(_DD.get(key, "(?!)"), value)):
            yield f"dd with '{shortened(operand)}'"
            return
        given[key] = value
    missing = [key for key in ("if", "of", "bs", "count") if key not in given]
    if missing:
        yield f"dd without {', '.join(missing)}"
        return
    if given["of" if writes else "if"] != target or given["if" if writes else "of"] == target:
        yield f"dd that does not {'write' if writes else 'read'} only its target: if={given['if']} of={given['of']}"
    if block_bytes is not None and parse_bytes(given["bs"]) != block_bytes:
        yield f"dd with bs={given['bs']}, but block_bytes is {block_bytes}"


COUNT = re.compile(r"\{count:([0-9]{1,18})\}")
"""In a dd recipe, a placeholder for this number of blocks, or for as many as fit."""


class Direction(StrEnum):
    """Direction of the data transfer."""

    READ = "read"
    WRITE = "write"
    MIX = "mix"
    """Reads and writes at the same time."""
    VERIFY = "verify"
    """Written with checksums, then read back and checked."""


class AccessPattern(StrEnum):
    """Order of the offsets in the file."""

    RANDOM = "random"
    SEQUENTIAL = "sequential"


class Verify(StrEnum):
    """Verification of the data."""

    NONE = "none"
    REREAD = "reread"
    """Write every block once, then read every block."""
    UNDER_LOAD = "under-load"
    """Write data and verify them shortly afterwards, for the whole runtime. This detects corruption during faults."""


class LoadProgram(StrEnum):
    """The program that does the I/O."""

    FIO = "fio"
    DD = "dd"
    """dd, used only for published recipes because it reports only bytes and seconds."""


class Workload(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A catalogue entry. Raises ValueError (which lab.tomlfile turns into SpecError) if values are inconsistent."""

    id: str
    """Name of the workload on the command line and in results, and of its fio job."""
    title: str
    shows: str
    """What students learn from the workload, in one sentence."""
    direction: Direction
    pattern: AccessPattern
    block_bytes: BlockBytes
    read_percent: ReadPercent | None = None
    """Percentage of reads, for a mix only."""
    queue_depth: QueueDepth = 1
    """I/Os in flight per job."""
    jobs: JobCount = 1
    """Parallel jobs, each on its own file or region."""
    engine: str = "libaio"
    direct: bool = True
    """Whether to use O_DIRECT, which bypasses the page cache."""
    runtime_seconds: Seconds = 30.0
    """Measured time. A verify workload that re-reads ignores it, and ends when its whole file has been read."""
    warmup_seconds: SecondsOrZero = 10.0
    """Time for which the load runs before the measured interval. The figures exclude it."""
    distribution: str = "random"
    """fio's random_distribution, such as ``zipf:1.1``."""
    random_data: bool = True
    """Whether every buffer gets new random data. Repeated or zero data would not exercise the parity computation."""
    seed: Seed = 20_260
    """Seed of the offsets, equal on every array."""
    vary_seed: bool = True
    """Whether to add the number of the repeat to the seed, so that offsets differ between repeats, not arrays."""
    verify: Verify = Verify.NONE
    file_bytes: SizeBytes | None = None
    """Bytes per job, or None if the experiment or the free space determines them."""
    recipe: str = ""
    """A published fio job or dd command, which is run unmodified. Its placeholders are {filename}, {size} and {runtime}
    for fio, and {filename} and {count:N} for dd, which is the published count of blocks or as many as fit."""
    program: LoadProgram = LoadProgram.FIO
    trace: str = ""
    """The name of a synthetic trace (lab.workloads.jobs), replayed with its timing. ``runtime_seconds`` is its length.

    Its requests are distributed to ``jobs`` synchronous jobs, so at most ``jobs`` requests are in flight."""
    source: str = ""

    def __post_init__(self) -> None:
        for complaint in _complaints(self):
            raise ValueError(f"workload '{self.id}': {complaint}")

    @property
    def reads(self) -> bool:
        return self.direction is not Direction.WRITE

    @property
    def writes(self) -> bool:
        return self.direction is not Direction.READ

    @property
    def request_bytes(self) -> int | None:
        """The size of every request, or None if sizes may differ."""
        return None if self.recipe or self.trace else self.block_bytes

    @property
    def region_count(self) -> int:
        """The number of files, or of regions of a device. Each job has its own; a recipe or a trace has only one."""
        return 1 if self.recipe or self.trace else self.jobs

    @property
    def depth_total(self) -> int:
        return self.queue_depth * self.jobs


def changed(workload: Workload, **changes: object) -> Workload:
    """Return the workload with changed values, validated like one that is read from a file. Raises SpecError."""
    try:
        return convert({**msgspec.structs.asdict(workload), **changes}, Workload)
    except msgspec.ValidationError as error:
        raise SpecError(
            f"workload '{workload.id}' cannot be changed in this way: {error}", hint="choose valid values"
        ) from None


def _recipe_problems(workload: Workload) -> Iterator[str]:
    """Yield what is not permitted in a recipe. ``{filename}`` is the placeholder for its target."""
    if workload.program is LoadProgram.DD:
        program, *operands = COUNT.sub(r"\1", workload.recipe).split() or [""]
        if program != "dd":
            yield f"program '{shortened(program)}', but only dd can be run"
        elif workload.direction not in (Direction.READ, Direction.WRITE):
            yield "a dd that is neither a read nor a write"
        else:
            yield from dd_problems(operands, "{filename}", workload.block_bytes, writes=workload.writes)
    elif workload.recipe:
        text = workload.recipe.replace("{size}", "1m").replace("{runtime}", "1s")
        yield from job_problems(text, {"filename": ("{filename}",)}, writes=workload.writes)


def _complaints(workload: Workload) -> Iterator[str]:
    is_mix, is_synchronous = workload.direction is Direction.MIX, workload.engine in SYNCHRONOUS_ENGINES
    if not is_name(workload.id) or workload.id.startswith("global"):
        yield "id must consist of letters, digits, '-', '_' and '.', and must not begin with '-', '.' or 'global'"
    if workload.engine not in ENGINES:
        engines = ", ".join(sorted(ENGINES))
        yield f"{RULE}: engine '{shortened(workload.engine)}' is not one of {engines}"
    if not plays("random_distribution", workload.distribution):
        yield f"{RULE}: '{shortened(workload.distribution)}' is not a distribution such as random or zipf:1.1"
    yield from (f"{RULE}: {problem}" for problem in _recipe_problems(workload))
    yield from _buffer_problems(workload.jobs, workload.queue_depth, workload.block_bytes)
    if workload.queue_depth > 1 and is_synchronous:
        yield f"depth-without-async: engine '{workload.engine}' ignores a queue_depth above 1"
    if is_mix != (workload.read_percent is not None):
        yield "read_percent is required for a mix, and forbidden otherwise"
    if (workload.direction is Direction.VERIFY) != (workload.verify is not Verify.NONE):
        yield "direction 'verify' and a verify mode require each other"
    if workload.trace and not (is_mix and is_synchronous):
        yield "a trace must be a mix, and must be replayed by a synchronous engine"
    if workload.runtime_seconds < workload.warmup_seconds:
        yield "runtime-short: runtime_seconds is less than warmup_seconds"
    if workload.file_bytes is not None and workload.file_bytes < workload.block_bytes:
        yield "file_bytes is less than one block"


BUILT_IN_FOLDER = Path(__file__).with_name("catalogue")


@cache
def all_workloads() -> dict[str, Workload]:
    """Return the built-in workloads by id, sorted. Each file is named after its workload's id."""
    files = {path.stem: path for path in BUILT_IN_FOLDER.glob("*.toml")}
    return {name: read_toml(files[name], Workload) for name in sorted(files)}


def find_workload(name: str) -> Workload:
    """Find a workload by id, or by the path of a ``.toml`` file. Raises SpecError, which suggests the nearest name."""
    if name.endswith(".toml"):
        return read_toml(Path(name), Workload)
    workloads = all_workloads()
    if name not in workloads:
        raise unknown_word("workload", name, workloads)
    return workloads[name]
