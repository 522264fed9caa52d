"""Shared parts of the tests of a session on a real kernel: its disks, its operations, and a monitor's reports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from lab.arrays import operations
from lab.arrays.spec import ArraySpec
from lab.disks import DiskKind, Lab, specs
from lab.disks.inventory import absent
from lab.errors import LabError
from lab.host.clock import HostClock, wait_for
from lab.session import breaking
from lab.session.breaking import paces
from lab.session.monitor import Event, EventKind, History, Monitor, Snapshot, events_between
from lab.session.session import Client, LabSession
from lab.units import KIB, MIB
from tests.kernel.place import kernel_target
from tests.kernel.rig import written_bytes

FILES = specs(6, DiskKind.FILE, size_bytes=64 * MIB)
SPINDLES = specs(4, DiskKind.SPINDLE, size_bytes=24 * MIB, model="hdd-10k", first=7)
DISKS = (*FILES, *SPINDLES)
"""The disks of the lab in modules that test a session."""
D = [f"disk{number:02d}" for number in range(1, 11)]


@pytest.fixture
def session(lab: Lab) -> Iterator[LabSession]:
    """A session with blank disks and without an array."""
    session = LabSession(Client(kernel_target("name=session"), lab.host), lab)
    nodes = [disk.node for disk in lab.disks]
    before = written_bytes(lab.machine, nodes)
    yield session
    for status in session.statuses():
        session.run(session.array(status.name).stop())
    pulled = absent(lab.machine, [disk.kernel_name for disk in lab.disks])
    for disk in lab.disks:
        if disk.kernel_name in pulled:
            session.run(breaking.plug_in(session, disk.name))
    for name in paces(session):
        session.run(operations.slow(session.lab.disk(name), session.lab.disk(name).model))
    after = written_bytes(lab.machine, nodes)
    lab.reset([disk for disk in lab.disks if after[disk.node] != before[disk.node]])


@dataclass
class Watched:
    session: LabSession
    history: History = field(default_factory=History, repr=False)
    looks: list[Snapshot] = field(default_factory=list, repr=False)
    events: list[Event] = field(default_factory=list)
    ends: list[LabError | None] = field(default_factory=list)

    def on_look(self, look: Snapshot) -> None:
        if self.looks:
            self.events += events_between(self.looks[-1], look, name_of=self.session.disk_name)
        self.looks.append(look)
        self.history.add(look)

    def kinds(self) -> list[EventKind]:
        return [event.kind for event in self.events]

    def wait(self, is_reached: Callable[[Watched], bool], what: str) -> None:
        wait_for(lambda: self, is_reached, what=what, timeout_seconds=120, clock=HostClock())


@contextmanager
def watching(session: LabSession, hertz: float = 8.0) -> Iterator[Watched]:
    watched = Watched(session)
    monitor = Monitor(session, on_snapshot=watched.on_look, on_end=watched.ends.append, hertz=hertz)
    monitor.start()
    try:
        watched.wait(lambda w: bool(w.looks), "a first look")
        yield watched
    finally:
        monitor.stop()


def create(session: LabSession, level: str, disks: list[str], **more: object) -> None:
    nodes = tuple(session.node(name) for name in disks)
    clean = level != "raid0"
    spec = ArraySpec(level, nodes, assume_clean=clean, chunk_bytes=None if level == "raid1" else 64 * KIB, **more)  # type: ignore[arg-type]
    session.run(session.creation(spec))


def by_hand(session: LabSession, line: str) -> None:
    session.machine.run(("sh", "-c", line))
