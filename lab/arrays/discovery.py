"""The arrays on the lab's disks, as their superblocks describe them, and the plans that start them.

Parsing and decisions are pure functions of what the caller has read from the disks.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from lab.arrays.levels import LevelName, array_device, is_array_name, layout_name, level_with_layout
from lab.arrays.operations import assemble
from lab.arrays.superblock_program import (
    FAULTY_ROLE,
    JOURNAL_ROLE,
    MAGIC,
    RECOVERY_OFFSET,
    SPARE_ROLE,
    SUPERBLOCK_OFFSET,
    parse_version_one,
    role_in,
)
from lab.disks.inventory import DiskEnds
from lab.errors import SpecError
from lab.gates.text import visible
from lab.machine.api import Machine
from lab.plans import Plan
from lab.units import SECTOR_BYTES

SUPERBLOCK_BYTES = 1024
"""The size of the fixed part and of a table of roles for up to 384 devices (md(4))."""

_SECONDS = 0xFF_FFFF_FFFF
"""The mask for the seconds of a time in a superblock; the bits above are microseconds."""


@dataclass(frozen=True, slots=True)
class Superblock:
    """The superblock of one device. A role is a slot number, or one of the roles in superblock_program.py."""

    array_uuid: str
    array_name: str
    """The name, for example ``any:0``; invisible characters are escaped, because the source is not trusted."""
    level_number: int
    layout_number: int
    slot_count: int
    device_number: int
    roles: tuple[int, ...]
    """The role of each device, by device number, at the time this superblock was written."""
    events: int
    updated_seconds: int
    created_seconds: int
    """When the array was created, in seconds since 1970."""
    is_incomplete: bool
    """Whether the device has a slot, but its rebuild is not complete."""
    metadata_version: str = "1.2"
    """0.90, 1.0, 1.1 or 1.2; it also determines where the superblock lies on the device."""

    def role_of(self, device_number: int) -> int:
        return role_in(self.roles, device_number)


def parse_superblock(data: bytes, metadata_version: str = "1.2") -> Superblock | None:
    """Return the version 1 superblock in the first ``SUPERBLOCK_BYTES`` of ``data``, or None if there is none."""
    read = parse_version_one(data)
    return read and Superblock(
        array_uuid=str(uuid.UUID(bytes=read.set_uuid)),
        array_name=visible(read.set_name.partition(b"\0")[0].decode("utf-8", "surrogateescape")),
        level_number=read.level,
        layout_number=read.layout,
        slot_count=read.raid_disks,
        device_number=read.dev_number,
        roles=read.dev_roles,
        events=read.events,
        updated_seconds=read.utime & _SECONDS,
        created_seconds=read.ctime & _SECONDS,
        is_incomplete=bool(read.feature_map & RECOVERY_OFFSET),
        metadata_version=metadata_version,
    )


def _parse_old_superblock(data: bytes) -> Superblock | None:
    """Return the version 0.90 superblock at the start of ``data``, in this computer's byte order, or None.

    It has 1024 words of 32 bits, and descriptors of 27 devices from word 128 on (struct mdp_superblock_s in
    linux/raid/md_p.h).
    """
    if len(data) < _OLD_BYTES:
        return None
    words = struct.unpack_from("<1024I", data)
    if words[0] != MAGIC or words[1] != 0:
        return None
    descriptors = [words[at : at + _DESCRIPTOR_WORDS] for at in range(128, 1024, _DESCRIPTOR_WORDS)]
    *devices, own = descriptors
    return Superblock(
        array_uuid=str(uuid.UUID(bytes=struct.pack("<4I", words[5], *words[13:16]))),
        array_name=f"md{words[11]}",
        level_number=struct.unpack("<i", struct.pack("<I", words[7]))[0],
        layout_number=words[64],
        slot_count=words[10],
        device_number=own[0],
        roles=tuple(_old_role(slot, state) for _, _, _, slot, state, *_ in devices),
        events=words[39] | words[40] << 32,
        updated_seconds=words[32],
        created_seconds=words[6],
        is_incomplete=not own[4] & 1 << _OLD_SYNC and bool(own[4] & 1 << _OLD_ACTIVE),
        metadata_version="0.90",
    )


_OLD_BYTES = 4096
_DESCRIPTOR_WORDS = 32
_OLD_FAULTY, _OLD_ACTIVE, _OLD_SYNC, _OLD_REMOVED = range(4)


def _old_role(slot: int, state: int) -> int:
    """Return the version 1 role that corresponds to a version 0.90 state (super_90_validate in drivers/md/md.c)."""
    if state & (1 << _OLD_FAULTY | 1 << _OLD_REMOVED):
        return FAULTY_ROLE
    return slot if state & (1 << _OLD_SYNC | 1 << _OLD_ACTIVE) else SPARE_ROLE


_FOREIGN_NUMBERS = (*range(127, -1, -1), *range(128, 1000))


def plain_uuid(text: str) -> str:
    """Convert a UUID in any notation to 32 hexadecimal digits."""
    return text.replace(":", "").replace("-", "").lower()


DATA_FIRST = ("0.90", "1.0")
"""The metadata versions that lie at the end of a device, so that the data begin at its first sector."""
MD_HEAD_BYTES = SUPERBLOCK_OFFSET + SUPERBLOCK_BYTES
_OUR_HOST = "any"
_LEVELS = {level.value.removeprefix("raid"): level for level in LevelName}


@dataclass(frozen=True, slots=True)
class FoundArray:
    """One array on the disks. ``refusal`` says why it does not start automatically, and is empty if it does."""

    name: str
    """The name, such as md0, or the superblock's name if that is not one of the lab's and the array is not running."""
    uuid: str
    level: str
    slot_count: int
    working_slots: tuple[int, ...]
    """The slots whose member is present, up to date and fully rebuilt."""
    devices: tuple[str, ...]
    """The nodes that belong to the array now: members by slot, then spares and the journal."""
    former_devices: tuple[str, ...]
    """The nodes of former members, which failed or missed later writes."""
    updated_seconds: int
    refusal: str = ""
    metadata_version: str = "1.2"
    own_name: str = ""
    """The name in its superblocks, such as ``any:0``, or an empty string if they have none."""
    obstacle: str = ""
    """The part of ``refusal`` that prevents any start without force."""
    needs_asking: bool = False
    """Whether it starts only on request, because its name is not one of md0 to md999 or another array has that name."""

    def is_called(self, word: str) -> bool:
        """Whether ``word`` is the array's UUID, or its name as raidlab or mdadm shows it."""
        return word in (self.name, self.own_name) or plain_uuid(word) == plain_uuid(self.uuid)

    def named_for(self, running: Collection[str]) -> FoundArray:
        """Return the array, renamed if it cannot run under its own name next to the ``running`` arrays."""
        if not self.needs_asking or (is_array_name(self.name) and self.name not in running):
            return self
        # From the top down, as mdadm does, to avoid the names that the lab assigns itself.
        return replace(self, name=next(name for each in _FOREIGN_NUMBERS if (name := f"md{each}") not in running))

    def start_plan(self, machine: Machine) -> Plan:
        """Return the plan that starts the array, degraded if necessary. Raises ArrayError if it cannot be started."""
        return assemble(self.name, self.devices)

    def clear_away(self, machine: Machine) -> None:
        """Stop all running parts of the array, whatever their state, without erasing anything."""
        machine.run(("mdadm", "--stop", array_device(self.name)), check=False)


def superblocks_in(ends: Mapping[str, DiskEnds]) -> dict[str, Superblock]:
    """Return the superblock of each node.

    If a node has several, that of the newest array is returned, as in mdadm's guess_super_type().
    """
    found = {
        node: max(_superblocks_on(each), key=attrgetter("created_seconds"), default=None) for node, each in ends.items()
    }
    return {node: superblock for node, superblock in found.items() if superblock}


def _superblocks_on(ends: DiskEnds) -> Iterator[Superblock]:
    """Yield the superblocks at the places where md looks for each version.

    The places are those in super_1_load() and super_90_load() in drivers/md/md.c.
    """
    heads = {"1.2": SUPERBLOCK_OFFSET, "1.1": 0}
    places = [(version, ends.first[at : at + SUPERBLOCK_BYTES]) for version, at in heads.items()]
    # Version 1.0 lies at least 8 KiB before the end, aligned to 4 KiB from the beginning; a device may end anywhere.
    from_end = range(_BEFORE_END_BYTES, _BEFORE_END_BYTES + _PAGE_BYTES, SECTOR_BYTES)
    last = ends.last
    places += [("1.0", last[len(last) - at : len(last) - at + SUPERBLOCK_BYTES]) for at in from_end if at <= len(last)]
    for version, data in places:
        if found := parse_superblock(data, version):
            yield found
    if old := _parse_old_superblock(ends.old_place):
        yield old


_BEFORE_END_BYTES = 8192
_PAGE_BYTES = 4096


def arrays_in(superblocks: Mapping[str, Superblock], *, host_name: str = "") -> tuple[FoundArray, ...]:
    """Return the arrays that these superblocks describe. If two have the same name, only the one written last starts.

    ``host_name`` is this machine's name, which mdadm puts in the names of arrays created by hand.
    """
    by_array: dict[str, dict[str, Superblock]] = {}
    for node, superblock in superblocks.items():
        by_array.setdefault(superblock.array_uuid, {})[node] = superblock
    found = sorted(
        (_array(members, host_name) for members in by_array.values()), key=lambda array: -array.updated_seconds
    )
    arrays: list[FoundArray] = []
    for array in found:
        taken = any(other.name == array.name and not other.refusal for other in arrays)
        reason = f"another array has the name {array.name} and was written later"
        arrays.append(replace(array, refusal=reason, needs_asking=True) if taken and not array.refusal else array)
    return tuple(sorted(arrays, key=lambda array: (len(array.name), array.name, array.refusal)))


def _array(members: Mapping[str, Superblock], host_name: str) -> FoundArray:
    freshest = max(members.values(), key=lambda superblock: superblock.events)
    in_slots: dict[int, str] = {}
    others: list[str] = []
    former: list[str] = []
    for node, superblock in members.items():
        role = freshest.role_of(superblock.device_number)
        # A member's event count may lag by one if the machine stopped between two writes; md still accepts it.
        is_current = superblock.events + 1 >= freshest.events
        if role not in (SPARE_ROLE, FAULTY_ROLE, JOURNAL_ROLE) and is_current and role not in in_slots:
            in_slots[role] = node
        elif role == JOURNAL_ROLE or role == SPARE_ROLE == superblock.role_of(superblock.device_number):
            others.append(node)
        else:
            former.append(node)
    working = tuple(slot for slot, node in sorted(in_slots.items()) if not members[node].is_incomplete)
    level = _LEVELS.get(str(freshest.level_number))
    own_name, obstacle = _lab_name(freshest.array_name, host_name), "; ".join(_obstacles(freshest, level, working))
    reasons = ("" if own_name else _foreign_words(freshest.array_name, host_name), obstacle)
    return FoundArray(
        # An array without a name is identified by its UUID.
        name=own_name or freshest.array_name or freshest.array_uuid,
        uuid=freshest.array_uuid,
        level=level.value if level else f"level {freshest.level_number}",
        slot_count=freshest.slot_count,
        working_slots=working,
        devices=(*(in_slots[slot] for slot in sorted(in_slots)), *sorted(others)),
        former_devices=tuple(sorted(former)),
        updated_seconds=freshest.updated_seconds,
        refusal="; ".join(filter(None, reasons)),
        metadata_version=freshest.metadata_version,
        own_name=freshest.array_name,
        obstacle=obstacle,
        needs_asking=own_name is None,
    )


def _lab_name(array_name: str, host_name: str) -> str | None:
    """Return the lab's name, such as ``md0`` for ``any:0`` and, on HOST, for ``HOST:0``; None for other names."""
    host, colon, word = array_name.rpartition(":")
    name = word if word.startswith("md") else f"md{word}"
    return name if is_array_name(name) and (not colon or host in (_OUR_HOST, host_name)) else None


def _foreign_words(array_name: str, host_name: str) -> str:
    host, _, _ = array_name.rpartition(":")
    if host and host not in (_OUR_HOST, host_name):
        return f"its name '{array_name}' says that it belongs to the computer '{host}'"
    return f"its name '{array_name}' is not one of the lab's, which are md0 to md999"


def _obstacles(superblock: Superblock, level: LevelName | None, working: Sequence[int]) -> Iterator[str]:
    if level is None:
        yield "raidlab does not support its level"
        return
    missing = frozenset(range(superblock.slot_count)) - frozenset(working)
    if missing and not _survives(level, superblock, missing):
        yield f"{len(missing)} of {superblock.slot_count} members are missing or out of date, more than it survives"


def _survives(level: LevelName, superblock: Superblock, missing: frozenset[int]) -> bool:
    layout = layout_name(level, superblock.layout_number) if level is LevelName.RAID10 else None
    try:
        return level_with_layout(level.value, layout).survives(missing, superblock.slot_count)
    except SpecError:
        return False


@dataclass(frozen=True, slots=True)
class BroughtUp:
    """The arrays found on the disks, by outcome."""

    started: tuple[FoundArray, ...] = ()
    stopped: tuple[FoundArray, ...] = ()
    """The arrays that can be started, but are left stopped."""
    refused: tuple[FoundArray, ...] = ()
    carried: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The types of the signatures on each node that has some, as blkid(8) names them."""

    @property
    def all(self) -> tuple[FoundArray, ...]:
        return (*self.started, *self.stopped, *self.refused)

    def array(self, name: str) -> FoundArray | None:
        """Return the array with this name, or else the one with this superblock name or UUID (refused ones last)."""
        by_name = next((array for array in self.all if array.name == name), None)
        return by_name or next((array for array in self.all if array.is_called(name)), None)

    def word(self, array: FoundArray) -> str:
        """Return an array's name, or its UUID if the name is ambiguous or needs quotes on a command line."""
        is_plain = re.fullmatch(r"[\w.:+@-]+", array.name, re.ASCII) and not array.name.startswith("-")
        return array.name if is_plain and self.array(array.name) is array else array.uuid

    def holder_of(self, node: str) -> FoundArray | None:
        return next((array for array in self.all if node in array.devices), None)

    def former_holder_of(self, node: str) -> FoundArray | None:
        return next((array for array in self.all if node in array.former_devices), None)
