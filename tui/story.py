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
    "resync": "is made redundant",
    "recover": "rebuilds",
    "check": "is being checked",
    "repair": "is being repaired",
    "reshape": "changes its shape",
}


def next_step(state: LabState) -> str:
    """One line of markup that says what the user can do now, with keys in bold; at most 76 characters of text."""
    if state.phase is MachinePhase.OPENING:
        return "The machine is starting; look around meanwhile. [b]F1[/b] explains the screen."
    if state.phase is not MachinePhase.OPEN:
        return "[b]Ctrl+R[/b] starts the machine again. Results are kept."
    if state.look is None:
        return "Looking for arrays."
    status = state.selected
    resting = state.resting_arrays
    if status is None and resting:
        return f"{resting[0].name} is stopped, its data are on its disks. [b]Tab[/b] to it, [b]Enter[/b] starts it."
    if status is None:
        return "Nothing is built yet. [b]b[/b] builds a good first RAID 5; [b]2[/b] lets you choose."
    load = state.running_load
    if load and load.phase == "preparing":
        return f"{load.workload} first writes what it will read; a moment."
    return _about(state, status)


def _about(state: LabState, status: ArrayStatus) -> str:
    name = status.name
    has_load = state.running_load is not None
    if condition(state, status)[0] is Tone.BAD:
        return f"{name} has lost more than it survives. [b]Del[/b] clears it away; then build anew."
    if name in state.first_syncs:
        return f"New: md {purpose(status)}. It can be used meanwhile: [b]m[/b] or [b]w[/b]."
    if status.sync_action.is_busy:
        doing = _SYNC_WORDS.get(str(status.sync_action), "is busy")
        more = "[b]t[/b] slows it down." if has_load else "[b]w[/b] puts a load on it."
        return f"{name} {doing}: watch the bar. {more}"
    mark = state.marks.get(name)
    if status.is_degraded:
        return _degraded(state, status)
    if not status.is_redundant:
        return f"{name} has no redundancy: [b]w[/b] loads it, and a failed disk ends it."
    if mark is None:
        return f"[b]m[/b] writes known data on {name}, to prove later that nothing was lost."
    if mark.verdict and mark.is_stale:
        return f"Something has happened to {name} since. [b]v[/b] tells whether its data are intact."
    if mark.verdict and mark.verdict.is_intact and _was_broken(state):
        if not has_load:
            return "Done: the data are what was written. Try RAID 6 with [b]2[/b], or break two."
        return "The data are intact, under load. [b]w[/b] stops the load and shows its figures."
    if mark.verdict and not mark.verdict.is_intact:
        return "The data are not what was written. [b]s[/b] scrubs: it finds where, not which."
    if not has_load:
        return f"[b]w[/b] puts a load on {name}; then fail a disk under it with [b]f[/b]."
    return f"{name} is running. Select one of its disks and press [b]f[/b] to fail it."


def _was_broken(state: LabState) -> bool:
    return any(event.kind.value in ("member-faulty", "disk-vanished") for event in state.events)


def _degraded(state: LabState, status: ArrayStatus) -> str:
    name, disk = status.name, joining_disk(state)
    if disk and status.is_interrupted:
        return f"The rebuild of {name} on {disk.name} stands still. [b]a[/b] goes on with it."
    if status.awaits_rebuild and status.state is ArrayState.READ_AUTO:
        # md(4), start_ro: an assembled array does not start a resync or rebuild before its first write.
        return f"{name} rebuilds from its first write on: [b]m[/b] writes known data on it."
    if status.awaits_rebuild:
        return f"{name} has a hole and a spare: the rebuild is about to begin."
    if disk:
        return f"{name} is degraded and still answers. [b]a[/b] adds {disk.name}: md rebuilds."
    fault = next((member for member in status.members if member.is_faulty), None)
    why = "No free disk is large enough" if state.free_disks else f"{name} is degraded"
    if fault:
        return f"{why}. [b]x[/b] takes {state.disk_name(fault.device)} out, [b]a[/b] then adds it anew."
    if state.free_disks:
        return f"{name} is degraded, and no free disk is large enough for the place."
    return f"{name} is degraded and no disk is free: 'raidlab disks add' makes more."
