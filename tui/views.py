"""Converts the lab's state for the widgets: bays, charts, sync bars, arrays of unequal disks. Does no I/O."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from lab.arrays.status import SliceState, SyncAction
from lab.units import human_bytes
from tui.arrays.rack import Bay, BayState
from tui.look import Tone
from tui.state import FIRST_SYNC, LabState
from tui.widgets.charts import Mark, Series
from tui.widgets.diagrams import DiagramMember, SliceCell, SliceLine, SlicePicture
from tui.widgets.tiles import SyncView

if TYPE_CHECKING:
    from lab.arrays.spec import ArrayPreview
    from lab.arrays.status import ArrayStatus, MemberStatus
    from lab.disks import LabDisk
    from lab.session.monitor import Event, Point

STOPPED = "stopped"
"""The note on a disk whose array is stopped."""
MINUTE_SECONDS = 60.0
_MINUTE_OF_LOOKS = 240
_WINDOWS_SECONDS = (60, 120, 300, 600, 1200, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)
_ABOUT = 1.25
"""A window is chosen for spans up to this factor of its length."""
# In order of priority: a sample with several events is marked with the first of them.
_MARK_WORDS = {
    "array-appeared": "built",
    "array-broken": "broken",
    "disk-vanished": "pulled",
    "member-faulty": "fail",
    "mismatch": "mismatch",
    "disk-returned": "back",
    "restored": "whole",
    "sync-finished": "done",
    "member-added": "add",
    "member-removed": "remove",
    "sync-started": "sync",
}


def bays_of(state: LabState) -> tuple[Bay, ...]:
    """One bay for each disk."""
    return tuple(_bay(state, disk) for disk in state.disks)


def _bay(state: LabState, disk: LabDisk) -> Bay:
    status, member = state.member_of(disk.name) or (None, None)
    resting = next((array for array in state.found_arrays if disk.node in array.devices), None)
    activity = _activity(state, disk.kernel_name)
    is_gone = state.look is not None and disk.kernel_name in state.look.vanished
    shown = BayState.VANISHED if is_gone else member_state(member) if member else BayState.FREE
    is_rebuilding = shown is BayState.REBUILDING and status is not None and status.sync_progress is not None
    note = STOPPED if resting and not member else status.member_note(member) if status and member else ""
    if not status and not resting:
        note = carried_words(state, disk)
    return Bay(
        name=disk.name,
        node=disk.node,
        serial=disk.serial,
        size_bytes=disk.size_bytes,
        model=disk.model or str(disk.kind),
        state=shown,
        array=status.name if status else resting.name if resting else "",
        slot=member.slot if member else None,
        reads_per_second=activity[0],
        writes_per_second=activity[1],
        busy_fraction=activity[2],
        progress=status.sync_progress.fraction if is_rebuilding and status and status.sync_progress else None,
        note=note,
    )


def carried_words(state: LabState, disk: LabDisk) -> str:
    """The contents of a disk that belongs to no array, in words; empty if it is blank."""
    if former := state.former_array(disk):
        return f"was in {former.name}"
    types = ", ".join(state.carried_by(disk))
    return f"carries {types}" if types else ""


def member_state(member: MemberStatus) -> BayState:
    """The state of a member of a running array."""
    # A disk that has failed in some of the inner arrays of an array has no flag.
    if member.is_faulty or not member.flags:
        return BayState.FAULTY
    if member.is_journal:
        return BayState.JOURNAL
    if member.is_rebuilding:
        return BayState.REBUILDING
    return BayState.SPARE if member.is_spare else BayState.MEMBER


def _activity(state: LabState, device: str) -> tuple[float, float, float]:
    """(reads per second, writes per second, busy fraction) of a device."""
    from lab.session.monitor import Measure

    if state.history is None:
        return 0.0, 0.0, 0.0
    now = state.history.now_rate
    return (
        now(device, Measure.READ_IOPS) or 0.0,
        now(device, Measure.WRITE_IOPS) or 0.0,
        now(device, Measure.UTILISATION) or 0.0,
    )


def sync_view(state: LabState, status: ArrayStatus) -> SyncView | None:
    """The bar of the current sync; None if there is none."""
    if status.sync_action.is_busy and status.sync_progress:
        pace = state.history.pace(status.name) if state.history else None
        return SyncView(
            action=_sync_words(state, status),
            fraction=status.sync_progress.fraction,
            bytes_per_second=pace.bytes_per_second if pace else None,
            eta_seconds=pace.left_seconds if pace else None,
        )
    return None


def _sync_words(state: LabState, status: ArrayStatus) -> str:
    """The name of the sync: ``rebuild``, or ``rebuild 2 of 5`` for inner arrays. A first sync is not a rebuild."""
    is_first = status.sync_action is SyncAction.RECOVER and status.name in state.first_syncs
    return f"{FIRST_SYNC if is_first else status.sync_action.noun} {status.sync_place}".strip()


def shown_seconds(state: LabState) -> float:
    """Length of the charts' time axis: a minute, or in virtual time the span of the samples of about a minute.

    It adapts to the pace, and samples taken at another pace remain visible for a while.
    """
    if state.pace is None or state.history is None:
        return MINUTE_SECONDS
    span = state.history.span_seconds(_MINUTE_OF_LOOKS)
    return next((float(seconds) for seconds in _WINDOWS_SECONDS if seconds * _ABOUT >= span), span)


def marks_of(state: LabState, status: ArrayStatus) -> tuple[Mark, ...]:
    """The marks on the time axis for events of an array and of the disks, at most one per sample."""
    nodes = {disk.node for disk in state.disks}
    order = list(_MARK_WORDS)
    shown: dict[float, Event] = {}
    for event in state.events:
        if event.kind.value in order and (event.array == status.name or event.device in nodes):
            other = shown.get(event.time_seconds)
            if other is None or order.index(event.kind.value) < order.index(other.kind.value):
                shown[event.time_seconds] = event
    return tuple(Mark(time, _MARK_WORDS[event.kind.value], tone_of(event)) for time, event in shown.items())


def tone_of(event: Event) -> Tone:
    """The tone of an event."""
    return {"good": Tone.GOOD, "bad": Tone.BAD}.get(event.kind.weight.value, Tone.NOTICE)


def member_series(state: LabState, status: ArrayStatus, seconds: float) -> tuple[Series, ...]:
    """Bytes per second of every member, reads and writes together; six colours are used in turn."""
    from lab.session.monitor import Measure

    history = state.history
    if history is None:
        return ()
    found = []
    for number, member in enumerate(status.members):
        device = member.device.removeprefix("/dev/")
        reads = history.rates(device, Measure.READ_BYTES_PER_SECOND, seconds=seconds)
        writes = history.rates(device, Measure.WRITE_BYTES_PER_SECOND, seconds=seconds)
        found.append(Series(short_name(state.disk_name(member.device)), added(reads, writes), number % 6))
    return tuple(found)


def short_name(disk: str) -> str:
    """A short name for lines with many disks: ``02`` for ``disk02``."""
    return disk.removeprefix("/dev/").removeprefix("disk")


def added(first: Sequence[Point], second: Sequence[Point]) -> list[Point]:
    """The sum of two series; a gap in both remains a gap. If their lengths differ, the first non-empty one."""
    if not first or not second or len(first) != len(second):
        return list(first or second)
    return [
        (time, None if a is None and b is None else (a or 0.0) + (b or 0.0))
        for (time, a), (_, b) in zip(first, second, strict=True)
    ]


def planned_picture(shown: ArrayPreview, disks: tuple[str, ...], lost: Collection[str] = ()) -> SlicePicture | None:
    """The picture of an array of unequal disks that is not built yet; ``lost`` are disks to show as failed."""
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
    """The picture of a running array that consists of inner arrays; None for other arrays."""
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
    """(name, width, condition) of each inner array."""
    lines = []
    for each in status.inside.arrays if status.inside else ():
        inner = each.array
        if inner is None:
            lines.append(("gone", each.width, "not running"))
            continue
        words = "lost" if each.is_lost else "degraded" if each.is_degraded else "whole"
        if inner.sync_action.is_busy and inner.sync_progress:
            words = f"{inner.sync_action.noun} {inner.sync_progress.fraction:.0%}"
        lines.append((inner.name, each.width, words))
    return lines
