"""From the lab's state to what widgets show: bays, charts, tiles, volumes of unequal disks. Pure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from lab.arrays.status import SliceState, SyncAction
from lab.units import human_bytes
from tui.state import LabState
from tui.tones import FIRST_SYNC, Tone
from tui.widgets.bars import SyncView
from tui.widgets.rack import Bay, BayState
from tui.widgets.slice_diagram import SliceCell, SliceLine, SlicePicture
from tui.widgets.stripe_diagram import DiagramMember
from tui.widgets.time_chart import Mark, Series

if TYPE_CHECKING:
    from lab.arrays.preview import ArrayPreview
    from lab.arrays.status import ArrayStatus, MemberStatus
    from lab.disks import LabDisk
    from lab.session.events import Event
    from lab.session.history import Point
    from tui.state import LabState

STOPPED = "stopped"
"""Note of a disk whose array does not run."""
MINUTE_SECONDS = 60.0
_MINUTE_OF_LOOKS = 240
_WINDOWS_SECONDS = (60, 120, 300, 600, 1200, 1800, 3600, 7200, 18_000, 36_000, 72_000, 180_000, 360_000)
_ABOUT = 1.25
"""So much longer a stretch still counts as that window's."""
# In the order of what a look with several of them is named after.
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
    """Every disk as a bay."""
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
    """What is on a disk that no array has; empty where nothing is."""
    if former := state.former_array(disk):
        return f"was in {former.name}"
    types = ", ".join(state.carried_by(disk))
    return f"carries {types}" if types else ""


def member_state(member: MemberStatus) -> BayState:
    """What a member of a running array is."""
    # A disk of a volume that has failed in some of its arrays has no flag.
    if member.is_faulty or not member.flags:
        return BayState.FAULTY
    if member.is_journal:
        return BayState.JOURNAL
    if member.is_rebuilding:
        return BayState.REBUILDING
    return BayState.SPARE if member.is_spare else BayState.MEMBER


def _activity(state: LabState, device: str) -> tuple[float, float, float]:
    """Reads and writes per second, and how busy."""
    from lab.session.history import Measure

    if state.history is None:
        return 0.0, 0.0, 0.0
    now = state.history.now_rate
    return (
        now(device, Measure.READ_IOPS) or 0.0,
        now(device, Measure.WRITE_IOPS) or 0.0,
        now(device, Measure.UTILISATION) or 0.0,
    )


def sync_view(state: LabState, status: ArrayStatus) -> SyncView | None:
    """The bar of a sync that runs or is due."""
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
    """``rebuild``, ``rebuild 2 of 5``: one array inside after another. A first sync is no rebuild."""
    is_first = status.sync_action is SyncAction.RECOVER and status.name in state.first_syncs
    return f"{FIRST_SYNC if is_first else status.sync_action.noun} {status.sync_place}".strip()


def shown_seconds(state: LabState) -> float:
    """How much of the machine's time the charts show: a minute, in virtual time what some minute of looks has brought.

    It follows the pace, and what was seen at another pace stays in sight for a while.
    """
    if state.pace is None or state.history is None:
        return MINUTE_SECONDS
    span = state.history.span_seconds(_MINUTE_OF_LOOKS)
    return next((float(seconds) for seconds in _WINDOWS_SECONDS if seconds * _ABOUT >= span), span)


def marks_of(state: LabState, status: ArrayStatus) -> tuple[Mark, ...]:
    """What happened to an array and its disks, for the charts' axis. One cause, one mark."""
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
    """How an event is to be taken."""
    return {"good": Tone.GOOD, "bad": Tone.BAD}.get(event.kind.weight.value, Tone.NOTICE)


def member_series(state: LabState, status: ArrayStatus, seconds: float) -> tuple[Series, ...]:
    """Bytes per second of every member, reads and writes together; the six busiest colours are used in turn."""
    from lab.session.history import Measure

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
    """``disk02`` as ``02``, where many stand in one line."""
    return disk.removeprefix("/dev/").removeprefix("disk")


def added(first: Sequence[Point], second: Sequence[Point]) -> list[Point]:
    """Two series on one axis as their sum; a gap in both stays a gap."""
    if not first or not second or len(first) != len(second):
        return list(first or second)
    return [
        (time, None if a is None and b is None else (a or 0.0) + (b or 0.0))
        for (time, a), (_, b) in zip(first, second, strict=True)
    ]


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
