"""A stripe of a running array as stored on its members, evaluated by md's rules; and plans that damage it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.arrays import operations
from lab.arrays.array import OpenArrays
from lab.arrays.geometry import RESYNC_BLOCK_SECTORS, ArrayGeometry, ChunkKind, ParityGeometry, StripeCell, StripeMap
from lab.arrays.levels import md_path
from lab.errors import ArrayError
from lab.gates.decoding import whole
from lab.microscope.array_map import BLOCK_SECTORS, areas_of, locate, locate_file, on_member
from lab.microscope.comparison import PAGE_BYTES, SeenCell, StripeComparison, compare_copies, compare_parity
from lab.microscope.reading import (
    MOST_BYTES,
    BytesAt,
    BytesRead,
    MappedArray,
    MappedMember,
    hold_of,
    on_device,
    read_moment,
    read_shape,
)
from lab.plans import Danger, Plan, Step
from lab.session.data_mark import DataMark, mark_of
from lab.session.session import LabSession
from lab.units import SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class StripePicture:
    """One stripe.

    The comparison covers ``length_bytes`` of each chunk, from ``skip_bytes`` on; by default the whole chunk.
    """

    shape: MappedArray
    geometry: ArrayGeometry
    stripe: StripeMap
    skip_bytes: int
    length_bytes: int
    comparison: StripeComparison
    holders: Mapping[tuple[int, int], MappedMember]
    """Slot and sector of a chunk -> the member that has it."""
    missing: Mapping[tuple[int, int], str]
    """Slot and sector of a chunk -> why it was not read."""
    is_before: bool
    """Whether the stripe is in the geometry before the running reshape."""
    is_one_moment: bool
    why_not: str

    @property
    def cells(self) -> tuple[SeenCell, ...]:
        """All chunks, row by row, then the copies that are in another stripe."""
        return self.comparison.cells

    @property
    def awaits_resync(self) -> bool:
        """Whether md has yet to sync this stripe: in the first resync, or in one after an unclean stop."""
        start = self.shape.files["resync_start"]
        # RAID 10 counts resync_start on the array, all other levels on the members.
        place = self.stripe.first_sector if self.shape.level == "raid10" else self.stripe.cells[0].sector
        return start.isdecimal() and place + self.stripe.cell_sectors > int(start)

    def member_of(self, cell: StripeCell) -> MappedMember | None:
        """The member that has a chunk."""
        return self.holders.get((cell.slot, cell.sector))

    def device_sector(self, cell: StripeCell) -> int | None:
        """The first sector of a chunk on its member's device."""
        member = self.member_of(cell)
        return self.shape.offset_of(member, is_before=self.is_before) + cell.sector if member else None

    def name_of(self, slot: int) -> str:
        """The name of the disk in a slot."""
        found = self.shape.members_in(slot)
        return found[0].name if found else f"slot {slot}"


def look_at_stripe(
    arrays: OpenArrays, name: str, number: int, *, skip_bytes: int = 0, length_bytes: int | None = None
) -> StripePicture:
    """Read a stripe from the members and evaluate it: of each chunk ``length_bytes`` from ``skip_bytes`` on.

    None: the rest of the chunk, limited by the maximum of one read. Raises ArrayError for a stripe that does not exist.
    """
    shape = read_shape(arrays, name)
    geometry, stripe, is_before = stripe_in(shape, number)
    whole = stripe.cell_sectors * SECTOR_BYTES
    if not 0 <= skip_bytes < whole:
        raise ArrayError(f"the chunks of {name} have no byte {skip_bytes}", hint=f"their last is {whole - 1}")
    cells = (*stripe.cells, *_copies_elsewhere(geometry, stripe))
    most = MOST_BYTES // len(cells) // PAGE_BYTES * PAGE_BYTES
    length = min(whole - skip_bytes, most if length_bytes is None else length_bytes)
    holders, missing = _holders(shape, cells, stripe.cell_sectors, is_before=is_before)
    wanted = [
        BytesAt(
            holders[cell.slot, cell.sector].device,
            on_device(shape.offset_of(holders[cell.slot, cell.sector], is_before=is_before), cell.sector, skip_bytes),
            length,
        )
        for cell in cells
        if (cell.slot, cell.sector) in holders
    ]
    hold, why_not = hold_of(shape, stripe.first_sector, stripe.sectors)
    moment = read_moment(arrays.machine, wanted, array=f"/dev/{name}", hold=hold, why_not=why_not)
    read = iter(moment.places)
    seen = []
    for cell in cells:
        key = (cell.slot, cell.sector)
        found = next(read) if key in holders else BytesRead(b"", missing[key])
        if found.failure:
            missing[key] = found.failure
        seen.append(SeenCell(cell, None if found.failure else found.data))
    return StripePicture(
        shape=shape,
        geometry=geometry,
        stripe=stripe,
        skip_bytes=skip_bytes,
        length_bytes=length,
        comparison=_compared(geometry, stripe, seen),
        holders=holders,
        missing=missing,
        is_before=is_before,
        is_one_moment=moment.is_one,
        why_not=moment.why_not,
    )


def stripe_in(shape: MappedArray, number: int) -> tuple[ArrayGeometry, StripeMap, bool]:
    """The stripe with this number; during a reshape, in the geometry in which its data currently are.

    Raises ArrayError for one that does not exist, or that the reshape has split.
    """
    reshaping = shape.reshaping
    if reshaping is None:
        stripe = shape.geometry.stripe(number)
        return shape.geometry, stripe, False
    for is_before, geometry in ((False, shape.geometry), (True, reshaping.before)):
        if 0 <= number < geometry.stripe_count:
            stripe = geometry.stripe(number)
            inside = range(stripe.first_sector, stripe.first_sector + stripe.sectors)
            ends = (inside[0], inside[-1])
            if all(reshaping.is_ahead(sector) == is_before for sector in ends) and ends[1] < shape.size_sectors:
                return geometry, stripe, is_before
    raise ArrayError(
        f"stripe {number} of {shape.name} lies in no shape as a whole: the reshape is at sector {reshaping.position}",
        hint=f"'raidlab array map {shape.name} --block N' shows where a block lies during the reshape",
    )


def _copies_elsewhere(geometry: ArrayGeometry, stripe: StripeMap) -> Iterator[StripeCell]:
    """Copies of this stripe's chunks in the next or the last row (near copies on an odd number of members)."""
    there = {(cell.slot, cell.sector) for cell in stripe.cells}
    if isinstance(geometry, ParityGeometry):
        return
    for number, first in {cell.number: cell.first_sector for cell in stripe.cells}.items():
        for place in geometry.places(first):
            if (place.slot, place.sector) not in there:
                yield StripeCell(place.slot, place.sector, place.kind, number, place.copy, first)


def _holders(
    shape: MappedArray, cells: tuple[StripeCell, ...], cell_sectors: int, *, is_before: bool
) -> tuple[dict[tuple[int, int], MappedMember], dict[tuple[int, int], str]]:
    holders: dict[tuple[int, int], MappedMember] = {}
    missing: dict[tuple[int, int], str] = {}
    for cell in cells:
        key = (cell.slot, cell.sector)
        member = shape.member_in(cell.slot, cell.sector)
        if member is None:
            there = shape.members_in(cell.slot)
            missing[key] = "not rebuilt so far" if there else "no member has this slot"
        elif member.is_bad(shape.offset_of(member, is_before=is_before) + cell.sector, cell_sectors):
            missing[key] = "in md's list of bad blocks"
        else:
            holders[key] = member
    return holders, missing


def _compared(geometry: ArrayGeometry, stripe: StripeMap, seen: list[SeenCell]) -> StripeComparison:
    if isinstance(geometry, ParityGeometry):
        return compare_parity(seen, geometry.row(stripe.number))
    # md compares within a chunk (raid10_sync_request in drivers/md/raid10.c).
    chunk: int = getattr(geometry, "chunk_sectors", RESYNC_BLOCK_SECTORS)
    return compare_copies(seen, unit_sectors=min(RESYNC_BLOCK_SECTORS, chunk))


_FEWEST_STRIPES, _MANY_STRIPES = 17, 256
"""Minimum that md accepts for stripe_cache_size, and a size at which new stripes replace all remaining old ones."""


def parse_place(text: str) -> tuple[str, int]:
    """Parse ``disk03:17`` as disk and byte. Raises SpecError for other text."""
    disk, _, byte = text.rpartition(":")
    return disk, whole(byte, "byte")


def flip_plan(picture: StripePicture, device: str, byte: int) -> Plan:
    """A plan that inverts all bits of a byte of the stripe on the member on ``device``.

    ``byte`` counts from the beginning of the member's part of the stripe: its chunk, or its chunks in sequence. Raises
    ArrayError for a byte outside it, or one that the picture does not contain.
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
    plan = operations.list_bad_block(name, member.device, sector)
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
