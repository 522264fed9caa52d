"""Whether the soak's estimate of growth tells the truth, on data whose growth is known."""

from __future__ import annotations

import random

import pytest

from tests.kernel.soak import growth_per_round

MIB = 1024.0 * 1024.0


def series(
    rounds: int, slope: float, noise: float, chance: random.Random, *, first: int = 0
) -> list[tuple[float, float]]:
    return [(first + number, 1e6 + slope * number + chance.gauss(0, noise)) for number in range(rounds)]


@pytest.mark.parametrize("slope", [0.0, 0.02, -0.5, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_a_known_slope_is_found_under_noise(slope: float, seed: int) -> None:
    found = growth_per_round([series(300, slope, 1.0, random.Random(seed))])
    assert found == pytest.approx(slope, abs=0.005)


def test_wild_values_do_not_move_it() -> None:
    chance = random.Random(1)
    values = [
        (number, value + (chance.choice((-1, 1)) * 1e5 if chance.random() < 0.2 else 0.0))
        for number, value in series(300, 0.5, 1.0, chance)
    ]
    assert growth_per_round([values]) == pytest.approx(0.5, abs=0.02)


def test_memory_loaded_at_the_start_is_not_growth() -> None:
    start = [(float(number), number * 50.0) for number in range(10)]
    assert growth_per_round([start + [(float(number), 500.0) for number in range(10, 60)]], skip=10) == 0.0


def test_machines_are_not_compared_with_one_another() -> None:
    """A later machine with more memory is no growth; the same growth on each is."""
    chance = random.Random(2)
    groups = [series(40, 0.0, 1.0, chance), [(r, v + 1000.0) for r, v in series(40, 0.0, 1.0, chance, first=40)]]
    assert growth_per_round(groups) == pytest.approx(0.0, abs=0.05)
    groups = [series(40, 2.0, 1.0, chance), [(r, v - 5000.0) for r, v in series(40, 2.0, 1.0, chance, first=40)]]
    assert growth_per_round(groups) == pytest.approx(2.0, abs=0.05)


def test_too_few_rounds_give_no_growth() -> None:
    assert growth_per_round([[(0.0, 1.0)], []]) is None
    assert growth_per_round([series(12, 1.0, 0.0, random.Random(3))], skip=12) is None
