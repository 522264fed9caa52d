"""Arrays that change their shape while in use: the data stay, and the size is the computed one."""

from __future__ import annotations

import pytest

from lab.arrays import operations
from lab.arrays.levels import level_with_layout
from lab.arrays.status import SyncAction
from lab.disks import DiskKind, specs
from lab.measure.job import BackgroundLoad, MeasureOptions
from lab.measure.rebuild import DataVerdict, sum_device, verdict
from lab.measure.samples import Recorder
from lab.plans import Plan
from lab.units import KIB, MIB
from lab.workloads.workload import find_workload
from tests.kernel.rig import DEVICE, NAME, Rig, file_disks

pytestmark = pytest.mark.kernel

# Four equal disks, and two larger ones for growing in size.
DISKS = (*file_disks(4, 32), *specs(2, DiskKind.FILE, size_bytes=64 * MIB, first=5))
LOAD_BYTES = 8 * MIB
CRAWLING_KIB = 64
"""A reshape takes minutes at this speed, so that it still runs when the load begins, even on a busy computer."""


def expected_bytes(rig: Rig, level: str, members: int) -> int:
    """The capacity computed for the level from the bytes that md uses on each member."""
    return level_with_layout(level, None).capacity_bytes(members, rig.status.component_bytes or 0)


def test_raid5_grows_by_a_member_under_verified_load(rig: Rig) -> None:
    spec = rig.create("raid5", 3)
    rig.fill()
    old_bytes, workload = rig.size_bytes(), find_workload("verify-load-4k")
    begin = LOAD_BYTES * workload.jobs
    length = (old_bytes - begin) // MIB * MIB
    before = sum_device(rig.lab.machine, DEVICE, length, skip_bytes=begin)
    place, options = rig.place(spec), MeasureOptions(file_bytes=LOAD_BYTES)
    with Recorder(rig.lab.machine, NAME, place.members) as recorder:
        # The reshape begins before the load: on some kernels a read that waits while a reshape begins returns another
        # block's data (docs/arrays.md), and the load would rightly fail. It is slow, so most of it runs under the load.
        rig.limit_sync(CRAWLING_KIB)
        rig.lab.execute(operations.grow_members(NAME, "raid5", 3, (rig.nodes[3],)))
        rig.wait(lambda status: status.sync_action is SyncAction.RESHAPE, "the reshape to begin")
        written = rig.written_bytes(DEVICE)
        load = BackgroundLoad(rig.lab, place, workload, options, longest_run_seconds=120)
        rig.wait(lambda _: rig.written_bytes(DEVICE) > written, "the load to write")
        reshaped_under_load = rig.status.sync_action is SyncAction.RESHAPE
        rig.limit_sync(8 * KIB)
        status = rig.idle()
        # The load checks what it wrote: stop raises WorkloadError if any block differs from what was written.
        figures = load.stop(recorder.between).figures
    assert reshaped_under_load
    assert figures.writes
    assert figures.reads
    assert status.raid_disks == 4
    assert status.degraded_count == 0
    assert rig.size_bytes() == expected_bytes(rig, "raid5", 4) > old_bytes
    assert verdict(before, sum_device(rig.lab.machine, DEVICE, length, skip_bytes=begin)) is DataVerdict.INTACT
    expect_data_without(rig, spec.members[0], begin, length)


def expect_data_without(rig: Rig, member: str, begin: int, length: int) -> None:
    """The redundancy of the new shape is right too: data computed from it equal the earlier data."""
    before = sum_device(rig.lab.machine, DEVICE, length, skip_bytes=begin)
    rig.lab.execute(operations.fail(NAME, member))
    assert verdict(before, sum_device(rig.lab.machine, DEVICE, length, skip_bytes=begin)) is DataVerdict.INTACT


def grow_and_compare(rig: Rig, plan: Plan, level: str, members: int, *, times: float | None = None) -> None:
    """``times``: factor by which the size grows; None: the size becomes the level's computed capacity."""
    old_bytes, before = rig.size_bytes(), rig.fill()
    rig.lab.execute(plan)
    status = rig.idle()
    assert (status.level, status.raid_disks, status.degraded_count) == (level, members, 0)
    assert rig.size_bytes() == (old_bytes * times if times else expected_bytes(rig, level, members))
    assert verdict(before, sum_device(rig.lab.machine, DEVICE, old_bytes)) is DataVerdict.INTACT
    if level != "raid0":
        expect_data_without(rig, rig.nodes[0], 0, old_bytes)


@pytest.mark.parametrize(
    ("level", "members"), [("raid0", 2), ("raid1", 2), pytest.param("raid4", 3, marks=pytest.mark.wide)]
)
def test_more_members(rig: Rig, level: str, members: int) -> None:
    rig.create(level, members)
    plan = operations.grow_members(NAME, level, members, (rig.nodes[members],))
    grow_and_compare(rig, plan, level, members + 1, times=1.5 if level == "raid0" else None)


def test_raid1_becomes_raid5_of_three(rig: Rig) -> None:
    rig.create("raid1", 2)
    plan = operations.grow_level(NAME, "raid1", "raid5", 2, (rig.nodes[2],))
    # The mirror had no chunks; mdadm chooses a chunk that divides its size, so no space is lost.
    grow_and_compare(rig, plan, "raid5", 3, times=2)


def test_raid5_becomes_raid6(rig: Rig) -> None:
    rig.create("raid5", 3)
    plan = operations.grow_level(NAME, "raid5", "raid6", 3, (rig.nodes[3],))
    grow_and_compare(rig, plan, "raid6", 4)
    # Fail a second member, so that data are computed from the second parity.
    expect_data_without(rig, rig.nodes[1], 0, rig.size_bytes() // MIB * MIB)


def test_size_grows_when_all_members_are_larger(rig: Rig) -> None:
    small, large = rig.nodes[:2], rig.nodes[4:]
    rig.create("raid1", 2)
    old_bytes, before = rig.size_bytes(), rig.fill()
    for old, new in zip(small, large, strict=True):
        rig.lab.execute(operations.replace(NAME, old, new))
        rig.idle()
        rig.lab.execute(operations.remove(NAME, old))
    rig.lab.execute(operations.grow_size(NAME))
    rig.idle()
    assert rig.size_bytes() > old_bytes + 24 * MIB
    assert rig.size_bytes() % KIB == 0
    assert verdict(before, sum_device(rig.lab.machine, DEVICE, old_bytes)) is DataVerdict.INTACT
