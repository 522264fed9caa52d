"""From volumes of unequal disks to what widgets show. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from lab.adapt.sketch import SliceRow, slice_rows
from lab.units import human_bytes
from tui.widgets.slice_diagram import SliceCell, SliceLine, SlicePicture, SliceState
from tui.widgets.stripe_diagram import DiagramMember

if TYPE_CHECKING:
    from lab.adapt.state import VolumeDisk, VolumeStatus, WindowStatus
    from lab.adapt.summary import VolumeArray
    from lab.session.volume_preview import VolumePreview
    from tui.state import LabState


def planned_picture(shown: VolumePreview, disks: tuple[str, ...], lost: Collection[str] = ()) -> SlicePicture | None:
    """A volume that does not exist yet; ``lost`` are disks that are thought away."""
    if not shown.rows:
        return None
    failed = {number for number, disk in enumerate(disks) if disk in lost}
    missing = {
        window: sum(disk in failed for disk in disks_in(shown.rows, window)) for window in range(len(shown.widths))
    }

    def state(disk: int, window: int) -> SliceState:
        if disk not in failed:
            return SliceState.WORKING
        return SliceState.LOST if missing[window] > 1 else SliceState.GONE

    lines = tuple(
        SliceLine(
            human_bytes(row.lines * shown.chunk_bytes),
            tuple(
                None if window is None else SliceCell(window, state(disk, window))
                for disk, window in enumerate(row.windows)
            ),
        )
        for row in shown.rows
    )
    members = tuple(DiagramMember(disk, number in failed) for number, disk in enumerate(disks))
    arrays = zip(shown.array_names, shown.widths, strict=True)
    return SlicePicture(members, lines, tuple((name, f"{data}+{parity}") for name, (data, parity) in arrays))


def disks_in(rows: tuple[SliceRow, ...], window: int) -> set[int]:
    """Which disks have a slice in an array."""
    return {disk for row in rows for disk, own in enumerate(row.windows) if own == window}


def lost_arrays(shown: VolumePreview, disks: tuple[str, ...], lost: Collection[str]) -> int:
    """How many arrays inside would lose data without these disks."""
    failed = {number for number, disk in enumerate(disks) if disk in lost}
    return sum(len(failed & disks_in(shown.rows, window)) > 1 for window in range(len(shown.widths)))


def running_picture(state: LabState, status: VolumeArray) -> SlicePicture:
    """A volume as it stands."""
    volume = status.whole
    lines = tuple(
        SliceLine(
            human_bytes(row.lines * volume.chunk_bytes),
            tuple(
                None if number is None else SliceCell(number, _slice_state(volume.disks[disk], volume.windows[number]))
                for disk, number in enumerate(row.windows)
            ),
        )
        for row in slice_rows([each.window for each in volume.windows], len(volume.disks))
    )
    arrays = tuple((each.array.name if each.array else "gone", f"{each.window.width}+1") for each in volume.windows)
    return SlicePicture(tuple(_column(state, disk) for disk in volume.disks), lines, arrays)


def _column(state: LabState, disk: VolumeDisk) -> DiagramMember:
    name = state.disk_name(disk.node) if disk.node else "gone"
    return DiagramMember(name, failed=not disk.present, rebuilding=bool(disk.present) and disk.working != disk.windows)


def _slice_state(disk: VolumeDisk, window: WindowStatus) -> SliceState:
    number = window.window.number
    if number in disk.working:
        return SliceState.WORKING
    if number in disk.present:
        return SliceState.REBUILDING
    return SliceState.LOST if window.is_lost else SliceState.GONE


def inner_lines(status: VolumeArray) -> list[tuple[str, str, str]]:
    """Each array inside: name, width, how it stands."""
    lines = []
    for each in status.whole.windows:
        inner = each.array
        if inner is None:
            lines.append(("gone", f"{each.window.width}+1", "does not run"))
            continue
        words = "lost" if each.is_lost else "degraded" if each.is_degraded else "whole"
        if inner.sync_action.is_busy and inner.sync_progress:
            words = f"{inner.sync_action} {inner.sync_progress.fraction:.0%}"
        lines.append((inner.name, f"{each.window.width}+1", words))
    return lines


def volume_words(volume: VolumeStatus) -> str:
    """``5 arrays inside``."""
    count = len(volume.windows)
    return "1 array inside" if count == 1 else f"{count} arrays inside"


def failing_note(status: VolumeArray, disk: str, node: str) -> str:
    """What becomes of a volume when this disk fails."""
    own = status.whole.disk(node)
    lost = status.whole.broken_by(own)
    if lost:
        arrays = f"{len(lost)} of its {len(status.whole.windows)} arrays"
        return f"{status.name} cannot do without {disk}: after this the data of {arrays} are lost."
    return (
        f"{disk} fails in the {len(own.windows)} arrays of {status.name} that it is in. {status.name} survives this: "
        "it goes on degraded, and the other disks remember which one failed."
    )


def adding_note(status: VolumeArray) -> str:
    """What adding a disk sets going."""
    if status.is_interrupted:
        return "The rebuild goes on where it stopped, one array after another."
    return (
        "The disk takes the place of the one that is missing, in all of its arrays. md rebuilds one after another; "
        "if that is interrupted, the same key goes on with it."
    )
