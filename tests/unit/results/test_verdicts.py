"""Verdicts, and how often they are right and wrong on repeats that are drawn at random."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest

from lab.results.rows import rows
from lab.results.statistics import (
    Asked,
    PValues,
    RatioOutcome,
    RatioTest,
    Verdict,
    adjusted,
    estimate,
    judge_family,
    looks,
)
from lab.results.store import decode_record

RECORDED = Path(__file__).parents[1] / "compare" / "data" / "two-platforms-hdd-7200.json"
PAIRS = 200
DIFFERENT = (RatioOutcome.FASTER, RatioOutcome.SLOWER)


def paired(ratios: Sequence[float]) -> RatioTest:
    return RatioTest.paired(dict(enumerate(ratios)), dict.fromkeys(range(len(ratios)), 1.0))


def judge(test: RatioTest) -> Verdict:
    return judge_family([Asked(test)])[0]


@pytest.mark.parametrize(
    ("ratios", "outcome"),
    [
        ((1.18, 1.2, 1.22, 1.19, 1.21, 1.2), RatioOutcome.FASTER),
        ((0.8, 0.81, 0.79, 0.82, 0.78, 0.8), RatioOutcome.SLOWER),
        ((0.9, 1.5, 1.2, 0.95, 1.3, 1.1), RatioOutcome.CANNOT_TELL),
        ((0.99, 1.01, 1.0, 1.02, 0.98, 1.01), RatioOutcome.SAME),
        # A certain but unimportant difference.
        ((1.02, 1.01, 1.03, 1.02, 1.025, 1.015), RatioOutcome.SAME),
        ((1.03, 1.01, 1.08, 1.02, 1.06, 1.04), RatioOutcome.CANNOT_TELL),
        ((2.0, 1.9, 2.1), RatioOutcome.CANNOT_TELL),
    ],
)
def test_a_verdict_needs_a_difference_that_is_sure_and_of_weight(
    ratios: Sequence[float], outcome: RatioOutcome
) -> None:
    verdict = judge(paired(ratios))
    assert verdict.outcome is outcome
    assert bool(verdict.reason) is (outcome is RatioOutcome.CANNOT_TELL)


def test_of_times_less_is_faster() -> None:
    times = [paired([0.8, 0.81, 0.79, 0.82, 0.78, 0.8]), paired([1.2, 1.21, 1.19, 1.22, 1.18, 1.2])]
    found = judge_family([Asked(each, is_time=True) for each in times])
    assert [each.outcome for each in found] == [RatioOutcome.FASTER, RatioOutcome.SLOWER]


CLEAR = (1.5, 1.6, 1.4, 1.55, 1.45, 1.52)
NOISE = (0.8, 1.3, 0.9, 1.1, 1.2, 0.85)


def test_other_comparisons_made_at_the_same_time_count() -> None:
    clear, noise = Asked(paired(CLEAR)), Asked(paired(NOISE))
    lost, *_ = judge_family([clear, noise, noise])
    assert lost.outcome is RatioOutcome.CANNOT_TELL
    assert lost.reason == "clear on its own, but not among 3 comparisons with 6 repeats: at least 7 are needed"
    assert judge_family([Asked(paired((*CLEAR, 1.5))), noise, noise])[0].outcome is RatioOutcome.FASTER
    # If most are clear, the few repeats of the built-in experiments suffice.
    assert [each.outcome for each in judge_family([clear, clear, noise])][:2] == [RatioOutcome.FASTER] * 2
    assert judge_family([]) == []


def test_too_few_repeats_are_reported_with_the_needed_number() -> None:
    assert judge(paired([2.0, 1.9, 2.1])).reason == "3 repeats are too few: at least 6 are needed"
    few = [Asked(paired([2.0, 1.9, 2.1]))] * 5
    assert (
        judge_family(few)[0].reason
        == "3 repeats are too few: at least 8 are needed for one clear difference among 5 comparisons"
    )


def test_the_surer_claim_is_adjusted_as_scipy_does_and_the_other_one_by_the_same_family() -> None:
    import scipy.stats  # no other worker has to load it

    family = [PValues(0.03, 0.9), PValues(0.6, 0.01), PValues(0.02, 0.2), PValues(0.5, 0.4)]
    found = adjusted(family)
    surer = [min(each.claim, each.opposite) for each in found]
    assert surer == pytest.approx(scipy.stats.false_discovery_control([0.03, 0.01, 0.02, 0.4]))
    # With 0.2 in place of 0.02 and the others unchanged, it is the third of four.
    assert found[2].opposite == pytest.approx(0.2 * 4 / 3)
    assert adjusted([]) == []


def test_of_all_that_is_claimed_few_claims_are_wrong() -> None:
    """A third equal, a third near the margin's edge, a third different: the family keeps its error rate."""
    draw = random.Random(4)
    shares = []
    for _ in range(40):
        truths = [1.0, 1.05, 1.3] * 3
        family = [Asked(paired([truth * draw.lognormvariate(0, 0.04) for _ in range(8)])) for truth in truths]
        outcomes = [each.outcome for each in judge_family(family)]
        wrong = {
            1.0: DIFFERENT,
            1.05: (RatioOutcome.SAME, RatioOutcome.SLOWER),
            1.3: (RatioOutcome.SAME, RatioOutcome.SLOWER),
        }
        claimed = [
            (truth, each) for truth, each in zip(truths, outcomes, strict=True) if each != RatioOutcome.CANNOT_TELL
        ]
        shares.append(sum(each in wrong[truth] for truth, each in claimed) / max(1, len(claimed)))
    assert sum(shares) / len(shares) <= 0.05


def recorded_noise() -> list[float]:
    """Every recorded repeat as a fraction of its cell's median: the noise of real runs, its tails included."""
    record = decode_record(RECORDED.read_bytes(), source=str(RECORDED))
    noise = []
    for row in rows(record):
        values = row.values(lambda section: section.iops)
        noise += [value / median(values) for value in values]
    return noise


def verdicts(
    draw: random.Random, slow_down: float, noise: list[float], *, are_interleaved: bool, drift: float = 0.0
) -> list[RatioOutcome]:
    """Of pairs of runs, the first slower by ``slow_down``, both with a common drift."""
    found = []
    for _ in range(PAIRS):
        trend = [1 + drift * n for n in range(6)]
        ours = [draw.choice(noise) * level / (1 + slow_down) for level in trend]
        theirs = [draw.choice(noise) * level for level in trend]
        numbered = (dict(enumerate(ours)), dict(enumerate(theirs)))
        found.append(judge(RatioTest.paired(*numbered) if are_interleaved else RatioTest.apart(ours, theirs)).outcome)
    return found


@pytest.mark.parametrize(("are_interleaved", "drift"), [(False, 0.0), (True, 0.05)])
def test_the_same_twice_is_hardly_ever_called_different(are_interleaved: bool, drift: float) -> None:
    noise = recorded_noise()
    assert max(noise) - min(noise) > 0.1
    found = verdicts(random.Random(5), 0.0, noise, are_interleaved=are_interleaved, drift=drift)
    assert sum(each in DIFFERENT for each in found) <= 0.05 * PAIRS


@pytest.mark.parametrize("are_interleaved", [True, False])
def test_a_tenth_slower_is_found(are_interleaved: bool) -> None:
    draw = random.Random(7)
    # A deviation of 2 %: with that of the recorded repeats, 10 %, six show a tenth in fewer than a third of the pairs.
    noise = [draw.lognormvariate(0, 0.02) for _ in range(100)]
    found = verdicts(draw, 0.10, noise, are_interleaved=are_interleaved)
    assert found.count(RatioOutcome.FASTER) == 0
    assert found.count(RatioOutcome.SLOWER) >= 0.95 * PAIRS


def test_cells_stopped_at_different_interim_looks_are_compared_by_common_rounds() -> None:
    """How long each is measured depends on the spread of its own repeats, which favours neither."""
    draw = random.Random(8)
    planned = looks(6, 20)

    def cell() -> dict[int, float]:
        values: list[float] = []
        for look in planned:
            values += [draw.gauss(100, 7) for _ in range(look.n - len(values))]
            if estimate(values, planned).half_width_fraction <= 0.05:
                break
        return dict(enumerate(values))

    pairs = [(cell(), cell()) for _ in range(PAIRS)]
    assert any(len(ours) != len(theirs) for ours, theirs in pairs)
    found = [judge(RatioTest.paired(ours, theirs)).outcome for ours, theirs in pairs]
    assert sum(each in DIFFERENT for each in found) <= 0.05 * PAIRS
