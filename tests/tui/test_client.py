"""The client of the app on a fake lab, without the app."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from lab.disks import Lab
from lab.errors import MachineLost
from lab.host.clock import HostClock, wait_for
from lab.machine.api import CommandResult
from lab.plans import Plan, Step
from tests.tui.fake_lab import FakeLab
from tui.client import CommandLog, LabClient
from tui.state import CommandEntry, Origin, SessionEnded, SessionOpened

PATIENCE_SECONDS = 60.0


def until(condition: Callable[[], object], what: str) -> None:
    wait_for(condition, bool, what=what, timeout_seconds=PATIENCE_SECONDS, clock=HostClock())


def test_work_that_waits_when_the_machine_is_lost_fails_and_does_not_run_on_the_next(fake_lab: FakeLab) -> None:
    posted: list[Any] = []

    def heard(kind: type, count: int) -> None:
        until(lambda: sum(isinstance(each, kind) for each in posted) >= count, f"{count} {kind.__name__}")

    ran: list[str] = []
    holds = threading.Event()
    client = LabClient("uml:", posted.append, host=fake_lab.host, opener=fake_lab.open)
    client.start()
    try:
        heard(SessionOpened, 1)
        until(lambda: fake_lab.machine.stream_of_samples is not None, "samples")
        first = client.submit(lambda _: holds.wait(PATIENCE_SECONDS))
        waiting = client.submit(lambda _: ran.append("waiting"))
        fake_lab.lose()
        until(client._is_over.is_set, "the loss")
        late = client.submit(lambda _: ran.append("late"))
        holds.set()
        heard(SessionEnded, 1)
        assert first.result(PATIENCE_SECONDS)
        for each in (waiting, late):
            assert isinstance(each.exception(PATIENCE_SECONDS), MachineLost)
        assert isinstance(client.submit(lambda _: None).exception(PATIENCE_SECONDS), MachineLost)
        client.start()
        heard(SessionOpened, 2)
        client.submit(lambda _: ran.append("next")).result(PATIENCE_SECONDS)
    finally:
        holds.set()
        client.close()
    assert ran == ["next"]


class SlowLab:
    """A fake lab that opens only when ``may_open`` is set."""

    def __init__(self, lab: FakeLab) -> None:
        self._lab = lab
        self.may_open, self.is_opening, self.has_closed = threading.Event(), threading.Event(), threading.Event()
        self.client = LabClient("uml:", lambda _: None, host=lab.host, opener=self._open)

    @contextmanager
    def _open(self, *given: Any, **more: Any) -> Iterator[Lab]:
        self.is_opening.set()
        assert self.may_open.wait(PATIENCE_SECONDS)
        with self._lab.open(*given, **more) as lab:
            yield lab
        self.has_closed.set()


@pytest.fixture
def slow_lab(fake_lab: FakeLab) -> Iterator[SlowLab]:
    """A lab that is being opened."""
    lab = SlowLab(fake_lab)
    lab.client.start()
    try:
        assert lab.is_opening.wait(PATIENCE_SECONDS)
        yield lab
    finally:
        lab.may_open.set()
        lab.client.close()


def test_work_that_opens_the_machine_itself_waits_for_one_that_starts(slow_lab: SlowLab) -> None:
    seen: list[bool] = []

    def work() -> None:
        for _ in range(2):
            with slow_lab.client.released():
                seen.append(slow_lab.has_closed.is_set())
                slow_lab.has_closed.clear()

    is_waiting = threading.Event()
    settled = slow_lab.client._is_settled
    wait = settled.wait

    def noted(timeout: float | None = None) -> bool:
        is_waiting.set()
        return wait(timeout)

    settled.wait = noted  # type: ignore[method-assign]
    working = threading.Thread(target=work)
    working.start()
    until(lambda: is_waiting.is_set() or seen, "the work waits")
    assert seen == []
    slow_lab.may_open.set()
    working.join(PATIENCE_SECONDS)
    # The second time, the machine is about to be opened again.
    assert seen == [True, True]


def test_work_that_opens_the_machine_itself_does_not_begin_while_the_app_closes(slow_lab: SlowLab) -> None:
    closing = threading.Thread(target=slow_lab.client.close)
    closing.start()
    # The session that is being opened still holds the lab's lock.
    with pytest.raises(MachineLost, match="being closed"), slow_lab.client.released():
        pass
    slow_lab.may_open.set()
    closing.join(PATIENCE_SECONDS)


def test_a_plan_may_be_announced_while_a_command_is_recorded() -> None:
    entries: list[CommandEntry] = []
    log = CommandLog(entries.append, lambda: datetime.now(UTC))
    plan = Plan.of("Change", [Step(("change",), "Why.")])

    class AnnouncingArgv(tuple[str, ...]):
        """A command line that announces a plan whenever it is looked up, as another thread might."""

        def __hash__(self) -> int:
            log.announce(plan)
            return super().__hash__()

    for _ in range(2):
        log.announce(plan)
    log.on_command(CommandResult(AnnouncingArgv(("list",)), 0, "", "", 0.0, 0.0))
    assert [entry.origin for entry in entries] == [Origin.LAB]
