"""Screens above another leave once, whatever comes together."""

from __future__ import annotations

from tests.tui.conftest import AppMaker, idle, looked, running
from tests.tui.fake_lab import FakeLab
from tui.screens.help import HelpScreen
from tui.screens.menu import MenuScreen
from tui.screens.plan import PlanScreen


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


async def test_a_plan_that_is_done_under_the_help_leaves_after_it(app_on: AppMaker, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        await pilot.press("f")
        await idle(pilot, app)
        under = app.screen
        assert isinstance(under, PlanScreen)
        app.push_screen(HelpScreen(under))
        await pilot.pause()
        under.action_run()
        await idle(pilot, app)
        assert isinstance(app.screen, HelpScreen)
        await pilot.press("escape")
        await pilot.pause()
        await pilot.pause()
        assert len(app.screen_stack) == 1
