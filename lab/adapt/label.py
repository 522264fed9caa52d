"""The description of a volume, kept on each of its disks: what it consists of, and which of its disks this one is.

Each disk has two places for it, written in turn, so that a write cut short leaves the description before it whole.
A description counts only if its checksum is right; of several the one with the highest sequence number is true.
It holds what the layout follows from, and a checksum of the layout: a change of the arithmetic cannot go unseen.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from enum import StrEnum

import msgspec

from lab.adapt.layout import AdaptLevel, Composition, VolumeLayout
from lab.gates.decoding import decode_json
from lab.units import KIB

LABEL_OFFSET_BYTES = 4 * KIB
"""Where a 1.2 superblock of md would be: an array made of whole disks overwrites the label."""
LABEL_BYTES = 8 * KIB
LABEL_COPIES = 2
LABEL_AREA_BYTES = LABEL_OFFSET_BYTES + LABEL_COPIES * LABEL_BYTES

FORMAT = 1
_MAGIC = "raidlab-volume"


class VolumeStage(StrEnum):
    """How far a volume has come."""

    CREATING = "creating"
    """Not all of its arrays were there when this was written: there are no data yet."""
    READY = "ready"


class DiskLabel(msgspec.Struct, frozen=True, kw_only=True):
    """One disk of the volume. ``uuid`` is new whenever a disk takes its place."""

    uuid: str
    lines: int
    is_failed: bool = False


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """A volume: everything that its tables follow from, the same on all of its disks but for ``own_uuid``."""

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
    """At the beginning of each disk: labels, and the superblocks of its slices."""
    slice_header_bytes: int
    disks: tuple[DiskLabel, ...]
    layout_checksum: str
    format: int = FORMAT
    own_uuid: str = ""

    def volume(self) -> VolumeLayout:
        """The layout. Compare ``layout_checksum`` with ``checksum_of`` before it is used."""
        lines = tuple(disk.lines for disk in self.disks)
        return VolumeLayout.of(Composition.of(lines, self.reference, self.rule), self.run_stripes, self.piece_lines)

    def window_uuid(self, number: int) -> str:
        """UUID of one of its md arrays, so that slices of different volumes or windows never meet."""
        return uuid_from(f"{self.uuid} window {number}")

    def disk_of(self, own_uuid: str) -> int | None:
        """The number of the disk with this identity."""
        return next((number for number, disk in enumerate(self.disks) if disk.uuid == own_uuid), None)


def uuid_from(text: str) -> str:
    """A UUID that follows from ``text``, in the form that mdadm prints and reads."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return ":".join(digest[start : start + 8] for start in range(0, 32, 8))


def new_uuid() -> str:
    """A random identity in the form of md's."""
    return uuid_from(secrets.token_hex())


def checksum_of(volume: VolumeLayout) -> str:
    """A checksum over every segment and every piece."""
    digest = hashlib.sha256()
    for window in volume.composition.windows:
        digest.update(f"w{window.number} {window.tier} {window.disks} {window.lines}\n".encode())
    digest.update("".join(f"{tuple(segment)}\n" for segment in volume.segments).encode())
    for key in sorted(volume.placement):
        digest.update(f"{key} {[tuple(piece) for piece in volume.placement[key]]}\n".encode())
    return digest.hexdigest()


def encode(label: Label) -> str:
    """One copy, readable by people: a line with a checksum, and a line of JSON. At most ``LABEL_BYTES``, all ASCII."""
    body = msgspec.json.encode(label).decode("ascii")
    text = f"{_MAGIC} {len(body)} {hashlib.sha256(body.encode()).hexdigest()}\n{body}\n"
    if len(text) > LABEL_BYTES:
        raise ValueError(f"a label of {len(text)} bytes")
    return text


def decode(data: bytes) -> Label | None:
    """The label in one copy; None where there is none, or a damaged one, or one of a later format."""
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
    """The true one of several copies."""
    found = [label for label in labels if label]
    return max(found, key=lambda label: label.sequence, default=None)


def copies_in(area: bytes) -> tuple[Label | None, ...]:
    """The copies in the first ``LABEL_AREA_BYTES`` of a disk."""
    return tuple(
        decode(area[start : start + LABEL_BYTES]) for start in range(LABEL_OFFSET_BYTES, LABEL_AREA_BYTES, LABEL_BYTES)
    )


def copy_offset_bytes(sequence: int) -> int:
    """Where on each disk the copy with this sequence number goes."""
    return LABEL_OFFSET_BYTES + sequence % LABEL_COPIES * LABEL_BYTES
