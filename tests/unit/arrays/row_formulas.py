"""Where md puts each chunk, written down a second time: row by row, by other formulas than ``lab.arrays.geometry``.

There an array is asked for one sector. Here whole rows are laid out: data after data, parity by the rotation's words,
RAID 10 from the slot back to the chunk, RAID 0 of unequal members and linear arrays by filling the members up. It is
the independent answer against which the geometry is tested.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

Held = tuple[str, int, int]
"""``data`` with the number of the chunk and of the copy (0: the first), or ``P`` or ``Q`` with the row and 0."""

Rows = dict[tuple[int, int], Held]
"""(Slot, row of the member) -> what is there."""


@dataclass(frozen=True)
class Parity:
    """Where one row has its parity; ``data_slot`` gives the slot of its first, second, … data chunk."""

    p_slot: int
    q_slot: int | None
    data_slot: Callable[[int], int]


Rotation = Callable[[int, int], Parity]
"""Maps the number of members and the row to the places."""


def going_left(members: int, row: int) -> int:
    return members - 1 - row % members


def going_right(members: int, row: int) -> int:
    return row % members


def symmetric(p_of: Callable[[int, int], int], parities: int) -> Rotation:
    """Data continue after the parity and wrap around, so that consecutive chunks lie on different members."""

    def place(members: int, row: int) -> Parity:
        p = p_of(members, row)
        q = (p + 1) % members if parities == 2 else None
        return Parity(p, q, lambda index: (p + parities + index) % members)

    return place


def asymmetric(p_of: Callable[[int, int], int], parities: int) -> Rotation:
    """Data lie in slot order and skip the parity."""

    def place(members: int, row: int) -> Parity:
        p = p_of(members, row)
        q = (p + 1) % members if parities == 2 else None
        return Parity(p, q, [slot for slot in range(members) if slot not in {p, q}].__getitem__)

    return place


def with_last_q(raid5: Rotation) -> Rotation:
    """A RAID 5 layout with one more member for Q and nothing else moved: the layouts that end in -6."""

    def place(members: int, row: int) -> Parity:
        found = raid5(members - 1, row)
        return Parity(found.p_slot, members - 1, found.data_slot)

    return place


def ddf_continue(members: int, row: int) -> Parity:
    """Q, then P, then the data, which wrap around."""
    p = going_left(members, row)
    return Parity(p, (p - 1) % members, lambda index: (p + 1 + index) % members)


RAID5: dict[str, Rotation] = {
    "left-symmetric": symmetric(going_left, 1),
    "left-asymmetric": asymmetric(going_left, 1),
    "right-symmetric": symmetric(going_right, 1),
    "right-asymmetric": asymmetric(going_right, 1),
    "parity-first": asymmetric(lambda _members, _row: 0, 1),
    "parity-last": asymmetric(lambda members, _row: members - 1, 1),
}

RAID6: dict[str, Rotation] = {
    "left-symmetric": symmetric(going_left, 2),
    "left-asymmetric": asymmetric(going_left, 2),
    "right-symmetric": symmetric(going_right, 2),
    "right-asymmetric": asymmetric(going_right, 2),
    "parity-first": asymmetric(lambda _members, _row: 0, 2),
    "parity-last": asymmetric(lambda members, _row: members - 2, 2),
    "ddf-zero-restart": asymmetric(going_right, 2),
    "ddf-N-restart": asymmetric(lambda members, row: going_left(members, row + 1), 2),
    "ddf-N-continue": ddf_continue,
    **{f"{word}-6": with_last_q(place) for word, place in RAID5.items() if word != "parity-last"},
}


def parity_rows(place: Rotation, members: int, rows: int) -> Rows:
    """RAID 5 and 6 by rotation; RAID 4 is RAID 5 with ``parity-last``."""
    found: Rows = {}
    for row in range(rows):
        parity = place(members, row)
        found[parity.p_slot, row] = ("P", row, 0)
        if parity.q_slot is not None:
            found[parity.q_slot, row] = ("Q", row, 0)
        data = members - (1 if parity.q_slot is None else 2)
        found |= {(parity.data_slot(index), row): ("data", row * data + index, 0) for index in range(data)}
    return found


def near_rows(copies: int, members: int, rows: int) -> Rows:
    """Copies fill the slots one after the other; with an odd number of members they continue in the next row."""
    return {
        (slot, row): ("data", *divmod(row * members + slot, copies)) for row in range(rows) for slot in range(members)
    }


def far_rows(near: int, far: int, members: int, part_rows: int) -> Rows:
    """Each part is laid out like near copies (one copy: like RAID 0), each further part shifted to the right."""
    found: Rows = {}
    for part in range(far):
        for (slot, row), (_, number, copy) in near_rows(near, members, part_rows).items():
            found[(slot + part * near) % members, part * part_rows + row] = ("data", number, copy * far + part)
    return found


def offset_rows(copies: int, members: int, rows: int) -> Rows:
    """Each stripe is repeated in the next rows, each time shifted one slot to the right."""
    found: Rows = {}
    for row in range(rows - rows % copies):
        stripe, copy = divmod(row, copies)
        found |= {(slot, row): ("data", stripe * members + (slot - copy) % members, copy) for slot in range(members)}
    return found


def mirror_rows(members: int, rows: int) -> Rows:
    return {(slot, row): ("data", row, slot) for slot in range(members) for row in range(rows)}


def striped_rows(member_rows: Sequence[int], *, is_original: bool = True) -> Rows:
    """RAID 0 whose members have so many rows: chunk after chunk is put on the members that are not full.

    The original layout takes the member that the chunk's number on the array gives, the alternate one counts anew
    where members have become full.
    """
    found: Rows = {}
    number, row = 0, 0
    for end in sorted(set(member_rows)):
        there = [slot for slot, rows in enumerate(member_rows) if rows >= end]
        zone_start = number
        while row < end:
            for _ in there:
                counted = number if is_original else number - zone_start
                found[there[counted % len(there)], row] = ("data", number, 0)
                number += 1
            row += 1
    return found


def linear_rows(member_rows: Sequence[int]) -> Rows:
    places: Iterator[tuple[int, int]] = ((slot, row) for slot, rows in enumerate(member_rows) for row in range(rows))
    return {place: ("data", number, 0) for number, place in enumerate(places)}
