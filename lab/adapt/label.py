"""The label of a volume, stored on each of its disks, with the volume's parameters and the identity of the disk.

Each disk has two copies, which are written alternately, so that an interrupted write leaves the previous label intact.
A copy is valid only if its checksum is correct. Of several valid copies, the one with the highest sequence number is
used. The label contains the parameters from which the layout is computed. It also contains a checksum of that layout,
so that a change in the computation is detected.

This module also defines the names of volumes, slices and inner arrays, and the device-mapper tables derived from a
label (kernel: Documentation/admin-guide/device-mapper/linear.rst).
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import msgspec

from lab.adapt.layout import AdaptLevel, Composition, VolumeLayout
from lab.arrays.levels import array_device
from lab.disks.inventory import MAPPER
from lab.errors import ArrayError, SpecError
from lab.gates.decoding import decode_json
from lab.units import KIB, MIB, SECTOR_BYTES

_VOLUME = re.compile(r"adapt(?:0|[1-9]\d?)")
_SLICE = re.compile(r"(adapt\d+)-d(\d+)w(\d+)")
FIRST_INNER_NUMBER = 100
"""The arrays inside volumes are called md100 and up, so that md0 and up are free for the user's arrays."""


def names_volume(name: str) -> bool:
    """Whether ``name`` is a valid volume name, such as adapt0."""
    return bool(_VOLUME.fullmatch(name))


def volume_device(name: str) -> str:
    """Return the node of a volume, such as ``/dev/mapper/adapt0``. Raises SpecError if the name is invalid."""
    if not names_volume(name):
        raise SpecError(f"'{name}' is not a volume name", hint="write 'adapt' and a number below 100, such as adapt0")
    return f"{MAPPER}{name}"


def slice_name(name: str, disk: int, window: int) -> str:
    """Return the name of the slice of ``disk`` in ``window``, such as ``adapt0-d03w01``."""
    return f"{name}-d{disk:02d}w{window:02d}"


def slice_device(name: str, disk: int, window: int) -> str:
    """Return the node of a slice."""
    return f"{MAPPER}{slice_name(name, disk, window)}"


def parse_slice_name(text: str) -> tuple[str, int, int] | None:
    """Parse the name of a slice into volume, disk and window. Return None for any other text."""
    match = _SLICE.fullmatch(text)
    return (match[1], int(match[2]), int(match[3])) if match else None


LABEL_OFFSET_BYTES = 4 * KIB
"""The offset of md's 1.2 superblock. Creating an array on the whole disk therefore overwrites the label."""
LABEL_BYTES = 8 * KIB
LABEL_COPIES = 2
LABEL_AREA_BYTES = LABEL_OFFSET_BYTES + LABEL_COPIES * LABEL_BYTES

FORMAT = 1
_MAGIC = "raidlab-volume"


class VolumeStage(StrEnum):
    """The stage of a volume's creation."""

    CREATING = "creating"
    """Some of the volume's arrays may not exist yet, and there are no data."""
    READY = "ready"


class DiskLabel(msgspec.Struct, frozen=True, kw_only=True):
    """One disk of the volume. Every disk that takes this place has a new ``uuid``."""

    uuid: str
    lines: int
    is_failed: bool = False


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a volume, which are identical on all of its disks except for ``own_uuid``."""

    uuid: str
    name: str
    sequence: int
    stage: VolumeStage
    rule: AdaptLevel
    chunk_bytes: int
    reference: int
    run_stripes: int
    piece_lines: int
    reserve_bytes: int
    """Space at the beginning of each disk, for labels and for the superblocks of slices."""
    slice_header_bytes: int
    disks: tuple[DiskLabel, ...]
    layout_checksum: str
    format: int = FORMAT
    own_uuid: str = ""

    def window_uuid(self, number: int) -> str:
        """Return the UUID of a window's md array, unique to volume and window so that md never mixes up slices."""
        return uuid_from(f"{self.uuid} window {number}")


def uuid_from(text: str) -> str:
    """Derive a UUID in mdadm's format from ``text``."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return ":".join(digest[start : start + 8] for start in range(0, 32, 8))


def new_uuid() -> str:
    """Generate a random UUID in mdadm's format."""
    return uuid_from(secrets.token_hex())


def checksum_of(volume: VolumeLayout) -> str:
    """Return the SHA-256 of all windows, segments and pieces of a layout."""
    digest = hashlib.sha256()
    for window in volume.composition.windows:
        digest.update(f"w{window.number} {window.tier} {window.disks} {window.lines}\n".encode())
    digest.update("".join(f"{tuple(segment)}\n" for segment in volume.segments).encode())
    for key in sorted(volume.placement):
        digest.update(f"{key} {[tuple(piece) for piece in volume.placement[key]]}\n".encode())
    return digest.hexdigest()


def encode(label: Label) -> str:
    """Encode one copy as a line with a checksum and a line of JSON, at most ``LABEL_BYTES`` of ASCII.

    Raises ValueError if the text would be longer.
    """
    body = msgspec.json.encode(label).decode("ascii")
    text = f"{_MAGIC} {len(body)} {hashlib.sha256(body.encode()).hexdigest()}\n{body}\n"
    if len(text) > LABEL_BYTES:
        raise ValueError(f"the label is {len(text)} bytes long, but at most {LABEL_BYTES} fit")
    return text


def decode(data: bytes) -> Label | None:
    """Decode the label in one copy. Return None if it is missing, damaged, or in another format version."""
    head, newline, rest = data.partition(b"\n")
    words = head.split()
    if not newline or len(words) != 3 or words[0] != _MAGIC.encode() or not words[1].isdigit():
        return None
    body = rest[: int(words[1])]
    if hashlib.sha256(body).hexdigest().encode() != words[2]:
        return None
    try:
        label = decode_json(body, Label)
    except msgspec.MsgspecError:
        return None
    return label if label.format == FORMAT else None


def newest(labels: Iterable[Label | None]) -> Label | None:
    """Return the label with the highest sequence number, or None."""
    found = [label for label in labels if label]
    return max(found, key=lambda label: label.sequence, default=None)


def copies_in(area: bytes) -> tuple[Label | None, ...]:
    """Decode the copies in the first ``LABEL_AREA_BYTES`` of a disk."""
    return tuple(
        decode(area[start : start + LABEL_BYTES]) for start in range(LABEL_OFFSET_BYTES, LABEL_AREA_BYTES, LABEL_BYTES)
    )


def copy_offset_bytes(sequence: int) -> int:
    """Return the offset in bytes, on each disk, of the copy with this sequence number."""
    return LABEL_OFFSET_BYTES + sequence % LABEL_COPIES * LABEL_BYTES


CONCISE_BYTES = 60_000


@lru_cache(maxsize=8)
def layout_of(label: Label) -> VolumeLayout:
    """Compute the layout of a volume. Raises ArrayError if it differs from the layout that was created."""
    composition = Composition.of([disk.lines for disk in label.disks], label.reference, label.rule)
    volume = VolumeLayout.of(composition, label.run_stripes, label.piece_lines)
    if checksum_of(volume) != label.layout_checksum:
        raise ArrayError(
            f"array {label.name} was created by a different raidlab version, which computes a different layout",
            hint="use the version that created it; nothing was changed",
        )
    return volume


def slice_table(label: Label, disk: int, window: int, node: str) -> str:
    """Return the table of one slice. It maps the slice's header, and then its pieces, to the disk at ``node``."""
    chunk, header = label.chunk_bytes // SECTOR_BYTES, label.slice_header_bytes // SECTOR_BYTES
    reserve = label.reserve_bytes // SECTOR_BYTES
    rows = [(0, header, MIB // SECTOR_BYTES + slices_on(label, disk).index(window) * header)]
    rows += [
        (header + piece.slice_start * chunk, piece.lines * chunk, reserve + piece.disk_start * chunk)
        for piece in layout_of(label).placement[disk, window]
    ]
    return "".join(f"{start} {length} linear {node} {offset}\n" for start, length, offset in rows)


def slices_on(label: Label, disk: int) -> tuple[int, ...]:
    """Return the windows with a slice on this disk."""
    return tuple(window.number for window in layout_of(label).composition.windows_on(disk))


@dataclass(frozen=True, slots=True)
class SliceTables:
    """The slices that one call of dmsetup creates: several in the concise format, or one that has a plain table."""

    names: tuple[str, ...]
    uuid: str
    """UUID of the slice with a plain table. In the concise format, each line contains a UUID."""
    text: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments after ``dmsetup create``. Its standard input is ``text`` (dmsetup(8))."""
        return (self.names[0], "--uuid", self.uuid) if self.uuid else ("--concise",)


def slice_tables(label: Label, nodes: Mapping[int, str]) -> tuple[SliceTables, ...]:
    """Return the tables of all slices of some disks.

    dmsetup (2.03.16) reads at most 64 KiB of the concise format and ignores the rest. Plain tables have no such limit.
    """
    alone: list[SliceTables] = []
    groups: list[dict[str, str]] = [{}]
    for disk, node in nodes.items():
        for window in slices_on(label, disk):
            name, uuid = slice_name(label.name, disk, window), f"raidlab-{label.uuid}-d{disk:02d}w{window:02d}"
            table = slice_table(label, disk, window, node)
            one = f"{name},{uuid},,rw,{table.strip().replace(chr(10), ',')}"
            if len(one) > CONCISE_BYTES:
                alone.append(SliceTables((name,), uuid, table))
                continue
            if sum(len(other) + 2 for other in groups[-1].values()) + len(one) > CONCISE_BYTES:
                groups.append({})
            groups[-1][name] = one
    made = (SliceTables(tuple(group), "", ";\n".join(group.values()) + "\n") for group in groups if group)
    return (*made, *alone)


def volume_table(label: Label, arrays: Mapping[int, str]) -> str:
    """Return the table of the volume. ``arrays`` maps its windows to md names."""
    chunk = label.chunk_bytes // SECTOR_BYTES
    devices = {window: array_device(name) for window, name in arrays.items()}
    return "".join(
        f"{segment.start * chunk} {segment.blocks * chunk} linear "
        f"{devices[segment.window]} {segment.window_start * chunk}\n"
        for segment in layout_of(label).segments
    )


def needed_bytes(label: Label, disk: int) -> int:
    """Return the minimum size in bytes of a disk in this place."""
    return label.reserve_bytes + label.disks[disk].lines * label.chunk_bytes


def volume_bytes(label: Label) -> int:
    """Return the capacity of the volume in bytes."""
    return layout_of(label).composition.data_blocks * label.chunk_bytes


def windows_named(label: Label, taken: Collection[str]) -> dict[int, str]:
    """Choose free md names for the windows of a volume to be started. Raises SpecError if there are too few names."""
    windows = layout_of(label).composition.windows
    free = [name for number in range(FIRST_INNER_NUMBER, 1000) if (name := f"md{number}") not in taken]
    if len(free) < len(windows):
        raise SpecError("no md name is left for the arrays inside the volume", hint="stop other volumes first")
    return {window.number: name for window, name in zip(windows, free, strict=False)}
