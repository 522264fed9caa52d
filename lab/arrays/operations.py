"""Operations on existing arrays, and ways to break them, as plans.

Operations start, stop, grow and scrub arrays, and change their members, sync speed limits and bitmaps. Faults make a
disk vanish, slow down, lose its cached writes, or silently change its data. A fault that a kind of disk does not
support is refused.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from lab.arrays.levels import LevelName, array_device, is_device_node, kernel_name, md_path, parse_level
from lab.arrays.spec import Bitmap
from lab.disks import DiskKind, LabDisk
from lab.disks.attaching import (
    PACE,
    connect_steps,
    disconnect_step,
    is_kernel_drive,
    kernel_pace_step,
    kernel_power_step,
    spindle_file,
)
from lab.disks.kinds import all_drive_models, find_drive_model
from lab.errors import DeviceRefused, SpecError
from lab.machine import RUN_FOLDER
from lab.machine.programs import program_files
from lab.plans import Danger, Plan, Step, write_file_step
from lab.units import KIB, SECTOR_BYTES, human_seconds

ASSEMBLE_TIMEOUT_SECONDS = 60.0


def assemble(name: str, members: Sequence[str], *, force: bool = False) -> Plan:
    """Start an existing array from its members, including its journal and spares.

    ``force`` also accepts members whose event counts differ, and whose data may therefore be out of date. If the array
    is read-auto afterwards, as on Debian 12, a pending sync waits for the first write (md.rst).
    """
    if not members:
        raise SpecError(
            f"array {name}: no members to assemble it from were given", hint="name the devices that held the array"
        )
    device = array_device(name)
    options = ("--run", "--force") if force else ("--run",)
    why = "mdadm reads the superblock of each member, puts the members in their slots and starts the array"
    if force:
        why += ", even with members that missed the last writes: their data may be out of date"
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
    """Stop an array; if ``members`` are given, the undo command of the step starts it again."""
    device = array_device(name)
    step = Step(
        argv=("mdadm", "--stop", device),
        why="md marks the superblocks as clean and releases the members. The data stay on them.",
        undo=("mdadm", "--assemble", "--run", device, *members) if members else (),
        writes_devices=(device,),
    )
    return Plan(f"Stop {name}", (step,))


def zero_superblocks(devices: Sequence[str]) -> Plan:
    """Erase the md superblock of each device, so that no later assembly finds the old array. The data stay in place."""
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


def fail(name: str, member: str, *, breaks_array: bool = False) -> Plan:
    """Mark a member as faulty, as md does after a write error.

    With ``breaks_array``, the array does not work without this member. mdadm 4.3 and later refuse to fail it, so the
    plan writes to the member's state file, which has the same effect as mdadm's ioctl (state_store and set_disk_faulty
    in drivers/md/md.c). md returns EBUSY; raid4, raid5 and raid6 lose the member, whereas raid0, raid1 and raid10 keep
    it and become broken.
    """
    if breaks_array:
        folder = f"cd {md_path(name)}/dev-{_kernel_name_word(member)}"
        state = "{ echo faulty > state || grep -E 'faulty|in_sync' state; }"
        why = (
            "The array cannot run without this member. md marks it as faulty all the same, although it returns "
            "'busy', and the array is broken. mdadm --fail up to version 4.2 does the same; later versions refuse to "
            "break an array."
        )
        devices = (array_device(name), member)
        step = Step(("sh", "-c", f"{folder} && {state}"), why, (), Danger.ARRAY, devices)
        # The state is that of array_state_show in drivers/md/md.c. Five seconds allow for a longer safe_mode_delay.
        shown = "for _ in $(seq 50); do grep -q broken ../array_state && break; sleep 0.1; done"
        why = (
            "RAID 0, 1 and 10 keep the member, and show the state broken once their last superblock write has finished."
        )
        wait = Step(("sh", "-c", f"{folder} && {{ grep faulty state || {shown}; }}"), why)
        return Plan(f"Fail {member} in {name}, which breaks {name}", (step, wait))
    why = "md marks the member as faulty. It stays in the list, but is neither read nor written."
    return Plan(f"Fail {member} in {name}", (_manage(name, "--fail", member, why=why),))


def remove(name: str, member: str) -> Plan:
    """Remove a faulty or spare member from the array, once its I/O in flight is complete.

    While I/O is in flight, md returns EBUSY (hot_remove_disk in drivers/md/md.c), and mdadm retries for only 50 ms.
    Therefore the plan waits for up to 30 s, unless the device is gone.
    """
    under_way = f"/sys/class/block/{_kernel_name_word(member)}/inflight"
    waiting = f"for _ in $(seq 300); do grep -q [1-9] {under_way} || break; sleep 0.1; done"
    why_wait = "md can release a member only when no I/O to it is in flight."
    wait = Step(("sh", "-c", waiting), why_wait)
    why = "The disk leaves the array. md releases only members that are faulty or spare."
    undo = ("mdadm", "--manage", array_device(name), "--re-add", member)
    return Plan(f"Remove {member} from {name}", (wait, _manage(name, "--remove", member, why=why, undo=undo)))


def add(name: str, device: str, *, erase_first: bool = False) -> Plan:
    """Add a device as a spare; a degraded array starts to rebuild onto it.

    mdadm turns --add into a re-add if the device still has a matching superblock and the array has a bitmap;
    ``erase_first`` removes that superblock, so that the whole device is rebuilt.
    """
    device_step = _manage(
        name,
        "--add",
        device,
        why="The device becomes a spare; if a member is missing, md starts to rebuild its content on this device.",
        undo=("mdadm", "--manage", array_device(name), "--remove", device),
        danger=Danger.DATA,
    )
    before = zero_superblocks((device,)).steps if erase_first else ()
    return Plan(f"Add {device} to {name}", (*before, device_step))


def re_add(name: str, device: str) -> Plan:
    """Put a former member back in its slot; with a bitmap, only the regions that have changed since are copied."""
    why = "The superblock records the slot, and the bitmap the regions that have changed since. Only these are copied."
    return Plan(f"Put {device} back in {name} (re-add)", (_manage(name, "--re-add", device, why=why),))


def replace(name: str, old: str, new: str, *, is_spare: bool = False) -> Plan:
    """Replace a member by copying it to a new device or a spare (``is_spare``); the array is never degraded."""
    step = Step(
        argv=("mdadm", "--manage", array_device(name), "--replace", old, "--with", new),
        why="md copies the old member to the new one while both are in use, so redundancy is kept throughout.",
        danger=Danger.DATA,
        writes_devices=(array_device(name), old, new),
    )
    before = () if is_spare else add(name, new).steps
    return Plan(f"Replace {old} with {new} in {name}", (*before, step))


def _kernel_name_word(member: str) -> str:
    """Return the kernel name of a member as a shell word; for a device-mapper node, lsblk(8) looks it up."""
    if member.startswith("/dev/mapper/"):
        return f"$(lsblk --nodeps --noheadings --output KNAME {shlex.quote(member)})"
    return shlex.quote(kernel_name(member))


def _manage(
    name: str, action: str, device: str, *, why: str, undo: tuple[str, ...] = (), danger: Danger = Danger.NONE
) -> Step:
    array = array_device(name)
    return Step(("mdadm", "--manage", array, action, device), why, undo, danger, (array, device))


BACKUP_FOLDER = f"{RUN_FOLDER}/backup"
RESHAPE_START_TIMEOUT_SECONDS = 120.0

# A defect in md of Linux 6.12 and 7.2, but not of 6.1 (docs/arrays.md).
_QUIET_START = "Do not read from the array when this begins: newer kernels may then return a different block's data."


def grow_members(name: str, level: str, members: int, added: Sequence[str], spares: Sequence[str] = ()) -> Plan:
    """Add devices, and reshape the array to span its current members, the given ``spares`` and the added devices.

    ``members`` is the current number of slots. Raises SpecError for RAID 10.
    """
    if not added and not spares:
        raise SpecError(f"array {name}: no devices to grow onto were given", hint="name at least one device")
    kind, array = parse_level(level).name, array_device(name)
    if kind is LevelName.SINGLE:
        raise SpecError("a single disk cannot grow", hint="create a raid0 or raid1 array")
    if kind is LevelName.RAID10:
        # On Linux 6.1 the resync of the new part can hang forever, and then the array cannot be stopped either.
        raise SpecError(f"array {name}: raidlab does not grow raid10", hint="create a larger raid10 and copy the data")
    count = members + len(spares) + len(added)
    number = f"--raid-devices={count}"
    if kind is LevelName.RAID0:
        # RAID 0 has no spares, so mdadm goes by way of RAID 4 and takes the new devices in one command (mdadm(8)).
        why = "Without spares, the devices join in the same step. md redistributes every stripe by way of RAID 4."
        grow = ("mdadm", "--grow", array, number, "--add", *added)
        return Plan(f"Grow {name} to {count} members", (_grow(grow, array, added, why),))
    mirrored = "md copies the mirror to the new members." if kind is LevelName.RAID1 else ""
    why = mirrored or f"md redistributes every stripe over all members; the array remains usable. {_QUIET_START}"
    grow = ("mdadm", "--grow", array, number)
    add = _add_steps(array, added, "The new devices become spares, which the reshape can then use.")
    return Plan(f"Grow {name} to {count} members", (*add, _grow(grow, array, spares, why)))


def grow_size(name: str) -> Plan:
    """Use all space on each member after members were replaced by larger ones. md refuses this with policy ppl."""
    array = array_device(name)
    why = "md extends the array to the size of its smallest member, and synchronises the new part."
    step = _grow(("mdadm", "--grow", array, "--size=max"), array, (), why)
    return Plan(f"Grow {name} to the size of its members", (step,))


def grow_level(
    name: str,
    old_level: str,
    new_level: str,
    members: int,
    added: Sequence[str] = (),
    spares: Sequence[str] = (),
) -> Plan:
    """Change the level in place, from raid1 to raid5 or from raid5 to raid6.

    ``members`` is the current number of slots; ``added`` and ``spares`` are the devices that join. Conversion to RAID 5
    requires a RAID 1 of two members. A RAID 5 of two members holds the same bytes as that RAID 1, so no data move.
    Conversion to RAID 6 requires one more device, and a backup file on a different disk.
    """
    old, new = parse_level(old_level).name, parse_level(new_level).name
    if (old, new) == (LevelName.RAID1, LevelName.RAID5):
        return _mirror_to_parity(name, members, added, spares)
    if (old, new) == (LevelName.RAID5, LevelName.RAID6):
        return _second_parity(name, members, added, spares)
    raise SpecError(
        f"array {name}: raidlab cannot convert {old.value} into {new.value}",
        hint="convert a raid1 of two members into raid5, or a raid5 into raid6",
    )


def _mirror_to_parity(name: str, members: int, added: Sequence[str], spares: Sequence[str]) -> Plan:
    if members != 2:
        hint = "convert only a raid1 of two members"
        raise SpecError(f"array {name}: raid1 of {members} members cannot become raid5", hint=hint)
    array = array_device(name)
    why = "In a RAID 5 of two members data and parity are equal, as in a mirror, so nothing has to move."
    step = _grow(("mdadm", "--grow", array, "--level=5"), array, (), why)
    change = Plan(f"Change {name} from raid1 to raid5", (step,))
    return change + grow_members(name, "raid5", 2, added, spares) if added or spares else change


def _second_parity(name: str, members: int, added: Sequence[str], spares: Sequence[str]) -> Plan:
    if len(added) + len(spares) != 1:
        raise SpecError(f"array {name}: converting raid5 to raid6 needs exactly 1 more device", hint="name one device")
    # The backup of the reshape's critical section lies on the machine's own file system.
    array, file = array_device(name), f"{BACKUP_FOLDER}/{name}"
    add = _add_steps(array, added, "The second parity needs one more member; the new device first becomes a spare.")
    folder = Step(("mkdir", "-p", BACKUP_FOLDER), "The backup file must lie outside the array.")
    argv = ("mdadm", "--grow", array, "--level=6", f"--raid-devices={members + 1}", f"--backup-file={file}")
    grow = _detached(argv, file)
    why = f"There is no free space to move stripes to, so each is first saved to the file. {_QUIET_START}"
    return Plan(f"Change {name} from raid5 to raid6", (*add, folder, _grow(grow, array, (*added, *spares), why)))


def _add_steps(array: str, added: Sequence[str], why: str) -> tuple[Step, ...]:
    if not added:
        return ()
    undo = ("mdadm", "--manage", array, "--remove", *added)
    return (Step(("mdadm", "--manage", array, "--add", *added), why, undo, Danger.DATA, (array, *added)),)


def _detached(argv: tuple[str, ...], file: str) -> tuple[str, ...]:
    """Return ``argv`` with its output redirected to a file, which is printed on failure.

    With a backup file, mdadm leaves a background process that drives the reshape and would hold the caller's pipe open.
    """
    log = shlex.quote(f"{file}.log")
    return ("sh", "-c", f"{shlex.join(argv)} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}")


def _grow(argv: tuple[str, ...], array: str, added: Sequence[str], why: str) -> Step:
    danger = Danger.DATA if added else Danger.NONE
    return Step(argv, why, (), danger, (array, *added), RESHAPE_START_TIMEOUT_SECONDS)


SYSTEM_DEFAULT = "system"
"""The value that makes md/sync_speed_min and md/sync_speed_max follow /proc/sys/dev/raid again (md.rst)."""


_SCRUBS = {
    "check": (
        "Check {name}",
        "md reads every stripe, compares copies or parity and counts differences; it rewrites only unreadable blocks.",
    ),
    "repair": (
        "Repair {name}",
        "md makes parity match the data, or the mirrors match the first copy. They then agree, but may be wrong.",
    ),
    "stop": (
        "Stop the scrub of {name}",
        "Writing idle interrupts any sync; a sync that is still needed, such as a rebuild, restarts automatically.",
    ),
}


def scrub(name: str, action: str) -> Plan:
    """Check or repair the whole array (md/mismatch_cnt counts the differences), or stop a scrub. Raises SpecError."""
    if action not in _SCRUBS:
        raise SpecError(f"'{action}' is not a scrub action", hint=f"write one of {', '.join(_SCRUBS)}")
    title, why = _SCRUBS[action]
    path = md_path(name, "sync_action")
    undo = () if action == "stop" else write_file_step(path, "idle", "").argv
    word = "idle" if action == "stop" else action
    step = write_file_step(path, word, why, undo=undo, writes_devices=(array_device(name),))
    return Plan(title.format(name=name), (step,))


def set_sync_speed(name: str, *, minimum_kib_per_second: int | None, maximum_kib_per_second: int | None) -> Plan:
    """Limit the speed of all syncs of this array, in KiB/s per member; None means the system-wide limit."""
    low, high = minimum_kib_per_second, maximum_kib_per_second
    for limit in (low, high):
        if limit is not None and limit < 1:
            hint = "omit it for the system-wide limit"
            raise SpecError(f"array {name}: sync speed {limit} KiB/s is below 1", hint=hint)
    if low is not None and high is not None and low > high:
        raise SpecError(
            f"array {name}: minimum sync speed {low} KiB/s is above the maximum {high} KiB/s", hint="raise the maximum"
        )
    minimum, maximum = (SYSTEM_DEFAULT if limit is None else str(limit) for limit in (low, high))
    steps = (
        _speed(name, "sync_speed_min", minimum, "md lets syncs run at least this fast, even against other I/O."),
        _speed(name, "sync_speed_max", maximum, "md does not let syncs run faster than this, even on idle disks."),
    )
    return Plan(f"Set the sync speed of {name}", steps)


def set_bitmap(name: str, bitmap: Bitmap, *, chunk_bytes: int | None = None) -> Plan:
    """Add or remove a running array's write-intent bitmap; one bit covers ``chunk_bytes`` (None: mdadm's choice)."""
    array = array_device(name)
    on = bitmap is Bitmap.INTERNAL
    why = (
        "md records which regions are being written, so that a resync or a re-add copies only those."
        if on
        else "Without the bitmap writes are cheaper, but an unclean stop means a full resync."
    )
    other = Bitmap.NONE if on else Bitmap.INTERNAL
    # In KiB (mdadm(8)).
    chunk = () if chunk_bytes is None else (f"--bitmap-chunk={chunk_bytes // KIB}",)
    step = Step(
        argv=("mdadm", "--grow", array, f"--bitmap={bitmap.value}", *chunk),
        why=why,
        undo=("mdadm", "--grow", array, f"--bitmap={other.value}"),
        writes_devices=(array,),
    )
    return Plan(f"Set the bitmap of {name} to {bitmap.value}", (step,))


def _speed(name: str, attribute: str, value: str, why: str) -> Step:
    path = md_path(name, attribute)
    undo = write_file_step(path, SYSTEM_DEFAULT, "").argv if value != SYSTEM_DEFAULT else ()
    return write_file_step(path, value, why, undo=undo)


CORRUPTION_BLOCK_BYTES = 4096
OWN_PACE = ""
# Each SCSI host has a scan file; "- - -" means every channel, target and unit (kernel: scsi_mid_low_api).
_RESCAN = Step(
    ("sh", "-c", 'for scan in /sys/class/scsi_host/host*/scan; do echo "- - -" > "$scan"; done'),
    "Every SCSI host scans for disks again; the disk may come back under a different name.",
)
_PCI_RESCAN = write_file_step(
    "/sys/bus/pci/rescan", "1", "The kernel looks for PCI devices again, and finds the disk with its data."
)
_READ_SOON = (
    'for _ in $(seq 100); do dd if="$1" of=/dev/null bs=4K count=1 iflag=direct && exit; sleep 0.1; done; false'
)
_CANNOT_BE_PULLED = {
    DiskKind.FILE: "is part of the embedded kernel, which cannot release a disk in use",
    DiskKind.LOOP: "is a loop device, which stays as long as it is in use",
    DiskKind.RAM: "is memory, which cannot disappear",
    DiskKind.VIRTIO: "can only be unplugged from outside the virtual machine",
}


def pull(disk: LabDisk, *, arrays: Sequence[str] = ()) -> Plan:
    """Make a disk vanish while it is in use. The ``arrays`` are notified, as udev would do.

    ``arrays`` contain the disk and survive its loss. A spindle loses its connection, so that every further I/O fails.
    The kernel deletes a SCSI disk, and deletes a virtio disk of ``qemu:`` together with its PCI device. The data
    remain. Raises DeviceRefused with an alternative if the disk cannot be pulled.
    """
    if disk.kind is DiskKind.SPINDLE:
        step = disconnect_step(disk, "The cable is out, so every further I/O to this drive fails.")
    elif re.fullmatch("sd[a-z]+", disk.kernel_name):
        why = "The kernel drops the disk, as if it had been unplugged while in use."
        step = write_file_step(f"/sys/block/{disk.kernel_name}/device/delete", "1", why, writes_devices=(disk.node,))
    elif _is_pci_disk(disk):
        # The driver is unbound, as by a hot-unplug (Documentation/ABI/testing/sysfs-bus-pci).
        why = "The disk's PCI device is removed, as if it had been unplugged while in use."
        file, writes = f"/sys/block/{disk.kernel_name}/device/../remove", (disk.node,)
        step = write_file_step(file, "1", why, undo=_PCI_RESCAN.argv, writes_devices=writes)
    else:
        reason = _CANNOT_BE_PULLED.get(disk.kind, "cannot be taken off its bus")
        hint = (
            "fail it with 'raidlab array fail', or use emulated drives ('raidlab disks add --kind spindle'), which can "
            "be pulled; on the embedded kernel, only the app can pull them, and they last only while the app is open"
        )
        if disk.kind is DiskKind.VIRTIO:
            hint = "fail it with 'raidlab array fail', or pull it on the computer outside with 'virsh detach-disk'"
        raise DeviceRefused(f"{disk.name} cannot be pulled: it {reason}", hint=hint)
    return Plan.of(f"Pull {disk.name}", [step, *_removal_steps(disk, arrays)])


def _is_pci_disk(disk: LabDisk) -> bool:
    """Whether the disk is a virtio disk of a QEMU machine, which takes the lowest free name when it comes back."""
    return disk.kind is DiskKind.FILE and re.fullmatch("vd[a-z]+", disk.kernel_name) is not None


def plug_in(disk: LabDisk, *, arrays: Sequence[str] = ()) -> Plan:
    """Remove a pulled disk from ``arrays``, which list it as faulty, and bring it back. It does not rejoin them."""
    let_go = (
        Step(
            ("mdadm", "--manage", array_device(name), "--remove", disk.node),
            "md removes the disk, which it still lists as faulty.",
            writes_devices=(array_device(name),),
        )
        for name in arrays
    )
    if disk.kind is DiskKind.SPINDLE:
        back = connect_steps(disk)
    elif _is_pci_disk(disk):
        why = "The disk may not be readable until its driver has set it up."
        back = (_PCI_RESCAN, Step(("sh", "-c", _READ_SOON, "read", disk.node), why))
    else:
        back = (_RESCAN,)
    return Plan.of(f"Plug {disk.name} in again", [*let_go, *back])


def slow(disk: LabDisk, model: str) -> Plan:
    """Slow a spindle down to the speed of ``model``, or let it run at its own (``OWN_PACE``). Raises LabError."""
    if disk.kind is not DiskKind.SPINDLE:
        raise DeviceRefused(
            f"{disk.name} is a {disk.kind} disk, but only the speed of emulated drives can be changed",
            hint="add emulated drives: raidlab disks add --kind spindle --model hdd-7200",
        )
    own = find_drive_model(disk.model)
    slower = find_drive_model(model) if model not in (OWN_PACE, disk.model) else None
    if slower and slower.service_seconds <= own.service_seconds:
        raise SpecError(
            f"{disk.name} answers in {human_seconds(own.service_seconds)}, and drive model {model} is not slower",
            hint="choose a drive model with a longer service time, because a drive can only be slowed down",
        )
    seconds = slower.service_seconds if slower else 0.0
    pace = human_seconds(seconds or own.service_seconds)
    why = f"Requests are let through one by one, so that the drive answers one every {pace}."
    title = f"Slow {disk.name} down to the speed of {model}" if slower else f"Let {disk.name} run at its own pace"
    if is_kernel_drive(disk):
        words = why.replace("Requests are let through one by one, so that the drive", "The drive")
        step = kernel_pace_step(disk, seconds, words if slower else "Its own service time applies again.")
        note = write_file_step(
            spindle_file(disk.name, "pace"),
            f"0 {model}" if slower else "",
            "The lab records which model has this pace.",
        )
        return Plan(title, (step, note))
    files = (spindle_file(disk.name, "pause"), spindle_file(disk.name, "pace"))
    argv = ("python3", "-IS", program_files(PACE).start, *files)
    own_pace = (*argv, "0", "own")
    if not slower:
        return Plan(title, (Step(own_pace, "Requests are no longer held back."),))
    return Plan(title, (Step((*argv, f"{seconds:g}", model), why, own_pace),))


def _removal_steps(disk: LabDisk, arrays: Sequence[str]) -> tuple[Step, ...]:
    """Return the command that udev runs on most systems when a disk has vanished (mdadm(8), --incremental --fail)."""
    if not arrays:
        return ()
    why = "mdadm marks the disk as faulty and removes it, as udev does; otherwise md notices at the next I/O."
    devices = tuple(array_device(name) for name in arrays)
    return (Step(("mdadm", "--incremental", "--fail", disk.kernel_name), why, writes_devices=devices),)


def cut_power(disk: LabDisk) -> Plan:
    """Cut the power to a spindle with a write cache. Raises DeviceRefused for any other disk."""
    mechanics = find_drive_model(disk.model).mechanics if disk.kind is DiskKind.SPINDLE else None
    if mechanics is None or not mechanics.write_cache_bytes:
        known = all_drive_models().items()
        with_cache = [name for name, each in known if each.mechanics and each.mechanics.write_cache_bytes]
        raise DeviceRefused(
            f"{disk.name} has no volatile write cache whose content could be lost",
            hint=f"choose a spindle of a drive model that has one: {', '.join(with_cache) or 'none'}",
        )
    why = "The drive loses all writes that it has acknowledged but not yet written to the medium."
    step = Step(("pkill", "-USR1", "-F", spindle_file(disk.name, "pid")), why, (), Danger.DATA, (disk.node,))
    return Plan(f"Cut the power to {disk.name}", (kernel_power_step(disk, why) if is_kernel_drive(disk) else step,))


def corrupt(member: str, *, data_offset_bytes: int, data_bytes: int, start_bytes: int, length_bytes: int) -> Plan:
    """Overwrite a region of the member's data with random bytes, bypassing md.

    ``start_bytes`` counts from the start of the member's data, which begin ``data_offset_bytes`` into the device and
    are ``data_bytes`` long. The superblock and the bitmap stay intact. Raises SpecError if the region is not inside the
    data, or does not consist of whole 4 KiB blocks.
    """
    _require_region(member, data_offset_bytes, data_bytes, start_bytes, length_bytes)
    block = CORRUPTION_BLOCK_BYTES
    step = Step(
        argv=(
            *("dd", "if=/dev/urandom", f"of={member}", f"bs={block}"),
            *(f"seek={(data_offset_bytes + start_bytes) // block}", f"count={length_bytes // block}"),
            *("oflag=direct", "conv=notrunc,fsync", "status=none"),
        ),
        why="WARNING: this overwrites data behind md's back. On a level without redundancy these data are lost.",
        danger=Danger.DATA,
        writes_devices=(member,),
    )
    return Plan(f"Corrupt {length_bytes} bytes of {member}", (step,))


def list_bad_block(array: str, member: str, sector: int) -> Plan:
    """Add 4 KiB of a member, from this sector of its device, to md's bad-block list, so that they count as unreadable.

    md does the same after a read error that it could not correct (md(4), BAD BLOCK LIST). A line written to
    ``bad_blocks`` adds a block (md.rst). The undo command is a repair: md removes a block from the list once it has
    rewritten the block from redundancy.
    """
    folder = md_path(array, f"dev-{kernel_name(member)}")
    why = "md treats these sectors as unreadable, although the disk can read them."
    mend = write_file_step(md_path(array, "sync_action"), "repair", "").argv
    text, devices = f"{sector} {CORRUPTION_BLOCK_BYTES // SECTOR_BYTES}", (member,)
    noted = write_file_step(f"{folder}/bad_blocks", text, why, undo=mend, danger=Danger.DATA, writes_devices=devices)
    # md writes the list with the superblock, but a new entry alone does not make it write the superblock.
    flags = (
        ("failfast", "A flag of the member is changed, so that md writes the superblock and the list."),
        ("-failfast", "The flag is changed back."),
    )
    flag_steps = (write_file_step(f"{folder}/state", word, why, writes_devices=devices) for word, why in flags)
    return Plan.of(f"Put 4 KiB of {member} on md's bad-block list", [noted, *flag_steps])


def _require_region(member: str, data_offset_bytes: int, data_bytes: int, start_bytes: int, length_bytes: int) -> None:
    problems = []
    if not is_device_node(member):
        problems.append(f"'{member}' is not a device node")
    if data_offset_bytes < 0:
        problems.append("the data offset must not be negative")
    if start_bytes < 0 or length_bytes <= 0 or start_bytes + length_bytes > data_bytes:
        end_bytes = start_bytes + length_bytes
        problems.append(f"bytes {start_bytes} to {end_bytes} are not inside its {data_bytes} bytes of data")
    if any(value % CORRUPTION_BLOCK_BYTES for value in (data_offset_bytes, start_bytes, length_bytes)):
        problems.append(f"offsets and length must be multiples of {CORRUPTION_BLOCK_BYTES} bytes")
    if problems:
        message = f"{member} cannot be corrupted there: {'; '.join(problems)}"
        raise SpecError(message, hint="choose a region within the data")
