"""Fingerprints of results, by which copied measurements are recognised.

Each result has several fingerprints: of the figures of some cells, of some of fio's documents, and of its times. Two
independent measurements have none in common: latencies are means of thousands of times in nanoseconds, and the times
include the measured duration of the whole run. So results with a common fingerprint are one measurement, even if
whitespace, names or all but one of the figures were changed. In virtual time, equal figures are expected; only the
times count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec

from lab.errors import LabError
from lab.results.record import CellRecord, ResultRecord
from lab.results.store import ResultFiles

_CELLS, _DOCUMENTS = 12, 4
"""Number of cells and documents with a fingerprint in each result; a class has thousands of results."""
_FEWEST_IOS = 100
"""Minimum number of I/Os of a cell with a fingerprint: the mean of a few latencies may occur twice."""


def record_digest(record: ResultRecord) -> str:
    """A hash of the record's content, independent of its formatting."""
    return _digest("record", record)


def prints_of(record: ResultRecord, files: ResultFiles) -> Iterator[str]:
    """The fingerprints of a result; ``files`` gives access to fio's documents. Unreadable documents are skipped."""
    times = [cell.started_utc for cell in record.cells]
    yield _digest("times", [record.created_utc, times, record.timings.total_seconds])
    if record.conditions.is_virtual_time:
        return
    # Select cells by a hash of their names, so that a copy with changed figures has fingerprints of the same cells.
    cells = sorted(record.cells, key=lambda cell: _digest("cell", [record.experiment, cell.key]))
    for cell in islice(filter(_is_telling, cells), _CELLS):
        figures = [cell.key, _figures(cell)]
        yield _digest("figures", figures)
    for cell in islice((cell for cell in cells if cell.raw_file), _DOCUMENTS):
        with suppress(LabError, msgspec.MsgspecError, UnicodeError, RecursionError):
            yield _digest("document", msgspec.json.decode(files.document(record.id, cell.raw_file)))


def _is_telling(cell: CellRecord) -> bool:
    sections = (cell.figures.reads, cell.figures.writes)
    return sum(section.total_ios for section in sections if section is not None) >= _FEWEST_IOS


def _figures(cell: CellRecord) -> list[Any]:
    sections = (cell.figures.reads, cell.figures.writes)
    return [
        [section.iops, section.total_ios, section.mean_seconds, section.max_seconds, section.p99_seconds]
        for section in sections
        if section is not None
    ]


def _digest(what: str, value: Any) -> str:
    return hashlib.sha256(msgspec.json.encode([what, value], order="deterministic")).hexdigest()[:32]
