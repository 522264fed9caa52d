"""Ways to break an array, as plans: a disk vanishes, becomes slow, loses its write cache, or changes silently.

A fault that a kind of disk does not support is refused.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from lab.arrays.names import array_device, is_device_node, kernel_name, md_path
from lab.disks import DiskKind, LabDisk, kernel_drives
from lab.disks.attaching import PACE, connect_steps, disconnect_step, pace_note, pause_socket, pid_file
from lab.disks.drive_models import all_drive_models, find_drive_model
from lab.errors import DeviceRefused, SpecError
from lab.machine.programs import program_files
from lab.plans import Danger, Plan, Step, write_file_step
from lab.units import SECTOR_BYTES, human_seconds

CORRUPTION_BLOCK_BYTES = 4096
OWN_PACE = ""
# Each SCSI host has a scan file; "- - -" means every channel, target and unit (kernel: scsi_mid_low_api).
_RESCAN = Step(
    ("sh", "-c", 'for scan in /sys/class/scsi_host/host*/scan; do echo "- - -" > "$scan"; done'),
    "Every SCSI host looks for disks again; the disk may come back under another name.",
)
_CANNOT_BE_PULLED = {
    DiskKind.FILE: "is part of the embedded kernel, which cannot let go of a disk in use",
    DiskKind.LOOP: "is a loop device, which stays as long as it is in use",
    DiskKind.RAM: "is memory, which does not go away",
    DiskKind.VIRTIO: "can only be unplugged from outside the virtual machine",
}


def pull(disk: LabDisk, *, arrays: Sequence[str] = ()) -> Plan:
    """Make a disk vanish while in use. ``arrays`` contain it and survive: they are notified, as by udev where it runs.

    A spindle loses its connection, so that each further I/O fails; a SCSI disk is deleted by the kernel. Data remain.
    Raises DeviceRefused for a disk that cannot vanish, with an alternative.
    """
    if disk.kind is DiskKind.SPINDLE:
        gone = disconnect_step(disk, "The cable is out: every further I/O of this drive fails.")
    elif re.fullmatch("sd[a-z]+", disk.kernel_name):
        why = "The kernel drops the disk, as if it had been unplugged while in use."
        gone = write_file_step(f"/sys/block/{disk.kernel_name}/device/delete", "1", why)
        gone = replace(gone, writes_devices=(disk.node,))
    else:
        reason = _CANNOT_BE_PULLED.get(disk.kind, "cannot be taken off its bus")
        hint = (
            "'raidlab array fail' fails it; emulated drives ('raidlab disks add --kind spindle') can be pulled: on the "
            "embedded kernel in the app, since there they last as long as it is open"
        )
        if disk.kind is DiskKind.VIRTIO:
            hint = "'raidlab array fail' fails it; on the computer outside: virsh detach-disk"
        raise DeviceRefused(f"{disk.name} cannot be pulled: it {reason}", hint=hint)
    return Plan.of(f"Pull {disk.name}", [gone, *_tell(disk, arrays)])


def plug_in(disk: LabDisk, *, arrays: Sequence[str] = ()) -> Plan:
    """Bring a pulled disk back; ``arrays`` still list it as faulty and release it first. It joins none by itself."""
    let_go = (
        Step(
            ("mdadm", "--manage", array_device(name), "--remove", disk.node),
            "md removes the disk, which it still lists as faulty.",
            writes_devices=(array_device(name),),
        )
        for name in arrays
    )
    back = connect_steps(disk) if disk.kind is DiskKind.SPINDLE else (_RESCAN,)
    return Plan.of(f"Plug {disk.name} in again", [*let_go, *back])


def slow(disk: LabDisk, model: str) -> Plan:
    """Make a spindle serve requests at the pace of another drive model from now on; ``OWN_PACE``: at its own.

    Raises DeviceRefused for another kind of disk, SpecError for a drive model that is not slower than its own.
    """
    if disk.kind is not DiskKind.SPINDLE:
        raise DeviceRefused(
            f"{disk.name} is a {disk.kind} disk: only emulated drives have a pace that can be changed",
            hint="'raidlab disks add --kind spindle --model hdd-7200' adds such drives",
        )
    own = find_drive_model(disk.model)
    wanted = find_drive_model(model) if model not in (OWN_PACE, disk.model) else None
    if wanted and wanted.service_seconds <= own.service_seconds:
        raise SpecError(
            f"{disk.name} answers in {human_seconds(own.service_seconds)} and cannot become a {model}",
            hint="a drive can only be slowed down; choose a drive model with a longer service time",
        )
    seconds = wanted.service_seconds if wanted else 0.0
    pace = human_seconds(seconds or own.service_seconds)
    why = f"Requests are let through one by one, so that the drive answers one every {pace}."
    title = f"Slow {disk.name} down to a {model}" if wanted else f"Let {disk.name} run at its own pace"
    if kernel_drives.is_kernel_drive(disk):
        words = why.replace("Requests are let through one by one, so that the drive", "The drive")
        step = kernel_drives.pace_step(disk, seconds, words if wanted else "Its own service time holds again.")
        note = write_file_step(
            pace_note(disk.name), f"0 {model}" if wanted else "", "The lab records the model of that pace."
        )
        return Plan(title, (step, note))
    argv = ("python3", "-IS", program_files(PACE).start, pause_socket(disk.name), pace_note(disk.name))
    return Plan(
        title,
        (
            Step(
                (*argv, f"{seconds:g}", model if wanted else "own"),
                why if wanted else "Requests are no longer held back.",
                (*argv, "0", "own") if wanted else (),
            ),
        ),
    )


def _tell(disk: LabDisk, arrays: Sequence[str]) -> tuple[Step, ...]:
    """The command that udev runs on most systems when a disk has vanished (mdadm(8), --incremental --fail)."""
    if not arrays:
        return ()
    why = "mdadm marks the disk as faulty and removes it, as udev has it done; otherwise md notices at the next I/O."
    devices = tuple(array_device(name) for name in arrays)
    return (Step(("mdadm", "--incremental", "--fail", disk.kernel_name), why, writes_devices=devices),)


def cut_power(disk: LabDisk) -> Plan:
    """Cut the power of a spindle with a write cache. Raises DeviceRefused for any other disk."""
    mechanics = find_drive_model(disk.model).mechanics if disk.kind is DiskKind.SPINDLE else None
    if mechanics is None or not mechanics.write_cache_bytes:
        known = [name for name, each in all_drive_models().items() if each.mechanics]
        with_cache = [
            name for name in known if (found := all_drive_models()[name].mechanics) and found.write_cache_bytes
        ]
        raise DeviceRefused(
            f"{disk.name} has no volatile write cache that could be lost",
            hint=f"spindles of these drive models have one: {', '.join(with_cache) or 'none'}",
        )
    why = "The drive forgets all writes that it had answered but not yet put on the medium."
    if kernel_drives.is_kernel_drive(disk):
        return Plan(f"Cut the power of {disk.name}", (kernel_drives.power_step(disk, why),))
    return Plan(
        f"Cut the power of {disk.name}",
        (
            Step(
                ("pkill", "-USR1", "-F", pid_file(disk.name)),
                why,
                danger=Danger.DATA,
                writes_devices=(disk.node,),
            ),
        ),
    )


def corrupt(member: str, *, data_offset_bytes: int, data_bytes: int, start_bytes: int, length_bytes: int) -> Plan:
    """Overwrite a region of the member's data with random bytes, bypassing md.

    ``start_bytes`` counts from the start of the member's data, which lies ``data_offset_bytes`` into the device and is
    ``data_bytes`` long, so superblock and bitmap stay intact. Raises SpecError for a region that is not inside the
    data, or not in 4 KiB blocks.
    """
    _require_region(member, data_offset_bytes, data_bytes, start_bytes, length_bytes)
    block = CORRUPTION_BLOCK_BYTES
    step = Step(
        argv=(
            *("dd", "if=/dev/urandom", f"of={member}", f"bs={block}"),
            *(f"seek={(data_offset_bytes + start_bytes) // block}", f"count={length_bytes // block}"),
            *("oflag=direct", "conv=notrunc,fsync", "status=none"),
        ),
        why="WARNING: this overwrites data behind md's back; on a level without redundancy that data is lost.",
        danger=Danger.DATA,
        writes_devices=(member,),
    )
    return Plan(f"Corrupt {length_bytes} bytes of {member}", (step,))


def list_bad_block(array: str, member: str, sector: int) -> Plan:
    """Put 4 KiB of a member, from this sector of its device, on md's bad block list: md treats them as unreadable.

    md does the same after a read error that it could not correct (md(4), BAD BLOCK LIST); md.rst: a line written to
    ``bad_blocks`` is recorded. md removes a block when it can rewrite it from redundancy: the undo.
    """
    folder = md_path(array, f"dev-{kernel_name(member)}")
    why = "md treats these sectors as unreadable, although the disk can read them."
    mend = write_file_step(md_path(array, "sync_action"), "repair", "").argv
    noted = replace(
        write_file_step(f"{folder}/bad_blocks", f"{sector} {CORRUPTION_BLOCK_BYTES // SECTOR_BYTES}", why),
        undo=mend,
        danger=Danger.DATA,
        writes_devices=(member,),
    )
    # md writes the list with the superblock, and a new entry alone does not make it write the superblock.
    flags = (
        ("failfast", "A flag of the member is changed, so that md writes superblock and list."),
        ("-failfast", "And changed back."),
    )
    kept = (replace(write_file_step(f"{folder}/state", word, why), writes_devices=(member,)) for word, why in flags)
    return Plan.of(f"Put 4 KiB of {member} on md's bad-block list", [noted, *kept])


def _require_region(member: str, data_offset_bytes: int, data_bytes: int, start_bytes: int, length_bytes: int) -> None:
    problems = []
    if not is_device_node(member):
        problems.append(f"'{member}' is not a device node")
    if data_offset_bytes <= 0:
        problems.append("the data offset must be above 0: before the data lies the superblock")
    if start_bytes < 0 or length_bytes <= 0 or start_bytes + length_bytes > data_bytes:
        end_bytes = start_bytes + length_bytes
        problems.append(f"bytes {start_bytes} to {end_bytes} are not inside its {data_bytes} bytes of data")
    if any(value % CORRUPTION_BLOCK_BYTES for value in (data_offset_bytes, start_bytes, length_bytes)):
        problems.append(f"offsets and length must be multiples of {CORRUPTION_BLOCK_BYTES} bytes")
    if problems:
        message = f"{member} cannot be corrupted there: {'; '.join(problems)}"
        raise SpecError(message, hint="choose a region of the data")
