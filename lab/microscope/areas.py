"""What else a member holds beside data: superblock, bitmap, bad-block log, PPL, and room that nothing uses.

Sectors count from the start of the device. Sources: struct mdp_superblock_1 (include/uapi/linux/raid/md_p.h),
super_90_load() and super_1_load() in drivers/md/md.c, md_bitmap_storage_alloc() in drivers/md/md-bitmap.c.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import StrEnum

from lab.microscope.reading import MappedArray, MappedMember
from lab.units import SECTOR_BYTES

SUPERBLOCK_SECTORS = 8
"""What md keeps for a superblock: it reads and writes up to 4 KiB (super_1_load)."""
_MAGIC = 0xA92B4EFC
_FIXED_BYTES = 256
_BITMAP_HEAD_BYTES = 256
_PAGE_BYTES = 4096
_BAD_BLOCKS = 8
_OLD_RESERVED_SECTORS = 128


class AreaKind(StrEnum):
    """What an area of a member is for."""

    SUPERBLOCK = "superblock"
    BITMAP = "write-intent bitmap"
    BAD_BLOCKS = "bad-block log"
    PPL = "partial parity log"
    JOURNAL = "journal"
    DATA = "data"
    BEFORE = "unused, before the data"
    """The headroom that mdadm leaves for a reshape, as far as nothing else lies there."""
    TAIL = "unused tail"


@dataclass(frozen=True, slots=True)
class MemberArea:
    """A stretch of a member."""

    kind: AreaKind
    start: int
    length: int

    def holds(self, sector: int) -> bool:
        """Whether the sector is in it."""
        return self.start <= sector < self.start + self.length


def superblock_sector(metadata: str, device_sectors: int) -> int | None:
    """Where the superblock lies; None for metadata that md does not keep itself (external, none)."""
    if metadata == "1.0":
        return (device_sectors - 16) & ~7
    if metadata == "0.90":
        return (device_sectors & ~(_OLD_RESERVED_SECTORS - 1)) - _OLD_RESERVED_SECTORS
    return {"1.1": 0, "1.2": 8}.get(metadata)


def bad_block_log(superblock: bytes, superblock_start: int) -> MemberArea | None:
    """The bad-block log that a superblock of version 1 tells of; None where none is kept."""
    if len(superblock) < _FIXED_BYTES or struct.unpack_from("<II", superblock) != (_MAGIC, 1):
        return None
    length, offset = struct.unpack_from("<Hi", superblock, 186)
    return MemberArea(AreaKind.BAD_BLOCKS, superblock_start + offset, length) if offset and length else None


def superblock_length(superblock: bytes) -> int:
    """Sectors of the superblock itself: 256 bytes, and two for the role of each device."""
    if len(superblock) < _FIXED_BYTES or struct.unpack_from("<II", superblock) != (_MAGIC, 1):
        return SUPERBLOCK_SECTORS
    (devices,) = struct.unpack_from("<I", superblock, 220)
    needed: int = -(-(_FIXED_BYTES + 2 * devices) // SECTOR_BYTES)
    return min(needed, SUPERBLOCK_SECTORS)


def areas_of(shape: MappedArray, member: MappedMember, superblock: bytes) -> tuple[MemberArea, ...]:
    """Every area of a member, in order, gaps named. ``superblock`` is what it holds in its superblock's sectors."""
    found: list[MemberArea] = []
    start = superblock_sector(shape.metadata, member.device_sectors)
    if start is not None:
        found.append(MemberArea(AreaKind.SUPERBLOCK, start, superblock_length(superblock)))
        log = bad_block_log(superblock, start)
        found += [log] if log else []
        if shape.bitmap:
            # sb_start and offset: write_sb_page in drivers/md/md-bitmap.c.
            found.append(MemberArea(AreaKind.BITMAP, start + shape.bitmap.offset, _bitmap_sectors(shape)))
    if member.ppl[1]:
        found.append(MemberArea(AreaKind.PPL, *member.ppl))
    kind = AreaKind.JOURNAL if "journal" in member.flags else AreaKind.DATA
    first, end = _data_of(shape, member)
    found.append(MemberArea(kind, first, end - first))
    return _with_gaps(found, first, member.device_sectors)


def _data_of(shape: MappedArray, member: MappedMember) -> tuple[int, int]:
    """From where to where data lie, in the shape before a reshape or after it."""
    offsets = (member.offset, member.new_offset) if shape.reshaping else (member.offset,)
    used = getattr(shape.geometry, "member_sectors", member.room)
    if "journal" in member.flags:
        used = member.room
    return min(offsets), max(offsets) + used


def _bitmap_sectors(shape: MappedArray) -> int:
    """What the bitmap takes: a head of 256 bytes, a bit for each of its chunks, in whole pages."""
    assert shape.bitmap is not None
    covered = getattr(shape.geometry, "member_sectors", 0) * SECTOR_BYTES
    bits = -(-covered // shape.bitmap.chunk_bytes) if shape.bitmap.chunk_bytes else 0
    needed = -(-(_BITMAP_HEAD_BYTES + -(-bits // 8)) // _PAGE_BYTES) * _PAGE_BYTES // SECTOR_BYTES
    return min(needed, shape.bitmap.space) if shape.bitmap.space else needed


def _with_gaps(found: list[MemberArea], data_start: int, device_sectors: int) -> tuple[MemberArea, ...]:
    filled: list[MemberArea] = []
    at = 0
    for area in sorted(found, key=lambda each: each.start):
        if area.start > at:
            filled.append(_gap(at, area.start, data_start))
        filled.append(area)
        at = max(at, area.start + area.length)
    if at < device_sectors:
        filled.append(_gap(at, device_sectors, data_start))
    return tuple(filled)


def _gap(start: int, end: int, data_start: int) -> MemberArea:
    return MemberArea(AreaKind.BEFORE if start < data_start else AreaKind.TAIL, start, end - start)
