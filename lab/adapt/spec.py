"""What a volume of unequal disks is to be, checked as a whole, the geometry that follows, and how it is created."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lab.adapt import operations, preview, tables
from lab.adapt.capacity import System, capacity
from lab.adapt.discovery import windows_named
from lab.adapt.interleave import COMFORTABLE_TARGETS, VolumeLayout, shortest_run
from lab.adapt.label import DiskLabel, Label, VolumeStage, checksum_of, new_uuid
from lab.adapt.names import names_volume, volume_device
from lab.adapt.tiers import check_reference, check_utilisation, default_reference, level_out, usable_lines
from lab.adapt.windows import AdaptLevel, Composition
from lab.arrays.filesystem import FileSystem, make
from lab.arrays.preview import ArrayPreview, Spec
from lab.arrays.spec import MINIMUM_CHUNK_BYTES, Bitmap
from lab.disks.kinds import LabDisk
from lab.errors import SpecError
from lab.plans import Plan
from lab.units import KIB, MIB, human_bytes

DEFAULT_CHUNK_BYTES = 128 * KIB
"""The paper's striping unit."""

SLICE_HEADER_BYTES = MIB
"""Superblock, bad block log and bitmap of a slice: what mdadm itself leaves before the data of a small member."""

MAXIMUM_DISKS = 64
_LINES_APART = 4096
"""Up to here each line of a slice is placed by itself, as in the paper's pattern."""
_PIECES = 768
"""Of a longer slice: what the volume uses together lies within a hundredth of each disk."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Lines of each disk, and what lies before them: the label, and a header for each slice."""

    reserve_bytes: int
    composition: Composition

    @property
    def data_blocks(self) -> int:
        return self.composition.data_blocks


@dataclass(frozen=True, slots=True)
class VolumeSpec(Spec):
    """One volume as somebody wants it.

    ``reference`` None means data blocks over all disks. ``utilisation`` None uses every disk whole. ``assume_clean``
    leaves out the first resync: right only for blank disks.
    """

    disks: tuple[LabDisk, ...]
    name: str = "adapt0"
    rule: AdaptLevel = AdaptLevel.ADAPT5
    chunk_bytes: int = DEFAULT_CHUNK_BYTES
    reference: int | None = None
    utilisation: tuple[float, ...] | None = None
    bitmap: Bitmap = Bitmap.NONE
    assume_clean: bool = False

    @property
    def device(self) -> str:
        return volume_device(self.name)

    @property
    def devices(self) -> tuple[str, ...]:
        return tuple(disk.node for disk in self.disks)

    def problems(self) -> tuple[str, ...]:
        return tuple(_problems(self))

    def geometry(self) -> Geometry:
        """How the disks are cut. Raises SpecError for a spec that cannot be, or disks too small for all their slices.

        Every disk keeps the same room free at its beginning, so that differences between disks stay what they are.
        """
        self.validate()
        slices = 1
        while True:
            reserve = MIB + slices * SLICE_HEADER_BYTES
            lines = [max(0, disk.size_bytes - reserve) // self.chunk_bytes for disk in self.disks]
            if not all(lines):
                small = self.disks[lines.index(0)]
                raise SpecError(
                    f"array {self.name}: {small.name} is too small: {human_bytes(reserve)} of each disk are "
                    "for metadata",
                    hint="use larger disks, or fewer different sizes",
                )
            composition = Composition.of(usable_lines(level_out(lines), self.utilisation), self.reference, self.rule)
            if composition.most_slices <= slices:
                break
            slices = composition.most_slices
        if not composition.data_blocks:
            raise SpecError(f"array {self.name}: the disks hold no data in this layout", hint="use larger disks")
        return Geometry(reserve, composition)

    @property
    def effective_chunk_bytes(self) -> int:
        return self.chunk_bytes

    @property
    def full_stripe_bytes(self) -> int:
        return self.geometry().composition.reference * self.chunk_bytes

    def expected_bytes(self, disks: Sequence[LabDisk]) -> int:
        return self.geometry().data_blocks * self.chunk_bytes

    def ideal_bytes(self, disks: Sequence[LabDisk]) -> float:
        return float(capacity(System(self.rule), [disk.size_bytes for disk in self.disks], self.reference))

    def creation(self, disks: Sequence[LabDisk], file_system: FileSystem, taken: Collection[str] = ()) -> Plan:
        label = new_label(self)
        plan = operations.create(self, windows_named(label, taken), label)
        if file_system is FileSystem.RAW:
            return plan
        size, stripe = tables.volume_bytes(label), self.full_stripe_bytes
        return plan + make(
            file_system, self.device, size_bytes=size, chunk_bytes=self.chunk_bytes, full_stripe_bytes=stripe
        )

    def shown(self, disks: Sequence[LabDisk], problems: tuple[str, ...], plan: Plan | None) -> ArrayPreview:
        return ArrayPreview(problems) if problems else preview.shown(self, self.geometry(), plan)

    def note(self, disks: Sequence[LabDisk]) -> str:
        better = preview.better_reference(self)
        return f"--reference {better[0]} would hold {human_bytes(better[1])} more on these disks" if better else ""


def _problems(spec: VolumeSpec) -> Iterator[str]:
    if not names_volume(spec.name):
        yield f"name '{spec.name}' is not adapt and a number below 100, such as adapt0"
    count = len(spec.disks)
    for node in sorted({node for node in spec.devices if spec.devices.count(node) > 1}):
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


def new_label(spec: VolumeSpec) -> Label:
    """The description of a new volume, in the stage before its arrays are there."""
    geometry = spec.geometry()
    composition = geometry.composition
    volume = VolumeLayout.of(composition, shortest_run(composition, COMFORTABLE_TARGETS), piece_lines(composition))
    return Label(
        uuid=new_uuid(),
        name=spec.name,
        sequence=0,
        stage=VolumeStage.CREATING,
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
