"""Plans for the members of a running array: fail, remove, add, re-add, replace.

``writes_devices`` names the array too: md updates the superblocks of all its members when one changes.
"""

from __future__ import annotations

import shlex

from lab.arrays.create import zero_superblocks
from lab.arrays.names import array_device, kernel_name, md_path
from lab.plans import Danger, Plan, Step


def fail(name: str, member: str, *, breaks_array: bool = False) -> Plan:
    """Mark a member as faulty, as md does after a write error.

    ``breaks_array`` says that the array does not work without this member. mdadm refuses to do that from 4.3 on, so
    md itself is told, by the file that ends in the same call as mdadm's ioctl (Linux: state_store and set_disk_faulty
    in drivers/md/md.c). It answers busy; raid4, raid5 and raid6 do lose the member, and raid0, raid1 and raid10 keep it
    and turn broken.
    """
    if breaks_array:
        folder = f"cd {md_path(name)}/dev-{_kernel_name_word(member)}"
        state = "{ echo faulty > state || grep -E 'faulty|in_sync' state; }"
        why = (
            "The array cannot do without this member. md takes the note all the same: it answers busy, and the array "
            "is broken. mdadm --fail makes the same call up to 4.2; from 4.3 on it refuses to break an array."
        )
        devices = (array_device(name), member)
        step = Step(("sh", "-c", f"{folder} && {state}"), why, (), Danger.DATA, devices)
        # array_state_show in drivers/md/md.c; five seconds are for a delay that somebody made longer (safe_mode_delay).
        shown = "for _ in $(seq 50); do grep -q broken ../array_state && break; sleep 0.1; done"
        why = "An array that keeps the member says that it is broken once its last writes are noted, a moment later."
        wait = Step(("sh", "-c", f"{folder} && {{ grep faulty state || {shown}; }}"), why)
        return Plan(f"Break {name} by failing {member}", (step, wait))
    why = "md treats the member as broken from now on: it stays in the list, but is neither read nor written."
    return Plan(f"Fail {member} in {name}", (_manage(name, "--fail", member, why=why),))


def remove(name: str, member: str) -> Plan:
    """Take a faulty or spare member out of the array, once it has answered what md asked of it.

    md is busy with a member until then (hot_remove_disk in drivers/md/md.c), for which mdadm waits a twentieth of a
    second. The wait ends after half a minute, or at once where the device is gone.
    """
    under_way = f"/sys/class/block/{_kernel_name_word(member)}/inflight"
    waiting = f"for _ in $(seq 300); do grep -q [1-9] {under_way} || break; sleep 0.1; done"
    why_wait = "md lets go of a member only when no request to it is under way any more."
    wait = Step(("sh", "-c", waiting), why_wait)
    why = "The slot is free for another disk; md only lets go of members that are faulty or spare."
    undo = ("mdadm", "--manage", array_device(name), "--re-add", member)
    return Plan(f"Remove {member} from {name}", (wait, _manage(name, "--remove", member, why=why, undo=undo)))


def add(name: str, device: str, *, erase_first: bool = False) -> Plan:
    """Add a device: it becomes a spare, and a degraded array starts to rebuild on it.

    mdadm turns --add into a re-add where the device still carries a fitting superblock and the array has a bitmap;
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
    """Put a former member back in its slot; with a bitmap only what changed meanwhile is copied."""
    why = "The superblock tells which slot this was; the bitmap tells which regions changed while it was away."
    return Plan(f"Re-add {device} to {name}", (_manage(name, "--re-add", device, why=why, danger=Danger.DATA),))


def replace(name: str, old: str, new: str, *, is_spare: bool = False) -> Plan:
    """Copy a working member to a new device and then retire it; the array is never degraded meanwhile.

    ``is_spare`` says that ``new`` already is a spare of the array.
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
    """The name by which md knows a member, as a word for a shell: the device mapper's nodes have names of their own."""
    if member.startswith("/dev/mapper/"):
        return f"$(lsblk --nodeps --noheadings --output KNAME {shlex.quote(member)})"
    return shlex.quote(kernel_name(member))


def _manage(
    name: str, action: str, device: str, *, why: str, undo: tuple[str, ...] = (), danger: Danger = Danger.NONE
) -> Step:
    array = array_device(name)
    return Step(("mdadm", "--manage", array, action, device), why, undo, danger, (array, device))
