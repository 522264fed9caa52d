"""Sweeps on the Run screen: planned, run, ended, watched, and told when they are over."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from lab.errors import ExperimentError, RunCancelled
from lab.experiments.sweeps import SweepListener
from tests.tui import sweeps
from tests.tui.conftest import until
from tests.tui.still import quiet, run_app, still_app, text_of
from tui.app import RaidlabApp
from tui.run_screen import RunScreen
from tui.sweeps import SweepLook

pytestmark = pytest.mark.tui
SIZES = [(80, 24), (120, 40)]


@pytest.fixture(autouse=True)
def empty_store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))


class Desk:
    """In place of the part's desk: works until somebody lets it, as long as nobody ends it."""

    def __init__(self) -> None:
        self.there = 0
        self.begun: list[str] = []
        self.going = ""
        self.looked = 0
        self.may_end = threading.Event()

    def entries(self) -> tuple[Any, ...]:
        from lab.machine import Host, parse_target
        from lab.sweep.service import LocalDesk

        return LocalDesk(parse_target("uml:"), Host.real()).entries()

    def work(self, _name: str) -> Any:
        return sweeps.work(there=self.there, run_id="20261125T1-chunks" if self.begun or self.going else "")

    def newest_run(self, _name: str) -> str:
        return "20261125T1-chunks" if self.begun or self.going else ""

    def going_run(self, _name: str) -> str:
        return self.going

    def stand(self, _run_id: str) -> Any:
        self.looked += 1
        tables = () if self.going else ("Best and worst cells\n\nraid5  best  1,234",)
        return sweeps.stand(is_running=bool(self.going), tables=tables, progress=sweeps.progress(done=self.looked))

    def run(self, name: str, listener: SweepListener) -> None:
        self.begun.append(name)
        listener.on_notice("a cluster starts")
        listener.on_progress(sweeps.progress())
        while not self.may_end.wait(0.01):
            if listener.is_cancelled():
                self.there = 12
                raise RunCancelled("the work was ended before its time")
        self.there = 48


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    found = Desk()
    monkeypatch.setattr("tui.sweeps._desk", lambda _frontend: found)
    return found


async def choose(app: RaidlabApp, pilot: Pilot[object]) -> RunScreen:
    await until(pilot, lambda: bool(app.sweeps.entries), "the sweeps are listed")
    await quiet(app, pilot)
    found = app.screen.query_one(OptionList)
    found.highlighted = found.get_option_index(f"sweep-{sweeps.NAME}")
    await quiet(app, pilot)
    await until(pilot, lambda: app.sweeps.look(sweeps.NAME).work is not None, "it is planned")
    await quiet(app, pilot)
    assert isinstance(app.screen, RunScreen)
    return app.screen


def flat(app: RaidlabApp) -> str:
    lines = [line.split("││", 1)[-1] for line in text_of(app).splitlines()]
    return " ".join(" ".join(lines).replace("│", " ").split())


@pytest.mark.parametrize("size", SIZES)
def test_a_sweep_is_planned_run_ended_and_gone_on_with(tmp_path: Path, desk: Desk, size: tuple[int, int]) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        screen = await choose(app, pilot)
        text = flat(app)
        assert "level: raid5" in text
        assert "about 3 min on 2 workers" in text
        assert "0 of 48" in text
        assert screen.check_action("stop", ()) is None
        await pilot.press("r")
        await until(pilot, lambda: bool(app.sweeps.view and app.sweeps.view.progress), "it gets on")
        await quiet(app, pilot)
        text = flat(app)
        for words in ("12 of 48", "2 on 2 workers", "1:30 min left", "http://127.0.0.1:8787/status"):
            assert words in text
        assert "reads 1,234 IOPS raid5" in text
        assert "raid5, 4 members, chunk 64K: the machine" in text
        assert screen.check_action("run", ()) is None
        await pilot.press("s")
        await until(pilot, lambda: not app.lab.background, "it has ended")
        await until(pilot, lambda: app.sweeps.look(sweeps.NAME).status is not None, "it is looked at")
        await quiet(app, pilot)
        assert "STOPPED" in flat(app)
        assert "12 of 48 cells are stored; r resumes." in flat(app)
        assert "raidlab report 20261125T1-chunks -o sweep.html" in flat(app)
        desk.may_end.set()
        await pilot.press("r")
        await until(pilot, lambda: desk.begun == [sweeps.NAME] * 2 and not app.lab.background, "it is over")
        await until(pilot, lambda: app.sweeps.look(sweeps.NAME).status is not None, "it is looked at")
        await quiet(app, pilot)
        assert "COMPLETE" in flat(app)
        assert "raid5 best 1,234" in flat(app)
        assert screen.check_action("run", ()) is None, "nothing is left to measure"

    run_app(still_app(tmp_path, "run"), act, size)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.wide
def test_one_of_another_process_is_watched_and_not_touched(tmp_path: Path, desk: Desk, size: tuple[int, int]) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        screen = await choose(app, pilot)
        assert "RUNNING ELSEWHERE" not in flat(app)
        desk.going = "20261125T1-chunks"
        await until(pilot, lambda: app.sweeps.look(sweeps.NAME).runs_elsewhere, "it is seen")
        await quiet(app, pilot)
        assert "RUNNING ELSEWHERE" in flat(app)
        assert "of 48" in flat(app)
        assert screen.check_action("run", ()) is None
        assert screen.check_action("stop", ()) is None
        looked = desk.looked
        await until(pilot, lambda: desk.looked >= looked + 2, "it is looked at again and again")
        desk.going, desk.there = "", 48
        desk.begun.append("by another")
        await until(pilot, lambda: not app.sweeps.look(sweeps.NAME).runs_elsewhere, "its end is seen")
        await quiet(app, pilot)
        assert "COMPLETE" in flat(app)

    run_app(still_app(tmp_path, "run"), act, size)


def test_without_dask_the_command_that_brings_it_stands_there(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await sweeps.sweeping(pilot, app, SweepLook(sweeps.work(missing_dependency="make cluster")))
        assert "DASK IS MISSING" in flat(app)
        assert "Install it: make cluster" in flat(app)
        assert isinstance(app.screen, RunScreen)
        assert app.screen.check_action("run", ()) is None

    run_app(still_app(tmp_path, "run"), act)


def test_a_sweep_that_the_lint_refuses_says_why(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        refusal = ExperimentError("2 cells would measure something else", hint="take longer")
        await sweeps.sweeping(pilot, app, SweepLook(problem=refusal))
        assert "2 cells would measure something else. take longer." in flat(app)
        assert isinstance(app.screen, RunScreen)
        assert app.screen.check_action("run", ()) is None

    run_app(still_app(tmp_path, "run"), act)


def test_without_the_part_there_are_no_sweeps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.plugins.extension", lambda _kind: None)

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await pilot.pause(0.2)
        await quiet(app, pilot)
        options = app.screen.query_one(OptionList).options
        assert not [option.id for option in options if (option.id or "").startswith("sweep-")]

    run_app(still_app(tmp_path, "run"), act)
