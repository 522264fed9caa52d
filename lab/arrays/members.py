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
