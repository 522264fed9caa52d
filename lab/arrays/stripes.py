"""Where md puts each chunk: which data, parity or copy lies in which row of which member. Pure arithmetic.

A row is one chunk of every member, counted from the members' data offsets. Sources: raid5_compute_sector() in
drivers/md/raid5.c for the parity levels, __raid10_find_phys() in drivers/md/raid10.c, md(4) for the names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from lab.arrays.level_names import ROTATIONS
from lab.arrays.levels import Level, LevelName, Raid10, Raid10Layout
from lab.errors import SpecError


class ChunkKind(StrEnum):
    """What a chunk of a member holds."""

    DATA = "data"
    COPY = "copy"
    """The same data once more, on another member."""
    P = "P"
    """The exclusive-or of the data in its row."""
    Q = "Q"
    """RAID 6's second, different parity of the row."""

    @property
    def is_parity(self) -> bool:
        return self in (ChunkKind.P, ChunkKind.Q)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One chunk of one member."""

    kind: ChunkKind
    number: int
    """Which chunk of the array's data, from 0; for parity, the row that it protects."""
    copy: int = 0
    """0 for the first place that md writes to, 1 for its first copy, and so on."""


@dataclass(frozen=True, slots=True)
class StripeRow:
    """The same row of every member."""

    part: int
    """Far RAID 10 divides each member in as many parts as there are copies; everything else has part 0 only."""
    row: int
    """Chunks from the beginning of the part."""
    chunks: tuple[Chunk, ...]
    """In slot order."""


def stripe_rows(level: Level, layout: str | None, members: int, rows: int) -> tuple[StripeRow, ...]:
    """The first ``rows`` rows of an array of equal members; of every part, where members have parts.

    RAID 1 has no chunks: there a row is one piece of data, of any size. ``layout`` None means mdadm's default.
    Raises SpecError for too few members, or a rotation that the level does not have.
    """
    if members < level.minimum_members:
        raise SpecError(
            f"{level.name.value} needs at least {level.minimum_members} members, not {members}",
            hint="choose more members",
        )
    if isinstance(level, Raid10):
        return _raid10_rows(level, members, rows)
    if level.name in (LevelName.RAID4, LevelName.RAID5, LevelName.RAID6):
        place = _rotation(level.name, layout)
        return tuple(StripeRow(0, row, _parity_row(place, level.name, members, row)) for row in range(rows))
    if level.name is LevelName.RAID1:
        copies = [ChunkKind.DATA, *[ChunkKind.COPY] * (members - 1)]
        return tuple(
            StripeRow(0, row, tuple(Chunk(kind, row, copy) for copy, kind in enumerate(copies))) for row in range(rows)
        )
    return tuple(
        StripeRow(0, row, tuple(Chunk(ChunkKind.DATA, row * members + slot) for slot in range(members)))
        for row in range(rows)
    )


@dataclass(frozen=True, slots=True)
class _Row:
    """Where one row has its parity; ``data_slot`` gives the slot of its first, second, … data chunk."""

    p_slot: int
    q_slot: int | None
    data_slot: Callable[[int], int]


Rotation = Callable[[int, int], _Row]
"""Maps the number of members and the row to the places."""


def _parity_row(place: Rotation, level: LevelName, members: int, row: int) -> tuple[Chunk, ...]:
    data_members = members - (2 if level is LevelName.RAID6 else 1)
    found = place(members, row)
    chunks = {found.p_slot: Chunk(ChunkKind.P, row)}
    if found.q_slot is not None:
        chunks[found.q_slot] = Chunk(ChunkKind.Q, row)
    for index in range(data_members):
        chunks[found.data_slot(index)] = Chunk(ChunkKind.DATA, row * data_members + index)
    return tuple(chunks[slot] for slot in range(members))


def _rotation(level: LevelName, layout: str | None) -> Rotation:
    # RAID 4 is RAID 5 whose parity stays on the last member.
    word = "parity-last" if level is LevelName.RAID4 else layout or ROTATIONS[0]
    known = _RAID6_ROTATIONS if level is LevelName.RAID6 else _RAID5_ROTATIONS
    if word not in known or (level is LevelName.RAID4 and layout is not None):
        what = "leave the layout out" if level is LevelName.RAID4 else f"known layouts: {', '.join(known)}"
        raise SpecError(f"layout '{layout}' is not one of {level.value}", hint=what)
    return known[word]


def _going_left(members: int, row: int) -> int:
    return members - 1 - row % members


def _going_right(members: int, row: int) -> int:
    return row % members


def _symmetric(p_of: Callable[[int, int], int], parities: int) -> Rotation:
    """Data continue after the parity and wrap around, so that consecutive chunks lie on different members."""

    def place(members: int, row: int) -> _Row:
        p = p_of(members, row)
        q = (p + 1) % members if parities == 2 else None
        return _Row(p, q, lambda index: (p + parities + index) % members)

    return place


def _asymmetric(p_of: Callable[[int, int], int], parities: int) -> Rotation:
    """Data lie in slot order and skip the parity."""

    def place(members: int, row: int) -> _Row:
        p = p_of(members, row)
        q = (p + 1) % members if parities == 2 else None
        taken = {p} if q is None else {p, q}
        return _Row(p, q, [slot for slot in range(members) if slot not in taken].__getitem__)

    return place


def _with_last_q(raid5: Rotation) -> Rotation:
    """A RAID 5 layout with one more member for Q and nothing else moved: the layouts that end in -6."""

    def place(members: int, row: int) -> _Row:
        found = raid5(members - 1, row)
        return _Row(found.p_slot, members - 1, found.data_slot)

    return place


def _first(_members: int, _row: int) -> int:
    return 0


def _last(members: int, _row: int) -> int:
    return members - 1


_RAID5_ROTATIONS: dict[str, Rotation] = {
    "left-symmetric": _symmetric(_going_left, 1),
    "left-asymmetric": _asymmetric(_going_left, 1),
    "right-symmetric": _symmetric(_going_right, 1),
    "right-asymmetric": _asymmetric(_going_right, 1),
    "parity-first": _asymmetric(_first, 1),
    "parity-last": _asymmetric(_last, 1),
}

_RAID6_ROTATIONS: dict[str, Rotation] = {
    "left-symmetric": _symmetric(_going_left, 2),
    "left-asymmetric": _asymmetric(_going_left, 2),
    "right-symmetric": _symmetric(_going_right, 2),
    "right-asymmetric": _asymmetric(_going_right, 2),
    "parity-first": _asymmetric(_first, 2),
    "parity-last": _asymmetric(lambda members, _row: members - 2, 2),
    **{f"{word}-6": _with_last_q(place) for word, place in _RAID5_ROTATIONS.items() if word != "parity-last"},
}


def _raid10_rows(level: Raid10, members: int, rows: int) -> tuple[StripeRow, ...]:
    if level.copies > members:
        raise SpecError(
            f"layout {level.layout_word} keeps {level.copies} copies, more than the {members} members",
            hint="choose more members, or fewer copies",
        )
    chunk_at = {
        Raid10Layout.NEAR: _near_chunk,
        Raid10Layout.FAR: _far_chunk,
        Raid10Layout.OFFSET: _offset_chunk,
    }[level.layout]
    parts = level.copies if level.layout is Raid10Layout.FAR else 1
    return tuple(
        StripeRow(part, row, tuple(_copied(*chunk_at(level.copies, members, part, row, slot)) for slot in slots))
        for slots in (range(members),)
        for part in range(parts)
        for row in range(rows)
    )


def _copied(number: int, copy: int) -> Chunk:
    return Chunk(ChunkKind.COPY if copy else ChunkKind.DATA, number, copy)


def _near_chunk(copies: int, members: int, _part: int, row: int, slot: int) -> tuple[int, int]:
    """Copies fill the slots one after the other; with an odd number of members they continue in the next row."""
    return divmod(row * members + slot, copies)


def _far_chunk(_copies: int, members: int, part: int, row: int, slot: int) -> tuple[int, int]:
    """Each part is striped like RAID 0; each further part is shifted one slot to the right."""
    return row * members + (slot - part) % members, part


def _offset_chunk(copies: int, members: int, _part: int, row: int, slot: int) -> tuple[int, int]:
    """Each stripe is repeated in the next rows, each time shifted one slot to the right."""
    stripe, copy = divmod(row, copies)
    return stripe * members + (slot - copy) % members, copy


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Where a member stores one data chunk, a copy of it, or parity over it."""

    kind: ChunkKind
    """DATA or COPY; P or Q if the member has only parity in the chunk's row."""
    row: int
    """Chunks from the start of the member's data."""


def place_on_member(
    level: Level, layout: str | None, members: int, number: int, slot: int, *, member_chunks: int
) -> ChunkPlace | None:
    """Where the member in ``slot`` has data chunk ``number``, a copy of it, or parity over it; None if it has neither.

    ``member_chunks`` is how many chunks of a member the array uses: far copies lie in its further parts.
    """
    period = period_rows(level, members)
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


def period_rows(level: Level, members: int) -> int:
    """Number of rows after which the pattern of ``stripe_rows`` repeats."""
    if isinstance(level, Raid10):
        return 1 if level.layout is Raid10Layout.FAR else level.copies
    if level.name in (LevelName.RAID5, LevelName.RAID6):
        # The layouts that end in -6 rotate over all members except the last.
        return members * (members - 1)
    return 1
