"""What some disks would hold under each system, metadata subtracted, before anything is touched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from lab.adapt.capacity import System, small_writes
from lab.adapt.spec import VolumeSpec, geometry_of
from lab.adapt.tiers import default_reference
from lab.adapt.windows import Composition, Rule
from lab.arrays.geometry import usable_bytes
from lab.arrays.levels import Raid5
from lab.disks.kinds import DiskKind, LabDisk
from lab.units import parse_bytes


@dataclass(frozen=True, slots=True)
class Preview:
    """One system. ``capacity_bytes`` is 0 where it cannot be built.

    ``reads_share`` is the share of the data on which an aligned write of a full reference stripe has to read first.
    """

    system: System
    title: str
    capacity_bytes: int
    array_count: int
    reads_share: float

    @property
    def reads_words(self) -> str:
        """``never``, ``always`` or a percentage."""
        return {0.0: "never", 1.0: "always"}.get(self.reads_share, f"{100 * self.reads_share:.0f} %")


def disks_of_sizes(sizes: Sequence[str]) -> tuple[LabDisk, ...]:
    """Disks that exist on paper only, written ``1T``, ``2T``. Raises SpecError for what is no size."""
    return tuple(
        LabDisk(name=text, kind=DiskKind.FILE, node=f"/dev/disk{number}", size_bytes=parse_bytes(text))
        for number, text in enumerate(sizes)
    )


def preview(disks: tuple[LabDisk, ...], chunk_bytes: int, reference: int | None = None) -> tuple[Preview, ...]:
    """Every system on these disks. Raises SpecError for disks that make no array, or an impossible reference."""
    spec = VolumeSpec(disks, chunk_bytes=chunk_bytes, reference=reference)
    composition = geometry_of(spec).composition
    blocks = default_reference(len(disks)) if reference is None else reference
    smallest, largest = min(disk.size_bytes for disk in disks), max(disk.size_bytes for disk in disks)
    fast = sum(disk.size_bytes == largest for disk in disks)
    shr = geometry_of(replace(spec, rule=Rule.SHR)).composition
    return (
        _md(System.RAID5, f"RAID 5 on all {len(disks)}", len(disks), smallest, chunk_bytes, blocks),
        _md(System.ONLY_FAST, f"RAID 5 on the {fast} largest", fast, largest, chunk_bytes, blocks),
        _composed(System.SHR, "SHR-like, tiers one behind the other", shr, chunk_bytes, blocks),
        _composed(System.ADAPT5, f"adapt5, full stripe of {blocks} chunks", composition, chunk_bytes, blocks),
    )


def _md(system: System, title: str, members: int, size_bytes: int, chunk_bytes: int, blocks: int) -> Preview:
    # md also runs two members, but the lab's RAID 5 begins at three.
    if members < Raid5.minimum_members:
        return Preview(system, title, 0, 0, 0.0)
    capacity = usable_bytes(Raid5(), members, size_bytes, chunk_bytes)
    return Preview(system, title, capacity, 1, float(small_writes(members - 1, blocks).share))


def _composed(system: System, title: str, composition: Composition, chunk_bytes: int, blocks: int) -> Preview:
    total = sum(window.blocks for window in composition.windows)
    reads = Fraction(0)
    if system is System.SHR and total:
        reads = sum((window.blocks * small_writes(window.width, blocks).share for window in composition.windows), reads)
        reads /= total
    return Preview(system, title, composition.data_blocks * chunk_bytes, len(composition.windows), float(reads))
