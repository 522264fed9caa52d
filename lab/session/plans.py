"""Every operation on an open lab as a plan. These functions read, refuse what cannot be with a hint, and touch nothing.

A plan for a running array begins, where it must, with the step that wakes a freshly assembled array.
"""

from __future__ import annotations

from collections.abc import Sequence

from lab.adapt.names import is_volume_name
from lab.arrays import operations
from lab.arrays.filesystem import FileSystem, make
from lab.arrays.spec import ArraySpec, Bitmap
from lab.arrays.status import ArrayState, ArrayStatus
from lab.disks import LabDisk
from lab.disks.attaching import reset_plan
from lab.errors import ArrayError, DeviceRefused, SpecError
from lab.plans import Plan, Step
from lab.session import volumes
from lab.session.breaking import corrupt, plug_in, pull, slow
from lab.session.checks import (
    array_names,
    breaks,
    cannot_do_without,
    check_fits,
    check_free,
    check_name,
    check_redundant,
    check_sizes,
    foretold_bytes,
    free_disks,
    works_without,
)
from lab.session.session import LabSession

__all__ = [
    "SCRUB_ACTIONS",
    "add",
    "assemble",
    "awake",
    "bitmap",
    "corrupt",
    "create",
    "creation",
    "destroy",
    "fail",
    "grow",
    "plug_in",
    "pull",
    "re_add",
    "remove",
    "replace",
    "reset",
    "reset_all",
    "scrub",
    "slow",
    "speed",
    "stop",
]
SCRUB_ACTIONS = ("check", "repair", "stop")


def creation(spec: ArraySpec, disks: Sequence[LabDisk], file_system: FileSystem) -> Plan:
    """Create the array, then the file system on it. Raises SpecError for whatever cannot be, on whatever machine."""
    plan = operations.create(spec)
    check_sizes(spec, disks)
    if file_system is FileSystem.RAW:
        return plan
    size = foretold_bytes(spec, disks)
    chunk = spec.effective_chunk_bytes
    stripe = spec.raid.full_stripe_bytes(len(spec.members), chunk) if chunk else 0
    return plan + make(file_system, spec.device, size_bytes=size, chunk_bytes=chunk, full_stripe_bytes=stripe)


def create(session: LabSession, spec: ArraySpec, file_system: FileSystem = FileSystem.RAW) -> Plan:
    """As ``creation``, on disks of this lab that are free."""
    disks = [session.lab.disk(node) for node in spec.devices]
    plan = creation(spec, disks, file_system)
    check_name(spec.name, array_names(session))
    check_free(session, spec.devices)
    return plan


def awake(status: ArrayStatus) -> Plan:
    """Take a freshly assembled array out of read-auto: until then md writes no superblock, so it forgets a failure."""
    if status.state is not ArrayState.READ_AUTO:
        return Plan(f"Use {status.name}")
    why = "An assembled array waits for its first write; from now on md records changes, and a pending sync goes on."
    return Plan(
        f"Wake {status.name}",
        (Step(("mdadm", "--readwrite", status.device), why, (), writes_devices=(status.device,)),),
    )


def _awake_first(status: ArrayStatus, plan: Plan) -> Plan:
    return Plan(plan.title, (awake(status) + plan).steps) if plan.steps else plan


def stop(session: LabSession, name: str) -> Plan:
    """Unmount what the lab has mounted, then stop."""
    if is_volume_name(name):
        return volumes.stop(session, name)
    status = session.status(name)
    members = [member.device for member in status.members if not member.is_faulty]
    return _unmount(session, name) + operations.stop(name, members)


def destroy(session: LabSession, name: str) -> Plan:
    """Stop it if it runs, and erase its superblocks, also from disks that have left it."""
    if is_volume_name(name):
        return volumes.destroy(session, name)
    found = session.found.array(name)
    former = found.former_devices if found else ()
    if found and found not in session.found.started:
        return Plan(f"Remove {name}") + operations.zero_superblocks((*found.devices, *former))
    status = session.status(name)
    devices = dict.fromkeys([*(member.device for member in status.members), *former])
    plan = Plan(f"Remove {name}") + _unmount(session, name) + operations.stop(name)
    return plan + operations.zero_superblocks(tuple(devices))


def assemble(session: LabSession, name: str, *, force: bool = False) -> Plan:
    """Start a stopped array; ``force`` also one whose members disagree."""
    if is_volume_name(name):
        return volumes.assemble(session, name, force=force)
    found = session.found.array(name)
    if found is None or found in session.found.started:
        if found or any(status.name == name for status in session.statuses()):
            raise ArrayError(f"array {name} runs already", hint=f"'raidlab array show {name}' shows it")
        raise ArrayError(f"there is no array {name} on the lab's disks", hint="'raidlab array show' lists the arrays")
    if found in session.found.refused and not force:
        raise ArrayError(
            f"array {name} cannot be started: {found.refusal}",
            hint="--force also takes members that are out of date, whose data may be old",
        )
    devices = (*found.devices, *found.former_devices) if force else found.devices
    return operations.assemble(name, devices, force=force)


def fail(session: LabSession, name: str, disk: str, *, breaks_array: bool = False) -> Plan:
    """Fail a member; one that the array cannot do without only when told so."""
    if is_volume_name(name):
        return volumes.fail(session, name, disk, breaks_array=breaks_array)
    status = session.status(name)
    member = status.member(session.node(disk))
    if member.is_faulty:
        raise ArrayError(f"{disk} is faulty already", hint=f"'raidlab array remove {name} {disk}' takes it out")
    if breaks(status, member) and not breaks_array:
        raise cannot_do_without((status,), disk, forced="fails")
    return _awake_first(status, operations.fail(name, member.device, breaks_array=not works_without(status, member)))


def remove(session: LabSession, name: str, disk: str) -> Plan:
    """Take out a faulty or spare member; no steps, and a title that says so, for one that has left already."""
    if is_volume_name(name):
        return volumes.remove(session, name, disk)
    status, node = session.status(name), session.node(disk)
    found = session.found.array(name)
    if found and node in found.former_devices and all(member.device != node for member in status.members):
        return Plan(f"{disk} has left {name} already: a failed member stays out at the next start")
    member = status.member(node)
    if not (member.is_faulty or member.is_spare):
        raise ArrayError(f"{disk} is in use in {name}", hint=f"fail it first: raidlab array fail {name} {disk}")
    return _awake_first(status, operations.remove(name, node))


def add(session: LabSession, name: str, disk: str) -> Plan:
    """Add a blank disk, or one that has left this array."""
    if is_volume_name(name):
        return volumes.add(session, name, disk)
    status, node = session.status(name), session.node(disk)
    check_free(session, [node], besides=name)
    check_fits(session, status, disk)
    return _awake_first(status, operations.add(name, node, erase_first=_was_member(session, name, node)))


def re_add(session: LabSession, name: str, disk: str) -> Plan:
    """Put a former member back by its bitmap."""
    _check_single(name, "re-adding a disk")
    status, node = session.status(name), session.node(disk)
    if not status.has_bitmap:
        raise ArrayError(
            f"array {name} has no bitmap, so nothing tells what {disk} missed",
            hint=f"rebuild it as a whole: raidlab array add {name} {disk}",
        )
    faulty = [member for member in status.members if member.device == node and member.is_faulty]
    if not faulty and not _was_member(session, name, node):
        raise ArrayError(f"{disk} has never been in {name}", hint=f"raidlab array add {name} {disk}")
    before = operations.remove(name, node) if faulty else Plan(f"Re-add {disk} to {name}")
    return _awake_first(status, before + operations.re_add(name, node))


def replace(session: LabSession, name: str, old: str, new: str) -> Plan:
    """Copy a working member to a spare or a blank disk."""
    _check_single(name, "replacing a working disk")
    status, old_node, new_node = session.status(name), session.node(old), session.node(new)
    if not status.member(old_node).is_in_sync:
        raise ArrayError(f"{old} does not work in {name}, so nothing can be copied from it", hint="add a disk instead")
    is_spare = any(spare.device == new_node for spare in status.spares)
    if not is_spare:
        check_free(session, [new_node], besides=name)
        check_fits(session, status, new)
    return _awake_first(status, operations.replace(name, old_node, new_node, is_spare=is_spare))


def scrub(session: LabSession, name: str, action: str = "check") -> Plan:
    """Start a check or a repair of a whole array, or stop one."""
    plans = {"check": operations.scrub_check, "repair": operations.scrub_repair, "stop": operations.scrub_stop}
    if action not in plans:
        raise SpecError(f"there is no scrub '{action}'", hint=f"write {', '.join(SCRUB_ACTIONS)}")
    if is_volume_name(name):
        return volumes.scrub(session, name, action)
    status = session.status(name)
    check_redundant(status)
    return _awake_first(status, plans[action](name))


def speed(
    session: LabSession, name: str, *, minimum_kib_per_second: int | None, maximum_kib_per_second: int | None
) -> Plan:
    """Limit the syncs of one array, per second and member; None: the system's value."""
    low, high = minimum_kib_per_second, maximum_kib_per_second
    if is_volume_name(name):
        return volumes.speed(session, name, minimum_kib_per_second=low, maximum_kib_per_second=high)
    check_redundant(session.status(name))
    return operations.set_sync_speed(name, minimum_kib_per_second=low, maximum_kib_per_second=high)


def bitmap(session: LabSession, name: str, kind: Bitmap, *, chunk_bytes: int | None = None) -> Plan:
    """Add or remove the write-intent bitmap; with ``chunk_bytes`` one whose bits stand for so much."""
    _check_single(name, "changing the bitmap")
    status = session.status(name)
    check_redundant(status)
    if status.has_bitmap == (kind is not Bitmap.NONE):
        raise ArrayError(
            f"{name} has {'a' if status.has_bitmap else 'no'} bitmap already",
            hint="remove it first to have another" if status.has_bitmap else "there is nothing to remove",
        )
    # md answers EBUSY (location_store in drivers/md/md-bitmap.c), and waking the array would begin the sync it owes.
    if status.sync_action.is_busy or status.awaits_rebuild:
        raise ArrayError(
            f"the bitmap of {name} cannot change while it is synchronised",
            hint=f"wait for that: raidlab array wait {name}",
        )
    return _awake_first(status, operations.set_bitmap(name, kind, chunk_bytes=chunk_bytes))


def grow(
    session: LabSession, name: str, *, disks: Sequence[str] = (), count: int | None = None, level: str | None = None
) -> Plan:
    """Reshape: let ``disks`` join, or so many free ones that there are ``count`` members, perhaps at another level.

    With none of these: use all of each member.
    """
    _check_single(name, "growing")
    status = session.status(name)
    added = _joining(session, status, disks, count)
    others = [node for node in added if all(member.device != node for member in status.members)]
    check_free(session, others)
    for node in others:
        check_fits(session, status, node)
    if level:
        plan = operations.grow_level(name, status.level, level, status.raid_disks, added)
    elif disks or count is not None:
        plan = operations.grow_members(name, status.level, status.raid_disks, added)
    else:
        plan = operations.grow_size(name)
    return _awake_first(status, plan)


def _joining(session: LabSession, status: ArrayStatus, disks: Sequence[str], count: int | None) -> list[str]:
    if count is None:
        return [session.node(word) for word in disks]
    more = count - status.raid_disks
    if more < 1:
        raise SpecError(f"{status.name} has {status.raid_disks} members", hint="ask for more, or name disks that join")
    free = free_disks(session)
    if len(free) < more:
        raise ArrayError(f"{more} more disks are wanted, and {len(free)} are free", hint="'raidlab disks' shows them")
    return [disk.node for disk in free[:more]]


def reset(session: LabSession, disks: Sequence[str]) -> Plan:
    """Make disks blank. Raises DeviceRefused for one that an array, running or stopped, or a mount uses."""
    chosen = [session.lab.disk(word) for word in disks]
    for disk in chosen:
        holder = session.found.holder_of(disk.node)
        if holder and holder in session.found.stopped:
            raise DeviceRefused(
                f"{disk.name} is a member of {holder.name}, which is stopped",
                hint=f"'raidlab array destroy {holder.name}' removes it for good",
            )
    session.lab.check_unused(chosen)
    return Plan.of(
        f"Make {', '.join(disk.name for disk in chosen)} blank",
        [step for disk in chosen for step in reset_plan(disk).steps],
    )


def reset_all(session: LabSession) -> Plan:
    """A new start: stop every array that consists of lab disks alone, and make all disks blank."""
    nodes = {disk.node for disk in session.disks}
    own = [status for status in session.statuses() if {member.device for member in status.members} <= nodes]
    plan = Plan("Start anew with blank disks")
    for name in [*(volume.name for volume in session.volumes()), *(status.name for status in own)]:
        plan += stop(session, name)
    return plan + Plan.of("", [step for disk in session.disks for step in reset_plan(disk).steps])


def _check_single(name: str, what: str) -> None:
    if is_volume_name(name):
        raise volumes.refuse(name, what)


def _was_member(session: LabSession, name: str, node: str) -> bool:
    found = session.found.array(name)
    return bool(found and node in found.former_devices)


def _unmount(session: LabSession, name: str) -> Plan:
    why = "Everything cached is written to the array, and the array can be stopped."
    places = session.mounted_on(name)
    return Plan.of(f"Stop {name}", (Step(("umount", place), why) for place in places))
