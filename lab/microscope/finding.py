"""Parses a place on an array as typed by a user: a stripe, a block, a sector of a member, or a file.

The extents of a file give blocks of the array, and those give sectors of the members.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lab.arrays import filesystem
from lab.arrays.filesystem import FileSystem
from lab.arrays.open_arrays import OpenArrays
from lab.errors import ArrayError, CommandFailed, LabError
from lab.gates.numbers import SizeBytes, whole
from lab.gates.own import decoded_json
from lab.machine import GuestProgram
from lab.microscope.array_map import (
    BLOCK_SECTORS,
    SUPERBLOCK_SECTORS,
    LocatedBlock,
    LocatedSector,
    areas_of,
    locate,
    on_member,
    superblock_sector,
)
from lab.microscope.members import BytesAt, read_moment
from lab.microscope.reading import read_shape
from lab.session.data_mark import file_system_on
from lab.session.session import LabSession
from lab.units import SECTOR_BYTES

EXTENTS = GuestProgram(Path(__file__).with_name("extents_program.py"), "file-extents")
_FLAGS = {
    0x2: "not placed yet",
    0x4: "still in memory",
    0x8: "encoded",
    0x200: "inside the inode",
    0x800: "reserved, nothing written so far",
}
_WITHOUT_PLACE = 0x2 | 0x4
"""Flags of an extent without a location (include/uapi/linux/fiemap.h)."""


class FileExtent(msgspec.Struct, frozen=True, array_like=True):
    """A contiguous range of a file, in bytes."""

    file_byte: SizeBytes
    device_byte: SizeBytes
    length: SizeBytes
    flags: int

    @property
    def is_placed(self) -> bool:
        """Whether it has a location on the device."""
        return not self.flags & _WITHOUT_PLACE

    @property
    def note(self) -> str:
        """Special properties; empty for plain data."""
        return ", ".join(words for flag, words in _FLAGS.items() if self.flags & flag)


class _Extents(msgspec.Struct, frozen=True):
    device: str
    bytes: SizeBytes
    extents: tuple[FileExtent, ...]


@dataclass(frozen=True, slots=True)
class LocatedExtent:
    """An extent, and the location of its first block on the members."""

    extent: FileExtent
    start: LocatedBlock | None
    """None for an extent without a location."""


@dataclass(frozen=True, slots=True)
class LocatedFile:
    """The extents of a file, in the order of its data, without holes."""

    path: str
    size_bytes: int
    extents: tuple[LocatedExtent, ...]


def locate_file(session: LabSession, name: str, path: str) -> LocatedFile:
    """Locate a file. A relative path is one on the array's own file system, which is mounted if necessary.

    Raises ArrayError for a file that is not on this array, LabError with the system's message if it cannot be read.
    """
    with _mounted(session, name, path) as full:
        try:
            found = decoded_json(session.machine.call(EXTENTS, (full,)), _Extents)
        except CommandFailed as error:
            hint = "write a path on the machine, or one below the array's own file system"
            raise LabError(error.stderr_tail, hint=hint) from error
    number = f"/sys/block/{name}/dev"
    if (session.machine.read([number])[number] or "").strip() != found.device:
        raise ArrayError(
            f"{path} is not on {name}: it lies on the device {found.device}",
            hint=f"'raidlab array show' lists the arrays; a path that is not absolute is one on {name}",
        )
    shape = read_shape(session, name)
    located = tuple(
        LocatedExtent(each, locate(shape, each.device_byte // SECTOR_BYTES) if each.is_placed else None)
        for each in found.extents
    )
    return LocatedFile(full, found.bytes, located)


@contextmanager
def _mounted(session: LabSession, name: str, path: str) -> Iterator[str]:
    """The file's path on the machine. An unmounted file system is mounted read-only, and unmounted afterwards."""
    array = session.array(name)
    places, own = array.mounted_on, filesystem.mount_point(array.device)
    # The path may be below a mount point of the lab whose mount ended with an earlier command.
    inside = path.removeprefix(f"{own}/") if not places else path
    if inside.startswith("/") or places:
        yield inside if inside.startswith("/") else posixpath.join(places[0], inside)
        return
    kind = file_system_on(session, array.device)
    if kind is FileSystem.RAW:
        raise ArrayError(f"{name} carries no file system, so no file", hint="look for a block: --block")
    # Without these options the mount would replay the journal (ext4(5), xfs(5)).
    options = ("ro", "noload" if kind is FileSystem.EXT4 else "norecovery")
    session.run(filesystem.mount(kind, array.device, options=options))
    try:
        yield posixpath.join(own, inside)
    finally:
        session.run(filesystem.unmount(kind, array.device))


FORMS = "703, block 33744, disk03@4100 (a sector of its device), or a file"


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """A place in a stripe."""

    stripe: int
    byte: int
    """Offset from the beginning of each chunk."""
    slot: int | None
    """The slot that has it; None: the whole stripe was requested."""
    words: str


def find_place(session: LabSession, name: str, text: str) -> FoundPlace:
    """Find the place of ``text``, which has one of ``FORMS``.

    Raises LabError if it does not exist or is in no stripe.
    """
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
    """The content of a sector of a disk's device, with the areas read from the superblock."""
    shape = read_shape(arrays, name)
    member = shape.member(arrays.node(disk))
    start = superblock_sector(shape.metadata, member.device_sectors)
    superblock = b""
    if start is not None:
        place = BytesAt(member.device, start * SECTOR_BYTES, SUPERBLOCK_SECTORS * SECTOR_BYTES)
        superblock = read_moment(arrays.machine, [place]).places[0].data
    return on_member(shape, member, sector, areas_of(shape, member, superblock))
