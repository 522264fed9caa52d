"""Backing of a virtual machine's spindles by its lab disks: in memory they would not fit, and would lose their data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from lab.disks.guard import Guard
from lab.disks.inventory import BlockDevice, read_devices
from lab.disks.kinds import DiskKind, DiskSpec, LabDisk
from lab.errors import LabError
from lab.machine import Machine


def with_backing(machine: Machine, disks: Sequence[LabDisk], specs: Sequence[DiskSpec]) -> list[DiskSpec]:
    """The specs, with a blank lab disk as backing for each spindle without one; the last disks first.

    On a machine without virtio disks the specs are unchanged. Raises LabError if there are not enough.
    """
    virtio = [disk for disk in disks if disk.kind is DiskKind.VIRTIO]
    if not virtio or not any(needs_backing(spec) for spec in specs):
        return list(specs)
    devices = read_devices(machine)
    free = [disk for disk in reversed(virtio) if is_unused(disk, devices)]
    signed = Guard(machine, free).carried([disk.node for disk in free])
    free = [disk for disk in free if disk.node not in signed]
    return [replace(spec, backing=take(free, spec).node) if needs_backing(spec) else spec for spec in specs]


def needs_backing(spec: DiskSpec) -> bool:
    """Whether it is a spindle without a backing."""
    return spec.kind is DiskKind.SPINDLE and not spec.backing


def is_unused(disk: LabDisk, devices: Mapping[str, BlockDevice]) -> bool:
    """Whether neither an array nor a mount uses the disk."""
    device = devices.get(disk.kernel_name)
    return device is not None and not device.holders and not device.mounted_on


def take(free: list[LabDisk], spec: DiskSpec) -> LabDisk:
    """Remove the first disk that is large enough from ``free`` and return it. Raises LabError if there is none."""
    for disk in free:
        if disk.size_bytes >= spec.size_bytes:
            free.remove(disk)
            return disk
    raise LabError(
        f"no free lab disk is large enough to put the spindle {spec.name} on",
        hint="'raidlab disks' shows what uses them; 'raidlab disks reset NAME' blanks one, RAIDLAB_DISKS=16 makes more",
    )
