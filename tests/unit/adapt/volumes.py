"""Volumes on paper, for the tests of this folder."""

from __future__ import annotations

from msgspec.structs import replace

from lab.adapt.label import Label, VolumeStage
from lab.adapt.spec import VolumeSpec, new_label
from lab.disks import DiskKind, LabDisk
from lab.units import MIB


def disks_of(*mebibytes: float) -> tuple[LabDisk, ...]:
    return tuple(
        LabDisk(name=f"disk{number:02}", kind=DiskKind.FILE, node=f"/dev/ubd{number:02}", size_bytes=int(size * MIB))
        for number, size in enumerate(mebibytes)
    )


EXAMPLE = VolumeSpec(disks_of(60, 60, 60, 60, 30))


def ready_label(spec: VolumeSpec = EXAMPLE, sequence: int = 1) -> Label:
    return replace(new_label(spec), stage=VolumeStage.READY, sequence=sequence)


def labels_on(label: Label, spec: VolumeSpec = EXAMPLE) -> dict[str, Label]:
    """Node -> label, as all disks of a whole volume have them."""
    return {node: replace(label, own_uuid=disk.uuid) for node, disk in zip(spec.devices, label.disks, strict=True)}
