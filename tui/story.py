"""The next step: what a newcomer can do now, from building the first array to the verdict. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.state import LabState, Phase

if TYPE_CHECKING:
    from lab.arrays.status import ArrayStatus

_SYNC_WORDS = {
    "resync": "is being made redundant for the first time",
    "recover": "rebuilds",
    "check": "is being checked",
    "repair": "is being repaired",
    "reshape": "changes its shape",
}


def next_step(state: LabState) -> str:
    """One line of markup, keys in bold, that always says what can be done."""
    if state.phase is Phase.OPENING:
        return "The machine is starting; look around meanwhile. [b]F1[/b] explains each screen."
    if state.phase is not Phase.OPEN:
        return "[b]Ctrl+R[/b] starts the machine again. Results are kept."
    if state.look is None:
        return "Looking for arrays."
    status = state.selected
    if status is None:
        return (
            "Nothing is built yet. [b]b[/b] builds a good first RAID 5; [b]2[/b] lets you choose everything yourself."
        )
    return _about(state, status)


def _about(state: LabState, status: ArrayStatus) -> str:
    name = status.name
    has_load = bool(state.load and state.load.is_running)
    if status.sync_action.is_busy:
        doing = _SYNC_WORDS.get(str(status.sync_action), "is busy")
        more = "[b]t[/b] slows it down or lets it run." if has_load else "[b]w[/b] puts a load on it meanwhile."
        return f"{name} {doing}: watch the bar. {more}"
    mark = state.marks.get(name)
    if status.is_degraded:
        return _degraded(state, status)
    if mark is None and not has_load:
        return f"[b]m[/b] writes known data on {name}, so that you can prove later that nothing was lost."
    if mark and mark.verdict and not mark.is_stale and has_load:
        return f"{name} works under load. Select a disk in the rack and press [b]f[/b] to fail it."
    if mark and mark.verdict and not mark.is_stale:
        return "Done: the data are what was written. Try RAID 6 with [b]2[/b], or break two disks."
    if not has_load:
        return f"[b]w[/b] puts a load on {name}; then fail a disk under it with [b]f[/b]."
    return f"{name} works under load. Select one of its disks in the rack and press [b]f[/b] to fail it."


def _degraded(state: LabState, status: ArrayStatus) -> str:
    if status.awaits_rebuild:
        return f"{status.name} has a hole and a spare: the rebuild is about to begin."
    fault = next((member for member in status.members if member.is_faulty), None)
    if state.free_disks:
        spare = state.free_disks[0].name
        return f"{status.name} is degraded and still answers. Press [b]a[/b] to add {spare}: md rebuilds on it at once."
    if fault:
        name = state.disk_name(fault.device)
        return f"{status.name} is degraded. Press [b]x[/b] to take {name} out, then [b]a[/b] to add it anew."
    return f"{status.name} is degraded and no disk is free: 'raidlab disks add' makes more."
