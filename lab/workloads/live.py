"""Interval values while fio runs, from the output of ``--status-interval``.

Each document is cumulative, so the values of an interval are differences of two documents; percentiles come from
differences of the histogram bins, never from averages. Facts checked with fio 3.33 (Linux 6.18, 2026-11-21):

- intervals of 100, 250 and 500 ms work with json+; documents are some 13 kB each with ``clat_percentiles=0``;
- during ``ramp_time``, which a recipe may set, I/Os are counted but latencies are not (``N`` = 0, no bins); at its end
  all counters are reset to 0, but may exceed their last value again by the next document, so the first bins also
  indicate a reset;
- the first document can have I/Os with runtime 0: it has no rate yet;
- after the run the last document is printed again, with the same counters, or with a few ms more than the last
  interval's: such a sliver is held back until ``finish``;
- or with less time than the one before, whose clock continued after the last completion: 38 ms of 1.4 s (fio 3.39);
- on SIGINT and SIGTERM fio prints a last complete document, after a note on a separate line, and exits with status 128.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from lab.errors import WorkloadError
from lab.workloads.fio_output import (
    DocumentSplitter,
    FioDirection,
    FioDocument,
    JobFigures,
    answered_ios,
    bin_percentile,
    decode_document,
    latency_section,
    new_samples,
    parse_figures,
)
from lab.workloads.window import WindowCut, load_seconds

_NOTHING = FioDirection()
_SLIVER_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class LiveDirection:
    """One direction in one interval; percentiles are None without samples (warm-up, or no I/O)."""

    iops: float
    bandwidth_bytes_per_second: float
    ios: int
    """I/Os completed in the interval; I/Os issued if requests have several sizes."""
    p50_seconds: float | None
    p99_seconds: float | None


@dataclass(frozen=True, slots=True)
class LiveInterval:
    """Values between two documents."""

    time_seconds: float
    """End of the interval on fio's wall clock (seconds since 1970)."""
    interval_seconds: float
    reads: LiveDirection | None
    writes: LiveDirection | None
    is_warmup: bool
    """Before the measured interval: not part of the result."""


@dataclass(slots=True)
class LiveFeed:
    """Converts fio's standard output, fed in pieces, to intervals, and at the end to figures.

    Raises WorkloadError for invalid JSON.
    """

    cut: WindowCut | None = None
    """The measured interval; None: the whole run."""
    block_bytes: int | None = None
    """The size of every request; None: they differ. fio reports only that of the last of several jobs."""
    splitter: DocumentSplitter = field(default_factory=DocumentSplitter)
    last_document: str = ""
    """The newest complete document, verbatim: at the end of a run the one with its result."""
    load_seconds: float = 0.0
    """From the first request to the newest document, by fio's clock."""
    is_due: Callable[[], bool] = lambda: True
    """Whether to return an interval now; otherwise it is merged into the next one."""
    _before: FioDocument | None = None
    _held_back: FioDocument | None = None

    def feed(self, chunk: str) -> list[LiveInterval]:
        """The intervals that ``chunk`` completes, often none."""
        return self._intervals(list(self.splitter.feed(chunk)))

    def finish(self) -> list[LiveInterval]:
        """The interval that the end of the text completes, of any length, if it has I/O."""
        found = self._intervals(list(self.splitter.finish()))
        sliver = difference(self._before, self._held_back, self.block_bytes) if self._held_back else None
        self._held_back = None
        return [*found, sliver] if sliver and _has_answers(sliver) else found

    def figures(self, *, exit_status: int, stderr_text: str, accept_interrupted: bool = False) -> JobFigures:
        """The figures of the whole run, or of its measured interval. Raises WorkloadError as ``parse_figures`` does."""
        if self.splitter.is_inside_document:
            raise WorkloadError("fio's output is cut off", hint="fio was killed, or a pipe broke")
        text = "\n".join(self.splitter.notes) + "\n" + self.last_document
        whole = parse_figures(
            text, exit_status=exit_status, stderr_text=stderr_text, accept_interrupted=accept_interrupted
        )
        return self.cut.figures(whole, self.block_bytes) if self.cut else whole

    def _intervals(self, texts: list[str]) -> list[LiveInterval]:
        found = []
        for text in texts:
            document = decode_document(text)
            self.last_document, self.load_seconds = text, load_seconds(document)
            if self.cut:
                self.cut.see(text, document)
            interval = difference(self._before, document, self.block_bytes)
            is_sliver = interval is None or interval.interval_seconds < _SLIVER_SECONDS or not self.is_due()
            self._held_back = document if is_sliver else None
            if interval is not None and not is_sliver:
                self._before = document
                if self.cut and self.load_seconds <= self.cut.window.warmup_seconds:
                    interval = replace(interval, is_warmup=True)
                found.append(interval)
        return found


def difference(before: FioDocument | None, after: FioDocument, block_bytes: int | None = None) -> LiveInterval | None:
    """The interval between two cumulative documents of one run; None if no time passed between them."""
    if before is None or _started_anew(before, after):
        before = FioDocument(jobs=())
    read, read_before = _sections(after, "read"), _sections(before, "read")
    write, write_before = _sections(after, "write"), _sections(before, "write")
    milliseconds = max(read.runtime - read_before.runtime, write.runtime - write_before.runtime)
    if milliseconds <= 0:
        return None
    seconds = milliseconds / 1000
    return LiveInterval(
        time_seconds=after.timestamp_ms / 1000,
        interval_seconds=seconds,
        reads=_direction(read_before, read, seconds, block_bytes),
        writes=_direction(write_before, write, seconds, block_bytes),
        is_warmup=_is_warmup(after),
    )


def _has_answers(interval: LiveInterval) -> bool:
    return any(each.ios or each.bandwidth_bytes_per_second for each in (interval.reads, interval.writes) if each)


def _sections(document: FioDocument, name: str) -> FioDirection:
    """The section of the only entry; documents without group_reporting have no live values."""
    if len(document.jobs) != 1:
        return _NOTHING
    return document.jobs[0].read if name == "read" else document.jobs[0].real_write


def _is_warmup(document: FioDocument) -> bool:
    sections = [_sections(document, "read"), _sections(document, "write")]
    return any(section.total_ios for section in sections) and not any(
        latency_section(section).N for section in sections
    )


def _started_anew(before: FioDocument, after: FioDocument) -> bool:
    if _is_warmup(before) and not _is_warmup(after):
        return True
    pairs = [(_sections(before, name), _sections(after, name)) for name in ("read", "write")]
    # Less time with the same bytes is not a reset: the last document of a run may be like that.
    return any(
        new.total_ios < old.total_ios or (new.runtime < old.runtime and new.io_bytes != old.io_bytes)
        for old, new in pairs
    )


def _direction(
    before: FioDirection, after: FioDirection, seconds: float, block_bytes: int | None
) -> LiveDirection | None:
    ios = answered_ios(before, after, block_bytes)
    if ios <= 0 and not after.total_ios:
        return None
    bins = new_samples(before, after)
    return LiveDirection(
        iops=ios / seconds,
        bandwidth_bytes_per_second=(after.io_bytes - before.io_bytes) / seconds,
        ios=ios,
        p50_seconds=bin_percentile(bins, 50),
        p99_seconds=bin_percentile(bins, 99),
    )
