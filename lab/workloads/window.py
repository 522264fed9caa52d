"""The measured stretch of a run: what fio did between two of its own documents, both printed in steady flight.

fio divides by the time until the last answer: after the end of its runtime it waits for all requests in flight, and
those are the fewer the longer it waits. Of a run of 0.8 s with 32 requests in flight on drives of 13 ms that is a
quarter (fio 3.33). With ``ramp_time`` it leaves out, at the other edge, what was in flight when the ramp ended. So fio
does neither for us: it sends requests for longer than is asked for, prints its counters now and then
(``--status-interval``), and the figures are the difference between two such documents. A document costs about 20 ms of
the embedded kernel's processor, hence they are few.
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
"""fio's helper thread looks at its clock no more often (helper_thread.c)."""
LONGEST_INTERVAL_SECONDS = 2.0
_SLICES = 4
_EARLY_FRACTION = 0.2
"""Of an interval: a document that comes so much before an edge of the stretch is still that edge."""
_LATE_SECONDS = 0.1
"""fio's helper thread may be late by so much."""


@dataclass(frozen=True, slots=True)
class MeasuredWindow:
    """Which stretch of one start of fio is measured; times count from the start of the load."""

    warmup_seconds: float
    seconds: float | None
    """None: until it is stopped."""
    interval_seconds: float
    """Between two documents."""

    @property
    def issue_seconds(self) -> float:
        """How long fio sends requests: until a document has come for certain that ends the stretch."""
        if self.seconds is None:
            return math.inf
        return self.warmup_seconds + self.seconds + self.interval_seconds + _LATE_SECONDS

    @property
    def early_seconds(self) -> float:
        """By which an edge may come before its time."""
        return _EARLY_FRACTION * self.interval_seconds


def window_for(warmup_seconds: float, seconds: float) -> MeasuredWindow:
    """A stretch of so many seconds, cut into four by documents, or more where it is long."""
    each = seconds / max(_SLICES, math.ceil(seconds / LONGEST_INTERVAL_SECONDS))
    # Whole milliseconds, since that is what fio is told.
    return MeasuredWindow(warmup_seconds, seconds, max(SHORTEST_INTERVAL_SECONDS, math.floor(each * 1000) / 1000))


@dataclass(slots=True)
class WindowCut:
    """Is shown every document of a run and keeps the two between which the stretch lies."""

    window: MeasuredWindow
    _begin: str = ""
    _end: str = ""
    _begin_seconds: float = 0.0
    _newest: str = ""
    _before_end: str = ""
    """The document before the one that ends the stretch so far."""
    _is_full: bool = False

    def see(self, text: str, document: FioDocument) -> None:
        """The next document of this run, word for word and decoded."""
        window, clock = self.window, load_seconds(document)
        if window.seconds is None and self._newest and self._newest is not self._begin:
            # The last document of all comes when fio was stopped, so it is never an edge.
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
        """The figures of the stretch, from those of the whole run. ``block_bytes``: as `LiveFeed` has it.

        A load that was stopped before its stretch began keeps those of the whole run.
        Raises MeasurementDisturbed if fio gave no documents to cut at, WorkloadError if it did nothing between them.
        """
        if whole.interrupted and not self._is_full and self.window.seconds is not None:
            # It was told to stop, and drained its queue before it printed the last document.
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
                hint="measure longer: 'raidlab lint' tells how long the expected latency asks for",
            )
        return msgspec.structs.replace(
            whole,
            reads=reads,
            writes=writes,
            window_begin_seconds=self._begin_seconds,
            raw_json=f"[{self._begin},{self._end}]",
        )


def load_seconds(document: FioDocument) -> float:
    """Time since the start of the load, as fio counts it."""
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
