"""The oracle's ledger and the drives' record, which show what the drives must hold and what a power cut could leave.

The client uses this module as well, to read them.

A block is 4 KiB long: eight sectors of 512 bytes. Each sector begins with 16 bytes, in little-endian order: a magic
number, the number of the block, its generation, and a checksum (BLAKE2b) of these two numbers and the rest of the
sector. The checksum is not a CRC, because wrong parity produces the exclusive or of three sectors, whose CRC would also
be valid. The rest of a sector is derived from seed, block, generation and position (SHAKE-128), so any sector can be
regenerated, is never all zeros, and is unique.

Events of the ledger are numbered from 1 in the order in which the writer observed them. Generation 0 of a block is its
content before the ledger began. No two writes to the same block are ever in flight at the same time, so the generations
of a block are ordered. After each kind of fault, the following holds (for flush and FUA, see
Documentation/block/writeback_cache_control.rst):

    running    an acknowledged write is present; any other write may be present, absent, or present in part
    power cut  an acknowledged write that was flushed, or was O_DSYNC, is present; any other write may be present,
               absent, or present in part

The lab's own drives keep the record (provision/kernel/driver/lab_record.h). It contains every write, flush and discard
of every drive, with its data and the numbers of the events at which it was submitted and ended. A FUA write is *sure*
once it has ended. Any other write is sure once it has ended and a flush submitted afterwards has ended too. All other
submitted writes are *open*. Each of them may be on the medium wholly, in part or not at all, because a drive writes out
its cache in any order.

In a steady cut, the fate of a request depends on its position and not on other requests elsewhere. If writes are
removed from a history, the cut therefore affects the remaining ones in the same way, which makes shrinking effective.
"""

from __future__ import annotations

import hashlib
import random
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

BLOCK_BYTES = 4096
SECTOR_BYTES = 512
BLOCK_SECTORS = BLOCK_BYTES // SECTOR_BYTES
MAGIC = 0x62614C52
HEADER = struct.Struct("<IIII")
MOST_CACHED = 16384


class Content:
    """The blocks of one seed, with a cache."""

    def __init__(self, seed: str) -> None:
        self.seed = seed
        self.cached: dict[tuple[int, int], bytes] = {}

    def block(self, number: int, generation: int) -> bytes:
        found = self.cached.get((number, generation))
        if found is None:
            if len(self.cached) >= MOST_CACHED:
                self.cached.clear()
            found = self.cached[number, generation] = self.made(number, generation)
        return found

    def made(self, number: int, generation: int) -> bytes:
        body = hashlib.shake_128(f"{self.seed}:{number}:{generation}".encode()).digest(BLOCK_BYTES)
        pieces = []
        for start in range(0, BLOCK_BYTES, SECTOR_BYTES):
            rest = body[start + HEADER.size : start + SECTOR_BYTES]
            pieces += [HEADER.pack(MAGIC, number, generation, sum_of(number, generation, rest)), rest]
        return b"".join(pieces)


def sum_of(number: int, generation: int, rest: bytes) -> int:
    """Return the checksum of a sector."""
    words = struct.pack("<II", number, generation)
    return int.from_bytes(hashlib.blake2b(words + rest, digest_size=4).digest(), "little")


def identity_of(sector: bytes) -> tuple[int, int] | None:
    """Return the block and generation recorded in a sector, or None if it is not a valid sector of the oracle."""
    if len(sector) != SECTOR_BYTES:
        return None
    magic, number, generation, checksum = HEADER.unpack_from(sector)
    if magic != MAGIC or sum_of(number, generation, sector[HEADER.size :]) != checksum:
        return None
    return number, generation


def generation_of(content: Content, number: int, index: int, sector: bytes) -> int | None:
    """Return the generation that a sector of this block holds, or None for any other content."""
    identity = identity_of(sector)
    if identity is None or identity[0] != number:
        return None
    start = index * SECTOR_BYTES
    return identity[1] if sector == content.block(number, identity[1])[start : start + SECTOR_BYTES] else None


def generations_of(content: Content, number: int, data: bytes) -> list[int | None]:
    """Return the generation of this block that each sector holds, or None for any other content."""
    return [
        generation_of(content, number, index, data[index * SECTOR_BYTES : (index + 1) * SECTOR_BYTES])
        for index in range(BLOCK_SECTORS)
    ]


def describe_block(data: bytes) -> str:
    """Describe what a corrupt block appears to be: zeros, another block, a mixture, or unknown bytes."""
    if not any(data):
        return "zeros"
    identities = [identity_of(data[start : start + SECTOR_BYTES]) for start in range(0, BLOCK_BYTES, SECTOR_BYTES)]
    if identities[0] is not None and all(each == identities[0] for each in identities):
        return f"block {identities[0][0]}, generation {identities[0][1]}"
    return "a mixture" if any(each is not None for each in identities) else "unknown bytes"


WRITE, FLUSH, ACKNOWLEDGED, FAILED, SETTLED = "write", "flush", "acknowledged", "failed", "settled"
INTACT, OLD, NEW, TORN = "intact", "in-flight old", "in-flight new", "torn"
LOST, CORRUPT, UNREADABLE = "lost after acknowledgement", "silently corrupt", "unreadable"
ALLOWED = (INTACT, OLD, NEW, TORN)


class Ledger:
    """Everything that the writer knows; ``events`` contains all of it, as lists that JSON can represent."""

    def __init__(self, events: Iterable[list[Any]] = ()) -> None:
        self.events: list[list[Any]] = []
        self.versions: dict[int, list[int]] = {}
        self.writes: dict[int, dict[str, Any]] = {}
        self.flushes: dict[int, dict[str, Any]] = {}
        self.settled: dict[int, tuple[int, int]] = {}
        for event in events:
            self.add(*event)

    def add(self, kind: str, number: int, *more: int) -> int:
        """Append an event, and return its number.

        The events are ``write G FIRST COUNT THROUGH`` (generation G of these blocks; THROUGH is 1 for O_DSYNC),
        ``flush N``, ``acknowledged N`` and ``failed N`` for either, and ``settled BLOCK G`` (after a fault, the block
        was found to hold generation G, which it must keep).
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
        """Return all blocks that have been written, sorted."""
        return sorted(self.versions)

    def allowed(self, at: int | None = None, *, is_power_cut: bool = False) -> dict[int, list[int]]:
        """Return the generations that each block may hold, wholly or in part, after event ``at`` (None: after all).

        The generations are sorted, oldest first. The first one must be present if none of the others is.
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
    """Return the verdict on a block, given the generations in its sectors (None: no generation of this block)."""
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
    # All sectors hold generations of this block, but at least one of these generations is out of date.
    return LOST


RECORD = struct.Struct("<QQQQIHBB")
READ, DRIVE_WRITE, DRIVE_FLUSH, DISCARD, MARK = range(5)
THROUGH, DRIVE_FAILED = 1, 2
NEVER = 1 << 63


class Request:
    """One entry of the record; ``ended`` is NEVER for a request that never ended."""

    __slots__ = ("came", "count", "data", "drive", "ended", "flags", "index", "kind", "sector")

    def __init__(self, index: int, fields: tuple[int, ...]) -> None:
        self.index = index
        self.came, ended, self.sector, self.data, self.count, self.drive, self.kind, self.flags = fields
        self.ended = ended or NEVER


class Record:
    """A whole record; ``marks`` are (event of the record, number of events in the ledger at that time), in order."""

    def __init__(self, data: bytes) -> None:
        whole = len(data) - len(data) % RECORD.size
        self.requests = [Request(index, fields) for index, fields in enumerate(RECORD.iter_unpack(data[:whole]))]
        self.marks = [(each.came, each.count) for each in self.requests if each.kind == MARK]
        self.by_drive: dict[int, list[Request]] = {}
        for each in self.requests:
            if each.kind != MARK:
                self.by_drive.setdefault(each.drive, []).append(each)
        self.drives = sorted(self.by_drive)

    def moments(self) -> list[int]:
        """Return the events that can change what the drives hold, which are the ends of requests, sorted."""
        return sorted({each.ended for each in self.requests if each.kind != MARK and each.ended != NEVER})

    def ledger_event(self, at: int) -> int:
        """Return the number of events in the ledger at a moment."""
        return max((value for event, value in self.marks if event <= at), default=0)

    def split(self, drive: int, at: int) -> tuple[list[Request], list[Request]]:
        """Return a drive's sure writes and discards after event ``at``, and its open ones, sorted by their ends."""
        requests = [each for each in self.by_drive.get(drive, ()) if each.came <= at]
        flushed = max((each.came for each in requests if each.kind == DRIVE_FLUSH and each.ended <= at), default=0)
        sure: list[Request] = []
        open_: list[Request] = []
        for each in sorted(requests, key=lambda each: (each.ended, each.came)):
            if each.kind not in (DRIVE_WRITE, DISCARD) or (each.flags & DRIVE_FAILED and each.ended <= at):
                continue
            is_sure = each.ended < flushed or (each.ended <= at and each.flags & THROUGH)
            (sure if is_sure else open_).append(each)
        return sure, open_


class Cut(NamedTuple):
    """A state that a power cut after event ``at`` could leave.

    ``retained`` maps a drive to the indices of its open writes that are on the medium; ``torn`` maps an index to the
    range of sectors that is on the medium; ``missing`` drives are lost at the same time.
    """

    at: int
    retained: dict[int, list[int]]
    torn: dict[int, tuple[int, int]]
    missing: tuple[int, ...] = ()

    def lists(self, record: Record, drives: Sequence[int]) -> dict[int, str]:
        """Return, for each drive, the indices of the requests that restore it, in the form of a ``restore`` line."""
        found = {}
        for drive in drives:
            sure, open_ = record.split(drive, self.at)
            retained = set(self.retained.get(drive, ()))
            chosen = [*sure, *(each for each in open_ if each.index in retained)]
            # Sort them by their ends, so that a FUA write is not overwritten by an earlier cached write.
            chosen.sort(key=lambda each: (each.ended, each.came))
            found[drive] = joined([each.index for each in chosen], self.torn)
        return found

    def word(self) -> str:
        """Return the cut as a single word that ``cut_of`` can parse."""
        retained = ",".join(
            f"{drive}={'+'.join(map(str, each))}" for drive, each in sorted(self.retained.items()) if each
        )
        torn = ",".join(f"{index}={first}-{last}" for index, (first, last) in sorted(self.torn.items()))
        missing = "+".join(map(str, self.missing))
        return ":".join((str(self.at), retained, torn, missing)).rstrip(":")


def cut_of(word: str) -> Cut:
    """Parse the cut that ``word`` describes. Raises ValueError if the word is invalid."""
    at, retained, torn, missing = [*word.split(":"), "", "", ""][:4]
    writes_of, sectors_of = {}, {}
    for part in filter(None, retained.split(",")):
        drive, _, indices = part.partition("=")
        writes_of[int(drive)] = [int(each) for each in indices.split("+")]
    for part in filter(None, torn.split(",")):
        index, _, sectors = part.partition("=")
        first, _, last = sectors.partition("-")
        sectors_of[int(index)] = (int(first), int(last))
    return Cut(int(at), writes_of, sectors_of, tuple(int(each) for each in filter(None, missing.split("+"))))


def joined(indices: Iterable[int], torn: dict[int, tuple[int, int]]) -> str:
    """Return the indices as text for the driver, such as ``3 5-9 12:0-7``."""
    spans: list[list[int]] = []
    for index in indices:
        if spans and index == spans[-1][1] + 1 and index not in torn and spans[-1][1] not in torn:
            spans[-1][1] = index
        else:
            spans.append([index, index])
    words = []
    for first, last in spans:
        if first in torn:
            words.append(f"{first}:{torn[first][0]}-{torn[first][1]}")
        else:
            words.append(str(first) if first == last else f"{first}-{last}")
    return " ".join(words)


ALL, FLUSHED, EVERYTHING, PREFIX, SUBSET, TORN_WRITE = "ended", "flushed", "come", "prefix", "subset", "torn"
KINDS = (ALL, FLUSHED, EVERYTHING, PREFIX, SUBSET, TORN_WRITE)


def chosen_cut(
    record: Record, at: int, kind: str, chance: random.Random, missing: Sequence[int] = (), torn_sectors: int = 1
) -> Cut:
    """Choose a cut of this kind after event ``at``, independently for each drive.

    ``ended``: all writes that had ended, as after a crash of the kernel only; ``flushed``: only the sure writes;
    ``come``: the sure and all open writes; ``prefix``: the open writes up to some point; ``subset``: some of the open
    writes; ``torn``: like ``subset``, but one write only in part, in units of ``torn_sectors`` sectors of 512 bytes.
    """
    retained: dict[int, list[int]] = {}
    torn: dict[int, tuple[int, int]] = {}
    for drive in record.drives:
        open_ = record.split(drive, at)[1]
        if kind == ALL:
            open_ = [each for each in open_ if each.ended <= at]
        elif kind == FLUSHED:
            open_ = []
        elif kind == PREFIX:
            open_ = open_[: chance.randint(0, len(open_))]
        elif kind in (SUBSET, TORN_WRITE):
            open_ = [each for each in open_ if chance.randrange(2)]
        retained[drive] = [each.index for each in open_]
        units = [each for each in open_ if each.kind == DRIVE_WRITE and each.count > torn_sectors]
        if kind == TORN_WRITE and units:
            each = chance.choice(units)
            last = chance.randrange(1, (each.count + torn_sectors - 1) // torn_sectors) * torn_sectors
            torn[each.index] = (0, last - 1) if chance.randrange(2) else (last, each.count - 1)
    return Cut(at, retained, torn, tuple(missing))


HASHES = 1 << 32


def lot(seed: str, *words: object) -> int:
    """Return a number below ``HASHES``, derived from ``seed`` and ``words`` with SHA-256."""
    text = ":".join(map(str, (seed, *words)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def steady_cut(record: Record, at: int, kind: str, seed: str) -> Cut:
    """Choose a steady cut: unlike in ``chosen_cut``, choices depend on the seed and the position of a request."""
    if kind not in (PREFIX, SUBSET, TORN_WRITE):
        return chosen_cut(record, at, kind, random.Random(seed))
    retained: dict[int, list[int]] = {}
    torn: dict[int, tuple[int, int]] = {}
    for drive in record.drives:
        open_ = record.split(drive, at)[1]
        some = lot(seed, drive) * (len(open_) + 1) // HASHES
        open_ = open_[:some] if kind == PREFIX else drawn(open_, drive, seed)
        retained[drive] = [each.index for each in open_]
        units = [each for each in open_ if each.kind == DRIVE_WRITE and each.count > 1]
        if kind == TORN_WRITE and units:
            each = min(units, key=lambda each: lot(seed, drive, each.sector, "torn"))
            last = 1 + lot(seed, drive, each.sector, "where") % (each.count - 1)
            is_beginning = lot(seed, drive, each.sector, "which") % 2
            torn[each.index] = (0, last - 1) if is_beginning else (last, each.count - 1)
    return Cut(at, retained, torn)


def drawn(open_: list[Request], drive: int, seed: str) -> list[Request]:
    """Choose about half of these requests.

    Each choice depends on the drive, the position, the length, and the number of earlier requests at that position.
    """
    found, before = [], dict[int, int]()
    for each in open_:
        number = before[each.sector] = before.get(each.sector, 0) + 1
        if lot(seed, drive, each.sector, each.count, number) % 2:
            found.append(each)
    return found
