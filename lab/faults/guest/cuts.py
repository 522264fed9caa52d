"""Power cuts that stay alike: what a request comes to follows from where it goes, and not from what came before it.

Runs inside the agent of a machine as a part of other programs, standard library alone. So a history from which writes
are left out loses of the others what it lost with them, which is what makes shrinking short.
"""

from __future__ import annotations

import hashlib
import random

from lab.faults.guest.record import (
    DRIVE_WRITE,
    PREFIX,
    SUBSET,
    TORN_WRITE,
    Cut,
    Record,
    Request,
    chosen_cut,
)

HASHES = 1 << 32


def lot(seed: str, *words: object) -> int:
    """A number below ``HASHES`` that is drawn for these words."""
    text = ":".join(map(str, (seed, *words)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")


def steady_cut(record: Record, at: int, kind: str, seed: str) -> Cut:
    """As ``chosen_cut`` (guest/record.py) with chance from a seed."""
    if kind not in (PREFIX, SUBSET, TORN_WRITE):
        return chosen_cut(record, at, kind, random.Random(seed))
    kept: dict[int, list[int]] = {}
    torn: dict[int, tuple[int, int]] = {}
    for drive in record.drives:
        open_ = record.split(drive, at)[1]
        some = lot(seed, drive) * (len(open_) + 1) // HASHES
        open_ = open_[:some] if kind == PREFIX else drawn(open_, drive, seed)
        kept[drive] = [each.index for each in open_]
        units = [each for each in open_ if each.kind == DRIVE_WRITE and each.count > 1]
        if kind == TORN_WRITE and units:
            each = min(units, key=lambda each: lot(seed, drive, each.sector, "torn"))
            last = 1 + lot(seed, drive, each.sector, "where") % (each.count - 1)
            is_beginning = lot(seed, drive, each.sector, "which") % 2
            torn[each.index] = (0, last - 1) if is_beginning else (last, each.count - 1)
    return Cut(at, kept, torn)


def drawn(open_: list[Request], drive: int, seed: str) -> list[Request]:
    """Half of these, each by its drive, its place, and how many went there before."""
    found, before = [], dict[int, int]()
    for each in open_:
        number = before[each.sector] = before.get(each.sector, 0) + 1
        if lot(seed, drive, each.sector, each.count, number) % 2:
            found.append(each)
    return found
