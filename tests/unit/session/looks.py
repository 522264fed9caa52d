"""Sessions on fake machines, and looks made of captured arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lab.arrays.status import ArrayStatus, parse_array
from lab.disks import Lab, LabDisk
from lab.machine import Host, parse_target
from lab.measure.samples import DiskCounters
from lab.session.monitor import Snapshot
from lab.session.session import Client, LabSession
from tests.unit.arrays.captures import load
from tests.unit.fakes import FakeMachine, as_machine

NOTHING = DiskCounters(0, 0, 0.0, 0, 0, 0.0, 0, 0.0)


def session_on(machine: FakeMachine, disks: Sequence[LabDisk], target: str, **more: Any) -> LabSession:
    host = Host.real("tests")
    return LabSession(Client(parse_target(target), host, **more), Lab(as_machine(machine), host, disks))


def captured(label: str, **changes: Any) -> ArrayStatus:
    """The array that was captured under ``label``."""
    record = load(label)
    entries = next(names for folder, names in record["entries"].items() if folder.endswith("/md"))
    return replace(parse_array("md0", entries, record["files"]), **changes)


def look(
    time_seconds: float,
    *arrays: ArrayStatus,
    disks: Mapping[str, DiskCounters] | None = None,
    md_ticks: Mapping[str, int] | None = None,
    vanished: frozenset[str] = frozenset(),
) -> Snapshot:
    return Snapshot(time_seconds, arrays, disks or {}, md_ticks or {}, vanished)
