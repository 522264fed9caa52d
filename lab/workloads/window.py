"""The measured interval of a run: I/O between two of fio's status documents, both printed at full queue depth.

fio divides by the time until the last completion: after its runtime it waits for all requests in flight, with a
decreasing queue depth. In a run of 0.8 s with 32 requests in flight on drives of 13 ms this is a quarter of the time
(fio 3.33). At the other end, ``ramp_time`` excludes the requests in flight at the end of the ramp. So neither is used:
fio issues requests for longer than requested, prints its counters periodically (``--status-interval``), and the figures
are the difference between two such documents. A document costs about 20 ms of CPU time in the embedded kernel, so there
are few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec

from lab.errors import MeasurementDisturbed, WorkloadError
from lab.workloads.fio_output import (
    DirectionFigures,
    FioDirection,
    FioDocument,
    JobFigures,
    answered_ios,
    bin_percentile,
    decode_document,
    latency_section,
    new_samples,
)

SHORTEST_INTERVAL_SECONDS = 0.1
"""fio's helper thread does not check its clock more often (helper_thread.c)."""
LONGEST_INTERVAL_SECONDS = 2.0
_SLICES = 4
_EARLY_FRACTION = 0.2
"""Fraction of an interval by which a document may precede an edge of the window and still count as that edge."""
_LATE_SECONDS = 0.1
"""Maximum delay of fio's helper thread."""


@dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """The measured interval of one fio process; times count from the start of the load."""

    warmup_seconds: float
    seconds: float | None
    """None: until it is stopped."""
    interval_seconds: float
    """Time between two documents."""

    @property
    def issue_seconds(self) -> float:
        """Time for which fio issues requests: until the document that ends the window is certain to be printed."""
        if self.seconds is None:
            return math.inf
        return self.warmup_seconds + self.seconds + self.interval_seconds + _LATE_SECONDS

    @property
    def early_seconds(self) -> float:
        """Time by which a document may precede an edge."""
        return _EARLY_FRACTION * self.interval_seconds


def window_for(warmup_seconds: float, seconds: float) -> MeasuredWindow:
    """A window of ``seconds``, divided by documents into four parts, or more if it is long."""
    each = seconds / max(_SLICES, math.ceil(seconds / LONGEST_INTERVAL_SECONDS))
    # Whole milliseconds, the unit of fio's option.
    return MeasuredWindow(warmup_seconds, seconds, max(SHORTEST_INTERVAL_SECONDS, math.floor(each * 1000) / 1000))


@dataclass(slots=True)
class WindowCut:
    """Receives every document of a run and stores the two at the edges of the window."""

    window: MeasuredWindow
    _begin: str = ""
    _end: str = ""
    _begin_seconds: float = 0.0
    _newest: str = ""
    _before_end: str = ""
    """The document before ``_end``."""
    _is_full: bool = False

    def see(self, text: str, document: FioDocument) -> None:
        """Process the next document of the run, given verbatim and decoded."""
        window, clock = self.window, load_seconds(document)
        if window.seconds is None and self._newest and self._newest is not self._begin:
            # The last document is printed after fio was stopped, so it is never an edge.
            self._end = self._newest
        if not self._begin:
            if window.warmup_seconds - window.early_seconds <= clock <= window.issue_seconds and clock > 0:
                self._begin, self._begin_seconds, self._newest = text, clock, text
            return
        self._newest = text
        if window.seconds is not None and not self._is_full and clock <= window.issue_seconds:
            self._before_end, self._end = self._end, text
            self._is_full = clock >= self._begin_seconds + window.seconds - window.early_seconds

    def figures(self, whole: JobFigures, block_bytes: int | None) -> JobFigures:
        """The figures of the window, from those of the whole run. ``block_bytes``: as in `LiveFeed`.

        A load that was stopped before its window began has the figures of the whole run.
        Raises MeasurementDisturbed if fio printed no documents at the edges, WorkloadError without I/O between them.
        """
        if whole.interrupted and not self._is_full and self.window.seconds is not None:
            # It was stopped, and drained its queue before it printed the last document.
            self._end = self._before_end
        if not self._end:
            if whole.interrupted:
                return whole
            raise MeasurementDisturbed(
                "fio reported nothing about the measured time: its documents came too late or not at all",
                hint="the computer is overloaded, or the run is too short: measure longer",
            )
        begin, end = decode_document(self._begin), decode_document(self._end)
        seconds = load_seconds(end) - load_seconds(begin)
        before, after = begin.jobs[0], end.jobs[0]
        reads = _difference(before.read, after.read, seconds, block_bytes)
        writes = _difference(before.real_write, after.real_write, seconds, block_bytes)
        if reads is None and writes is None:
            raise WorkloadError(
                f"not one I/O was answered in the {seconds:.3g} s that were measured",
                hint="measure longer: 'raidlab lint' says how long, for the expected latency",
            )
        return msgspec.structs.replace(
            whole,
            reads=reads,
            writes=writes,
            window_begin_seconds=self._begin_seconds,
            raw_json=f"[{self._begin},{self._end}]",
        )


def load_seconds(document: FioDocument) -> float:
    """Time since the start of the load, by fio's clock."""
    return max((max(job.read.runtime, job.real_write.runtime) for job in document.jobs), default=0) / 1000


def _difference(
    before: FioDirection, after: FioDirection, seconds: float, block_bytes: int | None
) -> DirectionFigures | None:
    size = after.io_bytes - before.io_bytes
    ios = answered_ios(before, after, block_bytes)
    if ios <= 0 or seconds <= 0:
        return None
    bins = new_samples(before, after)
    earlier, later = latency_section(before), latency_section(after)
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
        p50_seconds=bin_percentile(bins, 50),
        p95_seconds=bin_percentile(bins, 95),
        p99_seconds=bin_percentile(bins, 99),
        p999_seconds=bin_percentile(bins, 99.9),
        latency_kind="total" if later is after.lat_ns else "completion",
    )
