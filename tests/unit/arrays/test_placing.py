from __future__ import annotations

import pytest

from lab.arrays.geometry import ChunkKind, level_geometry, stripe_rows
from lab.arrays.level_names import level_with_layout

CASES = [
    ("raid0", None, 3),
    ("raid4", None, 4),
    ("raid5", "left-symmetric", 3),
    ("raid5", "right-asymmetric", 5),
    ("raid6", "left-symmetric", 5),
    ("raid6", "left-symmetric-6", 5),
    ("raid10", "n2", 4),
    ("raid10", "n2", 5),
    ("raid10", "n3", 4),
    ("raid10", "f2", 4),
    ("raid10", "o2", 5),
]
MEMBER_CHUNKS = 60


@pytest.mark.parametrize(("name", "layout", "members"), CASES)
def test_every_chunk_is_where_the_rows_show_it(name: str, layout: str | None, members: int) -> None:
    """Against the rows written out in full, far beyond one period."""
    is_raid10 = name == "raid10"
    level = level_with_layout(name, layout if is_raid10 else None)
    copies = int(layout[1:]) if is_raid10 and layout else 1
    is_far = is_raid10 and layout is not None and layout.startswith("f")
    rows = MEMBER_CHUNKS // copies if is_far else MEMBER_CHUNKS
    word = None if is_raid10 else layout
    seen = 0
    for row in stripe_rows(level, word, members, rows):
        place = row.part * rows + row.row
        for slot, chunk in enumerate(row.chunks):
            if chunk.kind.is_parity:
                continue
            found = level_geometry(level, word, members, 1, MEMBER_CHUNKS).place_on(slot, chunk.number)
            assert found is not None
            assert (found.kind, found.sector) == (chunk.kind, place)
            seen += 1
    assert seen > 40


def test_a_parity_disk_has_the_parity_of_a_chunk() -> None:
    found = level_geometry(level_with_layout("raid4", None), None, 4, 1, 60).place_on(3, 30)
    assert found is not None
    assert (found.kind, found.sector) == (ChunkKind.P, 10)


def test_a_member_without_the_chunk_has_nothing() -> None:
    assert level_geometry(level_with_layout("raid0", None), None, 3, 1, 60).place_on(0, 4) is None
