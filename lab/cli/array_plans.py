"""From what was typed and what is there to a plan, with every refusal that can be told before anything is touched."""

from __future__ import annotations

from collections.abc import Sequence

from lab.arrays import operations
from lab.arrays.filesystem import FileSystem, make
from lab.arrays.geometry import data_offset_bytes, usable_bytes
from lab.arrays.level_names import layout_name, level_with_layout
from lab.arrays.levels import Level, LevelName
from lab.arrays.spec import ArraySpec, ConsistencyPolicy
from lab.arrays.status import ArrayState, ArrayStatus, MemberStatus
from lab.cli.session import Session
from lab.disks import LabDisk
from lab.errors import ArrayError, DeviceRefused, SpecError
from lab.plans import Plan, Step
from lab.units import KIB, SECTOR_BYTES, human_bytes

_SMALLEST_DATA_BYTES = 64 * KIB


def check_sizes(spec: ArraySpec, disks: Sequence[LabDisk]) -> None:
    """Raises SpecError that names the disks which are too small to hold metadata and one chunk."""
    if not spec.is_array:
        return
    chunk = spec.effective_chunk_bytes
    has_ppl = spec.consistency_policy is ConsistencyPolicy.PPL
    small = []
    for disk in disks:
        needed = data_offset_bytes(disk.size_bytes, chunk, has_ppl=has_ppl) + (chunk or _SMALLEST_DATA_BYTES)
        if disk.size_bytes < needed:
            small.append(f"{disk.name} has {human_bytes(disk.size_bytes)} and needs {human_bytes(needed)}")
    if small:
        hint = "use larger disks" + (", or a smaller chunk" if chunk else "")
        raise SpecError(f"array {spec.name}: too small: {'; '.join(small)}", hint=hint)


def create_plan(spec: ArraySpec, disks: Sequence[LabDisk], file_system: FileSystem) -> Plan:
    """Create the array, then the file system on it. Raises SpecError for whatever cannot be."""
    plan = operations.create(spec)
    check_sizes(spec, disks)
    if file_system is FileSystem.RAW:
        return plan
    size = foretold_bytes(spec, disks)
    chunk = spec.effective_chunk_bytes
    stripe = spec.raid.full_stripe_bytes(len(spec.members), chunk) if chunk else 0
    return plan + make(file_system, spec.device, size_bytes=size, chunk_bytes=chunk, full_stripe_bytes=stripe)


def foretold_bytes(spec: ArraySpec, disks: Sequence[LabDisk]) -> int:
    """What the array should offer, from its smallest member."""
    smallest = min(disk.size_bytes for disk in disks)
    has_ppl = spec.consistency_policy is ConsistencyPolicy.PPL
    return usable_bytes(spec.raid, len(spec.members), smallest, spec.effective_chunk_bytes, has_ppl=has_ppl)


def level_of(status: ArrayStatus) -> Level:
    """The arithmetic of a running array. Raises SpecError for a level that the lab does not know."""
    name = LevelName(status.level) if status.level in tuple(LevelName) else None
    layout = None
    if name is LevelName.RAID10 and status.layout_number is not None:
        layout = layout_name(name, status.layout_number)
    return level_with_layout(status.level, layout)


def awake(status: ArrayStatus) -> Plan:
    """Take a freshly assembled array out of read-auto: until then md writes no superblock, so it forgets a failure."""
    if status.state is not ArrayState.READ_AUTO:
        return Plan(f"Use {status.name}")
    why = (
        "An assembled array waits for its first write; from now on md records changes, and a sync that is owed goes on."
    )
    return Plan(
        f"Wake {status.name}",
        (Step(("mdadm", "--readwrite", status.device), why, (), writes_devices=(status.device,)),),
    )


def stop_plan(session: Session, name: str) -> Plan:
    """Unmount what the lab has mounted, then stop."""
    status = session.status(name)
    members = [member.device for member in status.members if not member.is_faulty]
    return _unmount(session, name) + operations.stop(name, members)


def destroy_plan(session: Session, name: str) -> Plan:
    """Stop it if it runs, and erase its superblocks, also from disks that have left it."""
    found = session.found.array(name)
    former = found.former_devices if found else ()
    if found and found not in session.found.started:
        return Plan(f"Remove {name}") + operations.zero_superblocks((*found.devices, *former))
    status = session.status(name)
    devices = dict.fromkeys([*(member.device for member in status.members), *former])
    plan = Plan(f"Remove {name}") + _unmount(session, name) + operations.stop(name)
    return plan + operations.zero_superblocks(tuple(devices))


def assemble_plan(session: Session, name: str, *, force: bool) -> Plan:
    """Start a stopped array; ``force`` also one whose members disagree."""
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


def fail_plan(session: Session, name: str, disk: str, *, breaks_array: bool) -> Plan:
    """Fail a member; one that the array cannot do without only when told so."""
    status = session.status(name)
    member = status.member(session.node(disk))
    if member.is_faulty:
        raise ArrayError(f"{disk} is faulty already", hint=f"'raidlab array remove {name} {disk}' takes it out")
    breaks = _breaks(status, member)
    if breaks and not breaks_array:
        raise ArrayError(
            f"array {name} cannot do without {disk}: its data would be lost",
            hint="--break-array fails it all the same",
        )
    return operations.fail(name, member.device, breaks_array=breaks)


def _breaks(status: ArrayStatus, member: MemberStatus) -> bool:
    if member.slot is None or not member.is_in_sync:
        return False
    working = {other.slot for other in status.members if other.is_in_sync and other is not member}
    lost = frozenset(slot for slot in range(status.raid_disks) if slot not in working)
    return not level_of(status).survives(lost, status.raid_disks)


def remove_plan(session: Session, name: str, disk: str) -> Plan:
    """Take out a faulty or spare member; no steps for one that left when the lab was closed."""
    status, node = session.status(name), session.node(disk)
    found = session.found.array(name)
    if found and node in found.former_devices and all(member.device != node for member in status.members):
        session.context.narrator.notice(f"{disk} has left {name} already: a failed member stays out at the next start")
        return Plan(f"Remove {disk} from {name}")
    member = status.member(node)
    if not (member.is_faulty or member.is_spare):
        raise ArrayError(f"{disk} is in use in {name}", hint=f"fail it first: raidlab array fail {name} {disk}")
    return operations.remove(name, node)


def add_plan(session: Session, name: str, disk: str) -> Plan:
    """Add a blank disk, or one that has left this array."""
    status, node = session.status(name), session.node(disk)
    check_free(session, [node], besides=name)
    check_fits(session, status, disk)
    return operations.add(name, node, erase_first=_was_member(session, name, node))


def re_add_plan(session: Session, name: str, disk: str) -> Plan:
    """Put a former member back by its bitmap."""
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
    return before + operations.re_add(name, node)


def replace_plan(session: Session, name: str, old: str, new: str) -> Plan:
    """Copy a working member to a spare or a blank disk."""
    status, old_node, new_node = session.status(name), session.node(old), session.node(new)
    if not status.member(old_node).is_in_sync:
        raise ArrayError(f"{old} does not work in {name}, so nothing can be copied from it", hint="add a disk instead")
    is_spare = any(spare.device == new_node for spare in status.spares)
    if not is_spare:
        check_free(session, [new_node], besides=name)
        check_fits(session, status, new)
    return operations.replace(name, old_node, new_node, is_spare=is_spare)


def check_free(session: Session, nodes: Sequence[str], *, besides: str = "") -> None:
    """Raises DeviceRefused for disks in use, signed, or of an array that does not run.

    ``besides`` names an array whose former members are free.
    """
    for array in session.found.all:
        held = [session.disk_name(node) for node in nodes if node in array.devices]
        if held and array not in session.found.started:
            raise DeviceRefused(
                f"{', '.join(held)} belongs to array {array.name}, which does not run",
                hint=f"remove it for good with 'raidlab array destroy {array.name}', or choose other disks",
            )
    session.lab.check_blank(nodes)


def check_fits(session: Session, status: ArrayStatus, disk: str) -> None:
    """Raises ArrayError for a disk that is smaller than what the array uses of each member."""
    offsets = [member.data_offset_sectors or 0 for member in status.members]
    if status.component_bytes is None or not offsets:
        return
    needed = status.component_bytes + min(offsets) * SECTOR_BYTES
    size = session.lab.disk(disk).size_bytes
    if size < needed:
        raise ArrayError(
            f"{disk} has {human_bytes(size)}, and {status.name} needs {human_bytes(needed)} of each member",
            hint="use a larger disk: 'raidlab disks' shows sizes",
        )


def _was_member(session: Session, name: str, node: str) -> bool:
    found = session.found.array(name)
    return bool(found and node in found.former_devices)


def _unmount(session: Session, name: str) -> Plan:
    why = "Everything cached is written to the array, and the array can be stopped."
    places = session.mounted_on(name)
    return Plan.of(f"Stop {name}", (Step(("umount", place), why) for place in places))


def check_redundant(status: ArrayStatus) -> None:
    """Raises ArrayError for an array in which nothing can ever be synchronised."""
    if not level_of(status).is_redundant:
        raise ArrayError(
            f"{status.name} is {status.level}: there are no copies or parity to compare or rebuild",
            hint="use an array of a level with redundancy",
        )
