"""The status of an array: its values, how they are read from sysfs, and how to wait for syncs.

The kernel's Documentation/admin-guide/md.rst describes the files, which are read in one round trip. Parsing is separate
from reading. Any file may be missing (raid0 has no ``degraded``), and any word may be unknown.

A wait has two time-outs, one for the time without progress and one for the total time. ``sync_action`` is idle for an
instant before a sync starts and may briefly report recover wrongly, so a state counts only when it persists and
``degraded`` and ``sync_completed`` agree with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, TypeVar

from lab.arrays.geometry import ArrayGeometry, geometry_of
from lab.arrays.levels import (
    Level,
    LevelName,
    array_device,
    is_array_name,
    layout_name,
    level_with_layout,
    md_path,
    node_of,
)
from lab.arrays.spec import SliceRow
from lab.disks.kinds import LabDisk
from lab.errors import ArrayError, SpecError, WaitTimedOut
from lab.machine.api import Machine
from lab.units import KIB, SECTOR_BYTES, human_bytes


class ArrayState(StrEnum):
    """The values of md/array_state."""

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
        """Whether the array has been started, even if it has lost too many members since (``is_broken``)."""
        return self not in (ArrayState.CLEAR, ArrayState.INACTIVE, ArrayState.UNKNOWN)

    @property
    def is_broken(self) -> bool:
        """Whether md reports the array as broken. md shows this only in place of ``clean`` (array_state_show())."""
        return self is ArrayState.BROKEN


class SyncAction(StrEnum):
    """The values of md/sync_action; NONE if the level has no such file."""

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
        """The common term, such as rebuild for md's recover."""
        return "rebuild" if self is SyncAction.RECOVER else self.value


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """The values in md/sync_completed: the sectors of each member that are done, and their total."""

    done_sectors: int
    total_sectors: int

    @property
    def fraction(self) -> float:
        """The part that is done, from 0 to 1."""
        return self.done_sectors / self.total_sectors if self.total_sectors else 0.0


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member; its ``flags`` are those in dev-*/state."""

    device: str
    slot: int | None
    """The slot, or None for a spare, a journal or a failed member."""
    flags: frozenset[str]
    error_count: int | None
    """The number of read errors that md has corrected by rewriting."""
    data_offset_sectors: int | None
    data_size_kib: int | None
    bad_blocks: tuple[tuple[int, int], ...] = ()
    """The first sector on the device and the number of sectors of each range on md's bad-block list."""

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
    def is_write_mostly(self) -> bool:
        """Whether md reads from it only if it cannot read from another member (md(4), RAID1)."""
        return "write_mostly" in self.flags

    @property
    def is_rebuilding(self) -> bool:
        """Whether the member has a slot, but is not fully rebuilt yet."""
        return "spare" in self.flags and self.slot is not None and not self.is_faulty

    @property
    def is_spare(self) -> bool:
        return "spare" in self.flags and self.slot is None and not self.is_faulty

    @property
    def role(self) -> str:
        if self.is_faulty:
            return "faulty"
        if self.is_journal:
            return "journal"
        if self.is_rebuilding:
            return "rebuilding"
        return "spare" if self.is_spare else "in sync" if self.is_in_sync else ", ".join(sorted(self.flags))

    @property
    def state_words(self) -> str:
        """The role, and the flag write-mostly if the user has set it."""
        # A role that consists of md's own flags includes it already.
        is_missing = self.is_write_mostly and "write_mostly" not in self.role
        return f"{self.role}, write-mostly" if is_missing else self.role


@dataclass(frozen=True, slots=True)
class ArrayStatus:
    """The status of an array. A value is None if the level has no file for it, or if the file has no value now.

    The properties here are those of md's own arrays; other kinds override them in a subclass.
    """

    unit: ClassVar[str] = "member"
    """The noun for one of the array's parts, for messages."""
    waits_words: ClassVar[str] = "waits to rebuild"
    """The words for a rebuild that is due but not running."""
    cannot: ClassVar[frozenset[str]] = frozenset()
    """The operations that it does not support, by their method names in ``lab.arrays.array.Array``."""

    name: str
    level: str
    state: ArrayState
    raid_disks: int
    degraded_count: int
    """The number of slots without a working member."""
    size_bytes: int
    chunk_bytes: int | None
    layout_number: int | None
    component_size_kib: int | None
    metadata_version: str
    consistency_policy: str
    sync_action: SyncAction
    sync_progress: SyncProgress | None
    sync_speed_kib_per_second: int | None
    """The average over the last 30 s (md.rst); derive speeds from ``sync_progress`` instead."""
    mismatch_sectors: int | None
    """The size of the I/O units that differ and not of the differences themselves, since md counts units (md(4))."""
    bitmap_location: str | None
    reshape_position_sectors: int | None
    resync_start_sectors: int | None
    """The sector at which a pending resync begins, or None if all redundancy is consistent or being rebuilt."""
    members: tuple[MemberStatus, ...]
    holders: tuple[str, ...]
    uuid: str = ""
    """The UUID as 32 hexadecimal digits, or an empty string on kernels before 5.8, which do not report it."""

    @property
    def device(self) -> str:
        return array_device(self.name)

    @property
    def component_bytes(self) -> int | None:
        """How many bytes of each member the array uses, or None if members may differ (raid0)."""
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
        """Whether a rebuild is running or due, because an empty slot can be filled or a replacement was requested."""
        filler = any(member.is_spare or member.is_rebuilding for member in self.members)
        return filler and (self.is_degraded or any("want_replacement" in member.flags for member in self.members))

    @property
    def awaits_resync(self) -> bool:
        """Whether a resync is running or due, because the redundancy is not yet consistent."""
        return self.resync_start_sectors is not None

    @property
    def owes_sync(self) -> bool:
        return self.sync_action.is_busy or self.awaits_rebuild or self.awaits_resync

    def member(self, device: str) -> MemberStatus:
        for member in self.members:
            if member.device == device:
                return member
        names = ", ".join(member.device for member in self.members)
        raise ArrayError(f"{device} is not a member of {self.name}", hint=f"choose one of its members: {names}")

    @property
    def kernel_name(self) -> str:
        """The name under which /proc/diskstats counts the array's I/O."""
        return self.name

    @property
    def inner(self) -> tuple[ArrayStatus, ...]:
        """The running md arrays of which it consists, or none if it is one of md's own arrays."""
        return ()

    @property
    def inside(self) -> Inside | None:
        """The array's composition if it consists of several arrays, otherwise None."""
        return None

    @property
    def layout(self) -> str | None:
        """The name that mdadm uses for the layout, or None if the level has no layouts, or the layout is unknown."""
        if self.layout_number is None or self.level not in tuple(LevelName):
            return None
        return layout_name(LevelName(self.level), self.layout_number)

    @property
    def raid(self) -> Level:
        """The arithmetic of the array's level and layout. Raises SpecError if the lab does not know the level."""
        return level_with_layout(self.level, self.layout if self.level == LevelName.RAID10 else None)

    @property
    def geometry(self) -> ArrayGeometry:
        """Where the array's data lie on its members. Raises ArrayError if the level or layout is unknown."""
        sizes = {
            m.slot: m.data_size_kib * KIB // SECTOR_BYTES
            for m in self.members
            if m.slot is not None and m.data_size_kib
        }
        chunk, used = (self.chunk_bytes or 0) // SECTOR_BYTES, (self.component_bytes or 0) // SECTOR_BYTES
        return geometry_of(self.level, self.layout_number or 0, self.raid_disks, chunk, used, sizes)

    @property
    def known_raid(self) -> Level | None:
        try:
            return self.raid
        except SpecError:
            return None

    @property
    def is_redundant(self) -> bool:
        """Whether there is anything from which to rebuild, or with which to compare."""
        level = self.known_raid
        return bool(level and level.is_redundant)

    @property
    def has_parity(self) -> bool:
        """Whether the array's first sync computes parity instead of making copies agree."""
        level = self.known_raid
        return bool(level and level.parity_members)

    @property
    def has_lost_data(self) -> bool:
        """Whether more members are missing than the array survives; raid5 and raid6 show this only in ``degraded``."""
        level = self.known_raid
        if self.state.is_broken or level is None or not self.is_degraded:
            return self.state.is_broken
        return not level.survives(self._slots_without(None), self.raid_disks)

    @property
    def loss_words(self) -> str:
        """The extent of the data loss, or an empty string if it is unknown."""
        return ""

    def works_without(self, member: MemberStatus) -> bool:
        """Whether all data can be read from the other in-sync members alone."""
        return self.raid.survives(self._slots_without(member), self.raid_disks)

    def breaks_without(self, member: MemberStatus) -> bool:
        """Whether the array would lose data if this member failed now."""
        return member.slot is not None and member.is_in_sync and not self.works_without(member)

    @property
    def missing_slots(self) -> frozenset[int]:
        """The slots that have no member in sync, because it is missing, has failed, or is not rebuilt yet."""
        return self._slots_without(None)

    def _slots_without(self, member: MemberStatus | None) -> frozenset[int]:
        working = {other.slot for other in self.members if other.is_in_sync and other is not member}
        return frozenset(slot for slot in range(self.raid_disks) if slot not in working)

    def with_progress(self, progress: Mapping[str, SyncProgress]) -> ArrayStatus:
        """Return the status. During a sync, its progress is the finer one that ``progress`` has for the md name."""
        if self.name in progress and self.sync_action.is_busy:
            return replace(self, sync_progress=progress[self.name])
        return self

    def bridged(self, before: ArrayStatus) -> ArrayStatus:
        """Return the status to show while a plan continues; ``before`` is the last one in which md was busy."""
        return self

    @property
    def is_interrupted(self) -> bool:
        """Whether a rebuild was interrupted and needs a new plan to continue."""
        return False

    @property
    def sync_place(self) -> str:
        """Which of the inner arrays is being synced, for example ``2 of 5``, or an empty string if there are none."""
        return ""

    def disk_to_add(self, free: Sequence[LabDisk], chosen: LabDisk | None, _disks: Sequence[LabDisk]) -> LabDisk | None:
        """Return ``chosen`` or else the first free disk that is large enough; None if no disk can be added now."""
        needed = self.component_bytes
        if chosen or not needed:
            return chosen or next(iter(free), None)
        return next((disk for disk in free if disk.size_bytes > needed), None)

    # Text for the user.

    @property
    def state_words(self) -> str:
        """The state from sysfs in the words of mdadm --detail, for example ``clean, degraded, recovering``."""
        words = ["active" if self.state in _WRITING else str(self.state)]
        if self.is_degraded:
            words.append("degraded")
        if self.sync_action in _ACTION_WORDS:
            words.append(_ACTION_WORDS[self.sync_action])
        return ", ".join(words)

    @property
    def sync_words(self) -> str:
        """The sync that is running or due, for example ``rebuild 34.2 %``, or an empty string if there is none."""
        if self.sync_progress:
            return f"{self.sync_action.noun} {100 * self.sync_progress.fraction:.1f} %"
        return "a rebuild is due" if self.awaits_rebuild else "a resync is due" if self.awaits_resync else ""

    @property
    def summary(self) -> str:
        parts = [self.level, human_bytes(self.size_bytes), self.state_words]
        parts.append(f"{self.in_sync_count} of {self.raid_disks} in sync")
        parts += [f"{len(self.spares)} spare"] if self.spares else []
        parts += [self.sync_words] if self.sync_words else []
        parts += [f"{self.mismatch_sectors} sectors mismatch"] if self.mismatch_sectors else []
        return f"{self.name}: " + ", ".join(parts)

    @property
    def kind_words(self) -> str:
        """The array's consistency policy, or its composition."""
        return self.consistency_policy or "no bitmap"

    @property
    def inspecting_command(self) -> str:
        """The command that shows the array's details when typed on the machine."""
        return f"mdadm --detail {self.device}"

    @property
    def unpredicted(self) -> str:
        """Why theory cannot predict how workloads perform on the array, or an empty string if no reason is known."""
        return ""

    def faulty_sentence(self, member: MemberStatus, disk: str) -> str:
        return f"{disk} in {self.name} is faulty"

    def in_sync_sentence(self, member: MemberStatus, disk: str) -> str:
        return f"{disk} is in sync with {self.name}"

    def member_note(self, member: MemberStatus) -> str:
        """Return a remark on a member if its role does not fully describe it, otherwise an empty string."""
        return ""

    def use_words(self, member: MemberStatus) -> str:
        """Say how much of a member the array uses, or return an empty string if all members are used alike."""
        return ""

    def failing_note(self, member: MemberStatus, disk: str) -> str:
        if member.is_spare:
            return f"{disk} is a spare of {self.name}. It holds no data, and the array does not change."
        if self.breaks_without(member):
            return f"{self.name} cannot run without {disk}, so the array fails, and its data can no longer be read."
        return f"{self.name} survives this. It continues degraded, and reads from the other members."

    @property
    def adding_note(self) -> str:
        if self.is_degraded:
            return f"md starts to rebuild {self.name} on it."
        return f"{self.name} is complete, so the disk becomes a spare."


_WRITING = (ArrayState.ACTIVE, ArrayState.WRITE_PENDING, ArrayState.ACTIVE_IDLE)
_ACTION_WORDS = {
    SyncAction.RECOVER: "recovering",
    SyncAction.RESYNC: "resyncing",
    SyncAction.CHECK: "checking",
    SyncAction.REPAIR: "repairing",
    SyncAction.RESHAPE: "reshaping",
}


class SliceState(StrEnum):
    """The state of a slice."""

    WORKING = "working"
    MISSING = "missing"
    """The slice is absent, and its data are reconstructed from the other members."""
    REBUILDING = "rebuilding"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class InnerArray:
    """One inner array; ``array`` is None while it is not running."""

    width: str
    """The number of data and parity chunks in a stripe, such as ``4+1``."""
    array: ArrayStatus | None
    is_lost: bool
    is_degraded: bool

    @property
    def name(self) -> str:
        return self.array.name if self.array else ""


@dataclass(frozen=True, slots=True)
class Inside:
    """The composition of an array that consists of several arrays."""

    places: tuple[MemberStatus, ...]
    """Every disk that the array should have; a missing disk has no device."""
    arrays: tuple[InnerArray, ...]
    rows: tuple[SliceRow, ...]
    states: tuple[tuple[SliceState | None, ...], ...]
    """The states of the slices in each row, or None where a disk has no slice."""


ARRAY_FILES = (
    *("level", "raid_disks", "chunk_size", "layout", "array_state", "degraded", "sync_action", "sync_completed"),
    *("sync_speed", "consistency_policy", "metadata_version", "component_size", "mismatch_cnt", "bitmap/location"),
    *("reshape_position", "resync_start", "uuid"),
)
MEMBER_FILES = ("state", "slot", "errors", "offset", "size", "bad_blocks")
_MEMBER_PREFIX = "dev-"
E = TypeVar("E", bound=StrEnum)


def read_array(machine: Machine, name: str) -> ArrayStatus:
    """Read the state of one array. Raises ArrayError if the machine has no such array."""
    for status in read_arrays(machine, (name,)):
        return status
    raise ArrayError(f"the machine has no array {name}", hint="create or assemble it first")


def read_arrays(machine: Machine, names: Sequence[str] | None = None) -> tuple[ArrayStatus, ...]:
    """Read the state of every array on the machine, sorted by number, or of the arrays in ``names`` that exist.

    An array in state ``clear`` is left out, because it has no members or was stopped. md removes the folders of the
    array and its members shortly after ``mdadm --stop`` has ended, and refuses reads until then (mddev_put() and
    md_attr_show() in drivers/md/md.c).
    """
    if names is None:
        blocks = machine.list_dirs(("/sys/block",))["/sys/block"]
        found = [block for block in blocks if is_array_name(block)]
        names = sorted(found, key=lambda block: int(block.removeprefix("md")))
    folders = (
        machine.list_dirs([folder for name in names for folder in (md_path(name), _holders(name))]) if names else {}
    )
    present = [name for name in names if folders[md_path(name)]]
    paths = [path for name in present for path in array_paths(name, folders[md_path(name)])]
    texts = machine.read(paths) if paths else {}
    running = (name for name in present if (texts[md_path(name, "array_state")] or "clear").strip() != ArrayState.CLEAR)
    return tuple(parse_array(name, folders[md_path(name)], texts, folders[_holders(name)]) for name in running)


def _holders(name: str) -> str:
    return f"/sys/block/{name}/holders"


def array_paths(name: str, md_entries: Sequence[str]) -> tuple[str, ...]:
    """Return every file that ``parse_array`` needs, given the names in the array's md folder."""
    member_folders = [entry for entry in md_entries if entry.startswith(_MEMBER_PREFIX)]
    files = [*ARRAY_FILES, *(f"{folder}/{file}" for folder in member_folders for file in MEMBER_FILES)]
    return (f"/sys/block/{name}/size", *(md_path(name, file) for file in files))


def parse_array(
    name: str, md_entries: Sequence[str], texts: Mapping[str, str | None], holders: Sequence[str] = ()
) -> ArrayStatus:
    """Determine the state from ``texts``, the contents of files by path (None if unreadable)."""

    def text(file: str) -> str:
        return (texts.get(md_path(name, file)) or "").strip()

    location, level = text("bitmap/location"), text("level")
    prefixed = [entry for entry in md_entries if entry.startswith(_MEMBER_PREFIX)]
    members = (_parse_member(entry, {file: text(f"{entry}/{file}") for file in MEMBER_FILES}) for entry in prefixed)
    return ArrayStatus(
        name=name,
        # Until an array is started, md reports its level as a number (level_show in drivers/md/md.c).
        level=f"raid{level}" if level.isdecimal() else level,
        state=_word(ArrayState, text("array_state")),
        raid_disks=parse_count(text("raid_disks")) or 0,
        degraded_count=parse_count(text("degraded")) or 0,
        size_bytes=(parse_count(texts.get(f"/sys/block/{name}/size") or "") or 0) * SECTOR_BYTES,
        chunk_bytes=parse_count(text("chunk_size")) or None,
        layout_number=parse_count(text("layout")),
        component_size_kib=parse_count(text("component_size")) or None,
        metadata_version=text("metadata_version"),
        consistency_policy=text("consistency_policy"),
        sync_action=_word(SyncAction, text("sync_action")) if text("sync_action") else SyncAction.NONE,
        sync_progress=parse_progress(text("sync_completed")),
        sync_speed_kib_per_second=parse_count(text("sync_speed")),
        mismatch_sectors=parse_count(text("mismatch_cnt")),
        bitmap_location=None if location in ("", "none") else location,
        reshape_position_sectors=parse_count(text("reshape_position")),
        resync_start_sectors=parse_count(text("resync_start")),
        uuid=text("uuid").replace("-", ""),
        members=tuple(sorted(members, key=lambda each: (each.slot is None, each.slot or 0, each.device))),
        holders=tuple(holders),
    )


def _parse_member(folder: str, texts: Mapping[str, str]) -> MemberStatus:
    return MemberStatus(
        device=node_of(folder.removeprefix(_MEMBER_PREFIX)),
        slot=parse_count(texts.get("slot", "")),
        flags=parse_flags(texts.get("state", "")),
        error_count=parse_count(texts.get("errors", "")),
        data_offset_sectors=parse_count(texts.get("offset", "")),
        data_size_kib=parse_count(texts.get("size", "")),
        bad_blocks=_parse_stretches(texts.get("bad_blocks", "")),
    )


def _parse_stretches(text: str) -> tuple[tuple[int, int], ...]:
    """Parse lines such as ``4096 8``, a first sector and a number of sectors; skip a line cut off at a page's end."""
    lines = (line.split() for line in text.splitlines())
    return tuple(
        (int(words[0]), int(words[1])) for words in lines if len(words) == 2 and all(map(str.isdecimal, words))
    )


def parse_count(text: str) -> int | None:
    """Parse a whole number; return None for ``none`` and other text. An old value in parentheses may follow."""
    words = text.split()
    return int(words[0]) if words and words[0].isdecimal() else None


def parse_flags(text: str) -> frozenset[str]:
    """Parse the comma-separated flags of dev-*/state."""
    return frozenset(word.strip() for word in text.split(",") if word.strip())


def parse_progress(text: str) -> SyncProgress | None:
    """Parse progress such as ``1024 / 1019904``; return None for ``none`` and ``delayed``."""
    done, slash, total = text.partition("/")
    done_sectors, total_sectors = parse_count(done), parse_count(total)
    if not slash or done_sectors is None or total_sectors is None:
        return None
    return SyncProgress(done_sectors, total_sectors)


def _word(words: type[E], text: str) -> E:
    try:
        return words(text)
    except ValueError:
        return words("unknown")


MDSTAT = "/proc/mdstat"
_ARRAY = re.compile(r"^(md\d+)\s*:")
_PROGRESS = re.compile(r"(resync|recovery|reshape|check)\s*=\s*[\d.]+%\s*\((\d{1,18})/(\d{1,18})\)")


@dataclass(frozen=True, slots=True)
class MdStat:
    """One reading of /proc/mdstat, which shows changes and the progress of syncs for all arrays.

    Its progress is finer than md/sync_completed, which moves in steps. The format follows md_seq_show() and
    status_resync() in drivers/md/md.c.
    """

    shape: str
    """A text that is equal in two readings if only progress, speeds and the fill of bitmaps differ."""
    progress: dict[str, SyncProgress]


def parse_mdstat(text: str) -> MdStat:
    """Parse the file's text; unknown lines only affect ``shape``."""
    shape, progress, name = [], {}, ""
    for line in text.splitlines():
        if found := _ARRAY.match(line):
            name = found[1]
        if moving := _PROGRESS.search(line):
            per_kib = KIB // SECTOR_BYTES
            progress[name] = SyncProgress(int(moving[2]) * per_kib, int(moving[3]) * per_kib)
            line = moving[1]
        elif line.lstrip().startswith("bitmap:"):
            line = "bitmap"
        shape.append(line)
    return MdStat("\n".join(shape), progress)


FAR_BETWEEN_SECONDS = 300.0
SETTLE_SECONDS = 0.3
"""How long a consistent state must persist."""

CONTRADICTION_SECONDS = 5.0
"""How long ``idle`` must persist if a sync is due, but the array is broken, frozen or waiting for its first write."""

STALL_SECONDS = 60.0
"""How long a sync may make no progress."""
LONGEST_SECONDS = 24 * 3600.0
_STALL_HINT = "check the sync speed limits and other load on the machine"


def wait_until_idle(
    machine: Machine, name: str, *, on_status: Callable[[ArrayStatus], None] | None = None
) -> ArrayStatus:
    """Wait until no resync, rebuild, scrub or reshape is running or due. Return the settled state.

    Raises WaitTimedOut after ``STALL_SECONDS`` without progress of the sync, or after ``LONGEST_SECONDS`` in total.
    """
    clock = _Rests(machine, name)
    moved_seconds = clock.now_seconds()
    deadline_seconds = moved_seconds + LONGEST_SECONDS
    idle_since: float | None = None
    mark: tuple[object, ...] = ()
    while True:
        # This is taken before the status is read, so that the last status is read after the time-out even if this
        # process was suspended.
        before_seconds = clock.now_seconds()
        status = _with_finer_progress(machine, read_array(machine, name))
        clock.is_busy = status.sync_action.is_busy
        if on_status:
            on_status(status)
        now_seconds = clock.now_seconds()
        if _is_syncing(machine, status):
            idle_since = None
        elif idle_since is None:
            idle_since = now_seconds
        is_due = status.awaits_rebuild or status.awaits_resync
        if idle_since is not None and now_seconds - idle_since >= (CONTRADICTION_SECONDS if is_due else SETTLE_SECONDS):
            return status
        # Values that change only while a sync makes progress.
        seen = (status.sync_action, status.sync_progress, status.degraded_count, status.reshape_position_sectors)
        has_moved, mark = seen != mark, seen
        if not has_moved and before_seconds - moved_seconds >= STALL_SECONDS:
            message = f"waited {STALL_SECONDS:g} s for {name} to become idle; last seen: {status}"
            raise WaitTimedOut(message, hint=_STALL_HINT)
        if before_seconds >= deadline_seconds:
            message = f"{name} was still busy after {LONGEST_SECONDS:g} s; last seen: {status}"
            raise WaitTimedOut(message, hint=_STALL_HINT)
        clock.sleep()
        if has_moved:
            # This is taken after the pause, because in virtual time the pause may be longer than the time-out.
            moved_seconds = clock.now_seconds()


def _with_finer_progress(machine: Machine, status: ArrayStatus) -> ArrayStatus:
    """Return the status, with the progress from /proc/mdstat while a sync is running.

    md updates md/sync_completed only after each sixteenth of the array or every five minutes (md_do_sync in
    drivers/md/md.c), so on a large array it may not change within the time-out.
    """
    if not status.sync_action.is_busy:
        return status
    return status.with_progress(parse_mdstat(machine.read([MDSTAT])[MDSTAT] or "").progress)


class _Rests:
    """The machine's clock, for polling an array.

    In virtual time, hours of waiting cost less than a query. Therefore a busy array is polled rarely, since md reports
    changes of its sync action (sysfs_notify in drivers/md/md.c). Polling takes no virtual time.
    """

    def __init__(self, machine: Machine, name: str) -> None:
        self._machine = machine
        self._until = (f"{md_path(name)}/sync_action",)
        self._now_seconds = machine.sleep(0) if machine.facts.is_virtual_time else None
        self.is_busy = False

    def now_seconds(self) -> float:
        return self._machine.clock.monotonic_seconds() if self._now_seconds is None else self._now_seconds

    def sleep(self) -> None:
        if self._now_seconds is None:
            self._machine.clock.sleep(0.05)
        elif self.is_busy:
            self._now_seconds = self._machine.sleep(FAR_BETWEEN_SECONDS, until=self._until)
        else:
            self._now_seconds = self._machine.sleep(SETTLE_SECONDS)


def _is_syncing(machine: Machine, status: ArrayStatus) -> bool:
    """Whether a sync is running, or mdadm has yet to convert an array that grew by way of RAID 4 back to RAID 0.

    mdadm converts the array after the last stripe has been moved, and mdadm 4.4 and later wait five more seconds
    (impose_level in mdadm's Grow.c). Until then the array is idle and appears in sysfs as a RAID 4 without parity, so
    only mdadm's process shows the difference.
    """
    if status.sync_action.is_busy or status.sync_progress or status.reshape_position_sectors is not None:
        return True
    if status.level != LevelName.RAID4 or not status.degraded_count:
        return False
    grows = rf"^([^ ]*/)?mdadm --grow (.* )?{array_device(status.name)}( |$)"
    return machine.run(("pgrep", "-f", grows), check=False).status == 0
