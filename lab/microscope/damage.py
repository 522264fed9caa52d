"""Plans that damage chosen bytes: a byte changed behind md's back, or a block that md treats as unreadable."""

from __future__ import annotations

from lab.arrays import faults
from lab.arrays.geometry import ChunkKind
from lab.arrays.names import md_path
from lab.errors import ArrayError
from lab.gates.numbers import whole
from lab.microscope.array_map import BLOCK_SECTORS, areas_of, locate, on_member
from lab.microscope.finding import locate_file
from lab.microscope.picture import StripePicture
from lab.microscope.reading import MappedArray, MappedMember, read_shape
from lab.plans import Danger, Plan, Step
from lab.session.data_mark import DataMark, mark_of
from lab.session.session import LabSession
from lab.units import SECTOR_BYTES

_FEWEST_STRIPES, _MANY_STRIPES = 17, 256
"""Minimum that md accepts for stripe_cache_size, and a size at which new stripes replace all remaining old ones."""


def parse_place(text: str) -> tuple[str, int]:
    """Parse ``disk03:17`` as disk and byte. Raises SpecError for other text."""
    disk, _, byte = text.rpartition(":")
    return disk, whole(byte, "byte")


def flip_plan(picture: StripePicture, device: str, byte: int) -> Plan:
    """A plan that inverts all bits of a byte of the stripe on the member on ``device``.

    ``byte`` counts from the beginning of the member's part of the stripe: its chunk, or its chunks in sequence. Raises
    ArrayError for a byte outside of it, or one that the picture does not contain.
    """
    shape = picture.shape
    member = shape.member(device)
    found = picture.stripe.cell_at(member.slot, byte) if member.slot is not None and byte >= 0 else None
    start = picture.device_sector(found[0]) if found else None
    if found is None or start is None or picture.member_of(found[0]) != member:
        raise ArrayError(
            f"{member.name} has no byte {byte} of stripe {picture.stripe.number}",
            hint=f"each chunk has {picture.stripe.cell_sectors * 512} bytes, counted from 0; "
            "the member must be in sync",
        )
    cell, rest = found
    data = next(seen.data for seen in picture.cells if seen.cell == cell)
    if data is None or not picture.skip_bytes <= rest < picture.skip_bytes + picture.length_bytes:
        raise ArrayError(f"byte {byte} of {member.name} was not read", hint="read the whole chunk first")
    old = data[rest - picture.skip_bytes]
    place = start * 512 + rest
    write = Step(
        ("sh", "-c", _put(device, place, old ^ 0xFF)),
        f"WARNING: byte {rest} of {cell.words} becomes {old ^ 0xFF:02x} instead of {old:02x} behind md's back.",
        ("sh", "-c", _put(device, place, old)),
        Danger.DATA,
        (device,),
    )
    steps = (
        forget_step(device, "The kernel's own copy of the member may be old: it is forgotten before a byte changes."),
        write,
        *empty_stripes(shape),
        forget_step(f"/dev/{shape.name}", "What was read of the array before is forgotten too."),
    )
    return Plan(f"Flip byte {rest} of {cell.words} on {member.name}, silently", steps)


def _put(device: str, place: int, value: int) -> str:
    # Octal, which the printf of every shell supports (POSIX, printf).
    return f"printf '\\{value:03o}' | dd of={device} bs=1 seek={place} conv=notrunc,fsync status=none"


def forget_step(device: str, why: str) -> Step:
    """A step that invalidates the kernel's page cache of a device (blockdev(8), --flushbufs)."""
    return Step(("blockdev", "--flushbufs", device), why)


def empty_stripes(shape: MappedArray) -> tuple[Step, ...]:
    """Steps that empty md's stripe cache; none for levels without one.

    md drops the oldest stripes first and keeps 17. So the cache is shrunk twice, with new stripes in between
    (raid5_set_cache_size and drop_one_stripe in drivers/md/raid5.c).
    """
    size = shape.files["stripe_cache_size"]
    if not shape.is_parity or not size.isdecimal():
        return ()
    path = md_path(shape.name, "stripe_cache_size")
    numbers = f"{_FEWEST_STRIPES} {max(_MANY_STRIPES, int(size))} {_FEWEST_STRIPES} {size}"
    line = f"for size in {numbers}; do echo $size > {path} || exit 1; done"
    return (Step(("sh", "-c", line), "md keeps stripes that were used lately in memory: they are forgotten."),)


def bad_block(session: LabSession, name: str, disk: str, sector: int | None = None) -> Plan:
    """Put 4 KiB of a member on md's bad-block list: from this sector of its device, or in the middle of the known data.

    Raises ArrayError for a disk without current data of the array, or a sector without data.
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
    """The first data block on this member in the second half of the known data."""
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
    """Sectors of the array from the middle of the known data to their end; for a file, in its longest extent."""
    start, length = mark.start_bytes, mark.length_bytes
    if not mark.is_raw:
        pieces = [each.extent for each in locate_file(session, shape.name, mark.path).extents if each.start]
        if not pieces:
            raise ArrayError(f"{mark.path} has no place on {shape.name}", hint="write the known data again")
        longest = max(pieces, key=lambda piece: piece.length)
        start, length = longest.device_byte, longest.length
    first = (start + length // 2) // SECTOR_BYTES
    return first - first % BLOCK_SECTORS, (start + length) // SECTOR_BYTES
