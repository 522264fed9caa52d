"""New arrays: md's first sync of one looks like a rebuild after a loss, and is told as what it is.

A new RAID 4 or 5 counts as degraded, because md computes its parity by rebuilding the last member (mdadm(8), --create).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.arrays.status import ArrayStatus
    from lab.session.events import Event
    from lab.session.monitor import Snapshot

_LOSSES = ("member-faulty", "member-removed", "array-gone", "array-broken", "disk-vanished")


def first_syncs_told(events: Iterable[Event], look: Snapshot, going_on: set[str]) -> tuple[Event, ...]:
    """The events with those of first syncs in their own words; ``going_on`` is kept up to date."""
    told = []
    for event in events:
        name, kind, status = event.array, event.kind.value, look.array(event.array)
        if kind == "array-appeared" and status and _is_new(status):
            going_on.add(name)
        if name in going_on and kind in _LOSSES:
            going_on.discard(name)
        if name in going_on and status:
            # The arrays inside another become ready one by one: that is told once, of the last.
            is_partial = bool(status.inner) and (
                kind == "member-in-sync" or (kind == "restored" and status.is_degraded)
            )
            if kind == "degraded" or is_partial:
                continue
            words = {
                "array-appeared": event.sentence.replace("appeared", "is there", 1),
                "sync-started": f"md {purpose(status)} (first sync)",
                "sync-finished": f"the first sync of {name} has ended",
                "restored": f"{name} is ready: any one disk may fail now",
            }.get(kind)
            event = replace(event, sentence=words) if words else event
        told.append(event)
    for name in list(going_on):
        status = look.array(name)
        if status is None or not status.owes_sync:
            going_on.discard(name)
    return tuple(told)


def purpose(status: ArrayStatus) -> str:
    """What the first sync is for: ``computes the parity of md0``."""
    if status.has_parity:
        return f"computes the parity of {status.name}"
    return f"makes the copies of {status.name} agree"


def _is_new(status: ArrayStatus) -> bool:
    """Whether md still has to sync it, and each slot has a member or one that md is about to fill."""
    fillers = sum(member.is_rebuilding or member.is_spare for member in status.members)
    is_complete = not any(member.is_faulty for member in status.members) and fillers >= status.degraded_count
    return is_complete and status.owes_sync
