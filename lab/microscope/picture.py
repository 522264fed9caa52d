"""Read one stripe and compare its parity or copies, to find out which member is wrong and what md would do.

md's procedures are handle_parity_checks5() and handle_parity_checks6() in drivers/md/raid5.c, process_checks() in
drivers/md/raid1.c and sync_request_write() in drivers/md/raid10.c.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.arrays import operations
from lab.arrays.array import OpenArrays
from lab.arrays.geometry import (
    RESYNC_BLOCK_SECTORS,
    ArrayGeometry,
    ChunkKind,
    ParityGeometry,
    ParityRow,
    StripeCell,
    StripeMap,
)
from lab.arrays.levels import md_path
from lab.arrays.parity_program import LOGARITHMS, ORDER, exclusive_or, one_from_q, q_of, two_from_p_and_q
from lab.errors import ArrayError
from lab.gates.decoding import whole
from lab.microscope.array_map import (
    BLOCK_SECTORS,
    MOST_BYTES,
    BytesAt,
    MappedArray,
    MappedMember,
    areas_of,
    chunk_of,
    hold_of,
    locate,
    locate_file,
    on_member,
    read_moment,
    read_shape,
)
from lab.plans import Danger, Plan, Step
from lab.session.data_mark import DataMark, mark_of
from lab.session.session import LabSession
from lab.units import SECTOR_BYTES


def differing(left: bytes, right: bytes) -> tuple[int, ...]:
    """Return the offsets at which two byte strings of the same length differ."""
    if left == right:
        return ()
    total = int.from_bytes(left, "little") ^ int.from_bytes(right, "little")
    return tuple(place for place, value in enumerate(total.to_bytes(len(left), "little")) if value)


PAGE_BYTES = 4096
"""The unit in which md processes each member of a parity array (RAID5_STRIPE_SIZE)."""


class StripeVerdict(StrEnum):
    """Whether a stripe is consistent."""

    AGREES = "agrees"
    DIFFERS = "differs"
    UNKNOWN = "nothing to compare"
    """Too many members are missing, or the level has no redundancy."""


@dataclass(frozen=True, slots=True)
class SeenCell:
    """One chunk, and its content on the member."""

    cell: StripeCell
    data: bytes | None
    """The content, or None if no member has it or it could not be read."""
    computed: bytes | None = None
    """The content that follows from the rest of the stripe: parity from data, data from parity, or the first copy."""

    @property
    def differs(self) -> tuple[int, ...]:
        return () if self.data is None or self.computed is None else differing(self.data, self.computed)


@dataclass(frozen=True, slots=True)
class Blamed:
    """The chunk that the redundancy of the stripe identifies as wrong."""

    slot: int
    sector: int
    kind: ChunkKind
    bytes_wrong: tuple[int, ...]
    right: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class StripeComparison:
    """The result of the evaluation of a stripe."""

    verdict: StripeVerdict
    cells: tuple[SeenCell, ...]
    blamed: Blamed | None
    """The wrong chunk, or None if no chunk is wrong or the wrong one cannot be determined."""
    why_unknown: str
    """Why the wrong chunk of an inconsistent stripe cannot be determined."""
    mismatch_sectors: int
    """The number that a check would add to md/mismatch_cnt for these bytes."""
    repaired: Mapping[tuple[int, int], bytes]
    """What a repair would write, as the complete new content of each chunk, by slot and sector."""


def compare_parity(cells: Sequence[SeenCell], row: ParityRow) -> StripeComparison:
    """Evaluate a stripe of RAID 4, 5 or 6 from the content of its chunks, which all have the same length."""
    by_slot = {seen.cell.slot: seen for seen in cells}
    held = {slot: seen.data for slot, seen in by_slot.items() if seen.data is not None}
    length = len(next(iter(held.values()), b""))
    data = filled_in(row, held, length)
    if data is None:
        # Too few chunks are left to compute the missing ones.
        return StripeComparison(StripeVerdict.UNKNOWN, tuple(cells), None, "", 0, {})
    parity = parities_of(row, data, length)
    lost_data = [slot for slot in row.data_slots if slot not in held]
    # Missing data are computed from P, or from Q if P is missing too. The parity used for this cannot be checked.
    used = [slot for slot in parity if slot in held][: len(lost_data)]
    is_enough = len(by_slot) - len(held) < len(parity)
    checked = [slot for slot in parity if slot in held and slot not in used] if is_enough else []
    computed = {slot: data[slot] for slot in lost_data} | {s: part for s, part in parity.items() if s not in used}
    judged = tuple(SeenCell(seen.cell, seen.data, computed.get(seen.cell.slot)) for seen in cells)
    if not checked:
        return StripeComparison(StripeVerdict.UNKNOWN, judged, None, "", 0, {})
    wrong = {seen.cell.slot: seen for seen in judged if seen.cell.slot in checked and seen.differs}
    if not wrong:
        return StripeComparison(StripeVerdict.AGREES, judged, None, "", 0, {})
    pages = {place // PAGE_BYTES for seen in wrong.values() for place in seen.differs}
    repaired = {(seen.cell.slot, seen.cell.sector): seen.computed or b"" for seen in wrong.values()}
    blamed, why = _blame_parity(row, by_slot, parity, has_lost=len(held) < len(by_slot))
    sectors = len(pages) * PAGE_BYTES // SECTOR_BYTES
    return StripeComparison(StripeVerdict.DIFFERS, judged, blamed, why, sectors, repaired)


def parities_of(row: ParityRow, data: Mapping[int, bytes], length: int) -> dict[int, bytes]:
    """Map the slots of P and Q to their correct content, computed from all data by slot."""
    found = {row.p_slot: exclusive_or(data.values(), length)}
    if row.q_slot is not None:
        found[row.q_slot] = q_of({row.exponents[slot]: part for slot, part in data.items()}, length)
    return found


def filled_in(row: ParityRow, held: Mapping[int, bytes], length: int) -> dict[int, bytes] | None:
    """Return all data by slot, or None if too many are missing.

    Missing data are computed the way md does: one block from P if possible, otherwise from Q, and two from both.
    """
    data = {slot: held[slot] for slot in row.data_slots if slot in held}
    missing = [slot for slot in row.data_slots if slot not in held]
    p, q = held.get(row.p_slot), None if row.q_slot is None else held.get(row.q_slot)
    weighed = {row.exponents[slot]: part for slot, part in data.items()}
    if not missing:
        return data
    if len(missing) == 1 and p is not None:
        return data | {missing[0]: exclusive_or((p, *data.values()), length)}
    if len(missing) == 1 and q is not None:
        return data | {missing[0]: one_from_q(q, weighed, row.exponents[missing[0]])}
    if len(missing) == 2 and p is not None and q is not None:
        first, second = missing
        pair = two_from_p_and_q(p, q, weighed, (row.exponents[first], row.exponents[second]))
        return data | dict(zip(missing, pair, strict=True))
    return None


def _blame_parity(
    row: ParityRow, by_slot: Mapping[int, SeenCell], parity: Mapping[int, bytes], *, has_lost: bool
) -> tuple[Blamed | None, str]:
    if row.q_slot is None:
        return None, "one parity shows only that something is wrong"
    if has_lost:
        return None, "with a member missing, one parity is left, which shows only that something is wrong"
    stored = {slot: by_slot[slot].data or b"" for slot in (row.p_slot, row.q_slot)}
    bad = {slot: set(differing(stored[slot], parity[slot])) for slot in stored}
    p, q = row.p_slot, row.q_slot
    named: Counter[int | None] = Counter()
    by_power = {power % ORDER: slot for slot, power in row.exponents.items()}
    for place in sorted(bad[p] | bad[q]):
        if place not in bad[q]:
            named[p] += 1
        elif place not in bad[p]:
            named[q] += 1
        else:
            # If one part is wrong by e, P differs by e, and Q differs by 2**power times e.
            p_power, q_power = (LOGARITHMS[stored[slot][place] ^ parity[slot][place]] for slot in (p, q))
            named[by_power.get((q_power - p_power) % ORDER)] += 1
    if len(named) != 1 or None in named:
        return None, "P and Q do not identify a single member, so more than one is wrong"
    (slot,) = named
    assert slot is not None
    cell, wrong = by_slot[slot].cell, tuple(sorted(bad[p] | bad[q]))
    if slot in stored:
        kind, other = (ChunkKind.P, ChunkKind.Q) if slot == p else (ChunkKind.Q, ChunkKind.P)
        why = f"{other.value} fits the data, and only {kind.value} does not"
        return Blamed(slot, cell.sector, kind, wrong, parity[slot], why), ""
    data = bytearray(by_slot[slot].data or b"")
    for place in wrong:
        data[place] ^= stored[p][place] ^ parity[p][place]
    return Blamed(slot, cell.sector, ChunkKind.DATA, wrong, bytes(data), "P and Q both identify it"), ""


def compare_copies(cells: Sequence[SeenCell], unit_sectors: int) -> StripeComparison:
    """Evaluate the copies of RAID 1 or 10. ``unit_sectors`` is the unit that md compares."""
    groups: dict[int, list[SeenCell]] = {}
    for seen in cells:
        groups.setdefault(seen.cell.number, []).append(seen)
    judged: dict[StripeCell, SeenCell] = {}
    repaired: dict[tuple[int, int], bytes] = {}
    blames: list[tuple[Blamed | None, str]] = []
    sectors, is_compared = 0, False
    for group in groups.values():
        there = sorted((seen for seen in group if seen.data is not None), key=lambda seen: seen.cell.copy)
        first = there[0].data if there else None
        judged |= {seen.cell: SeenCell(seen.cell, seen.data, first) for seen in group}
        wrong = [judged[seen.cell] for seen in there if judged[seen.cell].differs]
        for seen in wrong:
            repaired[seen.cell.slot, seen.cell.sector] = first or b""
            sectors += unit_sectors * len({place // (unit_sectors * SECTOR_BYTES) for place in seen.differs})
        blames += [_outvoted(there)] if wrong else []
        is_compared |= len(there) > 1
    in_order = tuple(judged[seen.cell] for seen in cells)
    verdict = StripeVerdict.DIFFERS if repaired else StripeVerdict.AGREES if is_compared else StripeVerdict.UNKNOWN
    named = blames[0][0] if len(blames) == 1 else None
    why = next((why for _, why in blames if why), "more than one member is wrong" if len(blames) > 1 else "")
    return StripeComparison(verdict, in_order, named, why, sectors, repaired)


def _outvoted(copies: Sequence[SeenCell]) -> tuple[Blamed | None, str]:
    """Find the one copy that differs from all others, if the others agree. md itself takes no such majority vote."""
    if len(copies) < 3:
        return None, "two copies without a third show only that they differ"
    counted = Counter(seen.data for seen in copies)
    (usual, votes), *others = counted.most_common()
    if votes != len(copies) - 1 or not others:
        return None, "no copy differs from all others"
    odd = next(seen for seen in copies if seen.data != usual)
    right = usual or b""
    wrong = differing(odd.data or b"", right)
    why = f"{votes} of {len(copies)} copies agree against it"
    return Blamed(odd.cell.slot, odd.cell.sector, odd.cell.kind, wrong, right, why), ""


@dataclass(frozen=True, slots=True)
class StripePicture:
    """One stripe. ``length_bytes`` of each of its chunks are compared, beginning at ``skip_bytes``."""

    shape: MappedArray
    geometry: ArrayGeometry
    stripe: StripeMap
    skip_bytes: int
    length_bytes: int
    comparison: StripeComparison
    holders: Mapping[tuple[int, int], MappedMember]
    """The member that has each chunk, by the chunk's slot and sector."""
    missing: Mapping[tuple[int, int], str]
    """Why a chunk was not read, by its slot and sector."""
    is_before: bool
    """Whether the stripe still has the geometry from before the running reshape."""
    is_one_moment: bool
    why_not: str

    @property
    def cells(self) -> tuple[SeenCell, ...]:
        """All chunks, row by row, followed by their copies in other stripes."""
        return self.comparison.cells

    @property
    def awaits_resync(self) -> bool:
        """Whether md has yet to sync this stripe, in the first resync or in a resync after an unclean stop."""
        start = self.shape.files["resync_start"]
        # resync_start is a sector of the array in RAID 10, and a sector of the members in all other levels.
        place = self.stripe.first_sector if self.shape.level == "raid10" else self.stripe.cells[0].sector
        return start.isdecimal() and place + self.stripe.cell_sectors > int(start)

    def member_of(self, cell: StripeCell) -> MappedMember | None:
        return self.holders.get((cell.slot, cell.sector))

    def device_sector(self, cell: StripeCell) -> int | None:
        member = self.member_of(cell)
        return self.shape.offset_of(member, is_before=self.is_before) + cell.sector if member else None


def read_stripe(
    arrays: OpenArrays, name: str, number: int, *, skip_bytes: int = 0, length_bytes: int | None = None
) -> StripePicture:
    """Read ``length_bytes`` of each chunk of a stripe, from ``skip_bytes`` on, and evaluate what was read.

    By default ``length_bytes`` is the rest of the chunk, up to the maximum for one read. Raises ArrayError if there is
    no such stripe, or if ``skip_bytes`` lies outside its chunks.
    """
    shape = read_shape(arrays, name)
    geometry, stripe, is_before = stripe_in(shape, number)
    whole = stripe.cell_sectors * SECTOR_BYTES
    if not 0 <= skip_bytes < whole:
        raise ArrayError(
            f"byte {skip_bytes} lies outside the chunks of {name}", hint=f"choose a byte from 0 to {whole - 1}"
        )
    cells = (*stripe.cells, *_copies_elsewhere(geometry, stripe))
    most = MOST_BYTES // len(cells) // PAGE_BYTES * PAGE_BYTES
    length = min(whole - skip_bytes, most if length_bytes is None else length_bytes)
    holders, missing = _holders(shape, cells, stripe.cell_sectors, is_before=is_before)
    places = []
    for (_, sector), member in holders.items():
        at = (shape.offset_of(member, is_before=is_before) + sector) * SECTOR_BYTES
        places.append(BytesAt(member.device, at + skip_bytes, length))
    hold, why_not = hold_of(shape, stripe.first_sector, stripe.sectors)
    moment = read_moment(arrays.machine, places, array=f"/dev/{name}", hold=hold)
    read = dict(zip(holders, moment.places, strict=True))
    missing |= {key: found.failure for key, found in read.items() if found.failure}
    data = {key: found.data for key, found in read.items() if not found.failure}
    seen = [SeenCell(cell, data.get((cell.slot, cell.sector))) for cell in cells]
    if isinstance(geometry, ParityGeometry):
        comparison = compare_parity(seen, geometry.row(stripe.number))
    else:
        # A unit that md compares does not cross a chunk boundary (raid10_sync_request in drivers/md/raid10.c).
        unit = min(RESYNC_BLOCK_SECTORS, chunk_of(geometry) or RESYNC_BLOCK_SECTORS)
        comparison = compare_copies(seen, unit)
    return StripePicture(
        shape=shape,
        geometry=geometry,
        stripe=stripe,
        skip_bytes=skip_bytes,
        length_bytes=length,
        comparison=comparison,
        holders=holders,
        missing=missing,
        is_before=is_before,
        is_one_moment=moment.is_one,
        why_not=why_not or moment.why_not,
    )


def stripe_in(shape: MappedArray, number: int) -> tuple[ArrayGeometry, StripeMap, bool]:
    """Return the stripe with this number. During a reshape, its geometry is the one in which its data lie now.

    Raises ArrayError if there is no such stripe, or if the reshape has split it.
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
        f"stripe {number} of {shape.name} is partly in the old layout and partly in the new; the reshape is at sector "
        f"{reshaping.position}",
        hint=f"find a block during the reshape with 'raidlab array map {shape.name} --block N'",
    )


def _copies_elsewhere(geometry: ArrayGeometry, stripe: StripeMap) -> Iterator[StripeCell]:
    """Yield copies of this stripe's chunks in adjacent rows, where near copies on an odd number of members may lie."""
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
            missing[key] = "not rebuilt yet" if there else "no member has this slot"
        elif member.is_bad(shape.offset_of(member, is_before=is_before) + cell.sector, cell_sectors):
            missing[key] = "in md's list of bad blocks"
        else:
            holders[key] = member
    return holders, missing


_FEWEST_STRIPES, _MANY_STRIPES = 17, 256
"""The minimum that md accepts for stripe_cache_size, and a size at which new stripes replace all old ones."""


def parse_place(text: str) -> tuple[str, int]:
    """Parse text such as ``disk03:17`` into the disk and the byte. Raises SpecError if it has a different form."""
    disk, _, byte = text.rpartition(":")
    return disk, whole(byte, "byte")


def flip_plan(picture: StripePicture, device: str, byte: int) -> Plan:
    """Return a plan that inverts all bits of one byte of the stripe, on the member ``device``.

    ``byte`` counts from the beginning of the member's part of the stripe, which is its chunk, or its chunks in
    sequence. Raises ArrayError if the byte lies outside this part, or if the picture does not contain the byte.
    """
    shape = picture.shape
    member = shape.member(device)
    found = picture.stripe.cell_at(member.slot, byte) if member.slot is not None and byte >= 0 else None
    start = picture.device_sector(found[0]) if found else None
    if found is None or start is None or picture.member_of(found[0]) != member:
        raise ArrayError(
            f"byte {byte} lies outside stripe {picture.stripe.number} on {member.name}",
            hint="choose a member that is in sync, and a byte within its chunks of "
            f"{picture.stripe.cell_sectors * 512} bytes, counted from 0",
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
    # blockdev(8): --flushbufs invalidates the kernel's page cache of a device.
    why = "The kernel's cache of the member may be outdated, so it is dropped before the byte changes."
    before = Step(("blockdev", "--flushbufs", device), why)
    why = "Cached data of the array are dropped too."
    after = Step(("blockdev", "--flushbufs", f"/dev/{shape.name}"), why)
    steps = (before, write, *empty_stripes(shape), after)
    return Plan(f"Flip byte {rest} of {cell.words} on {member.name}, silently", steps)


def _put(device: str, place: int, value: int) -> str:
    # The byte is in octal, which the printf of every shell supports (POSIX, printf).
    return f"printf '\\{value:03o}' | dd of={device} bs=1 seek={place} conv=notrunc,fsync status=none"


def empty_stripes(shape: MappedArray) -> tuple[Step, ...]:
    """Return steps that empty md's stripe cache, or none for levels that have no such cache.

    md drops the oldest stripes first and keeps at least 17 of them. Therefore the cache is shrunk twice, with new
    stripes in between (raid5_set_cache_size and drop_one_stripe in drivers/md/raid5.c).
    """
    size = shape.files["stripe_cache_size"]
    if not shape.is_parity or not size.isdecimal():
        return ()
    path = md_path(shape.name, "stripe_cache_size")
    numbers = f"{_FEWEST_STRIPES} {max(_MANY_STRIPES, int(size))} {_FEWEST_STRIPES} {size}"
    line = f"for size in {numbers}; do echo $size > {path} || exit 1; done"
    return (Step(("sh", "-c", line), "Drops the recently used stripes that md keeps in memory."),)


def bad_block(session: LabSession, name: str, disk: str, sector: int | None = None) -> Plan:
    """Return a plan that puts 4 KiB of a member on md's bad-block list.

    The bad block begins at ``sector`` of the member's device or, by default, in the middle of the known data. Raises
    ArrayError if the disk holds no current data of the array, or if the sector holds no data.
    """
    array = session.array(name)
    status = array.status()
    if "corrupt" in status.cannot:
        raise array.refusal("putting a bad block on a member")
    member = status.member(session.node(disk))
    if member.slot is None or not member.is_in_sync:
        raise ArrayError(f"{disk} holds no current data of {name}", hint="choose a member that is in sync")
    if status.metadata_version[:2] != "1.":
        raise ArrayError(f"{name} has no bad-block list", hint="choose an array with metadata 1.x (md(4))")
    shape = read_shape(session, name)
    mapped = shape.member(member.device)
    if sector is None:
        sector = _sector_in_mark(session, shape, mapped)
    else:
        found = on_member(shape, mapped, sector, areas_of(shape, mapped, b""))
        if found.kind is None or sector % BLOCK_SECTORS:
            raise ArrayError(
                f"a block of {mapped.name} cannot begin at sector {sector}: {found.note or found.area}",
                hint=f"choose a multiple of {BLOCK_SECTORS} that holds data; 'raidlab array map' shows the areas",
            )
    return array.awake_first(status, operations.list_bad_block(name, member.device, sector))


def _sector_in_mark(session: LabSession, shape: MappedArray, member: MappedMember) -> int:
    """Return the first sector of the first data block on this member in the second half of the known data."""
    mark = mark_of(session, shape.name)
    if mark is None:
        raise ArrayError(
            f"{shape.name} contains no known data in which to place the bad block",
            hint=f"write known data with 'raidlab array mark {shape.name}', or specify a sector with --sector",
        )
    first, last = _mark_sectors(session, shape, mark)
    for sector in range(first, last, BLOCK_SECTORS):
        for place in locate(shape, sector).places:
            if place.device == member.device and place.kind is ChunkKind.DATA and place.device_sector is not None:
                return place.device_sector
    raise ArrayError(
        f"{member.name} has no data block in the second half of the known data", hint="choose a different member"
    )


def _mark_sectors(session: LabSession, shape: MappedArray, mark: DataMark) -> tuple[int, int]:
    """Return the array's sectors in the second half of the known data.

    If these are in a file, only the file's longest extent counts.
    """
    start, length = mark.start_bytes, mark.length_bytes
    if not mark.is_raw:
        pieces = [each.extent for each in locate_file(session, shape.name, mark.path).extents if each.start]
        if not pieces:
            raise ArrayError(f"no block of {mark.path} is allocated on {shape.name}", hint="write the known data again")
        longest = max(pieces, key=lambda piece: piece.length)
        start, length = longest.device_byte, longest.length
    first = (start + length // 2) // SECTOR_BYTES
    return first - first % BLOCK_SECTORS, (start + length) // SECTOR_BYTES
