"""Estimates, ratios and looks against values worked out by hand and against scipy."""

from __future__ import annotations

import random
import statistics
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.errors import SpecError
from lab.results.statistics import (
    REQUIRED_COVERAGE,
    Estimate,
    InterimLook,
    Ratio,
    RatioTest,
    Side,
    estimate,
    looks,
    looks_of,
    order_statistic,
    order_statistic_coverage,
    outliers,
    repeats_needed,
    smallest_p_value,
)


def test_coverage_of_the_range() -> None:
    assert order_statistic_coverage(1, 1) == 0
    assert order_statistic_coverage(2, 1) == 0.5
    assert order_statistic_coverage(5, 1) == 0.9375
    assert order_statistic_coverage(6, 1) == 0.96875
    # 1 - 2 (1 + 10) / 1024
    assert order_statistic_coverage(10, 2) == pytest.approx(0.978515625)
    assert order_statistic_coverage(2000, 930) > 0.99
    with pytest.raises(SpecError):
        order_statistic_coverage(4, 3)


def test_the_range_of_few_and_inner_samples_of_many() -> None:
    assert estimate([3, 1, 2]) == Estimate(2, 1, 3, 3, 0.75)
    assert estimate([3, 1, 2]).coverage < REQUIRED_COVERAGE
    assert estimate([5, 1, 4, 2, 3, 6]) == Estimate(3.5, 1, 6, 6, 0.96875)
    # n = 8: k = 2 covers 1 - 2 * 9/256 = 93 %, so min..max; n = 9: 1 - 2 * 10/512 = 96 %.
    assert (estimate(range(1, 9)).low, estimate(range(1, 9)).high) == (1, 8)
    assert (estimate(range(1, 10)).low, estimate(range(1, 10)).high) == (2, 8)
    assert (estimate(range(1, 21)).low, estimate(range(1, 21)).high) == (6, 15)
    with pytest.raises(SpecError):
        estimate([])
    with pytest.raises(SpecError, match="not a number"):
        estimate([1.0, float("nan")])


def test_outliers_are_far_from_the_others_and_not_only_from_equal_ones() -> None:
    assert outliers([100, 101, 99, 100, 71, 102]) == (4,)
    assert outliers([100, 100, 100, 100, 100, 104]) == ()
    assert outliers([100, 120, 80, 140, 90, 110]) == ()
    assert outliers([1, 100]) == ()


def test_the_half_width_is_a_part_of_the_median() -> None:
    assert estimate([95, 97, 100, 100, 103, 105]).half_width_fraction == pytest.approx(0.05)
    assert estimate([5]).half_width_fraction == float("inf")
    assert estimate([0, 0, 0, 0, 0, 0]).half_width_fraction == float("inf")


@given(st.lists(st.integers(1, 1000), min_size=6, max_size=40, unique=True))
def test_the_interval_of_a_median_is_that_of_scipy(samples: list[int]) -> None:
    import scipy.stats  # no other worker has to load it

    theirs = scipy.stats.quantile_test(sorted(samples), p=0.5).confidence_interval()
    ours = estimate(samples)
    assert (ours.low, ours.high) == (theirs.low, theirs.high)


def numbered(values: Sequence[float]) -> dict[int, float]:
    return dict(enumerate(values))


def test_drift_that_both_share_does_not_widen_the_interval_of_interleaved_repeats() -> None:
    base = [100.0, 110.0, 120.0, 130.0, 140.0, 150.0]
    ratio = RatioTest.paired(numbered([2 * each for each in base]), numbered(base)).ratio
    assert ratio == Ratio(ratio.median, ratio.low, ratio.high, 6, 0.96875, 0.03125)
    assert [ratio.median, ratio.low, ratio.high] == pytest.approx([2, 2, 2])


def test_repeats_are_paired_by_their_number_whatever_was_lost() -> None:
    """Each lost a different repeat, so both have equally many: paired by position, drift would be a difference."""
    drift = {repeat: 100.0 * 1.2**repeat for repeat in range(9)}
    ours = {repeat: value for repeat, value in drift.items() if repeat != 0}
    theirs = {repeat: value for repeat, value in drift.items() if repeat != 8}
    ratio = RatioTest.paired(ours, theirs).ratio
    assert ratio.n == 7
    assert [ratio.median, ratio.low, ratio.high] == pytest.approx([1, 1, 1])
    assert RatioTest.paired(dict(reversed(ours.items())), theirs).ratio == ratio
    with pytest.raises(SpecError, match="no repeat in common"):
        RatioTest.paired({0: 1.0, 1: 2.0}, {2: 1.0})


def test_the_interval_of_runs_apart_holds_the_ratios_that_mann_whitney_does_not_reject() -> None:
    ratio = RatioTest.apart([10.0] * 6, [4.0, 5.0, 5.0, 5.0, 5.0, 5.0, 8.0]).ratio
    # All 42 ratios in order: six of 1.25, thirty of 2, six of 2.5. P(U <= 5) = 3 / 143 is the largest below 2.5 %.
    assert [ratio.median, ratio.low, ratio.high] == pytest.approx([2, 1.25, 2.5])
    assert ratio.n == 6
    assert ratio.coverage >= 0.95


def test_the_estimate_is_that_of_hodges_and_lehmann() -> None:
    # Of the pairs' logarithms 0, 1 and 8: means 0, 0.5, 1, 4, 4.5, 8, their median 2.5; the pairs' own median is 1.
    pairs = {n: 2.0**power for n, power in enumerate((0, 1, 8))}
    assert RatioTest.paired(pairs, dict.fromkeys(pairs, 1.0)).ratio.median == pytest.approx(2**2.5)
    # 5 / 4, 5 / 1, 7 / 4, 7 / 1: the middle of 1.75 and 5 on a scale of ratios.
    assert RatioTest.apart([5.0, 7.0], [4.0, 1.0]).ratio.median == pytest.approx((1.75 * 5) ** 0.5)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_ratio_refuses_invalid_speeds(bad: float) -> None:
    with pytest.raises(SpecError):
        RatioTest.paired({0: 1.0, 1: 2.0}, {0: 1.0, 1: bad})
    with pytest.raises(SpecError):
        RatioTest.apart([bad, 2.0], [1.0, 3.0])
    with pytest.raises(SpecError):
        RatioTest.apart([], [1.0, 3.0])


def test_p_values_of_a_side_and_of_equivalence() -> None:
    test = RatioTest.paired(numbered([1.2 + n / 100 for n in range(6)]), dict.fromkeys(range(6), 1.0))
    assert test.p_value(Side.GREATER) == 1 / 64
    assert test.p_value(Side.LESS) == 1
    assert test.p_value() == test.smallest_p_value == 2 / 64
    assert test.p_value(Side.LESS, at=1.3) == 1 / 64
    # Between 1.2 and 1.25: within 5 % of 1.22, not of 1.
    assert test.equivalence_p_value(0.05, at=1.22) == 1 / 64
    assert test.equivalence_p_value(0.05) == 1


def test_so_few_repeats_have_a_smallest_p_value_and_many_comparisons_need_more() -> None:
    assert smallest_p_value(6, None) == 2 / 64
    assert smallest_p_value(4, 4) == 2 / 70
    assert smallest_p_value(1, None) == 1
    assert [repeats_needed(count, are_paired=True) for count in (1, 5, 12)] == [6, 8, 9]
    assert repeats_needed(1, are_paired=False) == 4


speeds = st.floats(0.01, 1e6)


@settings(max_examples=40, deadline=None)  # the first one loads scipy
@given(st.lists(st.tuples(speeds, speeds), min_size=1, max_size=20))
def test_the_estimate_lies_in_its_interval(pairs: list[tuple[float, float]]) -> None:
    above, below = [a for a, _ in pairs], [b for _, b in pairs]
    for found in (RatioTest.paired(numbered(above), numbered(below)).ratio, RatioTest.apart(above, below).ratio):
        assert found.low <= found.median * (1 + 1e-12)
        assert found.median <= found.high * (1 + 1e-12)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(speeds, speeds), min_size=6, max_size=12))
def test_the_interval_and_the_p_value_agree(pairs: list[tuple[float, float]]) -> None:
    test = RatioTest.paired(*(numbered(side) for side in zip(*pairs, strict=True)))
    for at in (test.ratio.low / 1.001, test.ratio.high * 1.001):
        assert test.p_value(at=at) <= 0.05
    assert test.p_value(at=test.ratio.median) > 0.05 or statistics.pstdev(test.first) == 0


def test_six_to_twenty_repeats_have_three_interim_looks() -> None:
    assert looks(6, 20) == (InterimLook(6, 1), InterimLook(12, 2), InterimLook(20, 5))
    assert sum(look.miss for look in looks(6, 20)) == pytest.approx(0.0494, abs=0.0001)


def test_a_fixed_number_of_repeats_has_no_interim_looks_and_few_decide_nothing() -> None:
    assert looks(6, 0) == looks(6, 6) == ()
    # Below six no interval reaches 95 %, so all cells go on to the last.
    assert looks(3, 5) == (InterimLook(5, 1),)
    assert next(look.n for look in looks(3, 20)) == 6


@given(st.integers(1, 60), st.integers(6, 120))
def test_interim_looks_increase_and_miss_five_per_cent_in_total_at_most(repeats: int, most: int) -> None:
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
    assert [order_statistic(look.n, planned) for look in planned] == [(look.k, covered) for look in planned]
    assert order_statistic(20) == (6, 1 - 2 * 21700 / 2**20)
    # With lost repeats: it may miss as often as the next look, and no more often.
    k, coverage = order_statistic(19, planned)
    assert coverage == covered
    assert InterimLook(19, k).miss <= planned[-1].miss < InterimLook(19, k + 1).miss
    # Nothing was decided before the first look.
    assert order_statistic(4, planned) == (1, 0.875)


def test_stopping_when_it_is_narrow_costs_nothing_of_the_coverage() -> None:
    """With this noise, cells end at each look; intervals for a fixed number of repeats would cover only 94 %."""
    planned = looks(6, 20)
    source = random.Random(0)
    found = []
    for _ in range(1500):
        values = [source.gauss(100, 8) for _ in range(20)]
        seen = [estimate(values[: look.n], planned) for look in planned]
        found.append(next((each for each in seen if each.half_width_fraction <= 0.05), seen[-1]))
    assert {each.n for each in found} == {6, 12, 20}
    assert sum(each.low <= 100 <= each.high for each in found) / len(found) >= REQUIRED_COVERAGE


def test_interim_looks_are_those_of_the_experiments_file() -> None:
    assert looks_of("most_repeats = 20\n[disks]\nkind = 'file'\n") == looks(6, 20)
    assert looks_of("repeats = 8\n") == looks_of("not an experiment") == ()
