"""Where mdadm puts the data on a member: needed to predict the capacity of an array before it exists."""

from __future__ import annotations

from lab.arrays.levels import DEFAULT_CHUNK_BYTES, Level
from lab.units import KIB, MIB, SECTOR_BYTES

_SUPERBLOCK_AREA_SECTORS = 12 * 2


_PPL_AREA_SECTORS = MIB // SECTOR_BYTES


def data_offset_bytes(device_bytes: int, chunk_bytes: int | None, *, has_ppl: bool = False) -> int:
    """Bytes before the data on a member of ``device_bytes`` with 1.2 metadata.

    As validate_geometry1() in mdadm's super1.c: superblock, bitmap space and headroom for a reshape (about 0.1 %, at
    least two chunks), with PPL 1 MiB for it, rounded up to 1 MiB. mdadm remains free to differ; state comes from sysfs.
    """
    sectors = device_bytes // SECTOR_BYTES
    headroom = 128 * MIB // SECTOR_BYTES
    smallest = 0 if chunk_bytes is None else 2 * chunk_bytes // SECTOR_BYTES
    while (headroom << 10) > sectors and (chunk_bytes is None or headroom > smallest):
        headroom >>= 1
    needed = _SUPERBLOCK_AREA_SECTORS + _bitmap_space_sectors(sectors) + headroom + has_ppl * _PPL_AREA_SECTORS
    return -(-needed * SECTOR_BYTES // MIB) * MIB


def usable_bytes(
    level: Level, members: int, device_bytes: int, chunk_bytes: int | None = None, *, has_ppl: bool = False
) -> int:
    """Bytes that an array of equal disks of ``device_bytes`` should offer, metadata subtracted."""
    if level.minimum_members == 1:
        return device_bytes
    chunk = (chunk_bytes or DEFAULT_CHUNK_BYTES) if level.has_chunk else None
    member_bytes = device_bytes - data_offset_bytes(device_bytes, chunk, has_ppl=has_ppl)
    return level.capacity_bytes(members, member_bytes, chunk or DEFAULT_CHUNK_BYTES)


def _bitmap_space_sectors(sectors: int) -> int:
    """choose_bm_space() in mdadm's super1.c: 4, 64 or 128 KiB by the size of the device."""
    kib = KIB // SECTOR_BYTES
    if sectors < 64 * kib:
        return 0
    if sectors - 64 * kib >= 200 * MIB * kib:
        return 128 * kib
    return 64 * kib if sectors - 4 * kib > 8 * MIB * kib else 4 * kib
