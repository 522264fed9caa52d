"""Checks on the end of a drill: what is left on the disks and in the array, never what was typed."""

from __future__ import annotations

from abc import abstractmethod
from enum import StrEnum
from typing import Literal

from lab.checks.pictures import MemberPicture
from lab.checks.state import Check, CheckedState, CheckOutcome, DrillEnd
from lab.units import SECTOR_BYTES


class DrillCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on the end of a drill. Lessons have none of these."""

    in_lessons = False

    def look(self, lab: CheckedState) -> CheckOutcome:
        return CheckOutcome(lab.drill is not None and self.holds(lab.drill), self.name)

    @abstractmethod
    def holds(self, seen: DrillEnd) -> bool:
        """Whether it holds."""


class SuperblockIs(StrEnum):
    """What became of a superblock since the drill began."""

    SAME = "same"
    """It is of the same array."""
    UNTOUCHED = "untouched"
    """Nothing in it is other than it was."""
    WRITTEN = "written"
    """It is of the same array and the same member, and was written: the array ran with it, or was made to take it."""
    NEW = "new"
    """It is of the same array, which took the disk as one that it did not know: all of it was to be rebuilt."""
    USED = "used"
    """It was written, or is new."""
    OTHER = "other"
    """It is of another array now: one that was made since."""
    COPY = "copy"
    """It is what another disk had when the drill began."""
    GONE = "gone"


class SuperblockBecame(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="superblock"):
    """This became of the superblocks of at least so many of these disks; if none are named, of the data's members."""

    became: SuperblockIs
    disks: str = ""
    """``disk01,disk02``; empty: those that belonged to the array with the data when the drill began."""
    at_least: int = 1

    def holds(self, seen: DrillEnd) -> bool:
        names = self.disks.split(",") if self.disks else [*seen.data_members]
        known = {picture.device_uuid for picture in seen.before.values() if picture.has_superblock}
        pairs = [(seen.before[name], seen.after[name]) for name in names if name in seen.before]
        # Two disks may have been alike from the beginning; that is no copy that was made since.
        found = [
            _became(before, after, after.device_uuid != before.device_uuid and after.device_uuid in known)
            for before, after in pairs
        ]
        return sum(self.became in each for each in found) >= self.at_least


def _became(before: MemberPicture, after: MemberPicture, is_copy: bool) -> frozenset[SuperblockIs]:
    """All that is true of one disk."""
    if not after.has_superblock:
        return frozenset({SuperblockIs.GONE} if before.has_superblock else ())
    if is_copy:
        return frozenset({SuperblockIs.COPY})
    if not before.has_superblock or (before.uuid, before.created) != (after.uuid, after.created):
        return frozenset({SuperblockIs.OTHER})
    if before == after:
        return frozenset({SuperblockIs.SAME, SuperblockIs.UNTOUCHED})
    how = SuperblockIs.WRITTEN if before.device_uuid == after.device_uuid else SuperblockIs.NEW
    return frozenset({SuperblockIs.SAME, SuperblockIs.USED, how})


class SuperblockSays(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="superblock_says"):
    """The superblocks of all these disks say this now; not ``is_so``: one of those that there are says otherwise.

    Of roles only a place in the array is otherwise: whether a spare has got its place yet says nothing.
    """

    disks: str
    """``disk01,disk02``."""
    key: Literal["name", "level", "devices", "role", "data_offset_sectors", "chunk", "layout", "bad_blocks"]
    value: str | int
    """As ``mdadm --examine`` writes it; or one for each disk, with commas between."""
    is_so: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        names, values = self.disks.split(","), str(self.value).split(",")
        wanted = dict(zip(names, values if len(values) > 1 else values * len(names), strict=True))
        there = {name: seen.after[name] for name in names if seen.after[name].has_superblock}
        if not self.is_so and self.key == "role":
            there = {name: picture for name, picture in there.items() if picture.has_place}
        right = [name for name, picture in there.items() if str(getattr(picture, self.key)) == wanted[name]]
        return len(right) == len(names) if self.is_so else len(right) < len(there)


class Rewritten(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rewritten"):
    """So many bytes of the disk's data area are not what they were; not ``is_so``: fewer."""

    disk: str
    at_least_bytes: int = 1
    is_so: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        picture = seen.before.get(self.disk)
        first = picture.data_offset_sectors * SECTOR_BYTES if picture else 0
        spans = seen.changed.get(self.disk, ())
        return (sum(max(0, end - max(start, first)) for start, end in spans) >= self.at_least_bytes) is self.is_so


class Damaged(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="damaged"):
    """Blocks of the members, data or parity over them, were right when the drill began and are not now; or none.

    Only what belongs to files and to the file system's own lists counts, and zeros do where they lay.
    """

    what: Literal["data", "parity", "any"] = "any"
    is_so: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        counts = {"data": seen.damaged_data, "parity": seen.damaged_parity}
        return (counts.get(self.what, sum(counts.values())) > 0) is self.is_so


class InArray(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="in_array"):
    """One of these disks, ``disk01,disk02``, is in sync in the array that has the data; or none is."""

    disks: str
    is_in: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        return seen.has_array and bool({*self.disks.split(",")} & {*seen.members}) is self.is_in


class Runs(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="runs"):
    """Some array has the data, or none has."""

    is_there: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        return seen.has_array is self.is_there


class OnOverlays(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="on_overlays"):
    """The array that has the data does not lie on the disks themselves, or not with all its members."""

    def holds(self, seen: DrillEnd) -> bool:
        return seen.has_array and seen.is_on_overlays


class Saved(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="saved"):
    """Of the data, at most so much was saved."""

    at_most_percent: float

    def holds(self, seen: DrillEnd) -> bool:
        return seen.saved_percent <= self.at_most_percent


class Touched(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="touched"):
    """The disks themselves were written before the student said commit."""

    def holds(self, seen: DrillEnd) -> bool:
        return seen.touched_bytes > 0
