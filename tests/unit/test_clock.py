"""Moments as text."""

from __future__ import annotations

from lab.host.clock import utc_text
from tests.unit.fakes import FakeClock


def test_moments_within_a_second_keep_their_order_as_text() -> None:
    clock = FakeClock()
    moments = []
    for _ in range(12):
        moments.append(utc_text(clock))
        clock.sleep(0.1)
    assert moments == sorted(set(moments))


def test_a_moment_comes_before_a_result_of_the_same_second() -> None:
    # Results are written with whole seconds, and one of the second in which a lesson began belongs to it.
    clock = FakeClock()
    clock.sleep(0.5)
    assert utc_text(clock) <= clock.utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
