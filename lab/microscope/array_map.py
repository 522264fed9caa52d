"""Where a block of an array lies, and what a sector of a member holds: the arithmetic applied to a running array."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.arrays.geometry import RESYNC_BLOCK_SECTORS, ArrayGeometry, ChunkKind, MemberPlace
from lab.errors import ArrayError
from lab.microscope.areas import AreaKind, MemberArea
from lab.microscope.reading import MappedArray, MappedMember
from lab.units import KIB, SECTOR_BYTES

BLOCK_BYTES = 4 * KIB
BLOCK_SECTORS = BLOCK_BYTES // SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class LocatedPlace:
    """One member that has something of a block."""

    kind: ChunkKind
    copy: int
    slot: int
    member: str
    """The disk's name; empty for a slot that nobody has."""
    device: str
    device_sector: int | None
    """From the start of the member's device; None without a member."""
    note: str = ""
    """Why md does not get it from there now; empty if it does."""


@dataclass(frozen=True, slots=True)
class LocatedBlock:
    """Where a sector of the array, or the block that begins there, lies."""

    array: str
    sector: int
    block: int
    """Of 4 KiB."""
    chunk: int | None
    """None on levels without chunks."""
    stripe: int | None
    chunk_offset_bytes: int
    """From the beginning of the chunk; of a mirror, of what md compares at once."""
    places: tuple[LocatedPlace, ...]
    """Data first, then copies."""
    parities: tuple[LocatedPlace, ...]
    shape: str = ""
    """During a reshape by which shape it lies: ``before`` or ``new``; otherwise empty."""
    doubt: str = ""
    """Why the answer may be out of date; empty: it is certain."""


def locate(shape: MappedArray, sector: int) -> LocatedBlock:
    """Where a sector of the array lies. Raises ArrayError for one behind its end."""
    if not 0 <= sector < shape.size_sectors:
        raise ArrayError(
            f"{shape.name} has no sector {sector}",
            hint=f"its last is {shape.size_sectors - 1}, in block {(shape.size_sectors - 1) // BLOCK_SECTORS} of 4 KiB",
        )
    reshaping = shape.reshaping
    is_before = reshaping is not None and reshaping.is_ahead(sector)
    geometry = reshaping.before if reshaping and is_before else shape.geometry
    chunk_sectors = chunk_of(geometry)
    return LocatedBlock(
        array=shape.name,
        sector=sector,
        block=sector // BLOCK_SECTORS,
        chunk=sector // chunk_sectors if chunk_sectors else None,
        stripe=geometry.stripe_of(sector) if geometry.has_stripes else None,
        chunk_offset_bytes=sector % (chunk_sectors or RESYNC_BLOCK_SECTORS) * SECTOR_BYTES,
        places=_located(shape, geometry.places(sector), is_before=is_before),
        parities=_located(shape, geometry.parities(sector), is_before=is_before),
        shape="" if reshaping is None else "before" if is_before else "new",
        doubt=_doubt(shape, is_before=is_before),
    )


def _doubt(shape: MappedArray, *, is_before: bool) -> str:
    """What md has moved since it last noted its position nobody knows but md."""
    if not is_before or shape.reshaping is None or not shape.reshaping.is_moving:
        return ""
    return (
        f"the reshape is running: md last noted sector {shape.reshaping.position}, and may have passed this one since; "
        "to be certain hold it with md/sync_max, or wait for its end"
    )


def chunk_of(geometry: ArrayGeometry) -> int:
    """Sectors of its chunks; 0 where it has none."""
    size: int = getattr(geometry, "chunk_sectors", 0)
    return size


def _located(shape: MappedArray, places: Sequence[MemberPlace], *, is_before: bool) -> tuple[LocatedPlace, ...]:
    found: list[LocatedPlace] = []
    for place in places:
        members = shape.members_in(place.slot)
        if not members:
            found.append(LocatedPlace(place.kind, place.copy, place.slot, "", "", None, "no member has this slot"))
        for member in members:
            sector = shape.offset_of(member, is_before=is_before) + place.sector
            note = _note(member, place.sector, sector)
            found.append(LocatedPlace(place.kind, place.copy, place.slot, member.name, member.device, sector, note))
    return tuple(found)


def _note(member: MappedMember, sector: int, device_sector: int) -> str:
    if not member.has_data_at(sector):
        return "not rebuilt so far"
    if member.is_bad(device_sector):
        return "in md's list of bad blocks"
    return "the replacement has it too" if member.is_replacement else ""


@dataclass(frozen=True, slots=True)
class LocatedSector:
    """What a sector of a member's device holds."""

    array: str
    member: str
    device: str
    slot: int | None
    device_sector: int
    area: AreaKind
    area_start: int
    area_sectors: int
    kind: ChunkKind | None = None
    """Of data: what it is."""
    stripe: int | None = None
    sectors: tuple[int, ...] = ()
    """The array's sector that lies there; for parity every sector that it protects."""
    copy: int = 0
    chunk_offset_bytes: int = 0
    """From the beginning of the chunk."""
    shape: str = ""
    note: str = ""
    doubt: str = ""
    """This and ``shape``: as in ``LocatedBlock``."""

    @property
    def blocks(self) -> tuple[int, ...]:
        """The array's blocks of 4 KiB in which these sectors are."""
        return tuple(sector // BLOCK_SECTORS for sector in self.sectors)


def on_member(
    shape: MappedArray, member: MappedMember, device_sector: int, areas: Sequence[MemberArea]
) -> LocatedSector:
    """What a member holds in a sector of its device. Raises ArrayError for one behind its end."""
    area = next((each for each in areas if each.holds(device_sector)), None)
    if area is None:
        raise ArrayError(
            f"{member.name} has no sector {device_sector}", hint=f"its sectors end at {member.device_sectors - 1}"
        )
    common = (shape.name, member.name, member.device, member.slot, device_sector, area.kind, area.start, area.length)
    if area.kind is not AreaKind.DATA:
        return LocatedSector(*common)
    if member.slot is None or not member.is_working:
        return LocatedSector(*common, note="it has no slot: what is there is none of the array's data now")
    for is_before in (False, True) if shape.reshaping else (False,):
        geometry = shape.reshaping.before if shape.reshaping and is_before else shape.geometry
        sector = device_sector - shape.offset_of(member, is_before=is_before)
        found = geometry.content(member.slot, sector) if sector >= 0 and member.slot < geometry.slots else None
        if found is None or not _is_current(shape, found.sectors, is_before=is_before):
            continue
        name = "" if shape.reshaping is None else "before" if is_before else "new"
        note = _note(member, sector, device_sector)
        doubt = _doubt(shape, is_before=is_before)
        rest = sector % (chunk_of(geometry) or RESYNC_BLOCK_SECTORS) * SECTOR_BYTES
        return LocatedSector(*common, found.kind, found.stripe, found.sectors, found.copy, rest, name, note, doubt)
    note = "left behind by the reshape, or not reached yet" if shape.reshaping else "room that this shape does not use"
    return LocatedSector(*common, note=note)


def _is_current(shape: MappedArray, sectors: Sequence[int], *, is_before: bool) -> bool:
    """Whether the shape holds for what lies there. Old parity counts as long as any of its data have not moved."""
    inside = [sector for sector in sectors if sector < shape.size_sectors]
    if shape.reshaping is None or not inside:
        return bool(inside)
    ahead = [shape.reshaping.is_ahead(sector) for sector in inside]
    return any(ahead) if is_before else not any(ahead)
