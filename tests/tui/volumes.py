"""Samples of volumes of unequal disks, for tests of the app without a machine."""

from __future__ import annotations

from collections.abc import Iterable

from lab.adapt.kind import VolumeArray
from lab.adapt.spec import VolumeSpec
from lab.session.monitor import Snapshot
from tests.tui.fake_lab import file_disks
from tests.unit.adapt.running import running
from tui.app import RaidlabApp
from tui.state import SnapshotTaken

SMALL, LARGE = 100, 200
UNEQUAL = file_disks(SMALL, *[LARGE] * 5)
SPEC = VolumeSpec(UNEQUAL[:5])
"""A small and four large disks; the last large one stays free."""
FILLED = 2
"""The disk that fails and is rebuilt, by its number in the volume."""


def volume(**how: object) -> VolumeArray:
    """The volume, as ``running`` makes it."""
    return running(SPEC, **how)  # type: ignore[arg-type]


def look_at(app: RaidlabApp, volumes: Iterable[VolumeArray], seconds: float = 0.25) -> None:
    """Give the app a sample with these volumes, ``seconds`` after the previous sample."""
    before = app.lab.snapshot.time_seconds if app.lab.snapshot else 100.0
    app.on_lab_message(SnapshotTaken(Snapshot(before + seconds, tuple(volumes), {})))


def show_rebuild(app: RaidlabApp) -> None:
    """A whole volume; then a disk fails, one of its arrays is rebuilt, and the next one is being rebuilt."""
    own = volume().disks[FILLED].windows
    look_at(app, [volume()])
    look_at(app, [volume(failed=[FILLED])], 10)
    look_at(app, [volume(gone=[FILLED])], 5)
    look_at(app, [volume(filled={FILLED: ()}, syncing={own[0]: 0.5})], 5)
    look_at(app, [volume(filled={FILLED: own[:1]}, syncing={own[1]: 0.4})], 5)
