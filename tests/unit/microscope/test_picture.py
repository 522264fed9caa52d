"""Stripes read from made-up members: which member is wrong, what a write does, and what crashes leave."""

from __future__ import annotations

import base64
from itertools import combinations

import pytest

from lab.arrays.geometry import ParityGeometry
from lab.errors import ArrayError, LabError
from lab.microscope.array_map import MappedArray, read_shape
from lab.microscope.picture import (
    StripePicture,
    StripeVerdict,
    flip_plan,
    read_stripe,
)
from lab.microscope.small_write import (
    CrashOutcome,
    CrashState,
    ObservedIo,
    ObservedWrite,
    SmallWrite,
    WriteWay,
    crash_states,
    crash_words,
    judged_words,
    observed_words,
    repair_words,
    small_write,
    write_head,
    write_plan,
    write_tail,
)
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
    shape_of,
    stripe_bytes,
    sysfs,
    without,
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
    picture = read_stripe(arrays, "md0", 2)
    assert picture.comparison.verdict is StripeVerdict.AGREES
    assert members.held == [[MD, 6 * CHUNK_SECTORS, 9 * CHUNK_SECTORS]]
    assert picture.is_one_moment
    assert {seen.cell.slot: seen.data for seen in picture.cells} == stripe_bytes(picture.geometry, 2)
    assert judged_words(picture) == ["Data and parity agree."]
    assert repair_words(picture) == []


@pytest.mark.parametrize("slot", range(5))
def test_raid6_names_the_member_and_md_does_not_ask(slot: int) -> None:
    arrays, _, members = parity_array("raid6", 5)
    right = stripe_bytes(read_stripe(arrays, "md0", 1).geometry, 1)
    for byte in (3, 700):
        members.flip(slot, CHUNK_SECTORS, byte, bits=byte % 255 + 1)
    picture = read_stripe(arrays, "md0", 1)
    blamed = picture.comparison.blamed
    assert blamed is not None
    assert (blamed.slot, blamed.bytes_wrong, blamed.right) == (slot, (3, 700), right[slot])
    assert f"disk0{slot + 1} is wrong" in judged_words(picture)[-1]
    p, q, data = row_of(picture)
    written = {slot for slot, _ in picture.comparison.repaired}
    assert written == ({p, q} if slot in data else {slot})
    assert ("Here that is wrong" in repair_words(picture)[-1]) == (slot in data)
    assert picture.comparison.mismatch_sectors == 8


@pytest.mark.parametrize(
    ("level", "disks", "slots", "repaired", "why"),
    [
        ("raid6", 6, (1, 2), {0, 5}, "more than one is wrong"),
        ("raid5", 4, (1,), {3}, "which member is wrong: one parity"),
    ],
)
def test_with_one_parity_or_two_wrong_members_none_is_blamed(
    level: str, disks: int, slots: tuple[int, ...], repaired: set[int], why: str
) -> None:
    arrays, _, members = parity_array(level, disks)
    for byte, slot in enumerate(slots):
        members.flip(slot, 0, byte)
    picture = read_stripe(arrays, "md0", 0)
    assert picture.comparison.blamed is None
    assert why in judged_words(picture)[-1]
    assert {slot for slot, _ in picture.comparison.repaired} == repaired
    assert "permanent" in repair_words(picture)[-1]


def test_what_is_missing_is_computed_and_raid5_then_has_nothing_to_compare() -> None:
    arrays, _, _ = parity_array("raid5", 4, **without(0))
    picture = read_stripe(arrays, "md0", 0)
    lost = picture.cells[0]
    assert lost.data is None
    assert lost.computed == stripe_bytes(picture.geometry, 0)[0]
    assert picture.comparison.verdict is StripeVerdict.UNKNOWN
    assert "cannot be verified" in judged_words(picture)[0]


@pytest.mark.parametrize("lost", range(5))
def test_raid6_without_one_member_checks_with_the_other_parity(lost: int) -> None:
    arrays, _, members = parity_array("raid6", 5, **without(lost))
    picture = read_stripe(arrays, "md0", 0)
    assert picture.comparison.verdict is StripeVerdict.AGREES
    p, q, data = row_of(picture)
    checked = q if lost in data else p if lost == q else q
    members.flip(next(slot for slot in data if slot != lost), 0, 11)
    after = read_stripe(arrays, "md0", 0).comparison
    assert after.verdict is StripeVerdict.DIFFERS
    assert {slot for slot, _ in after.repaired} == {checked}
    assert after.blamed is None


@pytest.mark.parametrize(("disks", "lost"), [*((6, lost) for lost in combinations(range(6), 2)), (10, (2, 7))])
def test_raid6_computes_any_two_members(disks: int, lost: tuple[int, int]) -> None:
    arrays, _, _ = parity_array("raid6", disks, **without(*lost))
    picture = read_stripe(arrays, "md0", 1)
    right = stripe_bytes(picture.geometry, 1)
    assert [picture.cells[slot].computed for slot in lost] == [right[slot] for slot in lost]


def test_a_member_that_cannot_be_read_counts_as_missing() -> None:
    arrays, _, members = parity_array("raid6", 5)
    members.failing.add("/dev/ubdc")
    picture = read_stripe(arrays, "md0", 0)
    assert picture.missing == {(2, 0): "Input/output error"}
    assert picture.comparison.verdict is StripeVerdict.AGREES


def test_three_copies_vote_and_md_counts_no_votes() -> None:
    machine, members = copies_array("raid1", 3)
    members.flip(0, 0, 100)
    picture = read_stripe(arrays_on(machine), "md0", 0)
    blamed = picture.comparison.blamed
    assert blamed is not None
    assert (blamed.slot, blamed.right[100]) == (0, 0)
    assert {slot for slot, _ in picture.comparison.repaired} == {1, 2}
    assert picture.comparison.mismatch_sectors == 2 * 128
    assert "Here that is wrong: the first copy" in repair_words(picture)[-1]


def test_two_copies_blame_no_member_and_raid0_has_no_redundancy() -> None:
    machine, members = copies_array("raid1", 2)
    members.flip(1, 0, 7)
    assert "two copies without a third" in read_stripe(arrays_on(machine), "md0", 0).comparison.why_unknown
    machine, _ = copies_array("raid0", 2)
    picture = read_stripe(arrays_on(machine), "md0", 0)
    assert picture.comparison.verdict is StripeVerdict.UNKNOWN
    assert judged_words(picture) == ["raid0 has no redundancy, so there is nothing to compare."]


def test_raid10_reads_the_copy_in_the_next_stripe_too() -> None:
    machine, members = copies_array("raid10", 5)
    picture = read_stripe(arrays_on(machine), "md0", 0)
    assert [(seen.cell.slot, seen.cell.sector) for seen in picture.cells][-1] == (0, CHUNK_SECTORS)
    members.flip(0, CHUNK_SECTORS, 1)
    picture = read_stripe(arrays_on(machine), "md0", 0)
    assert set(picture.comparison.repaired) == {(0, CHUNK_SECTORS)}
    assert picture.comparison.mismatch_sectors == CHUNK_SECTORS


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ({"sync_action": "check"}, "a check is running"),
        ({"sync_action": "recover"}, "a rebuild is running"),
        ({"suspend_hi": "64"}, "another program suspends writes"),
        ({"suspend_hi": ""}, "md cannot suspend writes to a raid5"),
    ],
)
def test_where_md_works_by_itself_nothing_is_held(words: dict[str, str], why: str) -> None:
    arrays, _, members = parity_array("raid5", 4, **words)
    picture = read_stripe(arrays, "md0", 0)
    assert members.held == [None]
    assert not picture.is_one_moment
    assert why in picture.why_not


def test_a_due_resync_is_reported() -> None:
    arrays, _, members = parity_array("raid5", 4, resync_start="8")
    members.flip(1, CHUNK_SECTORS, 0)
    members.flip(1, 0, 0)
    assert "resync that is due" in judged_words(read_stripe(arrays, "md0", 1))[0]
    assert "resync" not in " ".join(judged_words(read_stripe(arrays, "md0", 0)))


def test_a_part_of_the_chunks_can_be_read() -> None:
    arrays, _, members = parity_array("raid6", 5)
    members.flip(4, 0, 1030)
    picture = read_stripe(arrays, "md0", 0, skip_bytes=1024, length_bytes=512)
    assert [len(seen.data or b"") for seen in picture.cells] == [512] * 5
    assert picture.comparison.blamed is not None
    assert picture.comparison.blamed.bytes_wrong == (6,)
    assert "byte 1030 should be" in judged_words(picture)[-1]
    with pytest.raises(ArrayError, match="byte 4096 lies outside"):
        read_stripe(arrays, "md0", 0, skip_bytes=CHUNK_BYTES)
    with pytest.raises(LabError, match="no stripe 16"):
        read_stripe(arrays, "md0", 16)


def test_during_a_reshape_a_stripe_is_that_of_the_shape_that_holds() -> None:
    words = {"layout": "3 (2)", "reshape_position": "48", "sync_action": "reshape", "sync_max": "16"}
    arrays, _, _ = parity_array("raid5", 4, **words)
    assert not read_stripe(arrays, "md0", 0).is_before
    assert read_stripe(arrays, "md0", 2).is_before
    arrays, _, _ = parity_array("raid5", 4, **{**words, "reshape_position": "40"})
    with pytest.raises(ArrayError, match="is partly in the old layout"):
        read_stripe(arrays, "md0", 1)


def test_a_flip_is_a_plan_that_names_byte_and_danger() -> None:
    arrays, _, _ = parity_array("raid5", 4)
    picture = read_stripe(arrays, "md0", 1)
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


@pytest.mark.parametrize(("byte", "message"), [(-1, "byte -1 lies outside stripe"), (600, "was not read")])
def test_a_byte_that_is_not_there_or_was_not_read_is_refused(byte: int, message: str) -> None:
    arrays, _, _ = parity_array("raid5", 4)
    picture = read_stripe(arrays, "md0", 1, length_bytes=512)
    with pytest.raises(ArrayError, match=message):
        flip_plan(picture, "/dev/ubdb", byte)


WAYS = [
    ("raid5", 3, {}, (), WriteWay.RECONSTRUCT, 2, 1),
    ("raid5", 4, {}, (), WriteWay.RECONSTRUCT, 2, 2),
    ("raid5", 4, {"rmw_level": "2"}, (), WriteWay.READ_MODIFY, 2, 2),
    ("raid5", 5, {}, (), WriteWay.READ_MODIFY, 2, 3),
    ("raid5", 5, {"rmw_level": "0"}, (), WriteWay.RECONSTRUCT, 2, 3),
    ("raid5", 5, {"resync_start": "0"}, (), WriteWay.RECONSTRUCT, 2, 3),
    ("raid5", 5, {"resync_start": "8"}, (), WriteWay.READ_MODIFY, 2, 3),
    ("raid5", 5, {}, (0,), WriteWay.RECONSTRUCT, None, 3),
    ("raid5", 5, {}, (1,), WriteWay.READ_MODIFY, 2, None),
    ("raid5", 5, {}, (4,), WriteWay.RECONSTRUCT, None, 3),
    ("raid6", 5, {}, (), WriteWay.RECONSTRUCT, 3, 2),
    ("raid6", 7, {}, (), WriteWay.READ_MODIFY, 3, 4),
    ("raid6", 7, {}, (2, 3), WriteWay.READ_MODIFY, 3, None),
]


def written(level: str, disks: int, lost: tuple[int, ...] = (), **words: str) -> tuple[MappedArray, SmallWrite]:
    words |= without(*lost)
    size = 64 * (disks - (2 if level == "raid6" else 1))
    shape = shape_of(level, disks, size, **words)
    return shape, small_write(shape, 0)


@pytest.mark.parametrize(("level", "disks", "words", "lost", "way", "modify", "rebuild"), WAYS)
def test_md_takes_the_way_that_reads_less(
    level: str,
    disks: int,
    words: dict[str, str],
    lost: tuple[int, ...],
    way: WriteWay,
    modify: int | None,
    rebuild: int | None,
) -> None:
    shape, write = written(level, disks, lost, **words)
    assert (write.modify_reads, write.reconstruct_reads) == (modify, rebuild)
    assert write.way is way
    assert sum(io.reads for io in write.ios) == (modify if way is WriteWay.READ_MODIFY else rebuild)
    assert write_head(shape, write)[0].endswith(f"{way}.")


def test_parity_goes_out_from_the_last_slot_down() -> None:
    _, write = written("raid6", 7)
    # Stripe 0: P on slot 6, Q on slot 0, the first data on slot 1.
    assert write.written_slots == (6, 1, 0)
    assert [io.slot for io in write.ios if io.writes] == [0, 1, 6]


def test_if_neither_way_is_possible_everything_is_read_first() -> None:
    _, write = written("raid6", 7, lost=(1, 2))
    assert write.target_slots == (1,)
    assert write.way is WriteWay.COMPUTE_FIRST
    assert [io.reads for io in write.ios] == [1] * 5


def test_copies_are_written_and_nothing_is_read() -> None:
    write = small_write(shape_of("raid10", 4, 128), 8)
    assert write.written_slots == (2, 3)
    assert sum(io.reads for io in write.ios) == 0
    assert write.way is WriteWay.COPIES
    plain = small_write(shape_of("raid0", 3), 8)
    assert (plain.way, plain.written_slots) == (WriteWay.PLAIN, (1,))


def test_a_member_that_is_filled_is_written_and_not_read() -> None:
    _, write = written("raid5", 5, dev___ubda__state="spare", dev___ubda__recovery_start="0")
    target = next(io for io in write.ios if io.slot == 0)
    assert (target.reads, target.writes) == (0, 1)


def test_extra_writes_of_log_bitmap_and_journal_are_shown() -> None:
    shape, write = written("raid5", 4, consistency_policy="ppl")
    (log,) = [io for io in write.ios if io.log_bytes]
    assert (log.kind, log.written_bytes) == ("P", 3 * CHUNK_BYTES)
    assert "partial parity log" in write_tail(shape, write)[-1]
    shape, write = written("raid5", 4, bitmap__location="+8", bitmap__chunksize="65536")
    assert any("bitmap" in words for words in write_tail(shape, write))
    _, write = written("raid5", 4, consistency_policy="journal", journal_mode="write-through [write-back]")
    assert not write.is_predicted


@pytest.mark.parametrize("sector", [4, -8, 384])
def test_an_invalid_block_is_refused(sector: int) -> None:
    shape, _ = written("raid5", 4)
    with pytest.raises(ArrayError, match="no whole block"):
        small_write(shape, sector)


def test_the_write_is_a_plan_that_undoes_itself_the_second_time() -> None:
    arrays, _, _ = parity_array("raid5", 4)
    picture = read_stripe(arrays, "md0", 0)
    write = small_write(picture.shape, 8)
    old = next(seen.data for seen in picture.cells if seen.cell.first_sector == 8) or b""
    awake, again, stripes, put, rest = write_plan(picture, write).steps
    assert awake.argv[2] == "echo 60 > /sys/block/md0/md/safe_mode_delay"
    assert rest.argv[2].startswith("echo 0.204 ")
    assert {"skip=1", "seek=1", "iflag=direct"} <= set(again.argv)
    assert "stripe_cache_size" in stripes.argv[2]
    assert (put.danger, put.writes_devices) == (Danger.DATA, ("/dev/md0",))
    assert " seek=1 " in put.argv[2]
    assert bytes(byte ^ 0xFF for byte in base64.b64decode(put.stdin_text)) == old


def stepped(level: str, disks: int, sector: int = 0, **words: str) -> tuple[SmallWrite, tuple[CrashState, ...]]:
    arrays, _, _ = parity_array(level, disks, **words)
    write = small_write(read_shape(arrays, "md0"), sector)
    picture = read_stripe(arrays, "md0", write.stripe)
    return write, crash_states(picture, write)


def test_a_raid5_has_the_write_hole_between_its_two_writes() -> None:
    write, states = stepped("raid5", 4)
    target, p = write.target_slots[0], 3
    others = [slot for slot in range(4) if slot not in (target, p)]
    by_written = {state.written: state for state in states}
    assert set(by_written) == {(), (p,), (target,), (p, target)}
    assert [state.written for state in states if state.is_beginning] == [(), (p,), (p, target)]
    for done in ((p,), (target,)):
        state = by_written[done]
        assert not state.is_consistent
        assert {state.without(slot).outcome for slot in others} == {CrashOutcome.HOLE}
    assert by_written[(p,)].without().outcome is CrashOutcome.OLD
    assert by_written[(p,)].without(target).outcome is CrashOutcome.NEW
    assert by_written[(target,)].without(target).outcome is CrashOutcome.OLD
    whole = by_written[(p, target)]
    assert whole.is_consistent
    assert {read.outcome for read in whole.reads} == {CrashOutcome.NEW}


@pytest.mark.parametrize("policy", ["ppl", "journal"])
def test_a_log_closes_the_hole(policy: str) -> None:
    write, states = stepped("raid5", 4, consistency_policy=policy)
    assert not any(read.holes for state in states for read in state.reads)
    if policy == "journal":
        assert {read.outcome for state in states for read in state.reads} == {CrashOutcome.NEW}
    else:
        # The log does not protect the block that was being written.
        may = {CrashOutcome.OLD, CrashOutcome.NEW, CrashOutcome.MIXED}
        assert {state.without(write.target_slots[0]).target for state in states} <= may


def test_raid6_survives_single_losses_only_where_p_fits() -> None:
    write, states = stepped("raid6", 5)
    assert len(states) == 8
    assert len(states[0].reads) == 1 + 5 + 10
    p = 4
    for state in states:
        fits_p = (p in state.written) == (write.target_slots[0] in state.written)
        holes = any(state.without(slot).holes for slot in range(5))
        assert holes != fits_p


def test_a_stripe_that_was_wrong_before_shows_in_the_first_line() -> None:
    arrays, _, members = parity_array("raid5", 4)
    members.flip(1, 0, 3)
    write = small_write(read_shape(arrays, "md0"), 0)
    picture = read_stripe(arrays, "md0", 0)
    states = crash_states(picture, write)
    assert states[0].without(2).outcome is CrashOutcome.HOLE
    assert "already wrong" in crash_words(picture.shape, states)[0]


def test_copies_give_old_or_new_until_they_agree() -> None:
    arrays = arrays_on(copies_array("raid1", 3)[0])
    write = small_write(read_shape(arrays, "md0"), 0)
    picture = read_stripe(arrays, "md0", 0, length_bytes=4096)
    states = crash_states(picture, write)
    assert [state.written for state in states if state.is_beginning] == [(), (0,), (0, 1), (0, 1, 2)]
    half = next(state for state in states if state.written == (0,))
    assert half.without().outcome is CrashOutcome.EITHER
    assert half.without(0).outcome is CrashOutcome.OLD
    assert not half.is_consistent


def observed(picture: StripePicture, write: SmallWrite, extra_reads: int = 0) -> ObservedWrite:
    members = tuple(
        ObservedIo(io.name, io.slot, io.reads, io.writes, io.read_bytes + extra_reads, io.written_bytes, ())
        for io in write.ios
    )
    return ObservedWrite(write, members, picture, picture)


def test_what_md_did_is_compared_by_bytes() -> None:
    arrays, _, _ = parity_array("raid5", 5)
    picture = read_stripe(arrays, "md0", 0)
    write = small_write(picture.shape, 0)
    assert observed_words(observed(picture, write)) == ["md did exactly what was predicted."]
    differing = observed(picture, write, extra_reads=4096)
    assert len(differing.differences) == 5
    assert "disk02: read 4 KiB and wrote 0 B instead of 0 B and 0 B" in differing.differences[1]
