"""Intervals that decide how long is measured: where they look, and that they cover all the same."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.results.statistics import Estimate, InterimLook, estimate, looks, looks_of, order_statistic
from tests.unit.results.records import record

TRIES = 6000
WANTED_HALF_WIDTH = 0.05


def test_six_to_twenty_repeats_are_looked_at_three_times() -> None:
    assert looks(6, 20) == (InterimLook(6, 1), InterimLook(12, 2), InterimLook(20, 5))
    assert sum(look.miss for look in looks(6, 20)) == pytest.approx(0.0494, abs=0.0001)


def test_a_fixed_number_of_repeats_has_no_looks_and_few_repeats_decide_nothing() -> None:
    assert looks(6, 0) == looks(6, 6) == ()
    # Below six no interval reaches 95 %, so all cells go on to the last.
    assert looks(3, 5) == (InterimLook(5, 1),)
    assert next(look.n for look in looks(3, 20)) == 6


@given(st.integers(1, 60), st.integers(6, 120))
def test_looks_rise_and_all_of_them_together_miss_in_five_per_cent_at_most(repeats: int, most: int) -> None:
    found = looks(repeats, most)
    if most <= repeats:
        assert not found
        return
    assert len(found) <= 3
    assert found[-1].n == most
    assert found[0].n >= min(max(repeats, 6), most)
    assert all(one.n < other.n for one, other in pairwise(found))
    assert sum(look.miss for look in found) <= 0.05


def test_the_interval_is_that_of_the_look_wherever_a_cell_ends() -> None:
    planned = looks(6, 20)
    covered = 1 - sum(look.miss for look in planned)
    assert order_statistic(20, planned) == (5, covered)
    assert order_statistic(20) == (6, 1 - 2 * 21700 / 2**20)
    # Lost repeats: as often as the next look may miss, and no oftener.
    k, coverage = order_statistic(19, planned)
    assert coverage == covered
    assert InterimLook(19, k).miss <= planned[-1].miss < InterimLook(19, k + 1).miss
    # Nothing was decided before the first look.
    assert order_statistic(4, planned) == (1, 0.875)


def test_the_looks_of_a_record_are_those_of_the_experiment_that_it_holds() -> None:
    assert looks_of(record(experiment_toml="most_repeats = 20\n[disks]\nkind = 'file'\n")) == looks(6, 20)
    assert looks_of(record(experiment_toml="repeats = 8\n")) == ()
    assert looks_of(record(experiment_toml="not an experiment")) == ()


def by_looks(draw: Callable[[], float]) -> Estimate:
    """A cell as it is measured: on to the next look until its interval is narrow."""
    planned = looks(6, 20)
    values: list[float] = []
    for look in planned:
        values += [draw() for _ in range(look.n - len(values))]
        found = estimate(values, planned)
        if found.half_width_fraction <= WANTED_HALF_WIDTH:
            break
    return estimate(values, planned)


def after_every_round(draw: Callable[[], float]) -> Estimate:
    """The rule that was: look after each round, and take the interval of a fixed number."""
    values = [draw() for _ in range(6)]
    while len(values) < 20 and estimate(values).half_width_fraction > WANTED_HALF_WIDTH:
        values.append(draw())
    return estimate(values)


def coverage(rule: Callable[[Callable[[], float]], Estimate], noise: float, *, is_lognormal: bool) -> float:
    source = random.Random(f"{noise} {is_lognormal}")

    def draw() -> float:
        return source.lognormvariate(math.log(100), noise) if is_lognormal else source.gauss(100, 100 * noise)

    found = [rule(draw) for _ in range(TRIES)]
    return sum(each.low <= 100 <= each.high for each in found) / TRIES


def three_errors(share: float) -> float:
    return 3 * math.sqrt(share * (1 - share) / TRIES)


@pytest.mark.parametrize("is_lognormal", [False, True])
@pytest.mark.parametrize("noise", [0.05, 0.08, 0.12, 0.20])
def test_stopping_when_it_is_narrow_costs_nothing_of_the_coverage(noise: float, is_lognormal: bool) -> None:
    assert coverage(by_looks, noise, is_lognormal=is_lognormal) >= 0.95 - three_errors(0.95)


@pytest.mark.slow
def test_a_look_after_every_round_would_cost_it() -> None:
    worst = min(coverage(after_every_round, noise, is_lognormal=False) for noise in (0.08, 0.10, 0.12))
    assert worst < 0.95 - three_errors(0.95)
