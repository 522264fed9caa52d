"""Reads the content of members in the machine's agent at one moment, bypassing caches and with writes suspended."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lab.arrays.names import md_path
from lab.errors import CommandFailed, LabError
from lab.gates.own import decoded_json
from lab.machine import GuestProgram, Machine
from lab.microscope.reading import MappedArray
from lab.units import SECTOR_BYTES, human_bytes

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
    """Whether writes to the array were suspended meanwhile."""
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
        return None, f"md holds no writes to a {shape.level} back"
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
            f"{human_bytes(total)} of members are more than can be looked at at once",
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
