"""Converts a stripe, as stored on the members, for the Stripe screen. Does no I/O."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.arrays.geometry import ChunkKind
from lab.microscope.comparison import SeenCell, StripeVerdict
from tui.look import Tone
from tui.widgets.crash_table import CrashRow
from tui.widgets.stripe_hex import HexColumn

if TYPE_CHECKING:
    from lab.microscope.picture import StripePicture
    from lab.microscope.small_write import CrashState, SmallWrite

_LOOKS = {ChunkKind.DATA: "data", ChunkKind.COPY: "copy", ChunkKind.P: "p", ChunkKind.Q: "q"}
_VERDICTS = {
    StripeVerdict.AGREES: (Tone.GOOD, "AGREES"),
    StripeVerdict.DIFFERS: (Tone.BAD, "DIFFERS"),
    StripeVerdict.UNKNOWN: (Tone.NOTICE, "NOTHING TO COMPARE"),
}


def columns_of(picture: StripePicture) -> tuple[HexColumn, ...]:
    """A column for each chunk, by slot; after parity, and after a missing chunk, a column with the computed content."""
    found: list[HexColumn] = []
    for seen in sorted(picture.cells, key=lambda seen: (seen.cell.slot, seen.cell.sector)):
        found.append(_stored(picture, seen))
        if seen.computed is not None and (seen.cell.kind.is_parity or seen.data is None):
            wrong = frozenset(seen.differs)
            what = f"{seen.cell.kind.value} computed" if seen.cell.kind.is_parity else "computed"
            note = (Tone.QUIET, "not stored") if seen.data is None else _fits(seen)
            look = _LOOKS[seen.cell.kind]
            short = (f"{seen.cell.kind.value}=" if seen.cell.kind.is_parity else "=", _count(seen))
            found.append(HexColumn(seen.cell.slot, "", what, look, seen.computed, wrong, *note, short))
    return tuple(found)


def _stored(picture: StripePicture, seen: SeenCell) -> HexColumn:
    cell, blamed = seen.cell, picture.comparison.blamed
    member = picture.member_of(cell)
    tone, note, wrong = Tone.QUIET, "", frozenset[int]()
    if seen.data is None:
        tone, note = Tone.BAD, picture.missing.get((cell.slot, cell.sector), "not read")
    elif not cell.kind.is_parity and seen.differs:
        (tone, note), wrong = _fits(seen), frozenset(seen.differs)
    if blamed and (blamed.slot, blamed.sector) == (cell.slot, cell.sector):
        tone, note, wrong = Tone.BAD, "wrong", frozenset(blamed.bytes_wrong)
    name = member.name if member else picture.name_of(cell.slot)
    short = (cell.kind.value if cell.kind.is_parity else f"{cell.number}{chr(39) * min(cell.copy, 3)}", _count(seen))
    return HexColumn(cell.slot, name, cell.words, _LOOKS[cell.kind], seen.data, wrong, tone, note, short)


def _count(seen: SeenCell) -> str:
    return str(len(seen.differs)) if seen.differs else ""


def _fits(seen: SeenCell) -> tuple[Tone, str]:
    count = len(seen.differs)
    if not count:
        return Tone.GOOD, "agrees"
    return Tone.BAD, f"{count} differ" if count > 1 else "1 differs"


def verdict_of(picture: StripePicture) -> tuple[Tone, str]:
    """The verdict on the stripe, as a tone and words."""
    return _VERDICTS[picture.comparison.verdict]


def wrong_bytes(columns: Sequence[HexColumn], skip: int) -> tuple[int, ...]:
    """The bytes that differ in any column, as offsets in the chunk; ``skip`` is the offset of the shown data."""
    return tuple(sorted({byte + skip for column in columns for byte in column.wrong}))


def crash_rows(write: SmallWrite, states: Sequence[CrashState]) -> tuple[CrashRow, ...]:
    """The states, each with its completed writes in words."""
    kinds = {io.slot: io.kind.value if io.kind else "data" for io in write.ios}
    if len(write.target_slots) > 1:
        kinds = {slot: f"copy {number}" for number, slot in enumerate(write.target_slots)}
    return tuple(CrashRow(" + ".join(kinds[slot] for slot in state.written) or "nothing", state) for state in states)
