"""Keys that arrive in one packet have the same effect as single keys: on the same disk, in the same dialog."""

from __future__ import annotations

import asyncio
import random
import threading

import pytest
from textual import events
from textual.widgets import Input

from tests.tui.conftest import Start
from tests.tui.user import PATIENCE_SECONDS, User
from tui.app import RaidlabApp
from tui.dialogs import MenuScreen
from tui.plan_screen import PlanScreen
from tui.rack import Rack

MOVES = ("down", "up", "home", "end", "j", "k", "right", "left", "tab", "shift+tab")
pytestmark = pytest.mark.app(shows="raid5")
ACTIONS = ("f", "x", "p", "e", "z", "delete", "a", "enter", "w", "t", "s")


async def typed(user: User, *keys: str) -> None:
    """Send these keys in one packet, so that the app does nothing in between, and wait until they are handled."""
    for key in keys:
        user.app.post_message(events.Key(key, key if len(key) == 1 else None))
    arrived: list[bool] = []
    # Queued behind the keys in the app's own queue.
    user.app.call_later(arrived.append, True)
    await user.until(lambda: arrived and not user.app.is_handling_input, "the input is handled")


def in_front(app: RaidlabApp) -> tuple[object, ...]:
    """The screen in front and its subject."""
    screen = app.screen
    if isinstance(screen, PlanScreen):
        return "plan", screen.plan.title, screen.plan.lines()
    if isinstance(screen, MenuScreen):
        return "menu", screen._title, [choice.id for choice in screen._choices]
    return app.current_mode, app.lab.selected_disk, app.lab.selected_array


@pytest.mark.wide
@pytest.mark.slow
async def test_moves_and_an_action_in_one_packet_have_the_target_of_single_keys(user: User) -> None:
    chance = random.Random(30)
    for _ in range(6):
        keys = [*chance.choices(MOVES, k=chance.randint(1, 6)), chance.choice(ACTIONS)]
        found = []
        for packets in ([keys], [[key] for key in keys]):
            user.find(Rack).focus()
            await user.press("home")
            for packet in packets:
                await typed(user, *packet)
            await user.idle()
            found.append(in_front(user.app))
            while len(user.app.screen_stack) > 1:
                await user.press("escape")
        assert found[0] == found[1], keys


async def test_down_and_f_in_one_packet_fail_the_disk_under_the_cursor(user: User) -> None:
    await user.press("home")
    await typed(user, "down", "f")
    plan = (await user.plan()).plan
    assert plan.title == "Fail disk02 (/dev/ubdb) in md0, which breaks md0"
    assert any("ubdb" in line for line in plan.lines())


async def test_a_click_and_f_in_one_packet_fail_the_disk_that_was_clicked(user: User) -> None:
    await user.press("home")
    rack = user.find(Rack)
    assert rack.current
    place = rack.content_region
    at = (place.x + 2, place.y + 2 * rack._row_height)
    for kind in (events.MouseDown, events.MouseUp):
        event = kind(None, *at, 0, 0, 1, False, False, False, screen_x=at[0], screen_y=at[1])
        user.app.post_message(event)
    await typed(user, "f")
    clicked = rack.current.name
    assert clicked != "disk01"
    assert clicked in (await user.plan()).plan.title


async def test_keys_typed_before_the_plan_is_there_never_reach_the_screen_beneath(user: User) -> None:
    holds = threading.Event()
    # The lab's thread is busy, so the plan has to wait.
    user.app.look_up(lambda _: holds.wait(PATIENCE_SECONDS))
    await typed(user, "f", "enter", "2", "down", "r")
    assert user.at(PlanScreen).plan_run is None
    assert user.app.current_mode == "lab"
    holds.set()
    assert "disk01" in (await user.plan()).plan.title
    assert not user.lab.operation
    assert len(user.app.screen_stack) == 2


@pytest.mark.app(shows="raid5-checking")
async def test_a_plan_cannot_be_confirmed_before_it_is_shown(user: User) -> None:
    before = len(user.fake_lab.machine.runs)
    await typed(user, "f", "enter", "r")
    await user.plan()
    assert not any("--fail" in run for run in user.fake_lab.machine.runs[before:])
    await user.press("r")
    await user.idle()
    assert any("--fail" in run for run in user.fake_lab.machine.runs[before:])


async def test_a_plan_that_was_cancelled_is_not_shown(user: User) -> None:
    holds = threading.Event()
    user.app.look_up(lambda _: holds.wait(PATIENCE_SECONDS))
    await typed(user, "f", "escape")
    assert len(user.app.screen_stack) == 1
    holds.set()
    await user.idle()
    assert len(user.app.screen_stack) == 1


async def test_keys_typed_after_the_key_of_a_dialog_go_to_the_dialog(user: User) -> None:
    await typed(user, "8")
    await user.idle()
    await typed(user, "g", "1", "2", "3")
    assert user.app.current_mode == "stripe"
    assert user.find(Input).value == "123"


async def test_a_key_meant_for_an_array_that_no_longer_exists_is_ignored(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A pending redraw would show the current state.
    monkeypatch.setattr(RaidlabApp, "show_soon", lambda _: None)
    async with start() as user:
        await user.idle()
        screen = user.screen
        # As if md0 had just replaced an array that is still shown.
        screen._shown = ("md7", screen._shown[1])  # type: ignore[attr-defined]
        await typed(user, "delete")
        await user.idle()
        assert len(user.app.screen_stack) == 1
        await typed(user, "delete")
        await user.plan()


async def test_an_app_slower_than_all_time_limits_handles_each_key_once(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = {"_PASS_SECONDS": 0.001, "_MOST_TIMEOUTS": 0, "_MOST_PASSES": 1, "_LEAST_PASSES": 1}
    for name, limit in limits.items():
        monkeypatch.setattr(f"tui.app.{name}", limit)
    await user.press("home")
    moves: list[int] = []

    async def move(_: Rack, across: int, down: int) -> None:
        moves.append(down)

    monkeypatch.setattr(Rack, "action_move", move)
    slow = asyncio.create_task(busy(user.app))
    try:
        for _ in range(20):
            user.app.post_message(events.Key("down", None))
        await user.until(lambda: len(moves) >= 20 and not user.app.is_handling_input, "the input is handled")
    finally:
        slow.cancel()
    assert moves == [1] * 20


async def busy(app: RaidlabApp) -> None:
    """Keep the app's own queue busy."""
    while True:
        app.call_later(asyncio.sleep, 0.002)
        await asyncio.sleep(0.002)
