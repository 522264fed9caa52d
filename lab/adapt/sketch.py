"""Which slices of which disks make which arrays, in rows that can be drawn. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.adapt.windows import Composition, Window


@dataclass(frozen=True, slots=True)
class SliceRow:
    """One slice of every disk of a tier, side by side. Where slices really lie on a disk, they are cut finer."""

    tier: int
    lines: int
    """How high the row is: lines of each slice."""
    windows: tuple[int | None, ...]
    """For each disk the array that its slice is in; None where it has none here."""


def slice_rows(windows: Sequence[Window], disk_count: int) -> tuple[SliceRow, ...]:
    """The rows of all tiers, those that all disks have first."""
    rows = []
    for number in dict.fromkeys(window.tier for window in windows):
        tier = [window for window in windows if window.tier == number]
        rows += [SliceRow(number, tier[0].lines, cells) for cells in _rows_of(tier, disk_count)]
    return tuple(rows)


def _rows_of(tier: Sequence[Window], disk_count: int) -> list[tuple[int | None, ...]]:
    """Every disk of a tier gives as many slices as every other."""
    by_disk = [[window.number for window in tier if disk in window.disks] for disk in range(disk_count)]
    height = max(map(len, by_disk))
    return [tuple(own[row] if row < len(own) else None for own in by_disk) for row in range(height)]


def unused_lines(composition: Composition) -> tuple[int, ...]:
    """Lines of each disk that are in no array."""
    return tuple(
        own - sum(window.lines for window in composition.windows_on(disk)) for disk, own in enumerate(composition.lines)
    )
