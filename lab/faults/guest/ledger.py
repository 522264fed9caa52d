"""The content of blocks, and the ledger: which writes were acknowledged and flushed, and what a block may hold.

A block has 4 KiB: eight sectors of 512 bytes. Each sector begins with 16 bytes, least significant first: a magic word,
the number of the block, its generation, and a sum (BLAKE2b) of the rest of the sector with these two numbers: not a
CRC, which holds as well for the exclusive or of three sectors, and so for what wrong parity gives. The rest follows
from seed, block, generation and place (SHAKE-128), so that any sector can be made again, is never zeros, and is like no
other.

Events of the ledger have numbers, from 1, in the order in which the writer met them. Generation 0 of a block is
whatever was there before the ledger began. No two writes of one block are ever in flight at the same time, so its
generations have one order. What must be there, by the kind of fault (Documentation/block/writeback_cache_control.rst
for flush and FUA):

    running    an acknowledged write is there; one in flight, or that failed, may be there or not, also in part
    power cut  the same of what was flushed before the cut; each later write may be there or not
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


WRITE, FLUSH, ACKNOWLEDGED, FAILED, SETTLED = "write", "flush", "acknowledged", "failed", "settled"
INTACT, OLD, NEW, TORN = "intact", "in-flight old", "in-flight new", "torn"
LOST, CORRUPT, UNREADABLE = "lost after acknowledgement", "silently corrupt", "unreadable"
ALLOWED = (INTACT, OLD, NEW, TORN)


class Ledger:
    """What the writer knows. ``events`` is all of it, as lists that JSON can carry."""

    def __init__(self, events: Iterable[list[Any]] = ()) -> None:
        self.events: list[list[Any]] = []
        self.versions: dict[int, list[int]] = {}
        self.writes: dict[int, dict[str, Any]] = {}
        self.flushes: dict[int, dict[str, Any]] = {}
        self.settled: dict[int, tuple[int, int]] = {}
        for event in events:
            self.add(*event)

    def add(self, kind: str, number: int, *more: int) -> int:
        """Note an event; returns its number.

        ``write G FIRST COUNT THROUGH`` (generation G of these blocks; THROUGH 1: past all caches), ``flush N``,
        ``acknowledged N`` and ``failed N`` of
        either; ``settled BLOCK G``: a fault is over, and the block is seen to hold generation G for good.
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
        """The highest generation so far; flushes take numbers of the same count."""
        return max([0, *self.writes, *self.flushes])

    def blocks(self) -> list[int]:
        """Those ever written, in order."""
        return sorted(self.versions)

    def allowed(self, at: int | None = None, *, is_power_cut: bool = False) -> dict[int, list[int]]:
        """Of each block, the generations of which it may hold parts after event ``at`` (None: after all), oldest first.

        The first is the one that must be there if none of the others are.
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
    """The verdict on a block from the generations that its sectors hold (None: no generation of this block)."""
    whole = found[0] if all(each == found[0] for each in found) else None
    if whole is not None and whole in allowed:
        if len(allowed) == 1:
            return INTACT
        return OLD if whole == allowed[0] else NEW
    if all(each is None for each in found) and 0 in allowed:
        # What was there before the ledger began, nobody knows.
        return OLD if len(allowed) > 1 else INTACT
    if any(each is None for each in found):
        return CORRUPT
    if all(each in allowed for each in found):
        return TORN
    # Only generations of this very block: too old a one, or one that was replaced long ago.
    return LOST
