"""From a byte of an array to the byte of a member that holds it, by the rows of ``lab.arrays.stripes``. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from lab.arrays.levels import Level, LevelName, Raid10, Raid10Layout
from lab.arrays.stripes import ChunkKind, stripe_rows


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Where a member keeps something of one data chunk."""

    kind: ChunkKind
    """DATA or COPY; P or Q if the member has only parity in the chunk's row."""
    row: int
    """Chunks from the start of the member's data."""


def place_on_member(
    level: Level, layout: str | None, members: int, number: int, slot: int, *, member_chunks: int
) -> ChunkPlace | None:
    """Where the member in ``slot`` has data chunk ``number``, a copy of it, or parity over it; None for nothing of it.

    ``member_chunks`` is how many chunks of a member the array uses: far copies lie in its further parts.
    """
    period = _period_rows(level, members)
    rows = stripe_rows(level, layout, members, period)
    data = {chunk.number for row in rows for chunk in row.chunks if chunk.kind is ChunkKind.DATA}
    whole, rest = divmod(number, len(data))
    part_rows = member_chunks // (level.copies if isinstance(level, Raid10) else 1)
    parity: ChunkPlace | None = None
    for row in rows:
        mine = row.chunks[slot]
        place = row.part * part_rows + whole * period + row.row
        if not mine.kind.is_parity and mine.number == rest:
            return ChunkPlace(mine.kind, place)
        if mine.kind.is_parity and any(c.number == rest and not c.kind.is_parity for c in row.chunks):
            parity = ChunkPlace(mine.kind, place)
    return parity


def _period_rows(level: Level, members: int) -> int:
    """After so many rows the pattern begins anew."""
    if isinstance(level, Raid10):
        return 1 if level.layout is Raid10Layout.FAR else level.copies
    if level.name in (LevelName.RAID5, LevelName.RAID6):
        # The layouts that end in -6 turn over the members without the last.
        return members * (members - 1)
    return 1
