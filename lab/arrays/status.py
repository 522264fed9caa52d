"""The status of an array, read once: values, and properties derived from them. ``lab.arrays.state`` reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from lab.arrays.geometry import ArrayGeometry, geometry_of
from lab.arrays.level_names import layout_name, level_with_layout
from lab.arrays.levels import Level, LevelName
from lab.arrays.names import array_device
from lab.arrays.preview import SliceRow
from lab.disks.kinds import LabDisk
from lab.errors import ArrayError, SpecError
from lab.units import KIB, SECTOR_BYTES, human_bytes


class ArrayState(StrEnum):
    """md/array_state."""

    CLEAR = "clear"
    INACTIVE = "inactive"
    SUSPENDED = "suspended"
    READONLY = "readonly"
    READ_AUTO = "read-auto"
    CLEAN = "clean"
    ACTIVE = "active"
    WRITE_PENDING = "write-pending"
    ACTIVE_IDLE = "active-idle"
    BROKEN = "broken"
    UNKNOWN = "unknown"

    @property
    def is_running(self) -> bool:
        """Whether the array is started; see ``is_broken`` for one that lost too many members."""
        return self not in (ArrayState.CLEAR, ArrayState.INACTIVE, ArrayState.UNKNOWN)

    @property
    def is_broken(self) -> bool:
        """Reported for raid0, raid1 and raid10; raid5 and raid6 only report a ``degraded`` count above their parity."""
        return self is ArrayState.BROKEN


class SyncAction(StrEnum):
    """md/sync_action; NONE where the level has no such file."""

    NONE = "none"
    IDLE = "idle"
    FROZEN = "frozen"
    RESYNC = "resync"
    RECOVER = "recover"
    CHECK = "check"
    REPAIR = "repair"
    RESHAPE = "reshape"
    UNKNOWN = "unknown"

    @property
    def is_busy(self) -> bool:
        return self not in (SyncAction.NONE, SyncAction.IDLE, SyncAction.FROZEN)

    @property
    def noun(self) -> str:
        """The common term: rebuild for md's recover."""
        return "rebuild" if self is SyncAction.RECOVER else self.value


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """md/sync_completed: sectors of each member, done and total."""

    done_sectors: int
    total_sectors: int

    @property
    def fraction(self) -> float:
        """0 to 1."""
        return self.done_sectors / self.total_sectors if self.total_sectors else 0.0


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member: ``flags`` are the words of dev-*/state."""

    device: str
    slot: int | None
    """None for a spare, a journal and a failed member."""
    flags: frozenset[str]
    error_count: int | None
    """Read errors that md repaired by rewriting."""
    data_offset_sectors: int | None
    data_size_kib: int | None
    bad_blocks: tuple[tuple[int, int], ...] = ()  # First sector of the device and length, as md lists them.

    @property
    def is_in_sync(self) -> bool:
        return "in_sync" in self.flags

    @property
    def is_faulty(self) -> bool:
        return "faulty" in self.flags

    @property
    def is_journal(self) -> bool:
        return "journal" in self.flags

    @property
    def is_rebuilding(self) -> bool:
        """In a slot, but not yet fully rebuilt."""
        return "spare" in self.flags and self.slot is not None and not self.is_faulty

    @property
    def is_spare(self) -> bool:
        """Waiting without a slot."""
        return "spare" in self.flags and self.slot is None and not self.is_faulty

    @property
    def role(self) -> str:
        """Its current role, in one or two words."""
        if self.is_faulty:
            return "faulty"
        if self.is_journal:
            return "journal"
        if self.is_rebuilding:
            return "rebuilding"
        return "spare" if self.is_spare else "in sync" if self.is_in_sync else ", ".join(sorted(self.flags))


@dataclass(frozen=True, slots=True)
class ArrayStatus:
    """The status of an array. None: the level does not have this file, or the file has no value at the moment.

    The properties here are those of md's own arrays; other kinds override them in a subclass.
    """

    unit: ClassVar[str] = "member"
    """The noun for one of its parts, for messages."""
    waits_words: ClassVar[str] = "waits to rebuild"
    """The words for a rebuild that is due but does not run."""
    cannot: ClassVar[frozenset[str]] = frozenset()
    """Operations that it does not support, by their method names in ``lab.arrays.array.Array``."""

    name: str
    level: str
    state: ArrayState
    raid_disks: int
    degraded_count: int
    """Number of slots without a working member."""
    size_bytes: int
    chunk_bytes: int | None
    layout_number: int | None
    component_size_kib: int | None
    metadata_version: str
    consistency_policy: str
    sync_action: SyncAction
    sync_progress: SyncProgress | None
    sync_speed_kib_per_second: int | None
    """An average of the last 30 s (md.rst): derive speeds from ``sync_progress`` instead."""
    mismatch_sectors: int | None
    """md counts whole I/O units, so this is the size of the affected units, not of the differences (md(4))."""
    bitmap_location: str | None
    reshape_position_sectors: int | None
    resync_start_sectors: int | None
    """Where a pending resync begins; None if all redundancy is consistent or being rebuilt."""
    members: tuple[MemberStatus, ...]
    holders: tuple[str, ...]
    uuid: str = ""
    """32 hexadecimal digits; empty on kernels before 5.8, which do not report it."""

    @property
    def device(self) -> str:
        return array_device(self.name)

    @property
    def component_bytes(self) -> int | None:
        """Bytes of each member that the array uses; None where members may differ (raid0)."""
        return None if self.component_size_kib is None else self.component_size_kib * KIB

    @property
    def is_degraded(self) -> bool:
        return self.degraded_count > 0

    @property
    def has_bitmap(self) -> bool:
        return self.bitmap_location is not None

    @property
    def in_sync_count(self) -> int:
        return sum(member.is_in_sync for member in self.members)

    @property
    def spares(self) -> tuple[MemberStatus, ...]:
        return tuple(member for member in self.members if member.is_spare)

    @property
    def awaits_rebuild(self) -> bool:
        """Whether a rebuild runs or is due: an empty slot and a device to fill it, or a requested replacement."""
        filler = any(member.is_spare or member.is_rebuilding for member in self.members)
        return filler and (self.is_degraded or any("want_replacement" in member.flags for member in self.members))

    @property
    def awaits_resync(self) -> bool:
        """Whether the redundancy is not yet consistent, whether or not a resync is running."""
        return self.resync_start_sectors is not None

    @property
    def owes_sync(self) -> bool:
        """Whether a sync runs or is due."""
        return self.sync_action.is_busy or self.awaits_rebuild or self.awaits_resync

    def member(self, device: str) -> MemberStatus:
        """The member on this device node. Raises ArrayError if there is none."""
        for member in self.members:
            if member.device == device:
                return member
        names = ", ".join(member.device for member in self.members)
        raise ArrayError(f"{device} is not a member of {self.name}", hint=f"its members are {names}")

    @property
    def kernel_name(self) -> str:
        """The name under which /proc/diskstats counts its I/O."""
        return self.name

    @property
    def inner(self) -> tuple[ArrayStatus, ...]:
        """The running md arrays that it consists of; none for one of md's own arrays."""
        return ()

    @property
    def inside(self) -> Inside | None:
        """Its composition if it consists of several arrays; otherwise None."""
        return None

    @property
    def raid(self) -> Level:
        """The arithmetic of its level and layout. Raises SpecError for a level that the lab does not know."""
        layout = None
        if self.level == LevelName.RAID10 and self.layout_number is not None:
            layout = layout_name(LevelName.RAID10, self.layout_number)
        return level_with_layout(self.level, layout)

    @property
    def geometry(self) -> ArrayGeometry:
        """Where it puts its data. Raises ArrayError for a level or layout that is not known."""
        sizes = {
            m.slot: m.data_size_kib * KIB // SECTOR_BYTES
            for m in self.members
            if m.slot is not None and m.data_size_kib
        }
        chunk, used = (self.chunk_bytes or 0) // SECTOR_BYTES, (self.component_bytes or 0) // SECTOR_BYTES
        return geometry_of(self.level, self.layout_number or 0, self.raid_disks, chunk, used, sizes)

    @property
    def known_raid(self) -> Level | None:
        """As ``raid``; None for a level that the lab does not know."""
        try:
            return self.raid
        except SpecError:
            return None

    @property
    def is_redundant(self) -> bool:
        """Whether anything can be rebuilt or compared."""
        level = self.known_raid
        return bool(level and level.is_redundant)

    @property
    def has_parity(self) -> bool:
        """Whether its first sync computes parity; otherwise it makes copies agree."""
        level = self.known_raid
        return bool(level and level.parity_members)

    @property
    def has_lost_data(self) -> bool:
        """Whether more members are missing than it survives: raid5 and raid6 report this only by their count."""
        level = self.known_raid
        if self.state.is_broken or level is None or not self.is_degraded:
            return self.state.is_broken
        return not level.survives(self._slots_without(None), self.raid_disks)

    @property
    def loss_words(self) -> str:
        """The extent of the loss, if known; otherwise empty."""
        return ""

    def works_without(self, member: MemberStatus) -> bool:
        """Whether the other members in sync are sufficient, no matter how many were in sync before."""
        return self.raid.survives(self._slots_without(member), self.raid_disks)

    def breaks_without(self, member: MemberStatus) -> bool:
        """Whether it would lose data if this member failed now."""
        return member.slot is not None and member.is_in_sync and not self.works_without(member)

    @property
    def missing_slots(self) -> frozenset[int]:
        """Slots that have no member in sync: missing, failed, or not rebuilt yet."""
        return self._slots_without(None)

    def _slots_without(self, member: MemberStatus | None) -> frozenset[int]:
        """Slots that have no member in sync, this one not counted."""
        working = {other.slot for other in self.members if other.is_in_sync and other is not member}
        return frozenset(slot for slot in range(self.raid_disks) if slot not in working)

    def with_progress(self, progress: Mapping[str, SyncProgress]) -> ArrayStatus:
        """The same status with the finer ``progress``, by md name, if a sync runs."""
        if self.name in progress and self.sync_action.is_busy:
            return replace(self, sync_progress=progress[self.name])
        return self

    def bridged(self, before: ArrayStatus) -> ArrayStatus:
        """The status to show while its plan continues; ``before`` is the last status with md at work on it."""
        return self

    @property
    def is_interrupted(self) -> bool:
        """Whether a rebuild has begun and only a new plan continues it."""
        return False

    @property
    def sync_place(self) -> str:
        """``2 of 5``: which of the inner arrays is being synced; empty if not applicable."""
        return ""

    def disk_to_add(self, free: Sequence[LabDisk], chosen: LabDisk | None, _disks: Sequence[LabDisk]) -> LabDisk | None:
        """The disk to add next: ``chosen`` if given, otherwise the first free disk that is large enough.

        None if no disk can be added now.
        """
        needed = self.component_bytes
        if chosen or not needed:
            return chosen or next(iter(free), None)
        return next((disk for disk in free if disk.size_bytes > needed), None)

    # Text for the user.

    @property
    def state_words(self) -> str:
        """``clean, degraded, recovering``: the state from sysfs in the words of mdadm --detail."""
        words = ["active" if self.state in _WRITING else str(self.state)]
        if self.is_degraded:
            words.append("degraded")
        if self.sync_action in _ACTION_WORDS:
            words.append(_ACTION_WORDS[self.sync_action])
        return ", ".join(words)

    @property
    def sync_words(self) -> str:
        """``rebuild 34.2 %``, or the sync that is due; empty if there is none."""
        if self.sync_progress:
            return f"{self.sync_action.noun} {100 * self.sync_progress.fraction:.1f} %"
        return "a rebuild is due" if self.awaits_rebuild else "a resync is due" if self.awaits_resync else ""

    @property
    def summary(self) -> str:
        """One line for the end of an operation."""
        parts = [self.level, human_bytes(self.size_bytes), self.state_words]
        parts.append(f"{self.in_sync_count} of {self.raid_disks} in sync")
        parts += [f"{len(self.spares)} spare"] if self.spares else []
        parts += [self.sync_words] if self.sync_words else []
        parts += [f"{self.mismatch_sectors} sectors mismatch"] if self.mismatch_sectors else []
        return f"{self.name}: " + ", ".join(parts)

    @property
    def kind_words(self) -> str:
        """Its consistency policy, or its composition."""
        return self.consistency_policy or "no bitmap"

    @property
    def inspecting_command(self) -> str:
        """The command that shows its details, to be typed on the machine."""
        return f"mdadm --detail {self.device}"

    @property
    def unpredicted(self) -> str:
        """Why theory has no prediction for workloads on it; empty: it may have one."""
        return ""

    def faulty_sentence(self, member: MemberStatus, disk: str) -> str:
        """The message for a member that failed."""
        return f"{disk} in {self.name} is faulty"

    def in_sync_sentence(self, member: MemberStatus, disk: str) -> str:
        """The message for a member that is now in sync."""
        return f"{disk} is in sync with {self.name}"

    def member_note(self, member: MemberStatus) -> str:
        """A description of a member whose role is not enough; otherwise empty."""
        return ""

    def use_words(self, member: MemberStatus) -> str:
        """How much of a member the array uses, if members differ in that; otherwise empty."""
        return ""

    def failing_note(self, member: MemberStatus, disk: str) -> str:
        """The effect of a failure of this member on the array."""
        if member.is_spare:
            return f"{disk} is a spare of {self.name}: it holds no data, and the array stays as it is."
        if self.breaks_without(member):
            return f"{self.name} cannot do without {disk}: it stops working, and its data cannot be read from then on."
        return f"{self.name} survives this: it goes on degraded, and answers from the other members."

    @property
    def adding_note(self) -> str:
        """The effect of adding a disk."""
        if self.is_degraded:
            return f"md rebuilds {self.name} on it at once."
        return f"{self.name} is whole: it waits as a spare."


_WRITING = (ArrayState.ACTIVE, ArrayState.WRITE_PENDING, ArrayState.ACTIVE_IDLE)
_ACTION_WORDS = {
    SyncAction.RECOVER: "recovering",
    SyncAction.RESYNC: "resyncing",
    SyncAction.CHECK: "checking",
    SyncAction.REPAIR: "repairing",
    SyncAction.RESHAPE: "reshaping",
}


class SliceState(StrEnum):
    """State of a slice."""

    WORKING = "working"
    MISSING = "missing"
    """Absent; reads are reconstructed from the other members."""
    REBUILDING = "rebuilding"
    LOST = "lost"
    """Its array has lost data."""


@dataclass(frozen=True, slots=True)
class InnerArray:
    """One inner array; ``array`` is None while it does not run."""

    width: str
    """Data and parity of a stripe: ``4+1``."""
    array: ArrayStatus | None
    is_lost: bool
    is_degraded: bool

    @property
    def name(self) -> str:
        """Its md name; empty while it does not run."""
        return self.array.name if self.array else ""


@dataclass(frozen=True, slots=True)
class Inside:
    """The whole composition."""

    places: tuple[MemberStatus, ...]
    """Every disk that it should have; a missing disk has no device."""
    arrays: tuple[InnerArray, ...]
    rows: tuple[SliceRow, ...]
    states: tuple[tuple[SliceState | None, ...], ...]
    """States of the slices of each row; None where a disk has none."""
