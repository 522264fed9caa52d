"""Moments as text, and the polls of a bounded wait."""

from __future__ import annotations

import pytest

from lab.host.clock import polls, utc_text
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


def test_polls_end_with_one_after_the_time_out() -> None:
    clock = FakeClock()
    began = clock.now_seconds
    seen = [(clock.now_seconds - began, is_last) for is_last in polls(clock, 1.0, 0.4)]
    assert seen == [(0.0, False), (pytest.approx(0.4), False), (pytest.approx(0.8), False), (pytest.approx(1.2), True)]
    assert list(polls(clock, 0.0)) == [True]
