"""Virtual time of a machine: portions, paces, steps, and how it ends."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from lab.errors import LabError, MachineLost
from lab.host.clock import HostClock, wait_for
from lab.session.pace import LONGEST_STEP_SECONDS, PAUSED, STEP, TICK_SECONDS, Pace, Pacer, Portions
from tests.unit.arrays import captures
from tests.unit.fakes import FACTS, FakeMachine
from tests.unit.session.looks import session_on
from tests.waiting import PATIENCE_SECONDS

MD = "/sys/block/md0/md"


@dataclass
class VirtualMachine(FakeMachine):
    """Time passes on it at once; ``acts`` maps a number of sleeps to what happens in that one."""

    sleeps: list[tuple[float, tuple[str, ...]]] = field(default_factory=list)
    acts: dict[int, Callable[[], None]] = field(default_factory=dict)
    error: LabError | None = None

    def sleep(self, seconds: float, *, until: Sequence[str] = ()) -> float:
        self._require_alive()
        self.sleeps.append((seconds, tuple(until)))
        if act := self.acts.get(len(self.sleeps)):
            act()
        if self.error:
            raise self.error
        return super().sleep(seconds)

    def put(self, name: str, text: str) -> None:
        """Set what a file of the array contains from now on."""
        assert f"{MD}/{name}" in self.files
        self.files[f"{MD}/{name}"] = text


@dataclass
class PacerReports:
    """What a pacer reported."""

    pacer: Pacer
    paces: list[tuple[str, str]] = field(default_factory=list)
    ends: list[LabError] = field(default_factory=list)

    def wait(self, is_reached: Callable[[], object], what: str) -> None:
        wait_for(is_reached, bool, what=what, timeout_seconds=PATIENCE_SECONDS, clock=HostClock())

    def step(self) -> None:
        self.pacer.go(STEP)
        self.pacer.start()
        self.wait(lambda: self.paces[-1:] and self.paces[-1][0] == "paused", "the step ends")


@pytest.fixture
def machine() -> VirtualMachine:
    fake = VirtualMachine(facts=replace(FACTS, is_virtual_time=True))
    captures.show(fake, "raid5-rebuilding")
    return fake


@pytest.fixture
def reports(machine: VirtualMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PacerReports]:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    session = session_on(machine, [], "uml:?time=virtual")
    paces: list[tuple[str, str]] = []
    ends: list[LabError] = []
    pacer = Pacer(session, on_pace=lambda pace, note: paces.append((pace.words, note)), on_end=ends.append)
    yield PacerReports(pacer, paces, ends)
    pacer.stop()


def test_a_portion_is_what_the_pace_makes_of_the_time_since() -> None:
    portions = Portions(most_seconds=100.0)
    assert portions.next(1.0, TICK_SECONDS) == TICK_SECONDS
    assert portions.next(100.0, 0.15) == pytest.approx(15.0)
    assert portions.next(math.inf, TICK_SECONDS) == 100.0
    # The time that a computer missed is not made up for.
    assert portions.next(10.0, 60.0) == pytest.approx(10.0 * 2 * TICK_SECONDS)


def test_portions_shrink_where_they_take_long_and_grow_where_they_do_not() -> None:
    portions = Portions(8.0)
    portions.took(8.0, 1.0)
    assert portions.most_seconds == 4.0
    portions.took(4.0, 0.01)
    assert portions.most_seconds == 8.0
    # A portion that the pace made small says nothing about larger ones.
    portions.took(0.1, 0.001)
    assert portions.most_seconds == 8.0
    for _ in range(50):
        portions.took(portions.most_seconds, 1.0)
    assert 0 < portions.most_seconds < 0.1


def test_a_fresh_machine_goes_at_1x(machine: VirtualMachine, reports: PacerReports) -> None:
    reports.pacer.start()
    reports.wait(lambda: len(machine.sleeps) >= 3, "time passes")
    assert reports.paces == [("1x", "")]
    assert all(seconds <= 2 * TICK_SECONDS for seconds, _ in machine.sleeps)


def test_a_pause_lets_nothing_pass_and_another_pace_takes_effect(
    machine: VirtualMachine, reports: PacerReports
) -> None:
    # At first a portion is at most one second long, whatever the pace is.
    reports.pacer._portions.most_seconds = 1000.0
    reports.pacer.go(PAUSED)
    reports.pacer.start()
    time.sleep(3 * TICK_SECONDS)
    assert machine.sleeps == []
    reports.pacer.go(Pace(100.0))
    reports.wait(lambda: len(machine.sleeps) >= 2, "time passes")
    assert [words for words, _ in reports.paces] == ["paused", "paused", "100x"]
    assert machine.sleeps[0][0] == pytest.approx(100 * TICK_SECONDS)


def test_a_step_ends_with_the_event_and_pauses(machine: VirtualMachine, reports: PacerReports) -> None:
    def rebuilt() -> None:
        machine.put("sync_action", "idle\n")

    # In the first sleep, the step learns what the clock shows.
    machine.acts = {4: rebuilt, 5: lambda: machine.put("degraded", "0\n")}
    reports.step()
    assert reports.paces[-1] == ("paused", "")
    # What follows at once belongs to the event: two more sleeps, in the first of which something still changed.
    assert len(machine.sleeps) == 6
    watched = machine.sleeps[1][1]
    assert {f"{MD}/sync_action", f"{MD}/degraded"} < set(watched)
    assert sum("/dev-" in path and path.endswith("/state") for path in watched) == 3
    assert f"{MD}/array_state" not in watched


def test_a_write_to_a_clean_array_is_not_an_event_and_a_step_ends_after_an_hour(
    machine: VirtualMachine, reports: PacerReports
) -> None:
    machine.put("array_state", "clean\n")
    machine.acts = {3: lambda: machine.put("array_state", "active\n")}
    reports.step()
    assert reports.paces[-1] == ("paused", "Nothing has happened to any array for an hour of machine time.")
    assert LONGEST_STEP_SECONDS <= sum(seconds for seconds, _ in machine.sleeps) < LONGEST_STEP_SECONDS + 1


def test_without_an_array_a_step_passes_nothing(machine: VirtualMachine, reports: PacerReports) -> None:
    machine.dirs["/sys/block"] = ("ubda",)
    reports.step()
    assert reports.paces[-1][1].startswith("There is no array")
    assert machine.sleeps == []


def test_another_pace_ends_a_step(machine: VirtualMachine, reports: PacerReports) -> None:
    machine.acts = {3: lambda: reports.pacer.go(Pace(10.0))}
    reports.pacer.go(STEP)
    reports.pacer.start()
    reports.wait(lambda: len(machine.sleeps) >= 6, "time passes")
    assert reports.paces[-1] == ("10x", "")
    assert machine.sleeps[5][1] == ()


def test_an_array_that_goes_is_an_event(machine: VirtualMachine, reports: PacerReports) -> None:
    def gone() -> None:
        machine.dirs["/sys/block"] = ("ubda",)
        machine.error = LabError("the machine could not wait for a file that is not there")

    def back() -> None:
        machine.error = None

    machine.acts = {3: gone, 4: back}
    reports.step()
    assert reports.paces[-1] == ("paused", "")
    assert reports.ends == []


@pytest.mark.parametrize("error", [LabError("the machine could not wait"), MachineLost("gone")])
@pytest.mark.parametrize("pace", [STEP, Pace(1.0)])
def test_an_error_ends_it_once_and_stop_does_no_harm(
    machine: VirtualMachine, reports: PacerReports, pace: Pace, error: LabError
) -> None:
    machine.acts = {2: lambda: setattr(machine, "error", error)}
    reports.pacer.go(pace)
    reports.pacer.start()
    reports.wait(lambda: reports.ends, "the error")
    reports.pacer.stop()
    reports.pacer.stop()
    reports.pacer.go(Pace(10.0))
    assert reports.ends == [error]


def test_a_loss_after_stop_is_not_reported(machine: VirtualMachine, reports: PacerReports) -> None:
    def stopped() -> None:
        reports.pacer._stopping.set()
        machine.error = MachineLost("closed")

    machine.acts = {2: stopped}
    reports.pacer.start()
    reports.wait(lambda: not reports.pacer._thread.is_alive(), "the end")
    assert reports.ends == []
