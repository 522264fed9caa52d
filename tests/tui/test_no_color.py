"""``NO_COLOR`` (no-color.org): every state is told by a sign of its own."""

from __future__ import annotations

import pytest
from rich.color import Color

from tests.tui.conftest import AppMaker, looked, running
from tests.tui.fake_lab import FakeLab
from tests.tui.still import text_of
from tui.app import RaidlabApp
from tui.keys import SCREENS


def colours(app: RaidlabApp) -> set[Color]:
    """All that stand on the screen, without greys."""
    found: set[Color] = set()
    for strip in app.screen._compositor.render_strips():
        for segment in strip:
            if segment.style:
                found |= {each for each in (segment.style.color, segment.style.bgcolor) if each and not is_grey(each)}
    return found


def is_grey(colour: Color) -> bool:
    return len(set(colour.get_truecolor())) == 1


async def test_without_colours_the_signs_still_tell_every_state(
    app_on: AppMaker, fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    fake_lab.show("raid5-rebuilding")
    app = app_on()
    async with running(app) as pilot:
        for entry in SCREENS:
            await app.switch_mode(entry.mode)
            await looked(pilot, app, fake_lab)
            assert colours(app) == set(), entry.mode
        await app.switch_mode("lab")
        await looked(pilot, app, fake_lab)
        text = text_of(app)
        assert {"●", "◐", "○", "▲"} <= set(text)


async def test_with_colours_there_are_some(
    app_on: AppMaker, fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        assert colours(app)
