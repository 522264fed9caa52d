"""Order statistics against values worked out by hand."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import SpecError
from lab.results.statistics import Estimate, estimate, order_statistic_coverage, ratio_of_medians


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
    assert not estimate([3, 1, 2]).is_trustworthy
    assert estimate([5, 1, 4, 2, 3, 6]) == Estimate(3.5, 1, 6, 6, 0.96875)
    # n = 8: k = 2 covers 1 - 2 * 9/256 = 93 %, so min..max; n = 9: 1 - 2 * 10/512 = 96 %.
    assert (estimate(range(1, 9)).low, estimate(range(1, 9)).high) == (1, 8)
    assert (estimate(range(1, 10)).low, estimate(range(1, 10)).high) == (2, 8)
    assert (estimate(range(1, 21)).low, estimate(range(1, 21)).high) == (6, 15)
    with pytest.raises(SpecError):
        estimate([])


def test_a_ratio_of_interleaved_repeats_is_not_widened_by_common_drift() -> None:
    base = [100.0, 110.0, 120.0, 130.0, 140.0, 150.0]
    ratio = ratio_of_medians([2 * each for each in base], base)
    assert ratio == Estimate(2, 2, 2, 6, 0.96875)


def test_a_ratio_of_unequal_numbers_is_cautious() -> None:
    ratio = ratio_of_medians([10.0] * 6, [4.0, 5.0, 5.0, 5.0, 5.0, 5.0, 8.0])
    assert (ratio.median, ratio.low, ratio.high) == (2, 10 / 8, 10 / 4)
    assert ratio.n == 6
    assert ratio.coverage == pytest.approx(0.96875 + 0.984375 - 1)
    with pytest.raises(SpecError):
        ratio_of_medians([1.0], [0.0])


@given(st.lists(st.floats(0.001, 1e9), min_size=1, max_size=60))
def test_the_median_lies_in_its_interval(samples: list[float]) -> None:
    found = estimate(samples)
    assert found.low <= found.median <= found.high
    assert found.median == statistics.median(samples)
    assert found.is_trustworthy == (len(samples) >= 6)


@given(st.lists(st.tuples(st.floats(0.01, 1e6), st.floats(0.01, 1e6)), min_size=1, max_size=30))
def test_the_ratio_lies_in_its_interval(pairs: list[tuple[float, float]]) -> None:
    found = ratio_of_medians([a for a, _ in pairs], [b for _, b in pairs])
    assert found.low <= found.median <= found.high


def test_the_coverage_is_true() -> None:
    source = random.Random(7)
    hits = 0
    for _ in range(2000):
        found = estimate([source.expovariate(1) for _ in range(12)])
        hits += found.low <= 0.6931 <= found.high
    assert hits / 2000 >= 0.95
