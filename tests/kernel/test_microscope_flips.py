"""A flipped byte is judged from the members' bytes, and md's check and repair do with it what was told."""

from __future__ import annotations

import pytest

from lab.arrays import operations
from lab.arrays.status import read_array, wait_until_idle
from lab.microscope.picture import StripeVerdict, flip_plan, look_at_stripe
from lab.session.session import LabSession
from tests.kernel.microscope_rig import DISKS, TARGET, bytes_of, create, device_of, fill, session
from tests.kernel.rig import NAME

__all__ = ["DISKS", "TARGET", "session"]
pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time, pytest.mark.wide]


def scrub(session: LabSession, action: str) -> int:
    plans = {"check": operations.scrub_check, "repair": operations.scrub_repair}
    session.lab.execute(plans[action](NAME))
    wait_until_idle(session.machine, NAME)
    return read_array(session.machine, NAME).mismatch_sectors or 0


FLIPS = [
    ("1", 2, (), 0, "", 1),
    ("1", 3, (), 0, "slot 0", 1),
    ("1", 3, (), 2, "slot 2", 1),
    ("4", 4, (), 1, "", 1),
    *(("5", 4, (), slot, "", 1) for slot in range(4)),
    *(("6", 5, (), slot, f"slot {slot}", 1) for slot in range(5)),
    ("6", 6, ("--layout=ddf-N-continue",), 3, "slot 3", 1),
    ("6", 6, ("--layout=left-asymmetric-6",), 2, "slot 2", 1),
    ("10", 4, ("--layout=n2",), 1, "", 1),
    ("10", 5, ("--layout=n2",), 0, "", 1),
    ("10", 5, ("--layout=n3",), 2, "slot 2", 1),
    ("10", 4, ("--layout=f2",), 2, "", 1),
    ("10", 4, ("--layout=o2",), 3, "", 1),
]


@pytest.mark.parametrize(("level", "members", "options", "slot", "blamed", "stripe"), FLIPS)
def test_a_flipped_byte_is_judged_checked_and_repaired_as_told(
    session: LabSession, level: str, members: int, options: tuple[str, ...], slot: int, blamed: str, stripe: int
) -> None:
    create(session, level, members, *options)
    fill(session)
    before = look_at_stripe(session, NAME, stripe)
    assert before.comparison.verdict is StripeVerdict.AGREES
    assert before.is_one_moment
    cell = next(cell for cell in before.stripe.cells if cell.slot == slot)
    # Two bytes in two pages of the chunk, then one more beside the first.
    for byte in (17, 5000, 18):
        picture = look_at_stripe(session, NAME, stripe)
        session.lab.execute(flip_plan(picture, device_of(picture, cell), byte))
    told = look_at_stripe(session, NAME, stripe)
    changed = {key for key, data in bytes_of(told).items() if data != bytes_of(before)[key]}
    assert changed == {(slot, cell.sector)}
    comparison = told.comparison
    assert comparison.verdict is StripeVerdict.DIFFERS
    assert (f"slot {comparison.blamed.slot}" if comparison.blamed else "") == blamed
    if comparison.blamed:
        assert comparison.blamed.bytes_wrong == (17, 18, 5000)
        assert comparison.blamed.right == bytes_of(before)[slot, cell.sector]
    assert scrub(session, "check") == comparison.mismatch_sectors > 0
    assert bytes_of(look_at_stripe(session, NAME, stripe)) == bytes_of(told)
    scrub(session, "repair")
    after = look_at_stripe(session, NAME, stripe)
    assert after.comparison.verdict is StripeVerdict.AGREES
    assert bytes_of(after) == bytes_of(told) | dict(comparison.repaired)
    assert scrub(session, "check") == 0


def test_a_stripe_without_a_member_is_judged_by_what_is_left(session: LabSession) -> None:
    create(session, "6", 5)
    fill(session)
    before = look_at_stripe(session, NAME, 1)
    row = {cell.kind.value: cell.slot for cell in before.stripe.cells if cell.kind.is_parity}
    lost = next(slot for slot in range(5) if slot not in row.values())
    session.lab.execute(operations.fail(NAME, before.shape.members[lost].device))
    degraded = look_at_stripe(session, NAME, 1)
    assert degraded.comparison.verdict is StripeVerdict.AGREES
    computed = next(seen for seen in degraded.cells if seen.cell.slot == lost)
    assert computed.data is None
    assert computed.computed == bytes_of(before)[lost, computed.cell.sector]
    session.lab.execute(flip_plan(degraded, degraded.shape.members_in(row["Q"])[0].device, 3))
    told = look_at_stripe(session, NAME, 1).comparison
    assert (told.verdict, told.blamed) == (StripeVerdict.DIFFERS, None)
    assert scrub(session, "check") == told.mismatch_sectors == 8
    scrub(session, "repair")
    assert look_at_stripe(session, NAME, 1).comparison.verdict is StripeVerdict.AGREES
