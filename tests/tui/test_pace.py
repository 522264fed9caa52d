"""The clock of a machine in virtual time: the header, the keys, the charts and the text mode."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from lab.machine import SampleRequest
from lab.session.monitor import History
from lab.session.pace import PAUSED, Pace
from tests.tui.conftest import Start
from tests.tui.fake_lab import FakeLab, TickingMachine, TickStream
from tests.tui.talk import Talk
from tests.tui.user import User
from tests.unit.fakes import FACTS
from tests.unit.session.looks import look
from tui.app import RaidlabApp
from tui.frontend import NO_PACE
from tui.mode import TopBar
from tui.rack import shown_seconds
from tui.state import LabState, SnapshotTaken

pytestmark = pytest.mark.app(looks=0)


class StandingLab(FakeLab):
    """A lab in virtual time: samples are requested one by one, and only ``sleep`` advances its clock.

    While ``machine.may_pass`` is cleared, time does not advance, as if the machine were busy.
    """

    def __init__(self, state_folder: Path) -> None:
        super().__init__(state_folder)
        self.machine = StandingMachine(self)
        self.show(None)


class StandingMachine(TickingMachine):
    """A machine whose samples show the lab's current state."""

    def __init__(self, lab: StandingLab) -> None:
        super().__init__(facts=replace(FACTS, is_virtual_time=True))
        self._lab = lab
        self.untils: list[tuple[str, ...]] = []
        self.may_pass = threading.Event()
        self.may_pass.set()

    def sleep(self, seconds: float, *, until: Sequence[str] = ()) -> float:
        self._require_alive()
        self.may_pass.wait(10.0)
        self.untils.append(tuple(until))
        self._lab.seconds += seconds
        return self._lab.seconds

    def sample(self, request: SampleRequest) -> TickStream:  # type: ignore[override] # another kind of stream
        stream = super().sample(request)
        assert request.interval_seconds == 0
        stream.put(self._lab.sample_now())
        stream.put(None)
        return stream


@pytest.fixture
def fake_lab(tmp_path: Path, request: pytest.FixtureRequest) -> FakeLab:
    """A lab in virtual time, except in tests whose names begin with ``test_in_real_time``."""
    is_real = request.node.name.startswith("test_in_real_time")
    return FakeLab(tmp_path / "state") if is_real else StandingLab(tmp_path / "state")


def bar(app: RaidlabApp) -> str:
    return str(app.screen.query_one(TopBar).render())


def pace(app: RaidlabApp) -> str:
    return app.lab.pace.words if app.lab.pace else "none"


async def paced(user: User, words: str) -> None:
    await user.until(lambda: pace(user.app) == words and user.lab.snapshot is not None, f"the pace is {words}")


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_header_shows_the_machines_clock_and_its_pace_whole(
    start: Start, fake_lab: FakeLab, size: tuple[int, int]
) -> None:
    fake_lab.seconds = 12 * 3600 + 34 * 60
    async with start() as user:
        await paced(user, "1x")
        await user.press("space")
        await paced(user, "paused")
        await user.until(
            lambda: user.app.client.pacer is not None and user.app.client.pacer.pace.is_paused, "the clock is paused"
        )
        shown = bar(user.app)
        assert len(shown) == size[0]
        assert " 12:34:" in shown
        assert " paused  ✔" in shown
        assert "…" not in shown or size[0] > 80


async def test_keys_choose_the_pace(user: User) -> None:
    await paced(user, "1x")
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
        await user.press(key)
        await paced(user, words)
    titles = {command.title for command in user.app.get_system_commands(user.screen)}
    assert {"Clock: Step", "Clock: Faster", "Clock: Slower"} <= titles


@pytest.mark.app(shows="raid5-rebuilding")
async def test_a_step_ends_when_the_rebuild_does(user: User) -> None:
    machine = user.fake_lab.machine
    assert isinstance(machine, StandingMachine)
    await paced(user, "1x")
    machine.may_pass.clear()
    await user.press("full_stop")
    await paced(user, "step")
    assert " step " in bar(user.app)
    user.fake_lab.finish_sync()
    machine.may_pass.set()
    await paced(user, "paused")
    await user.until(lambda: not user.lab.arrays[0].is_degraded, "what has happened is seen")
    assert any(any(path.endswith("/sync_action") for path in paths) for paths in machine.untils)


async def test_the_clock_advances_where_nothing_else_changes(user: User) -> None:
    await paced(user, "1x")
    assert user.lab.snapshot is not None
    newest, second = user.lab.snapshot, int(user.lab.snapshot.time_seconds)
    # A single sample shows the result, for example of a step, and no other sample follows.
    for seconds, is_dull in ((0.2, False), (0.3, True), (0.9, True), (1.0, False), (3601.0, False), (3601.5, True)):
        user.app.on_lab_message(SnapshotTaken(replace(newest, time_seconds=second + 10 + seconds)))
        assert user.lab.is_dull is is_dull, seconds


async def test_a_lost_machine_has_no_clock_any_more(user: User) -> None:
    await paced(user, "1x")
    user.fake_lab.machine.is_lost = True
    await user.until(lambda: not user.lab.is_open, "the loss")
    assert pace(user.app) == "none"
    assert user.app.client.pacer is None
    await user.press("space")
    assert user.notifications[-1] == "There is no machine."


@pytest.mark.app(looks=1)
async def test_in_real_time_no_pace_is_shown_and_the_keys_report_why(user: User) -> None:
    assert "1x" not in bar(user.app)
    assert not any(command.title.endswith(": Step") for command in user.app.get_system_commands(user.screen))
    keys = ("space", "comma", "full_stop", "less_than_sign", "greater_than_sign")
    await user.press(*keys)
    assert user.notifications == [NO_PACE] * len(keys)


def test_charts_show_the_machine_time_of_the_last_minute() -> None:
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


def test_typed_lines_show_and_set_the_pace(talk: Talk, fake_lab: FakeLab) -> None:
    talk.hear("and runs at 1x.")
    talk.ask("pause", "and is paused.")
    talk.ask(">", "runs at 1x.")
    talk.ask("100x", "runs at 100x.")
    talk.ask("max", "runs at max.")
    talk.ask(",", "is paused.")
    talk.ask(".", "There is no array, so no event can occur.")
    talk.ask("help", "to the next event")
    assert talk.app.lab.pace == PAUSED


@pytest.mark.app(looks=1)
def test_in_real_time_typed_lines_report_why_there_is_no_pace(talk: Talk) -> None:
    talk.ask("10x", NO_PACE)
    talk.ask("help", "raidlab --help")
    talk.ask("", "next:")
    assert "clock shows" not in talk.output.getvalue()
    assert "virtual: you set" not in talk.output.getvalue()
