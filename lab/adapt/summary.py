"""A volume presented as one array whose members are its disks, for code that displays arrays, such as the app."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from lab.adapt.preview import slice_rows
from lab.adapt.state import VolumeDisk, VolumeStatus, WindowStatus
from lab.arrays.levels import Level, Raid5
from lab.arrays.spec import METADATA_VERSION
from lab.arrays.status import (
    ArrayState,
    ArrayStatus,
    InnerArray,
    Inside,
    MemberStatus,
    SliceState,
    SyncAction,
    SyncProgress,
)
from lab.disks.kinds import LabDisk
from lab.units import SECTOR_BYTES, human_bytes


@dataclass(frozen=True, slots=True)
class VolumeSync:
    """The sync of a volume, over all arrays that take part in it."""

    action: SyncAction
    number: int
    """The number of the array that is being synchronised, counted from 1."""
    count: int
    """The number of arrays that take part; in a rebuild, those with a slice on the disk."""
    at_once: int
    """The number of arrays in progress; initial resyncs run in parallel, other syncs one after another."""
    progress: SyncProgress

    @property
    def is_last(self) -> bool:
        return self.number >= self.count

    @property
    def place_words(self) -> str:
        """Such as ``2 of 5``; empty if arrays run in parallel or there is only one."""
        return "" if self.at_once > 1 or self.count < 2 else f"{self.number} of {self.count}"


@dataclass(frozen=True, slots=True)
class VolumeArray(ArrayStatus):
    """The state of a volume in terms of an array; ``degraded_count`` is the number of disks that are not fully in sync.

    A member is *faulty* if it is present in none of its arrays, and in sync if it is in sync in all.
    """

    unit: ClassVar[str] = "disk"
    waits_words: ClassVar[str] = "rebuild stands still"
    cannot: ClassVar[frozenset[str]] = frozenset({"corrupt", "re_add", "replace", "bitmap", "grow"})

    volume: VolumeStatus | None = None
    sync: VolumeSync | None = None

    @property
    def whole(self) -> VolumeStatus:
        """The state of the volume, which is always set."""
        assert self.volume is not None
        return self.volume

    def _disk(self, member: MemberStatus) -> VolumeDisk:
        return next(disk for disk in self.whole.disks if disk.number == member.slot)

    @property
    def device(self) -> str:
        return self.whole.device

    @property
    def kernel_name(self) -> str:
        return self.whole.kernel_name

    @property
    def inner(self) -> tuple[ArrayStatus, ...]:
        return self.whole.arrays

    @property
    def inside(self) -> Inside:
        volume = self.whole
        rows = slice_rows([each.window for each in volume.windows], len(volume.disks))
        return Inside(
            tuple(map(_member, volume.disks)),
            tuple(InnerArray(f"{w.window.width}+1", w.array, w.is_lost, w.is_degraded) for w in volume.windows),
            rows,
            tuple(
                tuple(
                    None if number is None else _slice_state(volume.disks[disk], volume.windows[number])
                    for disk, number in enumerate(row.windows)
                )
                for row in rows
            ),
        )

    @property
    def raid(self) -> Level:
        return Raid5()

    @property
    def has_lost_data(self) -> bool:
        return bool(self.whole.lost)

    @property
    def loss_words(self) -> str:
        return self.whole.loss_words

    def works_without(self, member: MemberStatus) -> bool:
        return not self.whole.broken_by(self._disk(member))

    def breaks_without(self, member: MemberStatus) -> bool:
        return not self.works_without(member)

    def with_progress(self, progress: Mapping[str, SyncProgress]) -> VolumeArray:
        before = self.whole.windows
        after = tuple(
            replace(window, array=window.array.with_progress(progress)) if window.array else window for window in before
        )
        return self if after == before else as_array(replace(self.whole, windows=after))

    def bridged(self, before: ArrayStatus) -> ArrayStatus:
        """Between two arrays of a rebuild or scrub md is idle for a moment; keep showing the sync of ``before``."""
        sync = before.sync if isinstance(before, type(self)) else None
        if sync is None or sync.is_last or not (sync.action in _SCRUBS or self.is_interrupted):
            return self
        return replace(self, sync_action=before.sync_action, sync_progress=before.sync_progress, sync=sync)

    @property
    def is_interrupted(self) -> bool:
        """Whether a disk is part of the volume but not in sync in all arrays, and no rebuild is running."""
        return any(disk.is_incomplete for disk in self.whole.disks) and not self.sync_action.is_busy

    @property
    def sync_place(self) -> str:
        return self.sync.place_words if self.sync else ""

    def disk_to_add(self, free: Sequence[LabDisk], chosen: LabDisk | None, disks: Sequence[LabDisk]) -> LabDisk | None:
        """The disk with an interrupted rebuild, else ``chosen``, else the smallest free disk that is large enough."""
        # Add one disk at a time: a rebuild runs through its arrays one after another.
        if self.sync_action.is_busy or not self.is_degraded or self.whole.lost:
            return None
        if self.is_interrupted:
            waiting = {member.device for member in self.members if member.is_rebuilding}
            return next((disk for disk in disks if disk.node in waiting), None)
        places = [disk.size_bytes for disk in self.whole.disks if not disk.present]
        if not places or chosen:
            return chosen if places else None
        fitting = [disk for disk in free if disk.size_bytes >= min(places)]
        return min(fitting, key=lambda disk: disk.size_bytes, default=None)

    @property
    def summary(self) -> str:
        volume = self.whole
        working = sum(len(disk.working) == len(disk.windows) for disk in volume.disks)
        parts = [self.level, human_bytes(self.size_bytes), volume.state_words]
        parts += [f"{working} of {len(volume.disks)} disks in sync", self.kind_words]
        parts += [f"{each.name} {each.sync_words}" for each in volume.busy]
        parts += [f"{self.mismatch_sectors} sectors mismatch"] if self.mismatch_sectors else []
        return f"{self.name}: " + ", ".join(parts)

    @property
    def kind_words(self) -> str:
        count = len(self.whole.windows)
        return "1 array inside" if count == 1 else f"{count} arrays inside"

    @property
    def inspecting_command(self) -> str:
        return "dmsetup ls --tree"

    @property
    def unpredicted(self) -> str:
        widths = sorted({window.window.width for window in self.whole.windows})
        cost = " or ".join(str(cost) for cost in sorted({Raid5().small_write_ios(width + 1) for width in widths}))
        return (
            f"{self.name} is {len(self.whole.windows)} arrays in turn, with stripes of "
            f"{' and '.join(map(str, widths))} data chunks. A small write costs {cost} I/Os, by where it lands"
        )

    def faulty_sentence(self, member: MemberStatus, disk: str) -> str:
        faulty = len(self._disk(member).faulty)
        return f"{self.name} lost {disk} in {faulty} of {len(self.whole.windows)} arrays"

    def in_sync_sentence(self, member: MemberStatus, disk: str) -> str:
        return f"{disk} is in sync with {self.name}, in all of its {len(self._disk(member).windows)} arrays"

    def member_note(self, member: MemberStatus) -> str:
        disk = self._disk(member)
        if disk.faulty and disk.present:
            return f"{self.name} faulty in {len(disk.faulty)} of {len(disk.windows)}"
        return f"{self.name} rebuild waits" if member.is_rebuilding and self.is_interrupted else ""

    def use_words(self, member: MemberStatus) -> str:
        own = self._disk(member)
        arrays = "1 array" if len(own.windows) == 1 else f"{len(own.windows)} arrays"
        words = own.state if own.working != own.windows else f"in {arrays} of {self.name}"
        return f"{human_bytes(own.size_bytes)}, {words}"

    def failing_note(self, member: MemberStatus, disk: str) -> str:
        own = self._disk(member)
        if lost := self.whole.broken_by(own):
            arrays = f"{len(lost)} of its {len(self.whole.windows)} arrays"
            return f"{self.name} cannot do without {disk}: after this the data of {arrays} are lost."
        return (
            f"{disk} fails in the {len(own.windows)} arrays of {self.name} that it is in. {self.name} survives this: "
            "it goes on degraded, and the other disks remember which one failed."
        )

    @property
    def adding_note(self) -> str:
        if self.is_interrupted:
            return "The rebuild goes on where it stopped, one array after another."
        return (
            "The disk takes the place of the one that is missing, in all of its arrays. md rebuilds one after another; "
            "if that is interrupted, the same key goes on with it."
        )


_SCRUBS = (SyncAction.CHECK, SyncAction.REPAIR)


def as_array(volume: VolumeStatus) -> VolumeArray:
    """The volume as an array."""
    sync = sync_of(volume)
    return VolumeArray(
        name=volume.name,
        level=volume.level,
        state=_state(volume),
        raid_disks=len(volume.disks),
        degraded_count=sum(disk.working != disk.windows for disk in volume.disks),
        size_bytes=volume.size_bytes,
        chunk_bytes=volume.chunk_bytes,
        layout_number=None,
        component_size_kib=None,
        metadata_version=METADATA_VERSION,
        consistency_policy="resync",
        sync_action=sync.action if sync else SyncAction.IDLE,
        sync_progress=sync.progress if sync else None,
        sync_speed_kib_per_second=None,
        mismatch_sectors=volume.mismatch_sectors,
        bitmap_location=None,
        reshape_position_sectors=None,
        resync_start_sectors=next((each.resync_start_sectors for each in volume.busy if each.awaits_resync), None),
        members=tuple(_members(volume)),
        holders=(),
        uuid="".join(letter for letter in volume.uuid if letter.isalnum()),
        volume=volume,
        sync=sync,
    )


def _state(volume: VolumeStatus) -> ArrayState:
    if volume.lost:
        return ArrayState.BROKEN
    states = {array.state for array in volume.arrays}
    order = (ArrayState.READ_AUTO, ArrayState.ACTIVE, ArrayState.WRITE_PENDING, ArrayState.ACTIVE_IDLE)
    return next((state for state in order if state in states), ArrayState.CLEAN)


def _members(volume: VolumeStatus) -> Iterable[MemberStatus]:
    for disk in volume.disks:
        # A failed disk without a slice in any array is no member; its slot is empty.
        if disk.node and (disk.present or disk.faulty):
            yield _member(disk)


def _member(disk: VolumeDisk) -> MemberStatus:
    return MemberStatus(disk.node or "", disk.number, _flags(disk), None, None, disk.size_bytes // 1024)


def _slice_state(disk: VolumeDisk, window: WindowStatus) -> SliceState:
    number = window.window.number
    if number in disk.working:
        return SliceState.WORKING
    if number in disk.present:
        return SliceState.REBUILDING
    return SliceState.LOST if window.is_lost else SliceState.MISSING


def _flags(disk: VolumeDisk) -> frozenset[str]:
    if disk.working == disk.windows:
        return frozenset({"in_sync"})
    if not disk.present:
        return frozenset({"faulty"})
    return frozenset() if disk.faulty else frozenset({"spare"})


def sync_of(volume: VolumeStatus) -> VolumeSync | None:
    """The running sync of the volume, or None."""
    at_work = [window for window in volume.windows if window.array and window.array.sync_action.is_busy]
    if not at_work:
        return None
    first = at_work[0].array
    assert first is not None
    action = first.sync_action
    if action in (SyncAction.CHECK, SyncAction.REPAIR):
        taking_part = [window for window in volume.windows if window.array]
        done = [window for window in taking_part if window.window.number < at_work[0].window.number]
    else:
        numbers = _rebuilt_numbers(volume) if len(at_work) == 1 else None
        taking_part = [window for window in volume.windows if numbers is None or window.window.number in numbers]
        done = [window for window in taking_part if not (window.is_degraded or _is_owed(window))]
    total = sum(window.window.lines for window in taking_part)
    moved = sum(window.window.lines for window in done)
    moved_part = sum(window.window.lines * _fraction(window) for window in at_work if window not in done)
    sectors = volume.chunk_bytes // SECTOR_BYTES
    return VolumeSync(
        action,
        min(len(done) + 1, len(taking_part)),
        len(taking_part),
        len(at_work),
        SyncProgress(int((moved + moved_part) * sectors), total * sectors),
    )


def _rebuilt_numbers(volume: VolumeStatus) -> frozenset[int] | None:
    """The windows of the disks that are being rebuilt, or None."""
    numbers = frozenset(number for disk in volume.disks if disk.is_incomplete for number in disk.windows)
    return numbers or None


def _is_owed(window: WindowStatus) -> bool:
    return window.array is None or window.array.sync_action.is_busy or window.array.awaits_resync


def _fraction(window: WindowStatus) -> float:
    return window.array.sync_progress.fraction if window.array and window.array.sync_progress else 0.0
