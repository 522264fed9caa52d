"""Defects of fio jobs, and the parts that are not checked. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.errors import SpecError
from lab.gates.text import shortened
from lab.lint.fio_jobs import FioJob, FioSection, parse_fio, read_job
from lab.lint.fio_options import FioGroup, group_of, is_variable, seconds_of, why_not_understood
from lab.lint.rules import NOT_ANALYSED, NOT_PLAYED, Check, LintFinding, Seen, run_checks
from lab.units import SECTOR_BYTES
from lab.workloads.workload import ENGINES, RULE, SYNCHRONOUS_ENGINES

_JOB_FORM = (
    "a job has its name in brackets, such as [random-reads], and fio's options below it, one a line; check that it is "
    "this file"
)
_OWN_TARGET = "options that act on the job's own target alone"


def lint_job_file(text: str) -> Iterator[LintFinding]:
    """Check a fio job file from any source. Raises SpecError if it contains no job."""
    job = read_job(text)
    if not job.has_jobs:
        raise SpecError("there is no fio job in it, no [section] other than [global]", hint=_JOB_FORM)
    yield from lint_job(job)


def lint_job(job: FioJob) -> Iterator[LintFinding]:
    """Check a job file or a command line from any source: all defects, and the parts that are not checked."""
    yield from run_checks(JOB_CHECKS, job)
    yield from run_checks(FIO_CHECKS, job.sections)


def lint_fio(text: str) -> Iterator[LintFinding]:
    """Check a fio job that was already validated on input."""
    yield from run_checks(FIO_CHECKS, parse_fio(text))


_Sections = tuple[FioSection, ...]


def _foreign_command(job: FioJob) -> Iterator[Seen]:
    for where, why in job.reaches:
        yield Seen(where, why, _OWN_TARGET)
    for setting in job.settings:
        group, why = group_of(setting.name, setting.value)
        if group is FioGroup.REACHES:
            yield Seen(setting.where, f"'{shortened(setting.written, 60)}' {why}", _OWN_TARGET)


def _not_played(job: FioJob) -> Iterator[Seen]:
    for setting in job.settings:
        group, why = group_of(setting.name, setting.value)
        if group is FioGroup.CHANGES:
            yield Seen(setting.where, f"'{shortened(setting.written, 60)}' {why}", "fio itself: raidlab cannot play it")


def _not_analysed(job: FioJob) -> Iterator[Seen]:
    for where, why in job.skipped:
        yield Seen(where, why, "nothing: the lint does not judge it")
    for setting in job.settings:
        group, why = group_of(setting.name, setting.value)
        if group is FioGroup.PLAYED:
            why = why_not_understood(setting.name, setting.value)
        elif group is not FioGroup.UNKNOWN:
            continue
        if why:
            yield Seen(
                setting.where,
                f"'{shortened(setting.written, 60)}' is not analysed: it {why}",
                "nothing: the lint does not judge it",
            )


def _mixed_directions(sections: _Sections) -> Iterator[Seen]:
    together: list[FioSection] = []
    for section in sections:
        together = [section] if section.after_wall else [*together, section]
        directions = {each.direction for each in together if each.moves_data} - {""}
        if (
            len(directions) > 1
            and section.direction in directions
            and section.direction not in {each.direction for each in together[:-1]}
        ):
            names = " and ".join(f"[{each.name}]" for each in together)
            yield Seen(f"{section.where}fio job", f"{names} run at the same time", "'stonewall' between them")


def _depth_without_async(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        depth = section.value("iodepth", "1")
        if (section.number("iodepth", 1) or 0) > 1 and section.engine in SYNCHRONOUS_ENGINES:
            yield Seen(section.subject, f"iodepth={depth} with ioengine={section.engine}", "libaio or io_uring")


def _runtime_short(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        is_timed = section.is_on("time_based") is not False and "runtime" in section.options
        # These end by themselves: when all is verified or read, a trace ends, or after a number of durable writes.
        ends_by_itself = (
            section.verifies
            or section.scans_a_surface
            or "read_iolog" in section.options
            or (section.direction == "write" and section.flushes_each_write)
        )
        if section.moves_data and not is_timed and not ends_by_itself:
            yield Seen(section.subject, "ends when its file is covered", "time_based and runtime")
        elif section.moves_data and "runtime" in section.options:
            # ramp_time precedes runtime, and its I/Os are not counted.
            warmup, measured = (seconds_of(section.value(name, "0")) for name in ("ramp_time", "runtime"))
            if warmup and measured and measured < warmup:
                observed = f"{measured:g} s measured after {warmup:g} s of ramp_time"
                yield Seen(section.subject, observed, "a runtime at least as long as the warm-up")


def _fio_zero_data(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        if section.direction in ("write", "mix") and section.is_on("zero_buffers"):
            yield Seen(section.subject, "zero_buffers", "refill_buffers")


def _fio_buffered(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        has_cache = section.engine in ENGINES and not section.discards_only
        # None: the value depends on a variable.
        past_cache = section.is_on("direct") is not False or section.value("buffered") == "0" or section.is_on("atomic")
        flushes = ("fsync", "fdatasync", "end_fsync", "sync")
        flushed = any(section.value(name, "0") not in ("0", "none") for name in flushes)
        if section.direction in ("write", "mix") and has_cache and not past_cache and not flushed:
            yield Seen(section.subject, "writes through the page cache", "direct=1")


def _jobs_unsummed(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        jobs = section.value("numjobs", "1")
        if section.moves_data and jobs != "1" and not is_variable(jobs) and section.is_on("group_reporting") is False:
            yield Seen(section.subject, f"{jobs} jobs, each reported apart", "group_reporting")


def _misaligned(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        # A log has appended records of any size, and the page cache combines them into whole blocks.
        appends = section.flushes_each_write and section.is_on("direct") is False
        for block in section.block_sizes or ():
            if block % SECTOR_BYTES and section.moves_data and not appends:
                yield Seen(section.subject, f"blocks of {block} bytes", f"a multiple of {SECTOR_BYTES}")
                break


FIO_CHECKS: Mapping[str, Check[_Sections]] = {
    "mixed-directions": _mixed_directions,
    "depth-without-async": _depth_without_async,
    "runtime-short": _runtime_short,
    "zero-data": _fio_zero_data,
    "buffered-writer": _fio_buffered,
    "jobs-unsummed": _jobs_unsummed,
    "misaligned": _misaligned,
}
JOB_CHECKS: Mapping[str, Check[FioJob]] = {RULE: _foreign_command, NOT_PLAYED: _not_played, NOT_ANALYSED: _not_analysed}
