"""RAID 0, whose members may differ in size, and linear arrays, which put one member behind the other.

By create_strip_zones() and raid0_map_submit_bio() in drivers/md/raid0.c, linear_conf() in drivers/md/md-linear.c.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lab.arrays.stripes import ChunkKind
from lab.errors import ArrayError
from lab.microscope.geometry import ArrayGeometry, MemberContent, MemberPlace, StripeCell, StripeMap

ORIGINAL_LAYOUT, ALTERNATE_LAYOUT = 1, 2
"""Of RAID 0 with members of several sizes: how the further zones begin (RAID0_ORIG_LAYOUT in drivers/md/raid0.h)."""


@dataclass(frozen=True, slots=True)
class StripZone:
    """Where the same members take part."""

    first_sector: int
    """Of the array."""
    end_sector: int
    member_sector: int
    """Where it begins on each of its members."""
    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class StripedGeometry(ArrayGeometry):
    """RAID 0. A stripe is one row of chunks, counted on the members; in later zones fewer members have it."""

    zones: tuple[StripZone, ...]
    chunk_sectors: int
    is_original: bool
    """Whether a further zone begins with the member that the chunk's number names, not with its first."""

    @property
    def size_sectors(self) -> int:
        return self.zones[-1].end_sector

    @property
    def slots(self) -> int:
        return len(self.zones[0].slots)

    @property
    def stripe_count(self) -> int:
        last = self.zones[-1]
        return (last.member_sector + (last.end_sector - last.first_sector) // len(last.slots)) // self.chunk_sectors

    def _zone_of(self, sector: int) -> StripZone:
        return self.zones[bisect_right([zone.end_sector for zone in self.zones], sector)]

    def _shift(self, zone: StripZone) -> int:
        """Which of the zone's members has its first chunk."""
        return zone.first_sector // self.chunk_sectors % len(zone.slots) if self.is_original else 0

    def stripe_of(self, sector: int) -> int:
        return self.places(sector)[0].sector // self.chunk_sectors

    def places(self, sector: int) -> tuple[MemberPlace, ...]:
        zone = self._zone_of(sector)
        chunk, rest = divmod(sector - zone.first_sector, self.chunk_sectors)
        row, index = divmod(chunk, len(zone.slots))
        slot = zone.slots[(index + self._shift(zone)) % len(zone.slots)]
        return (MemberPlace(ChunkKind.DATA, slot, zone.member_sector + row * self.chunk_sectors + rest),)

    def content(self, slot: int, sector: int) -> MemberContent | None:
        zone = next((each for each in reversed(self.zones) if sector >= each.member_sector), None)
        if zone is None or slot not in zone.slots:
            return None
        row, rest = divmod(sector - zone.member_sector, self.chunk_sectors)
        index = (zone.slots.index(slot) - self._shift(zone)) % len(zone.slots)
        found = zone.first_sector + (row * len(zone.slots) + index) * self.chunk_sectors + rest
        if found >= zone.end_sector:
            return None
        return MemberContent(ChunkKind.DATA, sector // self.chunk_sectors, (found,))

    def stripe(self, number: int) -> StripeMap:
        self._check_stripe(number)
        place = number * self.chunk_sectors
        cells: list[StripeCell | None] = []
        for slot in range(self.slots):
            found = self.content(slot, place)
            start = found.sectors[0] if found else 0
            chunk = start // self.chunk_sectors
            cells.append(StripeCell(slot, place, ChunkKind.DATA, chunk, 0, start) if found else None)
        there = [cell.first_sector for cell in cells if cell]
        return StripeMap(number, min(there), len(there) * self.chunk_sectors, self.chunk_sectors, (tuple(cells),))


def striped_geometry(layout: int, chunk_sectors: int, member_sectors: Sequence[int]) -> StripedGeometry:
    """From md's layout number and the room on each member, by slot; zones as md makes them.

    Raises ArrayError for members of several sizes whose layout md does not tell.
    """
    rooms = [room - room % chunk_sectors for room in member_sectors]
    zones: list[StripZone] = []
    start = at = 0
    for end in sorted(set(rooms)):
        slots = tuple(slot for slot, room in enumerate(rooms) if room >= end)
        zones.append(StripZone(start, start + (end - at) * len(slots), at, slots))
        start, at = zones[-1].end_sector, end
    if len(zones) > 1 and len(zones[1].slots) > 1 and layout not in (ORIGINAL_LAYOUT, ALTERNATE_LAYOUT):
        raise ArrayError(
            f"members of several sizes, and md says layout {layout}, which does not tell where later zones begin",
            hint="the kernel's parameter raid0.default_layout says it: 1 or 2",
        )
    is_alternate = layout == ALTERNATE_LAYOUT and len(zones) > 1 and len(zones[1].slots) > 1
    return StripedGeometry(tuple(zones), chunk_sectors, is_original=not is_alternate)


@dataclass(frozen=True, slots=True)
class LinearGeometry(ArrayGeometry):
    """One member behind the other, by slot. There are no stripes."""

    ends: tuple[int, ...]
    """Of each member, on the array."""
    has_stripes: ClassVar[bool] = False

    @property
    def size_sectors(self) -> int:
        return self.ends[-1]

    @property
    def slots(self) -> int:
        return len(self.ends)

    @property
    def stripe_count(self) -> int:
        return 0

    def _start(self, slot: int) -> int:
        return self.ends[slot - 1] if slot else 0

    def stripe_of(self, sector: int) -> int:
        return 0

    def places(self, sector: int) -> tuple[MemberPlace, ...]:
        slot = bisect_right(self.ends, sector)
        return (MemberPlace(ChunkKind.DATA, slot, sector - self._start(slot)),)

    def content(self, slot: int, sector: int) -> MemberContent | None:
        found = self._start(slot) + sector
        return MemberContent(ChunkKind.DATA, 0, (found,)) if found < self.ends[slot] else None

    def stripe(self, number: int) -> StripeMap:
        raise ArrayError(
            "a linear array has no stripes: each of its blocks lies on one member alone",
            hint="'raidlab array map' shows on which",
        )
