"""Permitted commands of a workload: fio and dd, with options that only read and write their target.

The guarantee: whatever the origin of a workload, its processes run no other command, load no code, and open no file
but their target. So options are checked against a list of allowed ones, each with a pattern for its value: fio has
about a hundred options that name a file or a command, and expands variables, arithmetic and quotes in all of them
(fio(1), "Job file parameters"; parse.c and init.c).

A workload is checked when it is read, and every process again immediately before its start (lab.workloads.fio_job).
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache

from lab.errors import SpecError
from lab.gates.decoding import MOST_SECONDS, BlockBytes, JobCount, QueueDepth, checked, parse_bytes
from lab.gates.text import is_name, shortened
from lab.units import GIB, human_bytes

RULE = "foreign-command"
SYNCHRONOUS_ENGINES = frozenset({"sync", "psync", "vsync", "pvsync", "pvsync2", "mmap"})
"""Synchronous fio engines, which ignore a queue depth above 1 (fio HOWTO, "I/O engine")."""
ENGINES = frozenset({*SYNCHRONOUS_ENGINES, "libaio", "io_uring", "posixaio"})
"""Engines with I/O on the target only. fio treats any other word as a library to load."""
TRACE_PATH = "/run/raidlab-trace.log"
FILE_FORMAT = "raidlab.$jobnum"
MOST_BUFFER_BYTES = 2 * GIB
"""Limit of the buffers of all requests in flight, which fio allocates."""
_MOST_RUN_SECONDS = 3 * MOST_SECONDS
"""Includes the ramp time and a margin."""
_LONGEST_LINE = 512
"""fio reads 4,096 bytes at a time: the rest of a longer line, even of a comment, would be a separate line."""
MOST_LINES = 500
_PATHS = ("filename", "directory", "replay_redirect")
_ANY_PATH = re.compile(r"[A-Za-z0-9/_.:@%+,=\\-]+")
_NEVER = re.compile(r"(?!)")
_COUNT = r"[0-9]{1,19}"
_SIZE = r"[0-9]{1,19}(?:[kmgtKMGT](?:i?[bB])?)?"
_TIME = r"[0-9]{1,19}(?:us|ms|s|m|h)?"
_READS = r"(?:rand)?read"
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
    return _fits(name, value, has_value=True)


def is_distribution(text: str) -> bool:
    """Whether it is a permitted value of fio's random_distribution."""
    return _options()["random_distribution"].fullmatch(text) is not None


def require_permitted(problems: Iterable[str], what: str) -> None:
    """Raises SpecError with the first problem."""
    for problem in problems:
        raise SpecError(
            f"{what} would not be run: {RULE}: {problem}",
            hint=f"leave it out; 'raidlab lint --explain {RULE}' says why",
        )


def job_problems(text: str, paths: Mapping[str, Container[str]] | None, *, writes: bool = True) -> Iterator[str]:
    """Violations in a fio job file.

    ``paths``: permitted values of the options that name a file; options not in it are forbidden. None: any file, for a
    job that is checked but not run.
    ``writes``: whether the target may be changed.
    """
    lines = text.split("\n")
    if len(lines) > MOST_LINES:
        yield f"{len(lines):,} lines, and {MOST_LINES} are permitted"
        return
    shared: dict[str, str] = {}
    jobs: list[tuple[str, dict[str, str]]] = []
    options: dict[str, str] | None = None
    for line in lines:
        if len(line) > _LONGEST_LINE or not line.replace("\t", " ").isprintable():
            yield f"a line with control characters, or of more than {_LONGEST_LINE}: '{shortened(line)}'"
            return
        line = line.strip(" \t")
        if not line or line[0] in ";#":
            continue
        if line[0] == "[":
            name = line.removeprefix("[").removesuffix("]")
            # fio treats every section whose name begins with "global" as the global one (init.c).
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
            allowed = _fits(key, value, has_value=bool(sign))
        if not allowed or options is None:
            yield f"'{shortened(line, 80)}' in a job of fio"
            return
        options[key] = value
    for name, options in jobs:
        yield from (f"[{name}] {problem}" for problem in _job_problems(options, paths, writes=writes))


def _fits(key: str, value: str, *, has_value: bool) -> bool:
    pattern = _options().get(key, _NEVER)
    # An option without a value is enabled.
    return pattern.fullmatch(value if has_value else "1") is not None


def _job_problems(
    options: Mapping[str, str], paths: Mapping[str, Container[str]] | None, *, writes: bool
) -> Iterator[str]:
    if paths is not None and not any(name in options for name in _PATHS):
        yield "names no file, and fio would make one in the folder where it runs: write filename={filename}"
    if paths is not None and "verify" in options and options.get("verify_state_save") != "0":
        yield "leaves a file of its state where fio runs: write verify_state_save=0"
    directions = [options[name] for name in ("rw", "readwrite") if name in options]
    if not writes and "verify_only" not in options and not all(_is_read(each) for each in directions):
        yield "writes, and the workload says that it reads"
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
    yield from buffer_problems(jobs, depth, block)


def buffer_problems(jobs: int, depth: int, block_bytes: int) -> Iterator[str]:
    """Violation of the limit on the buffers of all requests in flight."""
    if jobs * depth * block_bytes > MOST_BUFFER_BYTES:
        yield (
            f"{jobs} jobs with {depth} requests of {human_bytes(block_bytes)} each would take more than "
            f"{human_bytes(MOST_BUFFER_BYTES)} of memory"
        )


def _is_read(words: str) -> bool:
    return re.fullmatch(rf"{_READS}(?::{_COUNT})?", words) is not None


def _seconds(text: str) -> float:
    number, unit = re.fullmatch(r"([0-9]*)([a-z]*)", text).groups()  # type: ignore[union-attr]
    # The default unit of thinktime is microseconds; this result is then too large, which is safe.
    return int(number) * {"us": 1e-6, "ms": 1e-3, "m": 60.0, "h": 3600.0}.get(unit, 1.0)


def dd_problems(operands: Iterable[str], target: str, block_bytes: int | None, *, writes: bool) -> Iterator[str]:
    """Violations in the operands of dd. ``block_bytes``: required value of ``bs``; None: any size."""
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
        yield f"dd that does not {'write' if writes else 'read'} its target alone: if={given['if']} of={given['of']}"
    if block_bytes is not None and parse_bytes(given["bs"]) != block_bytes:
        yield f"dd with bs={given['bs']}, and block_bytes is {block_bytes}"
