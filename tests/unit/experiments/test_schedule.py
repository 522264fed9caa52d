from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import SpecError
from lab.experiments.linting import lint_experiment
from lab.experiments.schedule import cells, estimated_seconds, planned_keys, rebuild_cells, remaining
from lab.experiments.schema import Experiment, built_in_names, find_experiment
from tests.unit.experiments.experiments import REBUILD, UNDER, experiment

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


@given(seed=st.integers(0, 2**31))
def test_shared_disks_are_built_on_once_per_array_and_repeat(seed: int) -> None:
    order = order_of(experiment(f"repeats = 4\nseed = {seed}", SHARED))
    visits = [key for key, _ in itertools.groupby((array, repeat) for array, _, repeat in order)]
    assert len(visits) == len(set(visits)) == 12


@given(seed=st.integers(0, 2**31), repeats=st.integers(1, 6), rounds=st.integers(1, 7))
def test_several_repeats_on_each_build_are_still_every_cell_once(seed: int, repeats: int, rounds: int) -> None:
    order = order_of(experiment(f"repeats = {repeats}\nseed = {seed}\nrounds_per_build = {rounds}", SHARED))
    assert sorted(order) == sorted((array, workload, repeat) for array, workload in PAIRS for repeat in range(repeats))
    # Each array stands once in every block of repeats, and its repeats in the block follow one another.
    builds = [key for key, _ in itertools.groupby((array, repeat // rounds) for array, _, repeat in order)]
    assert sorted(builds) == sorted((array, block) for array in "abc" for block in range(-(-repeats // rounds)))
    on_one = [(repeat // rounds, array, repeat) for array, _, repeat in order]
    assert all(first[2] <= then[2] for first, then in itertools.pairwise(on_one) if first[:2] == then[:2])


def test_several_repeats_on_each_build_need_shared_disks() -> None:
    with pytest.raises(SpecError, match="needs sharing 'shared'"):
        experiment("rounds_per_build = 2")
    with pytest.raises(SpecError, match="rounds_per_build: 0 is not possible: write 1 or more"):
        experiment("rounds_per_build = 0", SHARED)


def test_all_repeats_on_one_build_are_no_interleaved_order() -> None:
    rules = [
        {
            finding.rule_id
            for finding in lint_experiment(experiment(f"repeats = 6\nrounds_per_build = {rounds}", SHARED))
        }
        for rounds in (1, 3, 6)
    ]
    assert ["ordered-runs" in found for found in rules] == [False, False, True]


def test_the_order_is_drawn_anew_for_each_repeat_and_seed() -> None:
    order = order_of(experiment("repeats = 6\nseed = 1"))
    rounds = {tuple(pair[:2] for pair in order if pair[2] == repeat) for repeat in range(6)}
    assert len(rounds) > 1
    assert order != order_of(experiment("repeats = 6\nseed = 2"))


def test_arrays_on_shared_disks_take_turns_in_another_order() -> None:
    order = order_of(experiment("repeats = 8\nseed = 1", SHARED))
    assert len({tuple(dict.fromkeys(array for array, _, number in order if number == each)) for each in range(8)}) > 1


def test_the_order_of_a_seed_is_the_same_in_every_release() -> None:
    # Results of one experiment are compared across machines: the draw must not change silently.
    found = order_of(experiment("repeats = 1\nseed = 2024"))
    assert [(array, workload.split("-")[1]) for array, workload, _ in found] == [
        ("c", "read"),
        ("c", "write"),
        ("b", "write"),
        ("b", "read"),
        ("a", "read"),
    ]


def test_listed_order_is_that_of_the_file() -> None:
    order = order_of(experiment('repeats = 2\norder = "listed"'))
    assert order[:4] == [
        ("a", "rand-read-4k", 0),
        ("a", "rand-read-4k", 1),
        ("b", "rand-read-4k", 0),
        ("b", "rand-read-4k", 1),
    ]
    assert {(array, workload) for array, workload, _ in order} == PAIRS
    assert len(order) == 2 * len(PAIRS)


def test_rebuilds_alone() -> None:
    found = experiment("repeats = 2", REBUILD)
    assert [cell.key for cell in rebuild_cells(found)] == [
        "a/rebuild/idle/0",
        "b/rebuild/idle/0",
        "a/rebuild/idle/1",
        "b/rebuild/idle/1",
    ]
    assert rebuild_cells(experiment()) == ()


def test_the_plan_of_a_rebuild_under_load_has_its_phases() -> None:
    found = experiment("repeats = 1\njobs = []", REBUILD, UNDER, jobs="")
    assert planned_keys(found) == tuple(
        key
        for array in ("a", "b")
        for key in (
            f"{array}/rand-mix-4k/healthy/0",
            f"{array}/rand-mix-4k/degraded/0",
            f"{array}/rand-mix-4k/rebuilding/0",
            f"{array}/rand-mix-4k/restored/0",
            f"{array}/rebuild/rand-mix-4k/0",
        )
    )


def test_the_plan_has_every_job_and_rebuild_once() -> None:
    found = experiment("repeats = 3", REBUILD, UNDER)
    keys = planned_keys(found)
    assert len(keys) == len(set(keys)) == 3 * len(PAIRS) + 3 * 2 * 5
    assert {cell.key for cell in cells(found)} < set(keys)


RESUMABLE = experiment("repeats = 3", REBUILD, UNDER)


@given(st.sets(st.sampled_from(planned_keys(RESUMABLE))))
def test_what_remains_is_exactly_what_is_missing(done: set[str]) -> None:
    jobs, rebuilds = remaining(RESUMABLE, done)
    missing = set(planned_keys(RESUMABLE)) - done
    assert {cell.key for cell in jobs} == {cell.key for cell in cells(RESUMABLE)} & missing
    assert [cell for cell in cells(RESUMABLE) if cell in jobs] == list(jobs)
    # A rebuild is one act: it is done again whole if one of its phases is missing.
    assert set(rebuilds) == {cell for cell in rebuild_cells(RESUMABLE) if set(cell.keys) & missing}


def test_nothing_remains_of_a_complete_run() -> None:
    assert remaining(RESUMABLE, planned_keys(RESUMABLE)) == ((), ())


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
