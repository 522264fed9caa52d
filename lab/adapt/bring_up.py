"""Start the volumes that lie on a lab's disks when it opens, and look at them again later; as for single arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lab.adapt import operations
from lab.adapt.discovery import FoundVolume, discover_volumes
from lab.adapt.state import Stack, read_stack
from lab.arrays.bring_up import BroughtUp, StoppedArrays, start_found
from lab.disks import Lab
from lab.errors import LabError
from lab.plans import Plan


def bring_up_volumes(
    lab: Lab, stopped: StoppedArrays | None, *, on_plan: Callable[[Plan], None] = lambda _: None
) -> BroughtUp:
    """Find the volumes on the lab's disks and, where ``stopped`` is given, start all others."""
    found = discover_volumes(lab.machine, [disk.node for disk in lab.disks if lab.can_hold_data(disk.node)])
    if not found or stopped is None:
        return _sorted(found, read_stack(lab.machine)) if found else BroughtUp()
    return start_found(found, stopped, lambda volume: start_volume(lab, volume, on_plan))


def find_volumes_again(lab: Lab, before: BroughtUp) -> BroughtUp:
    """What lies on the lab's disks now; nothing is started."""
    found = discover_volumes(lab.machine, [disk.node for disk in lab.disks])
    could_not_start = {volume.uuid: volume.refusal for volume in before.refused}
    told = tuple(replace(volume, refusal=volume.refusal or could_not_start.get(volume.uuid, "")) for volume in found)
    return _sorted(told, read_stack(lab.machine)) if found else BroughtUp()


def start_volume(lab: Lab, volume: FoundVolume, on_plan: Callable[[Plan], None]) -> str:
    """Start one volume that was found stopped; returns why it could not be started, or nothing."""
    try:
        plan = volume.start_plan(lab.machine.list_dirs(["/sys/block"])["/sys/block"])
        on_plan(plan)
        lab.execute(plan)
    except LabError as error:
        # What was started in part would keep the disks busy.
        clear_away(lab, volume)
        return error.message
    return ""


def clear_away(lab: Lab, volume: FoundVolume) -> None:
    """Stop whatever runs of a volume, in whatever state it is; nothing is erased."""
    for step in clear_away_plan(volume, read_stack(lab.machine)).steps:
        lab.machine.run(step.argv, check=False)


def clear_away_plan(volume: FoundVolume, stack: Stack) -> Plan:
    """Stop what ``stack`` has of a volume."""
    whole = operations.stop(volume.description, stack.disks_cut(volume.name), stack.arrays.get(volume.name, {}))
    steps = whole.steps if volume.name in stack.volumes else whole.steps[1:]
    if not stack.disks_cut(volume.name):
        steps = steps[:-1]
    return Plan(whole.title, steps)


def _sorted(found: tuple[FoundVolume, ...], stack: Stack) -> BroughtUp:
    running = tuple(replace(volume, refusal="") for volume in found if volume.name in stack.volumes)
    names = {volume.uuid for volume in running}
    others = [volume for volume in found if volume.uuid not in names]
    return BroughtUp(
        running,
        tuple(volume for volume in others if not volume.refusal),
        tuple(volume for volume in others if volume.refusal),
    )
