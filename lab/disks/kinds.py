"""Kinds of lab disks, what a disk is asked to be (``DiskSpec``) and what it is once attached (``LabDisk``)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from lab.disks.drive_models import find_drive_model
from lab.errors import SpecError
from lab.tomlfile import unknown_word
from lab.units import KIB, MIB, SECTOR_BYTES

DEFAULT_SIZE_BYTES = 500 * MIB
DEFAULT_COUNT = 9
SERIAL_PREFIX = "RAIDLAB-"


class DiskKind(StrEnum):
    """What stands behind a lab disk."""

    FILE = "file"
    """A sparse file of the client's computer, attached to the embedded kernel at its start."""
    LOOP = "loop"
    """A sparse file on the machine behind a loop device, with direct I/O where its file system can."""
    VIRTIO = "virtio"
    """An extra disk of a virtual machine, known by its serial RAIDLAB-NN."""
    SPINDLE = "spindle"
    """An emulated drive, which answers in the time of its drive model (nbdkit)."""
    RAM = "ram"
    """Kernel memory (brd)."""
    PHYSICAL = "physical"
    """A real disk, named by its exact path and confirmed by typing it."""


class DiskSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One disk as it is wanted. ``backing`` is the device under a spindle, or a physical disk's path."""

    name: str
    kind: DiskKind
    size_bytes: int = DEFAULT_SIZE_BYTES
    model: str = ""
    backing: str = ""

    def validate(self) -> None:
        """Raises SpecError for a size that no block device has, or a drive model where none belongs."""
        unit = KIB if self.kind is DiskKind.RAM else SECTOR_BYTES
        if self.size_bytes < MIB or self.size_bytes % unit:
            raise SpecError(
                f"disk {self.name}: a size of {self.size_bytes} bytes is not possible",
                hint=f"use at least 1M and a multiple of {unit} bytes",
            )
        if self.kind is DiskKind.SPINDLE:
            find_drive_model(self.model)
        elif self.model:
            raise SpecError(
                f"disk {self.name}: a {self.kind} disk has no drive model", hint="drive models are for kind 'spindle'"
            )
        if self.kind is DiskKind.PHYSICAL and not self.backing.startswith("/dev/"):
            raise SpecError(
                f"disk {self.name}: a physical disk needs its path", hint="write it in full, such as /dev/sdb"
            )


class LabDisk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One disk that is there: its node on the machine, and what it is made of."""

    name: str
    kind: DiskKind
    node: str
    size_bytes: int
    serial: str = ""
    model: str = ""
    backing: str = ""

    @property
    def kernel_name(self) -> str:
        """``ubda`` for ``/dev/ubda``: the name in /sys/block and /proc/diskstats."""
        return self.node.removeprefix("/dev/")


def find_disk(word: str, disks: Sequence[LabDisk]) -> LabDisk:
    """A disk by name, serial or node. Raises SpecError with the nearest name."""
    for disk in disks:
        if word in (disk.name, disk.serial, disk.node, disk.kernel_name):
            return disk
    raise unknown_word("lab disk", word, [disk.name for disk in disks])


def serial_of(number: int) -> str:
    """``RAIDLAB-01`` for 1."""
    return f"{SERIAL_PREFIX}{number:02d}"


def specs(
    count: int, kind: DiskKind, *, size_bytes: int = DEFAULT_SIZE_BYTES, model: str = "", first: int = 1
) -> tuple[DiskSpec, ...]:
    """``count`` equal disks named disk01 onwards. Raises SpecError if they cannot be."""
    if count < 1:
        raise SpecError(f"{count} disks", hint="ask for at least one")
    made = tuple(
        DiskSpec(name=f"disk{number:02d}", kind=kind, size_bytes=size_bytes, model=model)
        for number in range(first, first + count)
    )
    made[0].validate()
    return made
