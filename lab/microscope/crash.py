"""A small write interrupted by a crash: what each state that it can leave gives to whoever reads. Pure, on real bytes.

Of the writes that a small write makes any subset may have reached the members when the power goes; the beginnings in
md's own order are marked. Recovery by a partial parity log: ppl_recover_entry() in drivers/md/raid5-ppl.c.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from lab.arrays.geometry import ParityGeometry, ParityRow
from lab.errors import ArrayError
from lab.microscope.comparison import filled_in, parities_of
from lab.microscope.galois import added
from lab.microscope.picture import StripePicture
from lab.microscope.small_write import SmallWrite, WriteWay

_MOST_SUBSETS = 4
"""Of more writes than these only the beginnings are shown."""


class CrashOutcome(StrEnum):
    """What reads give that concern one stripe after a crash."""

    OLD = "old"
    NEW = "new"
    EITHER = "old or new"
    """Copies differ: it depends on which one is read, and may change from read to read."""
    MIXED = "neither"
    """The block that was being written reads as bytes that nobody ever wrote."""
    HOLE = "WRITE HOLE"
    """A block that nobody was writing reads as bytes that nobody ever wrote."""
    LOST = "lost"
    """Too much is missing, and md says so."""

    @property
    def is_right(self) -> bool:
        """Whether any promise of a disk allows it: a write under way may be there or not."""
        return self in (CrashOutcome.OLD, CrashOutcome.NEW, CrashOutcome.EITHER)


@dataclass(frozen=True, slots=True)
class ReadAfter:
    """What is read with some members lost. ``target`` is the block that was being written."""

    lost: tuple[int, ...]
    target: CrashOutcome
    holes: tuple[int, ...] = ()
    """Slots whose data, written long before, read wrong."""

    @property
    def outcome(self) -> CrashOutcome:
        """The worst of it."""
        return CrashOutcome.HOLE if self.holes else self.target


@dataclass(frozen=True, slots=True)
class CrashState:
    """What a crash leaves after some of the writes."""

    written: tuple[int, ...]
    """Slots that were written, in md's order."""
    is_beginning: bool
    """Whether these are the first that md submits."""
    is_consistent: bool
    """Whether parity, or the copies, agree; before any log is replayed."""
    reads: tuple[ReadAfter, ...]
    """With all members first, then without each one, then for RAID 6 without each two."""

    def without(self, *slots: int) -> ReadAfter:
        """What is read when exactly these are lost."""
        return next(read for read in self.reads if read.lost == tuple(sorted(slots)))


def crash_states(picture: StripePicture, write: SmallWrite, new: bytes) -> tuple[CrashState, ...]:
    """Every state that a crash can leave. ``picture`` holds the block's bytes of each chunk, and no more.

    Raises ArrayError where the members' bytes are not known.
    """
    held = {seen.cell.slot: seen.data for seen in picture.cells if seen.data is not None}
    if isinstance(picture.geometry, ParityGeometry):
        return _parity_states(picture, picture.geometry.row(write.stripe), held, write, new)
    length = picture.stripe.cell_sectors
    copies = {
        seen.cell.slot: seen.data
        for seen in picture.cells
        if seen.data is not None and seen.cell.first_sector <= write.sector < seen.cell.first_sector + length
    }
    old = next((copies[slot] for slot in write.target_slots if slot in copies), None)
    if old is None:
        raise ArrayError(f"no copy of the block can be read from {picture.shape.name}", hint="see the array's state")
    return tuple(_copies_state(write, copies, written, old, new) for written in _subsets(write.written_slots))


def _subsets(slots: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """All of them by size, those in md's order first; of many writes the beginnings alone."""
    for count in range(len(slots) + 1):
        beginning = slots[:count]
        yield beginning
        if len(slots) <= _MOST_SUBSETS:
            yield from (each for each in combinations(slots, count) if each != beginning)


def _copies_state(
    write: SmallWrite, copies: Mapping[int, bytes], written: tuple[int, ...], old: bytes, new: bytes
) -> CrashState:
    after = {slot: new if slot in written else data for slot, data in copies.items()}

    def read(lost: tuple[int, ...]) -> ReadAfter:
        left = {data for slot, data in after.items() if slot not in lost}
        return ReadAfter(lost, _of_copies(left, old, new))

    losses: tuple[tuple[int, ...], ...] = ((), *((slot,) for slot in sorted(copies)))
    return CrashState(
        written=written,
        is_beginning=written == write.written_slots[: len(written)],
        is_consistent=len(set(after.values())) == 1,
        reads=tuple(read(lost) for lost in losses),
    )


def _of_copies(left: set[bytes], old: bytes, new: bytes) -> CrashOutcome:
    if not left:
        return CrashOutcome.LOST
    if left <= {old, new}:
        return CrashOutcome.EITHER if len(left) > 1 else CrashOutcome.NEW if new in left else CrashOutcome.OLD
    return CrashOutcome.MIXED


def _parity_states(
    picture: StripePicture, row: ParityRow, held: Mapping[int, bytes], write: SmallWrite, new: bytes
) -> tuple[CrashState, ...]:
    length = len(new)
    data = filled_in(row, held, length)
    if data is None:
        raise ArrayError(
            f"too much of stripe {write.stripe} is missing to determine what it holds", hint="see the array's state"
        )
    (target,) = write.target_slots
    parity = parities_of(row, {**data, target: new}, length)
    if write.way is WriteWay.READ_MODIFY:
        # The difference goes into the parity as it is, right or wrong; reconstruct-write makes it right.
        before = parities_of(row, data, length)
        parity = {slot: added((parity[slot], before[slot], held[slot]), length) for slot in parity if slot in held}
    wanted = {target: new, **parity}
    states = []
    for written in _subsets(write.written_slots):
        after = {slot: wanted[slot] if slot in written else part for slot, part in held.items()}
        judge = _Reader(picture, row, data, target, new, after, {**held, **wanted})
        states.append(
            CrashState(
                written=written,
                is_beginning=written == write.written_slots[: len(written)],
                is_consistent=judge.is_consistent,
                reads=tuple(judge.read(lost) for lost in _losses(row, held)),
            )
        )
    return tuple(states)


def _losses(row: ParityRow, held: Mapping[int, bytes]) -> Iterator[tuple[int, ...]]:
    slots = sorted(held)
    yield ()
    yield from ((slot,) for slot in slots)
    if row.q_slot is not None:
        yield from combinations(slots, 2)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads a stripe of a parity array as a crash has left it, after whatever md does when it starts again."""

    picture: StripePicture
    row: ParityRow
    before: Mapping[int, bytes]
    target: int
    new: bytes
    after: Mapping[int, bytes]
    complete: Mapping[int, bytes]
    """What would be there had every write been made."""

    @property
    def is_consistent(self) -> bool:
        """Whether parity fits; with data missing, whether what it gives for them is right."""
        if not set(self.row.data_slots) <= set(self.after):
            return self.read(()).outcome.is_right
        fitting = parities_of(self.row, {slot: self.after[slot] for slot in self.row.data_slots}, len(self.new))
        return all(self.after[slot] == part for slot, part in fitting.items() if slot in self.after)

    def read(self, lost: tuple[int, ...]) -> ReadAfter:
        """What whoever reads the stripe's data gets."""
        left = self._replayed({slot: part for slot, part in self.after.items() if slot not in lost})
        data = filled_in(self.row, left, len(self.new))
        if data is None:
            there = left.get(self.target)
            return ReadAfter(lost, CrashOutcome.LOST if there is None else self._judged(there))
        holes = tuple(slot for slot in data if slot != self.target and data[slot] != self.before[slot])
        return ReadAfter(lost, self._judged(data[self.target]), holes)

    def _judged(self, found: bytes) -> CrashOutcome:
        known = {self.before[self.target]: CrashOutcome.OLD, self.new: CrashOutcome.NEW}
        return known.get(found, CrashOutcome.MIXED)

    def _replayed(self, left: dict[int, bytes]) -> dict[int, bytes]:
        policy = self.picture.shape.files["consistency_policy"]
        if policy == "journal":
            return {slot: self.complete[slot] for slot in left}
        p = self.row.p_slot
        if policy != "ppl" or p not in left or self.target not in left:
            return left
        # Partial parity is the parity of what was not being written; with the data as they are now it gives P.
        old_p = self.complete[p]
        partial = added((old_p, self.new), len(self.new))
        return left | {p: added((partial, left[self.target]), len(self.new))}
