"""Whether shares of variance tell the truth, on speeds whose truth is known."""

from __future__ import annotations

import math
import random
from itertools import product

import pytest

from lab.sweep.grid import CellRow, Sensitivity, SweepGrid, ranked_axes, sensitivities
from tests.unit.sweep.made_sweeps import row, sweep

LEVEL, MEMBERS, DEPTH = (0.0, 0.3), (0.0, 0.5, 1.3), (0.0, 0.2, 0.9, 2.0)


def population_variance(values: tuple[float, ...]) -> float:
    mean = sum(values) / len(values)
    return sum((value - mean) ** 2 for value in values) / len(values)


def additive(noise: float = 0.0, copies: int = 1) -> list[CellRow]:
    """Every combination; the logarithm of a speed is the sum of one effect of each axis, and noise."""
    draw = random.Random(1)
    return [
        row(
            ("raid0", "raid5")[level],
            100 * math.exp(LEVEL[level] + MEMBERS[members] + DEPTH[depth] + draw.gauss(0, noise)),
            members=4 + members,
            queue_depth=2**depth,
            cell=f"{level}{members}{depth}{copy}",
        )
        for level, members, depth, copy in product(range(2), range(3), range(4), range(copies))
    ]


def shares(found: Sensitivity) -> dict[str, float]:
    return {each.axis: each.share for each in found.effects}


def test_shares_are_the_variances_of_the_effects() -> None:
    (found,) = sensitivities(SweepGrid(sweep(additive())))
    variances = {"level": LEVEL, "members": MEMBERS, "queue_depth": DEPTH}
    total = sum(map(population_variance, variances.values()))
    assert shares(found) == pytest.approx(
        {name: population_variance(effect) / total for name, effect in variances.items()}
    )
    assert found.together == pytest.approx(1.0)
    assert [each.best for each in found.effects] == ["raid5", "6", "8"]
    assert [each.factor for each in found.effects] == pytest.approx([math.exp(each) for each in (0.3, 1.3, 2.0)])


def test_noise_goes_to_the_rest() -> None:
    noise = 0.5
    (found,) = sensitivities(SweepGrid(sweep(additive(noise, copies=300))))
    effects = [population_variance(each) for each in (LEVEL, MEMBERS, DEPTH)]
    total = sum(effects) + noise**2
    assert found.together == pytest.approx(sum(effects) / total, abs=0.015)
    assert list(shares(found).values()) == pytest.approx([each / total for each in effects], abs=0.015)


def test_an_interaction_alone_is_no_main_effect() -> None:
    """Each level is fast with another number of members: neither axis alone says anything."""
    fast = {("raid0", 4), ("raid5", 8)}
    rows = [
        row(level, 200.0 if (level, n) in fast else 50.0, members=n) for level in ("raid0", "raid5") for n in (4, 8)
    ]
    (found,) = sensitivities(SweepGrid(sweep(rows)))
    assert shares(found) == pytest.approx({"level": 0.0, "members": 0.0})
    assert found.together == pytest.approx(0.0)


def test_missing_combinations_do_not_hide_that_effects_multiply() -> None:
    rows = [each for place, each in enumerate(additive()) if place % 5]
    (found,) = sensitivities(SweepGrid(sweep(rows)))
    assert found.together == pytest.approx(1.0)
    assert all(0 <= share <= 1 for share in shares(found).values())


def test_two_axes_that_go_together_share_what_they_explain() -> None:
    rows = [row(iops=100.0 * n, members=n, queue_depth=n) for n in (2, 4, 8)]
    axes = {"members": (2, 4, 8), "queue_depth": (2, 4, 8)}
    (found,) = sensitivities(SweepGrid(sweep(rows, axes=axes)))
    assert shares(found) == pytest.approx({"members": 1.0, "queue_depth": 1.0})
    assert found.together == pytest.approx(1.0)


def test_workloads_and_directions_are_not_mixed() -> None:
    """Which workload is faster says nothing of the axes: its rows are told apart, and reads from writes."""
    rows = [
        row(level, speed * factor, workload=workload, direction=direction)
        for level, factor in (("raid0", 1.0), ("raid5", 2.0))
        for workload, direction, speed in (("a", "read", 10.0), ("b", "read", 1e5), ("b", "write", 1.0))
    ]
    found = {each.title: shares(each) for each in sensitivities(SweepGrid(sweep(rows)))}
    assert list(found) == ["all workloads, reads", "all workloads, writes", "a, reads", "b, reads", "b, writes"]
    assert found["a, reads"] == pytest.approx({"level": 1.0})
    assert found["all workloads, reads"]["workload"] > 0.9
    assert found["all workloads, writes"] == pytest.approx({"level": 1.0})


def test_equal_speeds_have_no_shares() -> None:
    (found,) = sensitivities(SweepGrid(sweep([row("raid0", 77.7), row("raid5", 77.7), row("raid6", 77.7)])))
    assert (found.effects, found.together) == ((), None)
    assert sensitivities(SweepGrid(sweep([row()])))[0].together is None
    assert sensitivities(SweepGrid(sweep([]))) == ()


def test_a_level_without_chunks_is_a_group_of_its_own() -> None:
    rows = [row(iops=100.0, chunk_bytes=4096), row(iops=100.0, chunk_bytes=8192), row("raid1", 400.0, chunk_bytes=None)]
    (found,) = sensitivities(SweepGrid(sweep(rows)))
    assert {each.axis: each.best for each in found.effects} == {"level": "raid1", "chunk": "none"}


def test_axes_come_by_what_they_explain_within_workloads() -> None:
    assert [axis.name for axis in ranked_axes(SweepGrid(sweep(additive())))] == ["queue_depth", "members", "level"]
