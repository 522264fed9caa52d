"""The app on the real embedded kernel, driven by keys: a newcomer's story."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.widgets import Button

from tests.kernel.place import disk_name
from tests.kernel.student import Student, own_state, student_at
from tui.dialogs import MenuScreen
from tui.help import WelcomeScreen
from tui.widgets import VerdictBanner

__all__ = ["own_state"]
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(900)]


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
