"""What stands around every screen fits into 80 columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from tests.tui.still import quiet, run_app, still_app
from tui.app import RaidlabApp
from tui.drills import Drills, DrillView
from tui.keys import SCREENS
from tui.mode import HintLine, ModeScreen, TopBar

pytestmark = pytest.mark.tui
COLUMNS = 80
DRILL = DrillView(
    id="10-created-over",
    title="Somebody ran mdadm --create over the array",
    briefing="",
    rules="",
    hints=(),
    status=(("time", "100 min (meant for 20)"),),
    is_committed=False,
    touched_bytes=0,
    has_more_hints=True,
    seed="",
)
STANDINGS = (None, DRILL, replace(DRILL, touched_bytes=512), replace(DRILL, is_committed=True))


async def each_screen(app: RaidlabApp, pilot: Pilot[object], look: Callable[[ModeScreen], None]) -> None:
    for entry in SCREENS:
        await app.switch_mode(entry.mode)
        await quiet(app, pilot)
        assert isinstance(app.screen, ModeScreen)
        app.screen.update_from(app.lab)
        look(app.screen)


@pytest.mark.parametrize("background", ["", "a long piece of work"], ids=["idle", "busy"])
def test_no_name_of_a_screen_is_cut(tmp_path: Path, background: str) -> None:
    def look(screen: ModeScreen) -> None:
        told = str(screen.query_one(TopBar).render())
        assert all(f"{entry.key} {entry.narrow_title} " in told for entry in SCREENS), told
        assert len(told) == COLUMNS

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        app.lab.background = background
        await each_screen(app, pilot, look)

    run_app(still_app(tmp_path, "lab"), act, (COLUMNS, 24))


@pytest.mark.parametrize("background", ["", "rand-mix-4k on md0"], ids=["idle", "busy"])
def test_what_the_machine_does_is_told_in_whole_where_there_is_room(tmp_path: Path, background: str) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        app.lab.background = background
        await quiet(app, pilot)
        assert isinstance(app.screen, ModeScreen)
        app.screen.update_from(app.lab)
        told = str(app.screen.query_one(TopBar).render())
        assert "…" not in told
        assert background in told

    run_app(still_app(tmp_path, "lab"), act, (120, 40))


@pytest.mark.parametrize("view", STANDINGS, ids=["no drill", "drill", "written", "committed"])
def test_no_next_step_is_cut(tmp_path: Path, view: DrillView | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(screen: ModeScreen) -> None:
        told = str(screen.query_one(HintLine).visual)
        assert len(told) <= COLUMNS, told

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        monkeypatch.setattr(Drills, "refresh", lambda _: None)
        app.drills.view = view
        await each_screen(app, pilot, look)

    run_app(still_app(tmp_path, "lab"), act, (COLUMNS, 24))
