"""Capacity of unequal disks, by arithmetic and in md arrays, and properties of every layout on any disks."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.adapt.layout import (
    AdaptLevel,
    Composition,
    VolumeLayout,
    best_reference,
    capacity,
    data_width,
    shortest_run,
    small_write_share,
    tiers,
    usable_lines,
)
from lab.errors import SpecError

# DM_MAX_TARGETS of Linux since 2024 (drivers/md/dm-core.h).
MAXIMUM_TARGETS = 1_048_576

DISKS = 9
SLOW = 240
"""Lines of a slow disk, chosen so that every slice for every k is a whole number of lines."""

# k, d, capacity of AdaptRaid5 and SHR in slow disks (a fast disk is twice as large), md arrays, most slices of a disk.
TABLE = [
    (0, 8, Fraction(8), 8, 1, 1),
    (1, 0, Fraction(8), 8, 1, 1),
    (2, 1, Fraction(9), 9, 2, 2),
    (3, 2, Fraction(10), 10, 2, 2),
    (4, 2, Fraction(32, 3), 11, 5, 4),
    (5, 4, Fraction(12), 12, 2, 2),
    (6, 4, Fraction(64, 5), 13, 7, 6),
    (7, 4, Fraction(68, 5), 14, 8, 6),
    (8, 4, Fraction(72, 5), 15, 9, 6),
    (9, 8, Fraction(16), 16, 1, 1),
]


def nine_disks(k: int, slow: int = SLOW, fast: int = 2 * SLOW) -> list[int]:
    return [fast] * k + [slow] * (DISKS - k)


@pytest.mark.parametrize(("k", "d", "adapt", "shr", "windows", "slices"), TABLE)
def test_nine_disks_of_two_sizes_match_the_table(
    k: int, d: int, adapt: Fraction, shr: int, windows: int, slices: int
) -> None:
    lines, composition = nine_disks(k), Composition.of(nine_disks(k))
    assert [capacity(rule, lines) / SLOW for rule in (AdaptLevel.ADAPT5, AdaptLevel.SHR)] == [adapt, shr]
    assert data_width(k or DISKS, DISKS - 1) == d
    assert composition.data_blocks == adapt * SLOW
    assert Composition.of(lines, rule=AdaptLevel.SHR).data_blocks == shr * SLOW
    assert (len(composition.windows), composition.most_slices) == (windows, slices)


@pytest.mark.parametrize(
    ("k", "megabytes"), [(2, 18766), (3, 21044), (4, 22563), (5, 25600), (6, 27422), (7, 29245), (8, 31067), (9, 34712)]
)
def test_the_drives_of_the_paper_hold_what_its_figure_shows(k: int, megabytes: int) -> None:
    lines = nine_disks(k, slow=2061, fast=4339)
    assert round(capacity(AdaptLevel.ADAPT5, lines)) == megabytes


@pytest.mark.parametrize(
    ("lines", "reference", "gives"),
    [
        ([2] * 4 + [1] * 4, 7, Fraction(9)),
        ([2] * 4 + [1] * 4, 6, Fraction(69, 7)),
        ([2] * 3 + [1] * 3, 4, Fraction(34, 5)),
        ([2] * 6 + [1] * 6, 10, Fraction(175, 11)),
    ],
)
def test_another_reference_stripe_saves_capacity_if_the_default_width_is_prime(
    lines: list[int], reference: int, gives: Fraction
) -> None:
    assert capacity(AdaptLevel.ADAPT5, lines, reference) == gives
    assert capacity(AdaptLevel.ADAPT5, lines, best_reference(lines)) >= gives


@pytest.mark.parametrize("reference", [0, 9])
def test_an_impossible_reference_stripe_is_refused(reference: int) -> None:
    for refusing in (
        lambda: capacity(AdaptLevel.ADAPT5, nine_disks(4), reference),
        lambda: Composition.of(nine_disks(4), reference),
    ):
        with pytest.raises(SpecError, match=f"{reference} blocks is not possible on 9 disks"):
            refusing()


@pytest.mark.parametrize(("k", "share"), [(2, 0), (3, 0), (4, 1), (5, 0), (6, 1), (7, 1), (8, 1)])
@pytest.mark.parametrize("blocks", [8, 16])
def test_fast_disks_alone_turn_aligned_writes_into_small_ones(k: int, share: int, blocks: int) -> None:
    assert small_write_share(k - 1, blocks) == share


def test_utilisation_shortens_disks_and_the_fullest_decides() -> None:
    assert usable_lines([100, 100, 50]) == (100, 100, 50)
    assert usable_lines([100, 100, 50], [1, 1, 0.1]) == (100, 100, 10)
    assert usable_lines([100, 100, 50], [1, 1, 1]) == (50, 50, 50)
    assert usable_lines([100, 100, 50], [0.5, 1, 0.5]) == (50, 100, 50)


@pytest.mark.parametrize("factors", [[1, 1], [1, 1, 0], [0.9, 0.9, 0.9], [1, 1, 1.5]])
def test_impossible_utilisation_is_refused(factors: list[float]) -> None:
    with pytest.raises(SpecError, match="utilisation"):
        usable_lines([100, 100, 50], factors)


def test_tiers_are_the_bands_that_equal_disks_share() -> None:
    found = [(tier.disks, tier.rows) for tier in tiers([5, 2, 5, 9])]
    assert found == [((0, 1, 2, 3), 2), ((0, 2, 3), 3), ((3,), 4)]


def test_the_shortest_run_keeps_the_table_in_bounds() -> None:
    composition = Composition.of(nine_disks(8))
    assert shortest_run(composition, 10_000) == 1
    assert shortest_run(composition, 100) == 7
    # An SHR-like volume has no units that runs could keep together: its windows follow one another.
    assert shortest_run(Composition.of(nine_disks(8), rule=AdaptLevel.SHR), 1) == 1


def test_the_worked_example_as_md_arrays() -> None:
    composition = Composition.of((6, 6, 6, 6, 3))
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


LINES = st.lists(st.integers(1, 24), min_size=3, max_size=12)
FEW = st.integers(1, 12)


def reference_of(lines: list[int], chosen: int) -> int:
    """A reference stripe that these disks can hold; about half of the time the widest one."""
    return len(lines) - 1 if chosen > 6 else 1 + chosen % (len(lines) - 1)


@settings(max_examples=300)
@given(LINES, FEW, st.integers(1, 9), st.integers(1, 9), st.sampled_from(AdaptLevel))
def test_md_arrays_under_one_table_use_each_cell_once_and_keep_units_whole(
    lines: list[int], chosen: int, stripes: int, piece: int, rule: AdaptLevel
) -> None:
    composition = Composition.of(lines, reference_of(lines, chosen), rule)
    volume = VolumeLayout.of(composition, stripes, piece)
    used: set[tuple[int, int]] = set()
    for (disk, number), pieces in volume.placement.items():
        # A slice is complete: its pieces are consecutive, and no two use the same lines of the disk.
        assert [each.slice_start for each in pieces] == [
            sum(before.lines for before in pieces[:index]) for index in range(len(pieces))
        ]
        assert sum(each.lines for each in pieces) == composition.windows[number].lines
        for each in pieces:
            cells = {(disk, line) for line in range(each.disk_start, each.disk_start + each.lines)}
            assert not cells & used
            used |= cells
    assert all(line < lines[disk] for disk, line in used)
    reached: dict[int, int] = {}
    position = 0
    for segment in volume.segments:
        width = composition.windows[segment.window].width
        assert segment.start == position
        assert segment.window_start == reached.get(segment.window, 0)
        for begin in range(segment.start, segment.start + segment.blocks, width):
            assert begin % composition.unit + width <= composition.unit or rule is AdaptLevel.SHR
        position += segment.blocks
        reached[segment.window] = segment.window_start + segment.blocks
        assert reached[segment.window] <= composition.windows[segment.window].blocks
        assert segment.blocks % width == 0
    assert position == composition.data_blocks
    assert all(len(set(window.disks)) == len(window.disks) == window.width + 1 for window in composition.windows)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 12), min_size=3, max_size=12), FEW)
def test_windows_use_all_disks_of_a_tier_alike(lines: list[int], chosen: int) -> None:
    composition = Composition.of([own * 120 for own in lines], reference_of(lines, chosen))
    for tier in composition.by_tier:
        counts = Counter(disk for window in tier for disk in window.disks)
        assert len(set(counts.values())) == 1


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(100, 20_000), min_size=3, max_size=12), st.integers(16, 400))
def test_the_shortest_run_keeps_tables_below_their_limit(lines: list[int], limit: int) -> None:
    composition = Composition.of(lines)
    stripes = shortest_run(composition, limit)
    segments = VolumeLayout.of(composition, stripes, max(lines)).segments
    assert len(segments) <= max(limit, len(composition.windows)) < MAXIMUM_TARGETS
