"""Where the oracle's blocks lie on members, and which blocks are lost with members."""

from __future__ import annotations

from itertools import combinations

import pytest

from lab.arrays.levels import level_with_layout
from lab.errors import SpecError
from lab.faults.arrays import BlockMap, numbers_in
from lab.faults.guest.scenario import ranges
from lab.units import KIB

SHAPES = [
    ("0", "", 3),
    ("1", "", 3),
    ("4", "", 3),
    ("4", "", 4),
    ("5", "", 4),
    *(("6", "", members) for members in (4, 5, 6, 7)),
    *(("10", layout, members) for layout in ("n2", "f2", "o2") for members in (3, 4, 5, 6)),
]
CHUNK = 16 * KIB
each_shape = pytest.mark.parametrize(("word", "layout", "members"), SHAPES)


def map_of(word: str, layout: str, members: int) -> BlockMap:
    return BlockMap(level_with_layout(word, layout or None), members, 8 * CHUNK, CHUNK)


RAID5 = map_of("5", "", 4)


@each_shape
def test_every_block_has_its_places_and_none_has_those_of_another(word: str, layout: str, members: int) -> None:
    found = map_of(word, layout, members)
    copies = {"1": members, "10": 2}.get(word, 1)
    places = [place for block in range(found.blocks) for place in found.places(block)]
    assert found.blocks == found.level.capacity_bytes(members, 8 * CHUNK, CHUNK) // 4096
    assert len(places) == len(set(places)) == found.blocks * copies
    assert {slot for slot, _ in places} == set(range(members - (word == "4")))
    assert found.places(found.blocks) == []
    assert found.parity_places(found.blocks) == {}


@pytest.mark.parametrize(("layout", "members"), [("n2", 3), ("o2", 4)])
def test_a_chunk_without_room_for_all_its_copies_is_no_part_of_raid_10(layout: str, members: int) -> None:
    """Three chunks per member: raid10_size() in drivers/md/raid10.c rounds both 9 / 2 and 3 // 2 * 4 to four chunks."""
    found = BlockMap(level_with_layout("10", layout), members, 3 * CHUNK, CHUNK)
    assert found.blocks == 4 * 4
    assert found.row_count == len(found.geometry()["rows"]) == 4
    assert [len(found.places(block)) for block in (15, 16)] == [2, 0]


def test_an_array_with_too_few_members_has_no_map() -> None:
    with pytest.raises(SpecError, match="raid6 needs at least 4 members, not 3"):
        map_of("6", "", 3)


@each_shape
def test_lost_are_exactly_the_blocks_of_which_nothing_is_left(word: str, layout: str, members: int) -> None:
    """Compares the level's own survival rule with the places of copies and parity, block by block."""
    found = map_of(word, layout, members)
    for count in range(3):
        for failed in combinations(range(members), count):
            lost = found.unreadable(failed)
            assert (not lost) == found.level.survives(frozenset(failed), members), failed
            for block in lost:
                assert all(slot in failed for slot, _ in found.places(block))


@pytest.mark.parametrize(("word", "members"), [("5", 4), ("6", 5), ("4", 4)])
def test_parity_over_a_block_is_in_its_row_on_other_members(word: str, members: int) -> None:
    found = map_of(word, "", members)
    rows = found.geometry()["rows"]
    for block in range(found.blocks):
        ((slot, page),) = found.places(block)
        row = rows[page * 4096 // CHUNK]
        parities = found.parity_places(block)
        assert slot in row[2]
        assert parities["P"][0] == row[3]
        assert ("Q" in parities) == (row[4] is not None)
        assert {at for _, at in parities.values()} == {page}
        row_blocks = found.blocks_in(found.strips([block]), range(members))
        assert block in row_blocks
        assert len(row_blocks) == members - len(parities)


def test_words_for_blocks() -> None:
    assert RAID5.meant("blocks 3 5-7") == {3, 5, 6, 7}
    assert RAID5.meant("lost with 1") == frozenset()
    assert RAID5.meant("lost with 1 2") == RAID5.meant("slots 1 2")
    assert RAID5.described(5) == "block 5: stripe 0, member 1 at KiB 4"
    assert numbers_in("0-2,7 9") == {0, 1, 2, 7, 9}
    assert numbers_in("") == frozenset()
    assert ranges([5, 0, 1, 2, 9]) == "0-2,5,9"
    assert sorted(numbers_in(ranges(range(3, 40, 3)))) == list(range(3, 40, 3))


def test_of_a_dead_array_with_parity_what_lies_on_living_members_can_be_read() -> None:
    for block in range(RAID5.blocks):
        ((slot, _),) = RAID5.places(block)
        assert RAID5.is_readable(block, {0, 1}) == (slot not in {0, 1})


def test_a_bad_page_counts_as_a_missing_member_of_its_strip_alone() -> None:
    ((slot, page),) = RAID5.places(9)
    other = (slot + 1) % 4
    assert RAID5.is_readable(9, (), {(slot, page)})
    assert not RAID5.is_readable(9, {other}, {(slot, page)})
    assert RAID5.is_readable(10, {other}, {(slot, page)})


def test_a_strip_is_a_page_of_all_members() -> None:
    # Chunks of four blocks: block 1 and the blocks at its place in the other two chunks of its row.
    assert RAID5.strips([1]) == RAID5.strips([5]) == RAID5.strips([9]) == {1}
    assert RAID5.blocks_in({1}, {0, 1, 2, 3}) == {1, 5, 9}
    assert RAID5.blocks_in({1}, {RAID5.places(5)[0][0]}) == {5}


@each_shape
def test_rows_are_those_that_are_compared_on_the_members(word: str, layout: str, members: int) -> None:
    found = map_of(word, layout, members)
    rows = found.geometry()["rows"]
    if word == "0":
        assert rows == []
        return
    assert found.row_count == len(rows)
    for number in (0, len(rows) // 2, len(rows) - 1):
        row = rows[number]
        slot, chunk = row[1][-1] if row[0] == "copies" else (row[3], row[1])
        assert found.rows((), (), {(slot, chunk * 4 + 3)}) == {number}
