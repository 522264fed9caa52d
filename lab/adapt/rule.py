"""The levels of arrays of unequal disks."""

from __future__ import annotations

from enum import StrEnum


class AdaptLevel(StrEnum):
    """How wide stripes are in a tier of fewer disks, and in which order tiers are used."""

    ADAPT5 = "adapt5"
    """Widths divide the reference stripe, and tiers are interleaved."""
    SHR = "shr"
    """As wide as the tier, and tiers one behind the other."""
