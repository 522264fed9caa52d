"""The offsets are those of struct mdp_superblock_1 in linux/raid/md_p.h, written out here a second time."""

from __future__ import annotations

import struct

import pytest

from lab.arrays.superblock_program import JOURNAL_ROLE, RESHAPE_ACTIVE, SPARE_ROLE, parse_version_one

FIELDS = {
    "magic": (0, "I", 0xA92B4EFC),
    "major_version": (4, "I", 1),
    "feature_map": (8, "I", RESHAPE_ACTIVE),
    "set_uuid": (16, "16s", bytes(range(16))),
    "set_name": (32, "32s", b"any:7".ljust(32, b"\0")),
    "ctime": (64, "Q", 1_795_258_387),
    "level": (72, "i", -4),
    "layout": (76, "I", 0x102),
    "raid_disks": (92, "I", 3),
    "reshape_position": (104, "Q", 4096),
    "data_offset": (128, "Q", 2048),
    "recovery_offset": (152, "Q", 680),
    "dev_number": (160, "I", 3),
    "bblog_size": (186, "H", 8),
    "bblog_offset": (188, "i", -16),
    "utime": (192, "Q", 1_795_258_400),
    "events": (200, "Q", 43),
    "max_dev": (220, "I", 4),
    "dev_roles": (256, "4H", (0, 1, 2, JOURNAL_ROLE)),
}


def superblock(**changed: int) -> bytes:
    data = bytearray(1024)
    for name, (offset, form, value) in FIELDS.items():
        value = changed.get(name, value)
        struct.pack_into(f"<{form}", data, offset, *(value if isinstance(value, tuple) else (value,)))
    return bytes(data)


def test_every_field_is_read_from_its_offset() -> None:
    parsed = parse_version_one(superblock())
    assert parsed
    assert parsed._asdict() == {name: value for name, (_, _, value) in FIELDS.items()}
    assert parsed.role == JOURNAL_ROLE


def test_the_position_counts_only_during_a_reshape() -> None:
    parsed = parse_version_one(superblock(feature_map=0))
    assert parsed
    assert parsed.reshape_position is None


def test_a_table_of_roles_that_was_read_in_part_ends_there() -> None:
    parsed = parse_version_one(superblock(max_dev=1920)[:260])
    assert parsed
    assert (parsed.max_dev, parsed.dev_roles, parsed.role) == (1920, (0, 1), SPARE_ROLE)


@pytest.mark.parametrize(
    "data", [b"", bytes(1024), superblock()[:255], superblock(major_version=0), superblock(magic=1)]
)
def test_anything_else_is_no_superblock(data: bytes) -> None:
    assert parse_version_one(data) is None
