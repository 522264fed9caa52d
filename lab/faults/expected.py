"""What the arithmetic of the levels says of the oracle's blocks.

Which are lost with some members, which a scenario's words mean, where parity over one lies. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from lab.arrays.levels import Level
from lab.arrays.stripes import ChunkKind, stripe_rows
from lab.errors import SpecError
from lab.faults.block_map import BLOCK_BYTES, BlockMap
from lab.units import KIB


@dataclass(frozen=True, slots=True)
class OracleMemberPlace:
    """One place of a block on a member: its slot, and bytes from the start of the member's data."""

    slot: int
    at_bytes: int


@dataclass(frozen=True, slots=True)
class OraclePlaces:
    """Blocks of the oracle on the members of an array of equal members."""

    map: BlockMap

    @property
    def blocks(self) -> int:
        """How many blocks of data the array has."""
        return self.map.blocks

    @property
    def row_blocks(self) -> int:
        """Blocks of data in a full stripe; of mirrors those of a row of chunks."""
        stripe = self.map.level.full_stripe_bytes(self.map.members, self.map.chunk_bytes)
        return max(1, stripe // BLOCK_BYTES)

    def places(self, block: int) -> tuple[OracleMemberPlace, ...]:
        """Where a block and its copies lie, the first place that md writes to first."""
        return tuple(OracleMemberPlace(slot, page * BLOCK_BYTES) for slot, page in self.map.places(block))

    def parity_places(self, block: int) -> dict[str, OracleMemberPlace]:
        """``P`` and ``Q``: the bytes of parity that a block goes into. Nothing for mirrors."""
        if not self.map.has_parity:
            return {}
        level, chunk = self.map.level, self.map.chunk_bytes
        place = self.places(block)[0]
        row = stripe_rows(level, None, self.map.members, place.at_bytes // chunk + 1)[-1]
        kinds = {each.kind: slot for slot, each in enumerate(row.chunks)}
        parities = [kind for kind in (ChunkKind.P, ChunkKind.Q) if kind in kinds]
        return {kind.value: OracleMemberPlace(kinds[kind], place.at_bytes) for kind in parities}

    def unreadable(self, failed: Collection[int]) -> frozenset[int]:
        """Blocks of which nothing is left when exactly these slots are gone."""
        return frozenset(block for block in range(self.blocks) if not self.map.is_readable(block, failed))

    def on_slots(self, slots: Collection[int]) -> frozenset[int]:
        """Blocks of data of which a member in these slots holds something."""
        return frozenset(
            block for block in range(self.blocks) if any(each.slot in slots for each in self.places(block))
        )

    def row_of(self, block: int) -> frozenset[int]:
        """The blocks that share their bytes of parity with a block, itself among them; of copies itself alone."""
        if not self.map.has_parity:
            return frozenset({block})
        first = block // self.row_blocks * self.row_blocks
        return frozenset(
            each
            for each in range(first, first + self.row_blocks)
            if self.map.strips([each]) == self.map.strips([block])
        )

    def described(self, block: int) -> str:
        """``block 5: stripe 0, member 1 at KiB 4``."""
        where = " and ".join(f"member {each.slot} at KiB {each.at_bytes // KIB}" for each in self.places(block))
        return f"block {block}: stripe {block // self.row_blocks}, {where}" if where else f"block {block}"

    def meant(self, words: str) -> frozenset[int]:
        """The blocks that ``slots 0 1``, ``lost with 0 1``, ``stripes 2-4``, ``blocks 5`` or ``row of 5`` mean.

        Raises SpecError.

        ``slots``: what these members hold of the data; ``lost with``: what cannot be read without them; ``row of``:
        what shares a block's bytes of parity.
        """
        found = re.fullmatch(r"\s*([a-z ]*[a-z])\s+([\d, -]+)", words)
        kind, numbers = (found[1], numbers_in(found[2])) if found else ("", frozenset())
        match kind:
            case "slots":
                return self.on_slots(numbers)
            case "lost with":
                return self.unreadable(numbers)
            case "stripes":
                return frozenset(each for each in range(self.blocks) if each // self.row_blocks in numbers)
            case "blocks":
                return frozenset(numbers)
            case "row of":
                return frozenset(other for block in numbers for other in self.row_of(block))
            case _:
                raise SpecError(
                    f"'{words}' names no blocks",
                    hint="write slots, lost with, stripes, blocks or row of, and numbers such as 0 3-5",
                )


@lru_cache(maxsize=64)
def places_of(level: Level, members: int, member_bytes: int, chunk_bytes: int) -> OraclePlaces:
    """Of such an array, in mdadm's default rotation."""
    return OraclePlaces(BlockMap(level, members, member_bytes, chunk_bytes))


def numbers_in(text: str) -> frozenset[int]:
    """``0 3-5,8`` as numbers. Raises SpecError."""
    found: set[int] = set()
    for part in filter(None, re.split(r"[\s,]+", text.strip())):
        first, dash, last = part.partition("-")
        if not first.isdigit() or (dash and not last.isdigit()):
            raise SpecError(f"'{part}' is no number", hint="write numbers and ranges, such as 0 3-5")
        found.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(found)
