"""Export fio's JSON documents for fio-plot, in the folder structure of bench-fio.

::

    <folder>/<result>/<array>[-<phase>]/<block size>/<rw>-<queue depth>-<jobs>.json

fio-plot (https://github.com/louwrentius/fio-plot) reads all ``.json`` files in a folder, and takes the options ``rw``,
``iodepth``, ``numjobs`` and ``bs`` from each. It draws documents with the same options at the same position, so only
the repeat with the median IOPS is exported.
"""

from __future__ import annotations

import json
import math
import re
import shlex
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lab.cli.context import current, out, out_json
from lab.errors import LabError, ResultError
from lab.gates.decoding import decode_json, digits
from lab.host.files import make_folder, write_file
from lab.report.collected import Loaded, each_result
from lab.results.record import HEALTHY
from lab.results.rows import Row, rows
from lab.results.store import ResultStore
from lab.units import KIB
from lab.workloads.fio_output import FioDirection, FioDocument, FioJob, FioLatency, JobFigures

_NEEDED = ("rw", "bs", "iodepth", "numjobs")
_LONGEST_OPTION = 40
_MIXED = ("randrw", "rw", "readwrite")
"""Values of fio's option ``rw`` for which fio-plot needs ``-f`` to select the reads or the writes."""


class _Latency(FioLatency, frozen=True):
    stddev: float = 0.0


class _Direction(FioDirection, frozen=True):
    iops_samples: int = 0
    iops_mean: float = 0.0
    iops_stddev: float = 0.0
    lat_ns: _Latency = _Latency()
    clat_ns: _Latency = _Latency()

    @property
    def iops_statistics(self) -> _Latency:
        """The statistics of the IOPS samples, in the form of latencies."""
        return _Latency(N=self.iops_samples, mean=self.iops_mean, stddev=self.iops_stddev)


class _Job(FioJob, frozen=True):
    read: _Direction = _Direction()
    write: _Direction = _Direction()
    latency_ns: dict[str, float] = msgspec.field(default_factory=dict)
    latency_us: dict[str, float] = msgspec.field(default_factory=dict)
    latency_ms: dict[str, float] = msgspec.field(default_factory=dict)


class _Document(FioDocument, frozen=True):
    """A document of fio, with all that fio-plot reads of it."""

    jobs: tuple[_Job]
    options: dict[str, str] = msgspec.field(name="global options", default_factory=dict)


@dataclass(frozen=True, slots=True)
class Drawn:
    """The files that were written for one result."""

    files: tuple[Path, ...]
    left_out: tuple[str, ...]
    """The workloads that were left out, each with the reason."""


def export_for_fio_plot(each: Loaded, folder: Path) -> Drawn:
    """Write the documents of one result below ``folder``. Raises ResultError if they cannot be written."""
    files: dict[Path, str] = {}
    left_out: list[str] = []
    for row in rows(each.record):
        try:
            options, text = _document(each, row)
        except LabError as error:
            left_out.append(f"{row.array}/{row.workload}: {error.message}")
            continue
        path = folder / each.record.id / _place(row, options)
        if files.get(path, row.workload) != row.workload:
            # Two workloads may differ only in options that fio-plot ignores.
            path = path.parent.with_name(f"{path.parent.name}-{_word(row.workload)}") / path.name
        if path in files:
            # The reads and the writes of a mixed job share one document.
            continue
        make_folder(path.parent)
        write_file(path, text.encode())
        files[path] = row.workload
    return Drawn(tuple(files), tuple(dict.fromkeys(left_out)))


def _place(row: Row, options: Mapping[str, str]) -> Path:
    array = row.array if row.phase == HEALTHY else f"{row.array}-{row.phase}"
    name = f"{options['rw']}-{options['iodepth']}-{options['numjobs']}.json"
    return Path(_word(array)) / _word(_block_words(options["bs"])) / _word(name)


def _word(text: str) -> str:
    """Turn a text into a safe file name, because records from other computers may contain anything."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).lstrip(".") or "-"


def _block_words(text: str) -> str:
    """Return a block size in bench-fio's notation, such as ``4k`` for ``4096``. The largest unit is ``m``."""
    count = digits(text) or 0
    for unit, factor in (("m", 1 << 20), ("k", 1 << 10)):
        if count and count % factor == 0:
            return f"{count // factor}{unit}"
    return text


def _document(each: Loaded, row: Row) -> tuple[dict[str, str], str]:
    """Return the options and the document of the repeat with the median IOPS.

    Raises ResultError if fio-plot cannot read the document.
    """
    values = [row.section(cell).iops for cell in row.cells]
    cell = row.cells[values.index(statistics.median_low(values))]
    if not cell.raw_file:
        raise ResultError("fio's document was not stored, or fio was not used", hint="show the result as a report")
    text = each.read_file(cell.raw_file)
    try:
        if cell.figures.window_begin_seconds is not None:
            begin, end = decode_json(text, tuple[_Document, _Document])
            text = json.dumps(_of_interval(begin, end, cell.figures), allow_nan=False)
        else:
            end = decode_json(text, _Document)
    except (msgspec.MsgspecError, ValueError, RecursionError, ArithmeticError):
        raise ResultError("the written data were read back by another fio, or the document is damaged") from None
    options = {**end.options, **end.jobs[0].options}
    if missing := [name for name in _NEEDED if name not in options]:
        raise ResultError(f"the document of {end.version or 'fio'} lacks {', '.join(missing)}")
    if long := [name for name in _NEEDED if len(options[name]) > _LONGEST_OPTION]:
        raise ResultError(f"the document has a value of {', '.join(long)} that is too long")
    if any(digits(options[name]) is None for name in ("iodepth", "numjobs")):
        raise ResultError("its iodepth or numjobs is not a number")
    return options, text


def _of_interval(begin: _Document, end: _Document, figures: JobFigures) -> dict[str, Any]:
    """Return a document with what fio-plot reads, of the I/Os between two of fio's cumulative documents.

    IOPS, bandwidth and mean latency are those of the record. CPU times are of the whole run, as in the record. Raises
    ValueError or ArithmeticError if a number is not plausible.
    """
    (before,), (after,) = begin.jobs, end.jobs
    jobs = max(digits({**end.options, **after.options}.get("numjobs", "")) or 1, 1)
    job = {"jobname": after.jobname, "job options": after.options, "usr_cpu": after.usr_cpu, "sys_cpu": after.sys_cpu}
    for way, section in figures.sections.items():
        earlier, later = ((one.read if way == "read" else one.write) for one in (before, after))
        has_total = section.latency_kind == "total"
        latencies = (earlier.lat_ns, later.lat_ns) if has_total else (earlier.clat_ns, later.clat_ns)
        job[way] = {
            "io_bytes": section.io_bytes,
            "total_ios": section.total_ios,
            "runtime": round(section.runtime_seconds * 1000),
            "bw_bytes": round(section.bandwidth_bytes_per_second),
            "bw": round(section.bandwidth_bytes_per_second / KIB),
            "iops": section.iops,
            "iops_stddev": _deviation(earlier.iops_statistics, later.iops_statistics, jobs),
            "lat_ns": {"mean": section.mean_seconds * 1e9, "stddev": _deviation(*latencies)},
        }
    counts = before.read.total_ios + before.write.total_ios, after.read.total_ios + after.write.total_ios
    for name in ("latency_ns", "latency_us", "latency_ms"):
        job[name] = _shares(getattr(before, name), getattr(after, name), *counts)
    return {"fio version": end.version, "global options": end.options, "jobs": [job]}


def _deviation(before: _Latency, after: _Latency, jobs: int = 1) -> float:
    """Return the standard deviation of the samples between two documents, or 0 if there are fewer than two samples.

    The documents have the count, mean and standard deviation of all samples so far, from which the sums of squares
    follow (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances"). For
    several ``jobs`` in one report, fio adds their means of the IOPS, unlike those of latencies (sum_stat() in stat.c).
    """
    new = after.N - before.N
    if new < 2:
        return 0.0
    new_mean = (after.mean * after.N - before.mean * before.N) / new
    squares = [each.stddev**2 * max(each.N - 1, 0) for each in (before, after)]
    between = ((new_mean - before.mean) / jobs) ** 2 * before.N * new / after.N
    return math.sqrt(max(squares[1] - squares[0] - between, 0.0) / (new - 1))


def _shares(before: dict[str, float], after: dict[str, float], earlier: int, later: int) -> dict[str, float]:
    """Return the share of each range of latencies, in percent of the I/Os between two documents.

    ``earlier`` and ``later`` are the numbers of I/Os until each document.
    """
    return {
        limit: max(0.0, (share * later - before.get(limit, 0.0) * earlier) / (later - earlier))
        for limit, share in after.items()
    }


def commands(drawn: Sequence[Drawn]) -> Iterator[str]:
    """Yield a fio-plot command for each kind of I/O. It draws all arrays on which this kind was measured."""
    found: dict[tuple[str, str, str], dict[str, set[str]]] = {}
    for each in drawn:
        for path in each.files:
            way, depth, jobs = path.stem.rsplit("-", 2)
            place = found.setdefault((way, jobs, path.parent.name), {})
            place.setdefault(str(path.parent), set()).add(depth)
    for (way, jobs, block), folders in found.items():
        common = sorted(set.intersection(*folders.values()), key=int)
        several = len(folders) > 1
        depths = common[:1] if several else common
        shown = ("-r", way, "-C" if several else "-l", "-d", *depths, "-n", jobs)
        for direction in ("read", "write") if way in _MIXED else ("",):
            title, chosen = (f"{way} {block}, {direction}s", ("-f", direction)) if direction else (f"{way} {block}", ())
            if common:
                yield shlex.join(("fio-plot", "-i", *folders, "-T", title, *shown, *chosen))


def export(names: Sequence[str], folder: Path) -> None:
    """Carry out ``raidlab export --fio-plot``. Raises ResultError if there is nothing to draw."""
    context = current()
    found = list(each_result(names or ("latest",), ResultStore(context.host.state.results)))
    problems = [each for each in found if isinstance(each, str)]
    drawn = [export_for_fio_plot(each, folder) for each in found if isinstance(each, Loaded)]
    files = [str(path) for each in drawn for path in each.files]
    for problem in (*problems, *(f"left out: {reason}" for each in drawn for reason in each.left_out)):
        context.narrator.notice(problem)
    if not files:
        raise ResultError("there is no document that fio-plot can draw", hint="list the results with 'raidlab results'")
    lines = tuple(commands(drawn))
    if context.json:
        out_json({"files": files, "commands": lines, "problems": problems})
        return
    context.narrator.notice(f"{len(files)} documents in {folder}; these commands draw them:")
    out("\n".join(lines))
