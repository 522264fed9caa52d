"""Plans for an open lab that are not operations of ``Array``: to pull a disk, plug it in again, or corrupt its data.

The module also finds the disks that have been pulled or slowed down.
"""

from __future__ import annotations

from lab.arrays import operations
from lab.arrays.kinds import cannot_do_without
from lab.arrays.levels import LevelName
from lab.arrays.status import ArrayStatus, MemberStatus
from lab.disks import DiskKind, LabDisk
from lab.disks.attaching import spindle_file
from lab.disks.inventory import absent
from lab.errors import ArrayError, LabError
from lab.plans import Plan
from lab.session.data_mark import mark_of
from lab.session.session import LabSession
from lab.units import KIB, SECTOR_BYTES

CORRUPTED_BYTES = 64 * KIB


def pull(session: LabSession, disk: str, *, breaks_array: bool = False) -> Plan:
    """Make a disk vanish while it is in use, with ``breaks_array`` even if an array needs it. Raises LabError."""
    found = session.lab.disk(disk)
    everything = _holders(session, found)
    broken = [status for status in everything if status.breaks_without(status.member(found.node))]
    # Arrays inside another array consist of slices, and detect the loss themselves.
    holders = [status for status in everything if not status.inner]
    # An array that cannot run without the disk rejects ``mdadm --incremental --fail``, and detects the loss itself.
    plan = operations.pull(found, arrays=[status.name for status in holders if status not in broken])
    if broken and not breaks_array:
        raise cannot_do_without(broken, disk, forced="pull")
    return plan


def plug_in(session: LabSession, disk: str) -> Plan:
    """Bring a pulled disk back, so that it can be added or re-added. Raises ArrayError if this is not possible."""
    found = session.lab.disk(disk)
    if not is_pulled(session, found):
        raise ArrayError(f"{disk} has not been pulled", hint=f"pull it first: raidlab array pull ARRAY {disk}")
    holders = [status for status in _holders(session, found) if not status.inner]
    for status in holders:
        if not status.member(found.node).is_faulty:
            raise ArrayError(
                f"{status.name} has not marked {disk} as faulty, although the disk is unplugged",
                hint=f"stop the array first: raidlab array stop {status.name}",
            )
    return operations.plug_in(found, arrays=[status.name for status in holders])


def is_pulled(session: LabSession, disk: LabDisk) -> bool:
    """Whether a disk's driver has released it, so that every I/O fails even if its node still exists."""
    if absent(session.machine, [disk.kernel_name]):
        return True
    if disk.kind is not DiskKind.SPINDLE:
        return False
    # A disconnected drive keeps its size while md holds it, so only a read shows the loss.
    read = ("dd", f"if={disk.node}", "of=/dev/null", "bs=4096", "count=1", "iflag=direct", "status=none")
    return session.machine.run(read, check=False).status != 0


def paces(session: LabSession) -> dict[str, str]:
    """Map each spindle that has been slowed down to the drive model at whose pace it runs."""
    notes = {disk.name: spindle_file(disk.name, "pace") for disk in session.disks if disk.kind is DiskKind.SPINDLE}
    texts = session.machine.read(list(notes.values())) if notes else {}
    return {name: text.split()[1] for name, path in notes.items() if (text := texts[path]) and len(text.split()) > 1}


def corrupt(session: LabSession, name: str, disk: str, *, length_bytes: int = CORRUPTED_BYTES) -> Plan:
    """Overwrite part of a member with random bytes, bypassing md.

    The region lies in the data mark if the array has one, otherwise in the middle of the member's data. If the member
    holds only parity there, the parity is corrupted, so that no read returns wrong data, but a check finds the damage.
    """
    status = session.array(name).status()
    if "corrupt" in status.cannot:
        raise session.array(name).refusal("corrupting a member")
    member = status.member(session.node(disk))
    if member.slot is None or not member.is_in_sync or member.data_offset_sectors is None:
        raise ArrayError(f"{disk} holds no current data of {name}", hint="choose a member that is in sync")
    if status.reshape_position_sectors is not None:
        raise ArrayError(f"{name} is being reshaped", hint="wait until the reshape is complete")
    start, length, kind = _region(session, status, member, length_bytes)
    plan = operations.corrupt(
        member.device,
        data_offset_bytes=member.data_offset_sectors * SECTOR_BYTES,
        data_bytes=_used_bytes(status, member),
        start_bytes=start,
        length_bytes=length,
    )
    return Plan(f"Corrupt {length // KIB} KiB of {kind} on {disk}, silently", plan.steps)


def _region(session: LabSession, status: ArrayStatus, member: MemberStatus, length: int) -> tuple[int, int, str]:
    """Return the start and length of the region within the member's data, and the kind of its content."""
    block = operations.CORRUPTION_BLOCK_BYTES
    length -= length % block
    used = _used_bytes(status, member)
    mark = mark_of(session, status.name)
    # In a RAID 0 whose members differ in size, only some members hold the end of the array.
    has_zones = status.level == LevelName.RAID0 and len({each.data_size_kib for each in status.members}) > 1
    if mark is None or not mark.is_raw or has_zones:
        middle = used // 2
        return middle - middle % block, min(length, used - middle), "data"
    end = mark.start_bytes + mark.length_bytes
    chunk = status.chunk_bytes
    if chunk is None:
        return mark.start_bytes, min(length, mark.length_bytes), "data"
    assert member.slot is not None
    geometry, parity = status.geometry, None
    for number in range(mark.start_bytes // chunk, -(-end // chunk)):
        first, last = max(mark.start_bytes, number * chunk), min(end, (number + 1) * chunk)
        place = geometry.place_on(member.slot, number * chunk // SECTOR_BYTES)
        if place is None or last - first < block:
            continue
        region = (place.sector * SECTOR_BYTES + first - number * chunk, min(length, last - first))
        if not place.kind.is_parity:
            return (*region, "data")
        parity = parity or (*region, f"parity {place.kind.value}")
    if parity is None:
        raise ArrayError(f"no part of the known data lies on {member.device}", hint="choose a different member")
    return parity


def _used_bytes(status: ArrayStatus, member: MemberStatus) -> int:
    used = status.component_bytes or (member.data_size_kib or 0) * KIB
    if not used:
        raise LabError(f"it is unknown how much of {member.device} holds data", hint="choose a different array")
    return used


def _holders(session: LabSession, disk: LabDisk) -> list[ArrayStatus]:
    return [status for status in session.statuses() if any(member.device == disk.node for member in status.members)]
