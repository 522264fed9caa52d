"""md's superblock of version 1 (struct mdp_superblock_1 in linux/raid/md_p.h).

Programs on machines use this module too, so it imports only the standard library of Python 3.9.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

MAGIC = 0xA92B4EFC
SUPERBLOCK_OFFSET = 4096
"""The byte at which the superblock of version 1.2 begins."""
ROLES_OFFSET = 256
"""The size of the fixed part in bytes. The table of roles follows it, with two bytes for each device."""
SPARE_ROLE, FAULTY_ROLE, JOURNAL_ROLE = 0xFFFF, 0xFFFE, 0xFFFD
"""The roles of devices without a slot. The role of any other device is the number of its slot."""
RECOVERY_OFFSET, RESHAPE_ACTIVE = 2, 4
"""Bits of ``feature_map``."""

# "x" skips the bytes of fields that nothing reads.
_FIXED_PART = struct.Struct("<III4x16s32sQiI12xI8xQ16xQ16xQI22xHiQQ12xI32x")
assert _FIXED_PART.size == ROLES_OFFSET


class VersionOne(NamedTuple):
    """The fields of a superblock, under the kernel's names. Positions and sizes are in sectors."""

    magic: int
    major_version: int
    feature_map: int
    set_uuid: bytes
    set_name: bytes
    ctime: int
    level: int
    layout: int
    raid_disks: int
    reshape_position: int | None
    """The array's sector that a reshape has reached, or None if the array is not being reshaped."""
    data_offset: int
    recovery_offset: int
    dev_number: int
    bblog_size: int
    bblog_offset: int
    """The place of the bad-block log, relative to the superblock."""
    utime: int
    events: int
    max_dev: int
    """The number of devices in the table of roles on the disk."""
    dev_roles: tuple[int, ...]
    """The role of each device, by device number, as far as the data that were read contain the table."""

    @property
    def role(self) -> int:
        """The device's own role."""
        return role_in(self.dev_roles, self.dev_number)


def role_in(dev_roles: tuple[int, ...], dev_number: int) -> int:
    """Return the role of a device in a table of roles; devices that are not in it count as spares."""
    return dev_roles[dev_number] if dev_number < len(dev_roles) else SPARE_ROLE


def parse_version_one(data: bytes) -> VersionOne | None:
    """Parse the superblock at the start of ``data``, or return None if there is none."""
    if len(data) < ROLES_OFFSET:
        return None
    magic, major, features, *fields = _FIXED_PART.unpack_from(data)
    if magic != MAGIC or major != 1:
        return None
    devices = min(fields[-1], (len(data) - ROLES_OFFSET) // 2)
    roles = struct.unpack_from(f"<{devices}H", data, ROLES_OFFSET)
    found = VersionOne._make((magic, major, features, *fields, roles))
    return found if features & RESHAPE_ACTIVE else found._replace(reshape_position=None)
