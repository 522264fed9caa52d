"""What block devices a machine has and what uses them, read from /sys and /proc in two round trips."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.errors import LabError
from lab.machine.api import Machine
from lab.units import SECTOR_BYTES

_UNINTERESTING = ("ram", "loop", "nbd", "zram")
"""Drivers that offer many devices with nothing behind them: listed only when they have a size."""


@dataclass(frozen=True, slots=True)
class BlockDevice:
    """One device under /sys/block."""

    name: str
    device_number: str
    size_bytes: int
    serial: str
    holders: tuple[str, ...]
    members: tuple[str, ...]
    """For an array: the devices it is made of."""
    partitions: tuple[str, ...]
    mounted_on: tuple[str, ...]
    is_swap: bool
    is_read_only: bool
    loop_file: str

    @property
    def node(self) -> str:
        """Its path under /dev."""
        return f"/dev/{self.name.replace('!', '/')}"


def read_devices(machine: Machine) -> dict[str, BlockDevice]:
    """Every block device with a size, by kernel name."""
    names = machine.list_dirs(["/sys/block"])["/sys/block"]
    folders = [f"/sys/block/{name}{below}" for name in names for below in ("", "/holders", "/slaves")]
    listed = machine.list_dirs(folders)
    attributes = ("size", "dev", "ro", "serial", "device/serial", "loop/backing_file")
    paths = [f"/sys/block/{name}/{attribute}" for name in names for attribute in attributes]
    texts = machine.read(["/proc/self/mountinfo", "/proc/swaps", *paths])
    mounts = parse_mountinfo(texts["/proc/self/mountinfo"] or "")
    swaps = {line.split()[0] for line in (texts["/proc/swaps"] or "").splitlines()[1:] if line.strip()}
    devices = (_device(name, listed, texts, mounts, swaps) for name in names)
    return {device.name: device for device in devices if device.size_bytes > 0 or not name_is_offer(device.name)}


def name_is_offer(name: str) -> bool:
    """Whether a driver makes such devices in advance, with nothing behind them."""
    return name.startswith(_UNINTERESTING)


def parse_mountinfo(text: str) -> dict[str, tuple[str, ...]]:
    """Device number (``8:1``) -> mount points (proc(5), /proc/pid/mountinfo)."""
    found: dict[str, tuple[str, ...]] = {}
    for line in text.splitlines():
        fields = line.split()
        if len(fields) > 4:
            found[fields[2]] = (*found.get(fields[2], ()), fields[4])
    return found


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

    number = text("dev")
    return BlockDevice(
        name=name,
        device_number=number,
        size_bytes=int(text("size") or 0) * SECTOR_BYTES,
        serial=text("serial") or text("device/serial"),
        holders=listed.get(f"{base}/holders", ()),
        members=listed.get(f"{base}/slaves", ()),
        partitions=tuple(entry for entry in listed.get(base, ()) if entry.startswith(name)),
        mounted_on=mounts.get(number, ()),
        is_swap=f"/dev/{name}" in swaps,
        is_read_only=text("ro") == "1",
        loop_file=text("loop/backing_file"),
    )


def resolve_node(machine: Machine, node: str) -> str:
    """The real device behind a link such as /dev/disk/by-id/…. Raises LabError if there is none."""
    real = machine.run(("readlink", "-e", node), check=False).stdout.strip()
    if not real.startswith("/dev/"):
        raise LabError(f"{node} is not there", hint="'raidlab disks' lists the disks of this machine")
    return real
