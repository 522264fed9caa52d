from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.arrays.geometry import Chunk, ChunkKind, StripeRow, level_geometry, stripe_rows
from lab.arrays.levels import (
    Level,
    Raid0,
    Raid1,
    Raid4,
    Raid5,
    Raid6,
    Raid10,
    Raid10Layout,
    Single,
    level_with_layout,
)
from lab.errors import SpecError

RAID5_LAYOUTS = (
    "left-symmetric",
    "left-asymmetric",
    "right-symmetric",
    "right-asymmetric",
    "parity-first",
    "parity-last",
)
RAID6_LAYOUTS = (*RAID5_LAYOUTS, *(f"{word}-6" for word in RAID5_LAYOUTS if word != "parity-last"))
PARITY = st.one_of(
    st.tuples(st.just(Raid4()), st.none()),
    st.tuples(st.just(Raid5()), st.sampled_from([None, *RAID5_LAYOUTS])),
    st.tuples(st.just(Raid6()), st.sampled_from([None, *RAID6_LAYOUTS])),
)


@st.composite
def raid10s(draw: st.DrawFn) -> tuple[Raid10, int]:
    members = draw(st.integers(2, 9))
    return Raid10(draw(st.sampled_from(Raid10Layout)), draw(st.integers(2, members))), members


def picture(rows: tuple[StripeRow, ...]) -> list[str]:
    return [
        " ".join(chunk.kind.value if chunk.kind.is_parity else str(chunk.number) for chunk in row.chunks)
        for row in rows
    ]


@pytest.mark.parametrize(
    ("level", "layout", "members", "expected"),
    [
        ("single", None, 1, ["0", "1"]),
        ("raid0", None, 3, ["0 1 2", "3 4 5"]),
        ("raid1", None, 2, ["0 0", "1 1"]),
        ("raid4", None, 4, ["0 1 2 P", "3 4 5 P"]),
        ("raid5", None, 4, ["0 1 2 P", "4 5 P 3", "8 P 6 7", "P 9 10 11", "12 13 14 P"]),
        ("raid5", "left-asymmetric", 4, ["0 1 2 P", "3 4 P 5", "6 P 7 8", "P 9 10 11"]),
        ("raid5", "right-symmetric", 4, ["P 0 1 2", "5 P 3 4", "7 8 P 6", "9 10 11 P"]),
        ("raid5", "right-asymmetric", 4, ["P 0 1 2", "3 P 4 5", "6 7 P 8", "9 10 11 P"]),
        ("raid6", None, 5, ["Q 0 1 2 P", "3 4 5 P Q", "7 8 P Q 6", "11 P Q 9 10"]),
        ("raid6", "left-asymmetric", 5, ["Q 0 1 2 P", "3 4 5 P Q", "6 7 P Q 8"]),
        ("raid6", "left-symmetric-6", 5, ["0 1 2 P Q", "4 5 P 3 Q"]),
        ("raid10", "n2", 3, ["0 0 1", "1 2 2"]),
        ("raid10", "f2", 4, ["0 1 2 3", "3 0 1 2"]),
        ("raid10", "o2", 4, ["0 1 2 3", "3 0 1 2", "4 5 6 7", "7 4 5 6"]),
    ],
)
def test_the_rows_are_md_s(level: str, layout: str | None, members: int, expected: list[str]) -> None:
    # Far members have two parts, and the rows asked for are those of each.
    rows = len(expected) // 2 if layout == "f2" else len(expected)
    raid = level_with_layout(level, layout if level == "raid10" else None)
    assert picture(stripe_rows(raid, layout, members, rows)) == expected


@given(raid10s())
def test_the_members_that_share_a_chunk_are_the_sets_that_survival_is_counted_by(array: tuple[Raid10, int]) -> None:
    level, members = array
    places: dict[int, set[int]] = {}
    for row in stripe_rows(level, None, members, members * level.copies):
        for slot, chunk in enumerate(row.chunks):
            places.setdefault(chunk.number, set()).add(slot)
    assert frozenset(frozenset(slots) for slots in places.values()) == level.copy_sets(members)


def test_the_first_place_is_data_and_the_others_are_copies() -> None:
    (row,) = stripe_rows(Raid1(), None, 3, 1)
    assert row.chunks == (Chunk(ChunkKind.DATA, 0), Chunk(ChunkKind.COPY, 0, 1), Chunk(ChunkKind.COPY, 0, 2))


def test_far_copies_lie_in_a_part_of_their_own() -> None:
    assert [(row.part, row.row) for row in stripe_rows(Raid10(Raid10Layout.FAR, 2), None, 4, 2)] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]


@pytest.mark.parametrize(
    ("level", "layout", "members", "said"),
    [
        (Raid5(), "sideways", 4, "'sideways'"),
        (Raid5(), "left-symmetric-6", 4, "'left-symmetric-6'"),
        (Raid4(), "left-symmetric", 4, "raid4"),
        (Raid6(), None, 3, "at least 4"),
        (Raid0(), None, 1, "at least 2"),
        (Raid10(Raid10Layout.NEAR, 3), None, 2, "3 copies"),
    ],
)
def test_what_cannot_be_is_refused(level: Level, layout: str | None, members: int, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        stripe_rows(level, layout, members, 1)


def test_a_single_disk_is_a_row_of_one() -> None:
    assert picture(stripe_rows(Single(), None, 1, 2)) == ["0", "1"]


def test_a_parity_disk_has_the_parity_of_a_chunk() -> None:
    found = level_geometry(level_with_layout("raid4", None), None, 4, 1, 60).place_on(3, 30)
    assert found is not None
    assert (found.kind, found.sector) == (ChunkKind.P, 10)


def test_a_member_without_the_chunk_has_nothing() -> None:
    assert level_geometry(level_with_layout("raid0", None), None, 3, 1, 60).place_on(0, 4) is None
