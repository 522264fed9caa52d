"""A small write interrupted by a crash: the data that a reader gets in each possible state. Pure, on real content.

Any subset of the writes to members may have completed when the power fails; the subsets that are a prefix in md's order
are marked. Recovery with a partial parity log: ppl_recover_entry() in drivers/md/raid5-ppl.c.
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
"""For more writes than this, only prefixes are shown."""


class CrashOutcome(StrEnum):
    """The result of reads from one stripe after a crash."""

    OLD = "old"
    NEW = "new"
    EITHER = "old or new"
    """Copies differ: the result depends on the copy that is read, and may change from read to read."""
    MIXED = "neither"
    """The block that was being written has content that was never written."""
    HOLE = "WRITE HOLE"
    """A block that was not being written has content that was never written."""
    LOST = "lost"
    """Too many members are missing, and md returns an error."""

    @property
    def is_right(self) -> bool:
        """Whether a disk may behave so: a write in flight may have completed or not."""
        return self in (CrashOutcome.OLD, CrashOutcome.NEW, CrashOutcome.EITHER)


@dataclass(frozen=True, slots=True)
class ReadAfter:
    """The result of a read with some members lost. ``target`` is the result for the block that was being written."""

    lost: tuple[int, ...]
    target: CrashOutcome
    holes: tuple[int, ...] = ()
    """Slots with wrong content of data that were not being written."""

    @property
    def outcome(self) -> CrashOutcome:
        """The worst result."""
        return CrashOutcome.HOLE if self.holes else self.target


@dataclass(frozen=True, slots=True)
class CrashState:
    """The state after a crash, with some of the writes completed."""

    written: tuple[int, ...]
    """Slots that were written, in md's order."""
    is_beginning: bool
    """Whether these are the first ones that md submits."""
    is_consistent: bool
    """Whether parity or copies are consistent, before a log is replayed."""
    reads: tuple[ReadAfter, ...]
    """With all members first, then without each one, then for RAID 6 without each pair."""

    def without(self, *slots: int) -> ReadAfter:
        """The result of a read when exactly these slots are lost."""
        return next(read for read in self.reads if read.lost == tuple(sorted(slots)))


def crash_states(picture: StripePicture, write: SmallWrite, new: bytes) -> tuple[CrashState, ...]:
    """All states that a crash can leave. ``picture`` has the content of each chunk at the block, and no more.

    Raises ArrayError if the content of the members is unknown.
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
    """All subsets by size, with the prefix in md's order first; for many writes only the prefixes."""
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
        # Read-modify-write applies the difference to the stored parity, correct or not; reconstruct-write computes
        # parity anew.
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
    """Reads a stripe of a parity array in the state after a crash, after md's recovery at the next start."""

    picture: StripePicture
    row: ParityRow
    before: Mapping[int, bytes]
    target: int
    new: bytes
    after: Mapping[int, bytes]
    complete: Mapping[int, bytes]
    """The content after all writes."""

    @property
    def is_consistent(self) -> bool:
        """Whether parity matches the data; with data missing, whether the data computed from it are correct."""
        if not set(self.row.data_slots) <= set(self.after):
            return self.read(()).outcome.is_right
        fitting = parities_of(self.row, {slot: self.after[slot] for slot in self.row.data_slots}, len(self.new))
        return all(self.after[slot] == part for slot, part in fitting.items() if slot in self.after)

    def read(self, lost: tuple[int, ...]) -> ReadAfter:
        """The result of reading the data of the stripe."""
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
        # Partial parity is the parity of the data that were not being written; with the current data it gives P.
        old_p = self.complete[p]
        partial = added((old_p, self.new), len(self.new))
        return left | {p: added((partial, left[self.target]), len(self.new))}
