"""A stripe of a running array as stored on its members, evaluated by the rules of md."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lab.arrays.geometry import RESYNC_BLOCK_SECTORS, ArrayGeometry, ParityGeometry, StripeCell, StripeMap
from lab.arrays.open_arrays import OpenArrays
from lab.errors import ArrayError
from lab.microscope.comparison import PAGE_BYTES, SeenCell, StripeComparison, compare_copies, compare_parity
from lab.microscope.members import MOST_BYTES, BytesAt, BytesRead, hold_of, on_device, read_moment
from lab.microscope.reading import MappedArray, MappedMember, read_shape
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
    """In the geometry before the running reshape."""
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
        hint=f"'raidlab array map {shape.name} --block N' shows where a block lies meanwhile",
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
