"""Where md puts each sector, both ways, by one formula each: what all levels have in common, parity levels and mirrors.

Sectors (512 bytes) of the array count from its start, sectors of a member from the start of its data. The other levels:
``lab.microscope.copies`` (RAID 10), ``lab.microscope.zones`` (RAID 0, linear).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

from lab.arrays.stripes import ChunkKind
from lab.errors import ArrayError
from lab.microscope.rotations import ParityRow, parity_row
from lab.units import KIB, SECTOR_BYTES

MIRROR_UNIT_SECTORS = 64 * KIB // SECTOR_BYTES
"""Of a mirror, what counts as a stripe: what md compares at once (RESYNC_BLOCK_SIZE in drivers/md/raid1-10.c)."""


@dataclass(frozen=True, slots=True)
class MemberPlace:
    """Where a member has something of a sector."""

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
    """The array's sector that lies there; for parity every sector that it protects, in the order of the data."""
    copy: int = 0


@dataclass(frozen=True, slots=True)
class StripeCell:
    """One chunk of one member in a stripe."""

    slot: int
    sector: int
    """Its first."""
    kind: ChunkKind
    number: int
    """Which chunk of the array's data; for parity, the stripe."""
    copy: int = 0
    first_sector: int = 0
    """The array's first sector in it; for parity the stripe's."""

    @property
    def words(self) -> str:
        """``data 12``, ``copy 1 of 12``, ``P``."""
        if self.kind.is_parity:
            return self.kind.value
        return f"copy {self.copy} of {self.number}" if self.copy else f"data {self.number}"


@dataclass(frozen=True, slots=True)
class StripeMap:
    """All chunks of a stripe."""

    number: int
    first_sector: int
    """The array's first sector in it."""
    sectors: int
    """How many of the array's sectors lie in it."""
    cell_sectors: int
    """Of each chunk; the last stripe of a mirror may be short."""
    rows: tuple[tuple[StripeCell | None, ...], ...]
    """By slot; several rows where a stripe lies in several of each member (RAID 10). None: a member has nothing."""

    @property
    def cells(self) -> tuple[StripeCell, ...]:
        """All, row by row."""
        return tuple(cell for row in self.rows for cell in row if cell)

    def cell_at(self, slot: int, byte: int) -> tuple[StripeCell, int] | None:
        """The chunk in which this byte of a member's part of the stripe lies, and the byte of the chunk."""
        mine = [row[slot] for row in self.rows]
        index, rest = divmod(byte, self.cell_sectors * SECTOR_BYTES)
        cell = mine[index] if 0 <= index < len(mine) else None
        return (cell, rest) if cell else None


class ArrayGeometry(ABC):
    """Shape of an array: from a sector to its places, and from a place to its sector."""

    __slots__ = ()
    has_stripes: ClassVar[bool] = True

    @property
    @abstractmethod
    def size_sectors(self) -> int:
        """What the array offers in this shape."""

    @property
    @abstractmethod
    def slots(self) -> int:
        """How many members there are to be."""

    @property
    @abstractmethod
    def stripe_count(self) -> int:
        """How many stripes there are; the last may be used in part."""

    @abstractmethod
    def places(self, sector: int) -> tuple[MemberPlace, ...]:
        """Where the sector lies: first what md calls the first copy."""

    def parities(self, sector: int) -> tuple[MemberPlace, ...]:
        """Where the parity over the sector lies; nothing on levels without."""
        return ()

    @abstractmethod
    def stripe_of(self, sector: int) -> int:
        """The stripe in which a sector lies."""

    @abstractmethod
    def content(self, slot: int, sector: int) -> MemberContent | None:
        """What a member holds there; None for room that this shape does not use."""

    @abstractmethod
    def stripe(self, number: int) -> StripeMap:
        """All chunks of a stripe. Raises ArrayError for one that is not there."""

    def _check_stripe(self, number: int) -> None:
        if not 0 <= number < self.stripe_count:
            raise ArrayError(
                f"there is no stripe {number}", hint=f"stripes go from 0 to {self.stripe_count - 1} on this array"
            )


@dataclass(frozen=True, slots=True)
class ParityGeometry(ArrayGeometry):
    """RAID 4, 5 and 6. ``layout`` is md's number; a stripe is one row of chunks."""

    layout: int
    raid_disks: int
    chunk_sectors: int
    member_sectors: int
    """Of each member that the array uses."""
    has_q: bool = False

    @property
    def size_sectors(self) -> int:
        return self.stripe_count * self.data_count * self.chunk_sectors

    @property
    def slots(self) -> int:
        return self.raid_disks

    @property
    def data_count(self) -> int:
        """Chunks of data in a stripe."""
        return self.raid_disks - (2 if self.has_q else 1)

    @property
    def stripe_count(self) -> int:
        return self.member_sectors // self.chunk_sectors

    def row(self, number: int) -> ParityRow:
        """Which slot has what in a stripe."""
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
        stripe, rest = divmod(sector, self.chunk_sectors)
        if stripe >= self.stripe_count:
            return None
        row, first = self.row(stripe), stripe * self.data_count
        index = row.data_index(slot)
        if index is None:
            kind = ChunkKind.P if slot == row.p_slot else ChunkKind.Q
            over = tuple((first + number) * self.chunk_sectors + rest for number in range(self.data_count))
            return MemberContent(kind, stripe, over)
        return MemberContent(ChunkKind.DATA, stripe, ((first + index) * self.chunk_sectors + rest,))

    def stripe(self, number: int) -> StripeMap:
        self._check_stripe(number)
        first, place = number * self.data_count * self.chunk_sectors, number * self.chunk_sectors
        row = self.row(number)
        cells = []
        for slot in range(self.raid_disks):
            index = row.data_index(slot)
            if index is None:
                kind = ChunkKind.P if slot == row.p_slot else ChunkKind.Q
                cells.append(StripeCell(slot, place, kind, number, 0, first))
            else:
                start = first + index * self.chunk_sectors
                cells.append(StripeCell(slot, place, ChunkKind.DATA, start // self.chunk_sectors, 0, start))
        return StripeMap(number, first, self.data_count * self.chunk_sectors, self.chunk_sectors, (tuple(cells),))


@dataclass(frozen=True, slots=True)
class MirrorGeometry(ArrayGeometry):
    """RAID 1: every member holds everything. A stripe is what md compares at once."""

    raid_disks: int
    member_sectors: int

    @property
    def size_sectors(self) -> int:
        return self.member_sectors

    @property
    def slots(self) -> int:
        return self.raid_disks

    @property
    def stripe_count(self) -> int:
        return -(-self.member_sectors // MIRROR_UNIT_SECTORS)

    def stripe_of(self, sector: int) -> int:
        return sector // MIRROR_UNIT_SECTORS

    def places(self, sector: int) -> tuple[MemberPlace, ...]:
        return tuple(MemberPlace(copied(copy), copy, sector, copy) for copy in range(self.raid_disks))

    def content(self, slot: int, sector: int) -> MemberContent | None:
        if sector >= self.member_sectors:
            return None
        return MemberContent(copied(slot), self.stripe_of(sector), (sector,), slot)

    def stripe(self, number: int) -> StripeMap:
        self._check_stripe(number)
        first = number * MIRROR_UNIT_SECTORS
        length = min(MIRROR_UNIT_SECTORS, self.member_sectors - first)
        cells = tuple(StripeCell(slot, first, copied(slot), number, slot, first) for slot in range(self.raid_disks))
        return StripeMap(number, first, length, length, (cells,))


def copied(copy: int) -> ChunkKind:
    """Data for the first place, a copy for each further one."""
    return ChunkKind.COPY if copy else ChunkKind.DATA
