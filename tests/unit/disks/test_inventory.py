from __future__ import annotations

import base64
import errno
import os
import shutil
import subprocess
import tracemalloc
import zlib
from pathlib import Path

import pytest

from lab.disks import head_program
from lab.disks.inventory import (
    LAST_BYTES,
    DiskEnds,
    ends_of_file,
    parse_mountinfo,
    read_devices,
    read_ends,
    resolve_node,
    signatures_in,
)
from lab.disks.lab import virtio_disks
from lab.errors import LabError
from lab.units import MIB
from tests.unit.disks.machines import MOUNTINFO, SIZE, Device, add, machine_of
from tests.unit.fakes import FakeMachine, Scripted, as_machine


def test_a_device_with_everything() -> None:
    machine = machine_of(
        Device(
            "sda",
            number="8:0",
            holders=("dm-0", "md0"),
            entries=("sda1", "sda2", "sd", "device"),
            read_only=True,
            serial="RAIDLAB-07",
        ),
        mounts="40 27 8:0 / /a rw - ext4 /dev/sda rw\n41 27 8:0 /sub /b rw - ext4 /dev/sda rw\n"
        "42 27 8:1 / /c rw - ext4 /dev/sda1 rw\n",
        swaps="/dev/sda partition 1 0 -2\n",
    )
    add(machine, Device("sdb", number="8:16"), Device("cciss!c0d0"))
    machine.files["/sys/block/cciss!c0d0/device/serial"] = "  S4  \n"
    found = read_devices(machine)
    assert (found["cciss!c0d0"].node, found["cciss!c0d0"].serial) == ("/dev/cciss/c0d0", "S4")
    plain, device = found["sdb"], found["sda"]
    assert (plain.mounted_on, plain.is_swap, plain.is_read_only, plain.serial) == ((), False, False, "")
    assert (device.node, device.device_number, device.size_bytes) == ("/dev/sda", "8:0", SIZE)
    assert (device.holders, device.members, device.partitions) == (("dm-0", "md0"), (), ("sda1", "sda2"))
    assert (device.mounted_on, device.is_swap, device.is_read_only) == (("/a", "/b"), True, True)
    assert device.serial == "RAIDLAB-07"
    assert device.partition_users == ("/c",)


def test_offers_without_a_size_are_left_out_and_an_empty_drive_is_not() -> None:
    names = ("loop0", "nbd3", "ram1", "zram0", "sr0", "md0")
    machine = machine_of(*(Device(name, size_bytes=0) for name in names), Device("loop1"))
    assert set(read_devices(machine)) == {"sr0", "md0", "loop1"}


def test_two_round_trips_of_each_sort_however_many_devices() -> None:
    machine = machine_of(*(Device(f"sd{letter}") for letter in "abcdefgh"), Device("loop0"))
    assert len(read_devices(machine)) == 9
    assert (len(machine.listings), len(machine.reads)) == (2, 2)


def test_reading_some_devices_includes_holders_and_members() -> None:
    machine = machine_of(
        Device("sda", holders=("md0",)),
        Device("sdb", holders=("md0",)),
        Device("md0", number="9:0", members=("sda", "sdb")),
        Device("sdc"),
    )
    assert set(read_devices(machine, ["sda"])) == {"sda", "md0"}
    assert read_devices(machine, ["sda"])["md0"].members == ("sda", "sdb")
    assert set(read_devices(machine, ["md0"])) == {"md0", "sda", "sdb"}
    assert read_devices(machine, ["absent"]) == {}


def test_mountinfo_as_the_kernel_writes_it() -> None:
    found = parse_mountinfo(MOUNTINFO + "torn 1\n")
    assert {key: places for key, places in found.items() if ":" in key} == {
        "0:21": ("/proc",),
        "0:22": ("/sys",),
        "0:6": ("/dev",),
    }
    line = "36 35 0:31 / /data rw,noatime shared:1 - btrfs /dev/sdb rw,space_cache\n"
    assert parse_mountinfo(line) == {"0:31": ("/data",), "/dev/sdb": ("/data",)}


@pytest.mark.parametrize("message", ["", "/etc/passwd\n"])
def test_a_missing_device_is_refused(message: str) -> None:
    with pytest.raises(LabError, match="there is no device"):
        resolve_node(FakeMachine(answers={("readlink",): Scripted(message, status=1)}), "/dev/disk/by-id/x")
    machine = FakeMachine(answers={("readlink", "-e", "/dev/disk/by-id/x"): Scripted("/dev/sdb\n")})
    assert resolve_node(machine, "/dev/disk/by-id/x") == "/dev/sdb"


def test_virtio_disks_are_found_by_their_serials() -> None:
    machine = machine_of(
        Device("vdb", serial="RAIDLAB-02"), Device("vdc", serial="RAIDLAB-01"), Device("vda", serial="other")
    )
    assert [(disk.name, disk.node, disk.serial) for disk in virtio_disks(machine)] == [
        ("disk01", "/dev/vdc", "RAIDLAB-01"),
        ("disk02", "/dev/vdb", "RAIDLAB-02"),
    ]


@pytest.mark.parametrize(
    ("page", "serial"),
    [
        (b"\x00\x80\x00\x0aRAIDLAB-01", "RAIDLAB-01"),
        (b"\x00\x80\x00\x14            RAIDLAB-16", "RAIDLAB-16"),
        (b"\x00\x80\x00\x00", ""),
        (b"", ""),
        (b"RAIDLAB-01", ""),
    ],
)
def test_the_serial_of_a_scsi_disk_is_in_its_page(page: bytes, serial: str) -> None:
    fake = machine_of(Device("sdb"))
    fake.files["/sys/block/sdb/device/vpd_pg80"] = page.decode("utf-8", "replace")
    assert read_devices(as_machine(fake))["sdb"].serial == serial


def test_a_page_that_cannot_be_read_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "disk").write_bytes(b"a" * 12_288)
    read = os.preadv

    def broken(fd: int, views: list[memoryview], offset: int) -> int:
        size = read(fd, views, offset)
        if offset <= 4096 < offset + size:
            raise OSError(errno.EIO, "Input/output error")
        return size

    monkeypatch.setattr(os, "preadv", broken)
    packed = head_program.main(["12288", "0", str(tmp_path / "disk"), str(tmp_path / "absent")], lambda: False)
    page = bytes(4096)
    disk = b"a" * 4096 + page + b"a" * 4096
    assert zlib.decompress(base64.b64decode(packed)) == disk + page + bytes(len(disk)) + page


def test_ends_are_whole_pages_each_under_its_node() -> None:
    wanted = {
        f"/dev/sd{word}": DiskEnds(word.encode() * 8192, word.upper().encode() * 4096, b"-" * LAST_BYTES)
        for word in "ab"
    }
    data = b"".join(each.first + each.old_place + each.last for each in wanted.values())
    answer = Scripted(stdout=base64.b64encode(zlib.compress(data)).decode())
    machine = FakeMachine(answers={("agent:read-heads", "8192", str(LAST_BYTES)): answer})
    assert read_ends(machine, ["/dev/sda", "/dev/sdb"], 5000) == wanted


@pytest.mark.parametrize(
    "message",
    [
        "no base64: \N{SNOWMAN}",
        base64.b64encode(b"no zlib").decode(),
        base64.b64encode(zlib.compress(b"too short")).decode(),
        base64.b64encode(zlib.compress(b"a" * 2 * (12288 + LAST_BYTES))[:-8]).decode(),
    ],
    ids=["not-packed", "not-compressed", "short", "cut"],
)
def test_heads_that_came_back_damaged_are_refused(message: str) -> None:
    machine = FakeMachine(answers={("agent:read-heads",): Scripted(stdout=message)})
    with pytest.raises(LabError, match="returned damaged data"):
        read_ends(machine, ["/dev/sda", "/dev/sdb"], 8192)


def test_a_head_that_inflates_without_end_takes_no_more_memory_than_was_asked_for() -> None:
    answer = base64.b64encode(zlib.compress(bytes(8 * 1024**2))).decode()
    machine = FakeMachine(answers={("agent:read-heads",): Scripted(stdout=answer)})
    tracemalloc.start()
    assert read_ends(machine, ["/dev/sda"], 8192)["/dev/sda"].first == bytes(8192)
    most_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most_bytes < 1024**2


@pytest.mark.parametrize("size", ["x", "-8", "9" * 30, "1.5"])
def test_a_size_that_can_be_none_is_refused_with_its_file(size: str) -> None:
    machine = machine_of(Device("sda"))
    machine.files["/sys/block/sda/size"] = size
    with pytest.raises(LabError, match="sda/size on the machine contains"):
        read_devices(machine)


GPT_COPY = b"EFI PART"
IMAGE_BYTES = 32 * MIB


def disk(path: Path, *writings: tuple[int, bytes], size: int = IMAGE_BYTES) -> Path:
    """Create an image with these bytes at these places; negative places count from the end."""
    with path.open("wb") as file:
        file.truncate(size)
        for place, data in writings:
            file.seek(place if place >= 0 else size + place)
            file.write(data)
    return path


def found(path: Path) -> tuple[str, ...]:
    with path.open("rb") as file:
        return signatures_in(ends_of_file(file.fileno()))


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
    size = IMAGE_BYTES + 3 * 512
    old = size // 65536 * 65536 - 65536
    assert found(disk(tmp_path / "old", (old, bytes.fromhex("fc4e2ba900000000")), size=size)) == ("linux_raid_member",)
    assert found(disk(tmp_path / "gpt", (-512, GPT_COPY), size=size)) == ("gpt",)


def test_several_at_once_or_none(tmp_path: Path) -> None:
    image = disk(tmp_path / "disk", (512, b"LABELONE"), (-8192, bytes.fromhex("fc4e2ba901000000")), (-512, GPT_COPY))
    assert found(image) == ("LVM2_member", "gpt", "linux_raid_member")
    assert found(disk(tmp_path / "blank")) == ()


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
