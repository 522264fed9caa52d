"""Closed forms against figures worked out by hand, zones of unequal members included."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.arrays.levels import Level, Raid0, Raid1, Raid4, Raid5, Raid6, Raid10, Single
from lab.errors import SpecError
from lab.theory.model import (
    DiskRates,
    covered_zones,
    expected_busy_disks,
    mean_stream_members,
    member_shares,
    predict_load,
    random_iops,
    rebuild_seconds,
    sequential_bytes_per_second,
    small_write_cost,
)
from lab.units import MIB
from lab.workloads.workload import Direction, find_workload

DISK = DiskRates(75, 75, 100 * MIB, 90 * MIB)
SIX = [DISK] * 6
DEEP = 1000


def test_busy_disks() -> None:
    assert expected_busy_disks(1, 7) == 1
    assert expected_busy_disks(6, 1) == pytest.approx(1)
    assert expected_busy_disks(6, 4) == pytest.approx(3)
    assert expected_busy_disks(6, DEEP) == pytest.approx(6, rel=0.005)
    with pytest.raises(SpecError):
        expected_busy_disks(0, 1)


@given(st.integers(1, 40), st.integers(1, 400))
def test_busy_disks_stay_within_the_bounds_that_the_docstring_names(disks: int, depth: int) -> None:
    busy = expected_busy_disks(disks, depth)
    exponential = disks * depth / (disks + depth - 1)
    thrown_anew = disks * (1 - (1 - 1 / disks) ** depth)
    assert exponential * 0.999 <= busy <= thrown_anew * 1.001


@pytest.mark.parametrize(
    ("level", "iops"), [(Raid0(), 450), (Raid10(), 225), (Raid5(), 112.5), (Raid6(), 75), (Raid1(), 75)]
)
def test_louwrentius_write_table_with_enough_in_flight(level: Level, iops: float) -> None:
    assert random_iops(level, SIX, DEEP, is_write=True) == pytest.approx(iops, rel=0.005)


def test_reads_scale_with_members_and_need_depth() -> None:
    assert random_iops(Raid5(), SIX, DEEP, is_write=False) == pytest.approx(450, rel=0.005)
    assert random_iops(Raid4(), SIX, DEEP, is_write=False) == pytest.approx(375, rel=0.005)
    assert random_iops(Raid0(), SIX, 1, is_write=False) == pytest.approx(75)
    assert random_iops(Raid4(), SIX, DEEP, is_write=True) == pytest.approx(37.5)  # the parity disk sets the pace


def test_small_write_cost_notes_where_textbooks_differ() -> None:
    assert small_write_cost(Raid5(), 3).value == 3
    assert "textbooks count 4" in small_write_cost(Raid5(), 3).reason
    assert "agree on 4" in small_write_cost(Raid5(), 6).reason


def test_a_slow_member_sets_the_pace_when_many_wait() -> None:
    mixed = [*[DISK] * 3, replace(DISK, random_read_iops=25)]
    assert random_iops(Raid0(), mixed, DEEP, is_write=False) == pytest.approx(100)
    # One at a time, each member is met equally often: the mean service time counts.
    assert random_iops(Raid0(), mixed, 1, is_write=False) == pytest.approx(4 / (3 / 75 + 1 / 25))


def test_sequential_streams() -> None:
    assert sequential_bytes_per_second(Raid5(), SIX, Direction.READ).value == 500 * MIB
    assert sequential_bytes_per_second(Raid1(), SIX, Direction.READ).value == 100 * MIB
    assert sequential_bytes_per_second(Raid10(), SIX, Direction.WRITE).value == 270 * MIB
    with pytest.raises(SpecError):
        sequential_bytes_per_second(Raid0(), SIX, Direction.MIX)


def test_rebuild_time_names_its_limiter() -> None:
    free = rebuild_seconds(900 * MIB, SIX)
    assert free.value == 10
    assert "sequential write" in free.reason
    capped = rebuild_seconds(900 * MIB, SIX, sync_speed_max_bytes_per_second=45 * MIB)
    assert capped.value == 20
    assert capped.reason == "900 MiB at 45 MiB/s, set by md's sync_speed_max"
    with pytest.raises(SpecError):
        rebuild_seconds(1, [])
    with pytest.raises(SpecError):
        rebuild_seconds(1, SIX, sync_speed_max_bytes_per_second=0)


def test_workloads_find_their_formula() -> None:
    read, write = find_workload("rand-read-4k"), find_workload("rand-write-4k")
    reads, writes = predict_load(Raid5(), SIX, read).iops, predict_load(Raid5(), SIX, write).iops
    mix = predict_load(Raid5(), SIX, find_workload("rand-mix-4k")).iops
    assert mix == pytest.approx(1 / (0.7 / reads + 0.3 / writes), rel=0.05)
    assert predict_load(Single(), [DISK], find_workload("seq-read-1m")).iops == 100
    with pytest.raises(SpecError):
        predict_load(Raid5(), SIX, find_workload("verify-4k"))


def test_a_disk_without_a_rate_is_an_error() -> None:
    with pytest.raises(SpecError):
        random_iops(Raid0(), [replace(DISK, random_read_iops=0)] * 2, 1, is_write=False)
    with pytest.raises(SpecError):
        random_iops(Raid0(), [], 1, is_write=True)


DRIVE = DiskRates(100.0, 100.0, 100e6, 100e6)
SIZES = (500 * MIB, 1000 * MIB)


def test_zones_by_hand() -> None:
    def zones(*words: Any) -> list[tuple[int, tuple[int, ...]]]:
        return [(zone.size, zone.slots) for zone in covered_zones(*words)]

    assert zones((100, 200, 300)) == [(300, (0, 1, 2)), (200, (1, 2)), (100, (2,))]
    assert zones((7, 7)) == [(14, (0, 1))]
    assert zones((100, 200, 300), 350) == [(300, (0, 1, 2)), (50, (1, 2))]
    assert member_shares((100, 200, 300)) == pytest.approx((1 / 6, 2 / 6, 3 / 6))
    assert member_shares((100, 200, 300), 300) == pytest.approx((1 / 3, 1 / 3, 1 / 3))


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=8), st.floats(0.01, 1))
def test_every_byte_is_in_one_zone_and_every_request_on_one_member(sizes: list[int], part: float) -> None:
    assert sum(zone.size for zone in covered_zones(sizes)) == sum(sizes)
    covered = max(1, int(part * sum(sizes)))
    assert sum(member_shares(sizes, covered)) == pytest.approx(1)
    # Of the whole array, each member has the share of its size.
    assert member_shares(sizes) == pytest.approx([size / sum(sizes) for size in sizes])
    assert 1 <= mean_stream_members(sizes, covered) <= len(sizes) + 1e-9


def test_a_deep_queue_waits_for_the_largest_member() -> None:
    work = find_workload("rand-read-4k")
    even = predict_load(Raid0(), [DRIVE] * 2, work)
    uneven = predict_load(Raid0(), [DRIVE] * 2, work, member_bytes=SIZES)
    # Two thirds of the requests meet one member: it answers 100 a second, so at most 150 are possible.
    assert uneven.iops <= 150 * 1.01
    assert uneven.iops < even.iops <= 200 * 1.01
    assert "the largest member gets 67%" in uneven.reason
    # A load on the first zone alone reaches both equally.
    assert predict_load(Raid0(), [DRIVE] * 2, work, member_bytes=SIZES, working_bytes=1000 * MIB).iops == even.iops


def test_one_stream_is_slower_on_the_last_zone() -> None:
    # 1000 MiB at two members' pace, 500 MiB at one's: 1500 in the time of 1000.
    found = sequential_bytes_per_second(Raid0(), [DRIVE] * 2, Direction.READ, member_bytes=SIZES)
    assert found.value == pytest.approx(150e6)
    assert "the last 500 MiB on 1 of 2 members" in found.reason
    first = sequential_bytes_per_second(Raid0(), [DRIVE] * 2, Direction.READ, member_bytes=SIZES, covered_bytes=MIB)
    assert first.value == pytest.approx(200e6)


def test_requests_of_several_chunks_have_no_number() -> None:
    work = find_workload("rand-read-4k")
    with pytest.raises(SpecError, match="different sizes"):
        predict_load(Raid0(), [DRIVE] * 2, work, chunk_bytes=2048, member_bytes=SIZES)
