"""What the app does not do: paint what is the same, and look at objects that stay."""

from __future__ import annotations

import gc
from dataclasses import replace

import pytest
from rich.segment import Segment
from textual.strip import Strip

from tests.tui.conftest import AppMaker, looked, running
from tests.tui.fake_lab import TICK_SECONDS, FakeLab
from tui.base_app import settle_collector
from tui.widgets import differing_cells


async def test_a_lab_in_which_nothing_happens_writes_nothing(
    app_on: AppMaker, fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_lab.show("raid5")
    fake_lab.finish_sync()
    fake_lab.md_works = False
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab, 2)
        look, history = app.lab.look, app.lab.history
        assert look is not None
        assert history is not None
        # Longer than the charts show, and into the middle of a minute.
        for _ in range(360):
            fake_lab.seconds += TICK_SECONDS
            history.add(replace(look, time_seconds=fake_lab.seconds))
        await looked(pilot, app, fake_lab, 2)
        painted: list[object] = []
        monkeypatch.setattr(app, "_display", lambda _screen, update: painted.append(update))
        await looked(pilot, app, fake_lab, 3)
        assert painted == []
        fake_lab.busy = 1 << 20
        await looked(pilot, app, fake_lab, 2)
        assert painted


async def test_quiet_looks_are_shown_ever_more_rarely_and_news_at_once(
    app_on: AppMaker, fake_lab: FakeLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_lab.show("raid5")
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        shown: list[float] = []
        # Only what the samples themselves bring about counts.
        monkeypatch.setattr(app, "show_now", lambda: None)
        app.watch(app, "changes", lambda: shown.append(fake_lab.seconds), init=False)
        await looked(pilot, app, fake_lab, 41)
        assert 3 <= len(shown) <= 10
        fake_lab.busy = 1 << 20
        await looked(pilot, app, fake_lab)
        assert shown[-1] == fake_lab.seconds


def test_only_the_cells_that_differ_are_found() -> None:
    old = Strip([Segment("name "), Segment("12"), Segment(" free")])
    new = Strip([Segment("name "), Segment("13"), Segment(" free")])
    assert differing_cells(old, old) == (0, 0)
    assert differing_cells(old, new) == (5, 7)
    assert differing_cells(Strip([Segment("ab")]), Strip([Segment("a"), Segment("b")])) == (0, 2)


def test_what_has_been_loaded_is_not_looked_at_again() -> None:
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    settle_collector()
    assert gc.get_freeze_count() > 10_000
    assert gc.get_threshold()[0] > 700
