"""Order statistics against values worked out by hand."""

from __future__ import annotations

import random
import statistics

import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import SpecError
from lab.results.statistics import WANTED_COVERAGE, Estimate, estimate, order_statistic_coverage, outliers


def test_coverage_of_the_range() -> None:
    assert order_statistic_coverage(1, 1) == 0
    assert order_statistic_coverage(2, 1) == 0.5
    assert order_statistic_coverage(5, 1) == 0.9375
    assert order_statistic_coverage(6, 1) == 0.96875
    # 1 - 2 (1 + 10) / 1024
    assert order_statistic_coverage(10, 2) == pytest.approx(0.978515625)
    assert order_statistic_coverage(5000, 2400) > 0.99
    with pytest.raises(SpecError):
        order_statistic_coverage(4, 3)


def test_the_range_of_few_and_inner_samples_of_many() -> None:
    assert estimate([3, 1, 2]) == Estimate(2, 1, 3, 3, 0.75)
    assert estimate([3, 1, 2]).coverage < WANTED_COVERAGE
    assert estimate([5, 1, 4, 2, 3, 6]) == Estimate(3.5, 1, 6, 6, 0.96875)
    # n = 8: k = 2 covers 1 - 2 * 9/256 = 93 %, so min..max; n = 9: 1 - 2 * 10/512 = 96 %.
    assert (estimate(range(1, 9)).low, estimate(range(1, 9)).high) == (1, 8)
    assert (estimate(range(1, 10)).low, estimate(range(1, 10)).high) == (2, 8)
    assert (estimate(range(1, 21)).low, estimate(range(1, 21)).high) == (6, 15)
    with pytest.raises(SpecError):
        estimate([])


def test_a_sample_that_is_no_number_is_refused() -> None:
    with pytest.raises(SpecError, match="no number"):
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
    theirs = scipy.stats.quantile_test(sorted(samples), p=0.5).confidence_interval()
    ours = estimate(samples)
    assert (ours.low, ours.high) == (theirs.low, theirs.high)


@given(st.lists(st.floats(0.001, 1e9), min_size=1, max_size=60))
def test_the_median_lies_in_its_interval(samples: list[float]) -> None:
    found = estimate(samples)
    assert found.low <= found.median <= found.high
    assert found.median == statistics.median(samples)
    assert (found.coverage >= WANTED_COVERAGE) == (len(samples) >= 6)


def test_the_coverage_is_true() -> None:
    source = random.Random(7)
    hits = 0
    for _ in range(2000):
        found = estimate([source.expovariate(1) for _ in range(12)])
        hits += found.low <= 0.6931 <= found.high
    assert hits / 2000 >= 0.95
