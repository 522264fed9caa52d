"""The clock of a machine in virtual time: the header, the keys, the charts and the text mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from lab.session.monitor import History
from lab.session.pace import PAUSED, Pace
from tests.tui.conftest import AppMaker, AppPilot, looked, running, until
from tests.tui.fake_lab import FakeLab
from tests.tui.standing import StandingLab
from tests.tui.talk import Talk
from tests.unit.session.looks import look
from tui.app import RaidlabApp
from tui.frontend import NO_PACE
from tui.mode import TopBar
from tui.rack import shown_seconds
from tui.state import LabLooked, LabState, update


@pytest.fixture
def fake_lab(tmp_path: Path, request: pytest.FixtureRequest) -> FakeLab:
    """In virtual time, but for tests that are marked otherwise."""
    is_real = request.node.name.startswith("test_where_time_is_everybodys")
    return FakeLab(tmp_path / "state") if is_real else StandingLab(tmp_path / "state")


def bar(app: RaidlabApp) -> str:
    return str(app.screen.query_one(TopBar).render())


def pace(app: RaidlabApp) -> str:
    return app.lab.pace.words if app.lab.pace else "none"


async def paced(pilot: AppPilot, app: RaidlabApp, words: str) -> None:
    await until(pilot, lambda: pace(app) == words and app.lab.look is not None, f"the pace is {words}")
    app.show_now()
    await pilot.pause()


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_header_shows_the_machines_clock_and_its_pace_whole(
    size: tuple[int, int], app_on: AppMaker, fake_lab: FakeLab
) -> None:
    fake_lab.seconds = 12 * 3600 + 34 * 60
    app = app_on()
    async with running(app, size) as pilot:
        await paced(pilot, app, "1x")
        await pilot.press("space")
        await paced(pilot, app, "paused")
        await until(pilot, lambda: app.client.pacer is not None and app.client.pacer.pace.is_paused, "it stands still")
        app.show_now()
        shown = bar(app)
        assert len(shown) == size[0]
        assert " 12:34:" in shown
        assert " paused  ✔" in shown
        assert "…" not in shown or size[0] > 80


async def test_keys_choose_the_pace(app_on: AppMaker) -> None:
    app = app_on()
    async with running(app) as pilot:
        await paced(pilot, app, "1x")
        for key, words in (
            ("greater_than_sign", "10x"),
            ("greater_than_sign", "100x"),
            ("comma", "paused"),
            ("space", "100x"),
            ("greater_than_sign", "max"),
            ("greater_than_sign", "max"),
            ("less_than_sign", "100x"),
            ("less_than_sign", "10x"),
            ("less_than_sign", "1x"),
            ("less_than_sign", "paused"),
            ("less_than_sign", "paused"),
            ("greater_than_sign", "1x"),
        ):
            await pilot.press(key)
            await paced(pilot, app, words)


async def test_a_step_ends_when_the_rebuild_does(app_on: AppMaker, fake_lab: FakeLab) -> None:
    fake_lab.show("raid5-rebuilding")
    app = app_on()
    machine = fake_lab.machine
    async with running(app) as pilot:
        await paced(pilot, app, "1x")
        machine.may_pass.clear()  # type: ignore[attr-defined] # a StandingMachine
        await pilot.press("full_stop")
        await paced(pilot, app, "step")
        assert " step " in bar(app)
        fake_lab.finish_sync()
        machine.may_pass.set()  # type: ignore[attr-defined]
        await paced(pilot, app, "paused")
        await until(pilot, lambda: not app.lab.arrays[0].is_degraded, "what has happened is seen")
        assert any(any(path.endswith("/sync_action") for path in paths) for paths in machine.untils)  # type: ignore[attr-defined]


async def test_a_clock_that_is_shown_goes_on_where_nothing_else_does(app_on: AppMaker) -> None:
    app = app_on()
    async with running(app) as pilot:
        await paced(pilot, app, "1x")
        assert app.lab.look is not None
        newest, second = app.lab.look, int(app.lab.look.time_seconds)
        # After a step, say, one look shows what it has come to, and no other follows.
        for seconds, is_dull in ((0.2, False), (0.3, True), (0.9, True), (1.0, False), (3601.0, False), (3601.5, True)):
            update(app.lab, LabLooked(replace(newest, time_seconds=second + 10 + seconds)))
            assert app.lab.is_dull is is_dull, seconds


async def test_a_lost_machine_has_no_clock_any_more(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    told: list[str] = []
    async with running(app) as pilot:
        await paced(pilot, app, "1x")
        app.say = lambda text, **_: told.append(text)  # type: ignore[method-assign]
        fake_lab.machine.is_lost = True
        await until(pilot, lambda: not app.lab.is_open, "the loss")
        assert pace(app) == "none"
        assert app.client.pacer is None
        await pilot.press("space")
        assert told == ["There is no machine."]


async def test_the_palette_has_the_keys(app_on: AppMaker) -> None:
    app = app_on()
    async with running(app) as pilot:
        await paced(pilot, app, "1x")
        titles = {command.title for command in app.get_system_commands(app.screen)}
        assert {"Clock: Step", "Clock: Faster", "Clock: Slower"} <= titles


@pytest.mark.parametrize("key", ["space", "comma", "full_stop", "less_than_sign", "greater_than_sign"])
async def test_where_time_is_everybodys_nothing_is_shown_and_the_keys_say_why(
    key: str, app_on: AppMaker, fake_lab: FakeLab
) -> None:
    app = app_on()
    told: list[str] = []
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        assert "1x" not in bar(app)
        assert not any(command.title.endswith(": Step") for command in app.get_system_commands(app.screen))
        app.say = lambda text, **_: told.append(text)  # type: ignore[method-assign]
        await pilot.press(key)
        assert told == [NO_PACE]


def test_charts_show_what_a_minute_of_looks_has_brought() -> None:
    state = LabState(history=History())
    assert shown_seconds(state) == 60.0
    state.pace = Pace(1.0)
    assert state.history is not None
    for number in range(300):
        state.history.add(look(number / 4))
    assert shown_seconds(state) == 60.0
    for number in range(1, 241):
        state.history.add(look(75.0 + number * 25.0))
    assert shown_seconds(state) == 7200.0
    state.pace = PAUSED
    assert shown_seconds(state) == 7200.0


@pytest.fixture
def talk(fake_lab: FakeLab) -> Iterator[Talk]:
    made = Talk(fake_lab)
    yield made
    made.close()


def test_lines_tell_and_choose_the_pace(talk: Talk, fake_lab: FakeLab) -> None:
    talk.hear("and runs at 1x.")
    talk.type("pause")
    talk.hear("and is paused.")
    talk.type(">")
    talk.hear("runs at 1x.")
    talk.type("100x")
    talk.hear("runs at 100x.")
    talk.type("max")
    talk.hear("runs at max.")
    talk.type(",")
    talk.hear("is paused.")
    talk.type(".")
    talk.hear("There is no array to which anything could happen.")
    talk.type("help")
    talk.hear("to the next event")
    assert talk.app.lab.pace == PAUSED


def test_where_time_is_everybodys_lines_say_why(talk: Talk) -> None:
    talk.hear("is running.")
    talk.look()
    talk.type("10x")
    talk.hear(NO_PACE)
    talk.type("help")
    talk.hear("raidlab --help")
    talk.type("")
    talk.hear("next:")
    assert "clock shows" not in talk.said.getvalue()
    assert "virtual: you set" not in talk.said.getvalue()
