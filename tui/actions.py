"""What can be done to the selected disk and array: one table for keys, menu, palette, help and parity with the CLI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from lab.adapt.summary import VolumeArray
from tui.state import LabState

if TYPE_CHECKING:
    from lab.arrays.status import ArrayStatus, MemberStatus
    from lab.disks import LabDisk

_REDUNDANT = ("raid1", "raid4", "raid5", "raid6", "raid10", "adapt5", "shr")


class Group(StrEnum):
    """What an action is done to."""

    DISK = "disk"
    ARRAY = "array"


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a user can do on the Lab screen."""

    name: str
    key: str
    label: str
    tooltip: str
    cli: str
    """The words after ``raidlab`` that do the same."""
    group: Group
    applies: Callable[[LabState], bool]
    in_footer: bool = False

    @property
    def id(self) -> str:
        """Stable, for keymaps."""
        return f"lab.{self.name.replace('_', '-')}"


def selected_disk(state: LabState) -> LabDisk | None:
    """The disk under the rack's cursor."""
    return state.disk(state.selected_disk or "")


def selected_member(state: LabState) -> tuple[ArrayStatus, MemberStatus] | None:
    """The selected disk as a member of a running array."""
    disk = selected_disk(state)
    status = state.array_of(disk.name) if disk else None
    if disk is None or status is None:
        return None
    return status, next(member for member in status.members if member.device == disk.node)


def target_array(state: LabState) -> ArrayStatus | None:
    """The array that the selected disk is in, else the selected array."""
    found = selected_member(state)
    return found[0] if found else state.selected


def joining_disk(state: LabState) -> LabDisk | None:
    """The disk to add: the selected one if it is free, else the first free one of the array's kind of size."""
    free = state.free_disks
    chosen = next((disk for disk in free if disk.name == state.selected_disk), None)
    status = target_array(state)
    if isinstance(status, VolumeArray):
        return _joining_volume(state, status, chosen)
    if chosen or status is None or not status.component_bytes:
        return chosen or next(iter(free), None)
    fitting = (disk for disk in free if disk.size_bytes > (status.component_bytes or 0))
    return next(fitting, None)


def _joining_volume(state: LabState, status: VolumeArray, chosen: LabDisk | None) -> LabDisk | None:
    """The disk whose rebuild stands still, else the chosen one, else the smallest free one that fits a place."""
    if status.is_interrupted:
        waiting = {member.device for member in status.members if member.is_rebuilding}
        return next((disk for disk in state.disks if disk.node in waiting), None)
    places = [disk.size_bytes for disk in status.whole.disks if not disk.present]
    if not places or chosen:
        return chosen if places else None
    fitting = [disk for disk in state.free_disks if disk.size_bytes >= min(places)]
    return min(fitting, key=lambda disk: disk.size_bytes, default=None)


def _in_volume(state: LabState) -> bool:
    return isinstance(target_array(state), VolumeArray)


def _is_redundant(state: LabState) -> bool:
    status = target_array(state)
    return bool(state.is_open and status and status.level in _REDUNDANT)


def _has_array(state: LabState) -> bool:
    return state.is_open and target_array(state) is not None


def _working_member(state: LabState) -> bool:
    found = selected_member(state)
    return bool(state.is_open and found and not found[1].is_faulty)


def _present(state: LabState) -> bool:
    disk = selected_disk(state)
    return bool(state.is_open and disk and not _pulled(state))


def _pulled(state: LabState) -> bool:
    disk = selected_disk(state)
    return bool(state.is_open and disk and state.look and disk.kernel_name in state.look.vanished)


def _removable(state: LabState) -> bool:
    found = selected_member(state)
    return bool(state.is_open and found and (found[1].is_faulty or found[1].is_spare))


def _can_add(state: LabState) -> bool:
    status = target_array(state)
    # One disk at a time: its rebuild goes on from array to array.
    if isinstance(status, VolumeArray) and (status.sync_action.is_busy or not status.is_degraded or status.whole.lost):
        return False
    return _is_redundant(state) and joining_disk(state) is not None


def _can_replace(state: LabState) -> bool:
    found = selected_member(state)
    return bool(found and found[1].is_in_sync and not _in_volume(state) and _can_add(state))


def _can_re_add(state: LabState) -> bool:
    """A faulty member, or a disk that has left an array with a bitmap."""
    found = selected_member(state)
    if found:
        return state.is_open and found[1].is_faulty and found[0].has_bitmap
    disk, status = selected_disk(state), target_array(state)
    known = state.found.array(status.name) if state.found and status else None
    return bool(state.is_open and disk and known and disk.node in known.former_devices and status and status.has_bitmap)


def _is_spindle(state: LabState) -> bool:
    disk = selected_disk(state)
    return bool(state.is_open and disk and disk.personality)


def _corruptible(state: LabState) -> bool:
    return _working_member(state) and not _in_volume(state)


def _has_load(state: LabState) -> bool:
    return bool(state.load and state.load.is_running)


def _can_load(state: LabState) -> bool:
    return _has_array(state) and not _has_load(state)


def _has_mark(state: LabState) -> bool:
    status = target_array(state)
    return bool(state.is_open and status and status.name in state.marks)


ACTIONS = (
    Action("load", "w", "Load", "Put a workload on the array: reads and writes until you stop it", "load",
           Group.ARRAY, _can_load, in_footer=True),
    Action("stop_load", "w", "Stop load", "End the workload that runs; its figures are shown", "load",
           Group.ARRAY, _has_load, in_footer=True),
    Action("pull", "p", "Pull", "The selected disk vanishes while in use, as if its cable were pulled", "array pull",
           Group.DISK, _present),
    Action("plug_in", "p", "Plug in", "Bring a pulled disk back; then add or re-add it", "array plug-in",
           Group.DISK, _pulled),
    Action("corrupt", "c", "Corrupt", "Overwrite some of the member's data behind md's back: no error, wrong data",
           "array corrupt", Group.DISK, _corruptible),
    Action("slow", "d", "Slow down", "Let an emulated drive answer more slowly from now on", "disks slow",
           Group.DISK, _is_spindle),
    Action("mark", "m", "Mark", "Write known data on the array, to prove later that nothing was lost", "array mark",
           Group.ARRAY, _has_array),
    Action("verify", "v", "Verify", "Read the known data past all caches: intact, changed or unreadable",
           "array verify", Group.ARRAY, _has_mark),
    Action("fail", "f", "Fail", "Mark the selected disk as faulty, as md does when it stops answering", "array fail",
           Group.DISK, _working_member, in_footer=True),
    Action("remove", "x", "Remove", "Take a faulty disk or a spare out of its array", "array remove",
           Group.DISK, _removable, in_footer=True),
    Action("add", "a", "Add", "Add a disk: a degraded array rebuilds on it, a whole one keeps it as a spare",
           "array add", Group.ARRAY, _can_add, in_footer=True),
    Action("replace", "e", "Replace", "Copy the selected member to a free disk, then retire it", "array replace",
           Group.DISK, _can_replace),
    Action("re_add", "r", "Re-add", "Put a former member back; the bitmap tells what it missed", "array re-add",
           Group.DISK, _can_re_add),
    Action("throttle", "t", "Throttle", "Limit how fast rebuilds and checks run, and see what it does to the load",
           "array speed", Group.ARRAY, _is_redundant, in_footer=True),
    Action("scrub", "s", "Scrub", "Compare copies or parity everywhere (check), or make them agree (repair)",
           "array scrub", Group.ARRAY, _is_redundant),
    Action("stop", "z", "Stop array", "Stop the array; its data stay on the disks", "array stop",
           Group.ARRAY, _has_array),
    Action("destroy", "delete", "Destroy", "Stop the array and erase its superblocks: its data are lost",
           "array destroy", Group.ARRAY, _has_array),
)  # fmt: skip


def applying(state: LabState, group: Group | None = None) -> tuple[Action, ...]:
    """What can be done now."""
    return tuple(each for each in ACTIONS if (group is None or each.group is group) and each.applies(state))


def action_named(name: str) -> Action | None:
    """The action of a key's method."""
    return next((each for each in ACTIONS if each.name == name), None)
