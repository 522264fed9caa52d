"""The checks and readings of lessons and drills: on arrays, on the final state of a drill, and on fault scenarios.

All values describe the current state of the array, never the arguments with which it was created. Superblocks,
counters, file systems, and files that programs wrote can be read only with additional commands. These data are
therefore gathered only for lessons with a check or a reading whose ``needs_disks`` is true (``lab.lessons.student``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from itertools import takewhile
from typing import Annotated, Any, ClassVar, Literal

import msgspec

from lab.arrays.discovery import Superblock
from lab.arrays.geometry import ArrayGeometry
from lab.arrays.status import ArrayStatus, MemberStatus
from lab.checks import readings
from lab.checks.extension import LessonReading
from lab.checks.readings import ArraySource, LikelyMistake, Source
from lab.checks.state import Check, CheckedState, CheckOutcome, DrillEnd, Facts, MemberPicture, PlayedFault
from lab.faults.crash_points import PointJudgement, StoredPoints, find_configuration, stored_points
from lab.faults.scenario import FactCheck, find_scenario
from lab.faults.scenario_run import FaultVerdict, load_run, stored_runs
from lab.gates.decoding import PointCount, Seed, digits, parse_bytes
from lab.host.clock import moment
from lab.machine import Host
from lab.microscope.array_map import BLOCK_SECTORS
from lab.plugins import extensions
from lab.session.monitor import EventKind
from lab.tomlfile import kinds_by_tag, make_tagged
from lab.units import SECTOR_BYTES, human_bytes


class ArrayCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on one running array."""

    array: str = "md0"

    def evaluate(self, lab: CheckedState) -> CheckOutcome:
        status = lab.arrays.get(self.array)
        if status is None:
            return CheckOutcome(False, "array-missing", {"array": self.array})
        return self.judge(status, lab)

    @abstractmethod
    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        """Return the outcome for an array that exists."""

    def outcome(self, is_passed: bool, key: str, **facts: str | float) -> CheckOutcome:
        return CheckOutcome(is_passed, key, {"array": self.array, **facts})


class ArrayExists(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.exists"):
    """The array is running."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        return self.outcome(status.state.is_running, "array-is-state", state=status.state.value)


class ArrayLevel(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.level"):
    """The array has this level, such as ``raid5``."""

    level: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        return self.outcome(status.level == self.level, "array-is-level", level=status.level)


class ArrayStateIs(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.state"):
    """The state of the array (md/array_state) is one of these."""

    is_one_of: tuple[str, ...]

    @property
    def facts(self) -> Facts:
        return {"array": self.array, "states": ", ".join(self.is_one_of)}

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = status.state.value
        return self.outcome(found in self.is_one_of, "array-is-state", state=found)


class ArrayHealthy(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.healthy"):
    """All members are present and in sync, and no resync, rebuild, scrub or reshape is running or pending."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        if status.is_degraded:
            return _degraded(status)
        if _owes_sync(status):
            return self.outcome(False, "array-syncs", action=status.sync_action.value)
        return self.outcome(not status.state.is_broken, "array-is-state", state=status.state.value)


class ArrayDegraded(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.degraded"):
    """The array has this number of missing members (md/degraded)."""

    equals: int

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = _degraded(status)
        return CheckOutcome(status.degraded_count == self.equals, found.key, found.facts)


class ArrayMembers(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.members"):
    """The array has this number of slots (md/raid_disks)."""

    equals: int

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = status.raid_disks
        return self.outcome(found == self.equals, "array-has-members", members=found)


class ArrayDisks(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.disks"):
    """The members of the array, including spares and faulty ones, are these disks in any order (``disk01,disk02``)."""

    disks: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        names = {node: name for name, node in lab.nodes.items()}
        found = {names.get(member.device, member.device) for member in status.members}
        return self.outcome(found == set(self.disks.split(",")), "array-has-disks", disks=", ".join(sorted(found)))


class ArrayChunk(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.chunk"):
    """The array has this chunk size, written ``64K``."""

    equals: str

    def __post_init__(self) -> None:
        parse_bytes(self.equals, what="equals")

    @property
    def facts(self) -> Facts:
        return {"array": self.array, "chunk": human_bytes(parse_bytes(self.equals))}

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = human_bytes(status.chunk_bytes) if status.chunk_bytes else "–"
        return self.outcome(status.chunk_bytes == parse_bytes(self.equals), "array-has-chunk", chunk=found)


class ArrayLayout(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.layout"):
    """The array has this layout, such as ``left-symmetric`` or ``n2``."""

    layout: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        return self.outcome(status.layout == self.layout, "array-has-layout", layout=status.layout or "–")


class ArrayBitmap(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.bitmap"):
    """The array has a write-intent bitmap. With ``present = false``, it has none."""

    present: bool = True

    @property
    def requirement_key(self) -> str:
        return self.name if self.present else "array.no-bitmap"

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        key = "array-has-bitmap" if status.has_bitmap else "array-has-no-bitmap"
        return self.outcome(status.has_bitmap is self.present, key)


class ArrayPolicy(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.policy"):
    """The array has this consistency policy: ``resync``, ``bitmap``, ``ppl`` or ``journal``."""

    policy: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = status.consistency_policy
        return self.outcome(found == self.policy, "array-has-policy", policy=found)


class ArraySpares(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.spares"):
    """The array has this number of spares."""

    equals: int

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = len(status.spares)
        return self.outcome(found == self.equals, "array-has-spares", spares=found)


class ArrayLost(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.lost"):
    """The array has lost more members than its level tolerates, so it is ``broken`` or md/degraded is too high."""

    parity_members: int = 0
    """Number of members that an array of this parity level can lose, or 0 if only the state counts. The state alone is
    not enough, because md reports ``broken`` only instead of ``clean`` (array_state_show in md.c).
    """

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        if status.state.is_broken:
            return self.outcome(True, "array-is-state", state=status.state.value)
        found = _degraded(status)
        return CheckOutcome(0 < self.parity_members < status.degraded_count, found.key, found.facts)


class DiskCheck(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on the state of one disk in the array."""

    states: ClassVar[tuple[str, ...]]
    disk: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        state = _state(lab.member(self.array, self.disk))
        return self.outcome(state in self.states, "disk-is", disk=self.disk, state=state)


class DiskInArray(DiskCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.in_array"):
    """The disk is an active member of the array, which means that it has a slot and is in sync."""

    states = ("in sync",)


class DiskOut(DiskCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.out_of_array"):
    """The array runs without this disk, which is faulty or not a member.

    On the embedded kernel, every command assembles the array again, without faulty disks. So a faulty disk is no longer
    a member when the next command runs.
    """

    states = ("faulty", "not a member")


class DiskRebuilt(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.rebuilt"):
    """The disk was rebuilt during this step, and the amount written, in percent of component_size, is in this range.

    The write counter of the disk distinguishes a full rebuild from a recovery with a bitmap.
    """

    lasts = True
    disk: str
    at_least_percent: float = 0.0
    at_most_percent: float = 1000.0

    @property
    def requirement_key(self) -> str:
        return f"{self.name}.at-least" if self.at_least_percent else f"{self.name}.at-most"

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        came = {(kind.value, self.array, self.disk) for kind in (EventKind.MEMBER_ADDED, EventKind.MEMBER_IN_SYNC)}
        member = lab.member(self.array, self.disk)
        if not came & lab.events or not member or not member.is_in_sync or not status.component_bytes:
            return CheckOutcome(False, "disk-not-rebuilt", self.facts)
        percent = 100 * lab.written_bytes.get(self.disk, 0) / status.component_bytes
        is_passed = self.at_least_percent <= percent <= self.at_most_percent
        return CheckOutcome(is_passed, "disk-was-written", {**self.facts, "percent": f"{percent:.0f}"})


class DiskBadBlocks(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.bad_blocks"):
    """The bad-block list of the disk has entries. With ``present = false``, it has none."""

    disk: str
    present: bool = True

    @property
    def requirement_key(self) -> str:
        return self.name if self.present else "disk.no-bad_blocks"

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        member = lab.member(self.array, self.disk)
        if member is None:
            return self.outcome(False, "disk-is", disk=self.disk, state=_state(member))
        listed = bool(member.bad_blocks)
        key = "disk-has-bad-blocks" if listed else "disk-has-no-bad-blocks"
        return self.outcome(listed is self.present, key, disk=self.disk, kib=f"{_bad_bytes(member) / 1024:g}")


class SyncFinished(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sync.finished"):
    """No resync, rebuild, scrub or reshape is running or pending."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        if _owes_sync(status):
            return self.outcome(False, "array-syncs", action=status.sync_action.value)
        return self.outcome(True, "array-idle")


class ScrubFound(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="scrub.found"):
    """The last scrub of the array counted mismatches (md/mismatch_cnt)."""

    lasts = True

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        if status.sync_action.is_busy:
            return self.outcome(False, "array-syncs", action=status.sync_action.value)
        found = status.mismatch_sectors or 0
        return self.outcome(found > 0, "scrub-counted", sectors=found)


class MarkWritten(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mark.written"):
    """The array holds known data."""

    array: str = "md0"

    def evaluate(self, lab: CheckedState) -> CheckOutcome:
        is_there = self.array in lab.marks
        return CheckOutcome(is_there, "mark-there" if is_there else "mark-missing", {"array": self.array})


class MarkVerdictIs(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mark.verdict"):
    """The known data were verified during this step, and the verdict was ``intact``, ``changed`` or ``unreadable``."""

    lasts = True
    array: str = "md0"
    verdict: str

    @property
    def requirement_key(self) -> str:
        return f"{self.name}.{self.verdict}"

    def evaluate(self, lab: CheckedState) -> CheckOutcome:
        facts = {"array": self.array}
        if self.array not in lab.marks:
            return CheckOutcome(False, "mark-missing", facts)
        last = lab.marks[self.array]
        if last is None or moment(last.checked_utc) < moment(lab.step_began_utc):
            return CheckOutcome(False, "mark-unchecked", facts)
        return CheckOutcome(last.verdict.value == self.verdict, f"mark-{last.verdict.value}", facts)


class EventSeen(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="event.seen"):
    """During this step, this event (lab/session/monitor.py) occurred on the array, and on ``disk`` if that is given."""

    lasts = True
    event: EventKind
    array: str = "md0"
    disk: str = ""

    def evaluate(self, lab: CheckedState) -> CheckOutcome:
        seen = any(
            kind == self.event and array == self.array and self.disk in ("", disk) for kind, array, disk in lab.events
        )
        return CheckOutcome(seen, "event-seen" if seen else "event-missing", self.facts)


def _state(member: MemberStatus | None) -> str:
    return member.role if member else "not a member"


def _bad_bytes(member: MemberStatus) -> int:
    return sum(length for _, length in member.bad_blocks) * SECTOR_BYTES


def _owes_sync(status: ArrayStatus) -> bool:
    # A frozen reshape is idle but incomplete.
    is_incomplete = status.sync_progress is not None or status.reshape_position_sectors is not None
    return status.owes_sync or is_incomplete


def _degraded(status: ArrayStatus) -> CheckOutcome:
    facts: Facts = {"array": status.name, "degraded": status.degraded_count, "members": status.raid_disks}
    return CheckOutcome(False, "array-is-degraded" if status.is_degraded else "array-is-complete", facts)


_SHARE_READ = 0.8
"""A disk counts as copied if at least this share of the component size was read from it and written to the target."""


class ArrayStopped(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.stopped"):
    """The array exists on the disks, but is not running."""

    needs_disks = True
    array: str = "md0"

    def evaluate(self, lab: CheckedState) -> CheckOutcome:
        status = lab.arrays.get(self.array)
        if status is not None:
            return CheckOutcome(False, "array-is-state", {"array": self.array, "state": status.state.value})
        is_there = self.array in lab.deep.resting
        return CheckOutcome(is_there, "array-rests" if is_there else "array-missing", {"array": self.array})


class MemberCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on the event count of one disk."""

    needs_disks = True
    disk: str

    def evaluate(self, lab: CheckedState) -> CheckOutcome:
        found = lab.deep.superblocks.get(self.disk)
        if found is None:
            return CheckOutcome(False, "superblock-missing", {"disk": self.disk})
        behind = _events_behind(found, lab)
        return CheckOutcome(self.accepts(behind), "events-behind", {"disk": self.disk, "behind": behind})

    @abstractmethod
    def accepts(self, behind: int) -> bool:
        """Whether the count may be this much lower than the highest in its array."""


class MemberStale(MemberCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="member.stale"):
    """The event count of the disk is at least this much lower than the highest in its array."""

    at_least: int = 1

    def accepts(self, behind: int) -> bool:
        return behind >= self.at_least


class MemberCurrent(MemberCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="member.current"):
    """The event count of the disk equals the highest in its array."""

    def accepts(self, behind: int) -> bool:
        return behind == 0


class ArrayOnOverlays(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.on_overlays"):
    """The array runs on mapped devices over the lab disks, and no member is itself a lab disk."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        disks = {node: name for name, node in lab.nodes.items()}
        found = sorted(disks[member.device] for member in status.members if member.device in disks)
        if found:
            return self.outcome(False, "array-has-disks", disks=", ".join(found))
        return self.outcome(bool(status.members), "array-on-overlays")


class ArrayForeign(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.made_anew"):
    """A running array has this name, but not the UUID of the array on which the known data were written."""

    needs_disks = True

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        is_new = self.array in lab.deep.marked_before and self.array not in lab.marks
        return self.outcome(is_new, "array-is-new" if is_new else "array-is-old")


class DiskCopied(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.copied"):
    """During this step, ``source`` was read and ``target`` was written from end to end, and ``target`` is in sync.

    This is what a replacement does (``mdadm --replace``). A rebuild after a failure reads all other members instead.
    """

    needs_disks = True
    lasts = True
    source: str
    target: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        member = lab.member(self.array, self.target)
        size = status.component_bytes
        if member is None or not member.is_in_sync or not size:
            return self.outcome(False, "disk-not-rebuilt", disk=self.target)
        read = lab.deep.read_bytes.get(self.source, 0) / size
        written = lab.written_bytes.get(self.target, 0) / size
        facts = {**self.facts, "read": f"{100 * read:.0f}", "written": f"{100 * written:.0f}"}
        return CheckOutcome(min(read, written) >= _SHARE_READ, "disk-was-copied", facts)


class ArrayMended(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.mended"):
    """md corrected a read error on a member by rewriting the data, as dev-*/errors shows (md.rst)."""

    lasts = True

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        count = sum(member.error_count or 0 for member in status.members)
        return self.outcome(count > 0, "errors-mended", count=count)


class ArrayWaited(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.waited"):
    """According to the array's counters, requests to it took at least this long in total during this step."""

    needs_disks = True
    lasts = True
    at_least_seconds: float

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        waited = lab.deep.waited_seconds.get(self.array, 0.0)
        return self.outcome(waited >= self.at_least_seconds, "array-has-waited", seconds=f"{waited:.1f}")


class FileSystemFills(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="file_system.fills"):
    """The size of the ext4 file system, in percent of the size of the array, is in this range."""

    needs_disks = True
    at_least_percent: float = 0.0
    at_most_percent: float = 100.0

    @property
    def requirement_key(self) -> str:
        return f"{self.name}.at-least" if self.at_least_percent else f"{self.name}.at-most"

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        size = lab.deep.file_system_bytes.get(self.array)
        if size is None or not status.size_bytes:
            return self.outcome(False, "file-system-missing")
        percent = 100 * size / status.size_bytes
        is_passed = self.at_least_percent <= percent <= self.at_most_percent
        return self.outcome(is_passed, "file-system-fills", percent=f"{percent:.0f}")


class FileSays(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="file.says"):
    """A line of this file on the machine contains this text, and the file is newer than the newest array."""

    needs_disks = True
    lasts = True
    path: str
    words: str

    def evaluate(self, lab: CheckedState) -> CheckOutcome:
        is_there = any(self.words in line for line in lab.deep.texts.get(self.path, "").splitlines())
        return CheckOutcome(is_there, "file-says" if is_there else "file-says-not", self.facts)


class MemberEvents(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="member.events"):
    """The event count in a disk's superblock or, with ``behind``, how far it is below the highest in its array."""

    needs_lab = needs_disks = True
    disk: str
    behind: bool = False

    def value(self, lab: CheckedState) -> float | None:
        found = lab.deep.superblocks.get(self.disk)
        if found is None:
            return None
        return _events_behind(found, lab) if self.behind else found.events


class DiskMinor(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.minor"):
    """The minor number of a disk's device, as mdadm --detail shows it."""

    needs_lab = needs_disks = True
    disk: str

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        for disk, minor in lab.deep.minors.items():
            if disk != self.disk:
                yield LikelyMistake(minor, "reading-other-row", {"row": disk})

    def value(self, lab: CheckedState) -> float | None:
        return lab.deep.minors.get(self.disk)


class Mismatches(ArraySource, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="scrub.mismatches"):
    """The mismatch count of the last scrub of the array (md/mismatch_cnt), in sectors."""

    def value(self, lab: CheckedState) -> float | None:
        status = lab.arrays.get(self.array)
        return status.mismatch_sectors if status else None


def _events_behind(superblock: Superblock, lab: CheckedState) -> int:
    """Return how far the event count of this superblock is below the highest in the same array."""
    all_events = [each.events for each in lab.deep.superblocks.values() if each.array_uuid == superblock.array_uuid]
    return max(all_events) - superblock.events


class PlaceWord(StrEnum):
    """A property of a block that a reading can ask for."""

    STRIPE = "stripe"
    DISK = "disk"
    SECTOR = "sector"
    PARITY_DISK = "parity-disk"


class BlockPlace(ArraySource, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="block.place"):
    """The stripe, disk number (3 for disk03) or sector of a 4 KiB block in a parity array, or its parity disk."""

    block: Annotated[int, msgspec.Meta(ge=0)]
    what: PlaceWord

    def value(self, lab: CheckedState) -> float | None:
        status, geometry = lab.arrays.get(self.array), _geometry(lab, self.array)
        sector = self.block * BLOCK_SECTORS
        if status is None or geometry is None or sector >= geometry.size_sectors:
            return None
        if self.what is PlaceWord.STRIPE:
            return geometry.stripe_of(sector)
        is_parity = self.what is PlaceWord.PARITY_DISK
        place = (geometry.parities(sector) if is_parity else geometry.places(sector))[0]
        member = next((each for each in status.members if each.slot == place.slot), None)
        if member is None or member.data_offset_sectors is None:
            return None
        if self.what is PlaceWord.SECTOR:
            return member.data_offset_sectors + place.sector
        name = next((name for name, node in lab.nodes.items() if node == member.device), "")
        return digits(name.removeprefix("disk"))


class BadSector(ArraySource, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="bad.block"):
    """The 4 KiB block of the array at the first sector of a member's bad-block list, if that sector holds data."""

    disk: str

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        member = lab.member(self.array, self.disk)
        if member is not None and member.bad_blocks:
            yield LikelyMistake(member.bad_blocks[0][0], "reading-list-sector", {"disk": self.disk})

    def value(self, lab: CheckedState) -> float | None:
        member, geometry = lab.member(self.array, self.disk), _geometry(lab, self.array)
        if geometry is None or member is None or member.slot is None or not member.bad_blocks:
            return None
        found = geometry.content(member.slot, member.bad_blocks[0][0] - (member.data_offset_sectors or 0))
        return found.sectors[0] // BLOCK_SECTORS if found and not found.kind.is_parity else None


class BadSectors(ArraySource, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="bad.bytes"):
    """The total size of the bad-block lists of all members of an array."""

    def value(self, lab: CheckedState) -> float | None:
        status = lab.arrays.get(self.array)
        return sum(_bad_bytes(member) for member in status.members) if status else None


class MarkLost(ArraySource, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mark.first_unreadable"):
    """The offset, in the array or in the file on it, of the first byte that the last verify could not read."""

    def value(self, lab: CheckedState) -> float | None:
        mark = lab.marks.get(self.array)
        return mark.unreadable[0][0] if mark and mark.unreadable else None


class MemberOffset(ArraySource, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="member.offset"):
    """The sector of a member's device at which its data area begins (the data offset)."""

    disk: str

    def value(self, lab: CheckedState) -> float | None:
        member = lab.member(self.array, self.disk)
        return member.data_offset_sectors if member else None


def _geometry(lab: CheckedState, array: str) -> ArrayGeometry | None:
    """Return the geometry of a parity array that is not being reshaped, or None for any other array."""
    status = lab.arrays.get(array)
    if status is None or not status.has_parity or status.reshape_position_sectors is not None:
        return None
    return status.geometry if status.chunk_bytes and status.component_bytes else None


class DrillCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on the final state of a drill. Lessons cannot use such checks."""

    in_lessons = False

    def evaluate(self, lab: CheckedState) -> CheckOutcome:
        return CheckOutcome(lab.drill is not None and self.holds(lab.drill), self.name)

    @abstractmethod
    def holds(self, seen: DrillEnd) -> bool:
        """Whether the check holds."""


class SuperblockIs(StrEnum):
    """What has happened to a superblock since the drill began."""

    SAME = "same"
    """It belongs to the same array."""
    UNTOUCHED = "untouched"
    WRITTEN = "written"
    """It belongs to the same array and member, and was written because the array ran with the disk, or because the disk
    was re-added or its assembly was forced.
    """
    NEW = "new"
    """It belongs to the same array, which accepted the disk as a new member and rebuilt the disk in full."""
    USED = "used"
    """It is ``written`` or ``new``."""
    OTHER = "other"
    """It belongs to another array, which was created during the drill."""
    COPY = "copy"
    """It is the superblock that another disk had when the drill began."""
    GONE = "gone"


class SuperblockBecame(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="superblock"):
    """The superblocks of at least ``at_least`` of these disks (by default, those with the data) are in this state."""

    became: SuperblockIs
    disks: str = ""
    """The disks, such as ``disk01,disk02``; by default, those of the array that had the data when the drill began."""
    at_least: int = 1

    def holds(self, seen: DrillEnd) -> bool:
        names = self.disks.split(",") if self.disks else [*seen.data_members]
        known = {picture.device_uuid for picture in seen.before.values() if picture.has_superblock}
        pairs = [(seen.before[name], seen.after[name]) for name in names if name in seen.before]
        # Two disks may have had the same superblock when the drill began. Only a copy that was made later counts.
        found = [
            _became(before, after, after.device_uuid != before.device_uuid and after.device_uuid in known)
            for before, after in pairs
        ]
        return sum(self.became in each for each in found) >= self.at_least


def _became(before: MemberPicture, after: MemberPicture, is_copy: bool) -> frozenset[SuperblockIs]:
    """Return all states that apply to the superblock of one disk."""
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
    """The superblocks of all these disks have this value. With ``is_so = false``, at least one has a different value.

    ``is_so = false`` ignores disks without a superblock. For the key ``role`` it also ignores disks without a slot,
    because it does not matter when a spare gets its slot.
    """

    disks: str
    """Written ``disk01,disk02``."""
    key: Literal["name", "level", "devices", "role", "data_offset_sectors", "chunk", "layout", "bad_blocks"]
    value: str | int
    """The value that ``mdadm --examine`` shows, or one value for each disk, separated by commas."""
    is_so: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        names, values = self.disks.split(","), str(self.value).split(",")
        expected = dict(zip(names, values if len(values) > 1 else values * len(names), strict=True))
        there = {name: seen.after[name] for name in names if seen.after[name].has_superblock}
        if not self.is_so and self.key == "role":
            there = {name: picture for name, picture in there.items() if picture.role.startswith("Active device")}
        right = [name for name, picture in there.items() if str(getattr(picture, self.key)) == expected[name]]
        return len(right) == len(names) if self.is_so else len(right) < len(there)


class Rewritten(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rewritten"):
    """At least this number of bytes in the data area of the disk have changed. With ``is_so = false``, fewer have."""

    disk: str
    at_least_bytes: int = 1
    is_so: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        picture = seen.before.get(self.disk)
        first = picture.data_offset_sectors * SECTOR_BYTES if picture else 0
        spans = seen.changed.get(self.disk, ())
        return (sum(max(0, end - max(start, first)) for start, end in spans) >= self.at_least_bytes) is self.is_so


class Damaged(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="damaged"):
    """Data or parity blocks that were correct when the drill began are wrong now. With ``is_so = false``, none are.

    Only blocks of files and of file system metadata count. A block of zeros is correct only in its original place.
    """

    what: Literal["data", "parity", "any"] = "any"
    is_so: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        counts = {"data": seen.damaged_data, "parity": seen.damaged_parity}
        return (counts.get(self.what, sum(counts.values())) > 0) is self.is_so


class InArray(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="in_array"):
    """One of these disks (``disk01,disk02``) is in sync in the array with the data. With ``is_in = false``, none is."""

    disks: str
    is_in: bool = True

    def holds(self, seen: DrillEnd) -> bool:
        return seen.has_array and bool({*self.disks.split(",")} & {*seen.members}) is self.is_in


class Runs(DrillCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="runs"):
    """An array with the data is running. With ``is_there = false``, none is."""

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
    """The disks themselves were written to before the commit."""

    def holds(self, seen: DrillEnd) -> bool:
        return seen.touched_bytes > 0


class FaultCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on the last run of a fault scenario during this lesson."""

    needs_lab = False
    scenario: int
    seed: Seed = 1

    def __post_init__(self) -> None:
        find_scenario(str(self.scenario))

    def evaluate(self, lab: CheckedState) -> CheckOutcome:
        played = lab.played.get(str(self.scenario))
        return self.judge(played) if played else CheckOutcome(False, "fault-missing", self.facts)

    @abstractmethod
    def judge(self, played: PlayedFault) -> CheckOutcome:
        """Return the outcome for a scenario that was run."""


class FaultPlayed(FaultCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fault.played"):
    """The scenario was run during this lesson with this seed, and ended as expected, or with a known defect of md."""

    lasts = True

    def judge(self, played: PlayedFault) -> CheckOutcome:
        if played.seed != self.seed:
            return CheckOutcome(False, "fault-other-seed", {**self.facts, "found": played.seed})
        facts: Facts = {**self.facts, "verdict": played.outcome.verdict.value}
        # The student cannot change the kernel. If it has the defect, the step could not be completed otherwise.
        is_met = played.outcome.verdict in (FaultVerdict.AS_EXPECTED, FaultVerdict.KNOWN_DEFECT)
        return CheckOutcome(is_met, "fault-verdict", facts)


class FaultOtherSeed(FaultCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fault.other_seed"):
    """The last run of the scenario used a seed other than this one."""

    def judge(self, played: PlayedFault) -> CheckOutcome:
        facts: Facts = {**self.facts, "found": played.seed}
        return CheckOutcome(played.seed != self.seed, "fault-other-seed", facts)


class PointsTried(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="points.tried"):
    """At least ``at_least`` crash points were tried during this lesson with this seed, and none broke a promise."""

    needs_lab = False
    lasts = True
    configuration: str
    at_least: PointCount
    seed: Seed = 1

    def __post_init__(self) -> None:
        find_configuration(self.configuration)

    def evaluate(self, lab: CheckedState) -> CheckOutcome:
        found = lab.points.get(self.configuration)
        if found is None or found.seed != str(self.seed):
            return CheckOutcome(False, "points-missing", self.facts)
        broken = found.judgements.get(PointJudgement.BROKEN, 0)
        facts: Facts = {**self.facts, "points": found.points, "broken": broken}
        return CheckOutcome(found.is_whole and found.points >= self.at_least and not broken, "points-tried", facts)


class FaultFigure(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fault.figure"):
    """The first numeric value that a check of this variant of the scenario found for this fact."""

    is_of_result = True
    scenario: int
    variant: str
    fact: str

    def __post_init__(self) -> None:
        find_scenario(str(self.scenario))

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        played = lab.played.get(str(self.scenario))
        for variant in played.outcome.variants if played else ():
            if variant.name != self.variant:
                other = msgspec.structs.replace(self, variant=variant.name).value(lab)
                yield LikelyMistake(other, "reading-other-row", {"row": variant.name})
        for fact in dict.fromkeys(check.what for check in self._checks(lab)):
            if fact != self.fact:
                other = msgspec.structs.replace(self, fact=fact).value(lab)
                yield LikelyMistake(other, "reading-other-fact", {"fact": fact, "asked": self.fact})

    def value(self, lab: CheckedState) -> float | None:
        texts = (check.found for check in self._checks(lab) if check.what == self.fact)
        return next((float(text) for text in texts if text.replace(".", "", 1).isdecimal()), None)

    def _checks(self, lab: CheckedState) -> Iterator[FactCheck]:
        played = lab.played.get(str(self.scenario))
        variants = (each for each in (played.outcome.variants if played else ()) if each.name == self.variant)
        return (check for variant in variants for step in variant.steps for check in step.checks)


class FaultRatio(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="fault.ratio"):
    """The ratio of the same fact between two variants of a scenario."""

    is_of_result = True
    scenario: int
    fact: str
    of: str
    to: str

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        facts: Facts = {"of": self.of, "to": self.to}
        right = self.value(lab)
        yield LikelyMistake(1 / right if right else None, "reading-upside-down", facts)
        for alone in self._sides(lab):
            yield LikelyMistake(alone, "reading-not-divided", facts)

    def _sides(self, lab: CheckedState) -> list[float | None]:
        figures = (FaultFigure(scenario=self.scenario, variant=name, fact=self.fact) for name in (self.of, self.to))
        return [figure.value(lab) for figure in figures]

    def value(self, lab: CheckedState) -> float | None:
        above, below = self._sides(lab)
        return None if above is None or not below else above / below


class PointsFigure(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="points.figure"):
    """The number of crash points of a configuration with this judgement."""

    is_of_result = True
    configuration: str
    judgement: PointJudgement

    def __post_init__(self) -> None:
        find_configuration(self.configuration)

    def mistakes(self, lab: CheckedState) -> Iterator[LikelyMistake]:
        found = lab.points.get(self.configuration)
        for other, count in (found.judgements if found else {}).items():
            if other != self.judgement:
                yield LikelyMistake(count, "reading-other-row", {"row": str(other)})
        if found:
            yield LikelyMistake(sum(found.judgements.values()), "reading-all-of-them", {})

    def value(self, lab: CheckedState) -> float | None:
        found = lab.points.get(self.configuration)
        return found.judgements.get(self.judgement, 0) if found else None


def played_since(host: Host, began: datetime) -> Mapping[str, PlayedFault]:
    """Return the newest outcome of each scenario since ``began``, by scenario number."""
    found: dict[str, PlayedFault] = {}
    for run in takewhile(lambda run: moment(run.created_utc) >= began, stored_runs(host)):
        for outcome in load_run(host, run.id).outcomes:
            found.setdefault(str(outcome.number), PlayedFault(run.seed, outcome))
    return found


def points_since(host: Host, began: datetime) -> Mapping[str, StoredPoints]:
    """Return the newest crash points of each configuration since ``began``."""
    found: dict[str, StoredPoints] = {}
    for points in takewhile(lambda points: moment(points.created_utc) >= began, stored_points(host)):
        found.setdefault(points.configuration, points)
    return found


ALL_CHECKS: Mapping[str, type[Check]] = kinds_by_tag("that", vars(readings), globals())
CHECKS: Mapping[str, type[Check]] = {name: kind for name, kind in ALL_CHECKS.items() if kind.in_lessons}
SOURCES: Mapping[str, type[Source]] = {
    **kinds_by_tag("get", vars(readings), globals()),
    **{str(kind.__struct_config__.tag): kind for kind in (each.load() for each in extensions(LessonReading))},
}


def make_check(written: Mapping[str, Any], *, where: str, in_drill: bool = False) -> Check:
    """Create a check from its TOML table.

    Raises a SpecError that suggests the nearest name if the check or a key is unknown.
    """
    return make_tagged(written, ALL_CHECKS if in_drill else CHECKS, what="check", key="that", where=where)


def make_source(written: Mapping[str, Any], *, where: str) -> Source:
    """Create the source of a reading from its TOML table.

    Raises a SpecError that suggests the nearest name if the source or a key is unknown.
    """
    return make_tagged(written, SOURCES, what="source of a reading", key="get", where=where)
