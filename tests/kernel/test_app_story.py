"""The app on the real embedded kernel, driven by keys: a newcomer's story, and a volume of unequal disks."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Button

from lab.adapt.kind import VolumeArray
from lab.adapt.layout import AdaptLevel
from lab.disks import DiskKind, specs
from lab.units import MIB
from tests.kernel.place import disk_name
from tests.kernel.student import Student, own_state, student_at
from tui.build_screen import BuildScreen
from tui.dialogs import MenuScreen
from tui.help import WelcomeScreen
from tui.widgets import VerdictBanner

__all__ = ["own_state"]
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(900)]
UNEQUAL = (*specs(1, DiskKind.FILE, size_bytes=16 * MIB), *specs(3, DiskKind.FILE, size_bytes=32 * MIB, first=2))


async def test_a_newcomer_gets_from_nothing_to_data_intact_by_following_the_screen(tmp_path: Path) -> None:
    async with student_at(tmp_path, Student, was_welcomed=False) as student:
        lab = student.lab
        await student.until(lambda: isinstance(student.app.screen, WelcomeScreen), "the welcome")
        assert student.app.screen.query_one("#welcome-build", Button).has_focus
        await student.press("enter")
        await student.until(lambda: lab.selected, "a first array")
        assert lab.selected is not None
        assert (lab.selected.level, lab.selected.raid_disks) == ("raid5", 4)

        await student.sees_hint("m writes known data")
        await student.press("m")
        await student.sees_hint("w starts a load on md0")
        await student.press("w")
        await student.until(lambda: isinstance(student.app.screen, MenuScreen), "the workloads")
        await student.press("enter")
        await student.sees_hint("press f to fail it")
        await student.until(lambda: lab.load and lab.load.newest, "live figures of the load")

        await student.to_disk("disk02")
        await student.press("f")
        await student.confirm()
        await student.sees_hint("a adds disk05")
        await student.press("a")
        await student.confirm()
        await student.sees_hint("The data are intact, under load")
        banner = student.app.screen.query_one(VerdictBanner)
        assert banner.display
        assert "DATA INTACT" in banner.render_line(0).text
        status = lab.selected
        assert status.in_sync_count == 4
        assert {lab.disk_name(member.device) for member in status.members if member.is_in_sync} == {
            "disk01", "disk03", "disk04", "disk05",
        }  # fmt: skip
        kinds = [event.kind.value for event in lab.events]
        assert "restored" in kinds[kinds.index("member-faulty") :]

        await student.press("w")
        await student.until(lambda: lab.past_loads, "the figures of the load")
        assert any(f"--fail /dev/{disk_name(1)}" in entry.line for entry in lab.commands)
        await student.sees_hint("Done")


def volume_of(student: Student) -> VolumeArray:
    status = student.lab.selected
    assert isinstance(status, VolumeArray)
    return status


async def build_volume(student: Student) -> None:
    """Build AdaptRaid5 from a small disk and two large ones. The fourth disk stays free."""
    lab = student.lab
    await student.until(lambda: lab.snapshot and lab.is_open, "the lab is open")
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
    async with student_at(tmp_path, Student, disks=UNEQUAL) as student:
        lab = student.lab
        await build_volume(student)
        await student.until(lambda: isinstance(lab.selected, VolumeArray), "the volume is there")
        assert [status.name for status in lab.arrays] == ["adapt0"], "arrays inside are no arrays of their own"
        await student.until(lambda: not volume_of(student).is_degraded, "the first sync has ended")
        assert [disk.name for disk in lab.free_disks] == ["disk04"]
        await student.sees_hint("m writes known data to adapt0")
        await student.press("m")
        await student.until(lambda: "adapt0" in lab.marks, "known data")

        await student.to_disk("disk02")
        await student.press("f")
        await student.confirm()
        await student.sees_hint("a adds disk04")
        sentences = [event.sentence for event in lab.events]
        assert sentences.count(f"adapt0 lost disk02 (/dev/{disk_name(1)}) in 2 of 2 arrays") == 1

        await student.press("a")
        await student.confirm()
        await student.until(lambda: not volume_of(student).is_degraded, "the volume is whole again")
        sentences = [event.sentence for event in lab.events]
        assert sentences.count("a rebuild of adapt0 has begun") <= 1, "one rebuild over both arrays"
        assert [words for words in sentences if "joined" in words] == [
            f"disk04 (/dev/{disk_name(3)}) has joined adapt0"
        ]
        assert "adapt0 is whole again" in sentences
        await student.until(lambda: lab.marks["adapt0"].verdict, "the verdict, unasked")
        verdict = lab.marks["adapt0"].verdict
        assert verdict is not None
        assert verdict.is_intact
