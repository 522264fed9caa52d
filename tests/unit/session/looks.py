"""Looks made of captured arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lab.arrays.status import ArrayStatus, parse_array
from lab.measure.samples import CpuTicks, DiskCounters
from lab.session.monitor import Snapshot
from tests.unit.arrays.captures import load

NOTHING = DiskCounters(0, 0, 0.0, 0, 0, 0.0, 0, 0.0)


def captured(label: str, **changes: Any) -> ArrayStatus:
    """The array that was captured under ``label``."""
    record = load(label)
    entries = next(names for folder, names in record["entries"].items() if folder.endswith("/md"))
    return replace(parse_array("md0", entries, record["files"]), **changes)


def look(
    time_seconds: float,
    *arrays: ArrayStatus,
    disks: Mapping[str, DiskCounters] | None = None,
    cpu: CpuTicks | None = None,
    md_ticks: Mapping[str, int] | None = None,
    vanished: frozenset[str] = frozenset(),
) -> Snapshot:
    return Snapshot(time_seconds, arrays, disks or {}, cpu, md_ticks or {}, vanished)
