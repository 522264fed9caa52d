"""What somebody types who looks for a place: a stripe, a block, a sector of a member or a file; and its stripe."""

from __future__ import annotations

import re
from dataclasses import dataclass

from lab.arrays.open_arrays import OpenArrays
from lab.errors import ArrayError
from lab.gates.numbers import whole
from lab.microscope.areas import SUPERBLOCK_SECTORS, areas_of, superblock_sector
from lab.microscope.array_map import BLOCK_SECTORS, LocatedBlock, LocatedSector, locate, on_member
from lab.microscope.files import locate_file
from lab.microscope.members import BytesAt, read_moment
from lab.microscope.reading import read_shape
from lab.session.session import LabSession
from lab.units import SECTOR_BYTES

FORMS = "703, block 33744, disk03@4100 (a sector of its device), or a file"


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """A place in a stripe."""

    stripe: int
    byte: int
    """From the beginning of each chunk."""
    slot: int | None
    """Who has it; None: the stripe as a whole was asked for."""
    words: str


def find_place(session: LabSession, name: str, text: str) -> FoundPlace:
    """Where ``text`` is: in one of ``FORMS``. Raises LabError for what is not there, or lies in no stripe."""
    text = text.strip()
    if text.isdecimal():
        return FoundPlace(whole(text, "stripe"), 0, None, f"stripe {text}")
    if block := re.fullmatch(r"(?:block\s*|b)([0-9]+)", text):
        sector = whole(block[1], "block") * BLOCK_SECTORS
        return _of_block(locate(read_shape(session, name), sector), f"block {block[1]}")
    if member := re.fullmatch(r"([^/@\s]+)@([0-9]+)", text):
        return _of_sector(sector_of_member(session, name, member[1], whole(member[2], "sector")), name)
    located = locate_file(session, name, text)
    start = next((extent.start for extent in located.extents if extent.start), None)
    if start is None:
        raise ArrayError(f"nothing of {text} has a place on {name}", hint="write something to the file, and sync")
    return _of_block(start, f"{text}, which begins in block {start.block}")


def _of_block(found: LocatedBlock, words: str) -> FoundPlace:
    if found.stripe is None:
        raise ArrayError(f"{found.array} has no stripes", hint="'raidlab array map' shows where a block lies")
    return FoundPlace(found.stripe, found.chunk_offset_bytes, found.places[0].slot, words)


def _of_sector(found: LocatedSector, name: str) -> FoundPlace:
    if found.stripe is None or found.kind is None:
        raise ArrayError(
            f"sector {found.device_sector} of {found.member} lies in no stripe of {name}: {found.area}",
            hint=found.note or "its data begin further behind",
        )
    words = f"sector {found.device_sector} of {found.member}"
    return FoundPlace(found.stripe, found.chunk_offset_bytes, found.slot, words)


def sector_of_member(arrays: OpenArrays, name: str, disk: str, sector: int) -> LocatedSector:
    """What a disk of an array holds in a sector of its device, with the superblock read for its areas."""
    shape = read_shape(arrays, name)
    member = shape.member(arrays.node(disk))
    start = superblock_sector(shape.metadata, member.device_sectors)
    superblock = b""
    if start is not None:
        place = BytesAt(member.device, start * SECTOR_BYTES, SUPERBLOCK_SECTORS * SECTOR_BYTES)
        superblock = read_moment(arrays.machine, [place]).places[0].data
    return on_member(shape, member, sector, areas_of(shape, member, superblock))
