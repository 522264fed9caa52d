from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import OptionList

from lab.actions.arrays import USUAL_LOADS, Load
from lab.errors import RunCancelled, WorkloadError
from lab.experiments.schedule import RunProgress
from lab.experiments.schema import built_in_names
from lab.session.load import Forecast
from lab.sweep.schema import built_in_names as sweep_names
from lab.workloads.workload import all_workloads
from tests.tui.conftest import until
from tests.tui.loads import measured, tell, with_array, with_load
from tests.tui.still import StillClient, quiet, run_app, still_app, text_of
from tui.app import RaidlabApp
from tui.run_screen import RunScreen
from tui.runs import ExperimentView, workload_items
from tui.state import LoadEnded

pytestmark = pytest.mark.tui
FORECAST = Forecast(480.0, "4 members of 120 reads per second each")


def screen_of(app: RaidlabApp) -> RunScreen:
    assert isinstance(app.screen, RunScreen)
    return app.screen


async def choose(app: RaidlabApp, pilot: Pilot[object], name: str) -> None:
    found = app.screen.query_one(OptionList)
    found.highlighted = found.get_option_index(name)
    await quiet(app, pilot)


def flat(app: RaidlabApp) -> str:
    """The screen's right half as one line of words, to find sentences that are wrapped."""
    lines = [line.split("│", 2)[-1] if "│" in line else line for line in text_of(app).splitlines()]
    return " ".join(" ".join(lines).replace("│", " ").split())


def test_everything_that_can_be_run_is_in_the_list(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await until(pilot, lambda: bool(app.sweeps.entries), "the sweeps are listed")
        await quiet(app, pilot)
        options = app.screen.query_one(OptionList).options
        ids = {option.id for option in options if option.id}
        assert ids == {*all_workloads(), *built_in_names(), *(f"sweep-{name}" for name in sweep_names())}

    run_app(still_app(tmp_path, "run"), act)


def test_without_an_array_a_workload_cannot_run_and_the_screen_says_what_to_do(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        assert "A workload needs an array: 2 builds one." in text_of(app)
        assert screen_of(app).check_action("run", ()) is None
        await choose(app, pilot, "antioquia-quick")
        assert screen_of(app).check_action("run", ()) is True

    run_app(still_app(tmp_path, "run"), act)


def test_theory_speaks_first_and_the_job_is_shown(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await with_array(app, pilot)
        assert "rw=randread" in text_of(app)
        assert isinstance(app.client, StillClient)
        app.client.jobs[-1].set_result(FORECAST)
        await quiet(app, pilot)
        app.show_now()
        await quiet(app, pilot)
        assert "480 IOPS" in text_of(app)
        assert "Why: 4 members of 120 reads per second each" in flat(app)

    run_app(still_app(tmp_path, "run"), act)


def test_a_running_load_shows_rate_and_time_left(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await with_array(app, pilot)
        await with_load(app, pilot, FORECAST)
        text = text_of(app)
        assert "474 IOPS" in text
        assert "20 s left" in text
        assert "predicted" in text
        assert screen_of(app).check_action("stop", ()) is True
        assert screen_of(app).check_action("run", ()) is None

    run_app(still_app(tmp_path, "run"), act)


def test_afterwards_measured_stands_beside_predicted(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await with_array(app, pilot)
        await with_load(app, pilot, FORECAST)
        tell(app, LoadEnded(measured(470.0)))
        await quiet(app, pilot)
        text = flat(app)
        assert "MEASURED 0.98 × the prediction: within 5% of it" in text
        assert "p99 1.4 ms" in text

    run_app(still_app(tmp_path, "run"), act)


def test_a_load_that_was_stopped_keeps_the_figures_of_what_ran(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await with_array(app, pilot)
        await with_load(app, pilot)
        tell(app, LoadEnded(measured(470.0, seconds=12.0, interrupted=True)))
        await quiet(app, pilot)
        assert "STOPPED after 12 of 30 s on md0; the figures cover that time." in flat(app)
        assert "470 IOPS" in text_of(app)
        tell(app, LoadEnded(None))
        await quiet(app, pilot)
        assert "before anything was measured; nothing is stored." in flat(app)

    run_app(still_app(tmp_path, "run"), act)


def test_a_load_that_fails_says_why_and_what_to_do(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await with_array(app, pilot)
        await with_load(app, pilot)
        tell(app, LoadEnded(WorkloadError("fio stopped: input/output error on md0", hint="look at its disks")))
        await quiet(app, pilot)
        assert "FAILED fio stopped: input/output error on md0. look at its disks." in flat(app)

    run_app(still_app(tmp_path, "run"), act)


def test_earlier_loads_of_the_workload_stay_to_compare_with(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await with_array(app, pilot, "raid5")
        for iops in (81000.0, 79000.0):
            await with_load(app, pilot)
            tell(app, LoadEnded(measured(iops)))
            await quiet(app, pilot)
        before = text_of(app).split("Measured before")[1]
        assert "81k IOPS   p99 1.4 ms" in before
        assert "79k" not in before

    run_app(still_app(tmp_path, "run"), act)


def test_the_length_of_a_load_can_be_chosen(tmp_path: Path) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        assert "30 s" in text_of(app)
        await pilot.press("d")
        await quiet(app, pilot)
        assert "1 min" in text_of(app)
        await pilot.press("tab", "down", "left", "left")
        await quiet(app, pilot)
        assert "10 s" in text_of(app)

    run_app(still_app(tmp_path, "run"), act)


@pytest.mark.parametrize(
    ("result_id", "done", "words"),
    [
        ("", 0, "CANCELLED Nothing had been measured yet, so nothing is stored."),
        ("20261121T1", 12, "CANCELLED 12 of 30 measurements are stored as 20261121T1. Screen 4 resumes it."),
    ],
)
def test_a_cancelled_experiment_says_what_was_kept(tmp_path: Path, result_id: str, done: int, words: str) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        view = ExperimentView("antioquia-quick", RunProgress("RAID 5: Random reads", 0.4, 55.0, done, 30))
        app.experiments.view = view
        await choose(app, pilot, "antioquia-quick")
        assert "NOW RAID 5: Random reads" in flat(app)
        assert "40.0 % 55 s left" in flat(app)
        assert f"{done} of 30" in text_of(app)
        view.outcome, view.result_id = RunCancelled("the run was cancelled"), result_id
        app.show_now()
        await quiet(app, pilot)
        assert words in flat(app)

    run_app(still_app(tmp_path, "run"), act)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 50), (40, 12)])
def test_it_works_on_every_terminal(tmp_path: Path, size: tuple[int, int]) -> None:
    async def act(app: RaidlabApp, pilot: Pilot[object]) -> None:
        await with_array(app, pilot)
        await with_load(app, pilot, FORECAST)
        # Below 80 × 24 it need only stay alive.
        assert "20 s left" in text_of(app) or size < (80, 24)

    run_app(still_app(tmp_path, "run"), act, size)


def test_the_usual_workloads_come_first_here_and_in_the_menu() -> None:
    items, choices = [item.id for item in workload_items()], [choice.id for choice in Load.choices()]
    assert items == choices
    assert tuple(items[: len(USUAL_LOADS)]) == USUAL_LOADS


def test_the_job_says_where_its_seconds_go() -> None:
    item = next(item for item in workload_items() if item.id == "rand-read-4k")
    words = item.details[0]
    seconds = [float(word) for word in re.findall(r"([0-9.]+) s", words)]
    assert seconds[0] == pytest.approx(sum(seconds[1:]))
    assert any(f"runtime={seconds[0] * 1000:.0f}ms" in line for line in item.details)
