"""Screens above another leave once, whatever comes together."""

from __future__ import annotations

from textual.widgets import OptionList

from tests.tui.conftest import AppMaker, asked_to_fail, idle, looked, running, until
from tests.tui.fake_lab import FakeLab
from tests.tui.still import text_of
from tui.actions import applying
from tui.dialogs import MenuScreen
from tui.help import HelpScreen


async def test_a_screen_that_has_left_can_be_told_to_leave(app_on: AppMaker, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        await pilot.press("enter")
        await pilot.pause()
        menu = app.screen
        assert isinstance(menu, MenuScreen)
        menu.dismiss(None)
        menu.dismiss(None)
        await pilot.pause()
        assert len(app.screen_stack) == 1


async def test_a_menu_tells_its_notes_in_full_on_a_small_terminal(app_on: AppMaker, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5")
    app = app_on()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: app.lab.is_open, "the lab is open")
        await looked(pilot, app, fake_lab)
        await pilot.press("enter")
        await idle(pilot, app)
        assert isinstance(app.screen, MenuScreen)
        place = app.screen.query_one(OptionList).region
        lines = text_of(app).splitlines()[place.y : place.bottom]
        shown = " ".join(" ".join(line[place.x : place.right] for line in lines).split())
        told = [action.tooltip for action in applying(app.lab) if action.tooltip in shown]
        # The rest is below the end of the list, which scrolls.
        assert len(told) > 7, text_of(app)
        assert max(map(len, told)) > place.width


async def test_a_plan_that_is_done_under_the_help_leaves_after_it(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with asked_to_fail(app, fake_lab) as (pilot, under):
        app.push_screen(HelpScreen(under))
        await pilot.pause()
        under.action_run()
        await idle(pilot, app)
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape")
        await pilot.pause()
        await pilot.pause()
        assert len(app.screen_stack) == 1


async def test_help_explains_dialogs_too_and_leads_back(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with asked_to_fail(app, fake_lab) as (pilot, under):
        await pilot.press("f1")
        await pilot.pause()
        assert isinstance(app.screen, HelpScreen)
        assert "plan.run" in text_of(app)
        await pilot.press("f1")
        await pilot.pause()
        assert app.screen_stack[-1:] == [under]


async def test_what_is_told_never_covers_what_to_do_next(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: app.lab.is_open, "the lab is open")
        await looked(pilot, app, fake_lab)
        for number in range(3):
            app.say(f"told {number}")
        await until(pilot, lambda: "told 2" in text_of(app), "the sentences are on the screen")
        *_, hint, keys = text_of(app).splitlines()
        assert "No array yet. b creates a RAID 5 to start with; 2 offers all choices." in hint
        assert "Build" in keys
