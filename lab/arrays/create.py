"""Plans that start and stop an array, and erase its superblocks."""

from __future__ import annotations

from collections.abc import Sequence

from lab.arrays.names import array_device
from lab.arrays.spec import ArraySpec
from lab.errors import SpecError
from lab.plans import Danger, Plan, Step

ASSEMBLE_TIMEOUT_SECONDS = 60.0


def assemble(name: str, members: Sequence[str], *, force: bool = False) -> Plan:
    """Start an existing array from its members (journal and spares among them).

    ``force`` also takes members whose event counts differ: it may bring back data that is out of date.

    If the array is then read-auto, as on Debian 12, a pending sync waits for the first write (md.rst).
    """
    if not members:
        raise SpecError(f"array {name}: no members to assemble from", hint="name the devices that held the array")
    device = array_device(name)
    options = ("--run", "--force") if force else ("--run",)
    why = "mdadm reads the superblock of each member, puts the members in their slots and starts the array"
    if force:
        why += ", also with members that missed the last writes: what these hold may be out of date"
    step = Step(
        argv=("mdadm", "--assemble", *options, device, *members),
        why=f"{why}.",
        undo=("mdadm", "--stop", device),
        danger=Danger.DATA if force else Danger.NONE,
        writes_devices=tuple(members),
        ignores_partitions=True,
        timeout_seconds=ASSEMBLE_TIMEOUT_SECONDS,
    )
    return Plan(f"Start {name} (assemble)", (step,))


def stop(name: str, members: Sequence[str] = ()) -> Plan:
    """Stop an array; with ``members`` the undo of the step starts it again."""
    device = array_device(name)
    step = Step(
        argv=("mdadm", "--stop", device),
        why="md marks the superblocks as clean and releases the members. The data stay on them.",
        undo=("mdadm", "--assemble", "--run", device, *members) if members else (),
        writes_devices=(device,),
    )
    return Plan(f"Stop {name}", (step,))


def zero_superblocks(devices: Sequence[str]) -> Plan:
    """Erase the md superblock of each device, so that no later assembly finds the old array. Its data stay."""
    steps = (
        Step(
            argv=("mdadm", "--zero-superblock", device),
            why=f"Erases the md superblock on {device}: md no longer recognises it as a member. "
            "The data stay on it until they are overwritten.",
            danger=Danger.ARRAY,
            writes_devices=(device,),
        )
        for device in devices
    )
    return Plan.of("Erase md superblocks", steps)


def destroy(spec: ArraySpec) -> Plan:
    """Stop the array and erase its superblock from every device; no steps for a single disk."""
    if not spec.is_array:
        return Plan("Release the bare disk")
    plan = stop(spec.name) + zero_superblocks(spec.devices)
    return Plan(f"Destroy {spec.name}", plan.steps)
