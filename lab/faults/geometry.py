"""Where parity and copies of an array lie, as the programs on the machine want it."""

from __future__ import annotations

from typing import Any

from lab.arrays.levels import Level, LevelName, Raid10, Raid10Layout
from lab.arrays.stripes import ChunkKind, StripeRow, stripe_rows


def rows_of(level: Level, layout: str | None, members: int, member_bytes: int, chunk_bytes: int) -> dict[str, Any]:
    """The rows to compare on the members (guest/arrays.py, ``disagreeing``), chunk and bytes of each member's data.

    Empty rows for levels that keep no second copy.
    """
    per_member = member_bytes // chunk_bytes
    shape = {"chunk": chunk_bytes, "member_bytes": per_member * chunk_bytes, "rows": []}
    if level.name in (LevelName.RAID0, LevelName.SINGLE):
        return shape
    if level.name in (LevelName.RAID1, LevelName.RAID10):
        shape["rows"] = _copies(level, layout, members, per_member)
    else:
        rows = stripe_rows(level, layout, members, per_member)
        shape["rows"] = [_parity(row, members) for row in rows]
    return shape


def _parity(row: StripeRow, members: int) -> list[Any]:
    kinds = {slot: chunk.kind for slot, chunk in enumerate(row.chunks)}
    p = next(slot for slot, kind in kinds.items() if kind is ChunkKind.P)
    q = next((slot for slot, kind in kinds.items() if kind is ChunkKind.Q), None)
    data = [slot for slot, kind in kinds.items() if not kind.is_parity]
    if q is not None:
        # Q counts its powers of 2 from the slot behind it, round the end (raid6_d0() in drivers/md/raid5.c).
        data.sort(key=lambda slot: (slot - q - 1) % members)
    return ["parity", row.row, data, p, q]


def _copies(level: Level, layout: str | None, members: int, per_member: int) -> list[Any]:
    # Far copies divide each member's data among the parts, in whole chunks.
    is_far = isinstance(level, Raid10) and level.layout is Raid10Layout.FAR
    parts = level.copies if isinstance(level, Raid10) and is_far else 1
    rows = per_member // parts
    places: dict[int, list[list[int]]] = {}
    for row in stripe_rows(level, layout, members, rows):
        for slot, chunk in enumerate(row.chunks):
            places.setdefault(chunk.number, []).append([slot, row.part * rows + row.row])
    return [["copies", each] for _, each in sorted(places.items()) if len(each) > 1]
