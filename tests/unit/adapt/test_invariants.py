"""What must hold for any disks and any reference stripe: on 300 random arrays, in the wide tier on ten thousand."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.adapt.layout import AdaptLevel, Composition, VolumeLayout, shortest_run
from tests.unit.adapt.pattern import Pattern

# DM_MAX_TARGETS of Linux since 2024 (drivers/md/dm-core.h).
MAXIMUM_TARGETS = 1_048_576
LINES = st.lists(st.integers(1, 24), min_size=3, max_size=12)
FEW = st.integers(1, 12)
few_arrays, many_arrays = settings(max_examples=300), settings(max_examples=10_000)
patterns = given(LINES, FEW, st.booleans(), st.integers(0, 3))
tables = given(LINES, FEW, st.integers(1, 9), st.integers(1, 9), st.sampled_from(AdaptLevel))


def reference_of(lines: list[int], chosen: int) -> int:
    """Any reference stripe that these disks can hold; the widest about every other time."""
    return len(lines) - 1 if chosen > 6 else 1 + chosen % (len(lines) - 1)


@few_arrays
@patterns
def test_a_pattern_uses_each_cell_once_and_keeps_units_whole(
    lines: list[int], chosen: int, spread: bool, repeat: int
) -> None:
    check_pattern(lines, chosen, spread=spread, repeat=repeat)


@pytest.mark.wide
@many_arrays
@patterns
def test_ten_thousand_patterns(lines: list[int], chosen: int, spread: bool, repeat: int) -> None:
    check_pattern(lines, chosen, spread=spread, repeat=repeat)


def check_pattern(lines: list[int], chosen: int, *, spread: bool, repeat: int) -> None:
    reference = reference_of(lines, chosen)
    pattern = Pattern.of(lines, reference, spread_holes=spread)
    cells = [(disk, line) for disk, line, _ in pattern.table]
    cells += [(stripe.parity, stripe.parity_line) for stripe in pattern.stripes]
    assert len(set(cells)) == len(cells) == pattern.cells_used
    assert all(line < lines[disk] for disk, line in cells)
    begin = 0
    for stripe in pattern.stripes:
        # No disk twice: any one may fail. No stripe across the border of a unit: aligned writes read nothing.
        assert len({*stripe.data, stripe.parity}) == len(stripe.data) + 1
        assert begin % reference + len(stripe.data) <= reference
        begin += len(stripe.data)
        # The look-up agrees, in every repeat.
        for index, (disk, line) in enumerate(zip(stripe.data, stripe.data_lines, strict=True)):
            found = pattern.locate(repeat * pattern.data_blocks + begin - len(stripe.data) + index)
            assert found[:2] == (disk, repeat * lines[disk] + line)
            assert found[2:] == (stripe.parity, repeat * lines[stripe.parity] + stripe.parity_line)
    assert begin == pattern.data_blocks
    assert begin % reference == 0
    assert pattern.repeats([own * repeat for own in lines]) == repeat


@few_arrays
@tables
def test_md_arrays_under_one_table_use_each_cell_once_and_keep_units_whole(
    lines: list[int], chosen: int, stripes: int, piece: int, rule: AdaptLevel
) -> None:
    check_table(lines, chosen, stripes, piece, rule)


@pytest.mark.wide
@many_arrays
@tables
def test_ten_thousand_tables(lines: list[int], chosen: int, stripes: int, piece: int, rule: AdaptLevel) -> None:
    check_table(lines, chosen, stripes, piece, rule)


def check_table(lines: list[int], chosen: int, stripes: int, piece: int, rule: AdaptLevel) -> None:
    composition = Composition.of(lines, reference_of(lines, chosen), rule)
    volume = VolumeLayout.of(composition, stripes, piece)
    used: set[tuple[int, int]] = set()
    for (disk, number), pieces in volume.placement.items():
        # A slice is whole: its pieces follow one another, and no two lie on the same lines of the disk.
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
def test_spread_holes_and_windows_use_all_disks_of_a_tier_alike(lines: list[int], chosen: int) -> None:
    reference = reference_of(lines, chosen)
    composition = Composition.of([own * 120 for own in lines], reference)
    for tier in composition.by_tier:
        counts = Counter(disk for window in tier for disk in window.disks)
        assert len(set(counts.values())) == 1
    pattern = Pattern.of(lines, reference)
    assert pattern.cells_used <= sum(lines)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(100, 20_000), min_size=3, max_size=12), st.integers(16, 400))
def test_the_shortest_run_keeps_tables_below_their_limit(lines: list[int], limit: int) -> None:
    composition = Composition.of(lines)
    stripes = shortest_run(composition, limit)
    segments = VolumeLayout.of(composition, stripes, max(lines)).segments
    assert len(segments) <= max(limit, len(composition.windows)) < MAXIMUM_TARGETS
