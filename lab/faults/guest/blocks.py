"""Content that tells its place: what every block of the oracle's data holds, and what some bytes once were.

Runs inside the agent of a machine as a part of other programs, standard library alone.

A block has 4 KiB: eight sectors of 512 bytes. Each sector begins with 16 bytes, least significant first: a magic word,
the block's number, its generation, and a sum (BLAKE2b) of all else in the sector with these two numbers: not a CRC,
which holds as well for the exclusive or of three sectors, and so for what wrong parity gives. The rest follows
from seed, block, generation and place (SHAKE-128), so that any
sector can be made again, is never zeros, and none is like another.
"""

from __future__ import annotations

import hashlib
import struct

BLOCK_BYTES = 4096
SECTOR_BYTES = 512
SECTORS = BLOCK_BYTES // SECTOR_BYTES
MAGIC = 0x62614C52
HEADER = struct.Struct("<IIII")


class Content:
    """The blocks of one seed, kept as long as they are asked for again and again."""

    def __init__(self, seed: str, most_kept: int = 16384) -> None:
        self.seed = seed
        self.most_kept = most_kept
        self.kept: dict[tuple[int, int], bytes] = {}

    def block(self, number: int, generation: int) -> bytes:
        """What this generation of a block holds."""
        found = self.kept.get((number, generation))
        if found is None:
            if len(self.kept) >= self.most_kept:
                self.kept.clear()
            found = self.kept[number, generation] = self.made(number, generation)
        return found

    def made(self, number: int, generation: int) -> bytes:
        """The same, made anew."""
        body = hashlib.shake_128(f"{self.seed}:{number}:{generation}".encode()).digest(BLOCK_BYTES)
        pieces = []
        for start in range(0, BLOCK_BYTES, SECTOR_BYTES):
            rest = body[start + HEADER.size : start + SECTOR_BYTES]
            pieces += [HEADER.pack(MAGIC, number, generation, sum_of(number, generation, rest)), rest]
        return b"".join(pieces)


def sum_of(number: int, generation: int, rest: bytes) -> int:
    """The sum of a sector."""
    words = struct.pack("<II", number, generation)
    return int.from_bytes(hashlib.blake2b(words + rest, digest_size=4).digest(), "little")


def told_by(sector: bytes) -> tuple[int, int] | None:
    """The block and the generation that a sector names; None if it is none of the oracle's, or not whole."""
    magic, number, generation, told = HEADER.unpack_from(sector)
    if magic != MAGIC or sum_of(number, generation, sector[HEADER.size :]) != told:
        return None
    return number, generation


def generations_of(content: Content, number: int, data: bytes) -> list[int | None]:
    """Of each sector of a block, which generation of it it holds; None for anything else."""
    found: list[int | None] = []
    for start in range(0, BLOCK_BYTES, SECTOR_BYTES):
        sector = data[start : start + SECTOR_BYTES]
        told = told_by(sector)
        is_right = (
            told is not None
            and told[0] == number
            and sector == content.block(number, told[1])[start : start + SECTOR_BYTES]
        )
        found.append(told[1] if is_right and told else None)
    return found


def looks_like(data: bytes) -> str:
    """What a block that is none of its own generations seems to be: zeros, another block's, a mixture, or unknown."""
    if not any(data):
        return "zeros"
    told = [told_by(data[start : start + SECTOR_BYTES]) for start in range(0, BLOCK_BYTES, SECTOR_BYTES)]
    if told[0] is not None and all(each == told[0] for each in told):
        return f"block {told[0][0]}, generation {told[0][1]}"
    return "a mixture" if any(each is not None for each in told) else "unknown bytes"
