"""The steady-state criterion against values worked out by hand."""

from __future__ import annotations

import numpy
import pytest

from lab.measure.job import FEWEST_IOS, SLICES, steadiness, steady_figures
from lab.measure.samples import Sample
from tests.unit.measure.samples_of import counters, sample


def test_five_rounds_within_a_fifth_and_without_a_slope_are_steady() -> None:
    found = steady_figures([100, 105, 95, 100, 100])
    assert found.range_fraction == pytest.approx(0.10)
    assert found.slope_fraction == pytest.approx(0.02)
    assert found.is_steady


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([100, 100, 79, 100, 100], id="one slice far off"),
        pytest.param([106, 103, 100, 97, 94], id="falling by 12 % within a range of 12 %"),
    ],
)
def test_a_wide_range_or_a_slope_is_not_steady(values: list[float]) -> None:
    assert not steady_figures(values).is_steady


def stretch(rate: float, *, idle_after: int = 0) -> list[Sample]:
    """Four samples per second: a second of warm-up at half the rate, five seconds of ``rate``, and idle at the end."""
    counts = [n * rate / 8 for n in range(4)]
    counts += [rate / 2 + n * rate / 4 for n in range(21)]
    counts += [counts[-1]] * idle_after
    return [sample(n * 0.25, disk=counters(reads=round(count))) for n, count in enumerate(counts)]


@pytest.mark.parametrize("idle_after", [0, 1, 8])
def test_a_stretch_is_cut_into_five_rounds_without_warm_up_and_end(idle_after: int) -> None:
    found = steadiness(stretch(2000.0, idle_after=idle_after), "ubda", 5.0)
    assert found is not None
    assert found.is_steady
    assert found.range_fraction == pytest.approx(0.0, abs=0.02)


def test_a_stretch_that_slows_down_is_not_steady() -> None:
    slowing = [sample(n * 0.25, disk=counters(reads=n * 1000 - n * n * 20)) for n in range(21)]
    found = steadiness(slowing, "ubda", 5.0)
    assert found is not None
    assert not found.is_steady


def test_too_few_ios_or_samples_give_no_steadiness() -> None:
    assert steadiness(stretch(500.0), "ubda", 5.0) is None
    assert steadiness(stretch(5000.0)[:4], "ubda", 5.0) is None
    assert steadiness(stretch(5000.0), "sdz", 5.0) is None
    assert steadiness([], "ubda", 5.0) is None


def test_random_counts_alone_hardly_ever_break_the_thresholds() -> None:
    """As many I/Os per slice as are required, and half as many, which would not be enough."""
    draw = numpy.random.default_rng(2)

    def broken(each: int) -> float:
        found = [steady_figures(counts) for counts in draw.poisson(each, (4000, SLICES)).tolist()]
        return sum(not one.is_steady for one in found) / len(found)

    assert broken(FEWEST_IOS) <= 0.05
    assert broken(FEWEST_IOS // 2) > 0.05
