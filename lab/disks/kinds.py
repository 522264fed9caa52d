"""Kinds of lab disks, the request for a disk (``DiskSpec``) and an attached disk (``LabDisk``)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from lab.disks.drive_models import find_drive_model
from lab.errors import SpecError
from lab.gates.decoding import MOST_DISK_BYTES, MOST_DISKS, DiskCount, SizeBytes, checked, shown
from lab.gates.text import checked_name, shortened
from lab.tomlfile import unknown_word
from lab.units import KIB, MIB, SECTOR_BYTES, format_bytes

DEFAULT_SIZE_BYTES = 500 * MIB
MOST_NAME_CHARACTERS = 64
"""The paths of spindles' sockets contain the name, and are limited to 107 characters (unix(7))."""
DEFAULT_COUNT = 9
SERIAL_PREFIX = "RAIDLAB-"


class DiskKind(StrEnum):
    """What backs a lab disk."""

    FILE = "file"
    """A sparse file on the client's computer, attached to the embedded kernel at its start."""
    LOOP = "loop"
    """A sparse file on the machine behind a loop device, with direct I/O if its file system supports it."""
    VIRTIO = "virtio"
    """An extra disk of a virtual machine, known by its serial RAIDLAB-NN."""
    SPINDLE = "spindle"
    """An emulated drive, which answers in the time of its drive model (nbdkit)."""
    RAM = "ram"
    """Kernel memory (brd)."""
    PHYSICAL = "physical"
    """A real disk, named by its exact path and confirmed by typing that path."""


class DiskSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One requested disk. ``backing`` is the device under a spindle, or a physical disk's path."""

    name: str
    kind: DiskKind
    size_bytes: int = DEFAULT_SIZE_BYTES
    model: str = ""
    backing: str = ""

    def validate(self) -> None:
        """Raises SpecError for a bad name, a size that no block device has, or a drive model on a kind without one."""
        checked_disk_name(self.name)
        unit = KIB if self.kind is DiskKind.RAM else SECTOR_BYTES
        if not MIB <= self.size_bytes <= MOST_DISK_BYTES or self.size_bytes % unit:
            raise SpecError(
                f"disk {self.name}: a size of {shown(self.size_bytes)} bytes is not possible",
                hint=f"use 1M to {format_bytes(MOST_DISK_BYTES)} and a multiple of {unit} bytes",
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


def checked_disk_name(name: str) -> str:
    """``name``, if it is valid for a disk, its image and its sockets. Raises SpecError otherwise."""
    return checked_name(name, "disk", most=MOST_NAME_CHARACTERS)


def check_specs(wanted: Sequence[DiskSpec], others: Sequence[str] = ()) -> None:
    """Raises SpecError for an invalid spec, too many disks or duplicate names; the names ``others`` count too."""
    if len(wanted) + len(others) > MOST_DISKS:
        raise SpecError(
            f"{len(wanted) + len(others)} disks are too many for a lab", hint=f"it takes {MOST_DISKS} at most"
        )
    names = [*others, *(spec.name for spec in wanted)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError(f"there are several disks named {', '.join(twice)}", hint="choose other names")
    for spec in wanted:
        spec.validate()


class LabDisk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attached disk: its node on the machine, and its backing."""

    name: str
    kind: DiskKind
    node: str
    size_bytes: int
    serial: str = ""
    model: str = ""
    backing: str = ""

    @property
    def kernel_name(self) -> str:
        """The name in /sys/block and /proc/diskstats: ``ubda`` for ``/dev/ubda``."""
        return self.node.removeprefix("/dev/")

    @property
    def full_name(self) -> str:
        """The disk's name in the lab and in commands: ``disk02 (/dev/ubdb)``."""
        return f"{self.name} ({self.node})"

    def validate(self) -> None:
        """Raises SpecError for values that no lab disk has; an untrusted machine may report such values."""
        checked_disk_name(self.name)
        checked(self.size_bytes, SizeBytes, f"disk {self.name}: size")
        if not re.fullmatch(r"/dev/[a-z]{1,16}[0-9]{0,8}", self.node):
            raise SpecError(f"disk {self.name}: '{shortened(self.node)}' is not a device", hint="such as /dev/loop0")
        if self.kind is DiskKind.SPINDLE:
            find_drive_model(self.model)
        elif self.kind is DiskKind.LOOP and not self.backing.endswith(f"/{self.name}.img"):
            raise SpecError(
                f"disk {self.name}: '{shortened(self.backing)}' is not its image", hint="a file of its name"
            )


def with_full_names(text: str, disks: Iterable[LabDisk], *, most: int | None = None) -> str:
    """``text`` with the node of each lab disk replaced by ``disk02 (/dev/ubdb)``, unless it already has this form.

    With ``most``, names alone are replaced too; if the text has more disks than that, all become names alone.
    """
    by_word = {word: disk for disk in disks for word in ((disk.node,) if most is None else (disk.node, disk.name))}
    if not by_word:
        return text
    words = "|".join(map(re.escape, sorted(by_word, key=len, reverse=True)))
    pattern = re.compile(rf"(?<![\w/(])({words})(?![\w/])(?: \(/dev/\w+\))?")
    found = {by_word[match[1]].name for match in pattern.finditer(text)}
    is_full = most is None or len(found) <= most
    return pattern.sub(lambda match: by_word[match[1]].full_name if is_full else by_word[match[1]].name, text)


def find_disk(word: str, disks: Sequence[LabDisk]) -> LabDisk:
    """A disk by name, serial or node. Raises SpecError with the nearest name."""
    for disk in disks:
        if word in (disk.name, disk.serial, disk.node, disk.kernel_name):
            return disk
    raise unknown_word("lab disk", word, [disk.name for disk in disks])


def serial_of(number: int) -> str:
    """The serial of disk ``number``: ``RAIDLAB-01`` for 1."""
    return f"{SERIAL_PREFIX}{number:02d}"


def specs(
    count: int, kind: DiskKind, *, size_bytes: int = DEFAULT_SIZE_BYTES, model: str = "", first: int = 1
) -> tuple[DiskSpec, ...]:
    """``count`` equal disks named disk01 onwards. Raises SpecError if they are invalid."""
    checked(count, DiskCount, "count")
    made = tuple(
        DiskSpec(name=f"disk{number:02d}", kind=kind, size_bytes=size_bytes, model=model)
        for number in range(first, first + count)
    )
    made[0].validate()
    return made
