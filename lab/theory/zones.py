"""RAID 0 of unequal members: each member's share of a load, and the rate of one stream through the zones.

Up to the size of the smallest member all members are used, from there to the next size only the larger ones, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.arrays.geometry import strip_zones


@dataclass(frozen=True, slots=True)
class StripeZone:
    """One zone."""

    size_bytes: int
    """Size on the array."""
    slots: tuple[int, ...]
    """The members that it spans."""


def stripe_zones(member_bytes: Sequence[int]) -> tuple[StripeZone, ...]:
    """The zones of members with these sizes, in whole chunks; one zone if all are equal."""
    return tuple(StripeZone(zone.size, zone.slots) for zone in strip_zones(member_bytes))


def covered_zones(zones: Sequence[StripeZone], covered_bytes: int | None) -> tuple[StripeZone, ...]:
    """The zones, or parts of zones, in the array's first ``covered_bytes``; None: all of it."""
    found, left = [], sum(zone.size_bytes for zone in zones) if covered_bytes is None else covered_bytes
    for zone in zones:
        if left > 0:
            found.append(StripeZone(min(left, zone.size_bytes), zone.slots))
        left -= zone.size_bytes
    return tuple(found)


def member_shares(member_bytes: Sequence[int], covered_bytes: int | None = None) -> tuple[float, ...]:
    """Each member's share, by slot, of random requests uniformly distributed over ``covered_bytes``."""
    zones = covered_zones(stripe_zones(member_bytes), covered_bytes)
    total = sum(zone.size_bytes for zone in zones)
    return tuple(
        sum(zone.size_bytes / len(zone.slots) for zone in zones if slot in zone.slots) / total
        for slot in range(len(member_bytes))
    )


def mean_stream_members(member_bytes: Sequence[int], covered_bytes: int | None = None) -> float:
    """Mean rate of one stream over ``covered_bytes``, in units of one member: bytes over the time for all zones."""
    zones = covered_zones(stripe_zones(member_bytes), covered_bytes)
    total = sum(zone.size_bytes for zone in zones)
    return total / sum(zone.size_bytes / len(zone.slots) for zone in zones)
