"""Tiers of an array of unequal disks, and how many of a tier's disks one stripe may use.

A *line* is one striping unit of one disk. Terms and rules follow T. Cortes and J. Labarta, "Extending Heterogeneity to
RAID level 5" (USENIX 2001) as far as its text is known; docs/adaptraid.md tells which steps are a reconstruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from lab.errors import SpecError

EQUAL_WITHIN = 0.01
"""Disks whose sizes differ by less count as equal: drives of one nominal size never agree to the last sector."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Rows in which the same disks are active."""

    disks: tuple[int, ...]
    rows: int


def tiers(lines: Sequence[int]) -> tuple[Tier, ...]:
    """Cut disks of ``lines`` into bands: first the rows that all disks have, last those of the largest alone."""
    found = []
    low = 0
    for high in sorted(set(lines)):
        if high > low:
            found.append(Tier(tuple(disk for disk, own in enumerate(lines) if own > low), high - low))
            low = high
    return tuple(found)


def data_width(active: int, reference: int) -> int:
    """Data blocks of a stripe on ``active`` disks: the largest divisor of ``reference`` that leaves a disk for parity.

    So an aligned write of ``reference`` blocks is whole stripes in every tier, and no parity needs anything read.
    0 where a stripe is not possible.
    """
    return max((width for width in range(1, min(active - 1, reference) + 1) if reference % width == 0), default=0)


def default_reference(disk_count: int) -> int:
    """Data blocks of a stripe over all disks."""
    return disk_count - 1


def check_reference(reference: int, disk_count: int) -> int:
    """``reference`` itself. Raises SpecError unless a stripe over all disks can hold that many data blocks."""
    if not 1 <= reference < disk_count:
        raise SpecError(
            f"a reference stripe of {reference} blocks is not possible on {disk_count} disks",
            hint=f"choose 1 to {disk_count - 1}",
        )
    return reference


def usable_lines(capacities: Sequence[int], utilisation: Sequence[float | Fraction] | None = None) -> tuple[int, ...]:
    """Lines that each disk contributes in all.

    ``utilisation`` says how much of each disk is used relative to the others: above 0, at most 1, the largest 1.
    Left out, every disk is used whole, which gives the largest capacity. Raises SpecError for anything else.
    """
    if utilisation is None:
        return tuple(capacities)
    factors = check_utilisation(utilisation, len(capacities))
    # The disk that is full first decides how long the pattern can be repeated.
    scale = min(Fraction(capacity) / factor for capacity, factor in zip(capacities, factors, strict=True))
    return tuple(int(scale * factor) for factor in factors)


def check_utilisation(utilisation: Sequence[float | Fraction], disk_count: int) -> tuple[Fraction, ...]:
    """The factors as exact numbers. Raises SpecError where they cannot be meant."""
    if len(utilisation) != disk_count:
        raise SpecError(
            f"{len(utilisation)} utilisation factors for {disk_count} disks", hint="write one for each disk, in order"
        )
    # No fraction is made of what is none: of NaN there is none.
    if any(not 0 < each <= 1 for each in utilisation) or max(utilisation) != 1:
        raise SpecError(
            "utilisation factors must be above 0 and at most 1, the largest being 1",
            hint="write 1 for the disks that are to be used most, such as 1,1,0.5,0.5",
        )
    return tuple(Fraction(str(each)) if isinstance(each, float) else Fraction(each) for each in utilisation)


def level_out(lines: Sequence[int]) -> tuple[int, ...]:
    """Nearly equal disks made equal: each is used as far as the smallest within ``EQUAL_WITHIN``."""
    kept: dict[int, int] = {}
    lowest = 0
    for own in sorted(set(lines)):
        if not lowest or own > lowest * (1 + EQUAL_WITHIN):
            lowest = own
        kept[own] = lowest
    return tuple(kept[own] for own in lines)
