"""Repeats until the interval is narrow: which cells get more, in what order, and what is said in the end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lab.errors import SpecError
from lab.experiments.schedule import cells, extra_cells, wide_cells, wide_notes
from lab.results.record import ResultRecord
from tests.unit.experiments.experiments import experiment
from tests.unit.results.records import cell, record

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


def test_six_repeats_without_being_asked() -> None:
    assert experiment("").repeats == 6


def test_only_cells_with_a_wide_interval_get_more() -> None:
    found = wide_cells(experiment(ADAPTIVE), measured(a=STEADY, b=NOISY))
    assert found == {("b", "rand-read-4k")}
    assert wide_cells(experiment("repeats = 6"), measured(a=STEADY, b=NOISY)) == frozenset()


def test_the_cap_ends_it_and_the_result_says_so() -> None:
    noisy = measured(a=STEADY, b=NOISY * 2)
    assert wide_cells(experiment(ADAPTIVE), noisy) == frozenset()
    (note,) = wide_notes(experiment(ADAPTIVE), noisy)
    assert note.startswith("wide-interval: b/rand-read-4k: ±")
    assert note.endswith("after 12 repeats, and ±5% was wanted")
    assert wide_notes(experiment(ADAPTIVE), measured(a=STEADY)) == ()


def test_between_two_looks_every_cell_goes_on() -> None:
    """Seven narrow repeats are no reason to stop: chances to be lucky are counted at the looks only."""
    plan = experiment("most_repeats = 20\nwanted_half_width = 0.05")
    assert wide_cells(plan, measured(a=STEADY)) == frozenset()
    assert wide_cells(plan, measured(a=[*STEADY, 100])) == {("a", "rand-read-4k")}
    assert wide_cells(plan, measured(a=[*STEADY, *STEADY])) == frozenset()
    # Fewer than the six that an interval of 95 % needs: on to the first look.
    early = experiment("repeats = 3\nmost_repeats = 20")
    assert wide_cells(early, measured(a=STEADY[:3])) == {("a", "rand-read-4k")}


def test_a_cell_without_io_is_wide_and_no_error() -> None:
    assert wide_cells(experiment(ADAPTIVE), measured(a=[0.0] * 6)) == {("a", "rand-read-4k")}


def test_an_extra_round_holds_the_wanting_cells_in_an_order_of_its_own() -> None:
    plan = experiment(ADAPTIVE)
    everything = {(each.array, each.workload.id) for each in cells(plan)}
    rounds = [extra_cells(plan, repeat, everything, 30) for repeat in range(6, 12)]
    orders = {tuple((each.array, each.workload.id) for each in one) for one in rounds}
    assert len(orders) > 1
    assert all({(each.array, each.workload.id) for each in one} == everything for one in rounds)
    assert [each.order_index for each in rounds[0]] == list(range(30, 30 + len(everything)))
    (one,) = extra_cells(plan, 7, {("b", "rand-read-4k")}, 0)
    assert (one.array, one.workload.id, one.repeat) == ("b", "rand-read-4k", 7)


@pytest.mark.parametrize("head", ["most_repeats = 3", "wanted_half_width = 5.0", "wanted_half_width = 0.0"])
def test_a_cap_or_a_width_that_cannot_be_is_refused(head: str) -> None:
    with pytest.raises(SpecError):
        experiment(head)
