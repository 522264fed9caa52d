"""The geometry of a running array, the location of its blocks, and the content of its members.

The geometry is read from sysfs (Documentation/admin-guide/md.rst), never from the arguments with which the array was
created. During a reshape, md shows the old values in parentheses (layout_show, raid_disks_show and chunk_size_show in
drivers/md/md.c). Members are read with direct I/O while writes are suspended. Sectors of a member are counted from the
start of its device. The sources for areas are struct mdp_superblock_1 (include/uapi/linux/raid/md_p.h), super_90_load()
and super_1_load() in drivers/md/md.c, and md_bitmap_storage_alloc() in drivers/md/md-bitmap.c.
"""

from __future__ import annotations

import base64
import posixpath
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from lab.arrays import filesystem
from lab.arrays.array import OpenArrays
from lab.arrays.filesystem import FileSystem
from lab.arrays.geometry import (
    RAID5_LAYOUTS,
    RAID6_LAYOUTS,
    RESYNC_BLOCK_SECTORS,
    ArrayGeometry,
    ChunkKind,
    MemberPlace,
    geometry_of,
)
from lab.arrays.levels import is_array_name, md_path, node_of
from lab.arrays.status import SyncAction, parse_count, parse_flags
from lab.arrays.superblock_program import ROLES_OFFSET, parse_version_one
from lab.disks.head_program import old_place
from lab.errors import ArrayError, CommandFailed, LabError
from lab.gates.decoding import SizeBytes, decoded_json, whole
from lab.machine import GuestProgram, Machine
from lab.session.data_mark import file_system_on
from lab.session.session import LabSession
from lab.units import KIB, SECTOR_BYTES

SECTORS_IN_KIB = KIB // SECTOR_BYTES
_ARRAY_FILES = (
    *("level", "raid_disks", "layout", "chunk_size", "component_size", "array_state", "metadata_version", "degraded"),
    *("reshape_position", "reshape_direction", "sync_action", "sync_completed", "sync_max", "resync_start"),
    *("consistency_policy", "journal_mode", "rmw_level", "safe_mode_delay", "stripe_cache_size", "suspend_hi"),
    *("bitmap/location", "bitmap/space", "bitmap/chunksize"),
)
_MEMBER_FILES = (
    *("slot", "state", "offset", "new_offset", "size", "recovery_start", "ppl_sector", "ppl_size", "bad_blocks"),
)
_RAID0_DEFAULT = "/sys/module/raid0/parameters/default_layout"
_PARITY = ("raid4", "raid5", "raid6")


@dataclass(frozen=True, slots=True)
class MappedMember:
    """One member of an array. Sectors are counted from the start of the member's device."""

    name: str
    """The lab's name for the disk, or the device if it has none."""
    device: str
    slot: int | None
    flags: frozenset[str]
    offset: int
    """The first sector of the member's data."""
    new_offset: int
    """The first sector of the member's data after the reshape."""
    data_sectors: int
    device_sectors: int
    recovery_start: int | None
    """The end of the part that has been rebuilt, in sectors of data, or None if all data are current."""
    ppl: tuple[int, int]
    """The first sector and the length of the member's partial parity log, or (0, 0) if it has none."""
    bad_blocks: tuple[tuple[int, int], ...]
    """The first sector and the length of each range on md's bad-block list."""

    @property
    def is_working(self) -> bool:
        """Whether md reads from the member, at least from a part of it."""
        return self.slot is not None and "faulty" not in self.flags

    @property
    def is_replacement(self) -> bool:
        return "replacement" in self.flags

    def has_data_at(self, sector: int) -> bool:
        """Whether this sector of the member's data is current, and not one that a rebuild has yet to reach."""
        return self.is_working and (self.recovery_start is None or sector < self.recovery_start)

    def is_bad(self, device_sector: int, sectors: int = 1) -> bool:
        return any(
            start < device_sector + sectors and device_sector < start + length for start, length in self.bad_blocks
        )


@dataclass(frozen=True, slots=True)
class MappedBitmap:
    """An internal write-intent bitmap."""

    offset: int
    """The distance from the superblock in sectors, which is negative if the bitmap lies before it."""
    space: int
    """The number of sectors reserved for the bitmap, or 0 if unknown."""
    chunk_bytes: int


@dataclass(frozen=True, slots=True)
class Reshaping:
    """A reshape that has begun but not ended. Positions are sectors of the array."""

    before: ArrayGeometry
    position: int
    """Where the part with the new geometry ends or, if the reshape runs backwards, begins, as last recorded by md."""
    is_backwards: bool
    is_moving: bool
    """Whether the reshape is running, so that ``position`` is only the last one that md recorded."""

    def is_ahead(self, sector: int) -> bool:
        """Whether the reshape has not yet reached this sector (ahead_of_reshape in drivers/md/raid5.c)."""
        return sector < self.position if self.is_backwards else sector >= self.position


@dataclass(frozen=True, slots=True)
class MappedArray:
    """The properties of a running array that determine the location of its data."""

    name: str
    level: str
    layout: int
    geometry: ArrayGeometry
    chunk_sectors: int
    """The chunk size, or 0 for levels without chunks."""
    size_sectors: int
    metadata: str
    members: tuple[MappedMember, ...]
    reshaping: Reshaping | None
    bitmap: MappedBitmap | None
    files: Mapping[str, str]
    """The content of the array's sysfs files by name, which is empty for a file that does not exist."""

    @property
    def layout_word(self) -> str:
        """The name that mdadm uses for the layout, or an empty string for a level without layouts."""
        if self.level == "raid10":
            near, far = self.layout & 0xFF, self.layout >> 8 & 0xFF
            kind = "o" if self.layout >> 16 & 1 else "f"
            return " ".join([*([f"n{near}"] if near > 1 or far == 1 else []), *([f"{kind}{far}"] if far > 1 else [])])
        known = {"raid5": RAID5_LAYOUTS, "raid6": RAID6_LAYOUTS}.get(self.level, {})
        return known.get(self.layout, "")

    @property
    def is_parity(self) -> bool:
        return self.level in _PARITY

    @property
    def is_syncing(self) -> bool:
        return self.files["sync_action"] not in ("", "idle", "frozen")

    @property
    def sync_noun(self) -> str:
        """The common term for the running sync_action, such as rebuild for md's recover."""
        action = self.files["sync_action"]
        return SyncAction.RECOVER.noun if action == SyncAction.RECOVER else action

    def members_in(self, slot: int) -> tuple[MappedMember, ...]:
        """Return the members in this slot. There are two during a replacement."""
        found = [member for member in self.members if member.slot == slot and member.is_working]
        return tuple(sorted(found, key=lambda member: member.is_replacement))

    def name_of(self, slot: int) -> str:
        found = self.members_in(slot)
        return found[0].name if found else f"slot {slot}"

    def member_in(self, slot: int, sector: int) -> MappedMember | None:
        """Return the member in this slot from which this sector of its data can be read, or None if there is none."""
        return next((member for member in self.members_in(slot) if member.has_data_at(sector)), None)

    def member(self, device: str) -> MappedMember:
        """Return the member on a device. Raises ArrayError if there is none."""
        for member in self.members:
            if member.device == device:
                return member
        names = ", ".join(member.name for member in self.members)
        raise ArrayError(f"{device} is not a member of {self.name}", hint=f"choose one of its members: {names}")

    def offset_of(self, member: MappedMember, *, is_before: bool) -> int:
        """Return the first sector of a member's data, in the geometry before a reshape or in the current one."""
        return member.new_offset if self.reshaping and not is_before else member.offset


def read_shape(arrays: OpenArrays, name: str) -> MappedArray:
    """Read the geometry of an array. Raises ArrayError if the array is not running, or consists of several arrays."""
    if not is_array_name(name):
        raise ArrayError(
            f"{name} consists of several arrays, each with its own stripes",
            hint=f"inspect one of them: 'raidlab array show {name}' lists them",
        )
    folder = md_path(name)
    entries = [entry for entry in arrays.machine.list_dirs([folder])[folder] if entry.startswith("dev-")]
    blocks = [entry.removeprefix("dev-") for entry in entries]
    paths = [md_path(name, file) for file in _ARRAY_FILES]
    paths += [md_path(name, f"{entry}/{file}") for entry in entries for file in _MEMBER_FILES]
    # A member may be a partition, which has no folder in /sys/block.
    paths += [f"/sys/block/{name}/size", *(f"/sys/class/block/{block}/size" for block in blocks)]
    texts = arrays.machine.read([*paths, _RAID0_DEFAULT])
    known = {path: (text or "").strip() for path, text in texts.items()}
    words = {file: known[md_path(name, file)] for file in _ARRAY_FILES}
    if not words["level"] or not words["raid_disks"]:
        raise ArrayError(f"the machine has no running array {name}", hint="'raidlab array show' lists the arrays")
    members = tuple(_member(arrays, name, entry, known) for entry in entries)
    order = sorted(members, key=lambda each: (each.slot is None, each.slot or 0, each.is_replacement, each.device))
    size = parse_count(known[f"/sys/block/{name}/size"]) or 0
    return shape_of(name, words, order, size, raid0_default=parse_count(known[_RAID0_DEFAULT]) or 0)


def _member(arrays: OpenArrays, name: str, entry: str, known: Mapping[str, str]) -> MappedMember:
    text = {file: known[md_path(name, f"{entry}/{file}")] for file in _MEMBER_FILES}
    block = entry.removeprefix("dev-")
    device, offset = node_of(block), parse_count(text["offset"]) or 0
    bad = (line.split() for line in text["bad_blocks"].splitlines())
    new_offset = parse_count(text["new_offset"])
    return MappedMember(
        name=arrays.disk_name(device),
        device=device,
        slot=parse_count(text["slot"]),
        flags=parse_flags(text["state"]),
        offset=offset,
        new_offset=offset if new_offset is None else new_offset,
        data_sectors=(parse_count(text["size"]) or 0) * SECTORS_IN_KIB,
        device_sectors=parse_count(known[f"/sys/class/block/{block}/size"]) or 0,
        recovery_start=parse_count(text["recovery_start"]),
        ppl=(parse_count(text["ppl_sector"]) or 0, parse_count(text["ppl_size"]) or 0),
        bad_blocks=tuple((int(words[0]), int(words[1])) for words in bad if len(words) == 2),
    )


def shape_of(
    name: str, words: Mapping[str, str], members: Sequence[MappedMember], size_sectors: int, *, raid0_default: int = 0
) -> MappedArray:
    """Determine the geometry from the content of sysfs. Raises ArrayError if the level or layout is not supported."""
    level = words["level"] if not words["level"].isdecimal() else f"raid{words['level']}"
    used = (parse_count(words["component_size"]) or 0) * SECTORS_IN_KIB
    sizes = {member.slot: member.data_sectors for member in members if member.slot is not None}

    def geometry(layout: int, disks: int, chunk_sectors: int) -> ArrayGeometry:
        layout = layout or (raid0_default if level == "raid0" else 0)
        return geometry_of(level, layout, disks, chunk_sectors, used, sizes)

    now = _numbers(words, before=False)
    position = parse_count(words["reshape_position"])
    reshaping = None
    if position is not None:
        held = parse_count(words["sync_max"])
        done = parse_count(words["sync_completed"])
        is_held = held is not None and done is not None and done >= held
        reshaping = Reshaping(
            before=geometry(*_numbers(words, before=True)),
            position=position,
            is_backwards=words["reshape_direction"] == "backwards",
            is_moving=words["sync_action"] == "reshape" and not is_held,
        )
    location = words["bitmap/location"]
    bitmap = None
    if location[:1] in ("+", "-"):
        space, chunk = (parse_count(words[file]) or 0 for file in ("bitmap/space", "bitmap/chunksize"))
        bitmap = MappedBitmap(int(location), space, chunk)
    return MappedArray(
        name=name,
        level=level,
        layout=now[0],
        geometry=geometry(*now),
        chunk_sectors=now[2] if level != "raid1" else 0,
        size_sectors=size_sectors,
        metadata=words["metadata_version"],
        members=tuple(members),
        reshaping=reshaping,
        bitmap=bitmap,
        files=words,
    )


def _numbers(words: Mapping[str, str], *, before: bool) -> tuple[int, int, int]:
    """Return the layout, the number of slots and the chunk size in sectors, now or before the reshape.

    md shows the values before the reshape in parentheses.
    """
    found = []
    for file in ("layout", "raid_disks", "chunk_size"):
        numbers = words[file].replace("(", " ").replace(")", " ").split()
        word = numbers[-1 if before else 0] if numbers else "0"
        # md prints an unset layout as a negative number.
        found.append(int(word) if word.lstrip("-").isdecimal() else 0)
    layout, disks, chunk_bytes = found
    return layout, disks, chunk_bytes // SECTOR_BYTES


MEMBERS = GuestProgram(Path(__file__).with_name("member_program.py"), "read-members")
MOST_BYTES = 32 * 1024 * 1024
"""The maximum size of an answer, which takes a few seconds over the serial line of an embedded kernel."""


@dataclass(frozen=True, slots=True)
class BytesAt:
    """A range of a device, in bytes."""

    device: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class BytesRead:
    """The content of a range."""

    data: bytes
    failure: str = ""
    """The system's message if the range could not be read. In that case, ``data`` are zeros."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The content of several ranges, and whether it is one consistent snapshot."""

    places: tuple[BytesRead, ...]
    is_one: bool
    """Whether writes to the array were suspended during the read."""
    why_not: str = ""


class _Answer(msgspec.Struct, frozen=True):
    data: str
    failed: dict[str, str]
    held: bool
    why_not: str


def hold_of(shape: MappedArray, first_sector: int, sectors: int) -> tuple[tuple[str, int, int] | None, str]:
    """Return which writes to suspend while members are read, or None and the reason why none can be suspended."""
    if shape.reshaping:
        return None, "a reshape is running, during which md itself writes"
    if shape.is_syncing:
        return None, f"a {shape.sync_noun} is running, during which md itself writes"
    if not shape.files["suspend_hi"]:
        return None, f"md cannot suspend writes to a {shape.level}"
    if shape.files["suspend_hi"] != "0":
        return None, "another program suspends writes to part of the array"
    return (md_path(shape.name), first_sector, first_sector + sectors), ""


def read_moment(
    machine: Machine,
    places: Sequence[BytesAt],
    *,
    array: str = "",
    hold: tuple[str, int, int] | None = None,
) -> Moment:
    """Read all ranges, at most MOST_BYTES in total, after ``array`` is flushed. ``hold`` comes from ``hold_of``.

    Raises LabError if the program fails or its answer is damaged.
    """
    total = sum(place.length for place in places)
    requested = [[place.device, place.offset, place.length] for place in places]
    request = msgspec.json.encode({"array": array, "hold": hold, "places": requested}).decode()
    try:
        answer = decoded_json(machine.call(MEMBERS, (request,), timeout_seconds=120.0), _Answer)
    except CommandFailed as error:
        raise LabError(
            f"the members could not be read: {error.stderr_tail}", hint="check the machine's kernel messages: dmesg"
        ) from error
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(answer.data), max(total, 1))
    except (ValueError, zlib.error):
        data = b""
    if len(data) != total:
        raise LabError(
            "the data read from the members arrived damaged",
            hint="try again; if it happens again, check the machine's memory",
        )
    found, at = [], 0
    for number, place in enumerate(places):
        found.append(BytesRead(data[at : at + place.length], answer.failed.get(str(number), "")))
        at += place.length
    return Moment(tuple(found), answer.held, answer.why_not)


BLOCK_BYTES = 4 * KIB
BLOCK_SECTORS = BLOCK_BYTES // SECTOR_BYTES
SUPERBLOCK_SECTORS = 8
"""The space for a superblock, of which md reads and writes up to 4 KiB (super_1_load)."""
_BITMAP_HEAD_BYTES = 256
_PAGE_BYTES = 4096


class AreaKind(StrEnum):
    """The purpose of an area of a member."""

    SUPERBLOCK = "superblock"
    BITMAP = "write-intent bitmap"
    BAD_BLOCKS = "bad-block log"
    PPL = "partial parity log"
    JOURNAL = "journal"
    DATA = "data"
    BEFORE = "unused, before the data"
    """The space that mdadm reserves for a reshape, without the other areas in it."""
    TAIL = "unused tail"


@dataclass(frozen=True, slots=True)
class MemberArea:
    """A range of sectors of a member."""

    kind: AreaKind
    start: int
    length: int

    def holds(self, sector: int) -> bool:
        return self.start <= sector < self.start + self.length


def superblock_sector(metadata: str, device_sectors: int) -> int | None:
    """Return the sector of the superblock, or None for metadata that md does not manage (external, none)."""
    if metadata == "1.0":
        return (device_sectors - 16) & ~7
    if metadata == "0.90":
        return old_place(device_sectors * SECTOR_BYTES) // SECTOR_BYTES
    return {"1.1": 0, "1.2": 8}.get(metadata)


def areas_of(shape: MappedArray, member: MappedMember, superblock: bytes) -> tuple[MemberArea, ...]:
    """Return all areas of a member and the gaps between them, in order.

    ``superblock`` is the content of the superblock's sectors.
    """
    found: list[MemberArea] = []
    start = superblock_sector(shape.metadata, member.device_sectors)
    if start is not None:
        length = SUPERBLOCK_SECTORS
        if read := parse_version_one(superblock):
            length = min(-(-(ROLES_OFFSET + 2 * read.max_dev) // SECTOR_BYTES), SUPERBLOCK_SECTORS)
            if read.bblog_size and read.bblog_offset:
                found.append(MemberArea(AreaKind.BAD_BLOCKS, start + read.bblog_offset, read.bblog_size))
        found.append(MemberArea(AreaKind.SUPERBLOCK, start, length))
        if shape.bitmap:
            # This is the sum of sb_start and offset, as in write_sb_page in drivers/md/md-bitmap.c.
            found.append(MemberArea(AreaKind.BITMAP, start + shape.bitmap.offset, _bitmap_sectors(shape)))
    if member.ppl[1]:
        found.append(MemberArea(AreaKind.PPL, *member.ppl))
    kind = AreaKind.JOURNAL if "journal" in member.flags else AreaKind.DATA
    first, end = _data_of(shape, member)
    found.append(MemberArea(kind, first, end - first))
    return _with_gaps(found, first, member.device_sectors)


def _data_of(shape: MappedArray, member: MappedMember) -> tuple[int, int]:
    """Return the first sector and the end of the data. During a reshape, they cover both geometries."""
    offsets = (member.offset, member.new_offset) if shape.reshaping else (member.offset,)
    used = getattr(shape.geometry, "member_sectors", member.data_sectors)
    if "journal" in member.flags:
        used = member.data_sectors
    return min(offsets), max(offsets) + used


def _bitmap_sectors(shape: MappedArray) -> int:
    """Return the bitmap's size: a header of 256 bytes, and a bit for each bitmap chunk, in whole pages."""
    assert shape.bitmap is not None
    covered = getattr(shape.geometry, "member_sectors", 0) * SECTOR_BYTES
    bits = -(-covered // shape.bitmap.chunk_bytes) if shape.bitmap.chunk_bytes else 0
    needed = -(-(_BITMAP_HEAD_BYTES + -(-bits // 8)) // _PAGE_BYTES) * _PAGE_BYTES // SECTOR_BYTES
    return min(needed, shape.bitmap.space) if shape.bitmap.space else needed


def _with_gaps(found: list[MemberArea], data_start: int, device_sectors: int) -> tuple[MemberArea, ...]:
    filled: list[MemberArea] = []
    at = 0
    for area in (*sorted(found, key=lambda each: each.start), MemberArea(AreaKind.TAIL, device_sectors, 0)):
        if area.start > at:
            kind = AreaKind.BEFORE if at < data_start else AreaKind.TAIL
            filled.append(MemberArea(kind, at, area.start - at))
        filled.append(area)
        at = max(at, area.start + area.length)
    return tuple(filled[:-1])


@dataclass(frozen=True, slots=True)
class LocatedPlace:
    """A member that holds a copy or the parity of a block."""

    kind: ChunkKind
    copy: int
    slot: int
    member: str
    """The name of the disk, or an empty string if no member has the slot."""
    device: str
    device_sector: int | None
    """The sector, counted from the start of the member's device, or None if there is no member."""
    note: str = ""
    """Why md does not read the block from there at present, or that a replacement also has it; otherwise empty."""


@dataclass(frozen=True, slots=True)
class LocatedBlock:
    """The location of a sector of the array, and of the block that begins there."""

    array: str
    sector: int
    block: int
    chunk: int | None
    """The number of the chunk, or None for levels without chunks."""
    stripe: int | None
    chunk_offset_bytes: int
    """The offset from the beginning of the chunk or, on a mirror, of the unit that md compares."""
    places: tuple[LocatedPlace, ...]
    """The places that hold the data, followed by those of copies."""
    parities: tuple[LocatedPlace, ...]
    shape: str = ""
    """The geometry that applies during a reshape, ``before`` or ``new``, or an empty string without a reshape."""
    doubt: str = ""
    """Why the answer may be out of date, or an empty string if it is certain."""


def locate(shape: MappedArray, sector: int) -> LocatedBlock:
    """Locate a sector of the array. Raises ArrayError if the sector lies beyond the array's end."""
    if not 0 <= sector < shape.size_sectors:
        raise ArrayError(
            f"{shape.name} has no sector {sector}",
            hint=f"choose one up to {shape.size_sectors - 1}, which is in block "
            f"{(shape.size_sectors - 1) // BLOCK_SECTORS} of 4 KiB",
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
    """Say why the location may be out of date. Only md knows what it has moved since it last recorded its position."""
    if not is_before or shape.reshaping is None or not shape.reshaping.is_moving:
        return ""
    return (
        f"the reshape is running: md last recorded sector {shape.reshaping.position}, and may have passed this one "
        "since; to be certain, stop the reshape with md/sync_max, or wait for its end"
    )


def chunk_of(geometry: ArrayGeometry) -> int:
    """Return the number of sectors per chunk, or 0 for a geometry without chunks."""
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
        return "not rebuilt yet"
    if member.is_bad(device_sector):
        return "in md's list of bad blocks"
    return "the replacement has it too" if member.is_replacement else ""


@dataclass(frozen=True, slots=True)
class LocatedSector:
    """What a sector of a member's device is used for."""

    array: str
    member: str
    device: str
    slot: int | None
    device_sector: int
    area: AreaKind
    area_start: int
    area_sectors: int
    kind: ChunkKind | None = None
    """The kind of the chunk, if the area holds data."""
    stripe: int | None = None
    sectors: tuple[int, ...] = ()
    """The sector of the array that is stored there or, for parity, all sectors that it protects."""
    copy: int = 0
    chunk_offset_bytes: int = 0
    shape: str = ""
    note: str = ""
    doubt: str = ""
    """``shape`` and ``doubt`` are as in ``LocatedBlock``."""

    @property
    def blocks(self) -> tuple[int, ...]:
        return tuple(sector // BLOCK_SECTORS for sector in self.sectors)


def on_member(
    shape: MappedArray, member: MappedMember, device_sector: int, areas: Sequence[MemberArea]
) -> LocatedSector:
    """Determine what a sector of a member's device is used for. Raises ArrayError if it lies beyond the end."""
    area = next((each for each in areas if each.holds(device_sector)), None)
    if area is None:
        raise ArrayError(
            f"{member.name} has no sector {device_sector}", hint=f"choose one from 0 to {member.device_sectors - 1}"
        )
    common = (shape.name, member.name, member.device, member.slot, device_sector, area.kind, area.start, area.length)
    if area.kind is not AreaKind.DATA:
        return LocatedSector(*common)
    if member.slot is None or not member.is_working:
        return LocatedSector(*common, note="it has no slot, so its contents are not part of the array's data")
    for is_before in (False, True) if shape.reshaping else (False,):
        geometry = shape.reshaping.before if shape.reshaping and is_before else shape.geometry
        sector = device_sector - shape.offset_of(member, is_before=is_before)
        found = geometry.content(member.slot, sector) if sector >= 0 and member.slot < geometry.raid_disks else None
        if found is None or not _is_current(shape, found.sectors, is_before=is_before):
            continue
        name = "" if shape.reshaping is None else "before" if is_before else "new"
        note = _note(member, sector, device_sector)
        doubt = _doubt(shape, is_before=is_before)
        rest = sector % (chunk_of(geometry) or RESYNC_BLOCK_SECTORS) * SECTOR_BYTES
        return LocatedSector(*common, found.kind, found.stripe, found.sectors, found.copy, rest, name, note, doubt)
    note = (
        "left behind by the reshape, or not reached yet" if shape.reshaping else "space that this geometry does not use"
    )
    return LocatedSector(*common, note=note)


def _is_current(shape: MappedArray, sectors: Sequence[int], *, is_before: bool) -> bool:
    """Whether this geometry applies to the sectors. Old parity stays valid until all data that it covers are moved."""
    inside = [sector for sector in sectors if sector < shape.size_sectors]
    if shape.reshaping is None or not inside:
        return bool(inside)
    ahead = [shape.reshaping.is_ahead(sector) for sector in inside]
    return any(ahead) if is_before else not any(ahead)


EXTENTS = GuestProgram(Path(__file__).with_name("extents_program.py"), "file-extents")
_FLAGS = {
    0x2: "not placed yet",
    0x4: "still in memory",
    0x8: "encoded",
    0x200: "inside the inode",
    0x800: "reserved, nothing written so far",
}
_WITHOUT_PLACE = 0x2 | 0x4
"""The flags of an extent without a location (include/uapi/linux/fiemap.h)."""


class FileExtent(msgspec.Struct, frozen=True, array_like=True):
    """A contiguous range of a file, in bytes."""

    file_byte: SizeBytes
    device_byte: SizeBytes
    length: SizeBytes
    flags: int

    @property
    def is_placed(self) -> bool:
        return not self.flags & _WITHOUT_PLACE

    @property
    def note(self) -> str:
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
    """The location of the first block, or None for an extent without a location."""


@dataclass(frozen=True, slots=True)
class LocatedFile:
    """The extents of a file in the order of its data. Holes are left out."""

    path: str
    size_bytes: int
    extents: tuple[LocatedExtent, ...]


def locate_file(session: LabSession, name: str, path: str) -> LocatedFile:
    """Locate a file. A relative path is resolved on the array's own file system, which is mounted if necessary.

    Raises ArrayError if the file is not on this array, and LabError with the system's message if it cannot be read.
    """
    with _mounted(session, name, path) as full:
        try:
            found = decoded_json(session.machine.call(EXTENTS, (full,)), _Extents)
        except CommandFailed as error:
            hint = "give an absolute path on the machine, or a path on the array's own file system"
            raise LabError(error.stderr_tail, hint=hint) from error
    number = f"/sys/block/{name}/dev"
    if (session.machine.read([number])[number] or "").strip() != found.device:
        raise ArrayError(
            f"{path} is not on {name}, but on the device {found.device}",
            hint=f"specify its array (see 'raidlab array show'), or a relative path, which is resolved on {name}",
        )
    shape = read_shape(session, name)
    located = tuple(
        LocatedExtent(each, locate(shape, each.device_byte // SECTOR_BYTES) if each.is_placed else None)
        for each in found.extents
    )
    return LocatedFile(full, found.bytes, located)


@contextmanager
def _mounted(session: LabSession, name: str, path: str) -> Iterator[str]:
    """Yield the file's path on the machine. An unmounted file system is mounted read-only, and unmounted afterwards."""
    array = session.array(name)
    places, own = array.mounted_on, filesystem.mount_point(array.device)
    # The path may be below a mount point of the lab at which nothing has been mounted since an earlier command ended.
    inside = path.removeprefix(f"{own}/") if not places else path
    if inside.startswith("/") or places:
        yield inside if inside.startswith("/") else posixpath.join(places[0], inside)
        return
    kind = file_system_on(session, array.device)
    if kind is FileSystem.RAW:
        raise ArrayError(f"{name} has no file system, so it contains no files", hint="specify a block with --block")
    # Without these options the mount would replay the journal (ext4(5), xfs(5)).
    options = ("ro", "noload" if kind is FileSystem.EXT4 else "norecovery")
    session.run(filesystem.mount(kind, array.device, options=options))
    try:
        yield posixpath.join(own, inside)
    finally:
        session.run(filesystem.unmount(kind, array.device))


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """A place in a stripe."""

    stripe: int
    byte: int
    """The offset from the beginning of each chunk."""
    slot: int | None
    """The slot that holds the place, or None if the whole stripe was requested."""
    words: str


def find_place(session: LabSession, name: str, text: str) -> FoundPlace:
    """Find a stripe (``703``), a block (``block 33744``), a sector of a member's device (``disk03@4100``), or a file.

    Raises LabError if the place does not exist or does not lie in a stripe.
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
        raise ArrayError(f"no block of {text} is allocated on {name}", hint="write something to the file, then sync it")
    return _of_block(start, f"{text}, which begins in block {start.block}")


def _of_block(found: LocatedBlock, words: str) -> FoundPlace:
    if found.stripe is None:
        raise ArrayError(f"{found.array} has no stripes", hint="find out where a block lies with 'raidlab array map'")
    return FoundPlace(found.stripe, found.chunk_offset_bytes, found.places[0].slot, words)


def _of_sector(found: LocatedSector, name: str) -> FoundPlace:
    if found.stripe is None or found.kind is None:
        raise ArrayError(
            f"sector {found.device_sector} of {found.member} does not lie in a stripe of {name}: {found.area}",
            hint=f"choose a sector that holds data{f' ({found.note})' if found.note else ''}",
        )
    words = f"sector {found.device_sector} of {found.member}"
    return FoundPlace(found.stripe, found.chunk_offset_bytes, found.slot, words)


def sector_of_member(arrays: OpenArrays, name: str, disk: str, sector: int) -> LocatedSector:
    """Determine what a sector of a disk's device is used for, using the areas read from the superblock."""
    shape = read_shape(arrays, name)
    member = shape.member(arrays.node(disk))
    start = superblock_sector(shape.metadata, member.device_sectors)
    superblock = b""
    if start is not None:
        place = BytesAt(member.device, start * SECTOR_BYTES, SUPERBLOCK_SECTORS * SECTOR_BYTES)
        superblock = read_moment(arrays.machine, [place]).places[0].data
    return on_member(shape, member, sector, areas_of(shape, member, superblock))
