"""Parse fio's JSON to figures with units. For fio 3.28 to 3.39; unknown fields are ignored.

Facts checked with fio 3.33 (Debian 12, Linux 6.18, 2026-11-21):

- notes are printed on standard output before the JSON documents, or between them;
- after an I/O error fio still prints a document, with its ``error``; errors in the job file give none;
- SIGINT and SIGTERM give a complete last document and status 128;
- ``verify_only`` reports writes that never happened;
- reads by ``verify_backlog`` have a runtime close to 0: their rate is computed over the time of the writes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from lab.errors import WorkloadError
from lab.gates.decoding import decode_json
from lab.gates.numbers import Figure, SizeBytes

INTERRUPTED_STATUS = 128
"""fio's exit status after SIGINT or SIGTERM."""
_TAIL_CHARACTERS = 600
_NOT_TIMED_FRACTION = 0.05


class FioLatency(msgspec.Struct, frozen=True):
    """One latency section; all numbers are nanoseconds except ``N`` and the counts in ``bins``."""

    max: float = 0.0
    mean: float = 0.0
    N: int = 0
    percentile: dict[str, float] = {}
    bins: dict[str, int] = {}


class FioDirection(msgspec.Struct, frozen=True):
    """fio's ``read`` or ``write`` section; ``runtime`` is in milliseconds."""

    io_bytes: int = 0
    bw_bytes: float = 0.0
    iops: float = 0.0
    runtime: int = 0
    total_ios: int = 0
    lat_ns: FioLatency = FioLatency()
    clat_ns: FioLatency = FioLatency()


class FioJob(msgspec.Struct, frozen=True):
    """One entry of fio's ``jobs``."""

    jobname: str
    error: int = 0
    read: FioDirection = FioDirection()
    write: FioDirection = FioDirection()
    usr_cpu: float = 0.0
    sys_cpu: float = 0.0
    options: dict[str, str] = msgspec.field(name="job options", default_factory=dict)

    @property
    def real_write(self) -> FioDirection:
        """The actual writes: ``verify_only`` also counts writes that it only replays."""
        return FioDirection() if "verify_only" in self.options else self.write


class FioDocument(msgspec.Struct, frozen=True):
    """One JSON document of fio."""

    jobs: tuple[FioJob, ...]
    version: str = msgspec.field(name="fio version", default="")
    timestamp_ms: int = 0


class DirectionFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Figures of one direction. Latencies are those of ``latency_kind``; None if fio reported none."""

    iops: Figure
    bandwidth_bytes_per_second: Figure
    total_ios: SizeBytes
    io_bytes: SizeBytes
    runtime_seconds: Figure
    mean_seconds: Figure
    max_seconds: Figure | None = None
    p50_seconds: Figure | None = None
    p95_seconds: Figure | None = None
    p99_seconds: Figure | None = None
    p999_seconds: Figure | None = None
    """Meaningful from about 10 000 I/Os on."""
    latency_kind: str = "total"
    """``total``: from submission to completion; ``completion``: without the submission latency."""


class JobFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Figures of one fio process, separate for reads and writes. A direction without I/O is None."""

    job_name: str
    reads: DirectionFigures | None = None
    writes: DirectionFigures | None = None
    fio_user_cpu_percent: Figure | None = None
    """CPU time of the job's threads, without md's kernel threads."""
    fio_system_cpu_percent: Figure | None = None
    fio_version: str = ""
    interrupted: bool = False
    """Terminated by a signal before its end."""
    notes: tuple[str, ...] = ()
    """Other output of fio on standard output."""
    window_begin_seconds: Figure | None = None
    """Begin of the measured interval, since the start of the load (lab.workloads.window). None: the whole run counts,
    including its ramp time and the completions after its end."""
    raw_json: str = ""
    """fio's document, verbatim; for an interval a list of two, and the figures are the difference between them."""


@dataclass(slots=True)
class DocumentSplitter:
    """Splits fio's standard output, fed in pieces, into complete JSON documents.

    fio prints documents in sequence, each from a line ``{`` to a line ``}``, with notes between them.
    """

    _line: str = ""
    _document: list[str] | None = None
    _notes: list[str] | None = None
    torn_documents: int = 0
    """Number of documents without an end before the next one."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Lines outside documents so far."""
        return tuple(self._notes or ())

    @property
    def is_inside_document(self) -> bool:
        """Whether a document is incomplete so far."""
        return self._document is not None

    def feed(self, chunk: str) -> Iterator[str]:
        """The documents that ``chunk`` completes."""
        *lines, self._line = (self._line + chunk).split("\n")
        for line in lines:
            yield from self._take(line)

    def finish(self) -> Iterator[str]:
        """The document that ends with the text, without a final line feed."""
        line, self._line = self._line, ""
        yield from self._take(line)

    def _take(self, line: str) -> Iterator[str]:
        line = line.removesuffix("\r")
        if line == "{":
            self.torn_documents += self._document is not None
            self._document = [line]
        elif self._document is not None:
            self._document.append(line)
            if line == "}":
                yield "\n".join(self._document) + "\n"
                self._document = None
        elif line.strip():
            self._notes = [*(self._notes or []), line.strip()]


def decode_document(text: str) -> FioDocument:
    """Decode one document. Raises WorkloadError if it is not a document of fio."""
    try:
        return decode_json(text, FioDocument)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise WorkloadError(f"fio's JSON cannot be read: {error}\n{_tail(text)}", hint="run the job by hand") from None


def parse_figures(
    text: str, *, exit_status: int = 0, stderr_text: str = "", accept_interrupted: bool = False
) -> JobFigures:
    """The figures of one finished fio process, from the last document on its standard output.

    Raises WorkloadError for an exit status other than 0 (128 passes with ``accept_interrupted``), missing or incomplete
    JSON, an error reported by fio such as a failed verification, or more than one entry (group_reporting was off).
    """
    splitter = DocumentSplitter()
    documents = [*splitter.feed(text), *splitter.finish()]
    said = _tail(stderr_text) or _tail("\n".join(splitter.notes)) or _tail(text)
    if splitter.is_inside_document:
        raise WorkloadError(f"fio's output is cut off\n{_tail(text)}", hint="fio was killed, or a pipe broke")
    document = decode_document(documents[-1]) if documents else None
    job = _only_job(document) if document else None
    if job and job.error:
        raise WorkloadError(_job_error(job, said), hint="the array or its file system refused I/O, or data changed")
    interrupted = exit_status == INTERRUPTED_STATUS
    if exit_status and not (interrupted and accept_interrupted):
        raise WorkloadError(f"fio ended with status {exit_status}: {said}", hint="run the job by hand to see more")
    if document is None or job is None:
        raise WorkloadError(f"fio printed no JSON: {said or 'nothing at all'}", hint="run the job by hand to see more")
    return JobFigures(
        job_name=job.jobname,
        reads=_figures(job.read, untimed_beside=job.real_write),
        writes=_figures(job.real_write),
        fio_user_cpu_percent=job.usr_cpu,
        fio_system_cpu_percent=job.sys_cpu,
        fio_version=document.version,
        interrupted=interrupted,
        notes=splitter.notes,
        raw_json=documents[-1],
    )


def _only_job(document: FioDocument) -> FioJob:
    if len(document.jobs) != 1:
        names = ", ".join(job.jobname for job in document.jobs) or "none"
        raise WorkloadError(
            f"jobs-unsummed: fio reported {len(document.jobs)} entries ({names}) where one was expected",
            hint="put group_reporting in the job file",
        )
    return document.jobs[0]


def _job_error(job: FioJob, said: str) -> str:
    try:
        reason = os.strerror(job.error)
    except (OverflowError, ValueError):
        reason = "unknown"
    # fio reports EILSEQ if a checksum does not match.
    what = "data differ from what was written" if job.error == 84 else reason
    return f"fio's job '{job.jobname}' failed with error {job.error} ({what}): {said}"


def _figures(section: FioDirection, *, untimed_beside: FioDirection | None = None) -> DirectionFigures | None:
    seconds = section.runtime / 1000
    if section.total_ios <= 0 or seconds <= 0:
        return None
    iops, bandwidth = section.iops, section.bw_bytes
    if untimed_beside and section.runtime < _NOT_TIMED_FRACTION * untimed_beside.runtime:
        seconds = untimed_beside.runtime / 1000
        iops, bandwidth = section.total_ios / seconds, section.io_bytes / seconds
    has_total = bool(section.lat_ns.percentile) or not section.clat_ns.percentile
    latency = section.lat_ns if has_total else section.clat_ns
    return DirectionFigures(
        iops=iops,
        bandwidth_bytes_per_second=bandwidth,
        total_ios=section.total_ios,
        io_bytes=section.io_bytes,
        runtime_seconds=seconds,
        mean_seconds=latency.mean / 1e9,
        max_seconds=latency.max / 1e9,
        p50_seconds=_percentile(latency, "50.000000"),
        p95_seconds=_percentile(latency, "95.000000"),
        p99_seconds=_percentile(latency, "99.000000"),
        p999_seconds=_percentile(latency, "99.900000"),
        latency_kind="total" if has_total else "completion",
    )


def _percentile(latency: FioLatency, key: str) -> float | None:
    nanoseconds = latency.percentile.get(key)
    return None if nanoseconds is None else nanoseconds / 1e9


def bin_percentile(bins: Mapping[int, int], percent: float) -> float | None:
    """The latency in seconds at or below which ``percent`` of the samples lie, by fio's rule; None without samples.

    ``bins`` maps a bin's latency in nanoseconds to its count.
    """
    total = sum(bins.values())
    if total <= 0:
        return None
    seen = 0
    for nanoseconds in sorted(bins):
        seen += bins[nanoseconds]
        if seen >= total * percent / 100:
            return nanoseconds / 1e9
    return None


def new_samples(before: FioDirection, after: FioDirection) -> dict[int, int]:
    """Histogram of the latencies between two documents: nanoseconds of a bin -> count."""
    earlier = latency_section(before).bins
    new = {}
    for key, count in latency_section(after).bins.items():
        more = count - earlier.get(key, 0)
        if more > 0 and key.isdecimal():
            new[int(key)] = more
    return new


def answered_ios(before: FioDirection, after: FioDirection, block_bytes: int | None) -> int:
    """Number of I/Os completed between two documents. ``block_bytes``: the size of each; None: they differ.

    fio's byte counter counts completions, at the time of the document's clock. Its I/O counter counts requests, and is
    read later, by some ten milliseconds on a busy computer (stat.c). It is used only for requests of several sizes.
    """
    return (after.io_bytes - before.io_bytes) // block_bytes if block_bytes else after.total_ios - before.total_ios


def latency_section(section: FioDirection) -> FioLatency:
    """The latency section with a histogram: from submission to completion if fio reports it."""
    return section.lat_ns if section.lat_ns.bins or not section.clat_ns.bins else section.clat_ns


def _tail(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _TAIL_CHARACTERS else f"…{text[-_TAIL_CHARACTERS:]}"
