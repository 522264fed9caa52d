"""A volume of unequal disks in the app, on the real embedded kernel: built, failed and rebuilt with keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.adapt.kind import VolumeArray
from lab.adapt.layout import AdaptLevel
from lab.disks import DiskKind, specs
from lab.units import MIB
from tests.kernel.place import disk_name
from tests.kernel.student import Student, own_state, student_at
from tui.build_screen import BuildScreen

__all__ = ["own_state"]
pytestmark = pytest.mark.kernel
DISKS = (
    *specs(1, DiskKind.FILE, size_bytes=16 * MIB),
    *specs(3, DiskKind.FILE, size_bytes=32 * MIB, first=2),
)


def volume_of(student: Student) -> VolumeArray:
    status = student.lab.selected
    assert isinstance(status, VolumeArray)
    return status


async def build(student: Student) -> None:
    """AdaptRaid5 of a small and two large disks; the fourth stays free."""
    lab = student.lab
    await student.until(lambda: lab.look and lab.is_open, "the lab is open")
    await student.press("2")
    await student.until(lambda: isinstance(student.app.screen, BuildScreen), "the Build screen")
    screen = student.app.screen
    assert isinstance(screen, BuildScreen)
    await student.until(lambda: len(screen.draft.disks) == 4, "disks are chosen")
    while screen.draft.level is not AdaptLevel.ADAPT5:
        await student.press("plus")
    await student.press("tab", "end", "space")
    await student.until(lambda: screen.draft.disks == ("disk01", "disk02", "disk03"), "three disks are chosen")
    await student.press("b")
    await student.confirm()


async def test_a_volume_is_built_failed_and_rebuilt_with_keys(tmp_path: Path) -> None:
    async with student_at(tmp_path, Student, disks=DISKS) as student:
        lab = student.lab
        await build(student)
        await student.until(lambda: isinstance(lab.selected, VolumeArray), "the volume is there")
        assert [status.name for status in lab.arrays] == ["adapt0"], "arrays inside are no arrays of their own"
        await student.until(lambda: not volume_of(student).is_degraded, "the first sync has ended")
        assert [disk.name for disk in lab.free_disks] == ["disk04"]
        await student.told("m writes known data to adapt0")
        await student.press("m")
        await student.until(lambda: "adapt0" in lab.marks, "known data")

        await student.to_disk("disk02")
        await student.press("f")
        await student.confirm()
        await student.told("a adds disk04")
        told = [event.sentence for event in lab.events]
        assert told.count(f"adapt0 lost disk02 (/dev/{disk_name(1)}) in 2 of 2 arrays") == 1

        await student.press("a")
        await student.confirm()
        await student.until(lambda: not volume_of(student).is_degraded, "the volume is whole again")
        told = [event.sentence for event in lab.events]
        assert told.count("a rebuild of adapt0 has begun") <= 1, "one rebuild over both arrays"
        assert [words for words in told if "joined" in words] == [f"disk04 (/dev/{disk_name(3)}) has joined adapt0"]
        assert "adapt0 is whole again" in told
        await student.until(lambda: lab.marks["adapt0"].verdict, "the verdict, unasked")
        verdict = lab.marks["adapt0"].verdict
        assert verdict is not None
        assert verdict.is_intact
