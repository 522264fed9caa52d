"""How the app behaves around its screens."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from lab.errors import RUN_AGAIN, LabError
from lab.plans import Plan
from tests.tui.conftest import AppMaker, asked_to_fail, idle, looked, running, until
from tests.tui.fake_lab import FakeLab
from tests.tui.still import text_of
from tests.unit.cli.superblocks import READS, as_read, superblock
from tests.unit.fakes import Scripted
from tui.app import RaidlabApp, Settings
from tui.help import WelcomeScreen
from tui.look import ASCII
from tui.mode import HintLine, ProblemBar
from tui.plan_screen import PlanScreen
from tui.state import MachinePhase, Origin


async def test_the_first_start_welcomes_and_the_second_does_not(app_on: AppMaker) -> None:
    app = app_on(Settings())
    async with running(app) as pilot:
        assert isinstance(app.screen, WelcomeScreen)
        await pilot.press("escape")
        app.keep_settings()
    again = app_on(app.settings.__class__(was_welcomed=True))
    async with running(again):
        assert not isinstance(again.screen, WelcomeScreen)


async def test_a_screens_key_leads_from_the_welcome_to_it(app_on: AppMaker) -> None:
    app = app_on(Settings())
    async with running(app) as pilot:
        await pilot.press("6")
        await until(pilot, lambda: app.current_mode == "lessons", "the key of the course leads there")
        assert not isinstance(app.screen, WelcomeScreen)


async def test_one_key_of_the_welcome_builds_a_raid_5(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on(Settings())
    async with running(app) as pilot:
        await pilot.press("enter")
        created = ("mdadm", "--create", "/dev/md0")
        await until(pilot, lambda: any(run[:3] == created for run in fake_lab.machine.runs), "mdadm --create")
        argv = next(run for run in fake_lab.machine.runs if run[:3] == created)
        assert "--level=raid5" in argv
        assert argv[-4:] == ("/dev/ubda", "/dev/ubdb", "/dev/ubdc", "/dev/ubdd")


async def test_the_welcome_says_that_the_machine_did_not_start_until_it_does(
    app_on: AppMaker, fake_lab: FakeLab
) -> None:
    fake_lab.failure = LabError("the lab is in use", hint="stop the other one")
    app = app_on(Settings())
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: "the lab is in use. stop the other one" in text_of(app), "the problem is told")
        assert "is starting" not in text_of(app)
        assert app.screen.query_one("#welcome-build").disabled
        fake_lab.failure = None
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "It runs:" in text_of(app), "the plan is told")
        assert not app.screen.query_one("#welcome-build").disabled


async def test_an_answer_that_comes_after_the_welcome_was_closed_is_dropped(
    app_on: AppMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a virtual machine without KVM, whose lab takes many seconds to answer."""
    app = app_on(Settings())
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(app, "look_up", lambda _work, **answers: asked.append(answers))
    async with running(app) as pilot:
        await until(pilot, lambda: bool(asked), "the welcome asks for its plan")
        await pilot.press("escape")
        await until(pilot, lambda: not isinstance(app.screen, WelcomeScreen), "the welcome is closed")
        asked[0]["on_done"](Plan("first array", ()))
        asked[0]["on_error"](LabError("no disks"))
        await pilot.pause()
        assert app.is_running


async def test_theme_screen_and_selection_come_back(app_on: AppMaker, tmp_path: Path) -> None:
    app = app_on()
    async with running(app) as pilot:
        await pilot.press("down", "down", "ctrl+t", "5")
        await pilot.pause()
        app.keep_settings()
    stored = json.loads((tmp_path / "app.json").read_text())
    again = app_on(Settings(**stored))
    async with running(again) as pilot:
        await idle(pilot, again)
        assert again.theme == "raidlab-light"
        assert again.current_mode == "commands"
        assert again.lab.selected_disk == "disk03"


async def test_a_plan_runs_exactly_its_steps_and_only_if_confirmed(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with asked_to_fail(app, fake_lab) as (pilot, screen):
        steps = [step.argv for step in screen.plan.steps]
        await pilot.press("escape")
        await idle(pilot, app)
        assert not any("--fail" in run for run in fake_lab.machine.runs)
        await pilot.press("f")
        await idle(pilot, app)
        await pilot.press("r")
        await idle(pilot, app)
        assert len(app.screen_stack) == 1, str(app.screen.query_one("#plan-failure").render())
        assert [run for run in fake_lab.machine.runs if run in steps] == steps
        logged = [entry for entry in app.lab.commands if entry.origin is Origin.PLAN]
        assert logged[-1].why


async def test_a_refusal_is_shown_with_its_hint(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app) as pilot:
        app.ask(lambda session: session.array("md7").stop())
        await until(pilot, lambda: len(app._notifications) > 0, "a notification")
        said = [notification.message for notification in app._notifications]
        assert any("no array md7" in text and "next:" in text for text in said)


@asynccontextmanager
async def with_a_lost_machine(app_on: AppMaker, fake_lab: FakeLab) -> AsyncIterator[tuple[RaidlabApp, Pilot[object]]]:
    """The app on a RAID 5 whose machine has just been lost."""
    fake_lab.show("raid5")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab, 3)
        fake_lab.lose()
        await until(pilot, lambda: app.lab.phase is MachinePhase.LOST, "the machine is lost")
        app.show_now()
        await pilot.pause()
        yield app, pilot


async def test_a_lost_machine_keeps_the_screen_and_starts_again(app_on: AppMaker, fake_lab: FakeLab) -> None:
    async with with_a_lost_machine(app_on, fake_lab) as (app, pilot):
        assert app.lab.arrays, "what was last seen is still shown"
        assert app.screen.query_one("ProblemBar").display
        await pilot.resize_terminal(80, 24)
        await until(pilot, lambda: "raidlab" not in text_of(app).splitlines()[0], "the bar has room for the screens")
        assert "machine lost" in text_of(app).splitlines()[0]
        await pilot.press("ctrl+r")
        await until(pilot, lambda: app.lab.is_open, "the machine runs again")
        assert fake_lab.opened == 2
        app.show_now()
        await pilot.pause()
        assert not app.screen.query_one("ProblemBar").display


async def test_the_next_step_after_a_lost_machine_is_to_start_it(app_on: AppMaker, fake_lab: FakeLab) -> None:
    async with with_a_lost_machine(app_on, fake_lab) as (app, pilot):
        for mode in app.MODES:
            await app.switch_mode(mode)
            await pilot.pause()
            app.show_now()
            await pilot.pause()
            said = str(app.screen.query_one(HintLine).content)
            # These go on without it.
            is_told = mode not in ("faults", "results", "fleet")
            assert ("Ctrl+R restarts the machine" in said) is is_told, f"{mode}: {said}"


@pytest.mark.parametrize(
    ("hint", "told"),
    [
        (RUN_AGAIN, "is lost."),
        (f"{RUN_AGAIN}: it cleans up and starts afresh", "is lost. It cleans up and starts afresh."),
        (f"its kernel hangs: close it and {RUN_AGAIN}", "is lost. Or: its kernel hangs: close it and press Ctrl+R."),
    ],
)
async def test_a_lost_machine_is_remedied_by_a_key(app_on: AppMaker, fake_lab: FakeLab, hint: str, told: str) -> None:
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        fake_lab.lose(hint)
        await until(pilot, lambda: app.lab.phase is MachinePhase.LOST, "the machine is lost")
        app.show_now()
        await pilot.pause()
        bar = app.screen.query_one("ProblemBar", ProblemBar)
        said = " ".join(str(bar.content).split())
        assert said.endswith(f"Ctrl+R starts it again; nothing that was measured or shown {told}")
        assert not [each.message for each in app._notifications if RUN_AGAIN in each.message]


async def test_a_machine_that_does_not_start_says_why(app_on: AppMaker, fake_lab: FakeLab) -> None:
    from lab.errors import ToolMissing

    fake_lab.failure = ToolMissing("linux.uml is not installed", hint="run make lab")
    app = app_on()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.lab.phase is MachinePhase.FAILED, "it failed")
        app.show_now()
        await pilot.pause()
        text = str(app.screen.query_one("ProblemBar").render())
        assert "linux.uml is not installed" in text
        assert "run make lab" in text


async def test_the_keymap_file_gives_other_keys(app_on: AppMaker, fake_lab: FakeLab, tmp_path: Path) -> None:
    keys = tmp_path / "keymap.toml"
    keys.write_text('[keys]\n"lab.fail" = "f8"\n"lab.fial" = "x"\n')
    fake_lab.show("raid5")
    app = app_on(keys_file=keys)
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        assert any("lab.fial" in notification.message for notification in app._notifications)
        await pilot.press("f8")
        await idle(pilot, app)
        assert isinstance(app.screen, PlanScreen)


async def test_other_work_can_have_the_machine_for_a_while(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    seen: list[object] = []

    def work(_progress: object, _cancelled: object) -> str:
        with app.client.released():
            seen.append(app.client.session)
        return "done"

    async with running(app) as pilot:
        app.background.run("other work", work, on_done=seen.append)
        await until(pilot, lambda: fake_lab.opened == 2 and app.lab.is_open, "the lab is open again")
        await until(pilot, lambda: len(seen) == 2, "the work is done")
        assert seen == [None, "done"]


async def test_keys_have_names_where_there_are_no_signs_for_them(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on(glyphs=ASCII)
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        keys = text_of(app).splitlines()[-1]
        assert "enter Disk menu" in keys
        assert keys.isascii()


async def test_what_the_session_finds_on_the_disks_is_shown_unasked(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        assert len(app.lab.free_disks) == len(fake_lab.disks)
        mirror = [superblock(each, [0, 1], level=1, slots=2) for each in (0, 1)]
        blank = [None] * (len(fake_lab.disks) - len(mirror))
        fake_lab.machine.answers[READS] = Scripted(stdout=as_read([*mirror, *blank]))
        app.job("by hand", lambda session: session.rescan())
        await until(pilot, lambda: bool(app.lab.resting_arrays), "the app knows of the array")
        assert [array.name for array in app.lab.resting_arrays] == ["md0"]
        assert len(app.lab.free_disks) == len(blank)


async def test_the_palette_has_every_command_once(app_on: AppMaker) -> None:
    app = app_on()
    async with running(app):
        titles = [command.title for command in app.get_system_commands(app.screen)]
        assert titles.count("App: Help") == 1
        assert len(titles) == len(set(titles))


async def test_the_line_of_keys_offers_to_put_a_failed_member_back(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app) as pilot:
        for label, is_offered in (("raid5-failed", True), ("raid6-failed", False)):
            fake_lab.show(label)
            await looked(pilot, app, fake_lab)
            app.select(disk="disk02")
            await looked(pilot, app, fake_lab)
            offered = {each.binding.key for each in app.screen.active_bindings.values() if each.binding.show}
            assert ("r" in offered) is is_offered, "only a bitmap tells what it missed"
            assert "x" in offered
