"""Scrubs find planted damage, and a repair makes an array consistent.

A repair can find out that copies or parity do not match, but not which of them is right. RAID 1 trusts the first
mirror. Parity levels trust the data and compute parity again, even RAID 6, whose two parities could tell which member
is wrong. A repair may therefore make wrong data permanent. Only a rebuild of the member that is known to be wrong
restores the right data.
"""

from __future__ import annotations

import pytest

from lab.arrays import operations
from lab.arrays.operations import corrupt
from lab.measure.rebuild import DataVerdict, verdict
from lab.units import MIB
from tests.kernel.rig import NAME, Rig, file_disks

pytestmark = pytest.mark.kernel

DISKS = file_disks(4, 24)
DAMAGE_BYTES = 2 * MIB
"""One chunk in each of four stripes, so that data and parity are hit in any layout."""


def check(rig: Rig) -> int:
    rig.lab.execute(operations.scrub(NAME, "check"))
    return rig.idle().mismatch_sectors or 0


def damage(rig: Rig, node: str) -> None:
    status = rig.status
    plan = corrupt(
        node,
        data_offset_bytes=(status.member(node).data_offset_sectors or 0) * 512,
        data_bytes=status.component_bytes or 0,
        start_bytes=4 * MIB,
        length_bytes=DAMAGE_BYTES,
    )
    rig.lab.execute(plan)


def test_a_right_raid10_has_no_mismatch(rig: Rig) -> None:
    rig.create("raid10", 4)
    rig.fill()
    assert check(rig) == 0


@pytest.mark.parametrize(
    ("level", "members"), [("raid1", 2), pytest.param("raid5", 3, marks=pytest.mark.wide), ("raid6", 4)]
)
def test_damage_is_found_and_a_rebuild_brings_the_data_back_but_a_repair_does_not(
    rig: Rig, level: str, members: int
) -> None:
    spec = rig.create(level, members)
    before, member = rig.fill(), spec.members[0]
    assert check(rig) == 0
    damage(rig, member)
    assert DAMAGE_BYTES // 512 <= check(rig) <= rig.size_bytes() // 512
    rig.lab.execute(operations.fail(NAME, member) + operations.remove(NAME, member))
    rig.lab.execute(operations.add(NAME, member, erase_first=True))
    assert rig.idle().degraded_count == 0
    assert check(rig) == 0
    assert verdict(before, rig.sum()) is DataVerdict.INTACT
    damage(rig, member)
    rig.lab.execute(operations.scrub(NAME, "repair"))
    rig.idle()
    assert check(rig) == 0
    # The damaged member was the first mirror or held data, so md trusted it and reported nothing.
    assert verdict(before, rig.sum()) is DataVerdict.CHANGED


def test_a_mirror_is_mended_if_the_first_copy_is_right(rig: Rig) -> None:
    spec = rig.create("raid1", 2)
    before = rig.fill()
    damage(rig, spec.members[1])
    rig.lab.execute(operations.scrub(NAME, "repair"))
    rig.idle()
    assert check(rig) == 0
    rig.lab.execute(operations.fail(NAME, spec.members[0]))
    assert verdict(before, rig.sum()) is DataVerdict.INTACT
