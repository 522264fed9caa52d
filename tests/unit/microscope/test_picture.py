"""Stripes read from made-up members: who is wrong, what a repair would write, and what is said of it."""

from __future__ import annotations

import pytest

from lab.arrays.geometry import ParityGeometry
from lab.errors import ArrayError, LabError
from lab.microscope.picture import StripePicture, StripeVerdict, flip_plan, look_at_stripe, parse_place
from lab.microscope.small_write import judged_words, repair_words
from lab.plans import Danger
from tests.unit.fakes import FakeMachine
from tests.unit.microscope.arrays import (
    CHUNK_BYTES,
    CHUNK_SECTORS,
    MD,
    OFFSET,
    Members,
    arrays_on,
    parity_array,
    stripe_bytes,
    sysfs,
)


def copies_array(level: str, disks: int, **words: str) -> tuple[FakeMachine, Members]:
    machine = FakeMachine(files=sysfs(level, disks, 64, **words))
    return machine, Members(machine)


def row_of(picture: StripePicture) -> tuple[int, int | None, tuple[int, ...]]:
    assert isinstance(picture.geometry, ParityGeometry)
    row = picture.geometry.row(picture.stripe.number)
    return row.p_slot, row.q_slot, row.data_slots


def test_a_right_stripe_agrees_and_is_of_one_moment() -> None:
    arrays, _, members = parity_array("raid6", 5)
    picture = look_at_stripe(arrays, "md0", 2)
    assert picture.comparison.verdict is StripeVerdict.AGREES
    assert members.held == [[MD, 6 * CHUNK_SECTORS, 9 * CHUNK_SECTORS]]
    assert picture.is_one_moment
    assert {seen.cell.slot: seen.data for seen in picture.cells} == stripe_bytes(picture.geometry, 2)  # type: ignore[arg-type]
    assert judged_words(picture) == ["Data and parity agree."]
    assert repair_words(picture) == []


@pytest.mark.parametrize("slot", range(5))
def test_raid6_names_the_member_and_md_does_not_ask(slot: int) -> None:
    arrays, _, members = parity_array("raid6", 5)
    right = stripe_bytes(look_at_stripe(arrays, "md0", 1).geometry, 1)  # type: ignore[arg-type]
    for byte in (3, 700):
        members.flip(slot, CHUNK_SECTORS, byte, bits=byte % 255 + 1)
    picture = look_at_stripe(arrays, "md0", 1)
    blamed = picture.comparison.blamed
    assert blamed is not None
    assert (blamed.slot, blamed.bytes_wrong, blamed.right) == (slot, (3, 700), right[slot])
    assert f"Wrong is disk0{slot + 1}" in judged_words(picture)[-1]
    p, q, data = row_of(picture)
    written = {slot for slot, _ in picture.comparison.repaired}
    assert written == ({p, q} if slot in data else {slot})
    assert ("That is wrong here" in repair_words(picture)[-1]) == (slot in data)
    assert picture.comparison.mismatch_sectors == 8


def test_two_wrong_members_are_named_by_nobody() -> None:
    arrays, _, members = parity_array("raid6", 6)
    members.flip(0, CHUNK_SECTORS, 5)
    members.flip(2, CHUNK_SECTORS, 9)
    comparison = look_at_stripe(arrays, "md0", 1).comparison
    assert comparison.blamed is None
    assert "more than one is wrong" in comparison.why_unknown


def test_raid5_cannot_tell_who() -> None:
    arrays, _, members = parity_array("raid5", 4)
    members.flip(1, 0, 0)
    picture = look_at_stripe(arrays, "md0", 0)
    assert picture.comparison.blamed is None
    assert "cannot be told: one parity" in judged_words(picture)[-1]
    assert {slot for slot, _ in picture.comparison.repaired} == {3}
    assert "permanent" in repair_words(picture)[-1]


def test_what_lacks_is_computed_and_raid5_then_has_nothing_to_compare() -> None:
    arrays, _, _ = parity_array("raid5", 4, dev___ubda__slot="none", dev___ubda__state="faulty")
    picture = look_at_stripe(arrays, "md0", 0)
    lost = picture.cells[0]
    assert lost.data is None
    assert lost.computed == stripe_bytes(picture.geometry, 0)[0]  # type: ignore[arg-type]
    assert picture.comparison.verdict is StripeVerdict.UNKNOWN
    assert "cannot be verified" in judged_words(picture)[0]


@pytest.mark.parametrize("lost", range(5))
def test_raid6_without_one_member_checks_with_the_other_parity(lost: int) -> None:
    gone = {f"dev___ubd{'abcde'[lost]}__slot": "none", f"dev___ubd{'abcde'[lost]}__state": "faulty"}
    arrays, _, members = parity_array("raid6", 5, **gone)
    picture = look_at_stripe(arrays, "md0", 0)
    assert picture.comparison.verdict is StripeVerdict.AGREES
    p, q, data = row_of(picture)
    checked = q if lost in data else p if lost == q else q
    members.flip(next(slot for slot in data if slot != lost), 0, 11)
    after = look_at_stripe(arrays, "md0", 0).comparison
    assert after.verdict is StripeVerdict.DIFFERS
    assert {slot for slot, _ in after.repaired} == {checked}
    assert after.blamed is None


def test_a_member_that_cannot_be_read_counts_as_missing() -> None:
    arrays, _, members = parity_array("raid6", 5)
    members.failing.add("/dev/ubdc")
    picture = look_at_stripe(arrays, "md0", 0)
    assert picture.missing == {(2, 0): "Input/output error"}
    assert picture.comparison.verdict is StripeVerdict.AGREES


def test_three_copies_vote_and_md_counts_no_votes() -> None:
    machine, members = copies_array("raid1", 3)
    members.flip(0, 0, 100)
    picture = look_at_stripe(arrays_on(machine), "md0", 0)
    blamed = picture.comparison.blamed
    assert blamed is not None
    assert (blamed.slot, blamed.right[100]) == (0, 0)
    assert {slot for slot, _ in picture.comparison.repaired} == {1, 2}
    assert picture.comparison.mismatch_sectors == 2 * 128
    assert "That is wrong here: the first copy" in repair_words(picture)[-1]


def test_two_copies_cannot_tell_and_raid0_has_nothing_twice() -> None:
    machine, members = copies_array("raid1", 2)
    members.flip(1, 0, 7)
    assert "two copies and no third" in look_at_stripe(arrays_on(machine), "md0", 0).comparison.why_unknown
    machine, _ = copies_array("raid0", 2)
    picture = look_at_stripe(arrays_on(machine), "md0", 0)
    assert picture.comparison.verdict is StripeVerdict.UNKNOWN
    assert judged_words(picture) == ["raid0 keeps nothing twice: there is nothing to compare."]


def test_raid10_reads_the_copy_in_the_next_stripe_too() -> None:
    machine, members = copies_array("raid10", 5)
    picture = look_at_stripe(arrays_on(machine), "md0", 0)
    assert [(seen.cell.slot, seen.cell.sector) for seen in picture.cells][-1] == (0, CHUNK_SECTORS)
    members.flip(0, CHUNK_SECTORS, 1)
    picture = look_at_stripe(arrays_on(machine), "md0", 0)
    assert set(picture.comparison.repaired) == {(0, CHUNK_SECTORS)}
    assert picture.comparison.mismatch_sectors == CHUNK_SECTORS


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"sync_action": "check"}, "a check runs"),
        ({"suspend_hi": "64"}, "another program suspends writes"),
        ({"suspend_hi": ""}, "md cannot suspend writes to a raid5"),
    ],
)
def test_where_md_works_by_itself_nothing_is_held(words: dict[str, str], why: str) -> None:
    arrays, _, members = parity_array("raid5", 4, **words)
    picture = look_at_stripe(arrays, "md0", 0)
    assert members.held == [None]
    assert not picture.is_one_moment
    assert why in picture.why_not


def test_a_due_resync_is_told() -> None:
    arrays, _, members = parity_array("raid5", 4, resync_start="8")
    members.flip(1, CHUNK_SECTORS, 0)
    members.flip(1, 0, 0)
    assert "resync that is due" in judged_words(look_at_stripe(arrays, "md0", 1))[0]
    assert "resync" not in " ".join(judged_words(look_at_stripe(arrays, "md0", 0)))


def test_a_part_of_the_chunks_can_be_looked_at() -> None:
    arrays, _, members = parity_array("raid6", 5)
    members.flip(4, 0, 1030)
    picture = look_at_stripe(arrays, "md0", 0, skip_bytes=1024, length_bytes=512)
    assert [len(seen.data or b"") for seen in picture.cells] == [512] * 5
    assert picture.comparison.blamed is not None
    assert picture.comparison.blamed.bytes_wrong == (6,)
    assert "byte 1030 should be" in judged_words(picture)[-1]
    with pytest.raises(ArrayError, match="no byte 4096"):
        look_at_stripe(arrays, "md0", 0, skip_bytes=CHUNK_BYTES)
    with pytest.raises(LabError, match="no stripe 16"):
        look_at_stripe(arrays, "md0", 16)


def test_during_a_reshape_a_stripe_is_that_of_the_shape_that_holds() -> None:
    words = {"layout": "3 (2)", "reshape_position": "48", "sync_action": "reshape", "sync_max": "16"}
    arrays, _, _ = parity_array("raid5", 4, **words)
    assert not look_at_stripe(arrays, "md0", 0).is_before
    assert look_at_stripe(arrays, "md0", 2).is_before
    arrays, _, _ = parity_array("raid5", 4, **{**words, "reshape_position": "40"})
    with pytest.raises(ArrayError, match="lies in no shape as a whole"):
        look_at_stripe(arrays, "md0", 1)


def test_a_flip_is_a_plan_that_names_byte_and_danger() -> None:
    arrays, _, _ = parity_array("raid5", 4)
    picture = look_at_stripe(arrays, "md0", 1)
    old = next(seen.data for seen in picture.cells if seen.cell.slot == 1)
    assert old is not None
    plan = flip_plan(picture, "/dev/ubdb", 9)
    place = (OFFSET + CHUNK_SECTORS) * 512 + 9
    before, write, stripes, cache = plan.steps
    assert before.argv == ("blockdev", "--flushbufs", "/dev/ubdb")
    assert write.argv[2].startswith(f"printf '\\{old[9] ^ 0xFF:03o}' | dd of=/dev/ubdb bs=1 seek={place} ")
    assert f"\\{old[9]:03o}" in write.undo[2]
    assert (write.danger, write.writes_devices) == (Danger.DATA, ("/dev/ubdb",))
    assert "17 256 17 256" in stripes.argv[2]
    assert cache.argv[-1] == "/dev/md0"


@pytest.mark.parametrize(("device", "byte"), [("/dev/ubdb", CHUNK_BYTES), ("/dev/ubdb", -1), ("/dev/ubdh", 0)])
def test_a_byte_that_is_not_there_is_refused(device: str, byte: int) -> None:
    arrays, _, _ = parity_array("raid5", 4)
    with pytest.raises(ArrayError):
        flip_plan(look_at_stripe(arrays, "md0", 1), device, byte)


def test_a_byte_that_was_not_read_is_not_flipped() -> None:
    arrays, _, _ = parity_array("raid5", 4)
    picture = look_at_stripe(arrays, "md0", 1, length_bytes=512)
    with pytest.raises(ArrayError, match="was not read"):
        flip_plan(picture, "/dev/ubdb", 600)


def test_a_place_is_a_disk_and_a_byte() -> None:
    assert parse_place("disk03:17") == ("disk03", 17)
    with pytest.raises(LabError, match="not a whole number"):
        parse_place("disk03")
