"""A volume as one array whose members are its disks: for everybody who looks at arrays, such as the app. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from lab.adapt.state import VolumeDisk, VolumeStatus, WindowStatus
from lab.arrays.spec import METADATA_VERSION
from lab.arrays.status import ArrayState, ArrayStatus, MemberStatus, SyncAction, SyncProgress
from lab.units import SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class VolumeSync:
    """What md does inside a volume, over all arrays that take part in it."""

    action: SyncAction
    number: int
    """Which of them is at work, counted from 1."""
    count: int
    """How many take part: for a rebuild those that the disk is in."""
    at_once: int
    """How many are at work: first syncs run at the same time, everything else one after another."""
    progress: SyncProgress

    @property
    def is_last(self) -> bool:
        return self.number >= self.count

    @property
    def place_words(self) -> str:
        """``2 of 5``: which of the arrays; empty where it says nothing."""
        return "" if self.at_once > 1 or self.count < 2 else f"{self.number} of {self.count}"


@dataclass(frozen=True, slots=True)
class VolumeArray(ArrayStatus):
    """One look at a volume in the terms of an array. ``degraded_count`` counts disks, wherever one is missing.

    A member is *faulty* when it works in none of its arrays; in sync when it works in all.
    """

    volume: VolumeStatus | None = None
    sync: VolumeSync | None = None

    @property
    def whole(self) -> VolumeStatus:
        """The volume, which every look at one has."""
        assert self.volume is not None
        return self.volume

    @property
    def device(self) -> str:
        return self.whole.device

    @property
    def is_interrupted(self) -> bool:
        """Whether a disk has its place, but some array does not have it yet, and nothing rebuilds."""
        return any(_is_incomplete(disk) for disk in self.whole.disks) and not self.sync_action.is_busy


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


def with_progress(array: VolumeArray, progress: Mapping[str, SyncProgress]) -> VolumeArray:
    """The same with finer progress of the arrays inside, by md name."""
    before = array.whole.windows
    after = tuple(_refreshed(window, progress) for window in before)
    return array if after == before else as_array(replace(array.whole, windows=after))


def _refreshed(window: WindowStatus, progress: Mapping[str, SyncProgress]) -> WindowStatus:
    inner = window.array
    if inner is None or inner.name not in progress or not inner.sync_action.is_busy:
        return window
    return replace(window, array=replace(inner, sync_progress=progress[inner.name]))


def _state(volume: VolumeStatus) -> ArrayState:
    if volume.lost:
        return ArrayState.BROKEN
    states = {window.array.state for window in volume.windows if window.array}
    order = (ArrayState.READ_AUTO, ArrayState.ACTIVE, ArrayState.WRITE_PENDING, ArrayState.ACTIVE_IDLE)
    return next((state for state in order if state in states), ArrayState.CLEAN)


def _members(volume: VolumeStatus) -> Iterable[MemberStatus]:
    for disk in volume.disks:
        # A failed disk that nothing holds any more is no member: its place is empty.
        if disk.node is None or not (disk.present or disk.faulty):
            continue
        yield MemberStatus(disk.node, disk.number, _flags(disk), None, None, disk.size_bytes // 1024)


def _flags(disk: VolumeDisk) -> frozenset[str]:
    if disk.working == disk.windows:
        return frozenset({"in_sync"})
    if not disk.present:
        return frozenset({"faulty"})
    return frozenset() if disk.faulty else frozenset({"spare"})


def _is_incomplete(disk: VolumeDisk) -> bool:
    """Whether a disk has its place, and is being filled or waits for it."""
    return bool(disk.present) and disk.working != disk.windows and not disk.faulty


def sync_of(volume: VolumeStatus) -> VolumeSync | None:
    """What md does inside; None while it does nothing."""
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
    """The arrays of the disks that are being filled; None where there are none."""
    numbers = frozenset(number for disk in volume.disks if _is_incomplete(disk) for number in disk.windows)
    return numbers or None


def _is_owed(window: WindowStatus) -> bool:
    return window.array is None or window.array.sync_action.is_busy or window.array.awaits_resync


def _fraction(window: WindowStatus) -> float:
    return window.array.sync_progress.fraction if window.array and window.array.sync_progress else 0.0
