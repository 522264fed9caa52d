"""The specification of a volume of unequal disks, its validation, and its geometry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lab.adapt.capacity import System, capacity
from lab.adapt.layout import (
    AdaptLevel,
    Composition,
    check_reference,
    check_utilisation,
    default_reference,
    level_out,
    usable_lines,
)
from lab.adapt.names import names_volume, volume_device
from lab.arrays.spec import MINIMUM_CHUNK_BYTES, Bitmap, Spec
from lab.disks.kinds import LabDisk
from lab.errors import SpecError
from lab.units import KIB, MIB, human_bytes

DEFAULT_CHUNK_BYTES = 128 * KIB
"""The striping unit of the paper."""

SLICE_HEADER_BYTES = MIB
"""Space for superblock, bad block log and bitmap of a slice; mdadm's own data offset for small members."""

MAXIMUM_DISKS = 64


@dataclass(frozen=True, slots=True)
class Geometry:
    """The size of the area before the data on each disk (label and slice headers), and the arrays."""

    reserve_bytes: int
    composition: Composition

    @property
    def data_blocks(self) -> int:
        return self.composition.data_blocks


@dataclass(frozen=True, slots=True)
class VolumeRequest(Spec):
    """The specification of one volume.

    ``reference`` None is a stripe over all disks. ``utilisation`` None uses all disks in full. ``assume_clean`` skips
    the first resync, which is correct only for blank disks.
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
        """The arrays of the volume. Raises SpecError for an invalid specification, or if a disk is too small.

        The same space is reserved on all disks, so the differences between their sizes do not change.
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


def _problems(spec: VolumeRequest) -> Iterator[str]:
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


def _small_disks(spec: VolumeRequest) -> Iterator[str]:
    needed = MIB + SLICE_HEADER_BYTES + spec.chunk_bytes * 8
    for disk in spec.disks:
        if disk.size_bytes < needed:
            yield f"{disk.name} has {human_bytes(disk.size_bytes)} and needs {human_bytes(needed)}"
