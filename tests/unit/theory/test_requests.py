"""What md makes of a request, against cases worked out from drivers/md of Linux 6.1."""

from __future__ import annotations

import pytest

from lab.arrays.levels import Level, Raid0, Raid1, Raid4, Raid5, Raid6, Raid10, Raid10Layout, Single
from lab.arrays.spec import penalty_words
from lab.errors import SpecError
from lab.theory.model import ceiling_iops, demand
from lab.theory.simulation import Requests, Server, Servers, requests_for

NONE: frozenset[int] = frozenset()


def made(level: Level, members: int, *failed: int, rotational: bool = True, stripes: int | None = None) -> Requests:
    servers = Servers([Server(1.0, 1.0)] * members, follows_heads=True)
    return requests_for(
        level, members, frozenset(failed), servers, lambda: 0.5, is_rotational=rotational, stripes=stripes
    )


@pytest.mark.parametrize(
    ("level", "members", "reads", "writes"),
    [
        (Single(), 1, 0, 1),
        (Raid0(), 6, 0, 1),
        (Raid1(), 3, 0, 3),
        (Raid10(), 6, 0, 2),
        # Read-modify-write on six members, reconstruct-write on three: one read against two.
        (Raid4(), 6, 2, 2),
        (Raid5(), 6, 2, 2),
        (Raid5(), 3, 1, 2),
        # On four members both ways need two reads: a tie goes to reconstruct-write.
        (Raid5(), 4, 2, 2),
        (Raid6(), 6, 3, 3),
        (Raid6(), 9, 3, 3),
        (Raid6(), 4, 1, 3),
    ],
)
def test_member_ios_of_a_small_write(level: Level, members: int, reads: int, writes: int) -> None:
    work = demand(level, members, is_write=True)
    assert [work.total_reads, work.total_writes] == pytest.approx([reads, writes])
    assert reads + writes == level.small_write_ios(members)


@pytest.mark.parametrize("level", [Raid0(), Raid1(), Raid4(), Raid5(), Raid6(), Raid10()])
@pytest.mark.parametrize("members", range(4, 13))
def test_the_words_for_a_small_write_tell_what_md_is_taken_to_do(level: Level, members: int) -> None:
    work, told = demand(level, members, is_write=True), level.small_write(members)
    assert [work.total_reads, work.total_writes] == pytest.approx([told.reads, told.writes])
    words = penalty_words(level, members)
    assert words.startswith(f"{told.ios} I/O")
    if level.parity_members:
        stages = made(level, members).stages(0, True, 0.0)
        written = {*stages[-1][0]}
        # Whether a block that is read is written afterwards tells which way it is.
        assert ("old data" in words) == (told.modifies) == ({*stages[0][0]} == written)
        assert ("the other" in words) == ({*stages[0][0]}.isdisjoint(written))


def test_a_request_of_several_chunks_is_an_io_on_each_of_its_members() -> None:
    read = demand(Raid0(), 5, is_write=False, chunks=4)
    assert read.reads == pytest.approx([0.8] * 5)
    assert demand(Raid0(), 5, is_write=True, chunks=9).total_writes == 5
    whole = demand(Raid5(), 5, is_write=True, chunks=4)
    assert (whole.total_reads, whole.writes, whole.stages) == (0, (1.0,) * 5, 1)
    assert demand(Raid6(), 6, is_write=False, chunks=4).total_reads == pytest.approx(4)
    # So whole stripes on RAID 0 get 5/4 of those on a RAID 5 of as many.
    of_chunks = [1 / max(demand(level, 5, is_write=True, chunks=4).writes) for level in (Raid0(), Raid5())]
    assert of_chunks[0] / of_chunks[1] == pytest.approx(5 / 4)
    with pytest.raises(SpecError, match="no prediction for requests of 3 chunks"):
        demand(Raid5(), 5, is_write=True, chunks=3)


def test_four_members_reconstruct_and_five_modify() -> None:
    # Place 0: data on slot 0, parity on the last slot, in both.
    assert made(Raid5(), 4).stages(0, True, 0.0)[0] == ((1, 2), False)
    assert made(Raid5(), 5).stages(0, True, 0.0)[0] == ((0, 4), False)


def test_writes_of_a_degraded_raid5() -> None:
    # The data's own member is gone: parity comes from the other data, and only parity is written.
    assert made(Raid5(), 6, 0).stages(0, True, 0.0) == (((1, 2, 3, 4), False), ((5,), True))
    # Parity's member is gone: md reads the other data all the same, and writes the data.
    assert made(Raid5(), 6, 5).stages(0, True, 0.0) == (((1, 2, 3, 4), False), ((0,), True))
    # Some other member is gone: reconstruct-write is impossible.
    assert made(Raid5(), 6, 2).stages(0, True, 0.0) == (((0, 5), False), ((0, 5), True))


def test_a_doubly_degraded_raid6_reads_all_it_can_when_parity_must_be_made_anew_without_a_data_block() -> None:
    # Place 0 of six: parity on slots 5 and 0, data on slot 1.
    assert made(Raid6(), 6, 1, 2).stages(0, True, 0.0) == (((0, 3, 4, 5), False), ((0, 5), True))
    assert made(Raid6(), 6, 2, 3).stages(0, True, 0.0) == (((0, 1, 5), False), ((1, 0, 5), True))


def test_a_read_of_a_lost_block_reads_all_the_others() -> None:
    assert made(Raid5(), 6, 0).stages(0, False, 0.0) == (((1, 2, 3, 4, 5), False),)
    assert made(Raid5(), 6, 1).stages(0, False, 0.0) == (((0,), False),)
    assert demand(Raid5(), 6, is_write=False, failed=frozenset({3})).total_reads == pytest.approx(2 * 5 / 6)


def test_pages_in_the_stripe_cache_are_not_read_again() -> None:
    requests = made(Raid5(), 6, stripes=6)
    assert requests.stages(0, True, 0.0) == (((0, 5), False), ((0, 5), True))
    assert requests.stages(0, True, 0.0) == (((0, 5), True),)
    # Another chunk of the stripe: its own old data only, the parity is there.
    assert requests.stages(6, True, 0.0) == (((1,), False), ((1, 5), True))
    degraded = made(Raid5(), 6, 0, stripes=6)
    degraded.stages(0, False, 0.0)
    assert degraded.stages(0, False, 0.0) == ()


def test_which_copy_a_mirror_reads() -> None:
    servers = Servers([Server(1.0, 1.0)] * 2, follows_heads=True)
    near = requests_for(Raid1(), 2, NONE, servers, lambda: 0.9, is_rotational=True)
    assert near.stages(0, False, 0.0) == (((0,), False),)
    servers.put(0.0, (0,), False, 0.2)
    assert near.stages(0, False, 0.5) == (((1,), False),), "the idle one"
    servers.put(0.0, (1,), False, 0.8)
    servers.put(0.5, (0, 1), False, 0.5)
    assert near.stages(0, False, 1.5) == (((1,), False),), "the nearest head: 0.8 is nearer to 0.9 than 0.2"
    pending = requests_for(Raid1(), 2, NONE, servers, lambda: 0.9, is_rotational=False)
    servers.put(1.5, (1,), False, 0.9)
    assert pending.stages(0, False, 1.6) == (((0,), False),), "the one with fewer I/Os waiting"


def test_far_copies_are_read_at_the_first_copy() -> None:
    far = made(Raid10(layout=Raid10Layout.FAR), 4)
    assert [far.stages(place, False, 0.0)[0][0] for place in range(4)] == [(0,), (1,), (2,), (3,)]
    assert made(Raid10(layout=Raid10Layout.FAR), 4, 1).stages(1, False, 0.0) == (((2,), False),)


def test_a_lost_array_is_refused() -> None:
    for level, failed in ((Raid0(), (0,)), (Raid5(), (0, 1)), (Raid10(), (0, 1)), (Raid1(), (0, 1))):
        members = 2 if isinstance(level, Raid1) else 4
        with pytest.raises(SpecError, match="does not survive"):
            made(level, members, *failed)


def test_ceilings() -> None:
    six = [Server(0.01, 0.01)] * 6
    assert ceiling_iops(Raid5(), six, is_write=True) == pytest.approx(150)
    assert ceiling_iops(Raid4(), six, is_write=True) == pytest.approx(50), (
        "the parity member reads and writes each time"
    )
    assert ceiling_iops(Raid10(), six, is_write=False, failed=frozenset({0})) == pytest.approx(300)
    with pytest.raises(SpecError):
        ceiling_iops(Raid0(), [], is_write=True)
