"""Where blocks lie, and what is lost with which members, against a brute-force model of each level."""

from __future__ import annotations

import random
from itertools import combinations

import pytest

from lab.arrays.levels import level_with_layout
from lab.faults.guest.arrays import exclusive_or, syndrome
from lab.faults.guest.scenario import PointSummary, culprit_of, ranges
from lab.faults.stage import OraclePlaces, numbers_in, places_of
from lab.units import KIB

CHUNK = 16 * KIB
MEMBER = 8 * CHUNK
ARRAYS = [
    *(("raid6", None, members) for members in (4, 5, 6, 7)),
    *(("raid10", layout, members) for layout in ("n2", "f2", "o2") for members in (4, 5, 6)),
    ("raid5", None, 4),
    ("raid1", None, 3),
    ("raid0", None, 3),
]


def places(level: str, layout: str | None, members: int) -> OraclePlaces:
    return places_of(level_with_layout(level, layout), members, MEMBER, CHUNK)


@pytest.mark.parametrize(("level", "layout", "members"), ARRAYS)
def test_lost_are_exactly_the_blocks_of_which_nothing_is_left(level: str, layout: str | None, members: int) -> None:
    """Survival by the level's own rule, block by block by where the copies and the parity lie."""
    found = places(level, layout, members)
    raid = level_with_layout(level, layout)
    assert found.blocks == raid.capacity_bytes(members, MEMBER, CHUNK) // 4096
    for count in range(3):
        for failed in combinations(range(members), count):
            lost = found.unreadable(failed)
            assert (not lost) == raid.survives(frozenset(failed), members), failed
            for block in lost:
                assert all(place.slot in failed for place in found.places(block))


@pytest.mark.parametrize(("level", "members"), [("raid5", 4), ("raid6", 5), ("raid4", 4)])
def test_parity_over_a_block_is_in_its_row_on_other_members(level: str, members: int) -> None:
    found = places(level, None, members)
    rows = found.map.geometry()["rows"]
    for block in range(found.blocks):
        (place,) = found.places(block)
        row = rows[place.at_bytes // CHUNK]
        parities = found.parity_places(block)
        assert place.slot in row[2]
        assert parities["P"].slot == row[3]
        assert ("Q" in parities) == (row[4] is not None)
        assert {each.at_bytes for each in parities.values()} == {place.at_bytes}
        assert block in found.row_of(block)
        assert len(found.row_of(block)) == members - len(parities)


def test_words_for_blocks() -> None:
    found = places("raid5", None, 4)
    assert found.meant("blocks 3 5-7") == {3, 5, 6, 7}
    assert found.meant("stripes 0") == set(range(12))
    assert found.meant("row of 5") == {1, 5, 9}
    assert found.meant("lost with 1") == frozenset()
    assert found.meant("lost with 1 2") == found.meant("slots 1 2")
    assert found.described(5) == "block 5: stripe 0, member 1 at KiB 4"
    assert numbers_in("0-2,7 9") == {0, 1, 2, 7, 9}
    assert numbers_in("") == frozenset()


def test_the_culprit_of_a_raid6_row_is_named() -> None:
    chance = random.Random(1)
    for count in (2, 3, 5):
        pieces = [chance.randbytes(64) for _ in range(count)]
        p, q = exclusive_or(pieces), syndrome(pieces)
        assert culprit_of(pieces, p, q) == "none"
        for index in range(count):
            wrong = list(pieces)
            wrong[index] = bytes([wrong[index][0] ^ chance.randrange(1, 256)]) + wrong[index][1:]
            assert culprit_of(wrong, p, q) == f"data {index}"
        assert culprit_of(pieces, p[:-1] + bytes([p[-1] ^ 1]), q) == "P"
        assert culprit_of(pieces, p, bytes([q[0] ^ 1]) + q[1:]) == "Q"
        # Two wrong chunks are not taken for one.
        two = [bytes([piece[0] ^ (index < 2)]) + piece[1:] for index, piece in enumerate(pieces)]
        two[0] = two[0][:-1] + bytes([two[0][-1] ^ 1])
        assert culprit_of(two, p, q) == "several"


def test_numbers_are_told_as_ranges() -> None:
    assert ranges([5, 0, 1, 2, 9]) == "0-2,5,9"
    assert ranges([]) == ""
    assert sorted(numbers_in(ranges(range(3, 40, 3)))) == list(range(3, 40, 3))


def test_crash_points_are_counted_by_what_is_wrong() -> None:
    summary = PointSummary()
    allowed = {0: [1], 1: [1, 5], 2: [1], 3: [1], 8: [1], 9: [1]}
    seen = {"cut": "10", "refused": "Input/output error", "settled": {"bad": [[0, "silently corrupt", [], [1]]]}}
    summary.add(seen, [2], allowed, 4)
    summary.add(
        {"cut": "11", "settled": {"bad": [[1, "silently corrupt", [], [1, 5]]], "wrong_rows": [3]}}, [], allowed, 4
    )
    summary.add({"cut": "12", "settled": {"bad": [[8, "lost after acknowledgement", [], [1]]]}}, [2], allowed, 4)
    summary.add({"cut": "13", "dead": "no member"}, [0, 1], allowed, 4)
    told = summary.value()
    assert told["points"] == 4
    assert (told["untouched_corrupt"], told["untouched_lost"], told["in_flight_corrupt"]) == (1, 1, 1)
    assert (told["refused"], told["dead"], told["wrong_parity"], told["outside_open_stripes"]) == (1, 1, 1, 1)
    assert told["untouched_at"] == {"2": "0,8"}
    assert told["examples"]["untouched_corrupt"] == ["10"]
