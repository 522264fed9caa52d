"""Every geometry is one-to-one in both directions, and places each chunk where md places it.

tests/kernel/test_microscope.py shows on real arrays that md places them there.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.arrays.geometry import (
    PARITY_LAST,
    RAID5_LAYOUTS,
    RAID6_LAYOUTS,
    ArrayGeometry,
    ChunkKind,
    LinearGeometry,
    MemberPlace,
    ParityGeometry,
    Raid1Geometry,
    geometry_of,
    level_geometry,
    parity_row,
    period_rows,
    raid0_geometry,
    raid10_geometry,
    stripe_rows,
)
from lab.arrays.levels import Level, Raid0, Raid1, Raid4, Raid5, Raid6, Raid10, Raid10Layout
from lab.errors import ArrayError, SpecError
from lab.units import SECTOR_BYTES

CHUNK = 8
ROWS = 23
FAR_SETS = 2 << 17


def raid10(near: int, far: int, disks: int, *, offset: bool = False, more: int = 0) -> ArrayGeometry:
    return raid10_geometry(near | far << 8 | (1 << 16 if offset else 0) | more, disks, CHUNK, ROWS * CHUNK + 3)


def shapes() -> Iterator[tuple[str, ArrayGeometry]]:
    for layout in RAID5_LAYOUTS:
        for disks in (3, 4, 7):
            yield f"raid5 {layout} {disks}", ParityGeometry(layout, disks, CHUNK, ROWS * CHUNK + 3)
    for layout in RAID6_LAYOUTS:
        for disks in (4, 5, 8):
            yield f"raid6 {layout} {disks}", ParityGeometry(layout, disks, CHUNK, ROWS * CHUNK + 3, has_q=True)
    yield "raid4", ParityGeometry(PARITY_LAST, 4, CHUNK, ROWS * CHUNK)
    yield "raid1", Raid1Geometry(3, 450)
    for disks in (2, 3, 4, 5, 7):
        yield f"n2 {disks}", raid10(2, 1, disks)
        yield f"f2 {disks}", raid10(1, 2, disks)
        yield f"o2 {disks}", raid10(1, 2, disks, offset=True)
    for disks in (3, 4, 5, 8):
        yield f"n3 {disks}", raid10(3, 1, disks)
        yield f"f3 {disks}", raid10(1, 3, disks)
        yield f"o3 {disks}", raid10(1, 3, disks, offset=True)
    for disks in (4, 6, 7):
        yield f"n2f2 {disks}", raid10(2, 2, disks)
        yield f"f2 in sets {disks}", raid10(1, 2, disks, more=FAR_SETS)
        yield f"o2 in sets {disks}", raid10(1, 2, disks, offset=True, more=FAR_SETS)
    yield "raid0", raid0_geometry(0, CHUNK, [100, 100, 103])
    for layout in (1, 2):
        yield f"raid0 zones {layout}", raid0_geometry(layout, CHUNK, [80, 240, 160, 240, 403])
    yield "linear", LinearGeometry((40, 48, 148))


SHAPES = dict(shapes())


@pytest.mark.parametrize("name", SHAPES)
def test_every_sector_is_found_again_where_it_lies(name: str) -> None:
    shape = SHAPES[name]
    seen: set[tuple[int, int]] = set()
    for sector in range(shape.size_sectors):
        for place in shape.places(sector):
            found = shape.content(place.slot, place.sector)
            assert found is not None
            assert (found.kind, found.sectors, found.copy) == (place.kind, (sector,), place.copy)
            assert found.stripe == shape.stripe_of(sector)
            assert (place.slot, place.sector) not in seen
            seen.add((place.slot, place.sector))
        for place in shape.parities(sector):
            found = shape.content(place.slot, place.sector)
            assert found is not None
            assert found.kind is place.kind
            assert sector in found.sectors
    with_data = {
        (slot, sector)
        for slot in range(shape.raid_disks)
        for sector in range(500)
        if (found := shape.content(slot, sector)) and not found.kind.is_parity
    }
    assert with_data == seen


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape.has_stripes])
def test_stripes_hold_every_sector_with_its_copies_and_parity(name: str) -> None:
    shape = SHAPES[name]
    places: dict[int, set[MemberPlace]] = {}
    for number in range(shape.stripe_count):
        stripe = shape.stripe(number)
        inside = range(stripe.first_sector, stripe.first_sector + stripe.sectors)
        assert stripe.cells
        for cell in stripe.cells:
            for step in (0, stripe.cell_sectors - 1):
                found = shape.content(cell.slot, cell.sector + step)
                assert found is not None
                assert (found.kind, found.copy) == (cell.kind, cell.copy)
                if not cell.kind.is_parity:
                    assert found.sectors[0] == cell.first_sector + step
                    assert found.sectors[0] in inside
                    place = MemberPlace(cell.kind, cell.slot, cell.sector + step, cell.copy)
                    places.setdefault(found.sectors[0], set()).add(place)
    for sector in (0, CHUNK - 1, CHUNK, shape.size_sectors - 1):
        if sector in places:
            assert places[sector] == set(shape.places(sector))
    with pytest.raises(ArrayError, match="no stripe"):
        shape.stripe(shape.stripe_count)


# Level, md's number of the layout, rows of each member, and the layout: chunk numbers, with a quote for each copy after
# the first; P and Q are parity, and a dash means nothing.
LAID_OUT = [
    ("raid5", 0, [9] * 4, "0 1 2 P / 3 4 P 5 / 6 P 7 8 / P 9 10 11 / 12 13 14 P"),
    ("raid5", 1, [9] * 4, "P 0 1 2 / 3 P 4 5 / 6 7 P 8 / 9 10 11 P / P 12 13 14"),
    ("raid5", 2, [9] * 4, "0 1 2 P / 4 5 P 3 / 8 P 6 7 / P 9 10 11 / 12 13 14 P"),
    ("raid5", 3, [9] * 4, "P 0 1 2 / 5 P 3 4 / 7 8 P 6 / 9 10 11 P / P 12 13 14"),
    ("raid5", 4, [9] * 4, "P 0 1 2 / P 3 4 5 / P 6 7 8 / P 9 10 11 / P 12 13 14"),
    ("raid5", 5, [9] * 4, "0 1 2 P / 3 4 5 P / 6 7 8 P / 9 10 11 P / 12 13 14 P"),
    ("raid4", 0, [9] * 4, "0 1 2 P / 3 4 5 P"),
    ("raid6", 0, [9] * 5, "Q 0 1 2 P / 3 4 5 P Q / 6 7 P Q 8 / 9 P Q 10 11 / P Q 12 13 14 / Q 15 16 17 P"),
    ("raid6", 1, [9] * 5, "P Q 0 1 2 / 3 P Q 4 5 / 6 7 P Q 8 / 9 10 11 P Q / Q 12 13 14 P / P Q 15 16 17"),
    ("raid6", 2, [9] * 5, "Q 0 1 2 P / 3 4 5 P Q / 7 8 P Q 6 / 11 P Q 9 10 / P Q 12 13 14 / Q 15 16 17 P"),
    ("raid6", 3, [9] * 5, "P Q 0 1 2 / 5 P Q 3 4 / 7 8 P Q 6 / 9 10 11 P Q / Q 12 13 14 P / P Q 15 16 17"),
    ("raid6", 4, [9] * 5, "P Q 0 1 2 / P Q 3 4 5 / P Q 6 7 8 / P Q 9 10 11 / P Q 12 13 14 / P Q 15 16 17"),
    ("raid6", 5, [9] * 5, "0 1 2 P Q / 3 4 5 P Q / 6 7 8 P Q / 9 10 11 P Q / 12 13 14 P Q / 15 16 17 P Q"),
    ("raid6", 16, [9] * 5, "0 1 2 P Q / 3 4 P 5 Q / 6 P 7 8 Q / P 9 10 11 Q / 12 13 14 P Q / 15 16 P 17 Q"),
    ("raid6", 17, [9] * 5, "P 0 1 2 Q / 3 P 4 5 Q / 6 7 P 8 Q / 9 10 11 P Q / P 12 13 14 Q / 15 P 16 17 Q"),
    ("raid6", 18, [9] * 5, "0 1 2 P Q / 4 5 P 3 Q / 8 P 6 7 Q / P 9 10 11 Q / 12 13 14 P Q / 16 17 P 15 Q"),
    ("raid6", 19, [9] * 5, "P 0 1 2 Q / 5 P 3 4 Q / 7 8 P 6 Q / 9 10 11 P Q / P 12 13 14 Q / 17 P 15 16 Q"),
    ("raid6", 20, [9] * 5, "P 0 1 2 Q / P 3 4 5 Q / P 6 7 8 Q / P 9 10 11 Q / P 12 13 14 Q / P 15 16 17 Q"),
    ("raid6", 8, [9] * 5, "P Q 0 1 2 / 3 P Q 4 5 / 6 7 P Q 8 / 9 10 11 P Q / Q 12 13 14 P / P Q 15 16 17"),
    ("raid6", 9, [9] * 5, "0 1 2 P Q / 3 4 P Q 5 / 6 P Q 7 8 / P Q 9 10 11 / Q 12 13 14 P / 15 16 17 P Q"),
    ("raid6", 10, [9] * 5, "0 1 2 Q P / 4 5 Q P 3 / 8 Q P 6 7 / Q P 9 10 11 / P 12 13 14 Q / 15 16 17 Q P"),
    ("raid10", 0x102, [4] * 4, "0 0' 1 1' / 2 2' 3 3' / 4 4' 5 5' / 6 6' 7 7'"),
    ("raid10", 0x102, [4] * 3, "0 0' 1 / 1' 2 2' / 3 3' 4 / 4' 5 5'"),
    ("raid10", 0x103, [3] * 4, "0 0' 0'' 1 / 1' 1'' 2 2' / 2'' 3 3' 3''"),
    ("raid10", 0x201, [4] * 4, "0 1 2 3 / 4 5 6 7 / 3' 0' 1' 2' / 7' 4' 5' 6'"),
    ("raid10", 0x301, [6] * 4, "0 1 2 3 / 4 5 6 7 / 3' 0' 1' 2' / 7' 4' 5' 6' / 2'' 3'' 0'' 1'' / 6'' 7'' 4'' 5''"),
    ("raid10", 0x202, [4] * 4, "0 0'' 1 1'' / 2 2'' 3 3'' / 1' 1''' 0' 0''' / 3' 3''' 2' 2'''"),
    ("raid10", 0x202, [4] * 5, "0 0'' 1 1'' 2 / 2'' 3 3'' 4 4'' / 1''' 2' 0' 0''' 1' / 4' 4''' 2''' 3' 3'''"),
    ("raid10", 0x10201, [4] * 4, "0 1 2 3 / 3' 0' 1' 2' / 4 5 6 7 / 7' 4' 5' 6'"),
    ("raid10", 0x10201, [4] * 3, "0 1 2 / 2' 0' 1' / 3 4 5 / 5' 3' 4'"),
    ("raid10", 0x10301, [6] * 4, "0 1 2 3 / 3' 0' 1' 2' / 2'' 3'' 0'' 1'' / 4 5 6 7 / 7' 4' 5' 6' / 6'' 7'' 4'' 5''"),
    ("raid1", 0, [2] * 3, "0 0' 0'' / 1 1' 1''"),
    ("raid0", 1, [2, 5, 3, 5], "0 1 2 3 / 4 5 6 7 / - 9 10 8 / - 12 - 11 / - 14 - 13"),
    ("raid0", 2, [2, 5, 3, 5], "0 1 2 3 / 4 5 6 7 / - 8 9 10 / - 11 - 12 / - 13 - 14"),
    ("linear", 0, [2, 5, 3, 5], "0 2 7 10 / 1 3 8 11 / - 4 9 12 / - 5 - 13 / - 6 - 14"),
]


def cell(geometry: ArrayGeometry, slot: int, sector: int) -> str:
    found = geometry.content(slot, sector)
    if found is None:
        return "-"
    return found.kind.value if found.kind.is_parity else f"{found.sectors[0] // CHUNK}" + "'" * found.copy


@pytest.mark.parametrize(
    ("level", "layout", "rows", "laid_out"), LAID_OUT, ids=[f"{level} {layout:#x}" for level, layout, *_ in LAID_OUT]
)
def test_every_chunk_lies_where_md_puts_it(level: str, layout: int, rows: list[int], laid_out: str) -> None:
    members = dict(enumerate(count * CHUNK for count in rows))
    geometry = geometry_of(level, layout, len(rows), CHUNK, rows[0] * CHUNK, members)
    for offset in (0, CHUNK - 1):
        shown = [
            " ".join(cell(geometry, slot, row * CHUNK + offset) for slot in members)
            for row in range(laid_out.count("/") + 1)
        ]
        assert " / ".join(shown) == laid_out


def levels() -> Iterator[tuple[Level, str | None]]:
    yield from ((Raid0(), None), (Raid1(), None), (Raid4(), None))
    yield from ((Raid5(), word) for word in (None, *RAID5_LAYOUTS.values()))
    yield from ((Raid6(), word) for word in (None, *RAID6_LAYOUTS.values()))
    yield from ((Raid10(layout, copies), None) for layout in Raid10Layout for copies in (2, 3, 4))


@pytest.mark.parametrize(("level", "layout"), levels())
def test_the_size_is_the_capacity_that_the_level_counts(level: Level, layout: str | None) -> None:
    for members in range(max(level.minimum_members, getattr(level, "copies", 0)), 9):
        for rows in (ROWS, ROWS + 1, 60):
            geometry = level_geometry(level, layout, members, CHUNK, rows * CHUNK)
            capacity = level.capacity_bytes(members, rows * CHUNK * SECTOR_BYTES, CHUNK * SECTOR_BYTES)
            assert geometry.size_sectors * SECTOR_BYTES == capacity


def test_the_weights_of_q_begin_behind_it_except_in_ddf_layouts() -> None:
    assert parity_row(2, 5, 0, has_q=True).exponents == {1: 0, 2: 1, 3: 2}
    assert parity_row(2, 5, 1, has_q=True).exponents == {0: 0, 1: 1, 2: 2}
    assert parity_row(2, 5, 2, has_q=True).exponents == {4: 0, 0: 1, 1: 2}
    assert parity_row(8, 5, 1, has_q=True).exponents == {0: 0, 3: 3, 4: 4}
    assert parity_row(18, 5, 0, has_q=True).exponents == {0: 0, 1: 1, 2: 2}


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ArrayError, match="no layout 256"):
        raid10_geometry(256, 4, CHUNK, 100)
    with pytest.raises(ArrayError, match="members differ in size"):
        raid0_geometry(0, CHUNK, [80, 160, 160])
    with pytest.raises(ArrayError, match="no stripes"):
        SHAPES["linear"].stripe(0)


def test_a_byte_of_a_stripe_names_chunk_and_place() -> None:
    stripe = raid10_geometry(0x10201, 4, CHUNK, 80).stripe(1)
    cell, rest = stripe.cell_at(3, CHUNK * 512 + 5) or pytest.fail("nothing there")
    assert (cell.sector, cell.kind, rest) == (3 * CHUNK, ChunkKind.COPY, 5)
    assert stripe.cell_at(3, 2 * CHUNK * 512) is None


@pytest.mark.parametrize("layout", Raid10Layout)
@pytest.mark.parametrize("members", range(2, 10))
def test_the_members_that_share_a_chunk_are_the_sets_that_survival_is_counted_by(
    layout: Raid10Layout, members: int
) -> None:
    for level in (Raid10(layout, copies) for copies in range(2, members + 1)):
        places: dict[int, set[int]] = {}
        for row in stripe_rows(level, None, members, 2 * period_rows(level, members)):
            for slot, chunk in enumerate(row.chunks):
                places.setdefault(chunk.number, set()).add(slot)
        assert frozenset(frozenset(slots) for slots in places.values()) == level.copy_sets(members), level


@pytest.mark.parametrize(
    ("level", "layout", "members", "message"),
    [
        (Raid5(), "sideways", 4, "'sideways'"),
        (Raid5(), "left-symmetric-6", 4, "'left-symmetric-6'"),
        (Raid4(), "left-symmetric", 4, "raid4"),
        (Raid6(), None, 3, "at least 4"),
        (Raid0(), None, 1, "at least 2"),
        (Raid10(Raid10Layout.NEAR, 3), None, 2, "3 copies"),
    ],
)
def test_rows_of_what_cannot_be_are_refused(level: Level, layout: str | None, members: int, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        stripe_rows(level, layout, members, 1)


def test_a_parity_disk_has_the_parity_of_a_chunk_and_a_member_without_the_chunk_nothing() -> None:
    assert level_geometry(Raid4(), None, 4, 1, 60).place_on(3, 30) == MemberPlace(ChunkKind.P, 3, 10)
    assert level_geometry(Raid0(), None, 3, 1, 60).place_on(0, 4) is None
