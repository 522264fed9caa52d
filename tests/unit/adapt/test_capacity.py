"""What unequal disks hold: the tables of nine disks, k of them fast, in maths, pattern and md arrays alike."""

from __future__ import annotations

from fractions import Fraction

import pytest

from lab.adapt.layout import (
    AdaptLevel,
    Composition,
    System,
    best_reference,
    capacity,
    data_width,
    shortest_run,
    small_write_share,
    tiers,
    usable_lines,
)
from lab.errors import SpecError
from tests.unit.adapt.pattern import Pattern

DISKS = 9
SLOW = 240
"""Lines of a slow disk: every slice of every k is a whole number of lines."""

# k, d, RAID5, OnlyFast, holes idle, AdaptRaid5, SHR-like; in slow disks, for fast disks of twice the size.
TABLE = [
    (0, 8, 8, 8, 8, Fraction(8), 8),  # without a fast disk all are the largest
    (1, 0, 8, 0, 8, Fraction(8), 8),
    (2, 1, 8, 2, 9, Fraction(9), 9),
    (3, 2, 8, 4, 10, Fraction(10), 10),
    (4, 2, 8, 6, 10, Fraction(32, 3), 11),
    (5, 4, 8, 8, 12, Fraction(12), 12),
    (6, 4, 8, 10, 12, Fraction(64, 5), 13),
    (7, 4, 8, 12, 12, Fraction(68, 5), 14),
    (8, 4, 8, 14, 12, Fraction(72, 5), 15),
    (9, 8, 16, 16, 16, Fraction(16), 16),
]


def nine_disks(k: int, slow: int = SLOW, fast: int = 2 * SLOW) -> list[int]:
    return [fast] * k + [slow] * (DISKS - k)


@pytest.mark.parametrize(("k", "d", "raid5", "only_fast", "idle", "adapt", "shr"), TABLE)
def test_nine_disks_of_two_sizes_hold_what_the_table_says(
    k: int, d: int, raid5: int, only_fast: int, idle: int, adapt: Fraction, shr: int
) -> None:
    lines = nine_disks(k)
    assert {system: capacity(system, lines) / SLOW for system in System} == {
        System.RAID5: raid5,
        System.ONLY_FAST: only_fast,
        System.ADAPT5: adapt,
        System.SHR: shr,
    }
    assert data_width(k or DISKS, DISKS - 1) == d
    assert Pattern.of(lines).data_blocks == adapt * SLOW
    assert Pattern.of(lines, spread_holes=False).data_blocks == idle * SLOW
    assert Composition.of(lines).data_blocks == adapt * SLOW
    assert Composition.of(lines, rule=AdaptLevel.SHR).data_blocks == shr * SLOW


@pytest.mark.parametrize(
    ("k", "megabytes"),
    [(2, 18766), (3, 21044), (4, 22563), (5, 25600), (6, 27422), (7, 29245), (8, 31067), (9, 34712)],
)
def test_the_drives_of_the_paper_hold_what_its_figure_shows(k: int, megabytes: int) -> None:
    lines = nine_disks(k, slow=2061, fast=4339)
    assert round(capacity(System.ADAPT5, lines)) == megabytes
    assert all(capacity(System.ADAPT5, lines) >= capacity(other, lines) for other in (System.RAID5, System.ONLY_FAST))


@pytest.mark.parametrize(
    ("k", "windows", "slices"),
    [(0, 1, 1), (1, 1, 1), (2, 2, 2), (3, 2, 2), (4, 5, 4), (5, 2, 2), (6, 7, 6), (7, 8, 6), (8, 9, 6), (9, 1, 1)],
)
def test_md_arrays_and_slices_of_nine_disks(k: int, windows: int, slices: int) -> None:
    composition = Composition.of(nine_disks(k))
    assert (len(composition.windows), composition.most_slices) == (windows, slices)


@pytest.mark.parametrize(
    ("lines", "reference", "gives"),
    [
        ([2] * 4 + [1] * 4, 7, Fraction(9)),
        ([2] * 4 + [1] * 4, 6, Fraction(69, 7)),
        ([2] * 3 + [1] * 3, 4, Fraction(34, 5)),
        ([2] * 6 + [1] * 6, 10, Fraction(175, 11)),
    ],
)
def test_a_free_choice_of_the_reference_stripe_saves_arrays_whose_own_is_prime(
    lines: list[int], reference: int, gives: Fraction
) -> None:
    assert capacity(System.ADAPT5, lines, reference) == gives
    assert capacity(System.ADAPT5, lines, best_reference(lines)) >= gives


@pytest.mark.parametrize("reference", [0, 9])
def test_an_impossible_reference_stripe_is_refused(reference: int) -> None:
    for refusing in (
        lambda: capacity(System.ADAPT5, nine_disks(4), reference),
        lambda: Pattern.of(nine_disks(4), reference),
        lambda: Composition.of(nine_disks(4), reference),
    ):
        with pytest.raises(SpecError, match=f"{reference} blocks is not possible on 9 disks"):
            refusing()


@pytest.mark.parametrize(
    ("k", "share"),
    [(2, 0), (3, 0), (4, 1), (5, 0), (6, 1), (7, 1), (8, 1)],
)
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
