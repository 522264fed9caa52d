"""Verdicts, and how often they are wrong on repeats drawn from recorded ones."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from lab.errors import SpecError
from lab.report.series import rows
from lab.results.ranks import adjusted, agreement
from lab.results.statistics import Ratio, ratio_of_medians
from lab.results.store import decode_record
from lab.results.verdicts import Outcome, judge

RECORDED = Path(__file__).parents[1] / "report" / "data" / "antioquia-quick.json"
PAIRS = 300


def ratio(middle: float, low: float, high: float, *, coverage: float = 0.97, p_value: float = 0.03) -> Ratio:
    return Ratio(middle, low, high, 6, coverage, p_value)


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        (ratio(1.2, 1.1, 1.3), Outcome.FASTER),
        (ratio(0.8, 0.7, 0.9), Outcome.SLOWER),
        (ratio(1.2, 0.9, 1.5, p_value=0.2), Outcome.CANNOT_TELL),
        (ratio(1.0, 0.98, 1.02, p_value=0.9), Outcome.SAME),
        # A difference for certain, and of no weight.
        (ratio(1.02, 1.01, 1.03), Outcome.SAME),
        (ratio(1.03, 1.01, 1.08), Outcome.CANNOT_TELL),
        (ratio(2.0, 1.9, 2.1, coverage=0.75, p_value=0.25), Outcome.CANNOT_TELL),
    ],
)
def test_a_verdict_needs_a_difference_that_is_sure_and_of_weight(found: Ratio, outcome: Outcome) -> None:
    said = judge(found)
    assert said.outcome is outcome
    assert bool(said.reason) is (outcome is Outcome.CANNOT_TELL)


def test_of_times_less_is_faster() -> None:
    assert judge(ratio(0.8, 0.7, 0.9), is_time=True).outcome is Outcome.FASTER
    assert judge(ratio(1.2, 1.1, 1.3), is_time=True).outcome is Outcome.SLOWER


def test_other_comparisons_made_at_the_same_time_count() -> None:
    found = ratio(1.2, 1.1, 1.3, p_value=0.03)
    assert judge(found, p_value=adjusted([0.03, 0.4, 0.9])[0]).outcome is Outcome.CANNOT_TELL
    assert judge(found, p_value=adjusted([0.03, 0.01, 0.02])[0]).outcome is Outcome.FASTER
    assert adjusted([]) == []


def test_the_margin_must_be_one() -> None:
    for margin in (-0.1, 1.0, float("nan")):
        with pytest.raises(SpecError):
            judge(ratio(1, 1, 1), margin=margin)


def test_the_agreement_of_two_orders() -> None:
    assert agreement([1, 2, 3, 4], [10, 20, 30, 40]) == 1
    assert agreement([1, 2, 3, 4], [40, 30, 20, 10]) == -1


def recorded_noise() -> list[float]:
    """Every recorded repeat as a part of its cell's median: the noise of real runs, its tails included."""
    record = decode_record(RECORDED.read_bytes(), source=str(RECORDED))
    noise = []
    for row in rows(record):
        values = row.values(lambda section: section.iops)
        noise += [value / median(values) for value in values]
    return noise


def verdicts(draw: random.Random, slow_down: float, *, are_interleaved: bool, drift: float = 0.0) -> list[Outcome]:
    """Of pairs of runs with recorded noise, the first slower by ``slow_down``, both with a common drift."""
    noise = recorded_noise()
    found = []
    for _ in range(PAIRS):
        trend = [1 + drift * n for n in range(6)]
        ours = [draw.choice(noise) * level / (1 + slow_down) for level in trend]
        theirs = [draw.choice(noise) * level for level in trend]
        found.append(judge(ratio_of_medians(ours, theirs, are_interleaved=are_interleaved)).outcome)
    return found


@pytest.mark.parametrize("are_interleaved", [True, False])
def test_the_same_twice_is_hardly_ever_called_different(are_interleaved: bool) -> None:
    found = verdicts(random.Random(5), 0.0, are_interleaved=are_interleaved)
    false_alarms = sum(each in (Outcome.FASTER, Outcome.SLOWER) for each in found)
    assert false_alarms <= 0.05 * PAIRS


def test_drift_is_not_mistaken_for_a_difference_between_interleaved_runs() -> None:
    found = verdicts(random.Random(6), 0.0, are_interleaved=True, drift=0.05)
    assert sum(each in (Outcome.FASTER, Outcome.SLOWER) for each in found) <= 0.05 * PAIRS


@pytest.mark.parametrize("are_interleaved", [True, False])
def test_a_tenth_slower_is_found(are_interleaved: bool) -> None:
    found = verdicts(random.Random(7), 0.10, are_interleaved=are_interleaved)
    assert found.count(Outcome.FASTER) == 0
    assert found.count(Outcome.SLOWER) >= 0.95 * PAIRS


def test_more_samples_never_make_a_sure_difference_unsure() -> None:
    for count in range(6, 14):
        sure = ratio_of_medians([100.0 + n for n in range(count)], [200.0 + n for n in range(count)])
        assert judge(sure).outcome is Outcome.SLOWER
    widths = [
        ratio_of_medians([100 + n % 7 for n in range(count)], [100 + n % 5 for n in range(count)])
        for count in (6, 12, 24, 48)
    ]
    assert all(later.high - later.low <= earlier.high - earlier.low for earlier, later in pairwise(widths))
