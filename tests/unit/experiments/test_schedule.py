"""The order of cells, and repeats until the interval is narrow: which cells are repeated more often."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.experiments.linting import lint_experiment
from lab.experiments.schedule import (
    cells,
    estimated_seconds,
    extra_cells,
    planned_keys,
    rebuild_cells,
    remaining,
    wide_cells,
    wide_notes,
)
from lab.experiments.schema import Experiment, built_in_names, find_experiment
from lab.results.record import ResultRecord
from tests.unit.experiments.experiments import REBUILD, UNDER, experiment
from tests.unit.results.records import cell, record

SHARED = '[disks]\nsharing = "shared"\n'
PAIRS = {
    ("a", "rand-read-4k"),
    ("b", "rand-read-4k"),
    ("b", "rand-write-4k"),
    ("c", "rand-read-4k"),
    ("c", "rand-write-4k"),
}


def order_of(found: Experiment) -> list[tuple[str, str, int]]:
    return [(cell.array, cell.workload.id, cell.repeat) for cell in cells(found)]


@given(seed=st.integers(0, 2**31), repeats=st.integers(1, 6), sharing=st.sampled_from(["shared", "separate"]))
def test_every_repeat_visits_every_cell_once(seed: int, repeats: int, sharing: str) -> None:
    found = experiment(f"repeats = {repeats}\nseed = {seed}", f'[disks]\nsharing = "{sharing}"\n')
    order = order_of(found)
    assert [repeat for _, _, repeat in order] == [number for number in range(repeats) for _ in PAIRS]
    for repeat in range(repeats):
        assert {(array, workload) for array, workload, number in order if number == repeat} == PAIRS
    assert [cell.order_index for cell in cells(found)] == list(range(len(PAIRS) * repeats))
    assert order == order_of(found)


@given(seed=st.integers(0, 2**31), repeats=st.integers(1, 6), rounds=st.integers(1, 7))
def test_several_repeats_on_each_build_are_still_every_cell_once(seed: int, repeats: int, rounds: int) -> None:
    order = order_of(experiment(f"repeats = {repeats}\nseed = {seed}\nrounds_per_build = {rounds}", SHARED))
    assert sorted(order) == sorted((array, workload, repeat) for array, workload in PAIRS for repeat in range(repeats))
    # Each array occurs once in every block of repeats, and its repeats in the block are consecutive.
    builds = [key for key, _ in itertools.groupby((array, repeat // rounds) for array, _, repeat in order)]
    assert sorted(builds) == sorted((array, block) for array in "abc" for block in range(-(-repeats // rounds)))
    on_one = [(repeat // rounds, array, repeat) for array, _, repeat in order]
    assert all(first[2] <= then[2] for first, then in itertools.pairwise(on_one) if first[:2] == then[:2])


@pytest.mark.parametrize(("rounds", "is_interleaved"), [(1, True), (3, True), (6, False)])
def test_all_repeats_on_one_build_are_no_interleaved_order(rounds: int, is_interleaved: bool) -> None:
    found = lint_experiment(experiment(f"repeats = 6\nrounds_per_build = {rounds}", SHARED))
    assert ("ordered-runs" in {finding.rule_id for finding in found}) is not is_interleaved


@pytest.mark.parametrize("sharing", ["", SHARED])
def test_the_order_is_drawn_anew_for_each_repeat_and_seed(sharing: str) -> None:
    order = order_of(experiment("repeats = 8\nseed = 1", sharing))
    rounds = [tuple(array for array, _, number in order if number == repeat) for repeat in range(8)]
    # Arrays on shared disks take turns: each is built once in a round.
    assert len({tuple(dict.fromkeys(each)) for each in rounds}) > 1
    assert order != order_of(experiment("repeats = 8\nseed = 2", sharing))


def test_the_order_of_a_seed_is_the_same_in_every_release() -> None:
    # Results of one experiment are compared across machines, so the random order must not change silently.
    found = [(array, workload.split("-")[1]) for array, workload, _ in order_of(experiment("repeats = 1\nseed = 2024"))]
    assert found == [("c", "read"), ("c", "write"), ("b", "write"), ("b", "read"), ("a", "read")]


def test_listed_order_is_that_of_the_file() -> None:
    order = order_of(experiment('repeats = 2\norder = "listed"'))
    assert order[:4] == [(array, "rand-read-4k", repeat) for array in "ab" for repeat in range(2)]
    assert {(array, workload) for array, workload, _ in order} == PAIRS
    assert len(order) == 2 * len(PAIRS)


def test_rebuilds_alone() -> None:
    keys = [cell.key for cell in rebuild_cells(experiment("repeats = 2", REBUILD))]
    assert keys == ["a/rebuild/idle/0", "b/rebuild/idle/0", "a/rebuild/idle/1", "b/rebuild/idle/1"]
    assert rebuild_cells(experiment()) == ()


def test_the_plan_of_a_rebuild_under_load_has_its_phases() -> None:
    found = experiment("repeats = 1\njobs = []", REBUILD, UNDER, jobs="")
    parts = [f"rand-mix-4k/{phase}" for phase in ("healthy", "degraded", "rebuilding", "restored")]
    keys = (f"{array}/{part}/0" for array in "ab" for part in (*parts, "rebuild/rand-mix-4k"))
    assert planned_keys(found) == tuple(keys)


RESUMABLE = experiment("repeats = 3", REBUILD, UNDER)


@given(st.sets(st.sampled_from(planned_keys(RESUMABLE))))
@example(set(planned_keys(RESUMABLE)))
def test_remaining_cells_are_exactly_the_missing_ones(done: set[str]) -> None:
    jobs, rebuilds = remaining(RESUMABLE, done)
    missing = set(planned_keys(RESUMABLE)) - done
    assert {cell.key for cell in jobs} == {cell.key for cell in cells(RESUMABLE)} & missing
    assert [cell for cell in cells(RESUMABLE) if cell in jobs] == list(jobs)
    # A rebuild is one unit: if one of its phases is missing, the whole rebuild is repeated.
    assert set(rebuilds) == {cell for cell in rebuild_cells(RESUMABLE) if set(cell.keys) & missing}


@pytest.mark.parametrize("name", built_in_names())
def test_a_run_takes_at_least_as_long_as_its_jobs(name: str) -> None:
    found, _ = find_experiment(name)
    assert estimated_seconds(found) > sum(
        cell.workload.runtime_seconds + cell.workload.warmup_seconds for cell in cells(found)
    )


def test_a_rebuild_and_a_load_take_longer() -> None:
    estimates = [estimated_seconds(experiment("repeats = 3", *parts)) for parts in ((), (REBUILD,), (REBUILD, UNDER))]
    assert estimates == sorted(set(estimates))
    assert estimates[0] > 0


ADAPTIVE = "most_repeats = 12\nwanted_half_width = 0.05"
STEADY = [100, 101, 99, 100, 102, 98]
NOISY = [100, 130, 70, 110, 90, 100]


def measured(**values: Sequence[float]) -> ResultRecord:
    """A record with these read IOPS of workload rand-read-4k on each array."""
    found = [
        cell(array, "rand-read-4k", repeat, read_iops=value)
        for array, repeats in values.items()
        for repeat, value in enumerate(repeats)
    ]
    return record(cells=tuple(found))


def test_only_cells_with_a_wide_interval_get_more() -> None:
    found = wide_cells(experiment(ADAPTIVE), measured(a=STEADY, b=NOISY))
    assert found == {("b", "rand-read-4k")}
    assert wide_cells(experiment("repeats = 6"), measured(a=STEADY, b=NOISY)) == frozenset()


def test_the_maximum_of_repeats_ends_a_cell_with_a_note() -> None:
    noisy = measured(a=STEADY, b=NOISY * 2)
    assert wide_cells(experiment(ADAPTIVE), noisy) == frozenset()
    (note,) = wide_notes(experiment(ADAPTIVE), noisy)
    assert note.startswith("wide-interval: b/rand-read-4k: ±")
    assert note.endswith("after 12 repeats, but ±5% was wanted")
    assert wide_notes(experiment(ADAPTIVE), measured(a=STEADY)) == ()


def test_between_two_interim_looks_no_cell_is_stopped() -> None:
    """Seven narrow repeats are no reason to stop: a lucky chance is accounted for only at the interim looks."""
    plan = experiment("most_repeats = 20\nwanted_half_width = 0.05")
    assert wide_cells(plan, measured(a=STEADY)) == frozenset()
    assert wide_cells(plan, measured(a=[*STEADY, 100])) == {("a", "rand-read-4k")}
    assert wide_cells(plan, measured(a=[*STEADY, *STEADY])) == frozenset()
    # Fewer than the six repeats that an interval of 95 % needs, so the cell continues to the first look.
    early = experiment("repeats = 3\nmost_repeats = 20")
    assert wide_cells(early, measured(a=STEADY[:3])) == {("a", "rand-read-4k")}


def test_a_cell_without_io_is_wide_and_no_error() -> None:
    assert wide_cells(experiment(ADAPTIVE), measured(a=[0.0] * 6)) == {("a", "rand-read-4k")}


def test_an_extra_round_has_the_wide_cells_in_a_different_order() -> None:
    plan = experiment(ADAPTIVE)
    everything = {(each.array, each.workload.id) for each in cells(plan)}
    rounds = [extra_cells(plan, repeat, everything, 30) for repeat in range(6, 12)]
    orders = {tuple((each.array, each.workload.id) for each in one) for one in rounds}
    assert len(orders) > 1
    assert all({(each.array, each.workload.id) for each in one} == everything for one in rounds)
    assert [each.order_index for each in rounds[0]] == list(range(30, 30 + len(everything)))
    (one,) = extra_cells(plan, 7, {("b", "rand-read-4k")}, 0)
    assert (one.array, one.workload.id, one.repeat) == ("b", "rand-read-4k", 7)
