"""The label of a volume, stored on each of its disks: the parameters of the volume and the identity of the disk.

Each disk has two copies, which are written alternately, so that an interrupted write leaves the previous label intact.
A copy is valid only if its checksum is correct; of several valid ones, the highest sequence number counts. The label
contains the parameters from which the layout is computed and a checksum of that layout, so that a change in the
computation is detected.
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
"""The place of md's 1.2 superblock, so creating an array on the whole disk overwrites the label."""
LABEL_BYTES = 8 * KIB
LABEL_COPIES = 2
LABEL_AREA_BYTES = LABEL_OFFSET_BYTES + LABEL_COPIES * LABEL_BYTES

FORMAT = 1
_MAGIC = "raidlab-volume"


class VolumeStage(StrEnum):
    """The stage of a volume's creation."""

    CREATING = "creating"
    """Some of its arrays may not exist yet; there are no data."""
    READY = "ready"


class DiskLabel(msgspec.Struct, frozen=True, kw_only=True):
    """One disk of the volume. ``uuid`` is new for every disk that takes this place."""

    uuid: str
    lines: int
    is_failed: bool = False


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters of a volume; on all its disks equal, except for ``own_uuid``."""

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

    def volume(self) -> VolumeLayout:
        """The computed layout. Compare ``checksum_of`` with ``layout_checksum`` before use."""
        lines = tuple(disk.lines for disk in self.disks)
        return VolumeLayout.of(Composition.of(lines, self.reference, self.rule), self.run_stripes, self.piece_lines)

    def window_uuid(self, number: int) -> str:
        """UUID of the md array of a window; it differs between volumes and windows, so md cannot mix their slices."""
        return uuid_from(f"{self.uuid} window {number}")

    def disk_of(self, own_uuid: str) -> int | None:
        """The number of the disk with this UUID, or None."""
        return next((number for number, disk in enumerate(self.disks) if disk.uuid == own_uuid), None)


def uuid_from(text: str) -> str:
    """A UUID derived from ``text``, in the format of mdadm."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return ":".join(digest[start : start + 8] for start in range(0, 32, 8))


def new_uuid() -> str:
    """A random UUID in the format of mdadm."""
    return uuid_from(secrets.token_hex())


def checksum_of(volume: VolumeLayout) -> str:
    """SHA-256 of all windows, segments and pieces of a layout."""
    digest = hashlib.sha256()
    for window in volume.composition.windows:
        digest.update(f"w{window.number} {window.tier} {window.disks} {window.lines}\n".encode())
    digest.update("".join(f"{tuple(segment)}\n" for segment in volume.segments).encode())
    for key in sorted(volume.placement):
        digest.update(f"{key} {[tuple(piece) for piece in volume.placement[key]]}\n".encode())
    return digest.hexdigest()


def encode(label: Label) -> str:
    """One copy as text: a line with a checksum, and a line of JSON; at most ``LABEL_BYTES``, ASCII.

    Raises ValueError for a longer one.
    """
    body = msgspec.json.encode(label).decode("ascii")
    text = f"{_MAGIC} {len(body)} {hashlib.sha256(body.encode()).hexdigest()}\n{body}\n"
    if len(text) > LABEL_BYTES:
        raise ValueError(f"a label of {len(text)} bytes")
    return text


def decode(data: bytes) -> Label | None:
    """The label in one copy; None if it is missing, damaged, or of another format version."""
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
    """The label with the highest sequence number, or None."""
    found = [label for label in labels if label]
    return max(found, key=lambda label: label.sequence, default=None)


def copies_in(area: bytes) -> tuple[Label | None, ...]:
    """The copies in the first ``LABEL_AREA_BYTES`` of a disk."""
    return tuple(
        decode(area[start : start + LABEL_BYTES]) for start in range(LABEL_OFFSET_BYTES, LABEL_AREA_BYTES, LABEL_BYTES)
    )


def copy_offset_bytes(sequence: int) -> int:
    """Offset on each disk of the copy with this sequence number."""
    return LABEL_OFFSET_BYTES + sequence % LABEL_COPIES * LABEL_BYTES
