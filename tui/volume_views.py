"""From volumes of unequal disks to what widgets show. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from lab.arrays.status import SliceState
from lab.units import human_bytes
from tui.widgets.slice_diagram import SliceCell, SliceLine, SlicePicture
from tui.widgets.stripe_diagram import DiagramMember

if TYPE_CHECKING:
    from lab.arrays.preview import ArrayPreview
    from lab.arrays.status import ArrayStatus, MemberStatus
    from tui.state import LabState


def planned_picture(shown: ArrayPreview, disks: tuple[str, ...], lost: Collection[str] = ()) -> SlicePicture | None:
    """A volume that does not exist yet; ``lost`` are disks that are thought away."""
    if not shown.rows:
        return None
    failed = {number for number, disk in enumerate(disks) if disk in lost}
    missing = {window: sum(disk in failed for disk in shown.disks_in(window)) for window in range(len(shown.widths))}

    def state(disk: int, window: int) -> SliceState:
        if disk not in failed:
            return SliceState.WORKING
        return SliceState.LOST if missing[window] > 1 else SliceState.MISSING

    lines = tuple(
        SliceLine(
            human_bytes(row.lines * (shown.chunk_bytes or 0)),
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


def running_picture(state: LabState, status: ArrayStatus) -> SlicePicture | None:
    """An array made of several as it stands; None for another."""
    inside = status.inside
    if inside is None:
        return None
    lines = tuple(
        SliceLine(
            human_bytes(row.lines * (status.chunk_bytes or 0)),
            tuple(
                None if number is None or slice_state is None else SliceCell(number, slice_state)
                for number, slice_state in zip(row.windows, states, strict=True)
            ),
        )
        for row, states in zip(inside.rows, inside.states, strict=True)
    )
    arrays = tuple((each.name or "gone", each.width) for each in inside.arrays)
    return SlicePicture(tuple(_column(state, place) for place in inside.places), lines, arrays)


def _column(state: LabState, place: MemberStatus) -> DiagramMember:
    name = state.disk_name(place.device) if place.device else "gone"
    return DiagramMember(name, failed=place.is_faulty, rebuilding=not (place.is_faulty or place.is_in_sync))


def inner_lines(status: ArrayStatus) -> list[tuple[str, str, str]]:
    """Each array inside: name, width, how it stands."""
    lines = []
    for each in status.inside.arrays if status.inside else ():
        inner = each.array
        if inner is None:
            lines.append(("gone", each.width, "does not run"))
            continue
        words = "lost" if each.is_lost else "degraded" if each.is_degraded else "whole"
        if inner.sync_action.is_busy and inner.sync_progress:
            words = f"{inner.sync_action.noun} {inner.sync_progress.fraction:.0%}"
        lines.append((inner.name, each.width, words))
    return lines
