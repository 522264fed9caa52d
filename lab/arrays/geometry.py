"""Computes where each array sector lies on the members, and what each member sector holds, without any I/O.

Only this module computes layouts. It does so in both directions, for RAID 0 with its zones, for RAID 1, 4, 5, 6 and 10,
and for linear arrays, in every layout that md has. A geometry is made from md's own numbers (``geometry_of``), or from
a level and mdadm's name for the layout (``level_geometry``). For pictures, ``stripe_rows`` lists the first rows of
chunks.

Sectors have 512 bytes. Array sectors are counted from the start of the array, member sectors from the start of the
member's data. The sources in drivers/md are raid5_compute_sector() in raid5.c; __raid10_find_phys(),
raid10_find_virt(), calc_sectors() and setup_geo() in raid10.c; create_strip_zones() and raid0_map_submit_bio() in
raid0.c; and linear_conf() in md-linear.c.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import accumulate
from typing import ClassVar

from lab.arrays.levels import ROTATION_NUMBERS, ROTATIONS, Level, LevelName, Raid10, Raid10Layout
from lab.errors import ArrayError, SpecError
from lab.units import KIB, SECTOR_BYTES

RESYNC_BLOCK_SECTORS = 64 * KIB // SECTOR_BYTES
"""The part of a mirror that md compares in one step (RESYNC_BLOCK_SIZE in drivers/md/raid1-10.c), here called a stripe.
"""


class ChunkKind(StrEnum):
    """What a chunk of a member holds."""

    DATA = "data"
    COPY = "copy"
    """The same data once more, on another member."""
    P = "P"
    """The exclusive-or of the data in its row."""
    Q = "Q"
    """RAID 6's second, different parity of the row."""

    @property
    def is_parity(self) -> bool:
        return self in (ChunkKind.P, ChunkKind.Q)


def copy_kind(copy: int) -> ChunkKind:
    """Return DATA for copy 0, and COPY for all others."""
    return ChunkKind.COPY if copy else ChunkKind.DATA


@dataclass(frozen=True, slots=True)
class MemberPlace:
    """Where a member stores a sector of the array, or the parity that protects it."""

    kind: ChunkKind
    slot: int
    sector: int
    copy: int = 0
    """0 for the first place that md writes to, 1 for its first copy, and so on."""


@dataclass(frozen=True, slots=True)
class MemberContent:
    """What a sector of a member holds."""

    kind: ChunkKind
    stripe: int
    sectors: tuple[int, ...]
    """The sector of the array or, for parity, all sectors that it protects, in the order of the data."""
    copy: int = 0


@dataclass(frozen=True, slots=True)
class StripeCell:
    """One chunk of a stripe on one member."""

    slot: int
    sector: int
    """The first sector of the chunk on the member."""
    kind: ChunkKind
    number: int
    """The number of the data chunk on the array or, for parity, of the stripe."""
    copy: int = 0
    first_sector: int = 0
    """The first sector of the array in the chunk or, for parity, in the stripe."""

    @property
    def words(self) -> str:
        if self.kind.is_parity:
            return self.kind.value
        return f"copy {self.copy} of {self.number}" if self.copy else f"data {self.number}"


@dataclass(frozen=True, slots=True)
class StripeMap:
    """The chunks of a stripe."""

    number: int
    first_sector: int
    """The first sector of the array in the stripe."""
    sectors: int
    """The number of the array's sectors in the stripe."""
    cell_sectors: int
    """The size of each chunk, which is smaller in the last stripe of some mirrors."""
    rows: tuple[tuple[StripeCell | None, ...], ...]
    """The chunks in slot order, or None where a slot has none. Far and offset RAID 10 have a row for each far copy."""

    @property
    def cells(self) -> tuple[StripeCell, ...]:
        return tuple(cell for row in self.rows for cell in row if cell)

    def cell_at(self, slot: int, byte: int) -> tuple[StripeCell, int] | None:
        """Return the chunk that contains this byte of a member's part of the stripe, and the byte's offset in it."""
        index, offset = divmod(byte, self.cell_sectors * SECTOR_BYTES)
        cell = self.rows[index][slot] if 0 <= index < len(self.rows) else None
        return (cell, offset) if cell else None


class ArrayGeometry(ABC):
    """Maps sectors of an array to places on its members, and places back to sectors."""

    __slots__ = ()
    raid_disks: int
    """The number of members, including missing ones."""
    has_stripes: ClassVar[bool] = True

    @property
    @abstractmethod
    def size_sectors(self) -> int:
        """The capacity of the array."""

    @property
    @abstractmethod
    def stripe_count(self) -> int:
        """The number of stripes, of which the last may be only partly used."""

    @abstractmethod
    def places(self, sector: int) -> tuple[MemberPlace, ...]:
        """Return the places of the sector, the first copy first."""

    def parities(self, sector: int) -> tuple[MemberPlace, ...]:
        """Return the places of the parity that protects the sector, P first, or none on levels without parity."""
        return ()

    @abstractmethod
    def stripe_of(self, sector: int) -> int:
        """Return the number of the stripe in which a sector lies."""

    @abstractmethod
    def content(self, slot: int, sector: int) -> MemberContent | None:
        """Return what a member holds in a sector, or None if the array does not use the sector."""

    @abstractmethod
    def stripe(self, number: int) -> StripeMap:
        """Return all chunks of a stripe. Raises ArrayError if there is no such stripe."""

    def place_on(self, slot: int, sector: int) -> MemberPlace | None:
        """Return where the member in ``slot`` stores the sector or its parity, or None if it stores neither."""
        places = (*self.places(sector), *self.parities(sector))
        return next((place for place in places if place.slot == slot), None)

    def _check_stripe(self, number: int) -> None:
        if not 0 <= number < self.stripe_count:
            raise ArrayError(f"there is no stripe {number}", hint=f"choose a stripe from 0 to {self.stripe_count - 1}")


class ChunkedGeometry(ArrayGeometry):
    """A geometry whose stripes are rows of chunks."""

    __slots__ = ()
    chunk_sectors: int

    def _row_starts(self, number: int) -> Sequence[int]:
        return (number * self.chunk_sectors,)

    def stripe(self, number: int) -> StripeMap:
        self._check_stripe(number)
        slots = range(self.raid_disks)
        rows = tuple(tuple(self._cell(slot, start) for slot in slots) for start in self._row_starts(number))
        firsts = [cell.first_sector for row in rows for cell in row if cell]
        sectors = max(firsts) + self.chunk_sectors - min(firsts)
        return StripeMap(number, min(firsts), sectors, self.chunk_sectors, rows)

    def _cell(self, slot: int, sector: int) -> StripeCell | None:
        found = self.content(slot, sector)
        if found is None:
            return None
        first = found.sectors[0]
        number = found.stripe if found.kind.is_parity else first // self.chunk_sectors
        return StripeCell(slot, sector, found.kind, number, found.copy, first)


LEFT_SYMMETRIC, PARITY_FIRST, PARITY_LAST = 2, 4, 5
RAID5_LAYOUTS: Mapping[int, str] = {number: word for number, word in ROTATION_NUMBERS.items() if number <= PARITY_LAST}
RAID6_LAYOUTS: Mapping[int, str] = {
    **ROTATION_NUMBERS,
    8: "ddf-zero-restart",
    9: "ddf-N-restart",
    10: "ddf-N-continue",
}
"""mdadm's name (r6layout in mdadm's maps.c) for each of md's numbers (ALGORITHM_* in drivers/md/raid5.h).

The layouts whose names end in -6 are those of RAID 5 on all members but the last, which holds Q.
"""

_DDF = (8, 9, 10)
_DDF_N_RESTART, _DDF_N_CONTINUE = 9, 10
_RAID5_WITH_LAST_Q = 16
"""This number and all larger ones belong to the layouts whose names end in -6."""
_LEFT = (0, 2, 9, 10)
"""The layouts in which parity moves one slot to the left from row to row."""
_SYMMETRIC = (2, 3, 10)
"""The layouts whose data begin after the parity and wrap around; in all others, data are in slot order around parity.
"""


@dataclass(frozen=True, slots=True)
class ParityRow:
    """One row of chunks of a parity array: the slots of P, Q and each data chunk."""

    layout: int
    raid_disks: int
    p_slot: int
    q_slot: int | None

    @property
    def _is_symmetric(self) -> bool:
        return self.layout % _RAID5_WITH_LAST_Q in _SYMMETRIC

    @property
    def _first_data_slot(self) -> int:
        """The slot after P or, if Q follows P, after Q. It is used only in symmetric layouts."""
        is_behind_p = self.q_slot is None or self.layout == _DDF_N_CONTINUE or self.layout >= _RAID5_WITH_LAST_Q
        return self.p_slot + (1 if is_behind_p else 2)

    @property
    def data_count(self) -> int:
        return self.raid_disks - (1 if self.q_slot is None else 2)

    @property
    def parity_slots(self) -> tuple[int, ...]:
        return tuple(sorted(slot for slot in (self.p_slot, self.q_slot) if slot is not None))

    def data_slot(self, index: int) -> int:
        if self._is_symmetric:
            return (self._first_data_slot + index) % _rotating_disks(self.layout, self.raid_disks)
        slot = index
        for parity in self.parity_slots:
            slot += slot >= parity
        return slot

    def data_index(self, slot: int) -> int | None:
        """Return the position of a slot's chunk among the row's data, or None for P and Q."""
        if slot in self.parity_slots:
            return None
        if self._is_symmetric:
            return (slot - self._first_data_slot) % _rotating_disks(self.layout, self.raid_disks)
        return slot - sum(parity < slot for parity in self.parity_slots)

    @property
    def data_slots(self) -> tuple[int, ...]:
        return tuple(self.data_slot(index) for index in range(self.data_count))

    @property
    def exponents(self) -> dict[int, int]:
        """The exponent, by slot, of the power of 2 by which each data chunk is multiplied in Q.

        md counts the data chunks from the slot after Q (raid6_d0() in drivers/md/raid5.c). In the DDF layouts it counts
        from slot 0, and counts P and Q too (raid6_idx_to_slot()).
        """
        if self.layout in _DDF:
            return {slot: slot for slot in self.data_slots}
        first = 0 if self.q_slot is None else self.q_slot + 1
        around = ((first + step) % self.raid_disks for step in range(self.raid_disks))
        return {slot: power for power, slot in enumerate(slot for slot in around if slot not in self.parity_slots)}


def parity_row(layout: int, raid_disks: int, row: int, *, has_q: bool) -> ParityRow:
    """Return one row. ``layout`` is from ``RAID5_LAYOUTS``, from ``RAID6_LAYOUTS`` with Q, or PARITY_LAST (RAID 4)."""
    p = _p_slot(layout, raid_disks, row, has_q=has_q)
    return ParityRow(layout, raid_disks, p, _q_slot(layout, raid_disks, p) if has_q else None)


def _p_slot(layout: int, raid_disks: int, row: int, *, has_q: bool) -> int:
    rotating = _rotating_disks(layout, raid_disks)
    base = layout % _RAID5_WITH_LAST_Q
    if base == PARITY_FIRST:
        return 0
    if base == PARITY_LAST:
        return raid_disks - (2 if has_q else 1)
    if base in _LEFT:
        return rotating - 1 - (row + (layout == _DDF_N_RESTART)) % rotating
    return row % rotating


def _rotating_disks(layout: int, raid_disks: int) -> int:
    return raid_disks - 1 if layout >= _RAID5_WITH_LAST_Q else raid_disks


def _q_slot(layout: int, raid_disks: int, p_slot: int) -> int:
    if layout >= _RAID5_WITH_LAST_Q:
        return raid_disks - 1
    return (p_slot + (-1 if layout == _DDF_N_CONTINUE else 1)) % raid_disks


@dataclass(frozen=True, slots=True)
class ParityGeometry(ChunkedGeometry):
    """RAID 4, 5 and 6. ``layout`` is md's number. A stripe is one row of chunks."""

    layout: int
    raid_disks: int
    chunk_sectors: int
    member_sectors: int
    """The number of sectors of each member that the array uses."""
    has_q: bool = False

    @property
    def size_sectors(self) -> int:
        return self.stripe_count * self.data_count * self.chunk_sectors

    @property
    def data_count(self) -> int:
        return self.raid_disks - (2 if self.has_q else 1)

    @property
    def stripe_count(self) -> int:
        return self.member_sectors // self.chunk_sectors

    def row(self, number: int) -> ParityRow:
        return parity_row(self.layout, self.raid_disks, number, has_q=self.has_q)

    def stripe_of(self, sector: int) -> int:
        return sector // self.chunk_sectors // self.data_count

    def places(self, sector: int) -> tuple[MemberPlace, ...]:
        stripe, index = divmod(sector // self.chunk_sectors, self.data_count)
        slot = self.row(stripe).data_slot(index)
        return (MemberPlace(ChunkKind.DATA, slot, self._on_member(stripe, sector)),)

    def parities(self, sector: int) -> tuple[MemberPlace, ...]:
        stripe = self.stripe_of(sector)
        row, place = self.row(stripe), self._on_member(stripe, sector)
        p = MemberPlace(ChunkKind.P, row.p_slot, place)
        return (p,) if row.q_slot is None else (p, MemberPlace(ChunkKind.Q, row.q_slot, place))

    def _on_member(self, stripe: int, sector: int) -> int:
        return stripe * self.chunk_sectors + sector % self.chunk_sectors

    def content(self, slot: int, sector: int) -> MemberContent | None:
        stripe, offset = divmod(sector, self.chunk_sectors)
        if stripe >= self.stripe_count:
            return None
        row, first = self.row(stripe), stripe * self.data_count
        index = row.data_index(slot)
        if index is None:
            kind = ChunkKind.P if slot == row.p_slot else ChunkKind.Q
            protected = tuple((first + number) * self.chunk_sectors + offset for number in range(self.data_count))
            return MemberContent(kind, stripe, protected)
        return MemberContent(ChunkKind.DATA, stripe, ((first + index) * self.chunk_sectors + offset,))


@dataclass(frozen=True, slots=True)
class Raid1Geometry(ArrayGeometry):
    """RAID 1, where every member holds all data. A stripe is the part that md compares in one step."""

    raid_disks: int
    member_sectors: int

    @property
    def size_sectors(self) -> int:
        return self.member_sectors

    @property
    def stripe_count(self) -> int:
        return -(-self.member_sectors // RESYNC_BLOCK_SECTORS)

    def stripe_of(self, sector: int) -> int:
        return sector // RESYNC_BLOCK_SECTORS

    def places(self, sector: int) -> tuple[MemberPlace, ...]:
        return tuple(MemberPlace(copy_kind(copy), copy, sector, copy) for copy in range(self.raid_disks))

    def content(self, slot: int, sector: int) -> MemberContent | None:
        if sector >= self.member_sectors:
            return None
        return MemberContent(copy_kind(slot), self.stripe_of(sector), (sector,), slot)

    def stripe(self, number: int) -> StripeMap:
        self._check_stripe(number)
        first = number * RESYNC_BLOCK_SECTORS
        length = min(RESYNC_BLOCK_SECTORS, self.member_sectors - first)
        cells = tuple(StripeCell(slot, first, copy_kind(slot), number, slot, first) for slot in range(self.raid_disks))
        return StripeMap(number, first, length, length, (cells,))


_OFFSET_BIT = 1 << 16
_FAR_SETS_SHIFT = 17


@dataclass(frozen=True, slots=True)
class Raid10Geometry(ChunkedGeometry):
    """RAID 10 on any number of members. A stripe has ``far_copies`` rows, the first of which holds the near copies."""

    near_copies: int
    far_copies: int
    is_offset: bool
    far_set: int
    """The number of neighbouring members over which far copies are shifted; without far sets, the number of members."""
    raid_disks: int
    chunk_sectors: int
    member_sectors: int

    @property
    def copies(self) -> int:
        return self.near_copies * self.far_copies

    @property
    def _chunks(self) -> int:
        part_chunks = self.member_sectors // self.chunk_sectors // self.far_copies
        return part_chunks * self.raid_disks // self.near_copies

    @property
    def size_sectors(self) -> int:
        return self._chunks * self.chunk_sectors

    @property
    def stripe_count(self) -> int:
        return -(-self._chunks * self.near_copies // self.raid_disks)

    @property
    def stride_sectors(self) -> int:
        """The distance from a chunk to its far copy on the member: one chunk in offset layouts, one part in others."""
        if self.is_offset:
            return self.chunk_sectors
        chunks_each = -(-self._chunks * self.copies // self.raid_disks)
        return chunks_each // self.far_copies * self.chunk_sectors

    def stripe_of(self, sector: int) -> int:
        return sector // self.chunk_sectors * self.near_copies // self.raid_disks

    def places(self, sector: int) -> tuple[MemberPlace, ...]:
        chunk, offset = divmod(sector, self.chunk_sectors)
        stripe, slot = divmod(chunk * self.near_copies, self.raid_disks)
        place = stripe * (self.far_copies if self.is_offset else 1) * self.chunk_sectors + offset
        found: list[MemberPlace] = []
        for _ in range(self.near_copies):
            far_place, far_slot = place, slot
            for far in range(self.far_copies):
                if far:
                    far_place, far_slot = far_place + self.stride_sectors, self._next_far_slot(far_slot)
                found.append(MemberPlace(copy_kind(len(found)), far_slot, far_place, len(found)))
            slot += 1
            if slot == self.raid_disks:
                slot, place = 0, place + self.chunk_sectors
        return tuple(found)

    def _far_set_of(self, slot: int) -> tuple[int, int]:
        """Return the first slot and the size of a slot's far set; the last set includes the remaining members."""
        count, rest = divmod(self.raid_disks, self.far_set)
        last = (count - 1) * self.far_set
        if rest and slot >= last:
            return last, self.far_set + rest
        return slot // self.far_set * self.far_set, self.far_set

    def _next_far_slot(self, slot: int) -> int:
        """Return the slot of the next far copy.

        md compares the shifted slot with the start of the last set (> last_far_set_start in __raid10_find_phys), so a
        chunk in the last set but one may have its copy in the last set.
        """
        count, rest = divmod(self.raid_disks, self.far_set)
        last, shifted = (count - 1) * self.far_set, slot + self.near_copies
        if rest and shifted > last:
            return last + (shifted - last) % (self.far_set + rest)
        return slot // self.far_set * self.far_set + shifted % self.far_set

    def content(self, slot: int, sector: int) -> MemberContent | None:
        if sector >= self.member_sectors:
            return None
        first, size = self._far_set_of(slot)
        row, offset = divmod(sector, self.chunk_sectors)
        if self.is_offset:
            row, far = divmod(row, self.far_copies)
        else:
            far, row = divmod(row, self.stride_sectors // self.chunk_sectors)
        if far >= self.far_copies:
            return None
        data_slot = first + (slot - first - far * self.near_copies) % size
        number = (row * self.raid_disks + data_slot) // self.near_copies
        found = number * self.chunk_sectors + offset
        if not 0 <= found < self.size_sectors:
            return None
        place = next((each for each in self.places(found) if (each.slot, each.sector) == (slot, sector)), None)
        return MemberContent(place.kind, self.stripe_of(found), (found,), place.copy) if place else None

    def _row_starts(self, number: int) -> Sequence[int]:
        first = number * (self.far_copies if self.is_offset else 1) * self.chunk_sectors
        return [first + far * self.stride_sectors for far in range(self.far_copies)]


def raid10_geometry(layout: int, raid_disks: int, chunk_sectors: int, component_sectors: int) -> Raid10Geometry:
    """Return the geometry for md's layout number: near copies in bits 0-7, far copies in bits 8-15, offset in bit 16.

    The bits above describe far sets. Raises ArrayError if there is no such layout.
    """
    near, far, sets = layout & 0xFF, layout >> 8 & 0xFF, layout >> _FAR_SETS_SHIFT
    far_sets = {0: raid_disks, 1: raid_disks // far if far else 0, 2: near * far}
    if not near or not far or not far_sets.get(sets):
        raise ArrayError(f"RAID 10 has no layout {layout}", hint="raidlab supports near, far and offset copies")
    is_offset = bool(layout & _OFFSET_BIT)
    whole = Raid10Geometry(near, far, is_offset, far_sets[sets], raid_disks, chunk_sectors, component_sectors)
    # If the number of members is odd, md uses one more chunk on some of them (calc_sectors).
    used = -(-whole.size_sectors // chunk_sectors * whole.copies // raid_disks) * chunk_sectors
    return replace(whole, member_sectors=max(used, 0))


ORIGINAL_LAYOUT, ALTERNATE_LAYOUT = 1, 2
"""Where later zones begin in a RAID 0 with members of different sizes (RAID0_ORIG_LAYOUT in drivers/md/raid0.h)."""


@dataclass(frozen=True, slots=True)
class StripZone:
    """A zone of a RAID 0: a part with the same members throughout. Positions are in the unit of the member sizes."""

    start: int
    """The zone's start on the array."""
    end: int
    member_start: int
    """The zone's start on each of its members."""
    slots: tuple[int, ...]

    @property
    def size(self) -> int:
        return self.end - self.start


def strip_zones(member_sizes: Sequence[int]) -> tuple[StripZone, ...]:
    """Return the zones for members of these sizes, which must be whole chunks. Equal sizes give a single zone."""
    zones: list[StripZone] = []
    start = member_start = 0
    for member_end in sorted(set(member_sizes)):
        slots = tuple(slot for slot, size in enumerate(member_sizes) if size >= member_end)
        zones.append(StripZone(start, start + (member_end - member_start) * len(slots), member_start, slots))
        start, member_start = zones[-1].end, member_end
    return tuple(zones)


@dataclass(frozen=True, slots=True)
class Raid0Geometry(ChunkedGeometry):
    """RAID 0. A stripe is one row of chunks, counted on the members; in later zones it has fewer chunks."""

    raid_disks: int = field(init=False)
    zones: tuple[StripZone, ...]
    """The zones, in sectors."""
    chunk_sectors: int
    is_original: bool
    """Whether a chunk's number on the array determines its member in later zones too (ORIGINAL_LAYOUT)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "raid_disks", len(self.zones[0].slots))

    @property
    def size_sectors(self) -> int:
        return self.zones[-1].end

    @property
    def stripe_count(self) -> int:
        last = self.zones[-1]
        return (last.member_start + last.size // len(last.slots)) // self.chunk_sectors

    def _zone_of(self, sector: int) -> StripZone:
        """Return the zone of a sector, which is the last zone if the sector lies beyond the end."""
        return self.zones[bisect_right([zone.end for zone in self.zones[:-1]], sector)]

    def _shift(self, zone: StripZone) -> int:
        """Return which of the zone's members holds the zone's first chunk, by position."""
        return zone.start // self.chunk_sectors % len(zone.slots) if self.is_original else 0

    def stripe_of(self, sector: int) -> int:
        return self.places(sector)[0].sector // self.chunk_sectors

    def places(self, sector: int) -> tuple[MemberPlace, ...]:
        zone = self._zone_of(sector)
        chunk, offset = divmod(sector - zone.start, self.chunk_sectors)
        row, index = divmod(chunk, len(zone.slots))
        slot = zone.slots[(index + self._shift(zone)) % len(zone.slots)]
        return (MemberPlace(ChunkKind.DATA, slot, zone.member_start + row * self.chunk_sectors + offset),)

    def content(self, slot: int, sector: int) -> MemberContent | None:
        zone = next((each for each in reversed(self.zones) if sector >= each.member_start), None)
        if zone is None or slot not in zone.slots:
            return None
        row, offset = divmod(sector - zone.member_start, self.chunk_sectors)
        index = (zone.slots.index(slot) - self._shift(zone)) % len(zone.slots)
        found = zone.start + (row * len(zone.slots) + index) * self.chunk_sectors + offset
        if found >= zone.end:
            return None
        return MemberContent(ChunkKind.DATA, sector // self.chunk_sectors, (found,))


def raid0_geometry(layout: int, chunk_sectors: int, member_sectors: Sequence[int]) -> Raid0Geometry:
    """Return the geometry for md's layout number and the size of each member's data. Raises ArrayError."""
    zones = strip_zones([size - size % chunk_sectors for size in member_sectors])
    # If every later zone has only one member, both layouts are the same.
    has_two_layouts = len(zones) > 1 and len(zones[1].slots) > 1
    if has_two_layouts and layout not in (ORIGINAL_LAYOUT, ALTERNATE_LAYOUT):
        raise ArrayError(
            f"the members differ in size, and md's layout {layout} leaves open on which member later zones begin",
            hint="set the kernel parameter raid0.default_layout, which determines this, to 1 or 2",
        )
    return Raid0Geometry(zones, chunk_sectors, is_original=not (has_two_layouts and layout == ALTERNATE_LAYOUT))


@dataclass(frozen=True, slots=True)
class LinearGeometry(ArrayGeometry):
    """One member after the other, in slot order. There are no stripes."""

    raid_disks: int = field(init=False)
    ends: tuple[int, ...]
    """Where each member ends on the array."""
    has_stripes: ClassVar[bool] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "raid_disks", len(self.ends))

    @property
    def size_sectors(self) -> int:
        return self.ends[-1]

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
            "a linear array has no stripes: each of its blocks lies on a single member",
            hint="use 'raidlab array map' to find that member",
        )


def geometry_of(
    level: str,
    layout: int,
    raid_disks: int,
    chunk_sectors: int,
    component_sectors: int,
    member_sectors: Mapping[int, int],
) -> ArrayGeometry:
    """Return the geometry for values from sysfs. ``component_sectors`` is the size of the used part of each member.

    ``layout`` is md's number. ``member_sectors`` maps slots to the sizes of the members' data; only RAID 0 and linear
    arrays require it, for all members. Raises ArrayError if the level or layout is unknown.
    """
    if level in (LevelName.RAID4, LevelName.RAID5, LevelName.RAID6) and chunk_sectors:
        known = RAID6_LAYOUTS if level == LevelName.RAID6 else RAID5_LAYOUTS
        if level != LevelName.RAID4 and layout not in known:
            raise ArrayError(f"{level} has no layout {layout}", hint=f"md's layouts are {', '.join(map(str, known))}")
        number = PARITY_LAST if level == LevelName.RAID4 else layout
        return ParityGeometry(number, raid_disks, chunk_sectors, component_sectors, has_q=level == LevelName.RAID6)
    if level == LevelName.RAID10 and chunk_sectors:
        return raid10_geometry(layout, raid_disks, chunk_sectors, component_sectors)
    if level == LevelName.RAID1:
        return Raid1Geometry(raid_disks, component_sectors)
    if level in (LevelName.RAID0, "linear") and set(member_sectors) == set(range(raid_disks)):
        sizes = [member_sectors[slot] for slot in range(raid_disks)]
        if level == LevelName.RAID0 and chunk_sectors:
            return raid0_geometry(layout, chunk_sectors, sizes)
        # Linear arrays use whole chunks if they have a chunk size (linear_conf).
        used = [size - (size % chunk_sectors if chunk_sectors else 0) for size in sizes]
        return LinearGeometry(tuple(accumulate(used)))
    raise ArrayError(
        f"raidlab cannot compute where an array of level {level} with {len(member_sectors)} of {raid_disks} members "
        "stores its data",
        hint="use raid1, raid4, raid5, raid6 or raid10, or a raid0 or linear array whose members are all present",
    )


def level_geometry(
    level: Level, layout: str | None, members: int, chunk_sectors: int, component_sectors: int
) -> ArrayGeometry:
    """Return the geometry for equal members. ``layout`` is mdadm's name of a RAID 5 or 6 layout (None: the default).

    Raises SpecError if the layout is unknown, or if the number of members or copies does not suit the level.
    """
    if members < level.minimum_members:
        raise SpecError(
            f"{level.name.value} needs at least {level.minimum_members} members, not {members}",
            hint="choose more members",
        )
    if isinstance(level, Raid10) and level.copies > members:
        raise SpecError(
            f"layout {level.layout_word} keeps {level.copies} copies, more than the {members} members",
            hint="choose more members, or fewer copies",
        )
    name = LevelName.RAID0 if level.name is LevelName.SINGLE else level.name
    number = _layout_number(level, layout)
    return geometry_of(
        name, number, members, chunk_sectors, component_sectors, dict.fromkeys(range(members), component_sectors)
    )


def _layout_number(level: Level, layout: str | None) -> int:
    if isinstance(level, Raid10):
        if level.layout is Raid10Layout.NEAR:
            return level.copies | 1 << 8
        return 1 | level.copies << 8 | (_OFFSET_BIT if level.layout is Raid10Layout.OFFSET else 0)
    if level.name is LevelName.RAID4 and layout is not None:
        raise SpecError(f"'{layout}' is not a layout of {level.name.value}", hint="omit the layout")
    if level.name not in (LevelName.RAID5, LevelName.RAID6):
        return 0
    known = RAID6_LAYOUTS if level.name is LevelName.RAID6 else RAID5_LAYOUTS
    number = next((number for number, word in known.items() if word == (layout or ROTATIONS[0])), None)
    if number is None:
        hint = f"choose one of {', '.join(known.values())}"
        raise SpecError(f"'{layout}' is not a layout of {level.name.value}", hint=hint)
    return number


@dataclass(frozen=True, slots=True)
class StripeRow:
    """One row of chunks, which lie at the same offset on every member."""

    part: int
    """The part of the members; 0 except in far RAID 10, which divides each member into as many parts as copies."""
    row: int
    """The distance from the beginning of the part, in chunks."""
    chunks: tuple[StripeCell, ...]
    """The chunks in slot order."""


def stripe_rows(level: Level, layout: str | None, members: int, rows: int) -> tuple[StripeRow, ...]:
    """Return the first ``rows`` rows of an array of equal members, or of every part if members are divided into parts.

    RAID 1 has no chunks, so a row is one block of data, of any size. ``layout`` and the exceptions are those of
    ``level_geometry``.
    """
    is_far = isinstance(level, Raid10) and level.layout is Raid10Layout.FAR
    stripe_rows = level.copies if isinstance(level, Raid10) and level.layout is Raid10Layout.OFFSET else 1
    stripes = -(-rows // stripe_rows)
    # More chunks than are shown, because the last rows of RAID 10 on an odd number of members are not used in full.
    chunks = (rows + level.copies) * level.copies if isinstance(level, Raid10) else rows
    # With chunks of this size a stripe of RAID 1 is a row too.
    chunk = RESYNC_BLOCK_SECTORS
    geometry = level_geometry(level, layout, members, chunk, chunks * chunk)
    found = []
    for number in range(stripes):
        for index, cells in enumerate(geometry.stripe(number).rows):
            part, row = (index, number) if is_far else (0, number * stripe_rows + index)
            found.append(StripeRow(part, row, tuple(cell for cell in cells if cell)))
    return tuple(sorted((each for each in found if each.row < rows), key=lambda each: (each.part, each.row)))


def period_rows(level: Level, members: int) -> int:
    """Return the number of rows after which the pattern of ``stripe_rows`` repeats."""
    if isinstance(level, Raid10):
        return 1 if level.layout is Raid10Layout.FAR else level.copies
    if level.name in (LevelName.RAID5, LevelName.RAID6):
        # The layouts that end in -6 rotate over all members except the last.
        return members * (members - 1)
    return 1
