"""Checks and readings of data on the disks: superblocks, counters, file systems, files that programs wrote.

These data need additional commands, so they are gathered only for lessons that use one of these checks or readings
(``lab.lessons.student``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from lab.arrays.discovery import Superblock
from lab.arrays.status import ArrayStatus
from lab.checks.arrays import ArrayCheck
from lab.checks.readings import LikelyMistake, Source
from lab.checks.state import Check, CheckedState, CheckOutcome

_SHARE_READ = 0.8
"""Minimum share of the component size that must be read or written for a copy of the whole disk."""


class ArrayStopped(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.stopped"):
    """The array exists on the disks, and is not running."""

    array: str = "md0"

    def look(self, lab: CheckedState) -> CheckOutcome:
        status = lab.arrays.get(self.array)
        if status is not None:
            return CheckOutcome(False, "array-is-state", {"array": self.array, "state": status.state.value})
        is_there = self.array in lab.deep.resting
        return CheckOutcome(is_there, "array-rests" if is_there else "array-missing", {"array": self.array})


class MemberCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on the superblock of one disk."""

    disk: str

    def look(self, lab: CheckedState) -> CheckOutcome:
        found = lab.deep.superblocks.get(self.disk)
        return self.judge(found, lab) if found else CheckOutcome(False, "superblock-missing", {"disk": self.disk})

    @abstractmethod
    def judge(self, superblock: Superblock, lab: CheckedState) -> CheckOutcome:
        """Return the outcome for a superblock that exists."""


class MemberStale(MemberCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="member.stale"):
    """The event count of the disk is at least this much lower than the highest one of its array."""

    at_least: int = 1

    def judge(self, superblock: Superblock, lab: CheckedState) -> CheckOutcome:
        behind = events_behind(superblock, lab)
        return CheckOutcome(behind >= self.at_least, "events-behind", {"disk": self.disk, "behind": behind})


class MemberCurrent(MemberCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="member.current"):
    """The event count of the disk equals the highest one of its array."""

    def judge(self, superblock: Superblock, lab: CheckedState) -> CheckOutcome:
        behind = events_behind(superblock, lab)
        return CheckOutcome(behind == 0, "events-behind", {"disk": self.disk, "behind": behind})


class ArrayOnOverlays(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.on_overlays"):
    """The array runs on mapped devices over the lab disks: no member is itself a lab disk."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        disks = {node: name for name, node in lab.nodes.items()}
        found = sorted(disks[member.device] for member in status.members if member.device in disks)
        if found:
            return CheckOutcome(False, "array-has-disks", {"array": self.array, "disks": ", ".join(found)})
        return CheckOutcome(bool(status.members), "array-on-overlays", {"array": self.array})


class ArrayForeign(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.made_anew"):
    """A running array has this name, but not the UUID of the array on which the known data were written."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        is_new = self.array in lab.deep.marked_before and self.array not in lab.marks
        return CheckOutcome(is_new, "array-is-new" if is_new else "array-is-old", {"array": self.array})


class DiskCopied(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.copied"):
    """During this step ``source`` was read and ``target`` was written from end to end, and ``target`` is in sync.

    This is a replacement (``mdadm --replace``). A rebuild after a failure reads all other members instead.
    """

    lasts = True
    source: str
    target: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        member = lab.member(self.array, self.target)
        size = status.component_bytes
        if member is None or not member.is_in_sync or not size:
            return CheckOutcome(False, "disk-not-rebuilt", {"array": self.array, "disk": self.target})
        read = lab.deep.read_bytes.get(self.source, 0) / size
        written = lab.written_bytes.get(self.target, 0) / size
        facts = {**self.facts, "read": f"{100 * read:.0f}", "written": f"{100 * written:.0f}"}
        return CheckOutcome(min(read, written) >= _SHARE_READ, "disk-was-copied", facts)


class ArrayMended(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.mended"):
    """md corrected a read error of a member by writing the data back: dev-*/errors counts these (md.rst)."""

    lasts = True

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        count = sum(member.error_count or 0 for member in status.members)
        return CheckOutcome(count > 0, "errors-mended", {"array": self.array, "count": count})


class ArrayWaited(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.waited"):
    """The requests to the array took at least this time in total during this step, by the counters of the array."""

    lasts = True
    at_least_seconds: float

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        waited = lab.deep.waited_seconds.get(self.array, 0.0)
        facts = {"array": self.array, "seconds": f"{waited:.1f}"}
        return CheckOutcome(waited >= self.at_least_seconds, "array-has-waited", facts)


class FileSystemFills(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="file_system.fills"):
    """The size of the ext4 file system is in this range, in percent of the size of the array."""

    at_least_percent: float = 0.0
    at_most_percent: float = 100.0

    @property
    def wanted(self) -> str:
        return f"{self.name}.at-least" if self.at_least_percent else f"{self.name}.at-most"

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        size = lab.deep.file_system_bytes.get(self.array)
        if size is None or not status.size_bytes:
            return CheckOutcome(False, "file-system-missing", {"array": self.array})
        percent = 100 * size / status.size_bytes
        is_passed = self.at_least_percent <= percent <= self.at_most_percent
        return CheckOutcome(is_passed, "file-system-fills", {"array": self.array, "percent": f"{percent:.0f}"})


class FileSays(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="file.says"):
    """A line of this file on the machine contains these words, and the file is newer than the newest array."""

    lasts = True
    path: str
    words: str

    def look(self, lab: CheckedState) -> CheckOutcome:
        is_there = any(self.words in line for line in lab.deep.texts.get(self.path, "").splitlines())
        return CheckOutcome(is_there, "file-says" if is_there else "file-says-not", self.facts)


class DeepSource(Source, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number about the disks or arrays; the lab must be open."""

    needs_lab = True


class MemberEvents(DeepSource, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="member.events"):
    """The event count in a disk's superblock; with ``behind`` its difference from the highest one of its array."""

    disk: str
    behind: bool = False

    def value(self, lab: CheckedState) -> float | None:
        found = lab.deep.superblocks.get(self.disk)
        if found is None:
            return None
        return float(events_behind(found, lab) if self.behind else found.events)


class DiskMinor(DeepSource, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.minor"):
    """The minor number of a disk's device, as mdadm --detail shows it."""

    disk: str

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        for disk, minor in lab.deep.minors.items():
            if disk != self.disk:
                yield LikelyMistake(float(minor), "reading-other-row", {"row": disk})

    def value(self, lab: CheckedState) -> float | None:
        found = lab.deep.minors.get(self.disk)
        return None if found is None else float(found)


class Mismatches(DeepSource, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="scrub.mismatches"):
    """The mismatch count of the last scrub of the array (md/mismatch_cnt), in sectors."""

    array: str = "md0"

    def value(self, lab: CheckedState) -> float | None:
        status = lab.arrays.get(self.array)
        return None if status is None or status.mismatch_sectors is None else float(status.mismatch_sectors)


DEEP_CHECKS = (ArrayStopped, MemberCheck, ArrayForeign, DiskCopied, ArrayWaited, FileSystemFills, FileSays)
"""Checks that need a ``DeepState`` or counters, in addition to the status of arrays and disks."""


def events_behind(superblock: Superblock, lab: CheckedState) -> int:
    """The difference between the highest event count of the same array and this one."""
    all_events = [each.events for each in lab.deep.superblocks.values() if each.array_uuid == superblock.array_uuid]
    return max(all_events) - superblock.events
