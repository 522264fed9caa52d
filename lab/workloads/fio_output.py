"""Parse the output of fio 3.28 to 3.39 into figures with units. Unknown fields are ignored.

The measured interval of a run lies between two status documents, both printed at full queue depth. Interval values come
from the output of ``--status-interval`` while fio runs.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import msgspec

from lab.errors import MeasurementDisturbed, WorkloadError
from lab.gates.decoding import Figure, SizeBytes, decode_json, digits

INTERRUPTED_STATUS = 128
"""fio's exit status after SIGINT or SIGTERM."""
_TAIL_CHARACTERS = 600
_NOT_TIMED_FRACTION = 0.05
_PERCENTS = {"p50_seconds": 50.0, "p95_seconds": 95.0, "p99_seconds": 99.0, "p999_seconds": 99.9}


class FioLatency(msgspec.Struct, frozen=True):
    """One latency section. All numbers are nanoseconds except ``N`` and the counts in ``bins``."""

    max: float = 0.0
    mean: float = 0.0
    N: int = 0
    percentile: dict[str, float] = {}
    bins: dict[str, int] = {}


class FioDirection(msgspec.Struct, frozen=True):
    """fio's ``read`` or ``write`` section. ``runtime`` is in milliseconds."""

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
        """The writes that really took place. With ``verify_only``, fio also counts writes that it only replays."""
        return FioDirection() if "verify_only" in self.options else self.write


class FioDocument(msgspec.Struct, frozen=True):
    """One of fio's JSON documents."""

    jobs: tuple[FioJob, ...]
    version: str = msgspec.field(name="fio version", default="")

    @property
    def live_job(self) -> FioJob:
        """The only entry, or an empty one if there are several, as no live values exist without group_reporting."""
        return self.jobs[0] if len(self.jobs) == 1 else FioJob("")


class DirectionFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Figures of one direction. Latencies are those of ``latency_kind``, or None if fio reported none."""

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
    """This percentile is meaningful only with about 10 000 I/Os or more."""
    latency_kind: str = "total"
    """``total`` counts from submission to completion, and ``completion`` omits the submission latency."""


class JobFigures(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Figures of one fio process, with separate ones for reads and writes. A direction without I/O is None."""

    job_name: str
    reads: DirectionFigures | None = None
    writes: DirectionFigures | None = None
    fio_user_cpu_percent: Figure | None = None
    """CPU time of the job's threads, without md's kernel threads."""
    fio_system_cpu_percent: Figure | None = None
    fio_version: str = ""
    interrupted: bool = False
    """Whether a signal terminated the process early."""
    notes: tuple[str, ...] = ()
    """What else fio wrote to standard output."""
    window_begin_seconds: Figure | None = None
    """Time from the start of the load to the start of the measured interval. If it is None, the whole run counts,
    including its warm-up and the completions after its end."""
    raw_json: str = ""
    """fio's document, verbatim. For an interval it is a list of two, and the figures are their difference."""

    @property
    def sections(self) -> dict[str, DirectionFigures]:
        """The figures of the directions with I/O, by ``read`` and ``write``."""
        return {way: found for way, found in (("read", self.reads), ("write", self.writes)) if found}


def _decode_document(text: str) -> FioDocument:
    """Decode one document. Raises WorkloadError if the text is not one of fio's documents."""
    try:
        return decode_json(text, FioDocument)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise WorkloadError(
            f"fio's JSON cannot be read: {error}\n{_tail(text)}", hint="run the job by hand to see its output"
        ) from None


def _only_job(document: FioDocument) -> FioJob:
    if len(document.jobs) != 1:
        names = ", ".join(job.jobname for job in document.jobs) or "none"
        raise WorkloadError(
            f"jobs-unsummed: fio reported {len(document.jobs)} entries ({names}) where one was expected",
            hint="add group_reporting to the job file",
        )
    return document.jobs[0]


def _job_error(job: FioJob, message: str) -> str:
    try:
        reason = os.strerror(job.error)
    except (OverflowError, ValueError):
        reason = "unknown"
    # fio reports EILSEQ if a checksum does not match.
    what = "data differ from what was written" if job.error == 84 else reason
    return f"fio's job '{job.jobname}' failed with error {job.error} ({what}): {message}"


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
    keys = {name: f"{percent:.6f}" for name, percent in _PERCENTS.items()}
    return DirectionFigures(
        iops=iops,
        bandwidth_bytes_per_second=bandwidth,
        total_ios=section.total_ios,
        io_bytes=section.io_bytes,
        runtime_seconds=seconds,
        mean_seconds=latency.mean / 1e9,
        max_seconds=latency.max / 1e9,
        latency_kind="total" if has_total else "completion",
        **{name: latency.percentile[key] / 1e9 for name, key in keys.items() if key in latency.percentile},
    )


def bin_percentile(bins: Mapping[int, int], percent: float) -> float | None:
    """Return the latency in seconds that ``percent`` % of the samples do not exceed, by fio's rule.

    Without samples, return None. ``bins`` maps a bin's latency in nanoseconds to its count.
    """
    total, seen = sum(bins.values()), 0
    for nanoseconds in sorted(bins):
        seen += bins[nanoseconds]
        if seen >= total * percent / 100:
            return nanoseconds / 1e9
    return None


def _new_samples(before: FioDirection, after: FioDirection) -> dict[int, int]:
    """Return the histogram of the latencies between two documents: each bin's nanoseconds and its count."""
    earlier, later = _latency_section(before).bins, _latency_section(after).bins
    new = {digits(key): count - earlier.get(key, 0) for key, count in later.items()}
    return {nanoseconds: count for nanoseconds, count in new.items() if nanoseconds is not None and count > 0}


def _latency_section(section: FioDirection) -> FioLatency:
    """Return the latency section that has a histogram, preferably the one from submission to completion."""
    return section.lat_ns if section.lat_ns.bins or not section.clat_ns.bins else section.clat_ns


def _tail(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _TAIL_CHARACTERS else f"…{text[-_TAIL_CHARACTERS:]}"


SHORTEST_INTERVAL_SECONDS = 0.1
"""fio's helper thread does not check its clock more often (helper_thread.c)."""
LONGEST_INTERVAL_SECONDS = 2.0
_SLICES = 4
_EARLY_FRACTION = 0.2
"""A document may precede an edge of the window by this fraction of an interval and still count as that edge."""
_LATE_SECONDS = 0.1
"""Maximum delay of fio's helper thread."""


@dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """The measured interval of one fio process. All times are counted from the start of the load."""

    warmup_seconds: float
    seconds: float | None
    """The length of the interval, or None if the load runs until it is stopped."""
    interval_seconds: float
    """Time between two documents."""

    @property
    def issue_seconds(self) -> float:
        """How long fio must issue requests so that the document at the end of the window is certain to be printed."""
        if self.seconds is None:
            return math.inf
        return self.warmup_seconds + self.seconds + self.interval_seconds + _LATE_SECONDS

    @property
    def early_seconds(self) -> float:
        """Time by which a document may precede an edge of the window."""
        return _EARLY_FRACTION * self.interval_seconds


def window_for(warmup_seconds: float, seconds: float) -> MeasuredWindow:
    """Return a window of ``seconds`` that documents divide into four parts, or into more parts if it is long."""
    each = seconds / max(_SLICES, math.ceil(seconds / LONGEST_INTERVAL_SECONDS))
    # Use whole milliseconds, which are the unit of fio's option.
    return MeasuredWindow(warmup_seconds, seconds, max(SHORTEST_INTERVAL_SECONDS, math.floor(each * 1000) / 1000))


def load_seconds(document: FioDocument) -> float:
    """Return the time since the start of the load, by fio's clock."""
    return max((max(job.read.runtime, job.real_write.runtime) for job in document.jobs), default=0) / 1000


def _difference(
    before: FioDirection, after: FioDirection, seconds: float, block_bytes: int | None
) -> DirectionFigures | None:
    """Return the figures between two documents, or None if no time passed between them or ``after`` has no I/O.

    Percentiles are None if there are no samples, as during a warm-up or without I/O.
    """
    size = after.io_bytes - before.io_bytes
    # fio's byte counter counts completions at the time of the document's clock. Its I/O counter counts requests, and is
    # read about ten milliseconds later on a busy computer (stat.c). Therefore it is used only if request sizes differ.
    ios = size // block_bytes if block_bytes else after.total_ios - before.total_ios
    if seconds <= 0 or (ios <= 0 and not after.total_ios):
        return None
    bins = _new_samples(before, after)
    earlier, later = _latency_section(before), _latency_section(after)
    counted = later.N - earlier.N
    mean = (later.mean * later.N - earlier.mean * earlier.N) / counted if counted > 0 else 0.0
    return DirectionFigures(
        iops=ios / seconds,
        bandwidth_bytes_per_second=size / seconds,
        total_ios=ios,
        io_bytes=size,
        runtime_seconds=seconds,
        mean_seconds=mean / 1e9,
        max_seconds=max(bins) / 1e9 if bins else None,
        latency_kind="total" if later is after.lat_ns else "completion",
        **{name: bin_percentile(bins, percent) for name, percent in _PERCENTS.items()},
    )


_SLIVER_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class LiveInterval:
    """Values between two documents."""

    interval_seconds: float
    reads: DirectionFigures | None
    writes: DirectionFigures | None
    is_warmup: bool
    """Whether the interval lies before the measured one and is therefore not part of the result."""


@dataclass(slots=True)
class LiveFeed:
    """Converts fio's standard output to intervals, and at the end to figures.

    fio prints documents in sequence, each from a line ``{`` to a line ``}``, with notes between them. Raises
    WorkloadError if the JSON is invalid.
    """

    window: MeasuredWindow | None = None
    """The measured interval, or None for the whole run."""
    block_bytes: int | None = None
    """The size of every request, or None if sizes differ. fio itself reports only that of the last of several jobs."""
    is_due: Callable[[], bool] = lambda: True
    """Whether to return an interval now; otherwise it is merged into the next one."""
    notes: tuple[str, ...] = ()
    """The lines that are not part of a document."""
    last_document: str = ""
    """The newest complete document, verbatim. At the end of a run, it contains the result."""
    load_seconds: float = 0.0
    """Time from the first request to the newest document, by fio's clock."""
    _lines: list[str] | None = None
    """The lines of an incomplete document."""
    _begin: str = ""
    """The document at the beginning of the window."""
    _begin_seconds: float = 0.0
    _before_end: str = ""
    _end: str = ""
    """The document at the end of the window or, until there is one, the newest document in the window."""
    _is_full: bool = False

    def documents(self, chunks: Iterable[str]) -> Iterator[str]:
        """Yield each document of the output as soon as it is complete. The last line may have no line feed."""
        rest = ""
        for chunk in chain(chunks, ["\n"]):
            *lines, rest = (rest + chunk).split("\n")
            for line in (each.removesuffix("\r") for each in lines):
                if line == "{":
                    self._lines = [line]
                elif self._lines is not None:
                    self._lines.append(line)
                    if line == "}":
                        yield "\n".join(self._lines) + "\n"
                        self._lines = None
                elif line.strip():
                    self.notes = (*self.notes, line.strip())

    def intervals(self, chunks: Iterable[str]) -> Iterator[LiveInterval]:
        """Yield the intervals of fio's output. The last one may be very short, and is omitted if it has no I/O."""
        before: FioDocument | None = None
        held_back: FioDocument | None = None
        for text in self.documents(chunks):
            document = _decode_document(text)
            self.last_document, self.load_seconds = text, load_seconds(document)
            if self.window:
                self._see(self.window, text)
            # Percentiles take long. They are computed only for intervals that are returned.
            is_sliver = _seconds_between(before, document) < _SLIVER_SECONDS or not self.is_due()
            held_back = document if is_sliver else None
            interval = None if is_sliver else difference(before, document, self.block_bytes)
            if interval:
                before = document
                if self.window and self.load_seconds <= self.window.warmup_seconds:
                    interval = replace(interval, is_warmup=True)
                yield interval
        last = difference(before, held_back, self.block_bytes) if held_back else None
        if last and any(each and (each.total_ios or each.io_bytes) for each in (last.reads, last.writes)):
            yield last

    def _see(self, window: MeasuredWindow, text: str) -> None:
        """Store the document if it may be one of the two at the edges of the window."""
        clock = self.load_seconds
        if not self._begin:
            if window.warmup_seconds - window.early_seconds <= clock <= window.issue_seconds and clock > 0:
                self._begin, self._begin_seconds = text, clock
        elif not self._is_full and clock <= window.issue_seconds:
            self._before_end, self._end = self._end, text
            latest = math.inf if window.seconds is None else self._begin_seconds + window.seconds
            self._is_full = clock >= latest - window.early_seconds

    def figures(self, *, exit_status: int = 0, stderr_text: str = "", accept_interrupted: bool = False) -> JobFigures:
        """Return the figures of the measured interval or of the whole run. Call this when the process has ended.

        Raises WorkloadError if the exit status is not 0 (or 128 with ``accept_interrupted``), if JSON is missing or
        incomplete, if fio reports an error such as a failed verification, or if there is more than one entry
        (group_reporting was off). Raises MeasurementDisturbed if fio printed no documents at the edges of the window.
        """
        if self._lines is not None:
            raise WorkloadError("fio's output is cut off", hint="repeat the run; fio was killed, or a pipe broke")
        message = _tail(stderr_text) or _tail("\n".join(self.notes)) or _tail(self.last_document)
        document = _decode_document(self.last_document) if self.last_document else None
        job = _only_job(document) if document else None
        if job and job.error:
            raise WorkloadError(
                _job_error(job, message), hint="see dmesg; I/O to the array or its file system failed, or data changed"
            )
        interrupted = exit_status == INTERRUPTED_STATUS
        if exit_status and not (interrupted and accept_interrupted):
            raise WorkloadError(
                f"fio exited with status {exit_status}: {message}", hint="run the job by hand to see more"
            )
        if document is None or job is None:
            raise WorkloadError(
                f"fio printed no JSON: {message or 'nothing at all'}", hint="run the job by hand to see more"
            )
        whole = JobFigures(
            job_name=job.jobname,
            reads=_figures(job.read, untimed_beside=job.real_write),
            writes=_figures(job.real_write),
            fio_user_cpu_percent=job.usr_cpu,
            fio_system_cpu_percent=job.sys_cpu,
            fio_version=document.version,
            interrupted=interrupted,
            notes=self.notes,
            raw_json=self.last_document,
        )
        return self._in_window(self.window, whole) if self.window else whole

    def _in_window(self, window: MeasuredWindow, whole: JobFigures) -> JobFigures:
        """Return ``whole`` with the figures of the window, or unchanged if the load was stopped before the window.

        Raises MeasurementDisturbed, and WorkloadError if no I/O completed in the window.
        """
        if not self._is_full and (whole.interrupted or window.seconds is None):
            # The load was stopped, and fio drained its queue before it printed the last document.
            self._end = self._before_end
        if not self._end:
            if whole.interrupted:
                return whole
            raise MeasurementDisturbed(
                "fio reported nothing about the measured time, because its output came too late or not at all",
                hint="measure longer; the computer is overloaded, or the run is too short",
            )
        begin, end = _decode_document(self._begin), _decode_document(self._end)
        seconds = load_seconds(end) - load_seconds(begin)
        before, after = begin.jobs[0], end.jobs[0]
        reads, writes = (
            part if part and part.total_ios > 0 else None
            for part in (
                _difference(before.read, after.read, seconds, self.block_bytes),
                _difference(before.real_write, after.real_write, seconds, self.block_bytes),
            )
        )
        if reads is None and writes is None:
            raise WorkloadError(
                f"no I/O completed in the {seconds:.3g} s of the measurement",
                hint="measure longer; 'raidlab lint' says how long, from the expected latency",
            )
        return msgspec.structs.replace(
            whole,
            reads=reads,
            writes=writes,
            window_begin_seconds=self._begin_seconds,
            raw_json=f"[{self._begin},{self._end}]",
        )


def difference(before: FioDocument | None, after: FioDocument, block_bytes: int | None = None) -> LiveInterval | None:
    """Return the interval between two cumulative documents of one run, or None if no time passed between them."""
    seconds = _seconds_between(before, after)
    if seconds <= 0:
        return None
    was, now = _counted_from(before, after), after.live_job
    return LiveInterval(
        interval_seconds=seconds,
        reads=_difference(was.read, now.read, seconds, block_bytes),
        writes=_difference(was.real_write, now.real_write, seconds, block_bytes),
        is_warmup=_is_warmup(now),
    )


def _seconds_between(before: FioDocument | None, after: FioDocument) -> float:
    was, now = _counted_from(before, after), after.live_job
    return max(now.read.runtime - was.read.runtime, now.real_write.runtime - was.real_write.runtime) / 1000


def _counted_from(before: FioDocument | None, after: FioDocument) -> FioJob:
    """Return the entry of ``before``, or an empty one if it has none or fio has reset its counters since then."""
    if before is None or _started_anew(before.live_job, after.live_job):
        return FioJob("")
    return before.live_job


def _is_warmup(job: FioJob) -> bool:
    sections = (job.read, job.real_write)
    has_latencies = any(_latency_section(section).N for section in sections)
    return any(section.total_ios for section in sections) and not has_latencies


def _started_anew(before: FioJob, after: FioJob) -> bool:
    if _is_warmup(before) and not _is_warmup(after):
        return True
    # A shorter time with the same number of bytes is not a reset, because the last document of a run may be like that.
    return any(
        new.total_ios < old.total_ios or (new.runtime < old.runtime and new.io_bytes != old.io_bytes)
        for old, new in ((before.read, after.read), (before.real_write, after.real_write))
    )
