"""What a volume of unequal disks is to be, checked as a whole, and the geometry that follows."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.adapt.interleave import COMFORTABLE_TARGETS, Volume, shortest_run
from lab.adapt.label import DiskLabel, Label, Stage, checksum_of, uuid_from
from lab.adapt.names import is_volume_name, volume_device
from lab.adapt.tiers import check_reference, check_utilisation, default_reference, usable_lines
from lab.adapt.windows import Composition, Rule
from lab.arrays.spec import MINIMUM_CHUNK_BYTES, Bitmap
from lab.disks.kinds import LabDisk
from lab.errors import SpecError, refuse_problems
from lab.units import KIB, MIB, human_bytes

DEFAULT_CHUNK_BYTES = 128 * KIB
"""The paper's striping unit."""

SLICE_HEADER_BYTES = MIB
"""Superblock, bad block log and bitmap of a slice: what mdadm itself leaves before the data of a small member."""

MAXIMUM_DISKS = 64
EQUAL_WITHIN = 0.01
"""Disks whose sizes differ by less count as equal: drives of one nominal size never agree to the last sector."""

_LINES_APART = 4096
"""Up to here each line of a slice is placed by itself, as in the paper's pattern."""
_PIECES = 768
"""Of a longer slice: what the volume uses together lies within a hundredth of each disk."""


@dataclass(frozen=True, slots=True)
class VolumeSpec:
    """One volume as the user wants it. Nothing is checked until ``validate``.

    ``reference`` None means data blocks over all disks. ``utilisation`` None uses every disk whole. ``assume_clean``
    leaves out the first resync: right only for blank disks.
    """

    disks: tuple[LabDisk, ...]
    name: str = "adapt0"
    rule: Rule = Rule.ADAPT5
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    reference: int | None = None
    utilisation: tuple[float, ...] | None = None
    bitmap: Bitmap = Bitmap.NONE
    assume_clean: bool = False

    @property
    def device(self) -> str:
        return volume_device(self.name)

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(disk.node for disk in self.disks)

    def problems(self) -> tuple[str, ...]:
        """Everything that is wrong, one sentence each; empty for a spec that can be built."""
        return tuple(_problems(self))

    def validate(self) -> None:
        """Raises one SpecError that lists all problems."""
        refuse_problems(f"array {self.name}", self.problems())


def _problems(spec: VolumeSpec) -> Iterator[str]:
    if not is_volume_name(spec.name):
        yield f"name '{spec.name}' is not adapt and a number below 100, such as adapt0"
    count = len(spec.disks)
    for node in sorted({node for node in spec.nodes if spec.nodes.count(node) > 1}):
        yield f"disk {node} is named twice"
    if count < 3:
        yield f"{spec.rule} needs at least 3 disks, not {count}"
        return
    if count > MAXIMUM_DISKS:
        yield f"{spec.rule} takes at most {MAXIMUM_DISKS} disks, not {count}"
    chunk = spec.chunk_bytes
    if chunk < MINIMUM_CHUNK_BYTES or chunk & (chunk - 1):
        yield f"chunk {human_bytes(chunk)} is not a power of two from {human_bytes(MINIMUM_CHUNK_BYTES)}"
        return
    try:
        check_reference(default_reference(count) if spec.reference is None else spec.reference, count)
        if spec.utilisation is not None:
            check_utilisation(spec.utilisation, count)
    except SpecError as error:
        yield f"{error.message} ({error.hint})"
        return
    yield from _small_disks(spec)


def _small_disks(spec: VolumeSpec) -> Iterator[str]:
    needed = MIB + SLICE_HEADER_BYTES + spec.chunk_bytes * 8
    for disk in spec.disks:
        if disk.size_bytes < needed:
            yield f"{disk.name} has {human_bytes(disk.size_bytes)} and needs {human_bytes(needed)}"


@dataclass(frozen=True, slots=True)
class Geometry:
    """Lines of each disk, and what lies before them: the label, and a header for each slice."""

    reserve_bytes: int
    composition: Composition

    @property
    def data_blocks(self) -> int:
        return self.composition.data_blocks


def geometry_of(spec: VolumeSpec) -> Geometry:
    """How the disks are cut. Raises SpecError for a spec that cannot be, or disks too small for all their slices.

    Every disk keeps the same room free at its beginning, so that differences between disks stay what they are.
    """
    spec.validate()
    slices = 1
    while True:
        reserve = MIB + slices * SLICE_HEADER_BYTES
        lines = [max(0, disk.size_bytes - reserve) // spec.chunk_bytes for disk in spec.disks]
        if not all(lines):
            small = spec.disks[lines.index(0)]
            raise SpecError(
                f"array {spec.name}: {small.name} is too small: {human_bytes(reserve)} of each disk are for metadata",
                hint="use larger disks, or fewer different sizes",
            )
        composition = Composition.of(usable_lines(level_out(lines), spec.utilisation), spec.reference, spec.rule)
        if composition.most_slices <= slices:
            break
        slices = composition.most_slices
    if not composition.data_blocks:
        raise SpecError(f"array {spec.name}: the disks hold no data in this layout", hint="use larger disks")
    return Geometry(reserve, composition)


def level_out(lines: Sequence[int]) -> tuple[int, ...]:
    """Nearly equal disks made equal: each is used as far as the smallest within ``EQUAL_WITHIN``."""
    kept: dict[int, int] = {}
    lowest = 0
    for own in sorted(set(lines)):
        if not lowest or own > lowest * (1 + EQUAL_WITHIN):
            lowest = own
        kept[own] = lowest
    return tuple(kept[own] for own in lines)


def capacity_bytes(spec: VolumeSpec) -> int:
    """Bytes that the volume will offer. Raises SpecError as ``geometry_of``."""
    return geometry_of(spec).data_blocks * spec.chunk_bytes


def new_label(spec: VolumeSpec) -> Label:
    """The description of a new volume, in the stage before its arrays are there."""
    geometry = geometry_of(spec)
    composition = geometry.composition
    volume = Volume.of(composition, shortest_run(composition, COMFORTABLE_TARGETS), piece_lines(composition))
    return Label(
        uuid=new_uuid(),
        name=spec.name,
        sequence=0,
        stage=Stage.CREATING,
        rule=spec.rule,
        chunk_bytes=spec.chunk_bytes,
        reference=composition.reference,
        run_stripes=volume.run_stripes,
        piece_lines=volume.piece_lines,
        reserve_bytes=geometry.reserve_bytes,
        slice_header_bytes=SLICE_HEADER_BYTES,
        disks=tuple(DiskLabel(uuid=new_uuid(), lines=lines) for lines in composition.lines),
        layout_checksum=checksum_of(volume),
    )


def piece_lines(composition: Composition) -> int:
    """Lines of the pieces into which slices are cut."""
    longest = max((window.lines for window in composition.windows), default=1)
    return 1 if longest <= _LINES_APART else -(-longest // _PIECES)


def new_uuid() -> str:
    """A random identity in the form of md's."""
    return uuid_from(secrets.token_hex())
