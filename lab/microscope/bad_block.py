"""A block of a member that md takes as unreadable: where it is put, so that something is lost with it."""

from __future__ import annotations

from lab import faults
from lab.arrays.geometry import ChunkKind
from lab.errors import ArrayError
from lab.microscope.areas import areas_of
from lab.microscope.array_map import BLOCK_SECTORS, locate, on_member
from lab.microscope.files import locate_file
from lab.microscope.reading import MappedArray, MappedMember, read_shape
from lab.plans import Plan
from lab.session.data_mark import DataMark, mark_of
from lab.session.session import LabSession
from lab.units import SECTOR_BYTES


def bad_block(session: LabSession, name: str, disk: str, sector: int | None = None) -> Plan:
    """Put 4 KiB of a member on md's bad-block list: from this sector of its device, or in the middle of the known data.

    Raises ArrayError for a disk that has no current data of the array, or a sector that holds none.
    """
    array = session.array(name)
    status = array.status()
    if "corrupt" in status.cannot:
        raise array.refusal("putting a bad block on a member")
    member = status.member(session.node(disk))
    if member.slot is None or not member.is_in_sync:
        raise ArrayError(f"{disk} holds no current data of {name}", hint="choose a member that is in sync")
    if status.metadata_version[:2] != "1.":
        raise ArrayError(f"{name} keeps no list of bad blocks", hint="only metadata 1.x has one (md(4))")
    shape = read_shape(session, name)
    mapped = shape.member(member.device)
    if sector is None:
        sector = _sector_in_mark(session, shape, mapped)
    else:
        _require_data(shape, mapped, sector)
    plan = faults.list_bad_block(name, member.device, sector)
    return Plan(plan.title, (*array.awake(status).steps, *plan.steps))


def _require_data(shape: MappedArray, member: MappedMember, sector: int) -> None:
    found = on_member(shape, member, sector, areas_of(shape, member, b""))
    if found.kind is None or sector % BLOCK_SECTORS:
        raise ArrayError(
            f"a block of {member.name} cannot begin at sector {sector}: {found.note or found.area}",
            hint=f"choose a multiple of {BLOCK_SECTORS} that holds data; 'raidlab array map' shows them",
        )


def _sector_in_mark(session: LabSession, shape: MappedArray, member: MappedMember) -> int:
    """The first block of data on this member in the second half of the known data."""
    mark = mark_of(session, shape.name)
    if mark is None:
        raise ArrayError(
            f"{shape.name} carries no known data to be hit",
            hint=f"write some: raidlab array mark {shape.name}; or say which sector: --sector",
        )
    first, last = _mark_sectors(session, shape, mark)
    for sector in range(first, last, BLOCK_SECTORS):
        for place in locate(shape, sector).places:
            if place.device == member.device and place.kind is ChunkKind.DATA and place.device_sector is not None:
                return place.device_sector
    raise ArrayError(f"none of the known data lie on {member.name}", hint="choose another member")


def _mark_sectors(session: LabSession, shape: MappedArray, mark: DataMark) -> tuple[int, int]:
    """Sectors of the array, from the middle of the mark to its end; of a file, of its longest piece."""
    start, length = mark.start_bytes, mark.length_bytes
    if not mark.is_raw:
        pieces = [each.extent for each in locate_file(session, shape.name, mark.path).extents if each.start]
        if not pieces:
            raise ArrayError(f"{mark.path} has no place on {shape.name}", hint="write the known data again")
        longest = max(pieces, key=lambda piece: piece.length)
        start, length = longest.device_byte, longest.length
    first = (start + length // 2) // SECTOR_BYTES
    return first - first % BLOCK_SECTORS, (start + length) // SECTOR_BYTES
