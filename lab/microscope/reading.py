"""Reads the geometry of a running array from sysfs, and the content of its members at one moment, bypassing caches.

The geometry never comes from the arguments of the array's creation. Files: Documentation/admin-guide/md.rst. During a
reshape md shows the old values in parentheses (layout_show, raid_disks_show and chunk_size_show in drivers/md/md.c).
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lab.arrays.array import OpenArrays
from lab.arrays.geometry import RAID5_LAYOUTS, RAID6_LAYOUTS, ArrayGeometry, geometry_of
from lab.arrays.levels import is_array_name, md_path, node_of
from lab.arrays.status import parse_count, parse_flags
from lab.errors import ArrayError, CommandFailed, LabError
from lab.gates.decoding import decoded_json
from lab.machine import GuestProgram, Machine
from lab.units import KIB, SECTOR_BYTES, human_bytes

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
    """One member of an array; sectors count from the start of its device."""

    name: str
    """The lab's name of the disk, or the device."""
    device: str
    slot: int | None
    flags: frozenset[str]
    offset: int
    """First sector of its data."""
    new_offset: int
    """First sector of its data after the reshape."""
    data_sectors: int
    """Size of its data."""
    device_sectors: int
    recovery_start: int | None
    """End of the part that has been rebuilt, in sectors of data; None: all of it is current."""
    ppl: tuple[int, int]
    """First sector and length of its partial parity log; (0, 0) if there is none."""
    bad_blocks: tuple[tuple[int, int], ...]
    """Ranges on md's bad-block list: first sector and length."""

    @property
    def is_working(self) -> bool:
        """Whether md reads from it, at least in part."""
        return self.slot is not None and "faulty" not in self.flags

    @property
    def is_replacement(self) -> bool:
        """Whether it is being filled to replace another member."""
        return "replacement" in self.flags

    def has_data_at(self, sector: int) -> bool:
        """Whether this sector of its data is current: a rebuild may not have reached it."""
        return self.is_working and (self.recovery_start is None or sector < self.recovery_start)

    def is_bad(self, device_sector: int, sectors: int = 1) -> bool:
        """Whether the bad-block list contains one of these sectors of its device."""
        return any(
            start < device_sector + sectors and device_sector < start + length for start, length in self.bad_blocks
        )


@dataclass(frozen=True, slots=True)
class MappedBitmap:
    """An internal write-intent bitmap."""

    offset: int
    """Sectors after the superblock; negative: before it."""
    space: int
    """Sectors reserved for it; 0: unknown."""
    chunk_bytes: int


@dataclass(frozen=True, slots=True)
class Reshaping:
    """A reshape that has begun and not ended. Positions are sectors of the array."""

    before: ArrayGeometry
    position: int
    """End of the part with the new geometry that md has recorded; its beginning if the reshape is backwards."""
    is_backwards: bool
    is_moving: bool
    """Whether the reshape is running, so that ``position`` is only the last recorded one."""

    def is_ahead(self, sector: int) -> bool:
        """Whether the reshape has not reached this sector (ahead_of_reshape in drivers/md/raid5.c)."""
        return sector < self.position if self.is_backwards else sector >= self.position


@dataclass(frozen=True, slots=True)
class MappedArray:
    """The properties of a running array that determine the location of its data."""

    name: str
    level: str
    layout: int
    geometry: ArrayGeometry
    chunk_sectors: int
    """0 for levels without chunks."""
    size_sectors: int
    metadata: str
    members: tuple[MappedMember, ...]
    reshaping: Reshaping | None
    bitmap: MappedBitmap | None
    files: Mapping[str, str]
    """Content of the array's sysfs files by name; empty for files that do not exist."""

    @property
    def layout_word(self) -> str:
        """The name of the layout in mdadm; empty for a level without layouts."""
        if self.level == "raid10":
            near, far = self.layout & 0xFF, self.layout >> 8 & 0xFF
            kind = "o" if self.layout >> 16 & 1 else "f"
            return " ".join([*([f"n{near}"] if near > 1 or far == 1 else []), *([f"{kind}{far}"] if far > 1 else [])])
        known = {"raid5": RAID5_LAYOUTS, "raid6": RAID6_LAYOUTS}.get(self.level, {})
        return known.get(self.layout, "")

    @property
    def is_parity(self) -> bool:
        """Whether the level is RAID 4, 5 or 6."""
        return self.level in _PARITY

    @property
    def is_degraded(self) -> bool:
        """Whether a slot has no member with all of its data."""
        return any(self.member_in(slot) is None for slot in range(self.geometry.slots))

    @property
    def is_syncing(self) -> bool:
        """Whether a resync, rebuild, scrub or reshape is running."""
        return self.files["sync_action"] not in ("", "idle", "frozen")

    def members_in(self, slot: int) -> tuple[MappedMember, ...]:
        """The members in this slot; two during a replacement."""
        found = [member for member in self.members if member.slot == slot and member.is_working]
        return tuple(sorted(found, key=lambda member: member.is_replacement))

    def member_in(self, slot: int, sector: int | None = None) -> MappedMember | None:
        """The member to read from, at this sector of the members' data or for all sectors; None if there is none."""
        for member in self.members_in(slot):
            complete = member.recovery_start is None if sector is None else member.has_data_at(sector)
            if complete:
                return member
        return None

    def member(self, device: str) -> MappedMember:
        """The member on a device. Raises ArrayError if there is none."""
        for member in self.members:
            if member.device == device:
                return member
        names = ", ".join(member.name for member in self.members)
        raise ArrayError(f"{device} is not a member of {self.name}", hint=f"its members are {names}")

    def offset_of(self, member: MappedMember, *, is_before: bool) -> int:
        """First sector of a member's data, in the geometry before a reshape or in the current one."""
        return member.new_offset if self.reshaping and not is_before else member.offset


def read_shape(arrays: OpenArrays, name: str) -> MappedArray:
    """Read the geometry of an array. Raises ArrayError if it is not running, or consists of several arrays."""
    if not is_array_name(name):
        raise ArrayError(
            f"{name} consists of several arrays, and each of them has stripes of its own",
            hint=f"'raidlab array show {name}' names them: look at one of these",
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
    """The geometry from the content of sysfs. Raises ArrayError for a level or layout that is not supported."""
    level = words["level"] if not words["level"].isdecimal() else f"raid{words['level']}"
    now = _numbers(words, before=False)
    geometry = _geometry(level, now, words, members, raid0_default)
    position = parse_count(words["reshape_position"])
    reshaping = None
    if position is not None:
        held = parse_count(words["sync_max"])
        done = parse_count(words["sync_completed"])
        is_held = held is not None and done is not None and done >= held
        reshaping = Reshaping(
            before=_geometry(level, _numbers(words, before=True), words, members, raid0_default),
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
        geometry=geometry,
        chunk_sectors=now[2] if level != "raid1" else 0,
        size_sectors=size_sectors,
        metadata=words["metadata_version"],
        members=tuple(members),
        reshaping=reshaping,
        bitmap=bitmap,
        files=words,
    )


def _numbers(words: Mapping[str, str], *, before: bool) -> tuple[int, int, int]:
    """Layout, number of slots and chunk size in sectors; values in parentheses are those before the reshape."""
    found = []
    for file in ("layout", "raid_disks", "chunk_size"):
        numbers = words[file].replace("(", " ").replace(")", " ").split()
        word = numbers[-1 if before else 0] if numbers else "0"
        # md prints an unset layout as a negative number.
        found.append(int(word) if word.lstrip("-").isdecimal() else 0)
    layout, disks, chunk_bytes = found
    return layout, disks, chunk_bytes // SECTOR_BYTES


def _geometry(
    level: str,
    numbers: tuple[int, int, int],
    words: Mapping[str, str],
    members: Sequence[MappedMember],
    raid0_default: int,
) -> ArrayGeometry:
    layout, disks, chunk = numbers
    used = (parse_count(words["component_size"]) or 0) * SECTORS_IN_KIB
    sizes = {member.slot: member.data_sectors for member in members if member.slot is not None}
    if level == "raid0":
        layout = layout or raid0_default
    return geometry_of(level, layout, disks, chunk, used, sizes)


MEMBERS = GuestProgram(Path(__file__).with_name("member_program.py"), "read-members")
MOST_BYTES = 32 * 1024 * 1024
"""Maximum size of an answer: an embedded kernel's line needs some seconds for it."""


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
    """The system's message; ``data`` are then zeros that were not read."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Several ranges, and whether they were read at one moment."""

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
    """The writes to suspend while members are read, or the reason why there are none: md's own writes cannot be."""
    if shape.reshaping:
        return None, "a reshape is under way, and md writes by itself"
    if shape.is_syncing:
        return None, f"a {shape.files['sync_action']} runs, and md writes by itself"
    if not shape.files["suspend_hi"]:
        return None, f"md cannot suspend writes to a {shape.level}"
    if shape.files["suspend_hi"] != "0":
        return None, "another program suspends writes to a part of it"
    return (md_path(shape.name), first_sector, first_sector + sectors), ""


def read_moment(
    machine: Machine,
    places: Sequence[BytesAt],
    *,
    array: str = "",
    hold: tuple[str, int, int] | None = None,
    why_not: str = "",
) -> Moment:
    """Read all places. ``array`` is flushed before; ``hold`` and ``why_not`` come from ``hold_of``.

    Raises LabError if the places are too large together, or the answer is damaged.
    """
    total = sum(place.length for place in places)
    if total > MOST_BYTES:
        raise LabError(
            f"{human_bytes(total)} of members are more than can be read at once",
            hint=f"look at a part of the chunks: --bytes and --offset; {human_bytes(MOST_BYTES)} at most",
        )
    wanted = [[place.device, place.offset, place.length] for place in places]
    request = msgspec.json.encode({"array": array, "hold": hold, "places": wanted}).decode()
    try:
        answer = decoded_json(machine.call(MEMBERS, (request,), timeout_seconds=120.0), _Answer)
    except CommandFailed as error:
        raise LabError(
            f"the members could not be read: {error.stderr_tail}", hint="look at the machine's kernel messages: dmesg"
        ) from error
    try:
        data = zlib.decompressobj().decompress(base64.b64decode(answer.data), max(total, 1))
    except (ValueError, zlib.error):
        data = b""
    if len(data) != total:
        raise LabError("the members' bytes came back damaged", hint="try again; then look at the machine's memory")
    found, at = [], 0
    for number, place in enumerate(places):
        found.append(BytesRead(data[at : at + place.length], answer.failed.get(str(number), "")))
        at += place.length
    return Moment(tuple(found), answer.held, why_not or answer.why_not)


def on_device(offset_sectors: int, cell_sector: int, skip_bytes: int = 0) -> int:
    """The offset on a device, in bytes, of ``skip_bytes`` after a sector of a member's data."""
    return (offset_sectors + cell_sector) * SECTOR_BYTES + skip_bytes
