"""Checks and readings of arrays, their disks and blocks, and known data.

All values are those of the current state of the array, never the arguments with which it was created. Superblocks,
counters, file systems and files that programs wrote need additional commands, so they are gathered only for lessons
with a check that ``needs_disks`` or a reading that is a ``DeepSource`` (``lab.lessons.student``).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

import msgspec

from lab.arrays.discovery import Superblock
from lab.arrays.geometry import ArrayGeometry
from lab.arrays.levels import LevelName, layout_name
from lab.arrays.status import ArrayStatus, MemberStatus
from lab.checks.readings import LikelyMistake, Source
from lab.checks.state import Check, CheckedState, CheckOutcome, Facts
from lab.gates.decoding import parse_bytes
from lab.host.clock import moment
from lab.microscope.array_map import BLOCK_SECTORS
from lab.session.monitor import EventKind
from lab.units import SECTOR_BYTES, human_bytes


class ArrayCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on one running array."""

    array: str = "md0"

    def look(self, lab: CheckedState) -> CheckOutcome:
        status = lab.arrays.get(self.array)
        if status is None:
            return CheckOutcome(False, "array-missing", {"array": self.array})
        return self.judge(status, lab)

    @abstractmethod
    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        """Return the outcome for an array that exists."""


class ArrayExists(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.exists"):
    """The array is running."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        return CheckOutcome(
            status.state.is_running, "array-is-state", {"array": self.array, "state": status.state.value}
        )


class ArrayLevel(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.level"):
    """The array has this level, such as ``raid5``."""

    level: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        return CheckOutcome(status.level == self.level, "array-is-level", {"array": self.array, "level": status.level})


class ArrayStateIs(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.state"):
    """The state of the array (md/array_state) is one of these."""

    is_one_of: tuple[str, ...]

    @property
    def facts(self) -> Facts:
        return {"array": self.array, "states": ", ".join(self.is_one_of)}

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = status.state.value
        return CheckOutcome(found in self.is_one_of, "array-is-state", {"array": self.array, "state": found})


class ArrayHealthy(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.healthy"):
    """All members are present and in sync, and no resync, rebuild, scrub or reshape is running or pending."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        if status.is_degraded:
            return _degraded(status)
        if _owes_sync(status):
            return CheckOutcome(False, "array-syncs", {"array": self.array, "action": status.sync_action.value})
        return CheckOutcome(
            not status.state.is_broken, "array-is-state", {"array": self.array, "state": status.state.value}
        )


class ArrayDegraded(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.degraded"):
    """The array has this number of missing members (md/degraded)."""

    equals: int

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = _degraded(status)
        return CheckOutcome(status.degraded_count == self.equals, found.said, found.facts)


class ArrayMembers(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.members"):
    """The array has this number of slots (md/raid_disks)."""

    equals: int

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = status.raid_disks
        return CheckOutcome(found == self.equals, "array-has-members", {"array": self.array, "members": found})


class ArrayDisks(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.disks"):
    """The members of the array are these disks, written ``disk01,disk02``, in any order; faulty members count."""

    disks: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        names = {node: name for name, node in lab.nodes.items()}
        found = {names.get(member.device, member.device) for member in status.members}
        facts = {"array": self.array, "disks": ", ".join(sorted(found))}
        return CheckOutcome(found == set(self.disks.split(",")), "array-has-disks", facts)


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
        facts = {"array": self.array, "chunk": found}
        return CheckOutcome(status.chunk_bytes == parse_bytes(self.equals), "array-has-chunk", facts)


class ArrayLayout(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.layout"):
    """The array has this layout, such as ``left-symmetric`` or ``n2``."""

    layout: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = None
        if status.layout_number is not None and status.level in tuple(LevelName):
            found = layout_name(LevelName(status.level), status.layout_number)
        return CheckOutcome(found == self.layout, "array-has-layout", {"array": self.array, "layout": found or "–"})


class ArrayBitmap(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.bitmap"):
    """The array has a write-intent bitmap, or none with ``present = false``."""

    present: bool = True

    @property
    def wanted(self) -> str:
        return self.name if self.present else "array.no-bitmap"

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        said = "array-has-bitmap" if status.has_bitmap else "array-has-no-bitmap"
        return CheckOutcome(status.has_bitmap is self.present, said, {"array": self.array})


class ArraySpares(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.spares"):
    """The array has this number of spares."""

    equals: int

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        found = len(status.spares)
        return CheckOutcome(found == self.equals, "array-has-spares", {"array": self.array, "spares": found})


class ArrayLost(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.lost"):
    """The array lost more members than its level tolerates: its state is ``broken``, or md/degraded is too high."""

    parity_members: int = 0
    """Members that a parity level can lose: such a level never has the state ``broken`` (md.rst). 0: only the state
    counts.
    """

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        if status.state.is_broken:
            return CheckOutcome(True, "array-is-state", {"array": self.array, "state": status.state.value})
        found = _degraded(status)
        return CheckOutcome(0 < self.parity_members < status.degraded_count, found.said, found.facts)


class DiskInArray(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.in_array"):
    """The disk is an active member of the array: it has a slot and is in sync."""

    disk: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        state = _state(lab.member(self.array, self.disk))
        return CheckOutcome(state == "in sync", "disk-is", {"array": self.array, "disk": self.disk, "state": state})


class DiskOut(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.out_of_array"):
    """The array runs without this disk: the disk is faulty, or not a member.

    On the embedded kernel a faulty disk is no longer a member at the next command, because md omits it when the array
    is assembled again.
    """

    disk: str

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        state = _state(lab.member(self.array, self.disk))
        facts = {"array": self.array, "disk": self.disk, "state": state}
        return CheckOutcome(state in ("faulty", "not a member"), "disk-is", facts)


class DiskRebuilt(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.rebuilt"):
    """The disk was rebuilt during this step, and the writes to it are in this range, in percent of component_size.

    The write counter of the disk distinguishes a full rebuild from a recovery with a bitmap.
    """

    lasts = True
    disk: str
    at_least_percent: float = 0.0
    at_most_percent: float = 1000.0

    @property
    def wanted(self) -> str:
        return f"{self.name}.at-least" if self.at_least_percent else f"{self.name}.at-most"

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        came = {(kind.value, self.array, self.disk) for kind in (EventKind.MEMBER_ADDED, EventKind.MEMBER_IN_SYNC)}
        member = lab.member(self.array, self.disk)
        if not came & lab.events or not member or not member.is_in_sync or not status.component_bytes:
            return CheckOutcome(False, "disk-not-rebuilt", self.facts)
        percent = 100 * lab.written_bytes.get(self.disk, 0) / status.component_bytes
        is_passed = self.at_least_percent <= percent <= self.at_most_percent
        return CheckOutcome(is_passed, "disk-was-written", {**self.facts, "percent": f"{percent:.0f}"})


class SyncFinished(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="sync.finished"):
    """No resync, rebuild, scrub or reshape is running or pending."""

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        if _owes_sync(status):
            return CheckOutcome(False, "array-syncs", {"array": self.array, "action": status.sync_action.value})
        return CheckOutcome(True, "array-idle", {"array": self.array})


class ScrubFound(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="scrub.found"):
    """The last scrub of the array counted mismatches (md/mismatch_cnt)."""

    lasts = True

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        if status.sync_action.is_busy:
            return CheckOutcome(False, "array-syncs", {"array": self.array, "action": status.sync_action.value})
        found = status.mismatch_sectors or 0
        return CheckOutcome(found > 0, "scrub-counted", {"array": self.array, "sectors": found})


class MarkWritten(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mark.written"):
    """The array holds known data."""

    array: str = "md0"

    def look(self, lab: CheckedState) -> CheckOutcome:
        is_there = self.array in lab.marks
        return CheckOutcome(is_there, "mark-there" if is_there else "mark-missing", {"array": self.array})


class MarkVerdictIs(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="mark.verdict"):
    """The known data were verified during this step, with this verdict: intact, changed or unreadable."""

    lasts = True
    array: str = "md0"
    verdict: str

    @property
    def wanted(self) -> str:
        return f"{self.name}.{self.verdict}"

    def look(self, lab: CheckedState) -> CheckOutcome:
        mark = lab.marks.get(self.array)
        if mark is None:
            return CheckOutcome(False, "mark-missing", {"array": self.array})
        if mark.verdict is None or moment(mark.checked_utc) < moment(lab.step_began_utc):
            return CheckOutcome(False, "mark-unchecked", {"array": self.array})
        return CheckOutcome(mark.verdict == self.verdict, f"mark-{mark.verdict}", {"array": self.array})


class EventSeen(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="event.seen"):
    """This event occurred on the array, and on ``disk`` if it is given, during this step (lab/session/monitor.py)."""

    lasts = True
    event: EventKind
    array: str = "md0"
    disk: str = ""

    def look(self, lab: CheckedState) -> CheckOutcome:
        seen = any(
            kind == self.event and array == self.array and self.disk in ("", disk) for kind, array, disk in lab.events
        )
        return CheckOutcome(seen, "event-seen" if seen else "event-missing", self.facts)


def _state(member: MemberStatus | None) -> str:
    if member is None:
        return "not a member"
    if member.is_faulty:
        return "faulty"
    if member.is_rebuilding:
        return "rebuilding"
    return "spare" if member.is_spare else "in sync" if member.is_in_sync else ", ".join(sorted(member.flags))


def _owes_sync(status: ArrayStatus) -> bool:
    is_busy = status.sync_action.is_busy or status.sync_progress is not None
    # A frozen reshape is idle but incomplete.
    is_busy = is_busy or status.reshape_position_sectors is not None
    return is_busy or status.awaits_rebuild or status.awaits_resync


def _degraded(status: ArrayStatus) -> CheckOutcome:
    facts: Facts = {"array": status.name, "degraded": status.degraded_count, "members": status.raid_disks}
    return CheckOutcome(False, "array-is-degraded" if status.is_degraded else "array-is-complete", facts)


_SHARE_READ = 0.8
"""Minimum share of the component size that must be read or written for a copy of the whole disk."""


class ArrayStopped(Check, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="array.stopped"):
    """The array exists on the disks, and is not running."""

    needs_disks = True
    array: str = "md0"

    def look(self, lab: CheckedState) -> CheckOutcome:
        status = lab.arrays.get(self.array)
        if status is not None:
            return CheckOutcome(False, "array-is-state", {"array": self.array, "state": status.state.value})
        is_there = self.array in lab.deep.resting
        return CheckOutcome(is_there, "array-rests" if is_there else "array-missing", {"array": self.array})


class MemberCheck(Check, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A check on the superblock of one disk."""

    needs_disks = True
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

    needs_disks = True

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        is_new = self.array in lab.deep.marked_before and self.array not in lab.marks
        return CheckOutcome(is_new, "array-is-new" if is_new else "array-is-old", {"array": self.array})


class DiskCopied(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="disk.copied"):
    """During this step ``source`` was read and ``target`` was written from end to end, and ``target`` is in sync.

    This is a replacement (``mdadm --replace``). A rebuild after a failure reads all other members instead.
    """

    needs_disks = True
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

    needs_disks = True
    lasts = True
    at_least_seconds: float

    def judge(self, status: ArrayStatus, lab: CheckedState) -> CheckOutcome:
        waited = lab.deep.waited_seconds.get(self.array, 0.0)
        facts = {"array": self.array, "seconds": f"{waited:.1f}"}
        return CheckOutcome(waited >= self.at_least_seconds, "array-has-waited", facts)


class FileSystemFills(ArrayCheck, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="file_system.fills"):
    """The size of the ext4 file system is in this range, in percent of the size of the array."""

    needs_disks = True
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

    needs_disks = True
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


def events_behind(superblock: Superblock, lab: CheckedState) -> int:
    """The difference between the highest event count of the same array and this one."""
    all_events = [each.events for each in lab.deep.superblocks.values() if each.array_uuid == superblock.array_uuid]
    return max(all_events) - superblock.events


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
