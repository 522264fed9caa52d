"""Platforms compared without raw figures: which conclusions must carry over or flip, and bad data left out."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.compare import PlatformComparison, PlatformMeasure, Transfer, compare_platforms, healthy_medians, platform_of
from lab.errors import SpecError
from lab.results.record import ResultRecord
from lab.results.store import decode_record
from tests.unit.compare.platform_records import HDD, SSD, machine
from tests.unit.results.records import CONDITIONS, cell, record, with_figures

WRITES = {"single": 100, "raid0": 390, "raid1": 98, "raid5": 90}
# Parity is cheap on this machine: RAID 5 writes faster than one disk.
SSD_WRITES = {"single": 20_000, "raid0": 60_000, "raid1": 19_500, "raid5": 30_000}


def compared(*records: ResultRecord) -> PlatformComparison:
    return compare_platforms([platform_of(each) for each in records])


@pytest.fixture(scope="module")
def both() -> PlatformComparison:
    return compared(machine("hdd", HDD, WRITES), machine("ssd", SSD, SSD_WRITES, seed=1))


def test_every_figure_is_without_a_unit_and_has_an_interval(both: PlatformComparison) -> None:
    rows = {(row.measure, row.what): row.values for row in both.rows}
    first, second = rows[PlatformMeasure.SPEED_UP, "raid0, rand-read-4k, read"]
    assert first is not None
    assert second is not None
    assert [first.median, second.median] == pytest.approx([3.9, 3.5])
    assert first.low <= first.median <= first.high
    assert rows[PlatformMeasure.CPU_COST, "raid5, rand-write-4k, write"][0] is not None
    # 10**9 bytes in 10 s, divided by 100 (and 20 000) writes of 4096 bytes per second.
    rebuilt = rows[PlatformMeasure.REBUILD, "raid5"]
    assert rebuilt[0] is not None
    assert rebuilt[0].median == pytest.approx(1e8 / (100 * 4096), rel=0.02)
    assert not any("single" in what for measure, what in rows if measure is PlatformMeasure.SPEED_UP)


def test_a_difference_here_and_none_there_is_a_change() -> None:
    equal = {**SSD, "raid1": SSD["raid0"]}
    found = compared(machine("a", HDD, WRITES), machine("b", equal, SSD_WRITES, seed=1))
    by = {(each.what, each.faster, each.slower): each.transfers[0] for each in found.conclusions}
    assert by["rand-read-4k, read", "raid0", "raid1"] is Transfer.CHANGES


def test_the_order_of_the_levels_is_compared(both: PlatformComparison) -> None:
    by = {each.what: each for each in both.agreements}
    reads, writes = by["rand-read-4k, read"], by["rand-write-4k, write"]
    assert (reads.tau, reads.pairs, reads.told, reads.turned) == (1, 6, 6, 0)
    # RAID 5 is faster than one disk and RAID 1 only on the second machine: at least one of six pairs is reversed.
    assert writes.tau < 1
    assert writes.pairs == 6
    assert writes.turned >= 1


def test_repeats_without_a_speed_are_left_out_of_the_medians() -> None:
    speeds = (100.0, 0.0, 120.0, math.inf, math.nan, 110.0)
    cells = [cell("raid5", "x", number, read_iops=10.0) for number in range(len(speeds))]
    bad = [with_figures(each, iops=speed) for each, speed in zip(cells, speeds, strict=True)]
    degraded = cell("raid5", "x", 0, write_iops=50.0, phase="degraded")
    none = with_figures(cell("raid6", "x", 0, read_iops=10.0), iops=0.0)
    assert healthy_medians(record(cells=(*bad, degraded, none))) == {("raid5", "x", "read"): 110.0}


def test_of_several_single_disks_the_first_is_the_measure() -> None:
    whole = machine("a", HDD, WRITES)
    slow = [f"slow{number}" for number in range(8)]
    arrays = (*whole.arrays, *(replace(whole.arrays[0], name=name) for name in slow))
    singles = [each for each in whole.cells if each.array == "single"]
    cells = (*whole.cells, *(with_figures(replace(each, array=name), iops=1.0) for name in slow for each in singles))
    several = replace(whole, arrays=arrays, cells=cells)
    found = compared(several, machine("b", SSD, SSD_WRITES, seed=1))
    rows = {(row.measure, row.what): row.values[0] for row in found.rows}
    speed_up = rows[PlatformMeasure.SPEED_UP, "raid0, rand-read-4k, read"]
    assert speed_up is not None
    assert speed_up.median == pytest.approx(3.9)


def test_few_repeats_are_inconclusive() -> None:
    found = compared(machine("a", HDD, WRITES, repeats=2), machine("b", SSD, SSD_WRITES, repeats=2, seed=1))
    assert {each.transfers[0] for each in found.conclusions} == {Transfer.CANNOT_TELL}
    assert {each.told for each in found.agreements} == {0}
    assert all(each.verdicts[0].reason for each in found.conclusions)


def test_a_missing_repeat_zeros_and_nans_are_reported_and_left_out() -> None:
    whole = machine("a", HDD, WRITES)
    cells = list(whole.cells)
    for place, value in ((0, 0.0), (2, math.nan)):
        cells[place] = with_figures(cells[place], iops=value)
    damaged = replace(whole, cells=tuple(cells[:-1]), planned_cells=(cells[-1].key,))
    found = compared(damaged, machine("b", SSD, SSD_WRITES, seed=1))
    problems = found.platforms[0].problems
    assert any("0 IOPS, left out" in problem for problem in problems)
    assert any("nan IOPS, left out" in problem for problem in problems)
    assert f"{cells[-1].key}: planned, not measured" in problems
    rows = {(row.measure, row.what): row.values for row in found.rows}
    speed_up = rows[PlatformMeasure.SPEED_UP, "raid0, rand-read-4k, read"][0]
    assert speed_up is not None
    assert speed_up.median == pytest.approx(3.9, rel=0.02)


def test_what_has_nothing_in_common_is_left_out_and_the_rest_compared() -> None:
    stranger = machine("c", {"single": 5}, {"single": 5}, seed=2)
    stranger = replace(stranger, cells=tuple(replace(each, workload="other") for each in stranger.cells))
    found = compared(machine("a", HDD, WRITES), stranger, machine("b", SSD, SSD_WRITES, seed=1))
    assert len(found.platforms) == 2
    assert "no figure in common" in found.left_out[0]
    with pytest.raises(SpecError, match="nothing can be compared"):
        compared(machine("a", HDD, WRITES), stranger)
    with pytest.raises(SpecError, match="two platforms"):
        compared(machine("a", HDD, WRITES))


def test_of_two_real_runs_what_must_carry_over_does_and_what_must_flip_does() -> None:
    """RAID 5 on six drives of 7200 rpm writes faster than one of them; on solid-state drives parity is the limit."""
    data = Path(__file__).with_name("data")
    records = [
        decode_record((data / f"two-platforms-{name}.json").read_bytes(), source=name) for name in ("hdd-7200", "ssd")
    ]
    found = {(each.faster, each.slower): each.transfers[0] for each in compared(*records).conclusions}
    assert found["raid0", "raid5"] is Transfer.CARRIES_OVER
    assert found["raid5", "single"] is Transfer.FLIPS


def test_too_many_pairs_are_refused_at_once() -> None:
    cells = tuple(cell(f"a{number}", "w", 0, read_iops=100.0 + number) for number in range(150))
    with pytest.raises(SpecError, match="too many"):
        compared(record("x0", cells=cells), record("x1", cells=cells))


VIRTUAL: dict[str, object] = {"is_virtual_time": True}
ELSEWHERE: dict[str, object] = {"host_name": "b"}


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ([{}, VIRTUAL], ["real time", "virtual time"]),
        ([{}, VIRTUAL | ELSEWHERE], ["real time", "virtual time"]),
        ([{}, ELSEWHERE], ["a", "b"]),
        ([{}, {"kernel_release": "7.0"}], [f"kernel {CONDITIONS.kernel_release}", "kernel 7.0"]),
        ([{}, {}], ["20261121T100000Z-a", "20261121T100001Z-a"]),
        # No single property distinguishes these three.
        ([{}, VIRTUAL, VIRTUAL | ELSEWHERE], ["real time, a", "virtual time, a", "virtual time, b"]),
    ],
)
def test_machines_of_one_name_are_called_by_what_they_differ_in(
    changes: list[dict[str, object]], names: list[str]
) -> None:
    made = [machine("a", HDD, WRITES, embedded=True, seed=seed) for seed in range(len(changes))]
    records = (
        replace(each, conditions=replace(each.conditions, **change)) for each, change in zip(made, changes, strict=True)
    )
    assert [each.name for each in compared(*records).platforms] == [f"embedded, physical ({name})" for name in names]
