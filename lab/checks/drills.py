"""Checks on the final state of a drill: on the disks and the array, never on the commands that were typed."""

from __future__ import annotations

from abc import abstractmethod
from enum import StrEnum
from typing import Literal

from lab.checks.state import Check, CheckedState, CheckOutcome, DrillEnd, MemberPicture
from lab.units import SECTOR_BYTES


class DrillCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on the final state of a drill. Lessons cannot use it."""

    in_lessons = False

    def look(self, lab: CheckedState) -> CheckOutcome:
        return CheckOutcome(lab.drill is not None and self.holds(lab.drill), self.name)

    @abstractmethod
    def holds(self, seen: DrillEnd) -> bool:
        """Return whether the check holds."""


class SuperblockIs(StrEnum):
    """The state of a superblock compared with the beginning of the drill."""

    SAME = "same"
    """It belongs to the same array."""
    UNTOUCHED = "untouched"
    """It is unchanged."""
    WRITTEN = "written"
    """It belongs to the same array and member, and was written: the array ran with it, or it was added back or forced.
    """
    NEW = "new"
    """It belongs to the same array, which accepted the disk as a new member with a full rebuild."""
    USED = "used"
    """``written`` or ``new``."""
    OTHER = "other"
    """It belongs to another array, which was created during the drill."""
    COPY = "copy"
    """It is the superblock that another disk had when the drill began."""
    GONE = "gone"


class SuperblockBecame(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="superblock"):
    """The superblock of at least ``at_least`` of these disks (default: the data's members) has this state."""

    became: SuperblockIs
    disks: str = ""
    """``disk01,disk02``; empty: the disks that belonged to the array with the data when the drill began."""
    at_least: int = 1

    def holds(self, seen: DrillEnd) -> bool:
        names = self.disks.split(",") if self.disks else [*seen.data_members]
        known = {picture.device_uuid for picture in seen.before.values() if picture.has_superblock}
        pairs = [(seen.before[name], seen.after[name]) for name in names if name in seen.before]
        # Two disks may have had the same superblock from the beginning. Only a copy made since counts.
        found = [
            _became(before, after, after.device_uuid != before.device_uuid and after.device_uuid in known)
            for before, after in pairs
        ]
        return sum(self.became in each for each in found) >= self.at_least


def _became(before: MemberPicture, after: MemberPicture, is_copy: bool) -> frozenset[SuperblockIs]:
    """All states that apply to the superblock of one disk."""
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
    """The superblocks of all these disks have this value; not ``is_so``: an existing one has another value.

    For roles, not ``is_so`` considers only disks with a slot: whether a spare already has a slot is not significant.
    """

    disks: str
    """The disks, written ``disk01,disk02``."""
    key: Literal["name", "level", "devices", "role", "data_offset_sectors", "chunk", "layout", "bad_blocks"]
    value: str | int
    """As in the output of ``mdadm --examine``; or one value for each disk, separated by commas."""
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
    """At least this number of bytes in the data area of the disk have changed; not ``is_so``: fewer."""

    disk: str
    at_least_bytes: int = 1
    is_so: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        picture = seen.before.get(self.disk)
        first = picture.data_offset_sectors * SECTOR_BYTES if picture else 0
        spans = seen.changed.get(self.disk, ())
        return (sum(max(0, end - max(start, first)) for start, end in spans) >= self.at_least_bytes) is self.is_so


class Damaged(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="damaged"):
    """Blocks of data or parity on the members were correct when the drill began and are wrong now; not ``is_so``: none.

    Only blocks of files and of file system metadata count. A block of zeros is correct only in its original place.
    """

    what: Literal["data", "parity", "any"] = "any"
    is_so: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        counts = {"data": seen.damaged_data, "parity": seen.damaged_parity}
        return (counts.get(self.what, sum(counts.values())) > 0) is self.is_so


class InArray(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="in_array"):
    """One of these disks, ``disk01,disk02``, is in sync in the array with the data; not ``is_in``: none is."""

    disks: str
    is_in: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        return seen.has_array and bool({*self.disks.split(",")} & {*seen.members}) is self.is_in


class Runs(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="runs"):
    """An array with the data is running; not ``is_there``: none is."""

    is_there: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        return seen.has_array is self.is_there


class OnOverlays(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="on_overlays"):
    """Some or all members of the array with the data are overlays, not the disks themselves."""

    def holds(self, seen: DrillEnd) -> bool:
        return seen.has_array and seen.is_on_overlays


class Saved(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="saved"):
    """At most this percentage of the data was saved."""

    at_most_percent: float

    def holds(self, seen: DrillEnd) -> bool:
        return seen.saved_percent <= self.at_most_percent


class Touched(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="touched"):
    """The disks themselves were written before the commit."""

    def holds(self, seen: DrillEnd) -> bool:
        return seen.touched_bytes > 0
