"""Waiting for syncs to end: bounded by a time without progress, and by a time overall.

``sync_action`` is idle for an instant before a sync starts and may briefly report recover wrongly, so a state counts
only when it persists and ``degraded`` and ``sync_completed`` agree with it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from lab.arrays.levels import LevelName
from lab.arrays.names import array_device, md_path
from lab.arrays.state import read_array
from lab.arrays.status import ArrayStatus
from lab.errors import WaitTimedOut
from lab.host.clock import Clock, wait_for
from lab.machine.api import Machine

FAR_BETWEEN_SECONDS = 300.0
SETTLE_SECONDS = 0.3
"""How long a consistent state must persist."""

CONTRADICTION_SECONDS = 5.0
"""How long idle must persist to count although a sync is due: broken, frozen or waiting for a first write."""

_STALL_HINT = "look at the sync speed limits and at other load on the machine"


def wait_until_idle(
    machine: Machine,
    name: str,
    *,
    stall_seconds: float = 60.0,
    timeout_seconds: float = 24 * 3600.0,
    on_look: Callable[[ArrayStatus], None] | None = None,
) -> ArrayStatus:
    """Wait until no resync, rebuild, scrub or reshape runs or is about to, and return the settled state.

    Raises WaitTimedOut after ``stall_seconds`` without progress of the sync, or after ``timeout_seconds`` in all.
    """
    clock = _Rests(machine, name)
    steady = _Steady(clock)

    def observe() -> ArrayStatus:
        status = read_array(machine, name)
        clock.is_busy = status.sync_action.is_busy
        if on_look:
            on_look(status)
        is_expected = status.awaits_rebuild or status.awaits_resync
        is_idle = _is_idle(status) and not _is_on_its_way_to_raid0(machine, status)
        steady.note(is_idle, CONTRADICTION_SECONDS if is_expected else SETTLE_SECONDS)
        return status

    deadline = clock.monotonic_seconds() + timeout_seconds
    mark: tuple[object, ...] = ()

    def is_reached_or_moved(status: ArrayStatus) -> bool:
        return steady.is_reached or _progress_mark(status) != mark

    while True:
        left = deadline - clock.monotonic_seconds()
        seen = wait_for(
            observe,
            is_reached_or_moved,
            what=f"{name} to become idle",
            timeout_seconds=max(0.0, min(left, stall_seconds)),
            clock=clock,
            hint=_STALL_HINT,
        )
        if steady.is_reached:
            return seen
        if clock.monotonic_seconds() >= deadline:
            message = f"{name} was still busy after {timeout_seconds:g} s; last seen: {seen}"
            raise WaitTimedOut(message, hint=_STALL_HINT)
        mark = _progress_mark(seen)
        clock.sleep(0.05)


class _Rests:
    """The machine's clock, for polling an array.

    In virtual time, where a query costs more than hours of waiting, a busy array is polled rarely: md notifies changes
    of its sync action (sysfs_notify in drivers/md/md.c). Polling takes no virtual time.
    """

    def __init__(self, machine: Machine, name: str) -> None:
        self._machine = machine
        self._until = (f"{md_path(name)}/sync_action",)
        self._now_seconds = machine.sleep(0) if machine.facts.is_virtual_time else None
        self.is_busy = False

    def monotonic_seconds(self) -> float:
        return self._machine.clock.monotonic_seconds() if self._now_seconds is None else self._now_seconds

    def utc_now(self) -> datetime:
        return self._machine.clock.utc_now()

    def sleep(self, seconds: float) -> None:
        if self._now_seconds is None:
            self._machine.clock.sleep(seconds)
        elif self.is_busy:
            self._now_seconds = self._machine.sleep(FAR_BETWEEN_SECONDS, until=self._until)
        else:
            self._now_seconds = self._machine.sleep(max(seconds, SETTLE_SECONDS))


class _Steady:
    """Whether a condition has held long enough without interruption."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None
        self.is_reached = False

    def note(self, holds: bool, needed_seconds: float) -> None:
        now = self._clock.monotonic_seconds()
        if not holds:
            self._since = None
        elif self._since is None:
            self._since = now
        self.is_reached = self._since is not None and now - self._since >= needed_seconds


def _is_idle(status: ArrayStatus) -> bool:
    return not status.sync_action.is_busy and status.sync_progress is None and status.reshape_position_sectors is None


def _is_on_its_way_to_raid0(machine: Machine, status: ArrayStatus) -> bool:
    """Whether an mdadm process has yet to convert an array that grew by way of RAID 4 back to RAID 0.

    It does so after the last stripe has been moved, from 4.4 on five seconds later (impose_level in its Grow.c). Until
    then the array is idle, and in md's files a RAID 4 without parity member: only the process shows the difference.
    """
    if status.level != LevelName.RAID4 or not status.degraded_count:
        return False
    grows = rf"^([^ ]*/)?mdadm --grow (.* )?{array_device(status.name)}( |$)"
    return machine.run(("pgrep", "-f", grows), check=False).status == 0


def _progress_mark(status: ArrayStatus) -> tuple[object, ...]:
    """Values that change while a sync makes progress, and only then."""
    return (status.sync_action, status.sync_progress, status.degraded_count, status.reshape_position_sectors)
