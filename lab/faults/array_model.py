"""What is believed of an array while a history is made: a model that knows the level arithmetic.

It is hopeful: it takes a rebuild for done after the next rest. What md really did is judged afterwards (judge.py), so a
model that is wrong in a detail makes no history wrong, only a little dull.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from lab.arrays.levels import Level
from lab.faults.block_map import BlockMap
from lab.faults.history import DRIVES, JOURNAL_DRIVE, ArrayShape


@dataclass
class CampaignArrayModel:
    """What is believed of the array while a history is made."""

    shape: ArrayShape
    slots: list[int | None]
    in_sync: set[int]
    spares: set[int] = field(default_factory=set)
    faulty: set[int] = field(default_factory=set)
    stale: set[int] = field(default_factory=set)
    """Once members, no longer in the array."""
    blank: set[int] = field(default_factory=set)
    pulled: set[int] = field(default_factory=set)
    slow: set[int] = field(default_factory=set)
    is_dead: bool = False
    is_broken: bool = False
    """md was asked to fail a member that it cannot do without: it refuses writes until it is started again (MD_BROKEN).
    """
    is_reshaping: bool = False
    is_hasty: bool = False
    """A power cut is not yet settled."""
    grown: int = 0
    size_kib: int = 0
    cuts: int = 0
    may_have_bad_blocks: bool = False

    @property
    def level(self) -> Level:
        return self.shape.raid

    @property
    def members(self) -> int:
        return len(self.slots)

    @cached_property
    def map(self) -> BlockMap:
        """Of the blocks that were there from the beginning."""
        return self.shape.block_map()

    def missing(self) -> set[int]:
        """Slots of which nothing can be read."""
        return {slot for slot, drive in enumerate(self.slots) if drive not in self.in_sync - self.pulled}

    def survives(self, *drives: int) -> bool:
        """Whether the data would be there without these drives as well."""
        gone = self.missing() | {slot for slot, drive in enumerate(self.slots) if drive in drives}
        return self.level.survives(frozenset(gone), self.members)

    @property
    def is_whole(self) -> bool:
        """All members in sync, and nothing odd about any."""
        return not (
            self.missing() or self.pulled or self.faulty or self.is_reshaping or self.is_hasty or self.is_broken
        )

    def take_spares(self) -> None:
        """Md puts spares into the vacant slots."""
        for slot, drive in enumerate(self.slots):
            ready = sorted(self.spares - self.pulled)
            if drive is None and ready:
                self.slots[slot] = ready[0]
                self.spares.discard(ready[0])

    def leave(self, drive: int) -> None:
        """It is no member any more."""
        self.slots = [None if each == drive else each for each in self.slots]
        for group in (self.in_sync, self.spares, self.faulty):
            group.discard(drive)

    def rest(self) -> None:
        """Md has done what it had to do."""
        self.take_spares()
        self.in_sync |= {drive for drive in self.slots if drive is not None and drive not in self.pulled}
        self.is_reshaping = self.is_hasty = False


def new_model(shape: ArrayShape) -> CampaignArrayModel:
    """Of an array that was just created, with all other drives blank."""
    drives = list(range(shape.members))
    others = set(range(shape.members, DRIVES))
    if shape.policy.has_journal:
        others.discard(JOURNAL_DRIVE)
    return CampaignArrayModel(shape, list(drives), set(drives), blank=others)
