"""The arrays into which faults are injected: how they are created, and which members hold a block of the oracle.

A strip consists of the 4 KiB pages at one offset on all members. md computes parity strip by strip (stripe_head in
drivers/md/raid5.h), so a write to one strip never changes another.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Any

from lab.arrays import operations
from lab.arrays.array import ArrayOperations
from lab.arrays.filesystem import FileSystem
from lab.arrays.geometry import ArrayGeometry, ParityGeometry, level_geometry
from lab.arrays.levels import Level, LevelName, array_device, md_path
from lab.arrays.spec import ArraySpec, Bitmap, ConsistencyPolicy, Spec
from lab.disks import DiskKind, LabDisk
from lab.errors import SpecError
from lab.faults.place import DRIVE_BYTES, DRIVES
from lab.plans import Plan, Step
from lab.units import KIB, MIB, SECTOR_BYTES

CHUNK_BYTES = 16 * KIB
ARRAY = "md0"
NODE, MD = array_device(ARRAY), md_path(ARRAY)
BLOCK_BYTES = 4 * KIB
DATA_OFFSET_BYTES = 2 * MIB
"""The data offset of every member; fixed, so that the position of a block on a drive is known."""
_JOURNAL = {"consistency_policy": ConsistencyPolicy.JOURNAL}
POLICIES: Mapping[str, Mapping[str, Any]] = {
    "resync": {},
    # With a small bitmap chunk, even a small array has many bits.
    "bitmap": {"bitmap": Bitmap.INTERNAL, "bitmap_chunk_bytes": 64 * KIB},
    "ppl": {"consistency_policy": ConsistencyPolicy.PPL},
    "journal": _JOURNAL,
    "journal-back": _JOURNAL,
    "write-back": _JOURNAL,
}
"""Name of a consistency policy -> fields of ArraySpec (md(4), consistency_policy)."""


def array_spec(
    level: str, members: Sequence[str], policy: str, *, size_bytes: int, chunk_bytes: int, **more: Any
) -> ArraySpec:
    """Return the array ``md0`` on these members, with its data at ``DATA_OFFSET_BYTES``.

    ``policy`` is a key of ``POLICIES``; ``more`` are further fields of ArraySpec. ``assume_clean`` is ignored at
    levels without redundancy, and ``chunk_bytes`` at levels without chunks.
    """
    spec = ArraySpec(
        level,
        tuple(members),
        chunk_bytes=chunk_bytes,
        size_bytes=size_bytes,
        data_offset_bytes=DATA_OFFSET_BYTES,
        **{**POLICIES[policy], **more},
    )
    return replace(spec, assume_clean=spec.assume_clean and spec.raid.is_redundant)


@dataclass(frozen=True)
class BlockMap:
    """The layout of the blocks on ``members`` members of ``member_bytes`` each.

    Raises SpecError if the level needs more members.
    """

    level: Level
    members: int
    member_bytes: int
    chunk_bytes: int
    layout: str | None = None
    """Of RAID 5 and 6; the layout of RAID 10 is a part of ``level``."""

    def __post_init__(self) -> None:
        _ = self._geometry

    @cached_property
    def _geometry(self) -> ArrayGeometry:
        chunk = self.chunk_bytes // SECTOR_BYTES
        sectors = self.member_bytes // self.chunk_bytes * chunk
        return level_geometry(self.level, self.layout, self.members, chunk, sectors)

    @cached_property
    def _chunks(self) -> dict[int, list[tuple[int, int]]]:
        """Chunk of the array -> (slot, chunk on the member) of each copy."""
        size = self.chunk_bytes // SECTOR_BYTES
        places = map(self._geometry.places, range(0, self._geometry.size_sectors, size))
        return {number: [(each.slot, each.sector // size) for each in found] for number, found in enumerate(places)}

    @property
    def has_parity(self) -> bool:
        return self.level.parity_members > 0

    @property
    def blocks(self) -> int:
        return self.level.capacity_bytes(self.members, self.member_bytes, self.chunk_bytes) // BLOCK_BYTES

    @property
    def row_blocks(self) -> int:
        """Number of data blocks in a full stripe; for mirrors, in a row of chunks."""
        return max(1, self.level.full_stripe_bytes(self.members, self.chunk_bytes) // BLOCK_BYTES)

    @property
    def stripe_blocks(self) -> int:
        """Number of data blocks in a full stripe; 0 at levels without parity, where full stripes have no advantage."""
        return self.row_blocks if self.has_parity else 0

    def geometry(self) -> dict[str, Any]:
        """Return the rows that guest/arrays.py (``disagreeing``) compares, with the chunk and member sizes in bytes.

        The list of rows is empty for levels without redundancy.
        """
        rows: list[list[Any]] = []
        per_member = self.member_bytes // self.chunk_bytes
        if isinstance(self._geometry, ParityGeometry):
            for number in range(per_member):
                row = self._geometry.row(number)
                data = sorted(row.exponents, key=row.exponents.__getitem__)
                rows.append(["parity", number, data, row.p_slot, row.q_slot])
        elif self.level.is_redundant:
            rows = [["copies", [list(place) for place in places]] for _, places in sorted(self._chunks.items())]
        return {"chunk": self.chunk_bytes, "member_bytes": per_member * self.chunk_bytes, "rows": rows}

    @property
    def row_count(self) -> int:
        return self.member_bytes // self.chunk_bytes if self.has_parity else len(self._chunks)

    def places(self, block: int) -> list[tuple[int, int]]:
        """Return (slot, page of the member's data) of each copy of a block; empty if it is beyond the array's end."""
        per_chunk = self.chunk_bytes // BLOCK_BYTES
        number, page = divmod(block, per_chunk)
        return [(slot, row * per_chunk + page) for slot, row in self._chunks.get(number, ())]

    def parity_places(self, block: int) -> dict[str, tuple[int, int]]:
        """Return (slot, page) of a block's ``P`` and ``Q``; empty without parity or beyond the array's end."""
        if block >= self.blocks:
            return {}
        sectors = BLOCK_BYTES // SECTOR_BYTES
        parities = self._geometry.parities(block * sectors)
        return {each.kind.value: (each.slot, each.sector // sectors) for each in parities}

    def strips(self, blocks: Iterable[int]) -> set[int]:
        return {page for block in blocks for _, page in self.places(block)}

    def blocks_in(self, strips: Collection[int], slots: Collection[int]) -> set[int]:
        """Return the data blocks in these strips that lie on these members."""
        per_chunk = self.chunk_bytes // BLOCK_BYTES
        found = set()
        for number, places in self._chunks.items():
            for slot, row in places:
                if slot in slots:
                    pages = range(row * per_chunk, (row + 1) * per_chunk)
                    found |= {number * per_chunk + index for index, page in enumerate(pages) if page in strips}
        return found

    def is_readable(self, block: int, missing: Collection[int], bad: Collection[tuple[int, int]] = ()) -> bool:
        """Whether a block can be read or reconstructed without the slots ``missing`` and the pages ``bad``.

        ``bad`` contains (slot, page) pairs.
        """
        places = self.places(block)
        if any(slot not in missing and (slot, page) not in bad for slot, page in places):
            return True
        if not self.has_parity:
            return False
        ((_, page),) = places
        lost = {slot for slot in range(self.members) if slot in missing or (slot, page) in bad}
        return self.level.survives(frozenset(lost), self.members)

    def unreadable(self, failed: Collection[int]) -> frozenset[int]:
        """Return the blocks that cannot be read or reconstructed if exactly these slots are missing."""
        return frozenset(block for block in range(self.blocks) if not self.is_readable(block, failed))

    def on_slots(self, slots: Collection[int]) -> frozenset[int]:
        """Return the data blocks that have at least one copy on a member in one of these slots."""
        return frozenset(block for block in range(self.blocks) if any(slot in slots for slot, _ in self.places(block)))

    def described(self, block: int) -> str:
        """Return the block's location as text, for example ``block 5: stripe 0, member 1 at KiB 4``."""
        where = " and ".join(f"member {slot} at KiB {page * BLOCK_BYTES // KIB}" for slot, page in self.places(block))
        return f"block {block}: stripe {block // self.row_blocks}, {where}" if where else f"block {block}"

    def meant(self, words: str) -> frozenset[int]:
        """Return the blocks that a text such as ``slots 0 1``, ``lost with 0 1`` or ``blocks 5`` denotes.

        ``slots`` means the data blocks on these members, and ``lost with`` the blocks that cannot be read without them.
        Raises SpecError if the text has any other form.
        """
        found = re.fullmatch(r"\s*([a-z ]*[a-z])\s+([\d, -]+)", words)
        kind, numbers = (found[1], numbers_in(found[2])) if found else ("", frozenset())
        match kind:
            case "slots":
                return self.on_slots(numbers)
            case "lost with":
                return self.unreadable(numbers)
            case "blocks":
                return numbers
            case _:
                raise SpecError(
                    f"'{words}' does not say which blocks are meant",
                    hint="write 'slots', 'lost with' or 'blocks', followed by numbers such as 0 3-5",
                )

    def rows(self, strips: Collection[int], blocks: Collection[int], bad: Collection[tuple[int, int]]) -> set[int]:
        """Return the rows of ``geometry`` that contain any of these strips, blocks or (slot, page) pairs."""
        per_chunk = self.chunk_bytes // BLOCK_BYTES
        if self.has_parity:
            pages = {*strips, *self.strips(blocks), *(page for _, page in bad)}
            return {page // per_chunk for page in pages}
        spoiled = {(slot, page // per_chunk) for slot, page in (*bad, *product(range(self.members), strips))}
        found = {block // per_chunk for block in blocks}
        return found | {number for number, places in self._chunks.items() if spoiled & set(places)}


@lru_cache(maxsize=64)
def block_map(spec: ArraySpec) -> BlockMap:
    """Return the layout of an array's blocks. The units of RAID 1, which has no chunks, are ``CHUNK_BYTES`` long.

    Raises SpecError if the level needs more members.
    """
    assert spec.size_bytes
    chunk = spec.effective_chunk_bytes or CHUNK_BYTES
    return BlockMap(spec.raid, len(spec.members), spec.size_bytes, chunk, spec.layout)


def array_title(spec: ArraySpec) -> str:
    """Describe an array, for example ``raid5 of 4, chunks of 16 KiB, ppl``."""
    chunk = f", chunks of {spec.effective_chunk_bytes // KIB} KiB" if spec.effective_chunk_bytes else ""
    layout = f" {spec.layout}" if spec.layout else ""
    policy = "bitmap" if spec.bitmap is Bitmap.INTERNAL else spec.consistency_policy.value
    return f"{spec.level}{layout} of {len(spec.members)}{chunk}, {policy}"


def drives(node_of: Callable[[str], str] = "@{}".format) -> tuple[LabDisk, ...]:
    """Return the drives, whose names are their numbers; in scenarios, ``@1`` stands for the node of drive 1."""
    names = map(str, range(DRIVES))
    return tuple(LabDisk(name=name, kind=DiskKind.FILE, node=node_of(name), size_bytes=DRIVE_BYTES) for name in names)


class HistoryArrays:
    """The arrays of a history, for the plans of operations: they have the member sizes and the offsets of ``spec``.

    One program on the machine runs the whole history, because a client that read the array's state between two steps
    would influence the timing. All steps are therefore planned beforehand, and no plan can depend on the current state
    of the array.
    """

    def __init__(self, spec: ArraySpec, node_of: Callable[[str], str] = "@{}".format) -> None:
        self.spec, self.node_of, self.disks = spec, node_of, drives(node_of)
        self.level, self.members = spec.level, len(spec.members)
        """The level and the number of members after the reshapes so far."""

    def free_disks(self) -> tuple[LabDisk, ...]:
        return self.disks

    def names(self) -> tuple[str, ...]:
        return ()

    def array(self, name: str) -> HistoryArray:
        return HistoryArray(name, self)

    def creation(self, spec: Spec, file_system: FileSystem = FileSystem.RAW) -> Plan:
        if not isinstance(spec, ArraySpec) or file_system is not FileSystem.RAW:
            raise SpecError(
                "only an md array without a file system can be created here", hint="use a step with act = 'shell'"
            )
        placed = replace(spec, size_bytes=self.spec.size_bytes, data_offset_bytes=self.spec.data_offset_bytes)
        return Plan(f"Create {spec.name}", (Step(placed.create_argv, "The drives are blank."),))

    def start_stopped(self) -> Plan:
        return self.array(self.spec.name).assemble()


class HistoryArray(ArrayOperations):
    """One array of a history."""

    def __init__(self, name: str, arrays: HistoryArrays) -> None:
        super().__init__(name)
        self.arrays, self.node_of = arrays, arrays.node_of
        self.devices = arrays.spec.devices if name == arrays.spec.name else ()
        """The nodes of the history's own array; those of any other array must be given."""

    def assemble(self, *, force: bool = False, disks: Sequence[str] = ()) -> Plan:
        return operations.assemble(self.name, [*map(self.node_of, disks)] or self.devices, force=force)

    def stop(self) -> Plan:
        return operations.stop(self.name)

    def destroy(self) -> Plan:
        return self.stop() + operations.zero_superblocks(self.devices)

    def fail(self, disk: str, *, breaks_array: bool = False) -> Plan:
        return operations.fail(self.name, self.node_of(disk), breaks_array=breaks_array)

    def remove(self, disk: str) -> Plan:
        return operations.remove(self.name, self.node_of(disk))

    def add(self, disk: str) -> Plan:
        return operations.add(self.name, self.node_of(disk))

    def re_add(self, disk: str) -> Plan:
        return operations.re_add(self.name, self.node_of(disk))

    def replace(self, old: str, new: str) -> Plan:
        return operations.replace(self.name, self.node_of(old), self.node_of(new))

    def scrub(self, action: str = "check") -> Plan:
        return operations.scrub(self.name, action)

    def speed(self, **limits: int | None) -> Plan:
        return operations.set_sync_speed(self.name, **limits)

    def bitmap(self, kind: Bitmap, *, chunk_bytes: int | None = None) -> Plan:
        return operations.set_bitmap(self.name, kind, chunk_bytes=chunk_bytes)

    def grow(self, *, disks: Sequence[str] = (), count: int | None = None, level: str | None = None) -> Plan:
        """Plan a reshape onto the drives that follow the members; those not in ``disks`` must already be spares."""
        arrays, added = self.arrays, [*map(self.node_of, disks)]
        members, old = arrays.members, arrays.level
        if count is None:
            count = members + len(disks) + (level == LevelName.RAID6)
        spares = [self.node_of(str(number)) for number in range(members + len(disks), count)]
        arrays.members, arrays.level = count, level or old
        if level:
            return operations.grow_level(self.name, old, level, members, added, spares)
        return operations.grow_members(self.name, old, members, added, spares)


def numbers_in(text: str) -> frozenset[int]:
    """Return the numbers in a text such as ``0 3-5,8``. Raises SpecError if the text is invalid."""
    found: set[int] = set()
    for part in filter(None, re.split(r"[\s,]+", text.strip())):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise SpecError(f"'{part}' is not a number", hint="write numbers and ranges, such as 0 3-5")
        found.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(found)
