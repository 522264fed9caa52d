"""The engine compared with exact results, and its two sampling methods compared with each other."""

from __future__ import annotations

import math
import pickle
from typing import Any

import msgspec
import numpy
import pytest
from msgspec.structs import replace

from lab.fleet.engine import Cause, figures_of, mean_of, simulate_block
from lab.fleet.model import HOURS_PER_YEAR, Block, FleetModel, Scrubbing, ScrubKind, Spread
from tests.unit.fleet.chains import Chain, array_chain
from tests.unit.fleet.models import deviations, exponential, mean_and_error, simulated

FAR = 4.0
"""Standard errors. Seeds are fixed, so each test always or never fails; by chance one in 16,000 fails."""


@pytest.mark.wide
@pytest.mark.slow
@pytest.mark.parametrize("is_biased", [False, True], ids=["plain", "biased"])
@pytest.mark.parametrize(
    ("members", "tolerance", "life", "repair"),
    [(1, 0, 40_000, 1), (8, 1, 20_000, 100), (14, 2, 20_000, 200), (3, 2, 5_000, 500), (10, 3, 8_000, 500)],
)
def test_constant_rates_give_the_markov_chain(
    members: int, tolerance: int, life: float, repair: float, is_biased: bool
) -> None:
    model = exponential(members, tolerance, life, repair, is_biased=is_biased)
    truth = array_chain(members, tolerance, life, repair).loss_chance(model.mission_hours)
    sums = simulated(model, 4)
    assert deviations(sums.first, sums.trials, truth) < FAR


@pytest.mark.slow
@pytest.mark.parametrize(("members", "tolerance"), [(14, 2), (10, 3)])
def test_rare_losses_are_found_without_their_number_of_trials(members: int, tolerance: int) -> None:
    model = exponential(members, tolerance, 500_000, 20, rebuild=Spread(scale_hours=20))
    truth = array_chain(members, tolerance, 500_000, 20).loss_chance(model.mission_hours)
    sums = simulated(model, 8)
    mean, error = mean_and_error(sums.first, sums.trials)
    assert truth < 2e-7
    assert error < 0.1 * mean
    assert abs(mean - truth) < FAR * error


@pytest.mark.slow
def test_weights_have_mean_one() -> None:
    model = exponential(
        10,
        2,
        60_000,
        30,
        life=Spread(shape=1.3, scale_hours=60_000),
        bad_share=0.2,
        bad_factor=6.0,
        lots=2,
        wrong_disk=0.02,
        loses_data=0.3,
    )
    sums = simulated(model, 6)
    mean = sums.copy_weights / sums.copies
    error = math.sqrt((sums.copy_squares / sums.copies - mean**2) / sums.copies)
    assert sums.copies > 50_000
    assert abs(mean - 1) < FAR * error
    assert error < 0.02


RICH = exponential(
    8,
    2,
    30_000,
    200,
    life=Spread(shape=1.2, scale_hours=30_000),
    rebuild=Spread(values_hours=(60.0, 90.0, 240.0)),
    detection_hours=2.0,
    defects_per_hour=2e-5,
    scrub=Scrubbing(kind=ScrubKind.PERIODIC, interval_hours=700, duration_hours=48),
    wrong_disk=0.03,
    loses_data=0.4,
    bad_share=0.1,
    bad_factor=4.0,
)
VARIED: dict[str, dict[str, Any]] = {
    "one spare": {"spares": 1, "replenish_hours": 300.0},
    "no spare": {"replenish_hours": 72.0},
    "shared rate": {"shares_rate": True, "spares": 2, "replenish_hours": 100.0},
    "pairs": {"groups": 4, "group_members": 2, "tolerance": 1},
    "found by delay": {
        "scrub": Scrubbing(kind=ScrubKind.DELAY, delay=Spread(shape=3, scale_hours=168, location_hours=6))
    },
}


@pytest.mark.wide
@pytest.mark.slow
@pytest.mark.parametrize("changes", VARIED.values(), ids=VARIED)
def test_importance_sampling_agrees_with_plain_counting(changes: dict[str, Any]) -> None:
    model = replace(RICH, **changes)
    plain = simulated(replace(model, is_biased=False), 12)
    biased = simulated(model, 6)
    for figure in ("losses", "first", "lost_bytes"):
        here, its_error = mean_and_error(getattr(plain, figure), plain.trials)
        there, other = mean_and_error(getattr(biased, figure), biased.trials)
        assert abs(here - there) < FAR * math.hypot(its_error, other), figure
    for cause in Cause:
        shares = [sums.cause_losses[cause].total / sums.losses.total for sums in (plain, biased)]
        assert shares[0] == pytest.approx(shares[1], abs=0.05)


def rebuilt_at_once(members: int, life: float, **more: Any) -> FleetModel:
    """Ten years of an array with one parity whose rebuilds take no time."""
    instant = Spread(location_hours=1e-6)
    return exponential(members, 1, life, 1e-6, **({"years": 10.0, "rebuild": instant, "is_biased": False} | more))


@pytest.mark.slow
def test_defects_without_scrub_follow_the_closed_form() -> None:
    # One drive fails at a constant rate and is replaced at once. Its twin's age is the time since it was new. So at
    # time t the age is min(t, Exp(rate)), and a latent defect exists with probability 1 - exp(-defects × age).
    rate, defects = 1 / 50_000, 1e-5
    model = rebuilt_at_once(2, 1 / rate, defects_per_hour=defects, rebuild_clears=False)
    times = numpy.linspace(0, model.mission_hours, 20_001)
    # E[exp(-d A)] for A = min(t, Exp(r)): r / (r + d) + d / (r + d) × exp(-(r + d) t).
    alive = rate / (rate + defects) + defects / (rate + defects) * numpy.exp(-(rate + defects) * times)
    truth = 2 * rate * float(numpy.trapezoid(1 - alive, times))
    sums = simulated(model, 8)
    assert deviations(sums.losses, sums.trials, truth) < FAR
    assert sums.cause_losses[Cause.SECTORS].total / sums.losses.total > 0.999


@pytest.mark.slow
def test_lost_bytes_are_the_defects_that_waited() -> None:
    interval, defects = 1000.0, 1e-4
    scrub = Scrubbing(kind=ScrubKind.PERIODIC, interval_hours=interval, duration_hours=200)
    model = rebuilt_at_once(6, 100_000, defects_per_hour=defects, defect_bytes=512.0, rebuild_clears=False, scrub=scrub)
    sums = simulated(model, 6)
    # All drives are old, except in the first interval and the few that were replaced within one.
    each_failure = 5 * defects * interval / 2 * 512
    assert sums.cause_bytes[Cause.SECTORS].total / sums.failures == pytest.approx(each_failure, rel=0.02)


def test_defects_that_come_during_a_rebuild_are_read_half_way() -> None:
    lasts, defects = 200.0, 1e-5
    # A scrub finds each defect within a hundredth of an hour.
    scrub = Scrubbing(kind=ScrubKind.PERIODIC, interval_hours=0.01)
    model = rebuilt_at_once(6, 200_000, rebuild=Spread(location_hours=lasts), defects_per_hour=defects, scrub=scrub)
    sums = simulated(model, 1)
    each_failure = 5 * defects * lasts / 2 * model.defect_bytes
    assert sums.cause_bytes[Cause.SECTORS].total / sums.failures == pytest.approx(each_failure, rel=0.02)


@pytest.mark.slow
def test_a_rebuild_finds_what_waits() -> None:
    # Members fail every 1 / (N rate) hours, and each rebuild reads all of them. At time t, min(t, Exp(N rate)) hours
    # have passed since they were clean, so N - 1 of them have rate × integral of 1 - exp(-N rate t) defects in all.
    members, life, defects = 6, 200_000.0, 1e-6
    model = rebuilt_at_once(members, life, defects_per_hour=defects)
    rate, end = members / life, model.mission_hours
    truth = (members - 1) * defects * (end + math.expm1(-rate * end) / rate) * model.defect_bytes
    sums = simulated(model, 4)
    assert sums.cause_bytes[Cause.SECTORS].total / sums.trials == pytest.approx(truth, rel=0.02)


def test_a_wrong_disk_in_an_array_without_redundancy_stops_it() -> None:
    model = exponential(
        4, 1, 100_000, 10, wrong_disk=0.2, loses_data=0.5, replenish_hours=24.0, is_biased=False, years=10.0
    )
    sums = simulated(model, 2)
    errors = sums.cause_losses[Cause.PEOPLE].total / 0.5
    # Pulled drives count as failures, but only drives that failed are followed by a replacement.
    assert errors / (sums.failures - errors) == pytest.approx(0.2, rel=0.05)
    assert sums.cause_bytes[Cause.PEOPLE].total == pytest.approx(errors * 0.5 * model.usable_bytes)


@pytest.mark.wide
def test_rebuilds_that_share_a_rate_take_twice_as_long() -> None:
    # Two rebuilds that begin together end together, after twice the time, which shows in how often a third drive fails.
    model = exponential(10, 2, 20_000, 100, rebuild=Spread(location_hours=100.0), years=5.0)
    alone, shared = (simulated(replace(model, shares_rate=each), 3) for each in (False, True))
    # Alone: the second, at u of 100 hours, leaves 100 - u to the first. Shared: 2 (100 - u), at half the rate each.
    assert shared.losses.total / alone.losses.total == pytest.approx(2.0, rel=0.1)


def test_a_shelf_that_is_empty_ends_repairs() -> None:
    # One spare that is never replaced, and instant rebuilds: the second failure stays, and the third one is the loss.
    members, life = 6, 100_000.0
    model = rebuilt_at_once(members, life, spares=1, replenish_hours=1e9)
    truth = Chain([members / life, members / life, (members - 1) / life], [0.0, 0.0]).loss_chance(model.mission_hours)
    sums = simulated(model, 2)
    assert deviations(sums.first, sums.trials, truth) < FAR


@pytest.mark.slow
def test_bad_lots_fail_together() -> None:
    factor = 10.0
    calm = exponential(8, 1, 20_000_000, 50, years=2.0)
    lots = replace(calm, bad_share=0.1, bad_factor=factor)
    spread_out = replace(calm, life=Spread(scale_hours=20_000_000 / lots.hazard_scale))
    together, independent = (simulated(each, 10).losses.total for each in (lots, spread_out))
    # Rates square: 0.9 + 0.1 × 100 against (0.9 + 0.1 × 10)².
    assert together / independent == pytest.approx((0.9 + 0.1 * factor**2) / (0.9 + 0.1 * factor) ** 2, rel=0.1)


def test_the_same_block_gives_the_same_bits() -> None:
    model: FleetModel = pickle.loads(pickle.dumps(RICH))
    first = simulate_block(RICH, Block(3, 500))
    assert msgspec.json.encode(first) == msgspec.json.encode(simulate_block(model, Block(3, 500)))
    assert first != simulate_block(RICH, Block(4, 500))
    assert first != simulate_block(replace(RICH, seed=2), Block(3, 500))


def test_variants_meet_the_same_failures() -> None:
    rare = replace(RICH, wrong_disk=0.0, is_biased=False)
    never = replace(rare, scrub=Scrubbing())
    scrubbed, bare = simulate_block(rare, Block(0, 2000)), simulate_block(never, Block(0, 2000))
    assert scrubbed.failures == bare.failures
    assert scrubbed.cause_losses[Cause.FAILURES].total == bare.cause_losses[Cause.FAILURES].total
    assert scrubbed.cause_losses[Cause.SECTORS].total < bare.cause_losses[Cause.SECTORS].total


@pytest.mark.slow
@pytest.mark.wide
@pytest.mark.parametrize("is_biased", [False, True], ids=["plain", "biased"])
def test_intervals_cover_the_truth_with_their_stated_probability(is_biased: bool) -> None:
    life, repair = (6_000.0, 60.0) if not is_biased else (60_000.0, 60.0)
    model = exponential(8, 2, life, repair, is_biased=is_biased, years=1.0)
    truth = array_chain(8, 2, life, repair).loss_chance(HOURS_PER_YEAR)
    covered = 0
    for seed in range(200):
        sums = simulate_block(replace(model, seed=seed), Block(0, 4000))
        found = mean_of(sums.first, sums.trials)
        covered += found.low <= truth <= found.high
    # At 95 %, fewer than 180 of 200 occur by chance once in 1,000.
    assert 180 <= covered <= 200


def test_figures_agree_with_each_other() -> None:
    sums = simulated(RICH, 2, 4000)
    found = figures_of(RICH, sums, arrays=20)
    chance = sums.first.total / sums.trials
    assert found.fleet_loss_chance.value == pytest.approx(1 - (1 - chance) ** 20)
    assert (1 - found.loss_chance_per_array_year.value) ** RICH.years == pytest.approx(1 - chance)
    assert found.nines_per_array_year.value == pytest.approx(-math.log10(found.loss_chance_per_array_year.value))
    usable_pb_years = sums.trials * RICH.usable_bytes / 1e15 * RICH.years
    assert found.lost_bytes_per_pb_year.value == pytest.approx(sums.lost_bytes.total / usable_pb_years)
    assert found.nomdl_bytes_per_tb.value == pytest.approx(found.lost_bytes_per_pb_year.value * RICH.years / 1000)
    assert sum(found.cause_losses.values()) == pytest.approx(1)
