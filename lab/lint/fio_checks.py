"""fio job files: read as facts, and what is wrong with them. Pure. Source: fio's HOWTO, "Job file format"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.errors import SpecError
from lab.gates.numbers import digits, parse_bytes
from lab.lint.rules import Check, LintFinding, Seen, run_checks
from lab.units import SECTOR_BYTES
from lab.workloads.permitted import MOST_LINES, RULE, SYNCHRONOUS_ENGINES, job_problems

_READS = {"read", "randread"}
_WRITES = {"write", "randwrite", "trim", "randtrim"}


@dataclass(frozen=True, slots=True)
class FioSection:
    """One job with [global] applied; an option without value is ``1``."""

    name: str
    options: Mapping[str, str]
    after_wall: bool
    """Begins only when the sections before it are over."""

    def value(self, *names: str, default: str = "") -> str:
        return next((self.options[name] for name in names if name in self.options), default)

    @property
    def direction(self) -> str:
        """``read``, ``write`` or ``mix``."""
        word = self.value("rw", "readwrite", default="read").partition(":")[0]
        return "read" if word in _READS else "write" if word in _WRITES else "mix"


def parse_fio(text: str) -> tuple[FioSection, ...]:
    """The jobs of a file, in order."""
    shared: dict[str, str] = {}
    found: list[tuple[str, dict[str, str]]] = []
    target = shared
    for line in text.splitlines():
        line = line.strip()
        if not line or line[0] in ";#":
            continue
        if line.startswith("[") and line.endswith("]"):
            name = line[1:-1].strip()
            if name == "global":
                target = shared
            else:
                target = dict(shared)
                found.append((name, target))
            continue
        key, _, value = line.partition("=")
        target[key.strip()] = value.strip() or "1"
    walls = ("stonewall", "wait_for_previous", "wait_for")
    return tuple(FioSection(name, options, any(wall in options for wall in walls)) for name, options in found)


def lint_job_file(text: str) -> Iterator[LintFinding]:
    """A fio job file, whoever wrote it."""
    yield from run_checks(FILE_CHECKS, text)
    # Each section is compared with all before it.
    if text.count("\n") < MOST_LINES:
        yield from lint_fio(text)


def lint_fio(text: str) -> Iterator[LintFinding]:
    """A fio job that passed where it came in."""
    yield from run_checks(FIO_CHECKS, parse_fio(text))


_Sections = tuple[FioSection, ...]


def _foreign_command(text: str) -> Iterator[Seen]:
    for problem in job_problems(text, None):
        yield Seen("fio job", problem, "options that act on its own target alone")


def _mixed_directions(sections: _Sections) -> Iterator[Seen]:
    together: list[FioSection] = []
    for section in sections:
        together = [section] if section.after_wall else [*together, section]
        directions = {each.direction for each in together}
        if len(directions) > 1 and together[-1].direction not in {each.direction for each in together[:-1]}:
            names = " and ".join(f"[{each.name}]" for each in together)
            yield Seen("fio job", f"{names} run at the same time", "'stonewall' between them")


def _depth_without_async(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        depth = section.value("iodepth", default="1")
        engine = section.value("ioengine", default="psync")
        if (digits(depth) or 0) > 1 and engine in SYNCHRONOUS_ENGINES:
            yield Seen(f"[{section.name}]", f"iodepth={depth} with ioengine={engine}", "libaio or io_uring")


def _runtime_short(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        if "time_based" not in section.options or "runtime" not in section.options:
            yield Seen(f"[{section.name}]", "ends when its file is covered", "time_based and runtime")


def _fio_zero_data(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        if section.direction != "read" and section.value("zero_buffers") == "1":
            yield Seen(f"[{section.name}]", "zero_buffers", "refill_buffers")


def _fio_buffered(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        past_cache = section.value("direct") == "1" or section.value("buffered") == "0"
        flushed = any(name in section.options for name in ("fsync", "fdatasync", "end_fsync", "sync"))
        if section.direction != "read" and not past_cache and not flushed:
            yield Seen(f"[{section.name}]", "writes through the page cache", "direct=1")


def _jobs_unsummed(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        jobs = section.value("numjobs", default="1")
        if jobs != "1" and "group_reporting" not in section.options:
            yield Seen(f"[{section.name}]", f"{jobs} jobs, each reported apart", "group_reporting")


def _misaligned(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        try:
            block = parse_bytes(section.value("bs", "blocksize", default="4k").partition(",")[0], what="bs")
        except SpecError:
            continue
        if block % SECTOR_BYTES:
            yield Seen(f"[{section.name}]", f"blocks of {block} bytes", f"a multiple of {SECTOR_BYTES}")


FIO_CHECKS: Mapping[str, Check[_Sections]] = {
    "mixed-directions": _mixed_directions,
    "depth-without-async": _depth_without_async,
    "runtime-short": _runtime_short,
    "zero-data": _fio_zero_data,
    "buffered-writer": _fio_buffered,
    "jobs-unsummed": _jobs_unsummed,
    "misaligned": _misaligned,
}
FILE_CHECKS: Mapping[str, Check[str]] = {RULE: _foreign_command}
