"""Which arrays lie on the lab's disks, from their superblocks, and the plans that start those that can be started.

What decides is pure; what the disks hold was read before.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.arrays.create import assemble
from lab.arrays.level_names import layout_name, level_with_layout
from lab.arrays.levels import LevelName
from lab.arrays.names import array_device, is_array_name
from lab.errors import SpecError
from lab.machine.api import Machine
from lab.plans import Plan

SUPERBLOCK_OFFSET = 4096
SUPERBLOCK_BYTES = 1024
"""The fixed part and a table of roles for up to 384 devices (md(4))."""

_MAGIC = 0xA92B4EFC
_ROLES_OFFSET = 256
_SPARE, _FAULTY, _JOURNAL = 0xFFFF, 0xFFFE, 0xFFFD
_RECOVERY_FEATURE = 2
_RESHAPE_FEATURE = 4
_SECONDS = 0xFF_FFFF_FFFF
"""Of a time in a superblock; the bits above are microseconds."""


@dataclass(frozen=True, slots=True)
class Superblock:
    """What one device says. Roles: the number of a slot, or one of the words below."""

    array_uuid: str
    array_name: str
    """Such as ``any:0``."""
    level_number: int
    layout_number: int
    slot_count: int
    device_number: int
    roles: tuple[int, ...]
    """What the array thought of each device, by device number, when this superblock was written."""
    events: int
    updated_seconds: int
    created_seconds: int
    """When the array was created, in seconds since 1970."""
    is_incomplete: bool
    """In a slot, but a rebuild has not copied everything yet."""
    is_reshaping: bool

    def role_of(self, device_number: int) -> int:
        """The role of a device in this superblock's table; unknown devices count as spares."""
        return self.roles[device_number] if device_number < len(self.roles) else _SPARE

    @property
    def own_role(self) -> int:
        return self.role_of(self.device_number)


def is_spare(role: int) -> bool:
    """Whether the role is that of a spare, or of a device that is no longer known."""
    return role == _SPARE


def is_journal(role: int) -> bool:
    """Whether the role is that of a journal."""
    return role == _JOURNAL


def slot_of(role: int) -> int | None:
    """The slot's number; None for a spare, a journal and a faulty device."""
    return None if role in (_SPARE, _FAULTY, _JOURNAL) else role


def parse_superblock(data: bytes) -> Superblock | None:
    """The superblock in the first ``SUPERBLOCK_BYTES`` of ``data``; None if there is none of this version."""
    if len(data) < _ROLES_OFFSET:
        return None
    magic, major, features = struct.unpack_from("<III", data)
    if magic != _MAGIC or major != 1:
        return None
    created, level, layout = struct.unpack_from("<QiI", data, 64)
    (slots,) = struct.unpack_from("<I", data, 92)
    (device_number,) = struct.unpack_from("<I", data, 160)
    updated, events = struct.unpack_from("<QQ", data, 192)
    (device_slots,) = struct.unpack_from("<I", data, 220)
    roles = min(device_slots, (len(data) - _ROLES_OFFSET) // 2)
    return Superblock(
        array_uuid=str(uuid.UUID(bytes=data[16:32])),
        array_name=data[32:64].partition(b"\0")[0].decode("utf-8", "replace"),
        level_number=level,
        layout_number=layout,
        slot_count=slots,
        device_number=device_number,
        roles=struct.unpack_from(f"<{roles}H", data, _ROLES_OFFSET),
        events=events,
        updated_seconds=updated & _SECONDS,
        created_seconds=created & _SECONDS,
        is_incomplete=bool(features & _RECOVERY_FEATURE),
        is_reshaping=bool(features & _RESHAPE_FEATURE),
    )


MD_HEAD_BYTES = SUPERBLOCK_OFFSET + SUPERBLOCK_BYTES
_OUR_HOST = "any"
_LEVELS = {level.value.removeprefix("raid"): level for level in LevelName}


@dataclass(frozen=True, slots=True)
class FoundArray:
    """One array on the disks. ``refusal`` says why it is not to be started; empty if it is."""

    name: str
    """md0; the superblock's own name where that is not one of the lab's."""
    uuid: str
    level: str
    slot_count: int
    working_slots: tuple[int, ...]
    """Slots whose member is there, is up to date and holds all of its data."""
    devices: tuple[str, ...]
    """Nodes that belong to it now: members by slot, then spares and journal."""
    former_devices: tuple[str, ...]
    """Nodes that once belonged to it: they failed, or missed what was written later."""
    updated_seconds: int
    refusal: str = ""

    @property
    def is_degraded(self) -> bool:
        return len(self.working_slots) < self.slot_count

    def start_plan(self, machine: Machine) -> Plan:
        """How to start it on ``machine``, degraded if it must be. Raises ArrayError for what cannot be."""
        return assemble(self.name, self.devices)

    def clear_away(self, machine: Machine) -> None:
        """Stop whatever runs of it, in whatever state it is; nothing is erased."""
        machine.run(("mdadm", "--stop", array_device(self.name)), check=False)


def superblocks_in(heads: Mapping[str, bytes]) -> dict[str, Superblock]:
    """Node -> superblock of version 1.2, for the devices that carry one in their first ``MD_HEAD_BYTES``."""
    found = {node: parse_superblock(head[SUPERBLOCK_OFFSET:MD_HEAD_BYTES]) for node, head in heads.items()}
    return {node: superblock for node, superblock in found.items() if superblock}


def arrays_in(superblocks: Mapping[str, Superblock], *, host_name: str = "") -> tuple[FoundArray, ...]:
    """The arrays that these superblocks tell of. Of two with one name only the one written last may start.

    ``host_name`` is this machine's: mdadm puts it in the names of arrays that someone creates by hand.
    """
    by_array: dict[str, dict[str, Superblock]] = {}
    for node, superblock in superblocks.items():
        by_array.setdefault(superblock.array_uuid, {})[node] = superblock
    found = sorted(
        (_array(members, host_name) for members in by_array.values()), key=lambda array: -array.updated_seconds
    )
    kept: list[FoundArray] = []
    for array in found:
        taken = any(other.name == array.name and not other.refusal for other in kept)
        reason = f"another array has the name {array.name} and was written later"
        kept.append(replace(array, refusal=reason) if taken and not array.refusal else array)
    return tuple(sorted(kept, key=lambda array: (len(array.name), array.name, array.refusal)))


def _array(members: Mapping[str, Superblock], host_name: str) -> FoundArray:
    freshest = max(members.values(), key=lambda superblock: superblock.events)
    in_slots: dict[int, str] = {}
    others: list[str] = []
    former: list[str] = []
    for node, superblock in members.items():
        role = freshest.role_of(superblock.device_number)
        slot = slot_of(role)
        # A member may lag by one event when the machine stopped between two writes; md still takes it.
        is_current = superblock.events + 1 >= freshest.events
        if slot is not None and is_current and slot not in in_slots:
            in_slots[slot] = node
        elif is_journal(role) or (is_spare(role) and is_spare(superblock.own_role)):
            others.append(node)
        else:
            former.append(node)
    working = tuple(slot for slot, node in sorted(in_slots.items()) if not members[node].is_incomplete)
    level = _LEVELS.get(str(freshest.level_number))
    return FoundArray(
        name=_lab_name(freshest.array_name, host_name) or freshest.array_name,
        uuid=freshest.array_uuid,
        level=level.value if level else f"level {freshest.level_number}",
        slot_count=freshest.slot_count,
        working_slots=working,
        devices=(*(in_slots[slot] for slot in sorted(in_slots)), *sorted(others)),
        former_devices=tuple(sorted(former)),
        updated_seconds=freshest.updated_seconds,
        refusal="; ".join(_reasons(freshest, level, working, host_name)),
    )


def _lab_name(array_name: str, host_name: str) -> str | None:
    """``md0`` for ``any:0`` and for this machine's own ``HOST:0``; None for a name that was given elsewhere."""
    host, colon, word = array_name.rpartition(":")
    name = word if word.startswith("md") else f"md{word}"
    return name if is_array_name(name) and (not colon or host in (_OUR_HOST, host_name)) else None


def _reasons(superblock: Superblock, level: LevelName | None, working: Sequence[int], host_name: str) -> Iterator[str]:
    if _lab_name(superblock.array_name, host_name) is None:
        yield f"it is called '{superblock.array_name}', so another system made it"
    if level is None:
        yield "the lab does not know its level"
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
