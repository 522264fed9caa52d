"""The arrays into which faults are injected: how they are created, and which members hold a block of the oracle.

A strip consists of the 4 KiB pages at one offset on all members. md computes parity strip by strip (stripe_head in
drivers/md/raid5.h), so a write to one strip never changes another.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from lab.arrays.geometry import ArrayGeometry, ParityGeometry, ParityRow, level_geometry
from lab.arrays.levels import Level, array_device, md_path
from lab.arrays.spec import ArraySpec, Bitmap, ConsistencyPolicy
from lab.errors import SpecError
from lab.units import KIB, MIB, SECTOR_BYTES

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


def creation_argv(
    level: str, members: Sequence[str], policy: str, *, size_bytes: int, chunk_bytes: int, **more: Any
) -> list[str]:
    """Return the mdadm command line that creates ``NODE``, with its data at ``DATA_OFFSET_BYTES``.

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
    return list(replace(spec, assume_clean=spec.assume_clean and spec.raid.is_redundant).create_argv)


@dataclass(frozen=True)
class BlockMap:
    """The layout of the blocks on ``members`` members of ``member_bytes`` each.

    Raises SpecError if the level needs more members.
    """

    level: Level
    members: int
    member_bytes: int
    chunk_bytes: int

    def __post_init__(self) -> None:
        _ = self._geometry

    @cached_property
    def _geometry(self) -> ArrayGeometry:
        chunk = self.chunk_bytes // SECTOR_BYTES
        return level_geometry(self.level, None, self.members, chunk, self.member_bytes // self.chunk_bytes * chunk)

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
            rows = [_parity(number, self._geometry.row(number)) for number in range(per_member)]
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
        spoiled = {(slot, page // per_chunk) for slot, page in bad}
        found = {block // per_chunk for block in blocks}
        return found | {number for number, places in self._chunks.items() if spoiled & set(places)}


def numbers_in(text: str) -> frozenset[int]:
    """Return the numbers in a text such as ``0 3-5,8``. Raises SpecError if the text is invalid."""
    found: set[int] = set()
    for part in filter(None, re.split(r"[\s,]+", text.strip())):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise SpecError(f"'{part}' is not a number", hint="write numbers and ranges, such as 0 3-5")
        found.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(found)


def _parity(number: int, row: ParityRow) -> list[Any]:
    powers = row.exponents
    return ["parity", number, sorted(powers, key=lambda slot: powers[slot]), row.p_slot, row.q_slot]
