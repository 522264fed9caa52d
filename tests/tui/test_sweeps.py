"""Sweeps on the Run screen: planned, run, stopped, watched, and reported when they are over."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from textual.widgets import OptionList

from lab.errors import ExperimentError, RunCancelled
from lab.experiments.sweeps import LatestCell, SweepListener, SweepProgress, SweepStatus, SweepWork
from lab.machine import Host, parse_target
from lab.sweep.service import LocalDesk
from tests.tui.conftest import Start
from tests.tui.user import User
from tui.sweeps import SweepState, SweepView

pytestmark = pytest.mark.app(mode="run", is_still=True, size=(80, 24))
RUN = "20261125T1-chunks"
NAME = "chunks"
LATEST = (
    LatestCell(label="raid5, 4 members, chunk 16K", told="reads 1,234 IOPS"),
    LatestCell(label="raid5, 4 members, chunk 64K", told="the machine was lost", is_failed=True),
)
WORK = SweepWork(lines=("about 3 min on 2 workers",), cells=48, there=0, run_id="", missing_dependency="")
PROGRESS = SweepProgress(
    done=12, running=2, failed=1, planned=48, workers=2, left_seconds=90.0, dashboard="127.0.0.1:8787", latest=LATEST
)


def going() -> SweepView:
    """A sweep that this app runs."""
    return SweepView(NAME, PROGRESS)


async def sweeping(user: User, state: SweepState | None = None, view: SweepView | None = None) -> None:
    """Select the sweep on the Run screen, in this state."""
    user.app.sweeps._states[NAME] = state or SweepState(WORK)
    user.app.sweeps.view = view
    await select(user)


async def select(user: User) -> None:
    await user.until(lambda: user.app.sweeps.entries, "the sweeps are listed")
    await user.choose(f"sweep-{NAME}")


class Desk:
    """Replaces the plugin's desk: a run lasts until ``may_end`` is set, unless it is cancelled."""

    def __init__(self) -> None:
        self.there = 0
        self.begun: list[str] = []
        self.going = ""
        self.looked = 0
        self.failing = 0
        self.may_end = threading.Event()

    def entries(self) -> tuple[Any, ...]:
        return LocalDesk(parse_target("uml:"), Host.real()).entries()

    def work(self, _name: str) -> Any:
        return replace(WORK, there=self.there, run_id=RUN if self.begun or self.going else "")

    def newest_run(self, _name: str) -> str:
        return RUN if self.begun or self.going else ""

    def going_run(self, _name: str) -> str:
        return self.going

    def status(self, _run_id: str) -> Any:
        self.looked += 1
        tables = () if self.going else ("Best and worst cells\n\nraid5  best  1,234",)
        progress = msgspec.structs.replace(PROGRESS, done=self.looked)
        return SweepStatus(progress=progress, is_running=bool(self.going), tables=tables)

    def run(self, name: str, listener: SweepListener) -> int:
        self.begun.append(name)
        listener.on_notice("a cluster starts")
        listener.on_progress(PROGRESS)
        while not self.may_end.wait(0.01):
            if listener.is_cancelled():
                self.there = 12
                raise RunCancelled("the work was ended before its time")
        self.there = 48 - self.failing
        return self.failing


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch) -> Desk:
    found = Desk()
    monkeypatch.setattr("tui.sweeps._desk", lambda _frontend: found)
    return found


async def choose(user: User) -> None:
    await select(user)
    await user.until(lambda: user.app.sweeps.state(NAME).work is not None, "it is planned")


def may(user: User, action: str) -> bool:
    return user.screen.check_action(action, ()) is True


async def test_a_sweep_is_planned_run_stopped_and_resumed(user: User, desk: Desk) -> None:
    await choose(user)
    user.sees("level: raid5", "about 3 min on 2 workers", "0 of 48")
    assert not may(user, "stop")
    await user.press("r")
    await user.until(lambda: user.app.sweeps.view and user.app.sweeps.view.progress, "it gets on")
    user.sees("12 of 48", "2 on 2 workers", "1:30 min left", "http://127.0.0.1:8787/status")
    user.sees("reads 1,234 IOPS raid5", "raid5, 4 members, chunk 64K: the machine")
    assert not may(user, "run")
    await user.press("s")
    await user.until(lambda: not user.lab.background, "it has ended")
    await user.until(lambda: user.app.sweeps.state(NAME).status is not None, "it is looked at")
    user.sees("STOPPED", "12 of 48 cells are stored; r resumes.", f"raidlab report {RUN} -o sweep.html")
    desk.may_end.set()
    await user.press("r")
    await user.until(lambda: desk.begun == [NAME] * 2 and not user.lab.background, "it is over")
    await user.until(lambda: user.app.sweeps.state(NAME).status is not None, "it is looked at")
    user.sees("COMPLETE", "raid5 best 1,234")
    assert not may(user, "run"), "nothing is left to measure"


async def test_failed_cells_are_reported_at_the_end(user: User, desk: Desk) -> None:
    desk.failing = 2
    desk.may_end.set()
    await choose(user)
    await user.press("r")
    await user.until(lambda: user.notifications, "it is reported")
    assert "2 cells failed" in user.notifications[-1]


@pytest.mark.wide
async def test_one_of_another_process_is_watched_and_not_touched(user: User, desk: Desk) -> None:
    await choose(user)
    assert "RUNNING ELSEWHERE" not in user.text
    desk.going = RUN
    await user.until(lambda: user.app.sweeps.state(NAME).runs_elsewhere, "it is seen")
    user.sees("RUNNING ELSEWHERE", "of 48")
    assert not may(user, "run")
    assert not may(user, "stop")
    looked = desk.looked
    await user.until(lambda: desk.looked >= looked + 2, "it is looked at again and again")
    desk.going, desk.there = "", 48
    desk.begun.append("by another")
    await user.until(lambda: not user.app.sweeps.state(NAME).runs_elsewhere, "its end is seen")
    user.sees("COMPLETE")


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (SweepState(replace(WORK, missing_dependency="make cluster")), ("DASK IS MISSING", "Install it: make cluster")),
        (
            SweepState(problem=ExperimentError("2 cells would measure something else", hint="take longer")),
            ("2 cells would measure something else. take longer.",),
        ),
    ],
    ids=["without Dask", "refused by the lint"],
)
async def test_a_sweep_that_cannot_run_is_shown_with_the_reason(
    user: User, state: SweepState, expected: tuple[str, ...]
) -> None:
    await sweeping(user, state)
    user.sees(*expected)
    assert not may(user, "run")


async def test_without_the_part_there_are_no_sweeps(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    is_asked = threading.Event()

    def extension(_kind: type) -> None:
        is_asked.set()

    def is_answered() -> bool:
        return is_asked.is_set() and "sweeps" not in {thread.name for thread in threading.enumerate()}

    monkeypatch.setattr("tui.sweeps.extension", extension)
    async with start() as user:
        await user.until(is_answered, "the list would be there")
        assert not [option.id for option in user.find(OptionList).options if (option.id or "").startswith("sweep-")]
