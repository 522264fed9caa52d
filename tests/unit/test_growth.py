"""Whether the soak's estimate of growth is right, on data whose growth is known."""

from __future__ import annotations

import random

import pytest

from tests.kernel.soak import growth_per_round


def series(
    rounds: int, slope: float, noise: float, chance: random.Random, *, first: int = 0
) -> list[tuple[float, float]]:
    return [(first + number, 1e6 + slope * number + chance.gauss(0, noise)) for number in range(rounds)]


@pytest.mark.parametrize("slope", [0.0, 0.02, -0.5, 3.0])
def test_a_known_slope_is_found_under_noise_and_wild_values(slope: float) -> None:
    chance = random.Random(1)
    values = series(300, slope, 1.0, chance)
    assert growth_per_round([values]) == pytest.approx(slope, abs=0.005)
    wild = [(number, value + (chance.choice((-1e5, 1e5)) if number % 5 == 0 else 0.0)) for number, value in values]
    assert growth_per_round([wild]) == pytest.approx(slope, abs=0.02)


def test_memory_loaded_at_the_start_is_not_growth() -> None:
    start = [(float(number), number * 50.0) for number in range(10)]
    assert growth_per_round([start + [(float(number), 500.0) for number in range(10, 60)]], skip=10) == 0.0


@pytest.mark.parametrize(("slope", "more"), [(0.0, 1000.0), (2.0, -5000.0)])
def test_machines_are_not_compared_with_one_another(slope: float, more: float) -> None:
    """A later machine with more memory is no growth; the same growth on each is."""
    chance = random.Random(2)
    later = [(number, value + more) for number, value in series(40, slope, 1.0, chance, first=40)]
    assert growth_per_round([series(40, slope, 1.0, chance), later]) == pytest.approx(slope, abs=0.05)


def test_too_few_rounds_give_no_growth() -> None:
    assert growth_per_round([[(0.0, 1.0)], []]) is None
    assert growth_per_round([series(12, 1.0, 0.0, random.Random(3))], skip=12) is None
