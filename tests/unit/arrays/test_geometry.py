"""Every geometry is one-to-one both ways, and puts each chunk where an independent formula does (``row_formulas.py``).

That md does so too is shown on real arrays: tests/kernel/test_microscope.py.
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
    copy_kind,
    geometry_of,
    level_geometry,
    parity_row,
    raid0_geometry,
    raid10_geometry,
    stripe_rows,
)
from lab.arrays.levels import Level, LevelName, Raid0, Raid1, Raid4, Raid5, Raid6, Raid10, Raid10Layout
from lab.errors import ArrayError
from lab.units import SECTOR_BYTES
from tests.unit.arrays import row_formulas

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
        for slot in range(shape.slots)
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


Case = tuple[ArrayGeometry, row_formulas.Rows]


def parity_cases(members: int, chunk: int) -> Iterator[tuple[str, Case]]:
    size = ROWS * chunk + 3
    for number, word in RAID5_LAYOUTS.items() if members > 2 else ():
        rows = row_formulas.parity_rows(row_formulas.RAID5[word], members, ROWS)
        yield f"raid5 {word}", (geometry_of("raid5", number, members, chunk, size, {}), rows)
    for number, word in RAID6_LAYOUTS.items() if members > 3 else ():
        rows = row_formulas.parity_rows(row_formulas.RAID6[word], members, ROWS)
        yield f"raid6 {word}", (geometry_of("raid6", number, members, chunk, size, {}), rows)
    if members > 2:
        rows = row_formulas.parity_rows(row_formulas.RAID5["parity-last"], members, ROWS)
        yield "raid4", (geometry_of("raid4", 0, members, chunk, size, {}), rows)


def copies_cases(members: int, chunk: int) -> Iterator[tuple[str, Case]]:
    for near in range(1, members + 1):
        for far in range(1, members // near + 1):
            if near * far < 2:
                continue
            size = far * ROWS * chunk + 3
            geometry = geometry_of("raid10", near | far << 8, members, chunk, size, {})
            yield f"raid10 near {near} far {far}", (geometry, row_formulas.far_rows(near, far, members, ROWS))
    for copies in range(2, members + 1):
        geometry = geometry_of("raid10", 1 | copies << 8 | 1 << 16, members, chunk, ROWS * chunk + 3, {})
        yield f"raid10 offset {copies}", (geometry, row_formulas.offset_rows(copies, members, ROWS))


def striped_cases(members: int, chunk: int) -> Iterator[tuple[str, Case]]:
    uneven = [
        [ROWS] * members,
        [4 + 3 * slot for slot in range(members)],
        [5 + 4 * (slot % 3) for slot in range(members)],
    ]
    for member_rows in uneven:
        sizes = {slot: rows * chunk + slot % chunk for slot, rows in enumerate(member_rows)}
        for layout in (1, 2):
            geometry = geometry_of("raid0", layout, members, chunk, 0, sizes)
            rows = row_formulas.striped_rows(member_rows, is_original=layout == 1)
            yield f"raid0 {member_rows} {layout}", (geometry, rows)
        yield (
            f"linear {member_rows}",
            (
                geometry_of("linear", 0, members, chunk, 0, sizes),
                row_formulas.linear_rows(member_rows),
            ),
        )


def held_by(geometry: ArrayGeometry, chunk: int, slot: int, sector: int) -> row_formulas.Held | None:
    found = geometry.content(slot, sector)
    if found is None:
        return None
    if found.kind.is_parity:
        return (found.kind.value, found.stripe, 0)
    assert found.sectors[0] % chunk == sector % chunk
    return ("data", found.sectors[0] // chunk, found.copy)


@pytest.mark.parametrize("chunk", [8, 24])
@pytest.mark.parametrize("members", range(2, 9))
def test_every_chunk_lies_where_the_row_formulas_put_it(members: int, chunk: int) -> None:
    cases = [*parity_cases(members, chunk), *copies_cases(members, chunk), *striped_cases(members, chunk)]
    for name, (geometry, rows) in cases:
        count = geometry.size_sectors // chunk
        # The last chunks of RAID 10 that have no place for all of their copies are not used.
        used = {place: held for place, held in rows.items() if held[0] != "data" or held[1] < count}
        last = max(row for _, row in rows) + 2
        for offset in (0, chunk - 1):
            places = [(slot, row) for slot in range(members) for row in range(last)]
            found = {(slot, row): held_by(geometry, chunk, slot, row * chunk + offset) for slot, row in places}
            assert {place: held for place, held in found.items() if held} == used, (name, offset)
        for number in range(count):
            by_formula = {
                (slot, row, copy) for (slot, row), (kind, of, copy) in rows.items() if (kind, of) == ("data", number)
            }
            places_found = geometry.places(number * chunk + 5)
            assert {(each.slot, each.sector // chunk, each.copy) for each in places_found} == by_formula, (name, number)
            row = next(iter(by_formula))[1]
            for parity in geometry.parities(number * chunk):
                assert rows[parity.slot, parity.sector // chunk] == (parity.kind.value, row, 0)


@pytest.mark.parametrize("members", range(2, 6))
def test_a_mirror_has_everything_on_every_member(members: int) -> None:
    geometry = geometry_of("raid1", 0, members, 0, ROWS, {})
    for (slot, row), held in row_formulas.mirror_rows(members, ROWS).items():
        assert held_by(geometry, 1, slot, row) == held
        assert geometry.places(row)[slot] == MemberPlace(copy_kind(slot), slot, row, slot)


def levels() -> Iterator[tuple[Level, str | None]]:
    yield from ((Raid0(), None), (Raid1(), None), (Raid4(), None))
    yield from ((Raid5(), word) for word in (None, *row_formulas.RAID5))
    yield from ((Raid6(), word) for word in (None, *row_formulas.RAID6))
    yield from ((Raid10(layout, copies), None) for layout in Raid10Layout for copies in (2, 3, 4))


def rows_of_level(level: Level, layout: str | None, members: int) -> row_formulas.Rows:
    if isinstance(level, Raid10):
        return {
            Raid10Layout.NEAR: row_formulas.near_rows(level.copies, members, ROWS),
            Raid10Layout.FAR: row_formulas.far_rows(1, level.copies, members, ROWS),
            Raid10Layout.OFFSET: row_formulas.offset_rows(level.copies, members, ROWS + level.copies),
        }[level.layout]
    if level.parity_members:
        word = "parity-last" if level.name is LevelName.RAID4 else layout or "left-symmetric"
        known = row_formulas.RAID6 if level.parity_members == 2 else row_formulas.RAID5
        return row_formulas.parity_rows(known[word], members, ROWS)
    if level.name is LevelName.RAID1:
        return row_formulas.mirror_rows(members, ROWS)
    return row_formulas.striped_rows([ROWS] * members)


@pytest.mark.parametrize(("level", "layout"), levels())
def test_the_rows_of_pictures_are_those_of_the_formulas(level: Level, layout: str | None) -> None:
    for members in range(max(level.minimum_members, getattr(level, "copies", 0)), 9):
        expected = rows_of_level(level, layout, members)
        for row in stripe_rows(level, layout, members, ROWS):
            for slot, chunk in enumerate(row.chunks):
                kind = chunk.kind.value if chunk.kind.is_parity else "data"
                assert (kind, chunk.number, chunk.copy) == expected[slot, row.part * ROWS + row.row]
                assert chunk.kind.is_parity or chunk.kind is copy_kind(chunk.copy)


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
    with pytest.raises(ArrayError, match="members of several sizes"):
        raid0_geometry(0, CHUNK, [80, 160, 160])
    with pytest.raises(ArrayError, match="no stripes"):
        SHAPES["linear"].stripe(0)


def test_a_byte_of_a_stripe_names_chunk_and_place() -> None:
    stripe = raid10_geometry(0x10201, 4, CHUNK, 80).stripe(1)
    cell, rest = stripe.cell_at(3, CHUNK * 512 + 5) or pytest.fail("nothing there")
    assert (cell.sector, cell.kind, rest) == (3 * CHUNK, ChunkKind.COPY, 5)
    assert stripe.cell_at(3, 2 * CHUNK * 512) is None
