"""What a sweep found, as rows: one for each cell, workload and direction. The columns of its Parquet file."""

from __future__ import annotations

import msgspec


class CellRow(msgspec.Struct, frozen=True, kw_only=True):
    """Reads or writes of one workload in one cell: the median of its repeats, with its interval."""

    cell: str
    """SHA-256 of all that the cell depends on, in hexadecimal digits."""
    digest: str
    """SHA-256 of all that was measured (lab.results.sameness)."""
    level: str
    """Such as ``raid5``, however the sweep's file writes it."""
    members: int
    chunk_bytes: int | None
    """None where the level has no chunk."""
    drive: str
    """Model of the emulated drive; empty: plain files."""
    kernel: str
    """As the sweep's file writes it; empty: the one that is installed."""
    workload: str
    direction: str
    """``read`` or ``write``."""
    block_bytes: int
    queue_depth: int
    jobs: int
    repeats: int
    iops: float
    iops_low: float
    """Both ends of the interval that covers the true median; equal to it where there is one repeat."""
    iops_high: float
    bytes_per_second: float
    mean_seconds: float | None
    """Latency, median of the repeats; so is the next."""
    p99_seconds: float | None
    predicted_iops: float | None
    """By theory (lab.theory); None where it says nothing."""
    is_virtual_time: bool
    computer: str
    """Where it was measured."""
    measured_utc: str
    seconds: float
    """How long the cell took on that computer, from the start of its machine to its end."""
    stamps: str
    """What lowers trust in it, a line each."""


class FailedCell(msgspec.Struct, frozen=True, kw_only=True):
    """A cell that could not be measured, on two computers."""

    cell: str
    label: str
    """Its place on the axes, such as ``raid5, 6 members, chunk 64K``."""
    message: str
    console: str = ""
    """The last lines of the machine's console."""


class SweepResult(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known of a sweep, perhaps unfinished."""

    id: str
    title: str
    question: str
    created_utc: str
    toml: str
    """The sweep's file."""
    axes: dict[str, tuple[str | int, ...]]
    """Axis -> its values as the file has them; of ``CellRow`` these are the fields that vary. ``chunk`` is there as
    ``chunk_bytes``."""
    planned: int
    """Cells."""
    rows: tuple[CellRow, ...]
    failed: tuple[FailedCell, ...] = ()


def iops_text(iops: float) -> str:
    """With thousands, and with decimals where it is small."""
    return f"{iops:,.0f}" if iops >= 100 else f"{iops:.3g}"
