"""The microscope's account of small writes, crashes and flipped bytes matches what md does on the members."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.arrays import operations
from lab.arrays.levels import md_path
from lab.arrays.status import read_array, wait_until_idle
from lab.microscope.array_map import BLOCK_BYTES, BLOCK_SECTORS, BytesAt, read_moment, read_shape
from lab.microscope.picture import StripePicture, StripeVerdict, flip_plan, read_stripe
from lab.microscope.small_write import CrashOutcome, crash_states, new_content, picture_of_block, write_really
from lab.session.session import LabSession
from tests.kernel.microscope_rig import BYTES, DISKS, PPL, TARGET, bytes_of, create, device_of, fill, session
from tests.kernel.place import quick_marks
from tests.kernel.rig import DEVICE, NAME

__all__ = ["DISKS", "TARGET", "session"]
pytestmark = [pytest.mark.kernel, *quick_marks(), pytest.mark.wide]

WRITES: list[tuple[str, int, tuple[str, ...], tuple[int, ...], str]] = [
    ("0", 3, (), (), ""),
    ("1", 2, (), (), ""),
    ("1", 3, ("--bitmap=internal",), (1,), ""),
    ("10", 4, ("--layout=n2",), (), ""),
    ("10", 5, ("--layout=f2",), (2,), ""),
    ("10", 5, ("--layout=o3",), (), ""),
    ("4", 4, (), (), ""),
    ("5", 3, (), (), ""),
    ("5", 4, (), (), ""),
    ("5", 5, (), (), ""),
    ("5", 5, ("--bitmap=internal", "--bitmap-chunk=64"), (), ""),
    ("5", 4, (PPL,), (), ""),
    ("5", 5, (), (), "0"),
    ("5", 4, (), (), "2"),
    *(("5", 5, (), (slot,), "") for slot in range(5)),
    ("6", 5, (), (), ""),
    ("6", 7, (), (), ""),
    *(("6", 6, (), (slot,), "") for slot in range(6)),
    *(("6", 6, (), pair, "") for pair in ((0, 1), (0, 2), (1, 2), (1, 5), (3, 4), (4, 5))),
    ("6", 6, (), (3,), "0"),
]


@pytest.mark.parametrize(("level", "members", "options", "lost", "rmw_level"), WRITES)
def test_a_small_write_reads_and_writes_the_predicted_sectors(
    session: LabSession, level: str, members: int, options: tuple[str, ...], lost: tuple[int, ...], rmw_level: str
) -> None:
    create(session, level, members, *options)
    fill(session)
    shape = read_shape(session, NAME)
    for slot in lost:
        session.lab.execute(operations.fail(NAME, shape.members[slot].device))
    wait_until_idle(session.machine, NAME)
    if rmw_level:
        session.machine.write(md_path(NAME, "rmw_level"), rmw_level)
    # Twice, to show that stripes in md's cache do not save it a read.
    for _ in range(2):
        seen = write_really(session, NAME, 7 * BLOCK_SECTORS)
        assert seen.differences == ()
        assert any(io.changed_sectors for io in seen.members)
        assert seen.after.comparison.verdict is not StripeVerdict.DIFFERS
    delay = md_path(NAME, "safe_mode_delay")
    assert session.machine.read([delay])[delay] != "60.000\n"


CRASHES = [("5", 4, ()), ("6", 5, ()), ("10", 4, ("--layout=n2",))]


@pytest.mark.parametrize(("level", "members", "options"), CRASHES)
def test_a_crash_leaves_what_was_predicted(
    session: LabSession, level: str, members: int, options: tuple[str, ...]
) -> None:
    """Create an array of the members that are not lost, write each state to them by hand, and read from md."""
    create(session, level, members, *options)
    fill(session)
    write, picture = picture_of_block(session, NAME, 9 * BLOCK_SECTORS)
    new = new_content(picture, write)
    states = crash_states(picture, write)
    seen = write_really(session, NAME, write.sector)
    predicted: set[CrashOutcome] = set()
    for lost in [read.lost for read in states[0].reads]:
        session.machine.run(("mdadm", "--stop", DEVICE))
        create(session, level, members, *options, without=lost)
        for state in states:
            read = state.without(*lost)
            if read.outcome is CrashOutcome.EITHER:
                continue
            for slot, old, now, place in pages(picture, seen.after):
                data = now if slot in state.written else old
                session.machine.call(BYTES, ("put", place.device, str(place.offset), data.hex()))
            forget_stripes(session, level)
            assert outcome(session, picture, write.sector, new) == (read.target, bool(read.holes)), (state, read)
            predicted.add(read.outcome)
    assert {CrashOutcome.OLD, CrashOutcome.NEW} <= predicted
    assert (CrashOutcome.HOLE in predicted) == (level in "56")


def forget_stripes(session: LabSession, level: str) -> None:
    """Like ``empty_stripes``, but without starting a process."""
    for size in ("17", "256", "17", "256") if level in "456" else ():
        session.machine.write(md_path(NAME, "stripe_cache_size"), size)


def pages(before: StripePicture, after: StripePicture) -> Iterator[tuple[int, bytes, bytes, BytesAt]]:
    """The block's page on each member: slot, content before and after the write, and place."""
    for old, new in zip(before.cells, after.cells, strict=True):
        start = before.device_sector(old.cell)
        assert start is not None
        assert old.data is not None
        assert new.data is not None
        place = BytesAt(device_of(before, old.cell), start * 512 + before.skip_bytes, BLOCK_BYTES)
        yield old.cell.slot, old.data, new.data, place


def outcome(session: LabSession, picture: StripePicture, target: int, new: bytes) -> tuple[CrashOutcome, bool]:
    """What md returns for the block, and whether any other block of its stripe is wrong."""
    found, is_wrong = CrashOutcome.LOST, False
    skip = picture.skip_bytes // 512
    cells = {seen.cell.first_sector + skip: seen.data for seen in picture.cells if not seen.cell.kind.is_parity}
    for sector, old in cells.items():
        data = read_moment(session.machine, [BytesAt(DEVICE, sector * 512, BLOCK_BYTES)]).places[0].data
        if sector != target:
            is_wrong |= data != old
        else:
            found = CrashOutcome.NEW if data == new else CrashOutcome.OLD if data == old else CrashOutcome.MIXED
    return found, is_wrong


def scrub(session: LabSession, action: str) -> int:
    session.lab.execute(operations.scrub(NAME, action))
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
def test_a_flipped_byte_is_judged_checked_and_repaired_as_predicted(
    session: LabSession, level: str, members: int, options: tuple[str, ...], slot: int, blamed: str, stripe: int
) -> None:
    create(session, level, members, *options)
    fill(session)
    before = read_stripe(session, NAME, stripe)
    assert before.comparison.verdict is StripeVerdict.AGREES
    assert before.is_one_moment
    cell = next(cell for cell in before.stripe.cells if cell.slot == slot)
    # Two bytes in two pages of the chunk, then another byte beside the first.
    for byte in (17, 5000, 18):
        picture = read_stripe(session, NAME, stripe)
        session.lab.execute(flip_plan(picture, device_of(picture, cell), byte))
    flipped = read_stripe(session, NAME, stripe)
    changed = {key for key, data in bytes_of(flipped).items() if data != bytes_of(before)[key]}
    assert changed == {(slot, cell.sector)}
    comparison = flipped.comparison
    assert comparison.verdict is StripeVerdict.DIFFERS
    assert (f"slot {comparison.blamed.slot}" if comparison.blamed else "") == blamed
    if comparison.blamed:
        assert comparison.blamed.bytes_wrong == (17, 18, 5000)
        assert comparison.blamed.right == bytes_of(before)[slot, cell.sector]
    assert scrub(session, "check") == comparison.mismatch_sectors > 0
    assert bytes_of(read_stripe(session, NAME, stripe)) == bytes_of(flipped)
    scrub(session, "repair")
    after = read_stripe(session, NAME, stripe)
    assert after.comparison.verdict is StripeVerdict.AGREES
    assert bytes_of(after) == bytes_of(flipped) | dict(comparison.repaired)
    assert scrub(session, "check") == 0


def test_a_stripe_without_a_member_is_judged_by_the_remaining_members(session: LabSession) -> None:
    create(session, "6", 5)
    fill(session)
    before = read_stripe(session, NAME, 1)
    row = {cell.kind.value: cell.slot for cell in before.stripe.cells if cell.kind.is_parity}
    lost = next(slot for slot in range(5) if slot not in row.values())
    session.lab.execute(operations.fail(NAME, before.shape.members[lost].device))
    degraded = read_stripe(session, NAME, 1)
    assert degraded.comparison.verdict is StripeVerdict.AGREES
    computed = next(seen for seen in degraded.cells if seen.cell.slot == lost)
    assert computed.data is None
    assert computed.computed == bytes_of(before)[lost, computed.cell.sector]
    session.lab.execute(flip_plan(degraded, degraded.shape.members_in(row["Q"])[0].device, 3))
    found = read_stripe(session, NAME, 1).comparison
    assert (found.verdict, found.blamed) == (StripeVerdict.DIFFERS, None)
    assert scrub(session, "check") == found.mismatch_sectors == 8
    scrub(session, "repair")
    assert read_stripe(session, NAME, 1).comparison.verdict is StripeVerdict.AGREES
