"""The content of blocks, and the ledger: which writes were acknowledged and flushed, and what a block may hold.

A block has 4 KiB: eight sectors of 512 bytes. Each sector begins with 16 bytes, in little-endian order: a magic number,
the number of the block, its generation, and a checksum (BLAKE2b) of the rest of the sector with these two numbers. It
is not a CRC, because the CRC of the exclusive or of three sectors, which wrong parity produces, would be valid too. The
rest follows from seed, block, generation and position (SHAKE-128), so any sector can be regenerated, is never zeros,
and is unique.

Events of the ledger are numbered from 1 in the order in which the writer observed them. Generation 0 of a block is its
content before the ledger began. No two writes to the same block are ever in flight at the same time, so its generations
are ordered. What must be present, by the kind of fault (Documentation/block/writeback_cache_control.rst for flush and
FUA):

    running    an acknowledged write is present; one in flight, or one that failed, may be present or not, or in part
    power cut  the same for writes that were flushed before the cut; each later write may be present or not
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

BLOCK_BYTES = 4096
SECTOR_BYTES = 512
SECTORS = BLOCK_BYTES // SECTOR_BYTES
MAGIC = 0x62614C52
HEADER = struct.Struct("<IIII")


class Content:
    """The blocks of one seed, with a cache."""

    def __init__(self, seed: str, most_kept: int = 16384) -> None:
        self.seed = seed
        self.most_kept = most_kept
        self.kept: dict[tuple[int, int], bytes] = {}

    def block(self, number: int, generation: int) -> bytes:
        """The content of a generation of a block."""
        found = self.kept.get((number, generation))
        if found is None:
            if len(self.kept) >= self.most_kept:
                self.kept.clear()
            found = self.kept[number, generation] = self.made(number, generation)
        return found

    def made(self, number: int, generation: int) -> bytes:
        """The same, without the cache."""
        body = hashlib.shake_128(f"{self.seed}:{number}:{generation}".encode()).digest(BLOCK_BYTES)
        pieces = []
        for start in range(0, BLOCK_BYTES, SECTOR_BYTES):
            rest = body[start + HEADER.size : start + SECTOR_BYTES]
            pieces += [HEADER.pack(MAGIC, number, generation, sum_of(number, generation, rest)), rest]
        return b"".join(pieces)


def sum_of(number: int, generation: int, rest: bytes) -> int:
    """The checksum of a sector."""
    words = struct.pack("<II", number, generation)
    return int.from_bytes(hashlib.blake2b(words + rest, digest_size=4).digest(), "little")


def told_by(sector: bytes) -> tuple[int, int] | None:
    """The block and generation named by a sector; None if it is not a valid sector of the oracle."""
    magic, number, generation, told = HEADER.unpack_from(sector)
    if magic != MAGIC or sum_of(number, generation, sector[HEADER.size :]) != told:
        return None
    return number, generation


def generations_of(content: Content, number: int, data: bytes) -> list[int | None]:
    """The generation of this block in each sector; None for any other content."""
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
    """What a corrupt block appears to be: zeros, another block, a mixture, or unknown bytes."""
    if not any(data):
        return "zeros"
    told = [told_by(data[start : start + SECTOR_BYTES]) for start in range(0, BLOCK_BYTES, SECTOR_BYTES)]
    if told[0] is not None and all(each == told[0] for each in told):
        return f"block {told[0][0]}, generation {told[0][1]}"
    return "a mixture" if any(each is not None for each in told) else "unknown bytes"


WRITE, FLUSH, ACKNOWLEDGED, FAILED, SETTLED = "write", "flush", "acknowledged", "failed", "settled"
INTACT, OLD, NEW, TORN = "intact", "in-flight old", "in-flight new", "torn"
LOST, CORRUPT, UNREADABLE = "lost after acknowledgement", "silently corrupt", "unreadable"
ALLOWED = (INTACT, OLD, NEW, TORN)


class Ledger:
    """The writer's knowledge; ``events`` contains all of it, as lists that JSON can represent."""

    def __init__(self, events: Iterable[list[Any]] = ()) -> None:
        self.events: list[list[Any]] = []
        self.versions: dict[int, list[int]] = {}
        self.writes: dict[int, dict[str, Any]] = {}
        self.flushes: dict[int, dict[str, Any]] = {}
        self.settled: dict[int, tuple[int, int]] = {}
        for event in events:
            self.add(*event)

    def add(self, kind: str, number: int, *more: int) -> int:
        """Append an event; returns its number.

        ``write G FIRST COUNT THROUGH`` (generation G of these blocks; THROUGH 1: O_DSYNC), ``flush N``, ``acknowledged
        N`` and ``failed N`` of either; ``settled BLOCK G``: after a fault, the block was found to hold generation G
        permanently.
        """
        self.events.append([kind, number, *more])
        at = len(self.events)
        if kind == WRITE:
            first, count, through = more
            self.writes[number] = {"came": at, "ended": 0, "through": through}
            for block in range(first, first + count):
                self.versions.setdefault(block, [0]).append(number)
        elif kind == FLUSH:
            self.flushes[number] = {"came": at, "ended": 0}
        elif kind == SETTLED:
            self.settled[number] = (at, more[0])
        elif kind == ACKNOWLEDGED:
            (self.writes.get(number) or self.flushes[number])["ended"] = at
        return at

    @property
    def newest(self) -> int:
        """The highest generation so far; flushes are numbered in the same sequence."""
        return max([0, *self.writes, *self.flushes])

    def blocks(self) -> list[int]:
        """The blocks that were ever written, sorted."""
        return sorted(self.versions)

    def allowed(self, at: int | None = None, *, is_power_cut: bool = False) -> dict[int, list[int]]:
        """Block -> the generations that it may hold, wholly or in part, after event ``at`` (None: after all).

        They are sorted, oldest first. The first one must be present if none of the others is.
        """
        at = len(self.events) if at is None else at
        durable_before = at + 1
        if is_power_cut:
            durable_before = max((each["came"] for each in self.flushes.values() if 0 < each["ended"] <= at), default=0)
        sure: set[int] = set()
        there: set[int] = set()
        for generation, write in self.writes.items():
            if write["came"] <= at:
                there.add(generation)
                if 0 < write["ended"] <= at and (write["ended"] < durable_before or write["through"]):
                    sure.add(generation)
        found = {}
        for block, versions in self.versions.items():
            versions = [each for each in versions if each in there or not each]
            settled_at, settled = self.settled.get(block, (0, 0))
            if 0 < settled_at <= at:
                versions = [settled, *(each for each in versions if each and self.writes[each]["came"] > settled_at)]
            first = max((index for index, each in enumerate(versions) if each in sure), default=0)
            found[block] = versions[first:]
        return found


def judged(found: list[int | None], allowed: list[int]) -> str:
    """The verdict on a block from the generations in its sectors (None: no generation of this block)."""
    whole = found[0] if all(each == found[0] for each in found) else None
    if whole is not None and whole in allowed:
        if len(allowed) == 1:
            return INTACT
        return OLD if whole == allowed[0] else NEW
    if all(each is None for each in found) and 0 in allowed:
        # The content from before the ledger began is unknown.
        return OLD if len(allowed) > 1 else INTACT
    if any(each is None for each in found):
        return CORRUPT
    if all(each in allowed for each in found):
        return TORN
    # All sectors hold generations of this block, but at least one that is too old or was replaced.
    return LOST
