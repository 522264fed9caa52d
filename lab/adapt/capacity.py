"""Capacity of unequal disks under each system, in data blocks without metadata and without rounding to whole slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from lab.adapt.layout import check_reference, data_width, default_reference, tiers


class System(StrEnum):
    """The ways to make one redundant volume of unequal disks."""

    RAID5 = "raid5"
    """RAID 5 on all disks, each used up to the size of the smallest."""
    ONLY_FAST = "onlyfast"
    """RAID 5 on the largest disks only."""
    ADAPT5 = "adapt5"
    """A RAID 5 in each tier with a stripe width that divides the reference stripe, over rotating sets of disks."""
    SHR = "shr"
    """A RAID 5 in each tier over all of its disks, concatenated: the result of partitions, mdadm and LVM."""


def capacity(system: System, lines: Sequence[int], reference: int | None = None) -> Fraction:
    """Data blocks on disks of ``lines`` blocks each; 0 if the system is impossible on them.

    ``reference`` is the reference stripe of adapt5; by default, the widest one. Raises SpecError for an impossible one.
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
    """The reference stripe with which adapt5 has the largest capacity; the widest of several."""
    return max(range(1, len(lines)), key=lambda reference: (capacity(System.ADAPT5, lines, reference), reference))


@dataclass(frozen=True, slots=True)
class SmallWrites:
    """The cost of aligned writes of a fixed size to a RAID 5."""

    share: Fraction
    """Share of the writes that cover some stripe only in part, so that blocks must be read first."""
    mean_blocks_read: Fraction
    """Mean number of blocks read per write, by read-modify-write or reconstruct-write, whichever reads less."""


def small_writes(width: int, blocks: int) -> SmallWrites:
    """The cost of writes of ``blocks`` blocks, aligned to their size, to stripes of ``width`` data blocks."""
    # The alignment of writes to stripes repeats after ``width`` writes.
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
