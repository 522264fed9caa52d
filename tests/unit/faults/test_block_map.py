"""Where the oracle's blocks lie on members, and what is lost with them."""

from __future__ import annotations

import pytest

from lab.arrays.levels import Level, level_with_layout
from lab.faults.arrays import BlockMap
from lab.units import KIB, MIB

SHAPES = [
    ("1", "", 3),
    ("4", "", 3),
    ("5", "", 4),
    ("6", "", 5),
    ("10", "n2", 5),
    ("10", "f2", 3),
    ("10", "o2", 4),
]


def level_of(word: str, layout: str) -> Level:
    return level_with_layout(word, layout or None)


def map_of(word: str, layout: str, members: int) -> BlockMap:
    return BlockMap(level_of(word, layout), members, MIB, 16 * KIB)


@pytest.mark.parametrize(("word", "layout", "members"), SHAPES)
def test_every_block_has_its_places_and_none_has_those_of_another(word: str, layout: str, members: int) -> None:
    found = map_of(word, layout, members)
    copies = {"1": members, "10": 2}.get(word, 1)
    places = [place for block in range(found.blocks) for place in found.places(block)]
    assert len(places) == len(set(places)) == found.blocks * copies
    assert {slot for slot, _ in places} == set(range(members - (word == "4")))
    assert found.places(found.blocks + found.stripe_blocks) == []


def test_of_a_dead_array_with_parity_what_lies_on_living_members_can_be_read() -> None:
    found = map_of("5", "", 4)
    for block in range(found.blocks):
        ((slot, _),) = found.places(block)
        assert found.is_readable(block, {0, 1}) == (slot not in {0, 1})


def test_a_bad_page_counts_as_a_missing_member_of_its_strip_alone() -> None:
    found = map_of("5", "", 4)
    ((slot, page),) = found.places(9)
    other = (slot + 1) % 4
    assert found.is_readable(9, (), {(slot, page)})
    assert not found.is_readable(9, {other}, {(slot, page)})
    assert found.is_readable(10, {other}, {(slot, page)})


def test_a_strip_is_a_page_of_all_members() -> None:
    found = map_of("5", "", 4)
    # Chunks of four blocks: block 1 and those of the two other chunks of its row.
    assert found.strips([1]) == found.strips([5]) == found.strips([9]) == {1}
    assert found.blocks_in({1}, {0, 1, 2, 3}) == {1, 5, 9}
    assert found.blocks_in({1}, {found.places(5)[0][0]}) == {5}


@pytest.mark.parametrize(("word", "layout", "members"), SHAPES)
def test_rows_are_those_that_are_compared_on_the_members(word: str, layout: str, members: int) -> None:
    found = map_of(word, layout, members)
    rows = found.geometry()["rows"]
    assert found.row_count == len(rows)
    for number in (0, len(rows) // 2, len(rows) - 1):
        row = rows[number]
        slot, chunk = row[1][-1] if row[0] == "copies" else (row[3], row[1])
        assert found.rows((), (), {(slot, chunk * 4 + 3)}) == {number}
