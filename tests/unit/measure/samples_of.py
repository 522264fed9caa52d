"""Samples for tests: plain values except those that a test names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from lab.arrays.status import SyncProgress
from lab.machine.api import RawSample
from lab.measure.samples import CpuTicks, DiskCounters, Sample


def counters(**given: Any) -> DiskCounters:
    return DiskCounters(**dict.fromkeys((each.name for each in fields(DiskCounters)), 0) | given)


def sample(
    time_seconds: float = 0.0,
    *,
    disk: DiskCounters | None = None,
    busy: int | None = None,
    idle: int = 0,
    steal: int = 0,
    md_ticks: int = 0,
    action: str = "idle",
    progress: SyncProgress | None = None,
    degraded: int | None = None,
) -> Sample:
    disks = {"ubda": disk} if disk else {}
    cpu = None if busy is None else CpuTicks(busy, idle, steal)
    return Sample(time_seconds, disks, cpu, md_ticks, action, progress, degraded)


def raw(
    time_seconds: float, ticks: dict[str, int] | None = None, files: dict[str, str | None] | None = None
) -> RawSample:
    return RawSample(time_seconds, files or {}, ticks or {})
