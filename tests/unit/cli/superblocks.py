"""Superblocks of version 1.2 for tests, laid out as linux/raid/md_p.h says."""

from __future__ import annotations

import base64
import struct
import uuid
from collections.abc import Sequence

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


def as_read(disks: Sequence[bytes | None]) -> str:
    """What the command that reads all superblocks prints."""
    return base64.b64encode(b"".join(bytes(4096) + (data or bytes(1024)) for data in disks)).decode()


def as_read_directly(disks: Sequence[bytes | None]) -> str:
    """What the program that reads them past the page cache prints."""
    return "".join(f"{base64.b64encode(data or bytes(1024)).decode()}\n" for data in disks)
