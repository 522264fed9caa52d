"""Read the block devices of a machine from sysfs, the first and last bytes of disks, and the signatures there."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from lab.disks import head_program
from lab.errors import LabError
from lab.gates.decoding import read_count
from lab.machine import GuestProgram, Machine
from lab.tomlfile import read_toml
from lab.units import SECTOR_BYTES

FIRST_BYTES = 68 * 1024
"""Number of bytes that are examined at the beginning of a device. The farthest signature there is one of ufs."""
RAID_MEMBER = "linux_raid_member"
VOLUME_LABEL = "raidlab_volume"
ARRAY_METADATA = (RAID_MEMBER, VOLUME_LABEL)
"""The signatures of array metadata, which are on members of md arrays and on disks of the lab's own volumes."""
PARTITION_TABLE = "dos"

_OLD_RAID = bytes.fromhex("fc4e2ba900000000")
_EXT = slice(1080, 1082)
_EXT_MAGIC = b"\x53\xef"
_EXT_FEATURES = slice(1116, 1128)
_HAS_JOURNAL = 4
_EXT3_INCOMPATIBLE, _EXT3_READ_ONLY = 0x2 | 0x4 | 0x10, 0x1 | 0x2 | 0x4
"""Features that ext3 also has (fs/ext4/ext4.h)."""
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
    table = read_toml(Path(__file__).with_name("signatures.toml"), _Table)
    found = [(kind, places, text.encode()) for kind, places, text in table.text]
    found += [(kind, places, bytes.fromhex(digits)) for kind, places, digits in table.hex]
    return tuple((kind, place, magic) for kind, places, magic in found for place in places)


def signatures_in(ends: DiskEnds) -> tuple[str, ...]:
    """Return the different types of signatures on a device, sorted. ``ends.first`` must have ``FIRST_BYTES``."""
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
    """Return ext2, ext3 or ext4, depending on the three feature words of the superblock, as in libblkid."""
    compatible, incompatible, read_only = (int.from_bytes(features[at : at + 4], "little") for at in (0, 4, 8))
    if incompatible & ~_EXT3_INCOMPATIBLE or read_only & ~_EXT3_READ_ONLY:
        return "ext4"
    return "ext3" if compatible & _HAS_JOURNAL else "ext2"


def _is_partition_table(first: bytes) -> bool:
    entries = first[_PARTITIONS]
    flags = entries[::_PARTITION_BYTES]
    return first[_BOOT_MARK] == b"\x55\xaa" and all(flag in (0, 0x80) for flag in flags)


MAPPER = "/dev/mapper/"
READ_HEADS = GuestProgram(Path(head_program.__file__), "read-heads")

_UNINTERESTING = ("ram", "loop", "nbd", "zram")
"""Drivers that create many unused devices in advance. Their devices are listed only if they have a size."""


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """One device under /sys/block."""

    name: str
    device_number: str
    size_bytes: int
    serial: str
    holders: tuple[str, ...]
    members: tuple[str, ...]
    """The member devices if the device is an array."""
    partitions: tuple[str, ...]
    mounted_on: tuple[str, ...]
    is_swap: bool
    is_read_only: bool
    loop_file: str
    mapped_name: str = ""
    """The name under /dev/mapper if the device belongs to the device mapper."""
    partition_users: tuple[str, ...] = ()
    """What uses the device's partitions, such as mount points, devices stacked on them, or swap."""

    @property
    def node(self) -> str:
        return f"/dev/{self.name.replace('!', '/')}"


def kernel_names(machine: Machine, nodes: Iterable[str]) -> dict[str, str]:
    """Map nodes to kernel names, such as dm-0 for an existing /dev/mapper node (ABI/testing/sysfs-block-dm)."""
    nodes = tuple(nodes)
    names = {node: node.removeprefix("/dev/") for node in nodes if not node.startswith(MAPPER)}
    if len(names) == len(nodes):
        return names
    known = mapped_devices(machine)
    mapped = {node: node.removeprefix(MAPPER) for node in nodes if node.startswith(MAPPER)}
    return names | {node: known[name] for node, name in mapped.items() if name in known}


def mapped_devices(machine: Machine) -> dict[str, str]:
    """Map names under /dev/mapper to kernel names."""
    blocks = [name for name in machine.list_dirs(["/sys/block"])["/sys/block"] if name.startswith("dm-")]
    texts = machine.read([f"/sys/block/{block}/dm/name" for block in blocks]) if blocks else {}
    return {(texts[f"/sys/block/{block}/dm/name"] or "").strip(): block for block in blocks}


def read_devices(machine: Machine, only: Iterable[str] | None = None) -> dict[str, BlockDevice]:
    """Return every block device with a size, by kernel name.

    With ``only``, return these devices and those that are stacked above or below them. Beyond direct neighbours, only
    arrays and mappings are included. This is enough to find the disks at the bottom.
    """
    if only is None:
        blocks = machine.list_dirs(["/sys/block"])["/sys/block"]
        empty = absent(machine, filter(name_is_offer, blocks))
        names = tuple(name for name in blocks if name not in empty)
        listed = machine.list_dirs(_folders(names))
    else:
        names = tuple(dict.fromkeys(only))
        listed = machine.list_dirs(_folders(names))
        further = names
        is_first = True
        while further:
            related = {other for name in further for below in _STACK for other in listed[f"/sys/block/{name}/{below}"]}
            further = tuple(sorted(name for name in related - set(names) if is_first or name.startswith(_STACKED)))
            is_first = False
            if further:
                listed = {**listed, **machine.list_dirs(_folders(further))}
            names = (*names, *further)
    parts = {name: _partitions(name, listed) for name in names}
    folders = [f"/sys/block/{name}/{part}" for name in names for part in parts[name]]
    if folders:
        listed = {**listed, **machine.list_dirs([f"{folder}/holders" for folder in folders])}
    paths = [f"/sys/block/{name}/{attribute}" for name in names for attribute in _attributes(name)]
    paths += [f"{folder}/dev" for folder in folders]
    texts = machine.read(["/proc/self/mountinfo", "/proc/swaps", *paths])
    mounts = parse_mountinfo(texts["/proc/self/mountinfo"] or "")
    swaps = {line.split()[0] for line in (texts["/proc/swaps"] or "").splitlines()[1:] if line.strip()}
    devices = [_device(name, listed, texts, mounts, swaps) for name in names]
    # If a name has no device number, the kernel has no such device.
    return {device.name: device for device in devices if device.device_number}


_STACK = ("holders", "slaves")
_STACKED = ("md", "dm-")
"""Drivers of stacked devices, such as slices of disks, arrays of slices, or a volume on arrays."""


def _folders(names: Iterable[str]) -> list[str]:
    return [f"/sys/block/{name}{below}" for name in names for below in ("", *(f"/{each}" for each in _STACK))]


def _attributes(name: str) -> tuple[str, ...]:
    """Return the files that the device can have. No others are read, as each read takes an embedded kernel 0.2 ms."""
    common = ("size", "dev", "ro")
    if name.startswith("loop"):
        return (*common, "loop/backing_file")
    if name.startswith("dm-"):
        return (*common, "dm/name")
    if name.startswith(("md", "nbd", "ram")):
        return common
    page = ("device/vpd_pg80",) if name.startswith("sd") else ()
    return (*common, "serial", "device/serial", *page)


def absent(machine: Machine, names: Iterable[str]) -> frozenset[str]:
    """Return the devices among ``names`` that are unused, because they have no size or no folder in /sys."""
    paths = {name: f"/sys/block/{name}/size" for name in names}
    sizes = machine.read(list(paths.values()))
    return frozenset(name for name, path in paths.items() if (sizes[path] or "0").strip() == "0")


def name_is_offer(name: str) -> bool:
    """Whether the driver of devices with this name creates unused ones in advance."""
    return name.startswith(_UNINTERESTING)


def parse_mountinfo(text: str) -> dict[str, tuple[str, ...]]:
    """Map device numbers and sources to mount points (proc(5), /proc/pid/mountinfo).

    The source is needed for btrfs, whose device numbers are not those of its disks.
    """
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) <= 4:
            continue
        source = fields[fields.index("-") + 2] if "-" in fields[:-2] else ""
        for key in (fields[2], source):
            if key:
                found[key] = (*found.get(key, ()), fields[4])
    return found


def _partitions(name: str, listed: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """Return a device's partitions: the subfolders of the device's folder that begin with the device's name."""
    return tuple(entry for entry in listed.get(f"/sys/block/{name}", ()) if entry.startswith(name))


def _device(
    name: str,
    listed: Mapping[str, tuple[str, ...]],
    texts: Mapping[str, str | None],
    mounts: Mapping[str, tuple[str, ...]],
    swaps: set[str],
) -> BlockDevice:
    base = f"/sys/block/{name}"

    def text(attribute: str) -> str:
        return (texts.get(f"{base}/{attribute}") or "").strip()

    number, parts = text("dev"), _partitions(name, listed)
    keys = [*filter(None, (text(f"{part}/dev") for part in parts)), *(f"/dev/{part}" for part in parts)]
    part_users = [place for key in keys for place in mounts.get(key, ())]
    part_users += [holder for part in parts for holder in listed.get(f"{base}/{part}/holders", ())]
    part_users += ["swap" for part in parts if f"/dev/{part}" in swaps]
    return BlockDevice(
        name=name,
        device_number=number,
        size_bytes=read_count(text("size"), f"{base}/size") * SECTOR_BYTES,
        serial=text("serial") or text("device/serial") or scsi_serial(texts.get(f"{base}/device/vpd_pg80") or ""),
        holders=listed.get(f"{base}/holders", ()),
        members=listed.get(f"{base}/slaves", ()),
        partitions=parts,
        mounted_on=tuple(dict.fromkeys((*mounts.get(number, ()), *mounts.get(f"/dev/{name}", ())))),
        is_swap=f"/dev/{name}" in swaps,
        is_read_only=text("ro") == "1",
        loop_file=text("loop/backing_file"),
        mapped_name=text("dm/name"),
        partition_users=tuple(dict.fromkeys(part_users)),
    )


def scsi_serial(page: str) -> str:
    """Return the serial number after the four-byte header in a SCSI disk's VPD page 80h (SPC-4), or ""."""
    return page[4:].strip("\0 ") if page[:1] == "\0" else ""


@dataclass(frozen=True, slots=True)
class DiskEnds:
    """The bytes of a device that identify its content. Unreadable bytes are zeros."""

    first: bytes
    old_place: bytes = b""
    """The 4096 bytes that hold md's metadata of version 0.90."""
    last: bytes = b""


LAST_BYTES = 16 * 1024
"""Number of bytes that are examined at the end of a device. Metadata of version 1.0 begins at most 12 KiB before the
end, and that of BIOS RAIDs and of GPT is nearer to it.
"""


def read_ends(machine: Machine, nodes: Sequence[str], first_bytes: int) -> dict[str, DiskEnds]:
    """Read both ends of devices in one call, with ``first_bytes`` rounded up to pages and zeros for unreadable bytes.

    The bytes are read with direct I/O, because md's superblock writes bypass the page cache, so a cached page may be
    stale. Raises LabError if the reply is incomplete.
    """
    if not nodes:
        return {}
    first_bytes += -first_bytes % head_program.PAGE_BYTES
    length_bytes = head_program.bytes_each(first_bytes, LAST_BYTES)
    most_bytes = length_bytes * len(nodes)
    try:
        packed = base64.b64decode(machine.call(READ_HEADS, (str(first_bytes), str(LAST_BYTES), *nodes)))
        read = zlib.decompressobj().decompress(packed, most_bytes)
    except (ValueError, zlib.error):
        read = b""
    if len(read) != most_bytes:
        raise LabError(
            f"{machine.facts.target} returned damaged data for the first and last bytes of {', '.join(nodes)}",
            hint="try again; if it happens again, check the machine's memory and its connection",
        )
    starts = range(0, most_bytes, length_bytes)
    return {
        node: _ends(read[start : start + length_bytes], first_bytes) for node, start in zip(nodes, starts, strict=True)
    }


def ends_of_file(fd: int) -> DiskEnds:
    """Read both ends of an open image on this computer, the way ``read_ends`` does with ``FIRST_BYTES``."""
    read = bytearray(head_program.bytes_each(FIRST_BYTES, LAST_BYTES))
    head_program.read_ends(fd, memoryview(read), FIRST_BYTES, LAST_BYTES)
    return _ends(bytes(read), FIRST_BYTES)


def _ends(read: bytes, first_bytes: int) -> DiskEnds:
    return DiskEnds(read[:first_bytes], read[first_bytes:-LAST_BYTES], read[-LAST_BYTES:])


def resolve_node(machine: Machine, node: str) -> str:
    """Return the real device behind a link such as /dev/disk/by-id/…. Raises LabError if there is none."""
    real = machine.run(("readlink", "-e", node), check=False).stdout.strip()
    if not real.startswith("/dev/"):
        raise LabError(f"there is no device {node}", hint="'raidlab disks' lists the disks of this machine")
    return real
