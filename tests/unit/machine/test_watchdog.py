"""A machine that takes too long is closed, and its last words are read before."""

from __future__ import annotations

import threading

from lab.machine.watchdog import Watchdog
from tests.unit.fakes import FakeMachine, as_machine

PATIENCE_SECONDS = 20


class ClosableMachine(FakeMachine):
    def __init__(self) -> None:
        super().__init__()
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()


def test_a_silent_machine_is_closed_and_one_that_reports_stays_open() -> None:
    machine = ClosableMachine()
    with Watchdog(as_machine(machine), 3600.0) as watchdog:
        pass
    assert not machine.closed.is_set()
    assert not watchdog.has_closed
    with Watchdog(as_machine(machine), 3600.0) as watchdog:
        watchdog.seconds = 0.05
        assert machine.closed.wait(PATIENCE_SECONDS)
    assert watchdog.has_closed


def test_another_limit_closes_the_machine_after_its_last_words_were_read() -> None:
    machine = ClosableMachine()
    was_closed: list[bool] = []
    watchdog = Watchdog(
        as_machine(machine),
        3600.0,
        is_exceeded=lambda: True,
        before_closing=lambda: was_closed.append(machine.closed.is_set()),
    )
    with watchdog:
        assert machine.closed.wait(PATIENCE_SECONDS)
    assert watchdog.has_closed
    assert was_closed == [False]
