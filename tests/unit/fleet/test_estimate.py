"""The Markov chain compared with closed forms, MTTDL computed by hand, and causes with few or no losses."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy
import pytest
from msgspec.structs import replace

from lab.fleet.command import _to_mttdl
from lab.fleet.engine import (
    Cause,
    Moments,
    counted_words,
    figures_of,
    most_lost,
    mttdl_by_hand,
    mttdl_years,
    rare_sum,
    waiting_hours,
)
from lab.fleet.model import FleetModel, Method, Scrubbing, ScrubKind, Spread, fleet_spec, fleet_tree, model_of
from lab.fleet.run import BLOCK_TRIALS, run_model, what_if, with_method
from lab.theory.extension import LossFigures
from tests.unit.cli.conftest import Typed
from tests.unit.cli.conftest import typed as typed
from tests.unit.fleet.chains import Chain, array_chain
from tests.unit.fleet.models import exponential


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


def test_chance_of_a_chain_without_repair_is_the_binomial_law() -> None:
    members, rate, hours = 5, 1e-4, 3_000.0
    chain = Chain([(members - failed) * rate for failed in range(3)], [0.0, 0.0])
    dead = -math.expm1(-rate * hours)
    more_than_two = sum(
        math.comb(members, count) * dead**count * (1 - dead) ** (members - count) for count in range(3, 6)
    )
    assert chain.loss_chance(hours) == pytest.approx(more_than_two, rel=1e-9)


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


@pytest.mark.parametrize(
    ("seen", "low", "high"),
    [
        # Garwood's exact limits (chi-squared quantiles) for 5 events, for none, and for 5 with weights of 1e-9.
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


def at_rest(**changes: Any) -> LossFigures:
    """The losses of one array that is never scrubbed."""
    return what_if(arrays=1, disk_tb=1.0, afr_percent=1.57, rebuild_hours=48.0, scrub_interval_hours=None, **changes)


def by_hand(**changes: Any) -> tuple[float, str]:
    """The value of a formula in years, computed from its text, and the text."""
    found = at_rest(**changes).mttdl_by_hand
    words = found.partition(" = ")[0].replace(",", "").replace(" h", "").replace("²", "**2").replace("³", "**3")
    words = words.replace("÷", "/").replace("×", "*").replace("^", "**")
    assert re.fullmatch(r"[0-9.*/() ]+", words)
    return eval(words) / 8766, found


@pytest.mark.parametrize(
    ("level", "members"), [("raid0", 4), ("raid1", 2), ("raid1", 4), ("raid5", 6), ("raid6", 7), ("raid10", 8)]
)
def test_the_formula_by_hand_gives_the_number_of_the_chain(level: str, members: int) -> None:
    found = at_rest(level=level, members=members)
    years, text = by_hand(level=level, members=members)
    rest = re.search(r"and ([0-9,]+) until", text)
    years += float(rest[1].replace(",", "")) if rest else 0
    assert years == pytest.approx(found.mttdl_years, rel=2e-3)


def test_the_time_until_a_drive_is_replaced_is_counted() -> None:
    assert by_hand(level="raid5", members=6)[0] == pytest.approx(16_206, rel=1e-3)
    assert by_hand(level="raid5", members=6, replenish_hours=0.0)[0] == pytest.approx(24_310, rel=1e-3)


def test_both_list_what_they_count() -> None:
    school = model_of(fleet_spec(fleet_tree("school"), "school"))
    assert counted_words(school) == (
        "a failed drive is noticed after 12 h, replaced after 72 h, rebuilt in 39.2 h; "
        "a wrong drive is pulled at 1 % of the replacements"
    )
    assert f"{mttdl_years(school):,.0f}" == "9,491"
    assert mttdl_by_hand(school) == "(553,949 h)² ÷ (6 × 5 × 123.25 h) = 9,467 years, and 23 until the first failures"
    screen = what_if(
        arrays=4, level="raid5", members=6, disk_tb=16.0, afr_percent=1.57, rebuild_hours=48.0,
        scrub_interval_hours=730.5,
    )  # fmt: skip
    assert screen.counted == "a failed drive is replaced after 24 h, rebuilt in 48 h; nobody errs"


SEEDS = range(1, 16)
TRIALS = 2000
FEW = 3
"""Of 15 intervals of 95 %, four or more miss in 1 of 180 runs. The seeds are fixed, so the outcome is too."""


def fleet(members: int, tolerance: int = 1, **more: Any) -> FleetModel:
    """AFR 1 %, rebuilds of 10 h onto a spare, monthly scrubs: many losses by sectors, hardly any by failures."""
    scrub = Scrubbing(kind=ScrubKind.PERIODIC, interval_hours=730.0, duration_hours=30.0)
    spared: dict[str, Any] = {"spares": 1, "replenish_hours": 72.0, "detection_hours": 0.5, "scrub": scrub}
    rates: dict[str, Any] = {"rebuild": Spread(location_hours=10.0), "defects_per_hour": 1.5e-6}
    return exponential(members, tolerance, 872_000.0, 1.0, **(spared | rates | more))


def figures(model: FleetModel, method: Method, trials: int, seed: int = 0) -> LossFigures:
    """The figures of the same arrays with this method, as the command computes them."""
    chosen = with_method(replace(model, seed=seed), method, trials)
    return figures_of(chosen, run_model(chosen, trials), 1)


@pytest.mark.parametrize("method", [Method.AUTO, Method.PLAIN])
@pytest.mark.parametrize("members", [2, 5])
def test_intervals_cover_what_few_arrays_do_not_show(members: int, method: Method) -> None:
    model = fleet(members)
    truth = figures(model, Method.BIASED, 8 * BLOCK_TRIALS)
    found = [figures(model, method, 10 * TRIALS, seed) for seed in SEEDS]
    for name in ("losses_per_array_year", "fleet_loss_chance", "lost_bytes_per_pb_year", "nomdl_bytes_per_tb"):
        value = getattr(truth, name).value
        missed = [each for each in found if not getattr(each, name).low <= value <= getattr(each, name).high]
        assert len(missed) <= FEW, name


@pytest.mark.parametrize("members", [2, 5])
def test_a_cause_that_a_block_does_not_show_is_weighted(members: int) -> None:
    model = fleet(members)
    for seed in SEEDS:
        assert with_method(replace(model, seed=seed), Method.AUTO).is_biased
    # With thousands of losses by failures and by sectors, no weights are needed.
    often = fleet(members, life=Spread(scale_hours=5000.0), rebuild=Spread(location_hours=500.0), spares=0)
    assert not with_method(often, Method.AUTO).is_biased
    # The same fleet, but at one in a million replacements a wrong disk is pulled.
    assert with_method(replace(often, wrong_disk=1e-6), Method.AUTO).is_biased


def test_losses_never_observed_have_an_upper_bound() -> None:
    model = fleet(2)
    found = figures(model, Method.PLAIN, TRIALS)
    assert found.cause_losses["failures"] == 0
    assert found.cause_losses["sectors"] == 1
    # At most 3.69 of the arrays lose all of their data in five years.
    bound = 3.689 / TRIALS * 1e15 / 5
    assert found.seldom["failures"].value == 0
    assert found.seldom["failures"].high == pytest.approx(bound, rel=1e-3)
    assert found.lost_bytes_per_pb_year.value < 1000
    assert found.lost_bytes_per_pb_year.high == pytest.approx(bound, rel=1e-3)
    assert found.losses_per_array_year.high > 3.689 / TRIALS / 5
    assert "failures" not in figures(model, Method.BIASED, TRIALS).seldom


def test_only_what_can_happen_has_a_bound() -> None:
    assert set(most_lost(fleet(5))) == {Cause.FAILURES, Cause.SECTORS}
    assert set(most_lost(fleet(5, defects_per_hour=0.0))) == {Cause.FAILURES}
    assert set(most_lost(fleet(5, 0, wrong_disk=0.1))) == {Cause.FAILURES}
    pulled: dict[str, Any] = {"wrong_disk": 0.1, "loses_data": 0.3}
    assert most_lost(fleet(5, spares=0, **pulled))[Cause.PEOPLE] == 0.3
    # With a spare, a wrong disk is pulled from a complete group, which costs only a rebuild.
    assert Cause.PEOPLE not in most_lost(fleet(5, **pulled))
    lives, rebuilds = Spread(scale_hours=5000.0), Spread(location_hours=200.0)
    errs = fleet(5, life=lives, rebuild=rebuilds, wrong_disk=1.0, is_biased=False)
    for tolerance in (1, 2):
        sums = run_model(replace(errs, tolerance=tolerance), TRIALS)
        assert sums.cause_losses[Cause.FAILURES].seen > 100
        assert sums.cause_losses[Cause.PEOPLE].total == 0


def test_a_ratio_of_thousands_has_no_exponent() -> None:
    found = at_rest(level="raid5", members=6)
    assert _to_mttdl(replace(found, losses_to_mttdl=2490.4)) == "2,490"


def test_the_table_names_a_cause_that_was_not_seen(typed: Typed) -> None:
    words = ("-q", "fleet", "school", "--trials", "500", "--workers", "1", "--set", "people.wrong_disk=0.0")
    text = typed(*words, "--set", "run.method=plain", "--set", "failures.afr_percent=0.5").out
    printed = [line for line in text.splitlines() if " was seen; " in line]
    assert len(printed) == 1
    assert "no loss due to failures was seen; this cause loses at most 1.34 TiB per PB and year." in printed[0]
    assert "run.method=biased" in printed[0]
