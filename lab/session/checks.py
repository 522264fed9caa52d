"""What can be told about an operation before anything is touched: sizes, free disks, what a level allows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lab.adapt.summary import VolumeArray
from lab.arrays.geometry import data_offset_bytes, usable_bytes
from lab.arrays.level_names import layout_name, level_with_layout
from lab.arrays.levels import Level, LevelName
from lab.arrays.spec import ArraySpec, ConsistencyPolicy
from lab.arrays.status import ArrayStatus, MemberStatus
from lab.disks import LabDisk
from lab.errors import ArrayError, DeviceRefused, SpecError
from lab.session.session import LabSession
from lab.units import KIB, SECTOR_BYTES, human_bytes

_SMALLEST_DATA_BYTES = 64 * KIB


def small_disks(spec: ArraySpec, disks: Sequence[LabDisk]) -> tuple[str, ...]:
    """A few words about each disk that is too small to hold metadata and one chunk."""
    if not spec.is_array:
        return ()
    chunk = spec.effective_chunk_bytes
    has_ppl = spec.consistency_policy is ConsistencyPolicy.PPL
    small = []
    for disk in disks:
        needed = data_offset_bytes(disk.size_bytes, chunk, has_ppl=has_ppl) + (chunk or _SMALLEST_DATA_BYTES)
        if disk.size_bytes < needed:
            small.append(f"{disk.name} has {human_bytes(disk.size_bytes)} and needs {human_bytes(needed)}")
    return tuple(small)


def check_sizes(spec: ArraySpec, disks: Sequence[LabDisk]) -> None:
    """Raises SpecError that names the disks which are too small to hold metadata and one chunk."""
    if small := small_disks(spec, disks):
        hint = "use larger disks" + (", or a smaller chunk" if spec.effective_chunk_bytes else "")
        raise SpecError(f"array {spec.name}: too small: {'; '.join(small)}", hint=hint)


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


def cannot_do_without(statuses: Sequence[ArrayStatus], disk: str, *, forced: str) -> ArrayError:
    """The refusal to take a disk from arrays that would lose data. ``forced``: what --break-array does all the same.

    While md still computes what makes up for a lost disk, the next thing to do is to wait.
    """
    names = ", ".join(status.name for status in statuses)
    syncing = [status.name for status in statuses if status.sync_action.is_busy]
    wait = f"wait until its copies or parity are complete: raidlab array wait {syncing[0]}; " if syncing else ""
    return ArrayError(
        f"array {names} cannot do without {disk}{' yet' if syncing else ''}: its data would be lost",
        hint=f"{wait}--break-array {forced} it all the same",
    )


def breaks(status: ArrayStatus, member: MemberStatus) -> bool:
    """Whether the array would lose data if this member failed now."""
    if isinstance(status, VolumeArray):
        return bool(status.whole.broken_by(status.whole.disk(member.device)))
    return member.slot is not None and member.is_in_sync and not works_without(status, member)


def works_without(status: ArrayStatus, member: MemberStatus) -> bool:
    """Whether the other members in sync are enough, however many there were before."""
    working = {other.slot for other in status.members if other.is_in_sync and other is not member}
    lost = frozenset(slot for slot in range(status.raid_disks) if slot not in working)
    return level_of(status).survives(lost, status.raid_disks)


def used_nodes(session: LabSession) -> frozenset[str]:
    """Nodes of the disks that belong, or once belonged, to an array."""
    used = {member.device for status in session.statuses() for member in status.members}
    used |= {node for array in session.found.all for node in (*array.devices, *array.former_devices)}
    return frozenset(used)


def free_disks(session: LabSession) -> tuple[LabDisk, ...]:
    """The disks that no array needs, by name; they may still carry a file system (see ``check_free``)."""
    used = used_nodes(session)
    return tuple(disk for disk in session.disks if disk.node not in used)


def array_names(session: LabSession) -> tuple[str, ...]:
    """Names that are taken, by arrays that run and by those that do not."""
    return (*(status.name for status in session.statuses()), *(array.name for array in session.found.all))


def free_name(taken: Collection[str]) -> str:
    """The first of md0, md1, … that is not taken."""
    return next(f"md{number}" for number in range(1000) if f"md{number}" not in taken)


def check_name(name: str, taken: Collection[str]) -> None:
    """Raises ArrayError for the name of another array."""
    if name in taken:
        raise ArrayError(
            f"there is an array {name} already",
            hint=f"choose another name, or remove it with 'raidlab array destroy {name}'",
        )


def check_free(session: LabSession, nodes: Sequence[str], *, besides: str = "") -> None:
    """Raises DeviceRefused for disks in use, signed, or of an array that does not run.

    ``besides`` names an array whose former members are free.
    """
    for array in session.found.all:
        held = [session.disk_name(node) for node in nodes if node in array.devices]
        if held and array not in session.found.started and array.name != besides:
            raise DeviceRefused(
                f"{', '.join(held)} belongs to array {array.name}, which does not run",
                hint=f"remove it for good with 'raidlab array destroy {array.name}', or choose other disks",
            )
    session.lab.check_blank(nodes)


def check_fits(session: LabSession, status: ArrayStatus, disk: str) -> None:
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


def check_redundant(status: ArrayStatus) -> None:
    """Raises ArrayError for an array in which nothing can ever be synchronised."""
    if not level_of(status).is_redundant:
        raise ArrayError(
            f"{status.name} is {status.level}: there are no copies or parity to compare or rebuild",
            hint="use an array of a level with redundancy",
        )
