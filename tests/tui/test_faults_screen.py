from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from textual.widgets import OptionList

from lab.errors import LabError
from lab.faults.crash_points import all_configurations
from lab.faults.history import LEVELS
from lab.faults.scenario import all_scenarios
from lab.faults.scenario_run import StepOutcome, step_lines
from tests.tui.conftest import Start
from tests.tui.user import PATIENCE_SECONDS, User
from tui.faults_screen import FaultItem, FaultsScreen, Line, _stop_if, all_items
from tui.frontend import Cancelled, Frontend, Progress

pytestmark = pytest.mark.app(mode="faults", is_still=True)


def offer(monkeypatch: pytest.MonkeyPatch, work: Callable[[Frontend, Progress, Cancelled], Line]) -> None:
    item = FaultItem("scenario-1", " 1 A fault", (("What must hold", "title"),), work)
    monkeypatch.setattr("tui.faults_screen.all_items", lambda: (item,))


async def until_over(user: User) -> None:
    screen = user.at(FaultsScreen)
    await user.until(lambda: screen.run and not screen.run.is_running, "it is over")


def test_every_scenario_and_every_policy_can_be_picked() -> None:
    ids = [each.id for each in all_items()]
    assert ids[: len(all_scenarios())] == [f"scenario-{each.number}" for each in all_scenarios()]
    policies = {(each.level, each.policy.name) for each in all_configurations()}
    assert len([each for each in ids if each.startswith("points-")]) == len(policies)
    assert [each for each in ids if each.startswith("campaign-")] == [f"campaign-{word}" for word in ("all", *LEVELS)]


async def test_checks_are_listed_before_a_run_and_their_outcomes_after_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work(frontend: Frontend, progress: Progress, cancelled: Cancelled) -> Line:
        progress(("  data: intact", "good"))
        progress(("  degraded: 2, must be 1", "bad"))
        return "NOT as expected: 2 checks", "bad"

    offer(monkeypatch, work)
    async with start() as user:
        assert "What must hold" in user.text
        await user.press("r")
        await until_over(user)
        shown = user.text
        # A check that fails has its own sign, not only another colour.
        assert "✔ data: intact" in shown
        assert "✘ degraded: 2, must be 1" in shown
        assert "✘ NOT as expected: 2 checks" in shown
        await user.press("a")
        assert "What must hold" in user.text


async def test_it_is_ended_at_its_next_step(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    going = threading.Event()

    def work(frontend: Frontend, progress: Progress, cancelled: Cancelled) -> Line:
        going.set()
        while True:
            _stop_if(cancelled)

    offer(monkeypatch, work)
    async with start() as user:
        await user.press("r")
        assert going.wait(PATIENCE_SECONDS)
        await user.show()
        assert user.screen.check_action("run", ()) is None
        await user.press("s")
        await until_over(user)
        assert "Stopped." in user.text


async def test_an_error_is_shown_with_what_to_do(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    def work(frontend: Frontend, progress: Progress, cancelled: Cancelled) -> Line:
        raise LabError("the kernel is not there", hint="make uml-kernel")

    offer(monkeypatch, work)
    async with start() as user:
        user.find(OptionList).focus()
        await user.press("enter")
        await until_over(user)
        assert "the kernel is not there" in user.text
        assert "next: make uml-kernel" in user.text


def test_a_step_that_could_not_be_carried_out_is_shown() -> None:
    lines = step_lines(StepOutcome(do="fail", why="md takes it for broken.", lines=("mdadm --fail",), problem="busy"))
    assert lines == [("fail: md takes it for broken.", "plain"), ("  $ mdadm --fail", "muted"), ("  busy", "bad")]
