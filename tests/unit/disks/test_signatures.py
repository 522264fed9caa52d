"""What the lab itself knows of what lies on a disk."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from lab.disks.inventory import FIRST_BYTES, ends_of_file, signatures_in
from lab.units import MIB

GPT_COPY = b"EFI PART"
SIZE = 32 * MIB


def disk(path: Path, *writings: tuple[int, bytes], size: int = SIZE) -> Path:
    """An image with these bytes at these places; negative ones count from the end."""
    with path.open("wb") as file:
        file.truncate(size)
        for place, data in writings:
            file.seek(place if place >= 0 else size + place)
            file.write(data)
    return path


def found(path: Path) -> tuple[str, ...]:
    with path.open("rb") as file:
        return signatures_in(ends_of_file(file.fileno(), FIRST_BYTES))


def test_a_blank_disk_carries_nothing(tmp_path: Path) -> None:
    assert found(disk(tmp_path / "disk")) == ()


@pytest.mark.parametrize(
    ("place", "data", "kind"),
    [
        (-512, GPT_COPY, "gpt"),
        (-4096, GPT_COPY, "gpt"),
        (512, GPT_COPY, "gpt"),
        (-1024, b"Intel Raid ISM Cfg Sig. 1.3.00", "isw_raid_member"),
        (-512, b"\xde\x11\xde\x11", "ddf_raid_member"),
        (512, b"LABELONE", "LVM2_member"),
        (0, b"LUKS\xba\xbe\0\2", "crypto_LUKS"),
        (16384, b"SKUL\xba\xbe", "crypto_LUKS"),
        (65600, b"_BHRfS_M", "btrfs"),
        (32769, b"CD001", "iso9660"),
        (0, b"SFOZ", "zonefs"),
        (16400, b"version\0\0\0pool_guid", "zfs_member"),
        (510, b"\x55\xaa", "dos"),
        (4096, bytes.fromhex("fc4e2ba901000000"), "linux_raid_member"),
        (-8192, bytes.fromhex("fc4e2ba901000000"), "linux_raid_member"),
        (-65536, bytes.fromhex("fc4e2ba9000000005a000000"), "linux_raid_member"),
    ],
)
def test_each_is_found_where_it_lies(tmp_path: Path, place: int, data: bytes, kind: str) -> None:
    assert found(disk(tmp_path / "disk", (place, data))) == (kind,)


def test_metadata_at_the_end_of_an_odd_size(tmp_path: Path) -> None:
    size = SIZE + 3 * 512
    old = size // 65536 * 65536 - 65536
    assert found(disk(tmp_path / "old", (old, bytes.fromhex("fc4e2ba900000000")), size=size)) == ("linux_raid_member",)
    assert found(disk(tmp_path / "gpt", (-512, GPT_COPY), size=size)) == ("gpt",)


def test_several_at_once(tmp_path: Path) -> None:
    image = disk(tmp_path / "disk", (512, b"LABELONE"), (-8192, bytes.fromhex("fc4e2ba901000000")), (-512, GPT_COPY))
    assert found(image) == ("LVM2_member", "gpt", "linux_raid_member")


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (("mkfs.ext4", "-q", "-F"), "ext4"),
        (("mkfs.ext3", "-q", "-F"), "ext3"),
        (("mkfs.ext2", "-q", "-F"), "ext2"),
        (("mkswap",), "swap"),
        (("mkfs.xfs", "-q", "-f"), "xfs"),
    ],
)
def test_what_the_usual_programs_make(tmp_path: Path, command: tuple[str, ...], kind: str) -> None:
    program = shutil.which(command[0], path="/usr/sbin:/sbin:/usr/bin:/bin")
    assert program, f"{command[0]} is not installed"
    image = disk(tmp_path / "disk", size=320 * MIB)
    subprocess.run([program, *command[1:], str(image)], check=True, timeout=60, capture_output=True)
    assert found(image) == (kind,)
