"""Signatures on a device, from its first and last bytes, with the names that blkid(8) uses. Pure.

blkid knows more, but it is a process that reads each device in many places. This module is for checks that must be
cheap, and for machines without blkid.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import msgspec

from lab.disks.inventory import DiskEnds
from lab.tomlfile import read_toml

FIRST_BYTES = 68 * 1024
"""Bytes examined at the beginning of a device: the last signature is that of btrfs."""
RAID_MEMBER = "linux_raid_member"
PARTITION_TABLE = "dos"

_OLD_RAID = bytes.fromhex("fc4e2ba900000000")
_EXT = slice(1080, 1082)
_EXT_MAGIC = b"\x53\xef"
_EXT_FEATURES = slice(1116, 1128)
_HAS_JOURNAL = 4
_EXT3_INCOMPATIBLE, _EXT3_READ_ONLY = 0x2 | 0x4 | 0x10, 0x1 | 0x2 | 0x4
"""Features that ext3 has too (fs/ext4/ext4.h)."""
_BOOT_MARK = slice(510, 512)
_PARTITIONS = slice(446, 510)
_PARTITION_BYTES = 16
_ZFS_LABEL = slice(16 * 1024, 32 * 1024)
"""The name-value list of the first label (vdev_label.c of OpenZFS)."""


class _Table(msgspec.Struct, frozen=True):
    text: tuple[tuple[str, tuple[int, ...], str], ...]
    hex: tuple[tuple[str, tuple[int, ...], str], ...]


@cache
def _known() -> tuple[tuple[str, int, bytes], ...]:
    """Type, place and bytes of each signature."""
    table = read_toml(Path(__file__).with_name("signatures.toml"), _Table)
    found = [(kind, places, text.encode()) for kind, places, text in table.text]
    found += [(kind, places, bytes.fromhex(digits)) for kind, places, digits in table.hex]
    return tuple((kind, place, magic) for kind, places, magic in found for place in places)


def signatures_in(ends: DiskEnds) -> tuple[str, ...]:
    """The types of signatures on a device, each once, sorted; ``ends.first`` must have ``FIRST_BYTES``."""
    first, last = ends.first, ends.last
    if not (any(first) or any(last) or any(ends.old_place)):
        return ()
    found = {
        kind
        for kind, place, magic in _known()
        if (first.startswith(magic, place) if place >= 0 else last.startswith(magic, len(last) + place))
    }
    if ends.old_place.startswith(_OLD_RAID):
        found.add(RAID_MEMBER)
    if first[_EXT] == _EXT_MAGIC:
        found.add(_ext_type(first[_EXT_FEATURES]))
    if b"pool_guid" in first[_ZFS_LABEL]:
        found.add("zfs_member")
    # Boot sectors of these file systems end with the same mark as a partition table.
    if not found & {"vfat", "ntfs", "exfat", "BitLocker", "gpt"} and _is_partition_table(first):
        found.add(PARTITION_TABLE)
    return tuple(sorted(found))


def _ext_type(features: bytes) -> str:
    """ext2, ext3 or ext4 by the three words of features, as libblkid tells them apart."""
    compatible, incompatible, read_only = (int.from_bytes(features[at : at + 4], "little") for at in (0, 4, 8))
    if incompatible & ~_EXT3_INCOMPATIBLE or read_only & ~_EXT3_READ_ONLY:
        return "ext4"
    return "ext3" if compatible & _HAS_JOURNAL else "ext2"


def _is_partition_table(first: bytes) -> bool:
    entries = first[_PARTITIONS]
    flags = entries[::_PARTITION_BYTES]
    return first[_BOOT_MARK] == b"\x55\xaa" and all(flag in (0, 0x80) for flag in flags)
