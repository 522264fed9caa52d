"""Small sweeps whose truth is known."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from lab.sweep.cells import CellDone
from lab.sweep.grid import CellRow, FailedCell, SweepResult


def row(level: str = "raid5", iops: float = 100.0, **changed: Any) -> CellRow:
    """One row; fields that are not given have plain values."""
    values: dict[str, Any] = {
        "cell": f"{level}-{'-'.join(map(str, changed.values()))}",
        "digest": "d" * 64,
        "members": 4,
        "chunk_bytes": 65536,
        "drive": "",
        "kernel": "",
        "workload": "rand-read-4k",
        "direction": "read",
        "block_bytes": 4096,
        "queue_depth": 1,
        "jobs": 1,
        "repeats": 6,
        "iops_low": iops * 0.99,
        "iops_high": iops * 1.01,
        "bytes_per_second": iops * 4096,
        "mean_seconds": 1 / iops if iops else None,
        "p99_seconds": None,
        "predicted_iops": None,
        "is_virtual_time": True,
        "computer": "node1",
        "measured_utc": "2026-11-25T10:00:00Z",
        "seconds": 4.0,
        "stamps": "",
    }
    return CellRow(level=level, iops=iops, **(values | changed))


def sweep(
    rows: Iterable[CellRow],
    *,
    axes: Mapping[str, tuple[str | int, ...]] | None = None,
    failed: Iterable[FailedCell] = (),
    **changed: Any,
) -> SweepResult:
    """A sweep of these rows."""
    rows, failed = tuple(rows), tuple(failed)
    planned = len({each.cell for each in rows}) + len(failed)
    values: dict[str, Any] = {
        "id": "s1",
        "title": "A sweep",
        "question": "Which is fastest?",
        "created_utc": "2026-11-25T09:00:00Z",
        "toml": "",
        "planned": planned,
    }
    return SweepResult(axes=dict(axes or {}), rows=rows, failed=failed, **(values | changed))


def cell_file(key: str, *rows: CellRow) -> bytes:
    """The file of a measured cell, without its record."""
    done = CellDone(
        key=key, digest="d", measured_utc="", computer="", seconds=1.0, is_virtual_time=True, stamps=(), rows=rows
    )
    return gzip.compress(msgspec.json.encode(done) + b"\n{}")
