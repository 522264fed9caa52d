"""Suggests the next step to a new user, from the first array to the verdict. Does no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lab.arrays.status import ArrayState
from tui.arrays.actions import joining_disk
from tui.look import Tone
from tui.state import LabState, MachinePhase, condition, purpose

if TYPE_CHECKING:
    from lab.arrays.status import ArrayStatus

_SYNC_WORDS = {
    "resync": "is being resynced",
    "recover": "is being rebuilt",
    "check": "is being checked",
    "repair": "is being repaired",
    "reshape": "is being reshaped",
}


def next_step(state: LabState) -> str:
    """One line of markup that says what the user can do now, with keys in bold; at most 76 characters of text."""
    if state.phase is MachinePhase.OPENING:
        return "The machine is starting. [b]F1[/b] explains the screen."
    if state.phase is not MachinePhase.OPEN:
        return "[b]Ctrl+R[/b] restarts the machine. Stored results are not affected."
    if state.look is None:
        return "Looking for arrays …"
    status = state.selected
    resting = state.resting_arrays
    if status is None and resting:
        return f"{resting[0].name} is stopped; its data are on its disks. [b]Tab[/b] selects, [b]Enter[/b] starts it."
    if status is None:
        return "No array yet. [b]b[/b] creates a RAID 5 to start with; [b]2[/b] offers all choices."
    load = state.running_load
    if load and load.phase == "preparing":
        return f"{load.workload} first writes the data that it will read."
    return _about(state, status)


def _about(state: LabState, status: ArrayStatus) -> str:
    name = status.name
    has_load = state.running_load is not None
    if condition(state, status)[0] is Tone.BAD:
        return f"{name} has lost too many disks. [b]Del[/b] removes it; then create a new one."
    if name in state.first_syncs:
        return f"New: md {purpose(status)}. The array can be used: [b]m[/b] or [b]w[/b]."
    if status.sync_action.is_busy:
        activity = _SYNC_WORDS.get(str(status.sync_action), "is busy")
        more = "[b]t[/b] slows it down." if has_load else "[b]w[/b] starts a load on it."
        return f"{name} {activity}. {more}"
    mark = state.marks.get(name)
    if status.is_degraded:
        return _degraded(state, status)
    if not status.is_redundant:
        return f"{name} has no redundancy: one failed disk loses data. [b]w[/b] starts a load."
    if mark is None:
        return f"[b]m[/b] writes known data on {name}, to verify later that nothing was lost."
    if mark.verdict and mark.is_stale:
        return f"{name} has changed since the last check. [b]v[/b] verifies its data again."
    if mark.verdict and mark.verdict.is_intact and _was_broken(state):
        if not has_load:
            return "Done: the data are intact. Try RAID 6 with [b]2[/b], or fail two disks."
        return "The data are intact, under load. [b]w[/b] stops the load and shows its figures."
    if mark.verdict and not mark.verdict.is_intact:
        return "The data have changed. [b]s[/b] scrubs to find where, but not on which disk."
    if not has_load:
        return f"[b]w[/b] starts a load on {name}; then fail a disk with [b]f[/b]."
    return f"{name} is running. Select one of its disks and press [b]f[/b] to fail it."


def _was_broken(state: LabState) -> bool:
    return any(event.kind.value in ("member-faulty", "disk-vanished") for event in state.events)


def _degraded(state: LabState, status: ArrayStatus) -> str:
    name, disk = status.name, joining_disk(state)
    if disk and status.is_interrupted:
        return f"The rebuild of {name} on {disk.name} is interrupted. [b]a[/b] resumes it."
    if status.awaits_rebuild and status.state is ArrayState.READ_AUTO:
        # md(4), start_ro: an assembled array does not start a resync or rebuild before its first write.
        return f"{name} starts to rebuild at its first write: [b]m[/b] writes known data."
    if status.awaits_rebuild:
        return f"{name} misses a member and has a spare: the rebuild is about to start."
    if disk:
        return f"{name} is degraded and still works. [b]a[/b] adds {disk.name}, and md rebuilds."
    fault = next((member for member in status.members if member.is_faulty), None)
    why = "No free disk is large enough" if state.free_disks else f"{name} is degraded"
    if fault:
        return f"{why}. [b]x[/b] removes {state.disk_name(fault.device)}, then [b]a[/b] adds it again."
    if state.free_disks:
        return f"{name} is degraded, and no free disk is large enough."
    return f"{name} is degraded and no disk is free: 'raidlab disks add' creates more."
