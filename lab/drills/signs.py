"""Signs by which mistakes are recognised: what is left on the disks and in the array, never what was typed.

``that`` in a drill's file names the class by its tag. A mistake counts when all its signs hold at the end of a drill.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

import msgspec

from lab.drills.pictures import MemberPicture
from lab.tomlfile import make_tagged
from lab.units import SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class DrillEnd:
    """What is there at the end of a drill."""

    before: Mapping[str, MemberPicture]
    """Name of a disk -> its superblock when the drill began."""
    after: Mapping[str, MemberPicture]
    changed: Mapping[str, Sequence[Sequence[int]]]
    """Bytes [first, end) of each disk that are not as they were."""
    saved_percent: float
    touched_bytes: int
    has_array: bool = False
    """Whether an array that runs has the data."""
    members: Sequence[str] = ()
    """Names of the lab's disks that are in sync in it."""
    is_on_overlays: bool = False
    """Some of its members, or all, are not what is there when the machine starts the next time."""
    damaged_data: int = 0
    """Blocks of data on the members that were right when the drill began and are not now."""
    damaged_parity: int = 0
    """As ``damaged_data``, of parity."""
    data_uuid: str = ""
    """Of the array with the data when its files were complete; empty: not known."""

    @property
    def data_members(self) -> tuple[str, ...]:
        """Disks that belonged to the array with the data when the drill began, as their superblocks said."""
        return tuple(
            name
            for name, picture in self.before.items()
            if picture.has_superblock and picture.uuid == (self.data_uuid or picture.uuid)
        )


class Sign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="that"):
    """One thing that shows."""

    @abstractmethod
    def holds(self, seen: DrillEnd) -> bool:
        """Whether it shows."""


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


class SuperblockBecame(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="superblock"):
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


class SuperblockSays(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="superblock_says"):
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


class Rewritten(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rewritten"):
    """So many bytes of the disk's data area are not what they were; not ``is_so``: fewer."""

    disk: str
    at_least_bytes: int = 1
    is_so: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        picture = seen.before.get(self.disk)
        first = picture.data_offset_sectors * SECTOR_BYTES if picture else 0
        spans = seen.changed.get(self.disk, ())
        return (sum(max(0, end - max(start, first)) for start, end in spans) >= self.at_least_bytes) is self.is_so


class Damaged(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="damaged"):
    """Blocks of the members, data or parity over them, were right when the drill began and are not now; or none.

    Only what belongs to files and to the file system's own lists counts, and zeros do where they lay.
    """

    what: Literal["data", "parity", "any"] = "any"
    is_so: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        counts = {"data": seen.damaged_data, "parity": seen.damaged_parity}
        return (counts.get(self.what, sum(counts.values())) > 0) is self.is_so


class InArray(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="in_array"):
    """One of these disks, ``disk01,disk02``, is in sync in the array that has the data; or none is."""

    disks: str
    is_in: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        return seen.has_array and bool({*self.disks.split(",")} & {*seen.members}) is self.is_in


class Runs(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="runs"):
    """Some array has the data, or none has."""

    is_there: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        return seen.has_array is self.is_there


class OnOverlays(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="on_overlays"):
    """The array that has the data does not lie on the disks themselves, or not with all its members."""

    def holds(self, seen: DrillEnd) -> bool:
        return seen.has_array and seen.is_on_overlays


class Saved(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="saved"):
    """Of the data, at most so much was saved."""

    at_most_percent: float

    def holds(self, seen: DrillEnd) -> bool:
        return seen.saved_percent <= self.at_most_percent


class Touched(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="touched"):
    """The disks themselves were written before the student said commit."""

    def holds(self, seen: DrillEnd) -> bool:
        return seen.touched_bytes > 0


_KINDS = {str(kind.__struct_config__.tag): kind for kind in Sign.__subclasses__()}


def make_sign(written: Mapping[str, Any], *, where: str) -> Sign:
    """A sign as written. Raises SpecError that names the nearest sign or key."""
    return make_tagged(written, _KINDS, what="sign", key="that", where=where)
