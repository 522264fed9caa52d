"""No size of the window ends the app, whatever it shows."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList

from tests.tui.conftest import AppMaker, looked, running
from tests.tui.fake_lab import FakeLab
from tui.keys import SCREENS

SIZES = ((1, 1), (2, 1), (3, 3), (80, 2), (5, 20), (20, 5), (80, 3), (400, 150), (120, 40))


@pytest.mark.parametrize(
    "keys", [(entry.key,) for entry in SCREENS] + [("question_mark",), ("ctrl+p",), ("f",), ("b",)]
)
async def test_every_screen_bears_every_size(keys: tuple[str, ...], app_on: AppMaker, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        await pilot.press(*keys)
        await pilot.pause()
        for columns, rows in SIZES:
            await pilot.resize_terminal(columns, rows)
            app.show_now()
            await pilot.pause()
            await pilot.press("pageup", "pagedown", "home", "end", "up", "down")


async def test_a_page_of_a_list_without_lines_is_nowhere(app_on: AppMaker) -> None:
    app = app_on()
    async with running(app, size=(80, 2)) as pilot:
        await pilot.press("ctrl+p", "pageup", "pagedown", "l", "pagedown", "pageup")
        await pilot.pause()
        assert any(each.option_count for each in app.screen.query(OptionList))


async def test_the_palette_that_has_left_runs_nothing_twice(app_on: AppMaker) -> None:
    app = app_on()
    async with running(app) as pilot:
        await pilot.press("ctrl+p")
        await pilot.pause()
        palette = app.screen
        await pilot.press("escape")
        palette.dismiss()
        await pilot.pause()
        assert app.screen is not palette
