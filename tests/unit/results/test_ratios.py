"""Ratios, their intervals and p-values, against values worked out by hand and against scipy."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.errors import SpecError
from lab.results.statistics import Ratio, RatioTest, Side, paired_ratio, ratio_apart, repeats_needed, smallest_p_value


def numbered(values: Sequence[float]) -> dict[int, float]:
    return dict(enumerate(values))


def test_drift_that_both_share_does_not_widen_the_interval_of_interleaved_repeats() -> None:
    base = [100.0, 110.0, 120.0, 130.0, 140.0, 150.0]
    ratio = paired_ratio(numbered([2 * each for each in base]), numbered(base))
    assert ratio == Ratio(ratio.median, ratio.low, ratio.high, 6, 0.96875, 0.03125)
    assert [ratio.median, ratio.low, ratio.high] == pytest.approx([2, 2, 2])


def test_repeats_are_paired_by_their_number_whatever_was_lost() -> None:
    """Each lost another repeat, so both have as many: paired by place, drift would look like a difference."""
    drift = {repeat: 100.0 * 1.2**repeat for repeat in range(9)}
    ours = {repeat: value for repeat, value in drift.items() if repeat != 0}
    theirs = {repeat: value for repeat, value in drift.items() if repeat != 8}
    ratio = paired_ratio(ours, theirs)
    assert ratio.n == 7
    assert [ratio.median, ratio.low, ratio.high] == pytest.approx([1, 1, 1])
    assert paired_ratio(dict(reversed(ours.items())), theirs) == ratio


def test_repeats_of_other_rounds_make_no_pair() -> None:
    with pytest.raises(SpecError, match="no repeat that both have"):
        RatioTest.paired({0: 1.0, 1: 2.0}, {2: 1.0})


def test_the_interval_of_runs_apart_holds_the_ratios_that_mann_whitney_does_not_reject() -> None:
    ratio = ratio_apart([10.0] * 6, [4.0, 5.0, 5.0, 5.0, 5.0, 5.0, 8.0])
    # All 42 ratios in order: six of 1.25, thirty of 2, six of 2.5. P(U <= 5) = 3 / 143 is the largest below 2.5 %.
    assert [ratio.median, ratio.low, ratio.high] == pytest.approx([2, 1.25, 2.5])
    assert ratio.n == 6
    assert ratio.coverage >= 0.95


def test_the_estimate_is_that_of_hodges_and_lehmann() -> None:
    # Of the pairs' logarithms 0, 1 and 8: means 0, 0.5, 1, 4, 4.5, 8, their median 2.5; the pairs' own median is 1.
    pairs = {n: 2.0**power for n, power in enumerate((0, 1, 8))}
    assert paired_ratio(pairs, dict.fromkeys(pairs, 1.0)).median == pytest.approx(2**2.5)
    # 5 / 4, 5 / 1, 7 / 4, 7 / 1: the middle of 1.75 and 5 on a scale of ratios.
    assert ratio_apart([5.0, 7.0], [4.0, 1.0]).median == pytest.approx((1.75 * 5) ** 0.5)


def test_runs_apart_and_interleaved_runs_have_intervals_of_their_own() -> None:
    ours, theirs = [90.0, 100.0, 110.0, 121.0, 133.0, 146.0], [100.0, 110.0, 121.0, 133.0, 146.0, 161.0]
    interleaved = paired_ratio(numbered(ours), numbered(theirs))
    apart = ratio_apart(ours, theirs)
    assert interleaved.high < 1 < apart.high
    assert interleaved.p_value < 0.05 < apart.p_value


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_a_ratio_refuses_what_is_no_speed(bad: float) -> None:
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
    for found in (paired_ratio(numbered(above), numbered(below)), ratio_apart(above, below)):
        assert found.low <= found.median * (1 + 1e-12)
        assert found.median <= found.high * (1 + 1e-12)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(speeds, speeds), min_size=6, max_size=12))
def test_the_interval_and_the_p_value_say_the_same(pairs: list[tuple[float, float]]) -> None:
    test = RatioTest.paired(*(numbered(side) for side in zip(*pairs, strict=True)))
    for at in (test.ratio.low / 1.001, test.ratio.high * 1.001):
        assert test.p_value(at=at) <= 0.05
    assert test.p_value(at=test.ratio.median) > 0.05 or statistics.pstdev(test.first) == 0


def test_more_samples_give_narrower_intervals() -> None:
    widths = []
    for count in (6, 12, 24, 48, 60):
        found = ratio_apart([100 + n % 7 for n in range(count)], [100 + n % 5 for n in range(count)])
        widths.append(found.high - found.low)
    assert widths == sorted(widths, reverse=True)
