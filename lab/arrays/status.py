"""What one look at an array found: values and the questions they answer. ``lab.arrays.state`` reads them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lab.arrays.names import array_device
from lab.errors import ArrayError
from lab.units import KIB


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
        """Whether the array is started; see ``is_broken`` for one that lost too much."""
        return self not in (ArrayState.CLEAR, ArrayState.INACTIVE, ArrayState.UNKNOWN)

    @property
    def is_broken(self) -> bool:
        """Shown for raid0, raid1 and raid10; raid5 and raid6 show only a ``degraded`` above their parity."""
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


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """md/sync_completed: sectors of each member done, of all."""

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
    """None for a spare, a journal and a member that was failed."""
    flags: frozenset[str]
    error_count: int | None
    """Read errors that md mended by rewriting."""
    data_offset_sectors: int | None
    data_size_kib: int | None

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
        """In a slot, but not yet with all of its data."""
        return "spare" in self.flags and self.slot is not None and not self.is_faulty

    @property
    def is_spare(self) -> bool:
        """Waiting without a slot."""
        return "spare" in self.flags and self.slot is None and not self.is_faulty


@dataclass(frozen=True, slots=True)
class ArrayStatus:
    """One look at an array. None: the file is not there for this level, or holds nothing just now."""

    name: str
    level: str
    state: ArrayState
    raid_disks: int
    degraded_count: int
    """How many slots lack a working member."""
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
    """Whole I/O units are counted, so this says how much was touched, not how much differs (md(4))."""
    bitmap_location: str | None
    reshape_position_sectors: int | None
    resync_start_sectors: int | None
    """Where a resync that is still needed begins; None when all redundancy is right or being rebuilt."""
    members: tuple[MemberStatus, ...]
    holders: tuple[str, ...]
    uuid: str = ""
    """32 hexadecimal digits; empty on kernels before 5.8, which do not show it."""

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
        """Whether md should be rebuilding, or soon will: a hole and something to fill it, or a wanted replacement."""
        filler = any(member.is_spare or member.is_rebuilding for member in self.members)
        return filler and (self.is_degraded or any("want_replacement" in member.flags for member in self.members))

    @property
    def awaits_resync(self) -> bool:
        """Whether the redundancy is not right yet, whether or not a resync runs at this instant."""
        return self.resync_start_sectors is not None

    def member(self, device: str) -> MemberStatus:
        """The member on this device node. Raises ArrayError if there is none."""
        for member in self.members:
            if member.device == device:
                return member
        names = ", ".join(member.device for member in self.members)
        raise ArrayError(f"{device} is not a member of {self.name}", hint=f"its members are {names}")
