"""The layout as md arrays: each tier is cut into *windows*, arrays over equal slices of some of its disks.

A tier of m disks with stripes over w of them gets m/g windows, g = gcd(m, w); window t takes the disks
(t·w + j) mod m, j < w, and each disk gives w/g slices. That spreads the holes slice by slice as the pattern does it
stripe by stripe, so the capacity is the same up to rounding: slices are whole lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import gcd

from lab.adapt.rule import AdaptLevel
from lab.adapt.tiers import Tier, check_reference, data_width, default_reference, tiers


@dataclass(frozen=True, slots=True)
class TierWindow:
    """One md RAID 5: ``disks`` in slot order, each with a slice of ``lines`` lines."""

    number: int
    tier: int
    disks: tuple[int, ...]
    lines: int

    @property
    def width(self) -> int:
        """Data blocks of a stripe."""
        return len(self.disks) - 1

    @property
    def blocks(self) -> int:
        """Data blocks of the array."""
        return self.width * self.lines


@dataclass(frozen=True, slots=True)
class Composition:
    """All md arrays of a volume. ``lines`` are the lines that each disk offers."""

    rule: AdaptLevel
    lines: tuple[int, ...]
    reference: int
    windows: tuple[TierWindow, ...]

    @classmethod
    def of(
        cls, lines: Sequence[int], reference: int | None = None, rule: AdaptLevel = AdaptLevel.ADAPT5
    ) -> Composition:
        """The arrays for disks of ``lines``. Raises SpecError for a reference stripe that the disks cannot hold."""
        wide = check_reference(default_reference(len(lines)) if reference is None else reference, len(lines))
        windows: list[TierWindow] = []
        for number, tier in enumerate(tiers(lines)):
            for disks, slice_lines in _windows(tier, wide, rule):
                windows.append(TierWindow(len(windows), number, disks, slice_lines))
        return cls(rule, tuple(lines), wide, tuple(windows))

    @property
    def by_tier(self) -> tuple[tuple[TierWindow, ...], ...]:
        """The windows of each tier that has any."""
        numbers = dict.fromkeys(window.tier for window in self.windows)
        return tuple(tuple(window for window in self.windows if window.tier == tier) for tier in numbers)

    @property
    def data_blocks(self) -> int:
        """Data blocks of the volume: of each tier whole reference stripes only, unless tiers are concatenated."""
        totals = (sum(window.blocks for window in tier) for tier in self.by_tier)
        return sum(total - total % self.unit for total in totals)

    @property
    def unit(self) -> int:
        """Blocks of the extents that are whole stripes wherever they lie, at multiples of their size."""
        return self.reference if self.rule is AdaptLevel.ADAPT5 else 1

    def windows_on(self, disk: int) -> tuple[TierWindow, ...]:
        """The arrays that have a slice on a disk."""
        return tuple(window for window in self.windows if disk in window.disks)

    @property
    def most_slices(self) -> int:
        """Slices on the disk that has most."""
        return max((len(self.windows_on(disk)) for disk in range(len(self.lines))), default=0)

    def lost_windows(self, failed: frozenset[int]) -> tuple[TierWindow, ...]:
        """The arrays that lose data when these disks are gone: a RAID 5 survives one."""
        return tuple(window for window in self.windows if len(failed.intersection(window.disks)) > 1)


def _windows(tier: Tier, reference: int, rule: AdaptLevel) -> Iterator[tuple[tuple[int, ...], int]]:
    active = len(tier.disks)
    width = data_width(active, reference) if rule is AdaptLevel.ADAPT5 else active - 1
    if not width:
        return
    cells = width + 1
    common = gcd(active, cells)
    slice_lines = tier.rows // (cells // common)
    if not slice_lines:
        return
    for number in range(active // common):
        yield tuple(tier.disks[(number * cells + cell) % active] for cell in range(cells)), slice_lines
