"""Which arrays lie on the lab's disks, from their superblocks, and the plans that start those that can be started.

What decides is pure; ``discover`` reads all disks with one command.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lab.arrays.create import assemble
from lab.arrays.level_names import layout_name, level_with_layout
from lab.arrays.levels import LevelName
from lab.arrays.names import is_array_name
from lab.arrays.superblock import (
    SUPERBLOCK_BYTES,
    SUPERBLOCK_OFFSET,
    Superblock,
    is_journal,
    is_spare,
    parse_superblock,
    slot_of,
)
from lab.errors import SpecError
from lab.machine.api import Machine
from lab.plans import Plan

_OUR_HOST = "any"
_READ_BYTES = SUPERBLOCK_OFFSET + SUPERBLOCK_BYTES
# One shell and two programs for all disks: on the embedded kernel each process costs some 20 ms.
_READ_SCRIPT = f'head -q -c {_READ_BYTES} "$@" | base64 -w0'
# The pages of a member that an earlier read left in the cache do not change when md writes a superblock past them.
_DIRECT_PROGRAM = f"""
import base64, mmap, os, sys
buffer = mmap.mmap(-1, 4096)
for path in sys.argv[1:]:
    count = 0
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        count = os.preadv(fd, [buffer], {SUPERBLOCK_OFFSET})
        os.close(fd)
    except OSError:
        pass
    print(base64.b64encode(buffer[:count]).decode())
"""
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

    def assemble_plan(self) -> Plan:
        """How to start it, degraded if it must be."""
        return assemble(self.name, self.devices)


def discover(machine: Machine, nodes: Sequence[str], *, are_used: bool = False) -> tuple[FoundArray, ...]:
    """The arrays on these devices, by name. ``are_used``: md may have them open, so read past the page cache."""
    read = read_superblocks_directly if are_used else read_superblocks
    return arrays_in(read(machine, nodes), host_name=machine.facts.host_name)


def read_superblocks(machine: Machine, nodes: Sequence[str]) -> dict[str, Superblock]:
    """Node -> superblock, for the devices that carry one of version 1.2."""
    if not nodes:
        return {}
    text = machine.run(("sh", "-c", _READ_SCRIPT, "read-superblocks", *nodes)).stdout
    try:
        data = base64.b64decode(text)
    except binascii.Error:
        return {}
    found = {}
    for number, node in enumerate(nodes):
        start = number * _READ_BYTES + SUPERBLOCK_OFFSET
        superblock = parse_superblock(data[start : start + SUPERBLOCK_BYTES])
        if superblock:
            found[node] = superblock
    return found


def read_superblocks_directly(machine: Machine, nodes: Sequence[str]) -> dict[str, Superblock]:
    """As ``read_superblocks``, past the page cache; a device that cannot be read carries none."""
    if not nodes:
        return {}
    text = machine.run(("python3", "-ISc", _DIRECT_PROGRAM, *nodes)).stdout
    found = {}
    for node, line in zip(nodes, text.splitlines(), strict=False):
        superblock = parse_superblock(base64.b64decode(line))
        if superblock:
            found[node] = superblock
    return found


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
