"""By what a copied measurement is recognised: fingerprints of what was measured, not of how its file is written.

Each result has some prints: of the figures of a few cells, of fio's documents of fewer, and of the times at which it
was made. No two honest measurements share one: latencies are means of thousands of times in nanoseconds, and times go
with the measured duration of the whole run. So two results with one print in common are one measurement, though
spaces, names or all but one of the figures were changed. In virtual time equal figures are what raidlab promises;
there only the times count.
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
"""Of each result: a class has thousands."""
_FEWEST_IOS = 100
"""Of a cell whose figures have a print: the mean of few latencies may come twice."""


def record_digest(record: ResultRecord) -> str:
    """The same for records that say the same, however they are written."""
    return _digest("record", record)


def prints_of(record: ResultRecord, files: ResultFiles) -> Iterator[str]:
    """The prints of a result; ``files`` has fio's documents. A document that cannot be read has none."""
    times = [cell.started_utc for cell in record.cells]
    yield _digest("times", [record.created_utc, times, record.timings.total_seconds])
    if record.conditions.is_virtual_time:
        return
    # By their names, which an altered figure does not change: both results give prints of the same cells.
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
