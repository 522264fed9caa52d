from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from lab.compare import CONDITIONS, UnlikeRuns, compare, differences, require_alike
from lab.errors import SpecError
from lab.results.record import DiskRecord, RebuildRecord, ResultRecord
from lab.results.statistics import RatioOutcome
from tests.unit.results.records import cell
from tests.unit.results.test_store import draft

STEADY = [100.0, 101.0, 99.0, 100.5, 99.5, 100.2]


def result(iops: Sequence[float], record_id: str = "a") -> ResultRecord:
    cells = (cell("md0", "rand-mix-4k", repeat, read_iops=value) for repeat, value in enumerate(iops))
    return replace(draft(record_id), cells=tuple(cells))


def scaled(factor: float) -> list[float]:
    return [value * factor for value in STEADY]


@pytest.mark.parametrize(
    ("factor", "outcome"),
    [
        (1.5, RatioOutcome.FASTER),
        (0.5, RatioOutcome.SLOWER),
        (1.001, RatioOutcome.SAME),
        (1.045, RatioOutcome.CANNOT_TELL),
    ],
)
def test_the_second_is_judged_by_the_whole_interval(factor: float, outcome: RatioOutcome) -> None:
    (row,) = compare(result(STEADY), result(scaled(factor), "b")).rows
    assert row.outcome is outcome
    assert row.ratio is not None
    assert row.ratio.median == pytest.approx(factor)
    assert row.ratio.low <= factor <= row.ratio.high


def test_zeros_are_inconclusive_and_raise_nothing() -> None:
    (row,) = compare(result([0.0] * 6), result(STEADY, "b")).rows
    assert row.outcome is RatioOutcome.CANNOT_TELL
    assert row.ratio is None


def test_longer_rebuilds_are_slower() -> None:
    def rebuilt(seconds: float, name: str) -> ResultRecord:
        made = tuple(
            RebuildRecord(array="md0", repeat=number, rebuild_seconds=seconds + number / 100, rebuilt_bytes=1)
            for number in range(6)
        )
        return replace(draft(name), rebuilds=made)

    (row,) = compare(rebuilt(10.0, "a"), rebuilt(20.0, "b")).rows
    assert (row.figure, row.outcome) == ("rebuild seconds", RatioOutcome.SLOWER)


def test_cells_without_counterpart_are_named() -> None:
    first = result(STEADY)
    other = replace(first, id="b", cells=tuple(replace(each, array="md9") for each in first.cells))
    both = replace(other, cells=(*first.cells, *other.cells))
    assert compare(first, both).only_second == ("md9/rand-mix-4k/healthy",)
    with pytest.raises(SpecError, match="no cell in common"):
        compare(first, other)


@pytest.mark.parametrize("margin", [-0.1, 1.0, float("nan")])
def test_a_margin_must_be_a_part_of_one(margin: float) -> None:
    with pytest.raises(SpecError):
        compare(result(STEADY), result(STEADY, "b"), margin=margin)


def changed(**conditions: object) -> ResultRecord:
    made = result(STEADY, "b")
    return replace(made, conditions=replace(made.conditions, **conditions))


CHANGES: dict[str, ResultRecord] = {
    "experiment": replace(result(STEADY, "b"), experiment="y"),
    "host": changed(host_name="other"),
    "machine": changed(is_embedded=False),
    "cpus": changed(cpu_count=8),
    "memory": changed(memory_bytes=2**34),
    "kernel": changed(kernel_release="6.8.0"),
    "tools": changed(fio_version="fio-3.36"),
    "disks": changed(disks=(DiskRecord(name="disk01", path="/dev/vdb", kind="virtio", size_bytes=2**20),)),
    "tunables": changed(tunables={"/sys/block/md0/md/sync_speed_max": "1"}),
    "raidlab": replace(result(STEADY, "b"), raidlab_version="9"),
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_unlike_runs_are_refused_until_that_difference_is_allowed(condition: str) -> None:
    first, second = result(STEADY), CHANGES[condition]
    with pytest.raises(UnlikeRuns, match=f"--allow {condition}") as refused:
        require_alike(first, second)
    assert refused.value.hint.endswith(f" --allow {condition}")
    assert [each.condition for each in require_alike(first, second, [condition])] == [condition]
    assert require_alike(first, second, ["all"])


def test_an_unknown_permission_names_the_nearest() -> None:
    with pytest.raises(SpecError, match="kernal") as refused:
        require_alike(result(STEADY), result(STEADY, "b"), ["kernal"])
    assert "kernel" in refused.value.hint


@pytest.mark.parametrize(("memory_mib", "is_alike"), [(488, True), (486, True), (478, True), (440, False)])
def test_two_starts_of_one_machine_have_as_much_memory(memory_mib: int, is_alike: bool) -> None:
    first, second = (
        replace(made, conditions=replace(made.conditions, memory_bytes=size * 2**20))
        for made, size in ((result(STEADY), 488), (result(STEADY, "b"), memory_mib))
    )
    assert (differences(first, second) == ()) is is_alike


def test_few_repeats_are_inconclusive_however_large_the_difference() -> None:
    (row,) = compare(result(STEADY[:3]), result(scaled(10.0)[:3], "b")).rows
    assert row.outcome is RatioOutcome.CANNOT_TELL
    assert row.reason == "3 repeats are too few: at least 4 are needed"
