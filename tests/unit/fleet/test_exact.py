"""The Markov chain against closed forms, and how long defects wait against a drawn history."""

from __future__ import annotations

import math

import numpy
import pytest

from lab.fleet.engine import Moments, rare_sum, waiting_hours
from lab.fleet.model import Scrubbing, ScrubKind, Spread
from tests.unit.fleet.chains import Chain, array_chain, mean_waiting_hours
from tests.unit.fleet.models import exponential


def test_mean_time_of_the_first_raid_papers_formula() -> None:
    # Patterson, Gibson and Katz 1988: MTTF^2 / (N (N - 1) MTTR), the leading term for rates that are far apart.
    members, life, repair = 8, 500_000.0, 12.0
    found = array_chain(members, 1, life, repair).mean_hours()
    assert found == pytest.approx(life**2 / (members * (members - 1) * repair), rel=1e-3)


def test_mean_time_is_what_the_linear_equations_give() -> None:
    chain = array_chain(10, 3, 3_000.0, 200.0)
    rates = numpy.zeros((4, 4))
    for state in range(4):
        rates[state, state] -= chain.failure_rates[state]
        if state < 3:
            rates[state, state + 1] = chain.failure_rates[state]
        if state:
            rates[state, state - 1] = chain.repair_rates[state - 1]
            rates[state, state] -= chain.repair_rates[state - 1]
    assert chain.mean_hours() == pytest.approx(-numpy.linalg.solve(rates, numpy.ones(4))[0])


@pytest.mark.parametrize("tolerance", [1, 2, 3, 4])
def test_one_repair_at_a_time_and_all_at_once_part_beyond_one_failure(tolerance: int) -> None:
    # Resch and Volvovski, arXiv 1310.4702: the two models agree for one failure survived; then the ratio is tolerance!.
    serial = array_chain(12, tolerance, 1e6, 10.0, repairs_at_once=1).mean_hours()
    parallel = array_chain(12, tolerance, 1e6, 10.0).mean_hours()
    assert parallel / serial == pytest.approx(math.factorial(tolerance), rel=2e-3)


def test_chance_of_a_chain_without_repair_is_the_binomial_law() -> None:
    members, rate, hours = 5, 1e-4, 3_000.0
    chain = Chain([(members - failed) * rate for failed in range(3)], [0.0, 0.0])
    dead = -math.expm1(-rate * hours)
    more_than_two = sum(
        math.comb(members, count) * dead**count * (1 - dead) ** (members - count) for count in range(3, 6)
    )
    assert chain.loss_chance(hours) == pytest.approx(more_than_two, rel=1e-9)


def test_small_chances_keep_their_digits() -> None:
    chain = array_chain(10, 3, 1e6, 10.0)
    hours = 8766.0
    assert chain.loss_chance(hours) == pytest.approx(hours / chain.mean_hours(), rel=0.01)
    assert chain.loss_chance(hours) < 1e-13


@pytest.mark.parametrize("duration", [0.0, 50.0, 700.0])
@pytest.mark.parametrize("age", [5.0, 300.0, 5_000.0])
def test_hours_since_a_scrub_are_what_a_walk_over_all_places_finds(duration: float, age: float) -> None:
    scrub = Scrubbing(kind=ScrubKind.PERIODIC, interval_hours=700.0, duration_hours=duration)
    model = exponential(2, 1, 1000, 1, scrub=scrub)
    places = (numpy.arange(4000) + 0.5) / 4000
    for phase in (0.5, 30.0, 60.0, 699.0):
        read = phase - places * duration
        since = numpy.where(read >= 0, read, read + scrub.interval_hours)
        truth = float(numpy.minimum(since, age).mean())
        found = waiting_hours(model, numpy.array([age]), numpy.array([phase]))
        assert float(found[0]) == pytest.approx(truth, rel=1e-3)


def test_an_old_drive_waits_for_half_an_interval() -> None:
    scrub = Scrubbing(kind=ScrubKind.PERIODIC, interval_hours=700.0, duration_hours=48.0)
    model = exponential(2, 1, 1000, 1, scrub=scrub)
    phases = (numpy.arange(7000) + 0.5) / 10
    found = waiting_hours(model, numpy.full(7000, 1e6), phases)
    assert float(found.mean()) == pytest.approx(mean_waiting_hours(scrub), rel=1e-4)


def test_defects_found_by_a_delay_wait_for_its_mean() -> None:
    delay = Spread(shape=3.0, scale_hours=168.0, location_hours=6.0)
    scrub = Scrubbing(kind=ScrubKind.DELAY, delay=delay)
    model = exponential(2, 1, 1000, 1, scrub=scrub)
    young, old = waiting_hours(model, numpy.array([6.0, 1e6]), numpy.array([0.0]))
    assert float(young) == pytest.approx(6.0, rel=1e-6)
    assert float(old) == pytest.approx(6 + 168 * math.gamma(4 / 3), rel=1e-6)
    assert mean_waiting_hours(scrub) == pytest.approx(float(old))


@pytest.mark.parametrize(
    ("seen", "low", "high"),
    [
        # Garwood's exact limits, chi-squared quantiles: of 5 events, of none, and of 5 that weigh 1e-9 each.
        (Moments(5.0, 5.0, 1.0), 1.6235, 11.6683),
        (Moments(), 0.0, 3.6889),
        (Moments(5e-9, 5e-18, 1e-9), 1.6235e-9, 11.6683e-9),
    ],
    ids=["five", "none", "weighted"],
)
def test_the_interval_of_equal_weights_is_the_exact_one(seen: Moments, low: float, high: float) -> None:
    found = rare_sum(seen)
    assert found.low == pytest.approx(low, rel=1e-4)
    assert found.high == pytest.approx(high, rel=1e-4)


def test_drawn_durations_have_their_mean() -> None:
    rng = numpy.random.default_rng(1)
    for spread in (
        Spread(shape=2.0, scale_hours=12.0, location_hours=6.0),
        Spread(values_hours=(1.0, 2.0, 6.0)),
        Spread(location_hours=5.0),
    ):
        assert float(spread.draw(rng, 200_000).mean()) == pytest.approx(spread.mean_hours, rel=0.01)
