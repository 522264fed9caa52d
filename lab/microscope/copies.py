"""RAID 10: every chunk several times, near, far or offset, on any number of members.

By __raid10_find_phys(), raid10_find_virt(), calc_sectors() and setup_geo() in drivers/md/raid10.c.
"""

from __future__ import annotations

from dataclasses import dataclass

from lab.errors import ArrayError
from lab.microscope.geometry import ArrayGeometry, MemberContent, MemberPlace, StripeCell, StripeMap, copied

_OFFSET_BIT = 1 << 16
_FAR_SETS_SHIFT = 17


@dataclass(frozen=True, slots=True)
class CopiesGeometry(ArrayGeometry):
    """RAID 10. A stripe is one row of chunks with its copies, in ``far_copies`` rows of each member."""

    near_copies: int
    far_copies: int
    is_offset: bool
    far_set: int
    """How many neighbouring members share the far copies of a chunk; all of them in the usual layout."""
    raid_disks: int
    chunk_sectors: int
    member_sectors: int

    @property
    def copies(self) -> int:
        """Of each chunk."""
        return self.near_copies * self.far_copies

    @property
    def _chunks(self) -> int:
        part_chunks = self.member_sectors // self.chunk_sectors // self.far_copies
        return part_chunks * self.raid_disks // self.near_copies

    @property
    def size_sectors(self) -> int:
        return self._chunks * self.chunk_sectors

    @property
    def slots(self) -> int:
        return self.raid_disks

    @property
    def stripe_count(self) -> int:
        return -(-self._chunks * self.near_copies // self.raid_disks)

    @property
    def stride_sectors(self) -> int:
        """How far behind a chunk its far copy lies: the next chunk in an offset layout, else the next part."""
        if self.is_offset:
            return self.chunk_sectors
        chunks_each = -(-self._chunks * self.copies // self.raid_disks)
        return chunks_each // self.far_copies * self.chunk_sectors

    def stripe_of(self, sector: int) -> int:
        return sector // self.chunk_sectors * self.near_copies // self.raid_disks

    def places(self, sector: int) -> tuple[MemberPlace, ...]:
        chunk, rest = divmod(sector, self.chunk_sectors)
        stripe, slot = divmod(chunk * self.near_copies, self.raid_disks)
        place = stripe * (self.far_copies if self.is_offset else 1) * self.chunk_sectors + rest
        found: list[MemberPlace] = []
        for _ in range(self.near_copies):
            at, on = place, slot
            for far in range(self.far_copies):
                if far:
                    at, on = at + self.stride_sectors, self._further(on)
                found.append(MemberPlace(copied(len(found)), on, at, len(found)))
            slot += 1
            if slot == self.raid_disks:
                slot, place = 0, place + self.chunk_sectors
        return tuple(found)

    def _set_of(self, slot: int) -> tuple[int, int]:
        """First slot and size of the set in which far copies stay; the last takes what is left over."""
        count, rest = divmod(self.raid_disks, self.far_set)
        last = (count - 1) * self.far_set
        if rest and slot >= last:
            return last, self.far_set + rest
        return slot // self.far_set * self.far_set, self.far_set

    def _further(self, slot: int) -> int:
        """The slot of the next far copy.

        md asks with the slot already moved on (> last_far_set_start in __raid10_find_phys), so that a chunk in the set
        before the last may have its copy in the last.
        """
        count, rest = divmod(self.raid_disks, self.far_set)
        last, moved = (count - 1) * self.far_set, slot + self.near_copies
        if rest and moved > last:
            return last + (moved - last) % (self.far_set + rest)
        return slot // self.far_set * self.far_set + moved % self.far_set

    def content(self, slot: int, sector: int) -> MemberContent | None:
        if sector >= self.member_sectors:
            return None
        first, size = self._set_of(slot)
        chunk_at, rest = divmod(sector, self.chunk_sectors)
        if self.is_offset:
            chunk_at, far = divmod(chunk_at, self.far_copies)
        else:
            far, chunk_at = divmod(chunk_at, self.stride_sectors // self.chunk_sectors)
        if far >= self.far_copies:
            return None
        home = first + (slot - first - far * self.near_copies) % size
        number = (chunk_at * self.raid_disks + home) // self.near_copies
        found = number * self.chunk_sectors + rest
        if not 0 <= found < self.size_sectors:
            return None
        mine = next((each for each in self.places(found) if (each.slot, each.sector) == (slot, sector)), None)
        return MemberContent(mine.kind, self.stripe_of(found), (found,), mine.copy) if mine else None

    def stripe(self, number: int) -> StripeMap:
        self._check_stripe(number)
        rows = []
        for far in range(self.far_copies):
            start = number * self.far_copies + far if self.is_offset else number
            sector = start * self.chunk_sectors + (0 if self.is_offset else far * self.stride_sectors)
            rows.append(tuple(self._cell(slot, sector) for slot in range(self.raid_disks)))
        starts = [cell.first_sector for row in rows for cell in row if cell]
        length = max(starts) + self.chunk_sectors - min(starts)
        return StripeMap(number, min(starts), length, self.chunk_sectors, tuple(rows))

    def _cell(self, slot: int, sector: int) -> StripeCell | None:
        found = self.content(slot, sector)
        if found is None:
            return None
        start = found.sectors[0]
        return StripeCell(slot, sector, found.kind, start // self.chunk_sectors, found.copy, start)


def copies_geometry(layout: int, raid_disks: int, chunk_sectors: int, component_sectors: int) -> CopiesGeometry:
    """From md's numbers. Raises ArrayError for a layout that md has not."""
    near, far, sets = layout & 0xFF, layout >> 8 & 0xFF, layout >> _FAR_SETS_SHIFT
    far_sets = {0: raid_disks, 1: raid_disks // far if far else 0, 2: near * far}
    if not near or not far or not far_sets.get(sets):
        raise ArrayError(f"RAID 10 has no layout {layout}", hint="the map knows near, far and offset copies")
    is_offset = bool(layout & _OFFSET_BIT)
    made = CopiesGeometry(near, far, is_offset, far_sets[sets], raid_disks, chunk_sectors, component_sectors)
    # Of an odd number of members md uses one chunk more of some (calc_sectors).
    used = -(-made.size_sectors // chunk_sectors * made.copies // raid_disks) * chunk_sectors
    return CopiesGeometry(near, far, is_offset, far_sets[sets], raid_disks, chunk_sectors, max(used, 0))
