from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tui.quantities import Scale, Unit, format_value, linear_scale, log_scale, ticks


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.0, Unit.IOPS, "0"),
        (75.04, Unit.IOPS, "75"),
        (82_900.0, Unit.IOPS, "82.9k"),
        (999.7, Unit.IOPS, "1k"),
        (415e6, Unit.BYTES_PER_SECOND, "415 MB/s"),
        (0.0, Unit.BYTES_PER_SECOND, "0 B/s"),
        (1.25e9, Unit.BYTES_PER_SECOND, "1.25 GB/s"),
        (0.0133, Unit.SECONDS, "13.3 ms"),
        (0.00099999, Unit.SECONDS, "1 ms"),
        (42e-6, Unit.SECONDS, "42 µs"),
        (185.0, Unit.SECONDS, "3:05 min"),
        (0.434, Unit.FRACTION, "43 %"),
        (None, Unit.IOPS, "–"),
        (float("nan"), Unit.IOPS, "–"),
    ],
)
def test_values_have_three_figures_and_their_unit(value: float | None, unit: Unit, text: str) -> None:
    assert format_value(value, unit) == text


@given(st.floats(1e-9, 1e6), st.sampled_from([Unit.IOPS, Unit.BYTES_PER_SECOND, Unit.SECONDS]))
def test_a_value_is_short_whatever_its_size(value: float, unit: Unit) -> None:
    assert len(format_value(value, unit)) <= (12 if unit is Unit.SECONDS else 9)


@given(st.floats(1e-6, 1e12))
def test_an_axis_begins_at_nothing_and_holds_the_highest_value(highest: float) -> None:
    scale = linear_scale(highest, Unit.IOPS)
    assert scale.low == 0
    assert highest * (1 - 1e-9) <= scale.high <= 2.01 * highest


@given(st.floats(1e-6, 1e2), st.floats(1, 1e4))
def test_a_logarithmic_axis_holds_all_values_in_whole_decades(lowest: float, span: float) -> None:
    scale = log_scale(lowest, lowest * span)
    assert scale.low <= lowest * (1 + 1e-6)
    assert scale.high >= lowest * span * (1 - 1e-6)
    assert scale.place(scale.low) == 0
    assert scale.place(scale.high) == 1


def test_ticks_are_round_and_labelled_with_units() -> None:
    assert [label for _, label in ticks(linear_scale(82_900, Unit.IOPS), Unit.IOPS, 3)] == ["0", "50k", "100k"]
    decades = ticks(log_scale(0.0004, 0.02), Unit.SECONDS, 5)
    assert [label for _, label in decades] == ["100 µs", "1 ms", "10 ms", "100 ms"]
    assert [label for _, label in ticks(linear_scale(0.4, Unit.FRACTION), Unit.FRACTION, 2)] == ["0", "100 %"]


def test_without_positive_values_there_is_still_a_logarithmic_axis() -> None:
    scale = log_scale(0.0, 0.0)
    assert scale.place(0.0) == 0
    assert scale.low < scale.high


def test_places_outside_the_axis_are_at_its_ends() -> None:
    assert Scale(0, 10).place(-5) == 0
    assert Scale(0, 10).place(50) == 1
