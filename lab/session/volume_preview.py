"""What a volume of unequal disks would be, before anything is touched; as ``lab.session.preview`` for arrays."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from lab.adapt.capacity import best_reference
from lab.adapt.preview import Preview
from lab.adapt.preview import preview as compare_systems
from lab.adapt.sketch import SliceRow, slice_rows, unused_lines
from lab.adapt.spec import Geometry, VolumeSpec, geometry_of, level_out
from lab.adapt.tiers import default_reference
from lab.adapt.windows import Rule
from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import Raid5
from lab.disks import LabDisk
from lab.errors import LabError
from lab.session.preview import ArrayPreview, sentence_of
from lab.session.volumes import creation
from lab.session.words import failures_words
from lab.units import human_bytes

_WORTH_A_WORD = 0.02
"""Of what a volume holds: so much more must another full stripe give."""


@dataclass(frozen=True, slots=True)
class VolumePreview(ArrayPreview):
    """What can be told of a volume beyond what can be told of an array."""

    rows: tuple[SliceRow, ...] = ()
    widths: tuple[tuple[int, int], ...] = ()
    """Of each array inside, by number: data blocks and parity blocks of a stripe."""
    array_names: tuple[str, ...] = ()
    """Of each array inside, by number."""
    chunk_bytes: int = 0
    systems: tuple[Preview, ...] = ()
    """The same disks under each system."""
    note: str = ""
    """What the user should know though it can be built; empty: nothing."""


def preview_volume(
    spec: VolumeSpec,
    file_system: FileSystem = FileSystem.RAW,
    taken: Collection[str] = (),
    *,
    has_plan: bool = True,
) -> VolumePreview:
    """What ``spec`` would be; ``taken`` are md names that are in use. Never raises.

    It takes some milliseconds; for disks of terabytes a tenth of a second, unless it ``has_plan`` left out.
    """
    try:
        geometry = geometry_of(spec)
        plan = creation(spec, file_system, taken) if has_plan else None
    except LabError as error:
        problems = spec.problems()
        return VolumePreview(problems or (sentence_of(error),), raw_bytes=_raw(spec.disks))
    composition, chunk = geometry.composition, spec.chunk_bytes
    costs = sorted({Raid5().small_write_ios(window.width + 1) for window in composition.windows})
    steps = plan.steps if plan else ()
    created = [step.argv[2] for step in steps if step.argv[:2] == ("mdadm", "--create")]
    return VolumePreview(
        problems=(),
        usable_bytes=geometry.data_blocks * chunk,
        raw_bytes=_raw(spec.disks),
        unused_bytes=sum(unused_lines(composition)) * chunk,
        failures_survived=1,
        most_failures_survived=1,
        survives=failures_words(1, 1),
        write_ios=costs[-1],
        write_penalty=_penalty_words(costs),
        full_stripe_bytes=composition.reference * chunk,
        plan=plan,
        rows=slice_rows(composition.windows, len(spec.disks)),
        widths=tuple((window.width, 1) for window in composition.windows),
        array_names=tuple(device.removeprefix("/dev/") for device in created),
        chunk_bytes=chunk,
        systems=compare_systems(spec.disks, chunk, spec.reference),
        note=_note(spec, geometry),
    )


def are_equal(disks: Sequence[LabDisk]) -> bool:
    """Whether disks count as of one size."""
    return len(set(level_out([disk.size_bytes for disk in disks]))) < 2


def _raw(disks: Sequence[LabDisk]) -> int:
    return sum(disk.size_bytes for disk in disks)


def _penalty_words(costs: Sequence[int]) -> str:
    ios = " or ".join(map(str, costs))
    if costs == [2]:
        return "2 I/Os: every stripe is one data chunk and its copy"
    where = "by the stripe that it lands in, " if len(costs) > 1 else ""
    return f"{ios} I/Os: {where}old data or the rest of the stripe are read, then data and parity are written"


def _note(spec: VolumeSpec, geometry: Geometry) -> str:
    """What makes it pointless, or what would hold more."""
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
    if spec.rule is not Rule.ADAPT5 or spec.reference is not None:
        return ""
    better = better_reference(spec)
    if better is None or better[1] < _WORTH_A_WORD * geometry.data_blocks * spec.chunk_bytes:
        return ""
    reference, more = better
    return (
        f"A full stripe of {reference} chunks instead of {default_reference(len(spec.disks))} "
        f"would hold {human_bytes(more)} more"
    )


def better_reference(spec: VolumeSpec) -> tuple[int, int] | None:
    """The reference stripe that holds most, and by how many bytes; None where it is the one that is taken."""
    if spec.rule is not Rule.ADAPT5 or spec.reference is not None:
        return None
    geometry = geometry_of(spec)
    best = best_reference(geometry.composition.lines)
    if best == geometry.composition.reference:
        return None
    more = geometry_of(replace(spec, reference=best)).data_blocks - geometry.data_blocks
    return (best, more * spec.chunk_bytes) if more > 0 else None
