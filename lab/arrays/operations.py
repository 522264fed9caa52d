"""Operations on existing arrays as plans: whole arrays, members, shape, scrubs, sync speed limits and the bitmap."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence

from lab.arrays.level_names import parse_level
from lab.arrays.levels import LevelName
from lab.arrays.names import array_device, kernel_name, md_path
from lab.arrays.spec import ArraySpec, Bitmap
from lab.errors import SpecError
from lab.machine import RUN_FOLDER
from lab.plans import Danger, Plan, Step, write_file_step
from lab.units import KIB

ASSEMBLE_TIMEOUT_SECONDS = 60.0


def assemble(name: str, members: Sequence[str], *, force: bool = False, options: Sequence[str] | None = None) -> Plan:
    """Start an existing array from its members (journal and spares among them).

    ``force`` also takes members whose event counts differ: it may bring back data that is out of date. ``options``
    replaces mdadm's options ``--run`` and, with ``force``, ``--force``.

    If the array is then read-auto, as on Debian 12, a pending sync waits for the first write (md.rst).
    """
    if not members:
        raise SpecError(f"array {name}: no members to assemble from", hint="name the devices that held the array")
    device = array_device(name)
    if options is None:
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


def fail(name: str, member: str, *, breaks_array: bool = False) -> Plan:
    """Mark a member as faulty, as md does after a write error.

    ``breaks_array``: the array does not work without this member. mdadm refuses this from 4.3 on, so the plan writes to
    the member's state file, which has the same effect as mdadm's ioctl (Linux: state_store and set_disk_faulty in
    drivers/md/md.c). md returns EBUSY; raid4, raid5 and raid6 lose the member, raid0, raid1 and raid10 keep it and
    become broken.
    """
    if breaks_array:
        folder = f"cd {md_path(name)}/dev-{_kernel_name_word(member)}"
        state = "{ echo faulty > state || grep -E 'faulty|in_sync' state; }"
        why = (
            "The array cannot work without this member. md marks it all the same: it answers busy, and the array is "
            "broken. mdadm --fail does the same up to version 4.2; from 4.3 on it refuses to break an array."
        )
        devices = (array_device(name), member)
        step = Step(("sh", "-c", f"{folder} && {state}"), why, (), Danger.ARRAY, devices)
        # array_state_show in drivers/md/md.c; five seconds allow for an increased safe_mode_delay.
        shown = "for _ in $(seq 50); do grep -q broken ../array_state && break; sleep 0.1; done"
        why = "RAID 0, 1 and 10 keep the member, and show the state broken once their last superblock write is over."
        wait = Step(("sh", "-c", f"{folder} && {{ grep faulty state || {shown}; }}"), why)
        return Plan(f"Fail {member} in {name}, which breaks {name}", (step, wait))
    why = "md marks the member as faulty: it stays in the list, but is neither read nor written."
    return Plan(f"Fail {member} in {name}", (_manage(name, "--fail", member, why=why),))


def remove(name: str, member: str) -> Plan:
    """Remove a faulty or spare member from the array, once its I/O in flight is complete.

    Until then md returns EBUSY (hot_remove_disk in drivers/md/md.c), for which mdadm waits only 50 ms. The wait ends
    after 30 s, or at once if the device is gone.
    """
    under_way = f"/sys/class/block/{_kernel_name_word(member)}/inflight"
    waiting = f"for _ in $(seq 300); do grep -q [1-9] {under_way} || break; sleep 0.1; done"
    why_wait = "md can release a member only when no I/O to it is in flight."
    wait = Step(("sh", "-c", waiting), why_wait)
    why = "The disk leaves the array. md releases only members that are faulty or spare."
    undo = ("mdadm", "--manage", array_device(name), "--re-add", member)
    return Plan(f"Remove {member} from {name}", (wait, _manage(name, "--remove", member, why=why, undo=undo)))


def add(name: str, device: str, *, erase_first: bool = False) -> Plan:
    """Add a device: it becomes a spare, and a degraded array starts to rebuild on it.

    mdadm turns --add into a re-add if the device still has a matching superblock and the array has a bitmap;
    ``erase_first`` removes that superblock, so that the whole device is rebuilt.
    """
    device_step = _manage(
        name,
        "--add",
        device,
        why="The device becomes a spare; if a member is missing, md rebuilds its content on this device at once.",
        undo=("mdadm", "--manage", array_device(name), "--remove", device),
        danger=Danger.DATA,
    )
    before = zero_superblocks((device,)).steps if erase_first else ()
    return Plan(f"Add {device} to {name}", (*before, device_step))


def re_add(name: str, device: str) -> Plan:
    """Put a former member back in its slot; with a bitmap only the regions that changed meanwhile are copied."""
    why = "The superblock says which slot this was, the bitmap which regions changed meanwhile: only these are copied."
    return Plan(f"Put {device} back in {name} (re-add)", (_manage(name, "--re-add", device, why=why),))


def replace(name: str, old: str, new: str, *, is_spare: bool = False) -> Plan:
    """Copy a working member to a new device and then retire it; the array is never degraded meanwhile.

    ``is_spare``: ``new`` is already a spare of the array.
    """
    step = Step(
        argv=("mdadm", "--manage", array_device(name), "--replace", old, "--with", new),
        why="md copies the old member to the new one while both are in use, so redundancy is kept throughout.",
        danger=Danger.DATA,
        writes_devices=(array_device(name), old, new),
    )
    before = () if is_spare else add(name, new).steps
    return Plan(f"Replace {old} by {new} in {name}", (*before, step))


def _kernel_name_word(member: str) -> str:
    """The kernel name of a member, as a shell word: the nodes of the device mapper have different names."""
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

# A defect of md in Linux 6.12 and 7.2, not in 6.1: docs/arrays.md.
_QUIET_START = "Let nothing read it at the moment this begins: newer kernels may then return another block's data."


def grow_members(name: str, level: str, members: int, added: Sequence[str], spares: Sequence[str] = ()) -> Plan:
    """Add devices and reshape the array onto its members, those of its ``spares`` that join, and the added ones.

    ``members`` is the present number of slots. Raises SpecError for RAID 10.
    """
    if not added and not spares:
        raise SpecError(f"array {name}: no devices to grow on", hint="name at least one device")
    kind, array = parse_level(level).name, array_device(name)
    if kind is LevelName.SINGLE:
        raise SpecError("a single disk cannot grow", hint="create a raid0 or raid1 array")
    if kind is LevelName.RAID10:
        # On Linux 6.1 the resync of the new part can hang forever, and then the array cannot be stopped either.
        raise SpecError(f"array {name}: the lab does not grow raid10", hint="create a larger raid10 and copy the data")
    count = members + len(spares) + len(added)
    number = f"--raid-devices={count}"
    if kind is LevelName.RAID0:
        # RAID 0 has no spares: mdadm passes through RAID 4 and takes the new devices in one command (mdadm(8), --grow).
        why = "Without spares the devices join in the same step; md spreads every stripe anew by way of RAID 4."
        grow = ("mdadm", "--grow", array, number, "--add", *added)
        return Plan(f"Grow {name} to {count} members", (_grow(grow, array, added, why),))
    mirrored = "md copies the mirror to the new members." if kind is LevelName.RAID1 else ""
    why = mirrored or f"md spreads every stripe anew over all members; the array can be used meanwhile. {_QUIET_START}"
    grow = ("mdadm", "--grow", array, number)
    add = _add_steps(array, added, "The new devices become spares, so that md knows them.")
    return Plan(f"Grow {name} to {count} members", (*add, _grow(grow, array, spares, why)))


def grow_size(name: str) -> Plan:
    """Use all of each member, after members were replaced by larger ones; md refuses while the policy is ppl."""
    array = array_device(name)
    why = "md takes into use what the smallest member has to spare, and synchronises the new part."
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
    """Change the level in place: raid1 to raid5, raid5 to raid6.

    ``members`` is the present number of slots; ``added`` and ``spares`` the devices that join. RAID 1 must have two
    members: a RAID 5 of two holds the same bytes, so nothing moves. RAID 6 needs one device more and a backup file on
    another disk.
    """
    old, new = parse_level(old_level).name, parse_level(new_level).name
    if (old, new) == (LevelName.RAID1, LevelName.RAID5):
        return _mirror_to_parity(name, members, added, spares)
    if (old, new) == (LevelName.RAID5, LevelName.RAID6):
        return _second_parity(name, members, added, spares)
    raise SpecError(
        f"array {name}: the lab does not change {old.value} into {new.value}",
        hint="it can change raid1 of two members into raid5, and raid5 into raid6",
    )


def backup_file(name: str) -> str:
    """The backup of a reshape's critical section: outside the array, on the machine's own file system."""
    return f"{BACKUP_FOLDER}/{name}"


def _mirror_to_parity(name: str, members: int, added: Sequence[str], spares: Sequence[str]) -> Plan:
    if members != 2:
        hint = "only a mirror of two can"
        raise SpecError(f"array {name}: raid1 of {members} members cannot become raid5", hint=hint)
    array = array_device(name)
    why = "A RAID 5 of two members holds data and parity that are equal, just as a mirror: nothing has to move."
    step = _grow(("mdadm", "--grow", array, "--level=5"), array, (), why)
    change = Plan(f"Change {name} from raid1 to raid5", (step,))
    return change + grow_members(name, "raid5", 2, added, spares) if added or spares else change


def _second_parity(name: str, members: int, added: Sequence[str], spares: Sequence[str]) -> Plan:
    if len(added) + len(spares) != 1:
        raise SpecError(f"array {name}: raid5 becomes raid6 with exactly 1 more device", hint="name one device")
    array, file = array_device(name), backup_file(name)
    add = _add_steps(array, added, "The second parity needs a member of its own size; first it becomes a spare.")
    folder = Step(("mkdir", "-p", BACKUP_FOLDER), "The backup file must lie outside the array.")
    argv = ("mdadm", "--grow", array, "--level=6", f"--raid-devices={members + 1}", f"--backup-file={file}")
    grow = _detached(argv, file)
    why = f"Without free room to move stripes into, each is saved to the file first. {_QUIET_START}"
    return Plan(f"Change {name} from raid5 to raid6", (*add, folder, _grow(grow, array, (*added, *spares), why)))


def _add_steps(array: str, added: Sequence[str], why: str) -> tuple[Step, ...]:
    if not added:
        return ()
    undo = ("mdadm", "--manage", array, "--remove", *added)
    return (Step(("mdadm", "--manage", array, "--add", *added), why, undo, Danger.DATA, (array, *added)),)


def _detached(argv: tuple[str, ...], file: str) -> tuple[str, ...]:
    """``argv`` with its output redirected to a file, which is printed on failure.

    With a backup file mdadm leaves a background process that drives the reshape and would hold the caller's pipe open.
    """
    log = shlex.quote(f"{file}.log")
    return ("sh", "-c", f"{shlex.join(argv)} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}")


def _grow(argv: tuple[str, ...], array: str, added: Sequence[str], why: str) -> Step:
    danger = Danger.DATA if added else Danger.NONE
    return Step(argv, why, (), danger, (array, *added), RESHAPE_START_TIMEOUT_SECONDS)


SYSTEM_DEFAULT = "system"
"""Value that makes md/sync_speed_min and max follow /proc/sys/dev/raid again (md.rst)."""


def scrub_check(name: str) -> Plan:
    """Read the whole array and count mismatches, in md/mismatch_cnt."""
    why = (
        "md reads every stripe, compares copies or parity and counts what differs; it rewrites unreadable blocks only."
    )
    return Plan(f"Check {name}", (_sync_action(name, "check", why),))


def scrub_repair(name: str) -> Plan:
    """Make copies and parity agree again. md cannot know which is correct: it trusts the data, or the first mirror."""
    why = "md makes parity fit the data, or the mirrors fit the first copy: consistent again, not necessarily right."
    return Plan(f"Repair {name}", (_sync_action(name, "repair", why),))


def scrub_stop(name: str) -> Plan:
    """Stop a scrub; a rebuild that is due starts again by itself."""
    why = "Writing idle interrupts whatever runs; what is still needed, such as a rebuild, starts again by itself."
    step = dataclasses.replace(_sync_action(name, "idle", why), undo=())
    return Plan(f"Stop the scrub of {name}", (step,))


def set_sync_speed(name: str, *, minimum_kib_per_second: int | None, maximum_kib_per_second: int | None) -> Plan:
    """Limits for every kind of sync of this array alone, in KiB/s per member; None: the system's value."""
    low, high = minimum_kib_per_second, maximum_kib_per_second
    for limit in (low, high):
        if limit is not None and limit < 1:
            hint = "leave it out for the system's value"
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
    """Add or remove the write-intent bitmap of a running array; one bit covers ``chunk_bytes`` (None: md chooses)."""
    array = array_device(name)
    on = bitmap is Bitmap.INTERNAL
    why = (
        "md notes which regions are being written, so that a resync or a re-add copies only those."
        if on
        else "Without the bitmap writes are cheaper, but an unclean stop means a full resync."
    )
    other = Bitmap.NONE if on else Bitmap.INTERNAL
    step = Step(
        argv=("mdadm", "--grow", array, f"--bitmap={bitmap.value}", *bitmap_chunk_option(chunk_bytes)),
        why=why,
        undo=("mdadm", "--grow", array, f"--bitmap={other.value}"),
        writes_devices=(array,),
    )
    return Plan(f"Set the bitmap of {name} to {bitmap.value}", (step,))


def bitmap_chunk_option(chunk_bytes: int | None) -> tuple[str, ...]:
    """The mdadm option for the size that one bit of a bitmap covers, in KiB; empty for mdadm's choice (mdadm(8))."""
    return () if chunk_bytes is None else (f"--bitmap-chunk={chunk_bytes // KIB}",)


def _sync_action(name: str, action: str, why: str) -> Step:
    path = md_path(name, "sync_action")
    undo = ("sh", "-c", f"echo idle > {path}")
    return dataclasses.replace(write_file_step(path, action, why), undo=undo, writes_devices=(array_device(name),))


def _speed(name: str, attribute: str, value: str, why: str) -> Step:
    path = md_path(name, attribute)
    undo = ("sh", "-c", f"echo {SYSTEM_DEFAULT} > {path}")
    return dataclasses.replace(write_file_step(path, value, why), undo=undo if value != SYSTEM_DEFAULT else ())


__all__ = [
    "add",
    "assemble",
    "destroy",
    "fail",
    "grow_level",
    "grow_members",
    "grow_size",
    "re_add",
    "remove",
    "replace",
    "scrub_check",
    "scrub_repair",
    "scrub_stop",
    "set_bitmap",
    "set_sync_speed",
    "stop",
    "zero_superblocks",
]
