from __future__ import annotations

import re

import pytest
from msgspec.structs import replace
from textual.widgets import OptionList

from lab.actions.arrays import USUAL_LOADS, Load
from lab.arrays.status import ArrayStatus, read_array
from lab.errors import LabError, RunCancelled, WorkloadError
from lab.experiments.schedule import RunProgress
from lab.experiments.schema import built_in_names
from lab.measure.job import Measured
from lab.session.load import Forecast, LoadPhase
from lab.session.monitor import Snapshot
from lab.sweep.schema import built_in_names as sweep_names
from lab.units import MIB
from lab.workloads.fio_output import JobFigures, LiveInterval
from lab.workloads.workload import all_workloads
from tests.tui.user import User
from tests.unit.arrays.captures import machine_with
from tests.unit.results.records import direction
from tui.runs import ExperimentView, workload_items
from tui.state import LabMessage, LoadEnded, LoadTicked, LoadView, SnapshotTaken

FORECAST = Forecast(480.0, "4 members of 120 reads per second each")
pytestmark = pytest.mark.app(mode="run", is_still=True)


def array() -> ArrayStatus:
    """A captured array, as md0."""
    return read_array(machine_with("raid5"), "md0")


def measured(iops: float, *, seconds: float = 30.0, interrupted: bool = False) -> Measured:
    """The outcome of a load that read blocks of 4 KiB."""
    reads = replace(direction(iops, seconds=seconds, p99=0.0014), p50_seconds=0.00018, max_seconds=0.02)
    figures = JobFigures(
        job_name="load", reads=reads, fio_user_cpu_percent=1.0, fio_system_cpu_percent=2.0, interrupted=interrupted
    )
    return Measured(figures, "", 256 * MIB)


async def with_array(user: User) -> None:
    """Show an array in the lab."""
    await post(user, SnapshotTaken(Snapshot(100.0, (array(),), {})))


async def with_load(user: User, forecast: Forecast | None = None) -> None:
    """Show a load ``rand-read-4k`` that has run for 10 of 30 seconds on an array."""
    await with_array(user)
    user.lab.load = LoadView("rand-read-4k", "md0", 30.0, phase=LoadPhase.RUNNING.value, forecast=forecast)
    await user.show()
    for number in range(1, 21):
        iops = 460.0 + 7.0 * (number % 3)
        reads = replace(direction(iops, seconds=0.5, p99=0.0014), p50_seconds=0.00018)
        moment = 100.0 + number / 2
        user.app.post_message(LoadTicked(LiveInterval(0.5, reads, None, is_warmup=False), moment))
    await post(user, SnapshotTaken(Snapshot(110.0, (array(),), {})))


async def post(user: User, message: LabMessage) -> None:
    """Post a message as the lab's threads do."""
    user.app.post_message(message)
    await user.show()


async def test_everything_that_can_be_run_is_in_the_list(user: User) -> None:
    await user.until(lambda: user.app.sweeps.entries, "the sweeps are listed")
    ids = {option.id for option in user.find(OptionList).options if option.id}
    assert ids == {*all_workloads(), *built_in_names(), *(f"sweep-{name}" for name in sweep_names())}


async def test_without_an_array_a_workload_cannot_run_and_the_screen_shows_what_to_do(user: User) -> None:
    user.sees("A workload needs an array: 2 builds one.")
    assert user.screen.check_action("run", ()) is None
    await user.choose("antioquia-quick")
    assert user.screen.check_action("run", ()) is True


async def test_theory_speaks_first_and_the_job_is_shown(user: User) -> None:
    await with_array(user)
    user.sees("rw=randread")
    user.jobs[-1].set_result(FORECAST)
    await user.until(lambda: "480 IOPS" in user.text, "the forecast")
    user.sees("Why: 4 members of 120 reads per second each")


async def test_a_running_load_shows_rate_and_time_left(user: User) -> None:
    await with_load(user, FORECAST)
    user.sees("474 IOPS", "20 s left", "predicted")
    assert user.screen.check_action("stop", ()) is True
    assert user.screen.check_action("run", ()) is None


@pytest.mark.parametrize(
    ("outcome", "expected"),
    [
        (measured(470.0), ("MEASURED 0.98 × the prediction: within 5% of it", "p99 1.4 ms")),
        (
            measured(470.0, seconds=12.0, interrupted=True),
            ("STOPPED after 12 of 30 s on md0; the figures cover that time.", "470 IOPS"),
        ),
        (None, ("before anything was measured; nothing is stored.",)),
        (
            WorkloadError("fio stopped: input/output error on md0", hint="look at its disks"),
            ("FAILED fio stopped: input/output error on md0. look at its disks.",),
        ),
    ],
    ids=["measured", "stopped", "stopped at once", "failed"],
)
async def test_the_outcome_of_a_load_is_shown(
    user: User, outcome: Measured | LabError | None, expected: tuple[str, ...]
) -> None:
    await with_load(user, FORECAST)
    await post(user, LoadEnded(outcome))
    user.sees(*expected)


async def test_earlier_loads_of_the_workload_stay_to_compare_with(user: User) -> None:
    for iops in (81000.0, 79000.0):
        await with_load(user)
        await post(user, LoadEnded(measured(iops)))
    before = user.text.split("Measured before")[1]
    assert "81k IOPS   p99 1.4 ms" in before
    assert "79k" not in before


async def test_the_length_of_a_load_can_be_chosen(user: User) -> None:
    user.sees("30 s")
    await user.press("d")
    user.sees("1 min")
    await user.press("tab", "down", "left", "left")
    user.sees("10 s")


@pytest.mark.parametrize(
    ("result_id", "done", "words"),
    [
        ("", 0, "CANCELLED Nothing had been measured yet, so nothing is stored."),
        ("20261121T1", 12, "CANCELLED 12 of 30 measurements are stored as 20261121T1. Screen 4 resumes it."),
    ],
)
async def test_a_cancelled_experiment_shows_what_was_stored(user: User, result_id: str, done: int, words: str) -> None:
    view = ExperimentView("antioquia-quick", RunProgress("RAID 5: Random reads", 0.4, 55.0, done, 30))
    user.app.experiments.view = view
    await user.choose("antioquia-quick")
    user.sees("NOW RAID 5: Random reads", "40.0 % 55 s left", f"{done} of 30")
    view.outcome, view.result_id = RunCancelled("the run was cancelled"), result_id
    await user.show()
    user.sees(words)


def test_the_usual_workloads_come_first_here_and_in_the_menu() -> None:
    items, choices = [item.id for item in workload_items()], [choice.id for choice in Load.choices()]
    assert items == choices
    assert tuple(items[: len(USUAL_LOADS)]) == USUAL_LOADS


def test_the_job_shows_a_breakdown_of_its_seconds() -> None:
    item = next(item for item in workload_items() if item.id == "rand-read-4k")
    words = item.details[0]
    seconds = [float(word) for word in re.findall(r"([0-9.]+) s", words)]
    assert seconds[0] == pytest.approx(sum(seconds[1:]))
    assert any(f"runtime={seconds[0] * 1000:.0f}ms" in line for line in item.details)
