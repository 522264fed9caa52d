"""A machine that takes too long is closed, and its last words are read before."""

from __future__ import annotations

from lab.machine.watchdog import Watchdog
from tests.unit.fakes import FakeMachine, as_machine
from tests.waiting import wait_until


def test_a_silent_machine_is_closed_and_one_that_reports_stays_open() -> None:
    machine = FakeMachine()
    with Watchdog(as_machine(machine), 3600.0) as watchdog:
        pass
    assert not machine.is_closed
    assert not watchdog.has_closed
    with Watchdog(as_machine(machine), 3600.0) as watchdog:
        watchdog.seconds = 0.05
        wait_until(lambda: machine.is_closed)
    assert watchdog.has_closed


def test_another_limit_closes_the_machine_after_its_last_words_were_read() -> None:
    machine = FakeMachine()
    was_closed: list[bool] = []
    watchdog = Watchdog(
        as_machine(machine),
        3600.0,
        is_exceeded=lambda: True,
        before_closing=lambda: was_closed.append(machine.is_closed),
    )
    with watchdog:
        wait_until(lambda: machine.is_closed)
    assert watchdog.has_closed
    assert was_closed == [False]
