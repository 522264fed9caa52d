"""The worked example, cell by cell, and balanced parity."""

from __future__ import annotations

from collections import Counter

import pytest

from lab.adapt.layout import Composition, VolumeLayout, data_width
from lab.errors import SpecError
from tests.unit.adapt.pattern import Pattern

EXAMPLE = (6, 6, 6, 6, 3)

# Four disks and one of half the size, by hand: data blocks, parity of stripe n as Pn, nothing as a dot.
PICTURE = """
 0   1   2   3   P0
 4   5   P1  7   8
 P2  6   11  P3  17
 9   10  P4  12  .
 13  14  15  P5  .
 18  19  P6  16  .
"""


def picture(pattern: Pattern) -> list[list[str]]:
    cells = [["."] * len(pattern.lines) for _ in range(max(pattern.lines))]
    for block, (disk, line, _) in enumerate(pattern.table):
        cells[line][disk] = str(block)
    for number, stripe in enumerate(pattern.stripes):
        cells[stripe.parity_line][stripe.parity] = f"P{number}"
    return cells


def test_the_worked_example_looks_as_drawn() -> None:
    pattern = Pattern.of(EXAMPLE)
    assert picture(pattern) == [row.split() for row in PICTURE.strip().splitlines()]
    assert pattern.locate(20) == (0, 6, 4, 3)
    assert pattern.locate(47) == (3, 13, 0, 14)


def test_the_worked_example_as_md_arrays() -> None:
    composition = Composition.of(EXAMPLE)
    windows = [(window.disks, window.lines) for window in composition.windows]
    assert windows == [((0, 1, 2, 3, 4), 3), ((0, 1, 2), 1), ((3, 0, 1), 1), ((2, 3, 0), 1), ((1, 2, 3), 1)]
    segments = [
        (each.start, each.blocks, each.window, each.window_start)
        for each in VolumeLayout.of(composition, 1, 1).segments
    ]
    assert segments == [
        (0, 4, 0, 0),
        (4, 2, 1, 0),
        (6, 2, 2, 0),
        (8, 4, 0, 4),
        (12, 2, 3, 0),
        (14, 2, 4, 0),
        (16, 4, 0, 8),
    ]


@pytest.mark.parametrize("active", range(2, 13))
@pytest.mark.parametrize("reference", range(1, 12))
def test_parity_falls_on_all_disks_alike(active: int, reference: int) -> None:
    if reference >= active:
        return
    # Equal disks are one tier. So many rows hold whole cycles of the rotation, and whole units.
    cells = data_width(active, reference) + 1
    pattern = Pattern.of([cells * cells * reference] * active, reference)
    counts = Counter(stripe.parity for stripe in pattern.stripes)
    assert {counts[disk] for disk in range(active)} == {cells * reference}


def test_neighbours_lie_near_on_every_disk() -> None:
    pattern = Pattern.of([40] * 4 + [20] * 5)
    where: dict[int, int] = {}
    for disk, line, _ in pattern.table:
        # From one block of a disk to its next there is at most the parity of a few stripes between.
        assert line - where.get(disk, -1) in (1, 2, 3)
        where[disk] = line


@pytest.mark.parametrize("block", [-1, -(10**9)])
def test_a_block_before_the_first_is_refused(block: int) -> None:
    with pytest.raises(SpecError, match="there is no block"):
        Pattern.of(EXAMPLE).locate(block)
