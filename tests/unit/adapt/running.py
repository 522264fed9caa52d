"""Volumes without disks: their labels, and running volumes in which each md array is the captured RAID 5."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

import msgspec

from lab.adapt.kind import VolumeArray, VolumeDisk, WindowStatus, volume_of
from lab.adapt.label import Label, VolumeStage, layout_of, needed_bytes, volume_bytes
from lab.adapt.layout import TierWindow
from lab.adapt.spec import VolumeSpec, new_label
from lab.arrays.status import ArrayState, ArrayStatus, MemberStatus, SyncAction, SyncProgress
from lab.disks import DiskKind, LabDisk
from lab.units import MIB
from tests.unit.session.looks import captured


def disks_of(*mebibytes: float) -> tuple[LabDisk, ...]:
    return tuple(
        LabDisk(name=f"disk{number:02}", kind=DiskKind.FILE, node=f"/dev/ubd{number:02}", size_bytes=int(size * MIB))
        for number, size in enumerate(mebibytes)
    )


# Five windows: one on all disks, and four on the large disks with stripes of two data blocks and one parity block.
EXAMPLE = VolumeSpec(disks_of(60, 60, 60, 60, 30))


def ready_label(spec: VolumeSpec = EXAMPLE) -> Label:
    return msgspec.structs.replace(new_label(spec), stage=VolumeStage.READY, sequence=1)


def labels_on(label: Label, spec: VolumeSpec = EXAMPLE) -> dict[str, Label]:
    """Node -> label, as on all disks of a complete volume."""
    return {
        node: msgspec.structs.replace(label, own_uuid=disk.uuid)
        for node, disk in zip(spec.devices, label.disks, strict=True)
    }


_inner, _label = lru_cache(captured), lru_cache(ready_label)


def running(
    spec: VolumeSpec = EXAMPLE,
    *,
    failed: Iterable[int] = (),
    gone: Iterable[int] = (),
    filled: dict[int, Iterable[int]] | None = None,
    syncing: dict[int, float] | None = None,
    action: SyncAction = SyncAction.RECOVER,
    first_sync: bool = False,
) -> VolumeArray:
    """Return a running volume.

    ``failed`` disks are faulty in all of their windows; ``gone`` disks are no longer members. A disk in ``filled`` is
    in sync only in these windows. ``syncing`` maps each window in which a sync runs to its progress, a fraction.
    """
    label, filled, syncing = _label(spec), filled or {}, syncing or {}
    composition = layout_of(label).composition
    bad, away = frozenset(failed), frozenset(gone)

    def flags(disk: int, window: TierWindow) -> str:
        if disk in bad:
            return "faulty"
        if disk in away:
            return ""
        if first_sync and disk == window.disks[-1]:
            return "spare"
        if disk in filled and window.number not in filled[disk]:
            return "spare" if window.number in syncing else ""
        return "in_sync"

    def array(window: TierWindow) -> ArrayStatus:
        members = tuple(
            MemberStatus(f"/dev/dm-{disk}{window.number}", slot, frozenset({words}), 0, 2048, 30000)
            for slot, disk in enumerate(window.disks)
            if (words := flags(disk, window))
        )
        working = sum(member.is_in_sync for member in members)
        is_busy = window.number in syncing
        return replace(
            _inner("raid5"),
            name=f"md{100 + window.number}",
            state=ArrayState.CLEAN,
            raid_disks=len(window.disks),
            members=members,
            degraded_count=len(window.disks) - working,
            sync_action=action if is_busy else SyncAction.IDLE,
            sync_progress=SyncProgress(int(syncing[window.number] * 1000), 1000) if is_busy else None,
            resync_start_sectors=None,
            mismatch_sectors=0,
        )

    def member(number: int) -> VolumeDisk:
        words = {window.number: flags(number, window) for window in composition.windows if number in window.disks}
        return VolumeDisk(
            number=number,
            node=spec.disks[number].node,
            size_bytes=needed_bytes(label, number),
            windows=tuple(words),
            working=tuple(window for window, word in words.items() if word == "in_sync"),
            present=tuple(window for window, word in words.items() if word in ("in_sync", "spare")),
            faulty=tuple(window for window, word in words.items() if word == "faulty"),
            is_failed=not any(word in ("in_sync", "spare") for word in words.values()),
        )

    return volume_of(
        label,
        tuple(map(member, range(len(spec.disks)))),
        tuple(WindowStatus(window, array(window)) for window in composition.windows),
        size_bytes=volume_bytes(label),
        optimal_io_bytes=label.reference * label.chunk_bytes,
        mapped_name="dm-99",
    )
