"""The specification of a volume of unequal disks, with the plan that creates it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from lab.adapt import operations, preview, tables
from lab.adapt.discovery import windows_named
from lab.adapt.label import DiskLabel, Label, VolumeStage, checksum_of, new_uuid
from lab.adapt.layout import COMFORTABLE_TARGETS, Composition, VolumeLayout, shortest_run
from lab.adapt.request import SLICE_HEADER_BYTES, VolumeRequest
from lab.arrays.filesystem import FileSystem, make
from lab.arrays.spec import ArrayPreview
from lab.disks.kinds import LabDisk
from lab.plans import Plan
from lab.units import human_bytes

_LINES_APART = 4096
"""Maximum length of a slice, in lines, up to which each line is placed separately, as in the paper's pattern."""
_PIECES = 768
"""Number of pieces of a longer slice, so that data used together are within about a hundredth of each disk."""


@dataclass(frozen=True, slots=True)
class VolumeSpec(VolumeRequest):
    """The specification of one volume, and how to create it."""

    def creation(self, disks: Sequence[LabDisk], file_system: FileSystem, taken: Collection[str] = ()) -> Plan:
        label = new_label(self)
        nodes, arrays = dict(enumerate(self.devices)), windows_named(label, taken)
        plan = operations.create(label, nodes, arrays, bitmap=self.bitmap, assume_clean=self.assume_clean)
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


def new_label(spec: VolumeSpec) -> Label:
    """The label of a new volume, in the stage before its arrays are created."""
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
    """Number of lines in a piece of a slice."""
    longest = max((window.lines for window in composition.windows), default=1)
    return 1 if longest <= _LINES_APART else -(-longest // _PIECES)
