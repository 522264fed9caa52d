from __future__ import annotations

import threading
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from lab.errors import LabError
from lab.faults.crash_points import all_configurations
from lab.faults.history import LEVELS
from lab.faults.scenario import all_scenarios
from lab.faults.scenario_run import StepOutcome
from tests.tui.still import quiet, run_app, still_app, text_of
from tui.app import RaidlabApp
from tui.faults_screen import FaultItem, FaultsScreen, Line, all_items, step_lines
from tui.frontend import Cancelled, Frontend, Progress

pytestmark = pytest.mark.tui


def item(work: object) -> FaultItem:
    return FaultItem("scenario-1", " 1 A fault", (("What must hold", "title"),), work)  # type: ignore[arg-type]


def with_items(monkeypatch: pytest.MonkeyPatch, *items: FaultItem) -> None:
    monkeypatch.setattr("tui.faults_screen.all_items", lambda: items)


async def until_over(app: RaidlabApp, pilot: Pilot[object]) -> None:
    for _ in range(500):
        await quiet(app, pilot)
        assert isinstance(app.screen, FaultsScreen)
        if app.screen.run and not app.screen.run.is_running:
            break
        await pilot.pause(0.01)
    await quiet(app, pilot)


def test_every_scenario_and_every_policy_can_be_picked() -> None:
    ids = [each.id for each in all_items()]
    assert ids[: len(all_scenarios())] == [f"scenario-{each.number}" for each in all_scenarios()]
    policies = {(each.level, each.policy.name) for each in all_configurations()}
    assert len([each for each in ids if each.startswith("points-")]) == len(policies)
    assert [each for each in ids if each.startswith("campaign-")] == [f"campaign-{word}" for word in ("all", *LEVELS)]


def test_what_must_hold_stands_there_before_and_what_was_seen_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(frontend: Frontend, progress: Progress, cancelled: Cancelled) -> Line:
        progress(("  data: intact", "good"))
        progress(("  degraded: 2, must be 1", "bad"))
        return "NOT as expected: 2 checks", "bad"

    with_items(monkeypatch, item(work))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        assert isinstance(app.screen, FaultsScreen)
        assert "What must hold" in text_of(app)
        await pilot.press("r")
        await until_over(app, pilot)
        shown = text_of(app)
        # A check that fails has a sign of its own, not only another colour.
        assert "✔ data: intact" in shown
        assert "✘ degraded: 2, must be 1" in shown
        assert "✘ NOT as expected: 2 checks" in shown
        await pilot.press("a")
        await quiet(app, pilot)
        assert "What must hold" in text_of(app)

    run_app(still_app(tmp_path, "faults"), act)


def test_it_is_ended_at_its_next_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    going = threading.Event()

    def work(frontend: Frontend, progress: Progress, cancelled: Cancelled) -> Line:
        from tui.faults_screen import _stop_if

        going.set()
        while True:
            _stop_if(cancelled)

    with_items(monkeypatch, item(work))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await pilot.press("r")
        assert going.wait(10)
        await quiet(app, pilot)
        screen = app.screen
        assert screen.check_action("run", ()) is None
        await pilot.press("s")
        await until_over(app, pilot)
        assert "Stopped." in text_of(app)

    run_app(still_app(tmp_path, "faults"), act)


def test_an_error_is_shown_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(frontend: Frontend, progress: Progress, cancelled: Cancelled) -> Line:
        raise LabError("the kernel is not there", hint="make uml-kernel")

    with_items(monkeypatch, item(work))

    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        app.screen.query_one(OptionList).focus()
        await pilot.press("enter")
        await until_over(app, pilot)
        assert "the kernel is not there" in text_of(app)
        assert "next: make uml-kernel" in text_of(app)

    run_app(still_app(tmp_path, "faults"), act)


def test_a_step_that_could_not_be_carried_out_is_told() -> None:
    lines = step_lines(StepOutcome(do="fail", why="md takes it for broken.", lines=("mdadm --fail",), problem="busy"))
    assert lines == [("md takes it for broken.", "plain"), ("  $ mdadm --fail", "muted"), ("  busy", "bad")]
