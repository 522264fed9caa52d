"""What an array is to be, checked as a whole before anything is touched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from lab.arrays.level_names import level_with_layout, parse_level
from lab.arrays.levels import DEFAULT_CHUNK_BYTES, Level, LevelName, Raid10
from lab.arrays.names import array_device, is_array_name, is_device_node
from lab.errors import SpecError, refuse_problems
from lab.units import KIB, human_bytes

MINIMUM_CHUNK_BYTES = 4 * KIB
MAXIMUM_MEMBERS = 384
"""Slots of a 1.2 superblock that fits in 4 KiB (md(4))."""

METADATA_VERSION = "1.2"
PPL_MAXIMUM_MEMBERS = 64
"""Kernel document driver-api/md/raid5-ppl."""


class Bitmap(StrEnum):
    """The write-intent bitmap: none, or kept in the superblock area of every member."""

    NONE = "none"
    INTERNAL = "internal"


class ConsistencyPolicy(StrEnum):
    """How an array becomes consistent again after an unclean stop (mdadm(8), --consistency-policy)."""

    RESYNC = "resync"
    PPL = "ppl"
    JOURNAL = "journal"


@dataclass(frozen=True, slots=True)
class ArraySpec:
    """One array as the user wants it. Nothing is checked until ``validate``.

    ``members``, ``spares`` and ``journal_device`` are device nodes in slot order; ``chunk_bytes`` None means mdadm's
    default where the level has chunks. ``assume_clean`` leaves out the first resync: right only for blank members.
    """

    level: str
    members: tuple[str, ...]
    name: str = "md0"
    spares: tuple[str, ...] = ()
    chunk_bytes: int | None = None
    layout: str | None = None
    bitmap: Bitmap = Bitmap.NONE
    bitmap_chunk_bytes: int | None = None
    """What one bit stands for; None: mdadm's choice, 64 MiB or more, so that a small array has a handful of bits."""
    metadata_version: str = METADATA_VERSION
    consistency_policy: ConsistencyPolicy = ConsistencyPolicy.RESYNC
    journal_device: str | None = None
    assume_clean: bool = False

    @property
    def raid(self) -> Level:
        """The arithmetic of this level and layout. Raises SpecError for an unknown one."""
        return level_with_layout(self.level, self.layout)

    @property
    def is_array(self) -> bool:
        """False for a single disk, which md does not see."""
        return parse_level(self.level).name is not LevelName.SINGLE

    @property
    def device(self) -> str:
        """The block device to use: /dev/md0, or the disk itself for ``single``."""
        return array_device(self.name) if self.is_array else self.members[0]

    @property
    def effective_chunk_bytes(self) -> int | None:
        """The chunk that the array gets, in bytes; None where the level has no chunk."""
        if not self.raid.has_chunk:
            return None
        return DEFAULT_CHUNK_BYTES if self.chunk_bytes is None else self.chunk_bytes

    @property
    def devices(self) -> tuple[str, ...]:
        """Every device that the array takes: members, spares, journal."""
        return self.members + self.spares + ((self.journal_device,) if self.journal_device else ())

    def problems(self) -> tuple[str, ...]:
        """Everything that is wrong, one sentence each; empty for a spec that can be built."""
        return tuple(_problems(self))

    def validate(self) -> None:
        """Raises one SpecError that lists all problems."""
        refuse_problems(f"array {self.name}", self.problems())


def _problems(spec: ArraySpec) -> Iterator[str]:
    if not is_array_name(spec.name):
        yield f"name '{spec.name}' is not md and a number below 1000, such as md0"
    if spec.metadata_version != METADATA_VERSION:
        yield f"metadata '{spec.metadata_version}' is not {METADATA_VERSION}, the only one the lab writes"
    yield from _device_problems(spec)
    try:
        level = parse_level(spec.level)
    except SpecError as error:
        yield f"{error.message} ({error.hint})"
        return
    try:
        level = spec.raid
    except SpecError as error:
        yield f"{error.message} ({error.hint})"
    yield from _member_problems(spec, level)
    yield from _chunk_problems(spec, level)
    yield from _consistency_problems(spec, level)


def _device_problems(spec: ArraySpec) -> Iterator[str]:
    seen: set[str] = set()
    for device in spec.members:
        if device in seen:
            yield f"member {device} is named twice"
        seen.add(device)
    for role, devices in (("spare", spec.spares), ("journal", tuple(filter(None, (spec.journal_device,))))):
        for device in devices:
            if device in spec.members:
                yield f"{role} {device} is also a member"
            elif device in seen:
                yield f"{role} {device} is named twice"
            seen.add(device)
    for device in sorted(seen):
        if not is_device_node(device):
            yield f"'{device}' is not a device node under /dev"


def _member_problems(spec: ArraySpec, level: Level) -> Iterator[str]:
    count, name = len(spec.members), level.name.value
    if level.name is LevelName.SINGLE and count != 1:
        yield f"single takes exactly 1 disk, not {count}"
    elif count < level.minimum_members:
        yield f"{name} needs at least {level.minimum_members} members, not {count}"
    elif count > MAXIMUM_MEMBERS:
        yield f"{name} takes at most {MAXIMUM_MEMBERS} members, not {count}"
    if isinstance(level, Raid10) and level.copies > count:
        yield f"layout {level.layout_word} keeps {level.copies} copies, more than the {count} members"
    if spec.spares and not level.is_redundant:
        yield f"{name} cannot use spares: nothing is left to rebuild from"


def _chunk_problems(spec: ArraySpec, level: Level) -> Iterator[str]:
    chunk = spec.chunk_bytes
    if chunk is None:
        return
    if not level.has_chunk:
        yield f"{level.name.value} has no chunk; leave it out"
    elif chunk < MINIMUM_CHUNK_BYTES:
        yield f"chunk {human_bytes(chunk)} is below {human_bytes(MINIMUM_CHUNK_BYTES)}"
    elif chunk & (chunk - 1):
        # md would take any multiple of a page for RAID 0; one rule for all levels keeps them comparable.
        exception = " (md would allow it for raid0, the lab does not)" if level.name is LevelName.RAID0 else ""
        yield f"chunk {human_bytes(chunk)} is not a power of two{exception}"


def _bitmap_chunk_problems(spec: ArraySpec) -> Iterator[str]:
    chunk = spec.bitmap_chunk_bytes
    if chunk is None:
        return
    if spec.bitmap is Bitmap.NONE:
        yield "a bitmap chunk needs a bitmap: internal"
    if chunk < MINIMUM_CHUNK_BYTES or chunk & (chunk - 1):
        least = human_bytes(MINIMUM_CHUNK_BYTES)
        yield f"bitmap chunk {human_bytes(chunk)} is not a power of two from {least} on"


def _consistency_problems(spec: ArraySpec, level: Level) -> Iterator[str]:
    policy, name = spec.consistency_policy, level.name
    yield from _bitmap_chunk_problems(spec)
    if spec.bitmap is not Bitmap.NONE:
        if not level.is_redundant:
            yield f"{name.value} has no redundancy for a bitmap to keep track of"
        elif policy is not ConsistencyPolicy.RESYNC:
            yield f"a bitmap cannot stand beside policy {policy.value}"
    if policy is ConsistencyPolicy.PPL:
        if name is not LevelName.RAID5:
            yield f"policy ppl works on raid5 only, not {name.value}"
        elif len(spec.members) > PPL_MAXIMUM_MEMBERS:
            yield f"policy ppl takes at most {PPL_MAXIMUM_MEMBERS} members, not {len(spec.members)}"
    if policy is ConsistencyPolicy.JOURNAL:
        if name not in (LevelName.RAID4, LevelName.RAID5, LevelName.RAID6):
            yield f"policy journal works on raid4, raid5 and raid6, not {name.value}"
        if not spec.journal_device:
            yield "policy journal needs a journal device"
    elif spec.journal_device:
        yield f"journal device {spec.journal_device} needs policy journal, not {policy.value}"
    if spec.assume_clean and not level.is_redundant:
        yield f"{name.value} has no first resync to leave out (assume_clean)"
