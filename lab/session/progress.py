"""How fast a sync gets on, from looks at it. Pure.

md/sync_speed is an average of the last 30 s, and md moves in bursts: speeds here come from a few seconds of progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.session.monitor import Snapshot
from lab.units import SECTOR_BYTES

RATE_SECONDS = 5.0
"""A sync's speed is taken over so long a stretch."""
LEAST_SECONDS = 1.0
"""What is left is told only after so long a stretch: out of a burst or a pause it would be anything."""


@dataclass(frozen=True, slots=True)
class SyncPace:
    """How fast a sync is, and how long it still takes."""

    bytes_per_second: float
    """Of each member."""
    left_seconds: float | None
    """None while it stands still, and in its first second."""


def sync_pace(looks: Sequence[Snapshot], name: str) -> SyncPace | None:
    """The pace of the sync that the newest look shows; None without one, or with a single look at it."""
    seen = [(look.time_seconds, status) for look in looks if (status := look.array(name))]
    if not seen or seen[-1][1].sync_progress is None:
        return None
    newest_time, newest = seen[-1]
    for time, status in seen:
        before, now = status.sync_progress, newest.sync_progress
        if before is None or now is None or status.sync_action is not newest.sync_action:
            continue
        moved = (now.done_sectors - before.done_sectors) * SECTOR_BYTES
        if time < newest_time and moved >= 0:
            stretch = newest_time - time
            rate = moved / stretch
            left = (now.total_sectors - now.done_sectors) * SECTOR_BYTES
            return SyncPace(rate, left / rate if rate > 0 and stretch >= LEAST_SECONDS else None)
    return None


def recent(looks: Sequence[Snapshot], seconds: float = RATE_SECONDS) -> list[Snapshot]:
    """The newest look and those of the stretch before it, oldest first."""
    oldest = looks[-1].time_seconds - seconds if looks else 0.0
    return [look for look in looks if look.time_seconds >= oldest]
