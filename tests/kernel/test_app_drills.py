"""A drill in the real app and its text mode, on the embedded kernel: made out of sight, counted, put back, judged."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from lab.drills.case import DrillStore
from lab.drills.verdict import DrillVerdict
from lab.gates.decoding import read_own_json
from lab.session.session import LabSession
from tests.kernel.test_app_lessons import student, until
from tui.app import RaidlabApp
from tui.drill_screen import DebriefScreen, DrillsScreen, MakingScreen
from tui.plan_screen import PlanScreen

pytestmark = pytest.mark.kernel
SAVES = """
mdadm --stop --scan
mdadm --assemble --force --run /dev/md0 $members
for d in $stale $second; do mdadm /dev/md0 --add $d; done
mdadm --wait /dev/md0 || true
"""


def in_lab(app: RaidlabApp, lines: str) -> None:
    """Somebody types this at the machine."""

    def work(session: LabSession) -> None:
        desk = app.drills._desk
        assert desk is not None
        words = [f"{name}={value}" for name, value in desk.environment().items()]
        session.machine.run(("env", *words, "bash", "-c", lines))

    app.look_up(work)


async def begin(app: RaidlabApp, pilot: Pilot[object]) -> None:
    await pilot.press("9")
    # Listed is not yet shown, and Enter begins what is shown.
    await until(
        pilot,
        lambda: any(each.highlighted is not None for each in app.screen.query("#drill-list").results(OptionList)),
        "the drills are shown",
    )
    await pilot.press("enter")
    await until(pilot, lambda: isinstance(app.screen, MakingScreen), "the making is covered")
    await until(pilot, lambda: app.drills.view is not None and isinstance(app.screen, DrillsScreen), "it is made")


async def test_a_drill_from_its_making_to_its_debriefing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with student(tmp_path, monkeypatch) as (app, pilot):
        await begin(app, pilot)
        # How it was made is not to be seen.
        assert not app.lab.events
        assert not [entry for entry in app.lab.commands if "--create" in entry.line]
        await pilot.press("h")
        await until(pilot, lambda: "Hint 1" in (app.drills.view.text if app.drills.view else ""), "a hint")

        in_lab(app, "mdadm --stop --scan; dd if=/dev/zero of=$late bs=4096 count=4 seek=2600 oflag=direct")
        await until(pilot, lambda: app.drills.view is not None and app.drills.view.touched_bytes == 16384, "counted")
        await pilot.press("z")
        await until(pilot, lambda: app.drills.view is not None and app.drills.view.touched_bytes == 0, "put back")

        await pilot.press("c")
        await until(pilot, lambda: app.drills.view is not None and app.drills.view.is_committed, "committed")
        in_lab(app, SAVES)
        in_lab(app, "mdadm --stop /dev/md0; overlays up $members; dmsetup remove_all || true")
        await pilot.press("t")
        assert app.drills.hides_time
        assert "min" not in dict(app.drills.view.status if app.drills.view else ()).get("time", "")
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DebriefScreen), "the debriefing")
        (outcome,) = DrillStore(app.client.host).all()
        assert (outcome.verdict, outcome.hints, outcome.resets) == (DrillVerdict.SAVED, 1, 1)
        assert "What an expert would have done" in app.drills.page
        assert outcome.mistakes == ()
        # What it left is taken off the disks by one key, after a look at the plan.
        await pilot.press("b")
        await until(pilot, lambda: isinstance(app.screen, PlanScreen), "what will be lost is shown")
        await pilot.press("r")
        await until(pilot, lambda: app.drills.left is None, "the disks are blank")
        await until(pilot, lambda: app.drills.view is None and app.drills.items[0].is_saved, "listed as saved")


async def test_a_drill_in_which_nothing_was_done_is_ended_by_the_second_key_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with student(tmp_path, monkeypatch) as (app, pilot):
        await begin(app, pilot)
        await pilot.press("d")
        await until(pilot, lambda: app.drills._may_end, "it is said that nothing runs")
        assert not DrillStore(app.client.host).all()
        assert app.drills.view is not None
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, DebriefScreen), "the debriefing")
        (outcome,) = DrillStore(app.client.host).all()
        assert (outcome.verdict, outcome.kept_percent) == (DrillVerdict.STOPPED, 100.0)
        assert [each.id for each in outcome.mistakes] == ["nothing-runs"]


async def test_the_drill_goes_on_after_the_machine_was_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with student(tmp_path, monkeypatch) as (app, pilot):
        await begin(app, pilot)
        in_lab(app, "mdadm --stop --scan; dd if=/dev/urandom of=$late bs=4096 count=4 seek=2600 conv=fsync")
        await until(pilot, lambda: app.drills.view is not None and app.drills.view.touched_bytes > 0, "counted")
        (record,) = (tmp_path / "state").rglob("kernel.json")
        os.killpg(int(read_own_json(record, dict[str, Any])["kernel_group"]), signal.SIGKILL)
        await until(pilot, lambda: not app.lab.is_open, "the machine is lost")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.lab.is_open and app.drills.view is not None, "it goes on")
        assert app.drills.view is not None
        assert app.drills.view.touched_bytes == 16384
        assert not app.drills.view.is_committed
