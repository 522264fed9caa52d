"""Superblocks of version 1.2 for tests, laid out as in linux/raid/md_p.h."""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from collections.abc import Sequence

from lab.arrays.superblock_program import SUPERBLOCK_OFFSET
from lab.disks.inventory import FIRST_BYTES, LAST_BYTES, DiskEnds

UUID = "8289b1b6-da01-902e-5c34-d7ae6fb932ca"


def superblock(
    number: int,
    roles: Sequence[int],
    *,
    name: str = "any:0",
    level: int = 5,
    slots: int = 3,
    events: int = 10,
    array: str = UUID,
    features: int = 0,
    updated: int = 1_795_258_387,
) -> bytes:
    data = bytearray(1024)
    struct.pack_into("<III", data, 0, 0xA92B4EFC, 1, features)
    data[16:32] = uuid.UUID(array).bytes
    data[32 : 32 + len(name)] = name.encode()
    struct.pack_into("<iI", data, 72, level, 2)
    struct.pack_into("<I", data, 92, slots)
    struct.pack_into("<I", data, 160, number)
    struct.pack_into("<QQ", data, 192, updated, events)
    struct.pack_into("<I", data, 220, len(roles))
    struct.pack_into(f"<{len(roles)}H", data, 256, *roles)
    return bytes(data)


READS = ("agent:read-heads",)
"""The request to a fake machine for the first bytes of disks."""


def ends(disks: Sequence[bytes | None]) -> list[DiskEnds]:
    """The ends of disks with these superblocks, of the usual lengths."""
    return [
        DiskEnds((bytes(SUPERBLOCK_OFFSET) + (data or b"")).ljust(FIRST_BYTES, b"\0"), bytes(4096), bytes(LAST_BYTES))
        for data in disks
    ]


def as_read(disks: Sequence[bytes | None]) -> str:
    """The output of the program that reads these disks."""
    read = b"".join(each.first + each.old_place + each.last for each in ends(disks))
    return base64.b64encode(zlib.compress(read)).decode()
