"""Checks and readings about what lies on the disks themselves: superblocks, counters, file systems, notes of programs.

What they look at costs commands of its own, so it is gathered only for lessons that have one of them
(``lab.lessons.deep_look``).
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
"""Of what an array uses of a disk: so much read or written is a copy of the whole and not a look at some of it."""


class ArrayStopped(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.stopped"):
    """The array lies on the disks, and does not run."""

    array: str = "md0"

    def look(self, lab: CheckedState) -> CheckOutcome:
        status = lab.arrays.get(self.array)
        if status is not None:
            return CheckOutcome(False, "array-is-state", {"array": self.array, "state": status.state.value})
        is_there = self.array in lab.deep.resting
        return CheckOutcome(is_there, "array-rests" if is_there else "array-missing", {"array": self.array})


class MemberCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on one disk's superblock."""

    disk: str

    def look(self, lab: CheckedState) -> CheckOutcome:
        found = lab.deep.superblocks.get(self.disk)
        return self.judge(found, lab) if found else CheckOutcome(False, "superblock-missing", {"disk": self.disk})

    @abstractmethod
    def judge(self, superblock: Superblock, lab: CheckedState) -> CheckOutcome:
        """The look at a superblock that is there."""


class MemberStale(MemberCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="member.stale"):
    """The disk's superblock has fewer events than another of the same array, by at least so many."""

    at_least: int = 1

    def judge(self, superblock: Superblock, lab: CheckedState) -> CheckOutcome:
        behind = events_behind(superblock, lab)
        return CheckOutcome(behind >= self.at_least, "events-behind", {"disk": self.disk, "behind": behind})


class MemberCurrent(MemberCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="member.current"):
    """The disk's superblock has as many events as any of its array."""

    def judge(self, superblock: Superblock, lab: CheckedState) -> CheckOutcome:
        behind = events_behind(superblock, lab)
        return CheckOutcome(behind == 0, "events-behind", {"disk": self.disk, "behind": behind})


class ArrayOnOverlays(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.on_overlays"):
    """The array runs, and none of its members is a disk of the lab: they are mapped devices over them."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        disks = {node: name for name, node in lab.nodes.items()}
        found = sorted(disks[member.device] for member in status.members if member.device in disks)
        if found:
            return CheckOutcome(False, "array-has-disks", {"array": self.array, "disks": ", ".join(found)})
        return CheckOutcome(bool(status.members), "array-on-overlays", {"array": self.array})


class ArrayForeign(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.made_anew"):
    """An array of this name runs, and it is another one than that with the known data: its UUID is new."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        is_new = self.array in lab.deep.marked_before and self.array not in lab.marks
        return CheckOutcome(is_new, "array-is-new" if is_new else "array-is-old", {"array": self.array})


class DiskCopied(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.copied"):
    """The one disk was read from end to end in this step, and the other written and in sync: a replacement.

    A rebuild in place of a disk that failed reads all the others instead.
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
    """A member gave a read error, and md wrote the data back to it: it counts these in dev-*/errors (md.rst)."""

    lasts = True

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        count = sum(member.error_count or 0 for member in status.members)
        return CheckOutcome(count > 0, "errors-mended", {"array": self.array, "count": count})


class ArrayWaited(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.waited"):
    """Requests to the array waited so many seconds altogether during this step, by its own counters."""

    lasts = True
    at_least_seconds: float

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        waited = lab.deep.waited_seconds.get(self.array, 0.0)
        facts = {"array": self.array, "seconds": f"{waited:.1f}"}
        return CheckOutcome(waited >= self.at_least_seconds, "array-has-waited", facts)


class FileSystemFills(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="file_system.fills"):
    """The ext4 file system on the array takes up so much of it."""

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
    """A file on the machine has these words in a line: what a program has noted there since the array was created."""

    lasts = True
    path: str
    words: str

    def look(self, lab: CheckedState) -> CheckOutcome:
        is_there = any(self.words in line for line in lab.deep.texts.get(self.path, "").splitlines())
        return CheckOutcome(is_there, "file-says" if is_there else "file-says-not", self.facts)


class DeepSource(Source, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number that lies on the disks."""

    needs_lab = True


class MemberEvents(DeepSource, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="member.events"):
    """The event count in a disk's superblock; with ``behind`` how many fewer than the highest of its array."""

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
    """What the last scrub of the array counted (md/mismatch_cnt), in sectors."""

    array: str = "md0"

    def value(self, lab: CheckedState) -> float | None:
        status = lab.arrays.get(self.array)
        return None if status is None or status.mismatch_sectors is None else float(status.mismatch_sectors)


DEEP_CHECKS = (ArrayStopped, MemberCheck, ArrayForeign, DiskCopied, ArrayWaited, FileSystemFills, FileSays)
"""What needs more than the ordinary look at arrays and disks."""


def events_behind(superblock: Superblock, lab: CheckedState) -> int:
    """How many events this superblock has fewer than the one with most of the same array."""
    all_events = [each.events for each in lab.deep.superblocks.values() if each.array_uuid == superblock.array_uuid]
    return max(all_events) - superblock.events
