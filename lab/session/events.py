"""Events between two snapshots, as sentences on the machine's time axis. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from lab.arrays.status import ArrayStatus, MemberStatus, SyncAction
from lab.session.monitor import Snapshot


class EventKind(StrEnum):
    """Kinds of events."""

    ARRAY_APPEARED = "array-appeared"
    ARRAY_GONE = "array-gone"
    ARRAY_BROKEN = "array-broken"
    MEMBER_FAULTY = "member-faulty"
    MEMBER_REMOVED = "member-removed"
    MEMBER_ADDED = "member-added"
    MEMBER_IN_SYNC = "member-in-sync"
    DEGRADED = "degraded"
    RESTORED = "restored"
    SYNC_STARTED = "sync-started"
    SYNC_FINISHED = "sync-finished"
    MISMATCH = "mismatch"
    DISK_VANISHED = "disk-vanished"
    DISK_RETURNED = "disk-returned"

    @property
    def weight(self) -> Weight:
        """Whether the event is good, bad or neutral."""
        return _WEIGHTS.get(self, Weight.NEUTRAL)


class Weight(StrEnum):
    """The significance of an event."""

    GOOD = "good"
    BAD = "bad"
    NEUTRAL = "neutral"


_WEIGHTS = {
    EventKind.ARRAY_BROKEN: Weight.BAD,
    EventKind.MEMBER_FAULTY: Weight.BAD,
    EventKind.DEGRADED: Weight.BAD,
    EventKind.DISK_VANISHED: Weight.BAD,
    EventKind.MISMATCH: Weight.BAD,
    EventKind.MEMBER_IN_SYNC: Weight.GOOD,
    EventKind.RESTORED: Weight.GOOD,
    EventKind.DISK_RETURNED: Weight.GOOD,
}


@dataclass(frozen=True, slots=True)
class Event:
    """One event."""

    time_seconds: float
    """On the machine's monotonic clock: time of the snapshot that first showed the event."""
    kind: EventKind
    array: str
    """Empty for events that concern only a disk."""
    device: str
    """Node of the disk; empty for events that concern a whole array."""
    sentence: str


NameOf = Callable[[str], str]


def events_between(before: Snapshot, after: Snapshot, *, name_of: NameOf = lambda node: node) -> tuple[Event, ...]:
    """Events from ``before`` to ``after``, causes before effects. ``name_of`` maps a node to the lab's name."""
    return tuple(_events(before, after, name_of))


def _events(before: Snapshot, after: Snapshot, name_of: NameOf) -> Iterator[Event]:
    now = after.time_seconds
    for kernel in sorted(after.vanished - before.vanished):
        node = f"/dev/{kernel}"
        yield Event(now, EventKind.DISK_VANISHED, "", node, f"{name_of(node)} has vanished")
    for kernel in sorted(before.vanished - after.vanished):
        node = f"/dev/{kernel}"
        yield Event(now, EventKind.DISK_RETURNED, "", node, f"{name_of(node)} is back")
    for status in before.arrays:
        if after.array(status.name) is None:
            yield Event(now, EventKind.ARRAY_GONE, status.name, "", f"{status.name} was stopped")
    for status in after.arrays:
        earlier = before.array(status.name)
        if earlier is None:
            words = f"{status.name} appeared: {status.level} of {status.raid_disks} {status.unit}s"
            yield Event(now, EventKind.ARRAY_APPEARED, status.name, "", words)
            earlier = _unborn(status)
        yield from _array_events(earlier, status, now, name_of)


def _unborn(status: ArrayStatus) -> ArrayStatus:
    """The array without sync and degradation, so that these are reported as events of a new array."""
    return replace(status, sync_action=SyncAction.IDLE, sync_progress=None, degraded_count=0, mismatch_sectors=0)


def _array_events(before: ArrayStatus, after: ArrayStatus, now: float, name_of: NameOf) -> Iterator[Event]:
    name = after.name
    yield from _member_events(before, after, now, name_of)
    if after.degraded_count > before.degraded_count:
        yield Event(now, EventKind.DEGRADED, name, "", f"{name} is degraded: {_missing(after)}")
    if after.state.is_broken and not before.state.is_broken:
        loss = after.loss_words or "it has lost more than it survives"
        yield Event(now, EventKind.ARRAY_BROKEN, name, "", f"{name} is broken: {loss}")
    was, now_is = before.sync_action, after.sync_action
    if was.is_busy and now_is is not was:
        yield Event(now, EventKind.SYNC_FINISHED, name, "", f"the {was.noun} of {name} has ended")
    if now_is.is_busy and now_is is not was:
        yield Event(now, EventKind.SYNC_STARTED, name, "", f"a {now_is.noun} of {name} has begun")
    if before.is_degraded and not after.is_degraded:
        yield Event(now, EventKind.RESTORED, name, "", f"{name} is whole again")
    elif 0 < after.degraded_count < before.degraded_count:
        words = f"{name} is less degraded: {_missing(after)}"
        yield Event(now, EventKind.RESTORED, name, "", words)
    if (after.mismatch_sectors or 0) > (before.mismatch_sectors or 0):
        words = f"{name}: copies or parity differ somewhere in {after.mismatch_sectors} sectors"
        yield Event(now, EventKind.MISMATCH, name, "", words)


def _member_events(before: ArrayStatus, after: ArrayStatus, now: float, name_of: NameOf) -> Iterator[Event]:
    earlier = {member.device: member for member in before.members}
    later = {member.device: member for member in after.members}
    for device, member in later.items():
        yield from _changes(earlier.get(device), member, after, now, name_of(device))
    for device in earlier.keys() - later.keys():
        words = f"{name_of(device)} has left {after.name}"
        yield Event(now, EventKind.MEMBER_REMOVED, after.name, device, words)


def _changes(
    before: MemberStatus | None, after: MemberStatus, status: ArrayStatus, now: float, name: str
) -> Iterator[Event]:
    array, device = status.name, after.device
    if before is None:
        yield Event(now, EventKind.MEMBER_ADDED, array, device, f"{name} has joined {array}")
    if after.is_faulty and not (before and before.is_faulty):
        yield Event(now, EventKind.MEMBER_FAULTY, array, device, status.faulty_sentence(after, name))
    if before and after.is_in_sync and not before.is_in_sync:
        yield Event(now, EventKind.MEMBER_IN_SYNC, array, device, status.in_sync_sentence(after, name))


def _missing(status: ArrayStatus) -> str:
    count = status.degraded_count
    return f"1 {status.unit} is missing" if count == 1 else f"{count} {status.unit}s are missing"
