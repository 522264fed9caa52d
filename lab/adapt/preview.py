"""Previews of volumes, and the capacity of the same disks under other systems; without access to a machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from lab.adapt.capacity import System, best_reference, small_writes
from lab.adapt.layout import AdaptLevel, Composition, TierWindow, default_reference, level_out
from lab.adapt.request import Geometry, VolumeRequest
from lab.arrays.levels import Raid5, usable_bytes
from lab.arrays.spec import ArrayPreview, SliceRow, SystemPreview
from lab.disks.kinds import DiskKind, LabDisk
from lab.gates.decoding import parse_bytes
from lab.plans import Plan
from lab.units import human_bytes

_WORTH_A_WORD = 0.02
"""Share of the volume's capacity that another reference stripe must gain before it is suggested."""


def shown(spec: VolumeRequest, geometry: Geometry, plan: Plan | None) -> ArrayPreview:
    """The preview of ``spec``; ``plan`` creates it, if it can be created."""
    composition, chunk = geometry.composition, spec.chunk_bytes
    costs = sorted({Raid5().small_write_ios(window.width + 1) for window in composition.windows})
    steps = plan.steps if plan else ()
    created = [step.argv[2] for step in steps if step.argv[:2] == ("mdadm", "--create")]
    return ArrayPreview(
        problems=(),
        usable_bytes=geometry.data_blocks * chunk,
        raw_bytes=sum(disk.size_bytes for disk in spec.disks),
        unused_bytes=sum(unused_lines(composition)) * chunk,
        failures_survived=1,
        most_failures_survived=1,
        write_ios=costs[-1],
        write_penalty=_penalty_words(costs),
        full_stripe_bytes=composition.reference * chunk,
        chunk_bytes=chunk,
        rows=slice_rows(composition.windows, len(spec.disks)),
        widths=tuple((window.width, 1) for window in composition.windows),
        array_names=tuple(device.removeprefix("/dev/") for device in created),
        systems=compare_systems(spec),
        note=_note(spec, geometry),
        plan=plan,
    )


def are_equal(disks: Sequence[LabDisk]) -> bool:
    """Whether the disks count as equal in size (``EQUAL_WITHIN``)."""
    return len(set(level_out([disk.size_bytes for disk in disks]))) < 2


def _penalty_words(costs: Sequence[int]) -> str:
    ios = " or ".join(map(str, costs))
    if costs == [2]:
        return "2 I/Os: every stripe is one data chunk and its copy"
    where = "by the stripe that it lands in, " if len(costs) > 1 else ""
    return f"{ios} I/Os: {where}old data or the rest of the stripe are read, then data and parity are written"


def _note(spec: VolumeRequest, geometry: Geometry) -> str:
    """A note if the layout has no benefit, or if another reference stripe has a larger capacity."""
    if are_equal(spec.disks) and spec.utilisation is None:
        return (
            f"These disks are of one size, so this is a plain RAID 5 of all {len(spec.disks)} with a table above it. "
            "Its gain comes with disks of different sizes"
        )
    if len(geometry.composition.windows) == 1:
        return (
            "One disk alone is larger: nothing can keep its further room redundant, so this is a plain RAID 5. "
            "Two larger disks would give more"
        )
    if spec.rule is not AdaptLevel.ADAPT5 or spec.reference is not None:
        return ""
    better = better_reference(spec)
    if better is None or better[1] < _WORTH_A_WORD * geometry.data_blocks * spec.chunk_bytes:
        return ""
    reference, more = better
    return (
        f"A full stripe of {reference} chunks instead of {default_reference(len(spec.disks))} "
        f"would hold {human_bytes(more)} more"
    )


def better_reference(spec: VolumeRequest) -> tuple[int, int] | None:
    """The reference stripe with the largest capacity, and its gain in bytes; None if it is already in use or given."""
    if spec.rule is not AdaptLevel.ADAPT5 or spec.reference is not None:
        return None
    geometry = spec.geometry()
    best = best_reference(geometry.composition.lines)
    if best == geometry.composition.reference:
        return None
    more = replace(spec, reference=best).geometry().data_blocks - geometry.data_blocks
    return (best, more * spec.chunk_bytes) if more > 0 else None


def slice_rows(windows: Sequence[TierWindow], disk_count: int) -> tuple[SliceRow, ...]:
    """The rows of slices of all tiers, beginning with the tier that all disks have."""
    rows = []
    for number in dict.fromkeys(window.tier for window in windows):
        tier = [window for window in windows if window.tier == number]
        rows += [SliceRow(number, tier[0].lines, cells) for cells in _rows_of(tier, disk_count)]
    return tuple(rows)


def _rows_of(tier: Sequence[TierWindow], disk_count: int) -> list[tuple[int | None, ...]]:
    """All disks of a tier have the same number of slices."""
    by_disk = [[window.number for window in tier if disk in window.disks] for disk in range(disk_count)]
    height = max(map(len, by_disk))
    return [tuple(own[row] if row < len(own) else None for own in by_disk) for row in range(height)]


def unused_lines(composition: Composition) -> tuple[int, ...]:
    """Number of lines of each disk that no array uses."""
    return tuple(
        own - sum(window.lines for window in composition.windows_on(disk)) for disk, own in enumerate(composition.lines)
    )


def disks_of_sizes(sizes: Sequence[str]) -> tuple[LabDisk, ...]:
    """Disks that exist only in calculations, from sizes such as ``1T``. Raises SpecError for an invalid size."""
    return tuple(
        LabDisk(name=text, kind=DiskKind.FILE, node=f"/dev/disk{number}", size_bytes=parse_bytes(text))
        for number, text in enumerate(sizes)
    )


def compare_systems(spec: VolumeRequest) -> tuple[SystemPreview, ...]:
    """The capacity of the disks under each system, without metadata. Raises SpecError if no array is possible."""
    disks, chunk_bytes = spec.disks, spec.chunk_bytes
    composition = replace(spec, rule=AdaptLevel.ADAPT5, utilisation=None).geometry().composition
    blocks = default_reference(len(disks)) if spec.reference is None else spec.reference
    smallest, largest = min(disk.size_bytes for disk in disks), max(disk.size_bytes for disk in disks)
    fast = sum(disk.size_bytes == largest for disk in disks)
    shr = replace(spec, rule=AdaptLevel.SHR, utilisation=None).geometry().composition
    return (
        _md(System.RAID5, f"RAID 5 on all {len(disks)}", len(disks), smallest, chunk_bytes, blocks),
        _md(System.ONLY_FAST, f"RAID 5 on the {fast} largest", fast, largest, chunk_bytes, blocks),
        _composed(System.SHR, "SHR-like, tiers one behind the other", shr, chunk_bytes, blocks),
        _composed(System.ADAPT5, f"adapt5, full stripe of {blocks} chunks", composition, chunk_bytes, blocks),
    )


def _md(system: System, title: str, members: int, size_bytes: int, chunk_bytes: int, blocks: int) -> SystemPreview:
    # md accepts two members, but the lab's RAID 5 needs three.
    if members < Raid5.minimum_members:
        return SystemPreview(system, title, 0, 0, 0.0)
    capacity = usable_bytes(Raid5(), members, size_bytes, chunk_bytes)
    return SystemPreview(system, title, capacity, 1, float(small_writes(members - 1, blocks).share))


def _composed(system: System, title: str, composition: Composition, chunk_bytes: int, blocks: int) -> SystemPreview:
    total = sum(window.blocks for window in composition.windows)
    reads = Fraction(0)
    if system is System.SHR and total:
        reads = sum((window.blocks * small_writes(window.width, blocks).share for window in composition.windows), reads)
        reads /= total
    return SystemPreview(system, title, composition.data_blocks * chunk_bytes, len(composition.windows), float(reads))
