"""What a member says of its array: superblocks of version 1.2 on disks (linux/raid/md_p.h, mdp_superblock_1)."""

from __future__ import annotations

import struct
import uuid
from dataclasses import dataclass

SUPERBLOCK_OFFSET = 4096
SUPERBLOCK_BYTES = 1024
"""The fixed part and a table of roles for up to 384 devices (md(4))."""

_MAGIC = 0xA92B4EFC
_ROLES_OFFSET = 256
_SPARE, _FAULTY, _JOURNAL = 0xFFFF, 0xFFFE, 0xFFFD
_RECOVERY_FEATURE = 2
_RESHAPE_FEATURE = 4


@dataclass(frozen=True, slots=True)
class Superblock:
    """What one device says. Roles: the number of a slot, or one of the words below."""

    array_uuid: str
    array_name: str
    """Such as ``any:0``."""
    level_number: int
    layout_number: int
    slot_count: int
    device_number: int
    roles: tuple[int, ...]
    """What the array thought of each device, by device number, when this superblock was written."""
    events: int
    updated_seconds: int
    is_incomplete: bool
    """In a slot, but a rebuild has not copied everything yet."""
    is_reshaping: bool

    def role_of(self, device_number: int) -> int:
        """The role of a device in this superblock's table; unknown devices count as spares."""
        return self.roles[device_number] if device_number < len(self.roles) else _SPARE

    @property
    def own_role(self) -> int:
        return self.role_of(self.device_number)


def is_spare(role: int) -> bool:
    """Whether the role is that of a spare, or of a device that is no longer known."""
    return role == _SPARE


def is_journal(role: int) -> bool:
    """Whether the role is that of a journal."""
    return role == _JOURNAL


def slot_of(role: int) -> int | None:
    """The slot's number; None for a spare, a journal and a faulty device."""
    return None if role in (_SPARE, _FAULTY, _JOURNAL) else role


def parse_superblock(data: bytes) -> Superblock | None:
    """The superblock in the first ``SUPERBLOCK_BYTES`` of ``data``; None if there is none of this version."""
    if len(data) < _ROLES_OFFSET:
        return None
    magic, major, features = struct.unpack_from("<III", data)
    if magic != _MAGIC or major != 1:
        return None
    level, layout = struct.unpack_from("<iI", data, 72)
    (slots,) = struct.unpack_from("<I", data, 92)
    (device_number,) = struct.unpack_from("<I", data, 160)
    updated, events = struct.unpack_from("<QQ", data, 192)
    (device_slots,) = struct.unpack_from("<I", data, 220)
    roles = min(device_slots, (len(data) - _ROLES_OFFSET) // 2)
    return Superblock(
        array_uuid=str(uuid.UUID(bytes=data[16:32])),
        array_name=data[32:64].partition(b"\0")[0].decode("utf-8", "replace"),
        level_number=level,
        layout_number=layout,
        slot_count=slots,
        device_number=device_number,
        roles=struct.unpack_from(f"<{roles}H", data, _ROLES_OFFSET),
        events=events,
        # The low 40 bits are seconds, the rest microseconds.
        updated_seconds=updated & 0xFFFFFFFFFF,
        is_incomplete=bool(features & _RECOVERY_FEATURE),
        is_reshaping=bool(features & _RESHAPE_FEATURE),
    )
