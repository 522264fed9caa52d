"""What unequal disks hold under each system, in ideal blocks: before rounding to whole slices, and without metadata."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from lab.adapt.layout import check_reference, data_width, default_reference, tiers


class System(StrEnum):
    """Ways to make one redundant volume of unequal disks."""

    RAID5 = "raid5"
    """All disks, each used as far as the smallest."""
    ONLY_FAST = "onlyfast"
    """RAID 5 on the largest disks alone."""
    ADAPT5 = "adapt5"
    """Tiers whose stripes divide the reference stripe, holes spread."""
    SHR = "shr"
    """A RAID 5 in every tier, as wide as the tier, one behind the other: what partitions, mdadm and LVM give."""


def capacity(system: System, lines: Sequence[int], reference: int | None = None) -> Fraction:
    """Data blocks on disks of ``lines``; 0 where the system cannot be built.

    ``reference`` concerns adapt5 only; left out, it is the widest stripe. Raises SpecError for an impossible one.
    """
    if system is System.RAID5:
        return Fraction((len(lines) - 1) * min(lines))
    if system is System.ONLY_FAST:
        largest = max(lines)
        return Fraction((lines.count(largest) - 1) * largest)
    if system is System.SHR:
        return Fraction(sum(tier.rows * (len(tier.disks) - 1) for tier in tiers(lines)))
    wide = check_reference(default_reference(len(lines)) if reference is None else reference, len(lines))
    total = Fraction(0)
    for tier in tiers(lines):
        width = data_width(len(tier.disks), wide)
        if width:
            total += Fraction(tier.rows * len(tier.disks) * width, width + 1)
    return total


def best_reference(lines: Sequence[int]) -> int:
    """The reference stripe that gives adapt5 most capacity; of equals the widest."""
    return max(range(1, len(lines)), key=lambda reference: (capacity(System.ADAPT5, lines, reference), reference))


@dataclass(frozen=True, slots=True)
class SmallWrites:
    """What aligned writes of a fixed size cost a RAID 5."""

    share: Fraction
    """Of the writes, those that cover some stripe in part, so that something must be read first."""
    mean_blocks_read: Fraction
    """By read-modify-write or reconstruct-write, whichever reads less."""


def small_writes(width: int, blocks: int) -> SmallWrites:
    """Writes of ``blocks`` blocks at multiples of their size, to stripes of ``width`` data blocks."""
    # Positions within stripes repeat after ``width`` writes.
    partial = read = 0
    for number in range(width):
        begin, end = number * blocks, (number + 1) * blocks
        needed = 0
        for stripe in range(begin // width, (end - 1) // width + 1):
            written = min(end, (stripe + 1) * width) - max(begin, stripe * width)
            if written < width:
                needed += min(written + 1, width - written)
        partial += needed > 0
        read += needed
    return SmallWrites(Fraction(partial, width), Fraction(read, width))
