"""A drill in the real app and its text mode, on the embedded kernel: made out of sight, counted, reset, judged."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.widgets import OptionList

from lab.disks import DiskKind, specs
from lab.drills.case import DrillStore
from lab.drills.verdict import DrillVerdict
from lab.session.session import LabSession
from lab.units import MIB
from tests.kernel.student import Student, own_state, student_at
from tests.kernel.test_drills import RIGHT
from tui.drill_screen import DebriefScreen, DrillsScreen, MakingScreen
from tui.plan_screen import PlanScreen

__all__ = ["own_state"]
pytestmark = [pytest.mark.kernel, pytest.mark.timeout(1800), pytest.mark.wide]


class Practitioner(Student):
    """Plays a drill: runs commands on the machine, and waits until the app shows their effects."""

    def type(self, lines: str) -> None:
        def work(session: LabSession) -> None:
            desk = self.app.drills._desk
            assert desk is not None
            words = [f"{name}={value}" for name, value in desk.environment().items()]
            session.machine.run(("env", *words, "bash", "-c", lines))

        self.app.look_up(work)

    async def until_touched(self, count: int, what: str) -> None:
        await self.until(lambda: self.app.drills.view and self.app.drills.view.touched_bytes == count, what)


@asynccontextmanager
async def at_the_drill(folder: Path) -> AsyncIterator[Practitioner]:
    """The app with the first drill made."""
    async with student_at(folder, Practitioner, disks=specs(7, DiskKind.FILE, size_bytes=64 * MIB)) as student:
        app = student.app
        await student.until(lambda: app.lab.snapshot is not None, "the lab is open")
        await student.press("9")
        # A drill may be listed before it is shown, and Enter starts the drill that is shown.
        await student.until(
            lambda: any(each.highlighted is not None for each in app.screen.query("#drill-list").results(OptionList)),
            "the drills are shown",
        )
        await student.pilot.press("enter")
        await student.until(lambda: isinstance(app.screen, MakingScreen), "the making is covered")
        await student.until(lambda: app.drills.view is not None and isinstance(app.screen, DrillsScreen), "it is made")
        yield student


async def test_a_drill_from_its_making_to_its_debriefing(tmp_path: Path) -> None:
    async with at_the_drill(tmp_path) as student:
        app, drills = student.app, student.app.drills
        # The user must not see how the drill was made.
        assert not app.lab.events
        assert not [entry for entry in app.lab.commands if "--create" in entry.line]
        await student.press("h")
        await student.until(lambda: drills.view and "Hint 1" in drills.view.text, "a hint")

        student.type("mdadm --stop --scan; dd if=/dev/zero of=$late bs=4096 count=4 seek=2600 oflag=direct")
        await student.until_touched(16384, "counted")
        await student.press("z")
        await student.until_touched(0, "put back")

        await student.press("c")
        await student.until(lambda: drills.view and drills.view.is_committed, "committed")
        student.type(RIGHT)
        student.type("mdadm --stop /dev/md0; overlays up $members; dmsetup remove_all || true")
        await student.press("t")
        assert drills.hides_time
        assert "min" not in dict(drills.view.status if drills.view else ()).get("time", "")
        await student.press("d")
        await student.until(lambda: isinstance(app.screen, DebriefScreen), "the debriefing")
        (outcome,) = DrillStore(app.client.host).all()
        assert (outcome.verdict, outcome.hints, outcome.resets) == (DrillVerdict.SAVED, 1, 1)
        assert "What an expert would have done" in drills.page
        assert outcome.mistakes == ()
        # One key blanks the disks that the drill used, after the plan was shown.
        await student.press("b")
        await student.until(lambda: isinstance(app.screen, PlanScreen), "what will be lost is shown")
        await student.press("r")
        await student.until(lambda: drills.left is None, "the disks are blank")
        await student.until(lambda: drills.view is None and drills.items[0].is_saved, "listed as saved")


async def test_a_drill_in_which_nothing_was_done_is_ended_by_the_second_key_alone(tmp_path: Path) -> None:
    async with at_the_drill(tmp_path) as student:
        app = student.app
        await student.press("d")
        await student.until(lambda: app.drills._may_end, "the message that nothing runs")
        assert not DrillStore(app.client.host).all()
        assert app.drills.view is not None
        await student.press("d")
        await student.until(lambda: isinstance(app.screen, DebriefScreen), "the debriefing")
        (outcome,) = DrillStore(app.client.host).all()
        assert (outcome.verdict, outcome.kept_percent) == (DrillVerdict.STOPPED, 100.0)
        assert [each.id for each in outcome.mistakes] == ["nothing-runs"]


async def test_the_drill_continues_after_the_machine_was_killed(tmp_path: Path) -> None:
    async with at_the_drill(tmp_path) as student:
        app = student.app
        student.type("mdadm --stop --scan; dd if=/dev/urandom of=$late bs=4096 count=4 seek=2600 conv=fsync")
        await student.until_touched(16384, "counted")
        student.kill_machine()
        await student.until(lambda: not app.lab.is_open, "the machine is lost")
        await student.press("ctrl+r")
        await student.until(lambda: app.lab.is_open and app.drills.view is not None, "it goes on")
        assert app.drills.view is not None
        assert app.drills.view.touched_bytes == 16384
        assert not app.drills.view.is_committed
