"""Signs by which mistakes are recognised: what is left on the disks, in the array and on the list of commands.

``that`` in a drill's file names the class by its tag. A mistake counts when all its signs hold at the end of a drill.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

import msgspec

from lab.arrays.status import ArrayStatus
from lab.drills.pictures import MemberPicture
from lab.errors import SpecError
from lab.tomlfile import convert_tree, unknown_word
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
    commands: Sequence[str] = ()
    array: ArrayStatus | None = None
    """That has the data; None: no array has them."""
    members: Sequence[str] = field(default_factory=tuple)
    """Names of the lab's disks that are in sync in it."""
    is_on_overlays: bool = False
    """Some of its members, or all, are not what is there when the machine starts the next time."""


class Sign(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="that"):
    """One thing that shows."""

    @abstractmethod
    def holds(self, seen: DrillEnd) -> bool:
        """Whether it shows."""


class SuperblockIs(StrEnum):
    """What became of a superblock."""

    SAME = "same"
    OTHER = "other"
    """It is of another array now: one that was made since."""
    GONE = "gone"
    NEW = "new"
    """It is of the same array, which took the disk as one that it did not know: all of it was to be rebuilt."""


class SuperblockBecame(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="superblock"):
    """This became of the superblocks of at least so many of these disks; of disks that had one."""

    became: SuperblockIs
    disks: str = ""
    """``disk01,disk02``; empty: any."""
    at_least: int = 1

    def holds(self, seen: DrillEnd) -> bool:
        names = self.disks.split(",") if self.disks else list(seen.before)
        pairs = [(seen.before[name], seen.after[name]) for name in names if name in seen.before]
        if self.became is SuperblockIs.NEW:
            found = [self._became(*pair) for pair in pairs if pair[0].device_uuid != pair[1].device_uuid]
            return found.count(SuperblockIs.SAME) >= self.at_least
        return [self._became(*pair) for pair in pairs].count(self.became) >= self.at_least

    @staticmethod
    def _became(before: MemberPicture, after: MemberPicture) -> SuperblockIs | None:
        if not before.has_superblock:
            return SuperblockIs.OTHER if after.has_superblock else None
        if not after.has_superblock:
            return SuperblockIs.GONE
        is_same = (before.uuid, before.created) == (after.uuid, after.created)
        return SuperblockIs.SAME if is_same else SuperblockIs.OTHER


class SuperblockSays(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="superblock_says"):
    """The superblocks of all these disks say this now; not ``is_so``: one of those that there are says otherwise."""

    disks: str
    """``disk01,disk02``."""
    key: Literal["name", "level", "devices", "role", "data_offset_sectors", "chunk", "layout"]
    value: str | int
    """As ``mdadm --examine`` writes it; or one for each disk, with commas between."""
    is_so: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        names, values = self.disks.split(","), str(self.value).split(",")
        wanted = dict(zip(names, values if len(values) > 1 else values * len(names), strict=True))
        there = {name: seen.after[name] for name in names if seen.after[name].has_superblock}
        right = [name for name, picture in there.items() if str(getattr(picture, self.key)) == wanted[name]]
        return len(right) == len(names) if self.is_so else len(right) < len(there)


class Rewritten(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rewritten"):
    """So many bytes of the disk's data area are not what they were."""

    disk: str
    at_least_bytes: int = 1

    def holds(self, seen: DrillEnd) -> bool:
        picture = seen.before.get(self.disk)
        first = picture.data_offset_sectors * SECTOR_BYTES if picture else 0
        spans = seen.changed.get(self.disk, ())
        return sum(max(0, end - max(start, first)) for start, end in spans) >= self.at_least_bytes


class InArray(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="in_array"):
    """One of these disks, ``disk01,disk02``, is in sync in the array that has the data; or none is."""

    disks: str
    is_in: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        return seen.array is not None and bool({*self.disks.split(",")} & {*seen.members}) is self.is_in


class Runs(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="runs"):
    """Some array has the data, or none has."""

    is_there: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        return (seen.array is not None) is self.is_there


class OnOverlays(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="on_overlays"):
    """The array that has the data does not lie on the disks themselves, or not with all its members."""

    def holds(self, seen: DrillEnd) -> bool:
        return seen.array is not None and seen.is_on_overlays


class Saved(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="saved"):
    """Of the data, at most so much was saved."""

    at_most_percent: float

    def holds(self, seen: DrillEnd) -> bool:
        return seen.saved_percent <= self.at_most_percent


class Touched(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="touched"):
    """The disks themselves were written before the student said commit."""

    def holds(self, seen: DrillEnd) -> bool:
        return seen.touched_bytes > 0


class Typed(Sign, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="typed"):
    """A command like this was typed: a regular expression, looked for in each line."""

    pattern: str

    def __post_init__(self) -> None:
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise SpecError(f"'{self.pattern}' is no regular expression: {error}", hint="see Python's re") from None

    def holds(self, seen: DrillEnd) -> bool:
        return any(re.search(self.pattern, line) for line in seen.commands)


_KINDS = {str(kind.__struct_config__.tag): kind for kind in Sign.__subclasses__()}


def make_sign(written: Mapping[str, Any], *, where: str) -> Sign:
    """A sign as it stands in a file. Raises SpecError with the nearest name."""
    name = written.get("that")
    if name not in _KINDS:
        raise unknown_word("sign", str(name), _KINDS)
    return convert_tree(dict(written), _KINDS[str(name)], source=f"{where}: {name}")
