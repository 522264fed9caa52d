"""Every map is one-to-one both ways, and agrees with the pictures of ``lab.arrays.stripes`` where those know a layout.

That it is md's own is shown on real arrays: tests/kernel/test_microscope.py.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lab.arrays.levels import Level, Raid0, Raid4, Raid5, Raid6, Raid10, Raid10Layout
from lab.arrays.stripes import ChunkKind, StripeRow, stripe_rows
from lab.errors import ArrayError
from lab.microscope.copies import copies_geometry
from lab.microscope.geometry import ArrayGeometry, MemberPlace, MirrorGeometry, ParityGeometry
from lab.microscope.rotations import PARITY_LAST, RAID5_LAYOUTS, RAID6_LAYOUTS, parity_row
from lab.microscope.zones import LinearGeometry, striped_geometry

CHUNK = 8
ROWS = 23
FAR_SETS = 2 << 17


def raid10(near: int, far: int, disks: int, *, offset: bool = False, more: int = 0) -> ArrayGeometry:
    return copies_geometry(near | far << 8 | (1 << 16 if offset else 0) | more, disks, CHUNK, ROWS * CHUNK + 3)


def shapes() -> Iterator[tuple[str, ArrayGeometry]]:
    for layout in RAID5_LAYOUTS:
        for disks in (3, 4, 7):
            yield f"raid5 {layout} {disks}", ParityGeometry(layout, disks, CHUNK, ROWS * CHUNK + 3)
    for layout in RAID6_LAYOUTS:
        for disks in (4, 5, 8):
            yield f"raid6 {layout} {disks}", ParityGeometry(layout, disks, CHUNK, ROWS * CHUNK + 3, has_q=True)
    yield "raid4", ParityGeometry(PARITY_LAST, 4, CHUNK, ROWS * CHUNK)
    yield "raid1", MirrorGeometry(3, 450)
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
    yield "raid0", striped_geometry(0, CHUNK, [100, 100, 103])
    for layout in (1, 2):
        yield f"raid0 zones {layout}", striped_geometry(layout, CHUNK, [80, 240, 160, 240, 403])
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


PICTURED: list[tuple[Level, str | None, int, ArrayGeometry]] = [
    *((Raid5(), word, 5, ParityGeometry(number, 5, CHUNK, 999)) for number, word in RAID5_LAYOUTS.items()),
    *(
        (Raid6(), word, 6, ParityGeometry(number, 6, CHUNK, 999, has_q=True))
        for number, word in RAID6_LAYOUTS.items()
        if not word.startswith("ddf")
    ),
    (Raid4(), None, 4, ParityGeometry(PARITY_LAST, 4, CHUNK, 999)),
    (Raid0(), None, 3, striped_geometry(0, CHUNK, [999] * 3)),
    (Raid10(Raid10Layout.NEAR, 2), None, 5, copies_geometry(0x102, 5, CHUNK, 999)),
    (Raid10(Raid10Layout.NEAR, 3), None, 4, copies_geometry(0x103, 4, CHUNK, 999)),
    (Raid10(Raid10Layout.OFFSET, 2), None, 5, copies_geometry(0x10201, 5, CHUNK, 999)),
    (Raid10(Raid10Layout.FAR, 3), None, 5, copies_geometry(0x301, 5, CHUNK, 999)),
]


@pytest.mark.parametrize(("level", "layout", "members", "shape"), PICTURED)
def test_the_map_is_the_picture(level: Level, layout: str | None, members: int, shape: ArrayGeometry) -> None:
    part = getattr(shape, "stride_sectors", 0)
    for row in stripe_rows(level, layout, members, 20):
        for slot, chunk in enumerate(row.chunks):
            found = shape.content(slot, row.part * part + row.row * CHUNK)
            assert found is not None
            assert found.kind is chunk.kind
            if not chunk.kind.is_parity:
                assert (found.sectors[0] // CHUNK, found.copy) == (chunk.number, chunk.copy)
            else:
                assert {sector // CHUNK for sector in found.sectors} == data_of(row)


def data_of(row: StripeRow) -> set[int]:
    return {chunk.number for chunk in row.chunks if not chunk.kind.is_parity}


def test_the_weights_of_q_begin_behind_it_except_in_ddf_layouts() -> None:
    assert parity_row(2, 5, 0, has_q=True).exponents == {1: 0, 2: 1, 3: 2}
    assert parity_row(2, 5, 1, has_q=True).exponents == {0: 0, 1: 1, 2: 2}
    assert parity_row(2, 5, 2, has_q=True).exponents == {4: 0, 0: 1, 1: 2}
    assert parity_row(8, 5, 1, has_q=True).exponents == {0: 0, 3: 3, 4: 4}
    assert parity_row(18, 5, 0, has_q=True).exponents == {0: 0, 1: 1, 2: 2}


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ArrayError, match="no layout 256"):
        copies_geometry(256, 4, CHUNK, 100)
    with pytest.raises(ArrayError, match="members of several sizes"):
        striped_geometry(0, CHUNK, [80, 160, 160])
    with pytest.raises(ArrayError, match="no stripes"):
        SHAPES["linear"].stripe(0)


def test_a_byte_of_a_stripe_names_chunk_and_place() -> None:
    stripe = copies_geometry(0x10201, 4, CHUNK, 80).stripe(1)
    cell, rest = stripe.cell_at(3, CHUNK * 512 + 5) or pytest.fail("nothing there")
    assert (cell.sector, cell.kind, rest) == (3 * CHUNK, ChunkKind.COPY, 5)
    assert stripe.cell_at(3, 2 * CHUNK * 512) is None
