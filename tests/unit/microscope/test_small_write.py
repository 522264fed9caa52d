"""md's choice between its two ways, and what crashes leave; on real arrays: tests/kernel/test_microscope_writes.py."""

from __future__ import annotations

import pytest

from lab.errors import ArrayError
from lab.microscope.array_map import MappedArray, read_shape
from lab.microscope.picture import StripePicture, look_at_stripe
from lab.microscope.small_write import (
    CrashOutcome,
    CrashState,
    ObservedIo,
    ObservedWrite,
    SmallWrite,
    WriteWay,
    crash_states,
    crash_words,
    new_content,
    observed_words,
    small_write,
    write_head,
    write_plan,
    write_tail,
)
from lab.plans import Danger
from tests.unit.fakes import FakeMachine
from tests.unit.microscope.arrays import CHUNK_BYTES, Members, arrays_on, parity_array, sysfs

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
    for slot in lost:
        words |= {f"dev___ubd{'abcdefgh'[slot]}__slot": "none", f"dev___ubd{'abcdefgh'[slot]}__state": "faulty"}
    size = 64 * (disks - (2 if level == "raid6" else 1))
    shape = read_shape(arrays_on(FakeMachine(files=sysfs(level, disks, size, **words))), "md0")
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


def test_where_neither_way_can_be_everything_is_read_first() -> None:
    _, write = written("raid6", 7, lost=(1, 2))
    assert write.target_slots == (1,)
    assert write.way is WriteWay.COMPUTE_FIRST
    assert [io.reads for io in write.ios] == [1] * 5


def test_copies_are_written_and_nothing_is_read() -> None:
    shape = read_shape(arrays_on(FakeMachine(files=sysfs("raid10", 4, 128))), "md0")
    write = small_write(shape, 8)
    assert write.written_slots == (2, 3)
    assert sum(io.reads for io in write.ios) == 0
    assert write.way is WriteWay.COPIES
    plain = small_write(read_shape(arrays_on(FakeMachine(files=sysfs("raid0", 3, 192))), "md0"), 8)
    assert (plain.way, plain.written_slots) == (WriteWay.PLAIN, (1,))


def test_a_member_that_is_filled_is_written_and_not_read() -> None:
    _, write = written("raid5", 5, dev___ubda__state="spare", dev___ubda__recovery_start="0")
    target = next(io for io in write.ios if io.slot == 0)
    assert (target.reads, target.writes) == (0, 1)


def test_what_comes_on_top_is_told() -> None:
    shape, write = written("raid5", 4, consistency_policy="ppl")
    (log,) = [io for io in write.ios if io.log_bytes]
    assert (log.kind, log.written_bytes) == ("P", 3 * CHUNK_BYTES)
    assert "partial parity log" in write_tail(shape, write)[-1]
    shape, write = written("raid5", 4, bitmap__location="+8", bitmap__chunksize="65536")
    assert any("bitmap" in words for words in write_tail(shape, write))
    _, write = written("raid5", 4, consistency_policy="journal", journal_mode="write-through [write-back]")
    assert not write.is_predicted


@pytest.mark.parametrize("sector", [4, -8, 384])
def test_what_is_no_block_is_refused(sector: int) -> None:
    shape, _ = written("raid5", 4)
    with pytest.raises(ArrayError, match="no whole block"):
        small_write(shape, sector)


def test_the_write_is_a_plan_that_takes_itself_back_at_the_second_time() -> None:
    arrays, _, _ = parity_array("raid5", 4)
    picture = look_at_stripe(arrays, "md0", 0)
    write = small_write(picture.shape, 8)
    new = new_content(picture, write)
    old = next(seen.data for seen in picture.cells if seen.cell.first_sector == 8)
    assert bytes(byte ^ 0xFF for byte in new) == old
    awake, again, stripes, put, rest = write_plan(picture.shape, 8, new).steps
    assert awake.argv[2] == "echo 60 > /sys/block/md0/md/safe_mode_delay"
    assert rest.argv[2].startswith("echo 0.204 ")
    assert {"skip=1", "seek=1", "iflag=direct"} <= set(again.argv)
    assert "stripe_cache_size" in stripes.argv[2]
    assert (put.danger, put.writes_devices) == (Danger.DATA, ("/dev/md0",))
    assert " seek=1 " in put.argv[2]


def stepped(level: str, disks: int, sector: int = 0, **words: str) -> tuple[SmallWrite, tuple[CrashState, ...]]:
    arrays, _, _ = parity_array(level, disks, **words)
    write = small_write(read_shape(arrays, "md0"), sector)
    picture = look_at_stripe(arrays, "md0", write.stripe)
    return write, crash_states(picture, write, new_content(picture, write))


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
        # The block that was being written is not what it protects.
        target = write.target_slots[0]
        assert {state.without(target).target for state in states} <= {
            CrashOutcome.OLD,
            CrashOutcome.NEW,
            CrashOutcome.MIXED,
        }


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
    picture = look_at_stripe(arrays, "md0", 0)
    states = crash_states(picture, write, new_content(picture, write))
    assert states[0].without(2).outcome is CrashOutcome.HOLE
    assert "wrong already" in crash_words(picture.shape, states)[0]


def test_copies_give_old_or_new_until_they_agree() -> None:
    machine = FakeMachine(files=sysfs("raid1", 3, 64))
    Members(machine)
    arrays = arrays_on(machine)
    write = small_write(read_shape(arrays, "md0"), 0)
    picture = look_at_stripe(arrays, "md0", 0, length_bytes=4096)
    states = crash_states(picture, write, new_content(picture, write))
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
    picture = look_at_stripe(arrays, "md0", 0)
    write = small_write(picture.shape, 0)
    assert observed_words(observed(picture, write)) == ["md did just what was predicted."]
    differing = observed(picture, write, extra_reads=4096)
    assert len(differing.differences) == 5
    assert "disk02: read and wrote 4 KiB and 0 B instead of 0 B and 0 B" in differing.differences[1]
