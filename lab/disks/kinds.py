"""Kinds of lab disks, requests for disks (``DiskSpec``), attached disks (``LabDisk``), and models of emulated drives.

Models have a constant service time (drive_models.toml) or mechanics (drives/), and users may add their own. Mechanics
are data sheet parameters and values computed from them; drive/mechanics.h simulates drives with them. The formula
for the seek time is from Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer, 1994).
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Annotated

import msgspec
import platformdirs

from lab.errors import CommandFailed, LabError, SpecError, ToolMissing
from lab.gates.decoding import (
    MOST_DISK_BYTES,
    MOST_DISKS,
    DiskCount,
    Milliseconds,
    PartCount,
    QueueDepth,
    Rate,
    SizeBytes,
    checked,
    convert,
    shown,
)
from lab.gates.text import checked_name, shortened
from lab.host.files import make_folder, replace_file, storage_error
from lab.machine import Machine
from lab.tomlfile import OLD_DRIVES_FOLDER, convert_tree, read_toml, unknown_word
from lab.units import KIB, MIB, SECTOR_BYTES, format_bytes

# This is the time that nbdkit, the socket and the kernel's nbd driver add to each request. On the embedded kernel, its
# median is 0.38 to 0.45 ms, for delays of 12 and 13 ms. It is subtracted from the delay, so that the drive has its
# model's service time.
TRANSPORT_MILLISECONDS = 0.4
MAX_ZONES = 32
_STEPS = 200


class Zone(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A band of cylinders. Zones are listed from the outside inwards."""

    share: Annotated[float, msgspec.Meta(gt=0, le=1)]
    """Share of the drive's cylinders."""
    sectors_per_track: PartCount


class Mechanics(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Data sheet values, with times in milliseconds and seek distances in the real drive's cylinders.

    Decoding checks each value against its type. The constructor checks only the number of zones (ValueError).
    """

    rpm: Rate
    cylinders: PartCount
    surfaces: PartCount
    zones: tuple[Zone, ...]
    seek_short_a_ms: Milliseconds
    seek_short_b_ms: Milliseconds
    seek_short_cylinders: PartCount
    """The distance below which seeks take a + b √distance, whereas longer seeks take a + b distance."""
    seek_long_a_ms: Milliseconds
    seek_long_b_ms: Milliseconds
    track_switch_ms: Milliseconds
    overhead_ms: Milliseconds
    """Time that a command takes in the drive's electronics. A queued command spends it before its turn comes."""
    interface_bytes_per_second: Rate = 300e6
    queue_depth: QueueDepth = 1
    """Number of commands that the drive reorders, with the shortest access time first. 1 means no reordering."""
    read_ahead_bytes: SizeBytes = 0
    write_cache_bytes: SizeBytes = 0
    """Size of the volatile write cache, whose content is lost on a power failure, or 0 if the cache is off."""

    def __post_init__(self) -> None:
        if not 0 < len(self.zones) <= MAX_ZONES:
            raise ValueError(f"a drive must have 1 to {MAX_ZONES} zones")

    @property
    def revolution_seconds(self) -> float:
        return 60 / self.rpm

    def seek_seconds(self, cylinders: float) -> float:
        """Return the time that the arm takes to move over this many of the real drive's cylinders."""
        if cylinders <= 0:
            return 0.0
        if cylinders < self.seek_short_cylinders:
            return (self.seek_short_a_ms + self.seek_short_b_ms * math.sqrt(cylinders)) / 1000
        return (self.seek_long_a_ms + self.seek_long_b_ms * cylinders) / 1000

    @property
    def mean_random_seconds(self) -> float:
        """The mean time of a single small request at a random place: overhead, mean seek and half a revolution.

        The distance d between two random places, as a share of the stroke, has the density 2(1 - d).
        """
        points = [(index + 0.5) / _STEPS for index in range(_STEPS)]
        seek = sum(2 * (1 - point) * self.seek_seconds(point * self.cylinders) for point in points) / _STEPS
        return self.overhead_ms / 1000 + seek + self.revolution_seconds / 2

    def sequential_bytes_per_second(self, zone: Zone) -> float:
        """Return the throughput of long sequential transfers in a zone. Each track takes a revolution and a switch."""
        track, cylinder = self.track_switch_ms / 1000, max(self.track_switch_ms / 1000, self.seek_seconds(1))
        switch = ((self.surfaces - 1) * track + cylinder) / self.surfaces
        return zone.sectors_per_track * SECTOR_BYTES / (self.revolution_seconds + switch)

    @property
    def words(self) -> tuple[str, ...]:
        """The parameters in the syntax of the drive's nbdkit plugin (see drive/plugin.c)."""
        zones = ",".join(f"{zone.share:g}:{zone.sectors_per_track}" for zone in self.zones)
        words = [
            f"rpm={self.rpm:g}",
            f"cylinders={self.cylinders}",
            f"surfaces={self.surfaces}",
            f"zones={zones}",
            f"seek_short={self.seek_short_a_ms:g},{self.seek_short_b_ms:g},{self.seek_short_cylinders}",
            f"seek_long={self.seek_long_a_ms:g},{self.seek_long_b_ms:g}",
            f"track_switch={self.track_switch_ms:g}",
            f"overhead={self.overhead_ms:g}",
            f"interface={self.interface_bytes_per_second:.0f}",
            f"queue={self.queue_depth}",
            f"read_ahead={self.read_ahead_bytes}" if self.read_ahead_bytes else "",
            f"write_cache={self.write_cache_bytes}" if self.write_cache_bytes else "",
        ]
        return tuple(filter(None, words))


class DriveModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A drive that answers each request after a constant time, or one with mechanics."""

    title: str
    service_milliseconds: Milliseconds = 0.0
    concurrent_requests: QueueDepth = 1
    is_rotational: bool = True
    """Whether the drive reports that it rotates. If it does, md reads from the copy with the nearest head, and
    otherwise from the copy with the shortest queue.
    """
    mechanics: Mechanics | None = None

    def __post_init__(self) -> None:
        if (self.mechanics is None) == (self.service_milliseconds <= 0):
            raise ValueError("a drive must have either service_milliseconds or mechanics")

    @property
    def service_seconds(self) -> float:
        """The time that an idle drive takes for a small request. With mechanics, it is the mean over random places."""
        return self.service_milliseconds / 1000 if self.mechanics is None else self.mechanics.mean_random_seconds

    @property
    def iops(self) -> float:
        """The maximum IOPS of the drive. With mechanics, this is for random requests one after another."""
        return self.concurrent_requests / self.service_seconds

    @property
    def delay_milliseconds(self) -> int:
        """The delay for nbdkit in whole milliseconds, because nbdkit before 1.40 silently truncates 12.9 to 12."""
        return max(0, round(self.service_milliseconds - TRANSPORT_MILLISECONDS))


def _user_folder() -> Path:
    """Return the folder of the user's own drive models, in which each TOML file is named after its model."""
    return platformdirs.user_config_path("raidlab") / "drive-models"


def require_free_name(name: str) -> None:
    """Raise SpecError if the name is invalid or is that of a built-in drive model."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,40}", name):
        raise SpecError(
            f"'{name}' cannot be the name of a drive model",
            hint="use lowercase letters, digits and hyphens, such as my-drive",
        )
    if name in all_drive_models() and not (_user_folder() / f"{name}.toml").exists():
        raise SpecError(f"'{name}' is a built-in drive model", hint="choose another name")


def save_drive_model(name: str, model: DriveModel) -> Path:
    """Save one of the user's own drive models, replacing an earlier one of this name, and return its file.

    Raises SpecError if the name is not free, or if a value is impossible for a drive, as it may be after a fit.
    """
    require_free_name(name)
    path = _user_folder() / f"{name}.toml"
    tree = msgspec.to_builtins(model)
    convert_tree(tree, DriveModel, source=f"the drive model {name}")
    mechanics = tree.pop("mechanics", {})
    lines = [f"{key} = {_toml(value)}" for key, value in tree.items()]
    lines += ["", "[mechanics]", *(f"{key} = {_toml(value)}" for key, value in mechanics.items())] if mechanics else []
    try:
        make_folder(path.parent)
        replace_file(path, "\n".join((*lines, "")).encode())
    except OSError as error:
        raise storage_error(f"{path} cannot be written", error) from None
    all_drive_models.cache_clear()
    return path


def _toml(value: object) -> str:
    """Return a plain value as TOML, which writes strings and numbers, but not tables, the way JSON does."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[\n" + "".join(f"  {_toml(each)},\n" for each in value) + "]"
    return json.dumps(value)


@cache
def all_drive_models() -> dict[str, DriveModel]:
    """Map names to drive models. The user's models override built-in ones. Raises SpecError if a file is invalid."""
    here = Path(__file__).parent
    constant = convert(tomllib.loads((here / "drive_models.toml").read_text("utf-8")), dict[str, DriveModel])
    earlier = _read_folder(_user_folder().with_name(OLD_DRIVES_FOLDER))
    return {**constant, **_read_folder(here / "drives"), **earlier, **_read_folder(_user_folder())}


def _read_folder(folder: Path) -> dict[str, DriveModel]:
    files = sorted(folder.glob("*.toml")) if folder.is_dir() else []
    return {file.stem: read_toml(file, DriveModel) for file in files}


def find_drive_model(name: str) -> DriveModel:
    """Return the drive model with this name. Raises SpecError, which suggests the nearest name, if there is none."""
    found = all_drive_models().get(name)
    if found is None:
        raise unknown_word("drive model", name, all_drive_models())
    return found


_SOURCES = ("mechanics.h", "parameters.h", "plugin.c", "plain_stack.py", "compile.sh")
PACKAGES = "tcc libc6-dev nbdkit-plugin-dev"
_NO_COMPILER = 127


def install_drive(machine: Machine, plugin: str) -> None:
    """Compile the plugin on the machine unless it exists there and is up to date. Raises ToolMissing or LabError."""
    folder = f"{plugin}.d"
    here = Path(__file__).parent / "drive"
    sources = {f"{folder}/{name}": (here / name).read_text(encoding="utf-8") for name in _SOURCES}
    there = machine.read(list(sources))
    if there == sources and machine.run(("test", "-s", plugin), check=False).status == 0:
        return
    machine.run(("mkdir", "-p", folder))
    for path, text in sources.items():
        machine.write(path, text)
    try:
        machine.run(("sh", f"{folder}/compile.sh", plugin, folder))
    except CommandFailed as error:
        hint = f"install {PACKAGES} there (provision/host/setup.sh lab does so here)"
        if error.status == _NO_COMPILER:
            raise ToolMissing(
                f"{machine.facts.target} has no C compiler, which is needed to emulate mechanical drives", hint=hint
            ) from error
        if "nbdkit-plugin.h" in error.stderr_tail:
            raise ToolMissing(f"nbdkit's headers are not installed on {machine.facts.target}", hint=hint) from error
        raise LabError(f"the drive's plugin cannot be compiled: {error.stderr_tail}", hint=hint) from error


DEFAULT_SIZE_BYTES = 500 * MIB
MOST_NAME_CHARACTERS = 64
"""The paths of spindles' sockets contain the disk's name, and are limited to 107 characters (unix(7))."""
DEFAULT_COUNT = 9
SERIAL_PREFIX = "RAIDLAB-"


class DiskKind(StrEnum):
    """What backs a lab disk."""

    FILE = "file"
    """A sparse file on the client's computer, attached to the embedded kernel when it starts."""
    LOOP = "loop"
    """A loop device over a sparse file on the machine, with direct I/O if the file system supports it."""
    VIRTIO = "virtio"
    """An extra disk of a virtual machine, identified by its serial RAIDLAB-NN."""
    SPINDLE = "spindle"
    """An emulated drive with the timing of its drive model."""
    RAM = "ram"
    """Kernel memory (brd)."""
    PHYSICAL = "physical"
    """A real disk, specified by its exact path and confirmed by typing that path."""


class DiskSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One requested disk. ``backing`` is the device under a spindle, or a physical disk's path."""

    name: str
    kind: DiskKind
    size_bytes: int = DEFAULT_SIZE_BYTES
    model: str = ""
    backing: str = ""

    def validate(self) -> None:
        """Raise SpecError if the name or size is invalid, or if a disk that is not a spindle has a drive model."""
        checked_disk_name(self.name)
        unit = KIB if self.kind is DiskKind.RAM else SECTOR_BYTES
        if not MIB <= self.size_bytes <= MOST_DISK_BYTES or self.size_bytes % unit:
            raise SpecError(
                f"disk {self.name}: a size of {shown(self.size_bytes)} bytes is not possible",
                hint=f"use a multiple of {unit} bytes from 1M to {format_bytes(MOST_DISK_BYTES)}",
            )
        if self.kind is DiskKind.SPINDLE:
            find_drive_model(self.model)
        elif self.model:
            raise SpecError(
                f"disk {self.name}: a {self.kind} disk has no drive model", hint="choose kind 'spindle', or no model"
            )
        if self.kind is DiskKind.PHYSICAL and not self.backing.startswith("/dev/"):
            raise SpecError(
                f"disk {self.name}: a physical disk needs its path", hint="give its full path, such as /dev/sdb"
            )

    def attached(self, node: str, backing: str = "", serial: str = "") -> LabDisk:
        return LabDisk(
            name=self.name,
            kind=self.kind,
            node=node,
            size_bytes=self.size_bytes,
            serial=serial,
            model=self.model,
            backing=backing,
        )


def checked_disk_name(name: str) -> str:
    """Return ``name`` if it is a valid name for a disk, its image and its sockets. Raises SpecError otherwise."""
    return checked_name(name, "disk", most=MOST_NAME_CHARACTERS)


def check_specs(wanted: Sequence[DiskSpec], others: Sequence[str] = ()) -> None:
    """Raise SpecError if a spec is invalid, if there are too many, or if a name is used twice or is in ``others``."""
    if len(wanted) + len(others) > MOST_DISKS:
        raise SpecError(f"{len(wanted) + len(others)} disks are too many for a lab", hint=f"use at most {MOST_DISKS}")
    names = [*others, *(spec.name for spec in wanted)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError(f"several disks are named {', '.join(twice)}", hint="choose different names")
    for spec in wanted:
        spec.validate()


class LabDisk(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One attached disk, with its node on the machine and its backing."""

    name: str
    kind: DiskKind
    node: str
    size_bytes: int
    serial: str = ""
    model: str = ""
    backing: str = ""

    @property
    def kernel_name(self) -> str:
        """The name in /sys/block and /proc/diskstats, such as ``ubda`` for ``/dev/ubda``."""
        return self.node.removeprefix("/dev/")

    @property
    def full_name(self) -> str:
        """The disk's name in the lab and in commands, such as ``disk02 (/dev/ubdb)``."""
        return f"{self.name} ({self.node})"

    def validate(self) -> None:
        """Raise SpecError if a value is impossible for a lab disk, because an untrusted machine may report anything."""
        checked_disk_name(self.name)
        checked(self.size_bytes, SizeBytes, f"disk {self.name}: size")
        if not re.fullmatch(r"/dev/([a-z]{1,16}[0-9]{0,8}|nvme[0-9]{1,4}n[0-9]{1,4})", self.node):
            raise SpecError(
                f"disk {self.name}: '{shortened(self.node)}' is not a device", hint="use a node such as /dev/loop0"
            )
        if self.kind is DiskKind.SPINDLE:
            find_drive_model(self.model)
        elif self.kind is DiskKind.LOOP and not self.backing.endswith(f"/{self.name}.img"):
            raise SpecError(
                f"disk {self.name}: '{shortened(self.backing)}' is not its image",
                hint=f"use this disk's own image, which is named {self.name}.img",
            )


def with_full_names(text: str, disks: Iterable[LabDisk], *, most: int | None = None) -> str:
    """Return ``text`` with the node of each lab disk replaced by its full name, such as ``disk02 (/dev/ubdb)``.

    With ``most``, bare names are replaced too. If the text mentions more than ``most`` disks, all become bare names.
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
    """Return a disk by name, serial or node. Raises SpecError, which suggests the nearest name, if there is none."""
    for disk in disks:
        if word in (disk.name, disk.serial, disk.node, disk.kernel_name):
            return disk
    raise unknown_word("lab disk", word, [disk.name for disk in disks])


def serial_of(number: int) -> str:
    """Return the serial of disk ``number``, such as ``RAIDLAB-01`` for 1."""
    return f"{SERIAL_PREFIX}{number:02d}"


def specs(
    count: int, kind: DiskKind, *, size_bytes: int = DEFAULT_SIZE_BYTES, model: str = "", first: int = 1
) -> tuple[DiskSpec, ...]:
    """Return ``count`` equal disks, named disk01 and so on. Raises SpecError if they are invalid."""
    checked(count, DiskCount, "count")
    made = tuple(
        DiskSpec(name=f"disk{number:02d}", kind=kind, size_bytes=size_bytes, model=model)
        for number in range(first, first + count)
    )
    made[0].validate()
    return made
