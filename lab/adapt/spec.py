"""The specification of a volume of unequal disks, its preview, and the plan that creates it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import groupby, zip_longest

from lab.adapt import operations
from lab.adapt.label import (
    DiskLabel,
    Label,
    VolumeStage,
    checksum_of,
    names_volume,
    new_uuid,
    volume_bytes,
    volume_device,
    windows_named,
)
from lab.adapt.layout import (
    AdaptLevel,
    Composition,
    System,
    TierWindow,
    VolumeLayout,
    best_reference,
    capacity,
    check_utilisation,
    level_out,
    reference_blocks,
    shortest_run,
    small_write_share,
    usable_lines,
)
from lab.arrays.filesystem import FileSystem, make
from lab.arrays.levels import Raid5, usable_bytes
from lab.arrays.spec import MINIMUM_CHUNK_BYTES, ArrayPreview, Bitmap, SliceRow, Spec, SystemPreview
from lab.disks.kinds import DiskKind, LabDisk
from lab.errors import SpecError
from lab.gates.decoding import parse_bytes
from lab.plans import Plan
from lab.units import KIB, MIB, human_bytes

DEFAULT_CHUNK_BYTES = 128 * KIB
"""The striping unit in the paper."""

SLICE_HEADER_BYTES = MIB
"""Space for superblock, bad block log and bitmap of a slice, which is mdadm's own data offset for small members."""

MAXIMUM_DISKS = 64


@dataclass(frozen=True, slots=True)
class Geometry:
    """The arrays, and the size of the area before the data on each disk (for the label and the slice headers)."""

    reserve_bytes: int
    composition: Composition


@dataclass(frozen=True, slots=True)
class VolumeSpec(Spec):
    """The specification of one volume, and how to create it.

    If ``reference`` is None, the reference stripe spans all disks. If ``utilisation`` is None, all disks are used in
    full. ``assume_clean`` skips the first resync, which is correct only for blank disks.
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
        """Compute the reserved space and the arrays. Raises SpecError if there are ``problems`` or a disk is too small.

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
                    f"array {self.name}: {small.name} is too small: {human_bytes(reserve)} of each disk is "
                    "reserved for metadata",
                    hint="use larger disks, or fewer different sizes",
                )
            composition = Composition.of(usable_lines(level_out(lines), self.utilisation), self.reference, self.rule)
            if composition.most_slices <= slices:
                break
            slices = composition.most_slices
        if not composition.data_blocks:
            raise SpecError(f"array {self.name}: the disks cannot hold data in this layout", hint="use larger disks")
        return Geometry(reserve, composition)

    @property
    def effective_chunk_bytes(self) -> int:
        return self.chunk_bytes

    @property
    def full_stripe_bytes(self) -> int:
        return self.geometry().composition.reference * self.chunk_bytes

    def expected_bytes(self, disks: Sequence[LabDisk]) -> int:
        return self.geometry().composition.data_blocks * self.chunk_bytes

    def ideal_bytes(self, disks: Sequence[LabDisk]) -> float:
        return float(capacity(self.rule, [disk.size_bytes for disk in self.disks], self.reference))

    def creation(self, disks: Sequence[LabDisk], file_system: FileSystem, taken: Collection[str] = ()) -> Plan:
        label = new_label(self)
        nodes, arrays = dict(enumerate(self.devices)), windows_named(label, taken)
        plan = operations.create(label, nodes, arrays, bitmap=self.bitmap, assume_clean=self.assume_clean)
        if file_system is FileSystem.RAW:
            return plan
        sizes = {"size_bytes": volume_bytes(label), "full_stripe_bytes": self.full_stripe_bytes}
        return plan + make(file_system, self.device, chunk_bytes=self.chunk_bytes, **sizes)

    def shown(self, disks: Sequence[LabDisk], problems: tuple[str, ...], plan: Plan | None) -> ArrayPreview:
        if problems:
            return ArrayPreview(problems)
        geometry, chunk = self.geometry(), self.chunk_bytes
        composition = geometry.composition
        costs = sorted({Raid5().small_write(window.width + 1).ios for window in composition.windows})
        steps = plan.steps if plan else ()
        created = [step.argv[2] for step in steps if step.argv[:2] == ("mdadm", "--create")]
        return ArrayPreview(
            problems=(),
            usable_bytes=composition.data_blocks * chunk,
            raw_bytes=sum(disk.size_bytes for disk in self.disks),
            unused_bytes=sum(unused_lines(composition)) * chunk,
            failures_survived=1,
            most_failures_survived=1,
            write_penalty=_penalty_words(costs),
            full_stripe_bytes=composition.reference * chunk,
            chunk_bytes=chunk,
            rows=slice_rows(composition.windows, len(self.disks)),
            widths=tuple((window.width, 1) for window in composition.windows),
            array_names=tuple(device.removeprefix("/dev/") for device in created),
            systems=compare_systems(self),
            note=_note(self, geometry),
            plan=plan,
        )

    def note(self, disks: Sequence[LabDisk]) -> str:
        better = better_reference(self)
        return f"--reference {better[0]} would hold {human_bytes(better[1])} more on these disks" if better else ""


def _problems(spec: VolumeSpec) -> Iterator[str]:
    if not names_volume(spec.name):
        yield f"name '{spec.name}' is not 'adapt' and a number below 100, such as adapt0"
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
        yield f"chunk {human_bytes(chunk)} is not a power of two of at least {human_bytes(MINIMUM_CHUNK_BYTES)}"
        return
    try:
        reference_blocks(spec.reference, count)
        if spec.utilisation is not None:
            check_utilisation(spec.utilisation, count)
    except SpecError as error:
        yield f"{error.message} ({error.hint})"
        return
    needed = MIB + SLICE_HEADER_BYTES + spec.chunk_bytes * 8
    for disk in spec.disks:
        if disk.size_bytes < needed:
            yield f"{disk.name} has {human_bytes(disk.size_bytes)} but needs {human_bytes(needed)}"


_WORTH_A_WORD = 0.02
"""Another reference stripe is suggested only if it gains this share of the volume's capacity."""


def are_equal(disks: Sequence[LabDisk]) -> bool:
    """Whether the disks count as equal in size (``EQUAL_WITHIN``)."""
    return len(set(level_out([disk.size_bytes for disk in disks]))) < 2


def _penalty_words(costs: Sequence[int]) -> str:
    ios = " or ".join(map(str, costs))
    if costs == [2]:
        return "2 I/Os: every stripe is one data chunk and its copy"
    where = "by the stripe that it lands in, " if len(costs) > 1 else ""
    return f"{ios} I/Os: {where}old data or the rest of the stripe are read, then data and parity are written"


def _note(spec: VolumeSpec, geometry: Geometry) -> str:
    if are_equal(spec.disks) and spec.utilisation is None:
        return (
            f"These disks have the same size, so this is a plain RAID 5 of all {len(spec.disks)} under a "
            "device-mapper table. A volume gains capacity only with disks of different sizes"
        )
    if len(geometry.composition.windows) == 1:
        return (
            "Only one disk is larger, and nothing can make its extra capacity redundant, so this is a plain RAID 5. "
            "Two larger disks would hold more"
        )
    if spec.rule is not AdaptLevel.ADAPT5 or spec.reference is not None:
        return ""
    better = better_reference(spec)
    if better is None or better[1] < _WORTH_A_WORD * geometry.composition.data_blocks * spec.chunk_bytes:
        return ""
    reference, more = better
    return (
        f"A full stripe of {reference} chunks instead of {geometry.composition.reference} "
        f"would hold {human_bytes(more)} more"
    )


def better_reference(spec: VolumeSpec) -> tuple[int, int] | None:
    """Return the best reference stripe and its gain in bytes, or None if it is used already or one was requested."""
    if spec.rule is not AdaptLevel.ADAPT5 or spec.reference is not None:
        return None
    composition = spec.geometry().composition
    best = best_reference(composition.lines)
    if best == composition.reference:
        return None
    more = replace(spec, reference=best).geometry().composition.data_blocks - composition.data_blocks
    return (best, more * spec.chunk_bytes) if more > 0 else None


def slice_rows(windows: Sequence[TierWindow], disk_count: int) -> tuple[SliceRow, ...]:
    """Return the rows of slices in all tiers, beginning with the tier that spans all disks.

    A row holds the window of each disk, or None if the disk is not in the tier.
    """
    rows: list[SliceRow] = []
    for number, windows_of_tier in groupby(windows, lambda window: window.tier):
        tier = list(windows_of_tier)
        # All disks of a tier have the same number of slices.
        by_disk = ([window.number for window in tier if disk in window.disks] for disk in range(disk_count))
        rows += [SliceRow(number, tier[0].lines, cells) for cells in zip_longest(*by_disk)]
    return tuple(rows)


def unused_lines(composition: Composition) -> tuple[int, ...]:
    """Return, for each disk, the number of lines that no array uses."""
    return tuple(
        own - sum(window.lines for window in composition.windows_on(disk)) for disk, own in enumerate(composition.lines)
    )


def disks_of_sizes(sizes: Sequence[str]) -> tuple[LabDisk, ...]:
    """Make disks that exist only in calculations, from sizes such as ``1T``. Raises SpecError if a size is invalid."""
    return tuple(
        LabDisk(name=text, kind=DiskKind.FILE, node=f"/dev/disk{number}", size_bytes=parse_bytes(text))
        for number, text in enumerate(sizes)
    )


def compare_systems(spec: VolumeSpec) -> tuple[SystemPreview, ...]:
    """Compute the disks' capacity under each system, without metadata. Raises SpecError if no array is possible."""
    disks, chunk_bytes = spec.disks, spec.chunk_bytes
    composition = replace(spec, rule=AdaptLevel.ADAPT5, utilisation=None).geometry().composition
    blocks = composition.reference
    smallest, largest = min(disk.size_bytes for disk in disks), max(disk.size_bytes for disk in disks)
    fast = sum(disk.size_bytes == largest for disk in disks)
    shr = replace(spec, rule=AdaptLevel.SHR, utilisation=None).geometry().composition
    return (
        _md(System.RAID5, f"RAID 5 on all {len(disks)}", len(disks), smallest, chunk_bytes, blocks),
        _md(System.ONLY_FAST, f"RAID 5 on the {fast} largest", fast, largest, chunk_bytes, blocks),
        _composed(System.SHR, "SHR-like, tiers one after the other", shr, chunk_bytes, blocks),
        _composed(System.ADAPT5, f"adapt5, full stripe of {blocks} chunks", composition, chunk_bytes, blocks),
    )


def _md(system: System, title: str, members: int, size_bytes: int, chunk_bytes: int, blocks: int) -> SystemPreview:
    # md accepts two members, but the lab's RAID 5 needs three.
    if members < Raid5.minimum_members:
        return SystemPreview(system, title, 0, 0, 0.0)
    capacity = usable_bytes(Raid5(), [size_bytes] * members, chunk_bytes)
    return SystemPreview(system, title, capacity, 1, float(small_write_share(members - 1, blocks)))


def _composed(system: System, title: str, composition: Composition, chunk_bytes: int, blocks: int) -> SystemPreview:
    windows, reads = composition.windows, Fraction(0)
    if system is System.SHR and windows:
        reads = sum((window.blocks * small_write_share(window.width, blocks) for window in windows), reads)
        reads /= sum(window.blocks for window in windows)
    return SystemPreview(system, title, composition.data_blocks * chunk_bytes, len(windows), float(reads))


_LINES_APART = 4096
"""In slices of up to this many lines, each line is placed separately, as in the paper's pattern."""
_PIECES = 768
"""A longer slice is cut into this many pieces, so that data used together are within a hundredth of each disk."""


def new_label(spec: VolumeSpec) -> Label:
    """Return the label of a new volume, in the stage before its arrays are created."""
    geometry = spec.geometry()
    composition = geometry.composition
    volume = VolumeLayout.of(composition, shortest_run(composition), piece_lines(composition))
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
    """Return the number of lines in a piece of a slice."""
    longest = max((window.lines for window in composition.windows), default=1)
    return 1 if longest <= _LINES_APART else -(-longest // _PIECES)
