"""Plans that make a disk in use vanish or slow, and bring it back. What a kind of disk cannot do is refused."""

from __future__ import annotations

from collections.abc import Sequence

from lab.arrays.names import array_device
from lab.disks import DiskKind, LabDisk
from lab.disks.attaching import PACE_PROGRAM, connect_steps, disconnect_step, pace_note, pause_socket
from lab.disks.personalities import find_personality
from lab.errors import DeviceRefused, SpecError
from lab.faults.catalogue import is_scsi_disk, rescan_step, vanish_step
from lab.plans import Plan, Step
from lab.units import human_seconds

OWN_PACE = ""
_CANNOT_BE_PULLED = {
    DiskKind.FILE: "is part of the embedded kernel, which lets go of no disk in use",
    DiskKind.LOOP: "is a loop device, which stays as long as it is in use",
    DiskKind.RAM: "is memory, which does not go away",
    DiskKind.VIRTIO: "can only be unplugged from outside the virtual machine",
}


def pull(disk: LabDisk, *, arrays: Sequence[str] = ()) -> Plan:
    """The disk vanishes while in use. ``arrays`` hold it and survive: they are told, as udev does where it runs.

    A spindle loses its connection, so that each further I/O fails; a SCSI disk is deleted by the kernel. Data stay.
    Raises DeviceRefused for a disk that cannot vanish, with what can be done instead.
    """
    if disk.kind is DiskKind.SPINDLE:
        gone = disconnect_step(disk, "The cable is out: every further I/O of this drive fails.")
    elif is_scsi_disk(disk.node):
        gone = vanish_step(disk.node)
    else:
        reason = _CANNOT_BE_PULLED.get(disk.kind, "cannot be taken off its bus")
        hint = "'raidlab array fail' fails it; emulated drives can be pulled: raidlab disks add --kind spindle"
        if disk.kind is DiskKind.VIRTIO:
            hint = "'raidlab array fail' fails it; on the computer outside: virsh detach-disk"
        raise DeviceRefused(f"{disk.name} cannot be pulled: it {reason}", hint=hint)
    return Plan.of(f"Pull {disk.name}", [gone, *_tell(disk, arrays)])


def plug_in(disk: LabDisk, *, arrays: Sequence[str] = ()) -> Plan:
    """Bring a pulled disk back; ``arrays`` still list it as faulty and let go of it first. It joins none by itself."""
    let_go = (
        Step(
            ("mdadm", "--manage", array_device(name), "--remove", disk.node),
            "md lets go of the disk, which it still lists as faulty.",
            writes_devices=(array_device(name),),
        )
        for name in arrays
    )
    back = connect_steps(disk) if disk.kind is DiskKind.SPINDLE else (rescan_step(),)
    return Plan.of(f"Plug {disk.name} in again", [*let_go, *back])


def slow(disk: LabDisk, personality: str) -> Plan:
    """Let a spindle serve requests at the pace of another personality, from now on; ``OWN_PACE``: at its own.

    Raises DeviceRefused for another kind of disk, SpecError for a personality that is not slower than its own.
    """
    if disk.kind is not DiskKind.SPINDLE:
        raise DeviceRefused(
            f"{disk.name} is a {disk.kind} disk: only emulated drives have a pace that can be changed",
            hint="'raidlab disks add --kind spindle --personality hdd-7200' adds such drives",
        )
    own = find_personality(disk.personality)
    wanted = find_personality(personality) if personality not in (OWN_PACE, disk.personality) else None
    if wanted and wanted.service_seconds <= own.service_seconds:
        raise SpecError(
            f"{disk.name} answers in {human_seconds(own.service_seconds)} and cannot become a {personality}",
            hint="a drive can only be slowed down; choose a personality with a longer service time",
        )
    seconds = wanted.service_seconds if wanted else 0.0
    pace = human_seconds(seconds or own.service_seconds)
    why = f"Requests are let through one by one, so that the drive answers one every {pace}."
    argv = ("python3", "-IS", PACE_PROGRAM, pause_socket(disk.name), pace_note(disk.name))
    return Plan(
        f"Slow {disk.name} down to a {personality}" if wanted else f"Let {disk.name} run at its own pace",
        (
            Step(
                (*argv, f"{seconds:g}", personality if wanted else "own"),
                why if wanted else "Requests are no longer held back.",
                (*argv, "0", "own") if wanted else (),
            ),
        ),
    )


def _tell(disk: LabDisk, arrays: Sequence[str]) -> tuple[Step, ...]:
    """What udev calls on most systems when a disk has gone (mdadm(8), --incremental --fail)."""
    if not arrays:
        return ()
    why = "md hears that the disk is gone and lets go of it; otherwise it would notice with the next I/O."
    devices = tuple(array_device(name) for name in arrays)
    return (Step(("mdadm", "--incremental", "--fail", disk.kernel_name), why, writes_devices=devices),)
