"""Checks and readings of blocks: their location on the members, the content of a sector, and md's bad-block lists.

All values are computed from the current state of the array, never from the arguments with which it was created.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import msgspec

from lab.arrays.geometry import ArrayGeometry
from lab.arrays.status import ArrayStatus, MemberStatus
from lab.checks.arrays import ArrayCheck
from lab.checks.readings import LikelyMistake, Source
from lab.checks.state import CheckedState, CheckOutcome, Facts
from lab.microscope.array_map import BLOCK_SECTORS
from lab.units import SECTOR_BYTES


class PlaceWord(StrEnum):
    """The property of a block that a reading asks for."""

    STRIPE = "stripe"
    DISK = "disk"
    SECTOR = "sector"
    PARITY_DISK = "parity-disk"


class BlockPlace(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="block.place"):
    """The stripe, disk number (3: disk03) or sector of a 4 KiB block in a parity array, or the disk of its parity."""

    needs_lab = True
    array: str = "md0"
    block: Annotated[int, msgspec.Meta(ge=0)]
    what: PlaceWord

    def value(self, lab: CheckedState) -> float | None:
        status = lab.arrays.get(self.array)
        geometry = _geometry(status) if status else None
        sector = self.block * BLOCK_SECTORS
        if status is None or geometry is None or sector >= geometry.size_sectors:
            return None
        if self.what is PlaceWord.STRIPE:
            return float(geometry.stripe_of(sector))
        is_parity = self.what is PlaceWord.PARITY_DISK
        place = (geometry.parities(sector) if is_parity else geometry.places(sector))[0]
        member = next((each for each in status.members if each.slot == place.slot), None)
        if member is None or member.data_offset_sectors is None:
            return None
        if self.what is PlaceWord.SECTOR:
            return float(member.data_offset_sectors + place.sector)
        return _disk_number(lab, member)


class BadSector(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="bad.block"):
    """The 4 KiB block of the array at the first sector of a member's bad-block list, if that sector holds data."""

    needs_lab = True
    array: str = "md0"
    disk: str

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        member = lab.member(self.array, self.disk)
        if member is not None and member.bad_blocks:
            yield LikelyMistake(float(member.bad_blocks[0][0]), "reading-list-sector", {"disk": self.disk})

    def value(self, lab: CheckedState) -> float | None:
        status, member = lab.arrays.get(self.array), lab.member(self.array, self.disk)
        geometry = _geometry(status) if status else None
        if geometry is None or member is None or member.slot is None or not member.bad_blocks:
            return None
        found = geometry.content(member.slot, member.bad_blocks[0][0] - (member.data_offset_sectors or 0))
        is_data = found is not None and not found.kind.is_parity
        return float(found.sectors[0] // BLOCK_SECTORS) if found and is_data else None


class BadSectors(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="bad.bytes"):
    """The total size of the bad-block lists of all members of an array."""

    needs_lab = True
    array: str = "md0"

    def value(self, lab: CheckedState) -> float | None:
        status = lab.arrays.get(self.array)
        return None if status is None else float(sum(_bad_bytes(member) for member in status.members))


class MarkLost(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mark.first_unreadable"):
    """The first unreadable byte of the known data at the last verify: its offset in the array, or in the file on it."""

    needs_lab = True
    array: str = "md0"

    def value(self, lab: CheckedState) -> float | None:
        mark = lab.marks.get(self.array)
        return float(mark.unreadable[0][0]) if mark and mark.unreadable else None


class MemberOffset(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="member.offset"):
    """The sector of a member's device at which its data area begins (the data offset)."""

    needs_lab = True
    array: str = "md0"
    disk: str

    def value(self, lab: CheckedState) -> float | None:
        member = lab.member(self.array, self.disk)
        offset = member.data_offset_sectors if member else None
        return None if offset is None else float(offset)


class DiskBadBlocks(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.bad_blocks"):
    """The bad-block list of the disk has entries, or none with ``present = false``."""

    disk: str
    present: bool = True

    @property
    def wanted(self) -> str:
        return self.name if self.present else "disk.no-bad_blocks"

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        member = lab.member(self.array, self.disk)
        facts: Facts = {"array": self.array, "disk": self.disk}
        if member is None:
            return CheckOutcome(False, "disk-is", {**facts, "state": "not a member"})
        listed = bool(member.bad_blocks)
        said = "disk-has-bad-blocks" if listed else "disk-has-no-bad-blocks"
        return CheckOutcome(listed is self.present, said, {**facts, "kib": f"{_bad_bytes(member) / 1024:g}"})


class ArrayPolicy(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.policy"):
    """The array has this consistency policy: ``resync``, ``bitmap``, ``ppl`` or ``journal``."""

    policy: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = status.consistency_policy
        return CheckOutcome(found == self.policy, "array-has-policy", {"array": self.array, "policy": found})


def _geometry(status: ArrayStatus) -> ArrayGeometry | None:
    """The geometry of a parity array that is not being reshaped; None for any other."""
    is_known = status.has_parity and status.reshape_position_sectors is None
    return status.geometry if is_known and status.chunk_bytes and status.component_bytes else None


def _disk_number(lab: CheckedState, member: MemberStatus) -> float | None:
    name = next((name for name, node in lab.nodes.items() if node == member.device), "")
    digits = name.removeprefix("disk")
    return float(digits) if digits.isdecimal() else None


def _bad_bytes(member: MemberStatus) -> int:
    return sum(length for _, length in member.bad_blocks) * SECTOR_BYTES
