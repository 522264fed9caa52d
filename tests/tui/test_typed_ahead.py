"""Keys that come in one packet do what they do one at a time: to the same disk, in the same dialog."""

from __future__ import annotations

import random
import threading

import pytest
from textual import events
from textual.screen import Screen
from textual.widgets import Input

from tests.tui.conftest import AppMaker, idle, looked, reached, running
from tests.tui.fake_lab import FakeLab
from tui.app import RaidlabApp
from tui.dialogs import MenuScreen
from tui.plan_screen import PlanScreen
from tui.rack import Rack

MOVES = ("down", "up", "home", "end", "j", "k", "right", "left", "tab", "shift+tab")
ACTIONS = ("f", "x", "p", "e", "z", "delete", "a", "enter", "w", "t", "s")


def typed(app: RaidlabApp, *keys: str) -> None:
    """All of these keys in one packet: the app does nothing in between."""
    for key in keys:
        app.post_message(events.Key(key, key if len(key) == 1 else None))


def standing(app: RaidlabApp) -> tuple[object, ...]:
    """What is in front, and what it is about."""
    screen = app.screen
    if isinstance(screen, PlanScreen):
        return "plan", screen.plan.title, screen.plan.lines()
    if isinstance(screen, MenuScreen):
        return "menu", screen._title, [choice.id for choice in screen._choices]
    return app.current_mode, app.lab.selected_disk, app.lab.selected_array


@pytest.mark.wide
@pytest.mark.slow
async def test_moves_and_an_action_in_one_packet_have_the_target_of_single_keys(
    app_on: AppMaker, fake_lab: FakeLab
) -> None:
    fake_lab.show("raid5")
    app = app_on()
    chance = random.Random(30)
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        for _ in range(6):
            keys = [*chance.choices(MOVES, k=chance.randint(1, 6)), chance.choice(ACTIONS)]
            found = []
            for at_once in (False, True):
                app.screen.query_one(Rack).focus()
                await pilot.press("home")
                await pilot.pause()
                if at_once:
                    typed(app, *keys)
                for key in () if at_once else keys:
                    await pilot.press(key)
                    await pilot.pause()
                await settled(app)
                await idle(pilot, app)
                found.append(standing(app))
                while len(app.screen_stack) > 1:
                    await pilot.press("escape")
                    await pilot.pause()
            assert found[0] == found[1], keys


def in_front(app: RaidlabApp) -> Screen[object]:
    return app.screen


async def settled(app: RaidlabApp) -> None:
    """All input has been handled."""
    arrived: list[bool] = []
    # Behind the keys in the app's own queue.
    app.call_later(arrived.append, True)
    await reached(lambda: bool(arrived) and not app._typed_ahead.is_busy, "the input is handled")


async def test_down_and_f_in_one_packet_fail_the_disk_under_the_cursor(app_on: AppMaker, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        await pilot.press("home")
        typed(app, "down", "f")
        await settled(app)
        await idle(pilot, app)
        assert isinstance(app.screen, PlanScreen)
        assert app.screen.plan.title == "Fail disk02 (/dev/ubdb) in md0, which breaks md0"
        assert any("ubdb" in line for line in app.screen.plan.lines())


async def test_a_click_and_f_in_one_packet_fail_the_disk_that_was_clicked(app_on: AppMaker, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        await pilot.press("home")
        rack = app.screen.query_one(Rack)
        assert rack.current
        place = rack.content_region
        at = (place.x + 2, place.y + 2 * rack._row_height)
        for kind in (events.MouseDown, events.MouseUp):
            event = kind(None, *at, 0, 0, 1, False, False, False, screen_x=at[0], screen_y=at[1])
            app.post_message(event)
        typed(app, "f")
        await settled(app)
        await idle(pilot, app)
        assert isinstance(app.screen, PlanScreen)
        clicked = rack.current.name
        assert clicked != "disk01"
        assert clicked in app.screen.plan.title


async def test_keys_typed_before_the_plan_is_there_never_reach_the_screen_beneath(
    app_on: AppMaker, fake_lab: FakeLab
) -> None:
    fake_lab.show("raid5")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        holds = threading.Event()
        # The lab's thread is busy: the plan has to wait for its turn.
        app.look_up(lambda _: holds.wait(10))
        typed(app, "f", "enter", "2", "down", "r")
        await settled(app)
        await pilot.pause()
        awaited = in_front(app)
        assert isinstance(awaited, PlanScreen)
        assert not awaited.is_made
        assert app.current_mode == "lab"
        holds.set()
        await idle(pilot, app)
        plan = in_front(app)
        assert isinstance(plan, PlanScreen)
        assert "disk01" in plan.plan.title
        assert not app.lab.operation
        assert len(app.screen_stack) == 2


async def test_nobody_agrees_to_a_plan_that_is_not_on_the_screen_yet(app_on: AppMaker, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5-checking")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        before = len(fake_lab.machine.runs)
        typed(app, "f", "enter", "r")
        await settled(app)
        await idle(pilot, app)
        assert isinstance(in_front(app), PlanScreen)
        assert not any("--fail" in run for run in fake_lab.machine.runs[before:])
        await pilot.press("r")
        await idle(pilot, app)
        assert any("--fail" in run for run in fake_lab.machine.runs[before:])


async def test_a_plan_that_nobody_waits_for_any_longer_is_not_shown(app_on: AppMaker, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        holds = threading.Event()
        app.look_up(lambda _: holds.wait(10))
        typed(app, "f", "escape")
        await settled(app)
        assert len(app.screen_stack) == 1
        holds.set()
        await idle(pilot, app)
        assert len(app.screen_stack) == 1


async def test_what_is_typed_behind_the_key_of_a_dialog_goes_to_the_dialog(app_on: AppMaker, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        typed(app, "8")
        await settled(app)
        await idle(pilot, app)
        typed(app, "g", "1", "2", "3")
        await settled(app)
        await pilot.pause()
        assert app.current_mode == "stripe"
        assert app.screen.query_one(Input).value == "123"


async def test_a_key_is_no_longer_meant_for_an_array_that_has_gone(app_on: AppMaker, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        await idle(pilot, app)
        screen = app.screen
        # As if md0 had taken the place of an array that was shown until now.
        screen._shown = ("md7", screen._shown[1])  # type: ignore[attr-defined]
        typed(app, "delete")
        await settled(app)
        await idle(pilot, app)
        assert len(app.screen_stack) == 1
        typed(app, "delete")
        await settled(app)
        await idle(pilot, app)
        assert isinstance(app.screen, PlanScreen)
