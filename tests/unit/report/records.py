"""Real results, trimmed (see data/README.md), and changes to them."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from lab.results.record import CellRecord, ResultRecord
from lab.results.store import decode_record

DATA = Path(__file__).with_name("data")


def load(name: str) -> ResultRecord:
    return decode_record((DATA / f"{name}.json").read_bytes(), source=name)


def repeated(record: ResultRecord, factors: tuple[float, ...]) -> ResultRecord:
    """The record with further repeats of every cell, their IOPS multiplied by each factor."""
    further = [_times(cell, factor, number) for number, factor in enumerate(factors, 1) for cell in record.cells]
    return replace(record, cells=(*record.cells, *further))


def _times(cell: CellRecord, factor: float, repeat: int) -> CellRecord:
    sections = {
        f"{way}s": replace(section, iops=section.iops * factor) for way, section in cell.figures.sections.items()
    }
    return replace(cell, repeat=repeat, figures=replace(cell.figures, **sections))
