"""RAID 0 of unequal members: zones by hand, shares that add up, and a load that waits for the largest member."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some

from lab.arrays.levels import Raid0
from lab.errors import SpecError
from lab.theory.model import (
    DiskRates,
    StripeZone,
    covered_zones,
    mean_stream_members,
    member_shares,
    predict_load,
    sequential_bytes_per_second,
    stripe_zones,
)
from lab.units import MIB
from lab.workloads.workload import Direction, find_workload

DISK = DiskRates(100.0, 100.0, 100e6, 100e6)
SIZES = (500 * MIB, 1000 * MIB)


def test_zones_by_hand() -> None:
    assert stripe_zones((100, 200, 300)) == (
        StripeZone(300, (0, 1, 2)),
        StripeZone(200, (1, 2)),
        StripeZone(100, (2,)),
    )
    assert stripe_zones((7, 7)) == (StripeZone(14, (0, 1)),)
    assert covered_zones(stripe_zones((100, 200, 300)), 350) == (StripeZone(300, (0, 1, 2)), StripeZone(50, (1, 2)))
    assert member_shares((100, 200, 300)) == pytest.approx((1 / 6, 2 / 6, 3 / 6))
    assert member_shares((100, 200, 300), 300) == pytest.approx((1 / 3, 1 / 3, 1 / 3))


@given(some.lists(some.integers(1, 10**6), min_size=1, max_size=8), some.floats(0.01, 1))
def test_every_byte_is_in_one_zone_and_every_request_on_one_member(sizes: list[int], part: float) -> None:
    zones = stripe_zones(sizes)
    assert sum(zone.size_bytes for zone in zones) == sum(sizes)
    covered = max(1, int(part * sum(sizes)))
    assert sum(member_shares(sizes, covered)) == pytest.approx(1)
    # Of the whole array, each member has the share of its size.
    assert member_shares(sizes) == pytest.approx([size / sum(sizes) for size in sizes])
    assert 1 <= mean_stream_members(sizes, covered) <= len(sizes) + 1e-9


def test_a_deep_queue_waits_for_the_largest_member() -> None:
    work = find_workload("rand-read-4k")
    even = predict_load(Raid0(), [DISK] * 2, work)
    uneven = predict_load(Raid0(), [DISK] * 2, work, member_bytes=SIZES)
    # Two thirds of the requests meet one member: it answers 100 a second, so at most 150 are possible.
    assert uneven.iops <= 150 * 1.01
    assert uneven.iops < even.iops <= 200 * 1.01
    assert "the largest member gets 67%" in uneven.reason
    # A load on the first zone alone meets both alike.
    assert predict_load(Raid0(), [DISK] * 2, work, member_bytes=SIZES, working_bytes=1000 * MIB).iops == even.iops


def test_one_stream_is_slower_on_the_last_zone() -> None:
    # 1000 MiB at two members' pace, 500 MiB at one's: 1500 in the time of 1000.
    found = sequential_bytes_per_second(Raid0(), [DISK] * 2, Direction.READ, member_bytes=SIZES)
    assert found.value == pytest.approx(150e6)
    assert "the last 500 MiB on 1 of 2 members" in found.reason
    first = sequential_bytes_per_second(Raid0(), [DISK] * 2, Direction.READ, member_bytes=SIZES, covered_bytes=MIB)
    assert first.value == pytest.approx(200e6)


def test_requests_of_several_chunks_have_no_number() -> None:
    work = find_workload("rand-read-4k")
    with pytest.raises(SpecError, match="several sizes"):
        predict_load(Raid0(), [DISK] * 2, work, chunk_bytes=2048, member_bytes=SIZES)
