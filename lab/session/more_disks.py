"""Additional disks for a lab: attached immediately on a machine, or added to the disk list of a closed embedded lab."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lab.disks import DiskKind, DiskSpec, LabDisk
from lab.disks.attaching import ram_attachments
from lab.disks.kinds import check_specs
from lab.disks.lab import embedded_memory_bytes
from lab.disks.lab_files import LabFolder
from lab.errors import SpecError
from lab.gates.decoding import DiskCount, checked
from lab.machine.embedded import MAX_UBD_DISKS
from lab.machine.state_folder import memory_room_bytes
from lab.units import MIB, human_bytes

LARGER_COUNT = 2
"""A single larger disk gains nothing: its additional space would have no redundancy."""


def new_specs(
    taken: Sequence[str], kind: DiskKind, count: int, size_bytes: int, model: str = "", path: str = ""
) -> tuple[DiskSpec, ...]:
    """Additional disks, numbered after the existing ones. Raises SpecError if they are not possible."""
    checked(count, DiskCount, "count")
    if kind is DiskKind.PHYSICAL and count != 1:
        raise SpecError(f"{count} physical disks cannot be added at once", hint="add one after the other")
    numbers = [int(match[1]) for name in taken if (match := re.fullmatch(r"disk(\d+)", name))]
    first = max(numbers, default=0) + 1
    made = tuple(
        DiskSpec(name=f"disk{number:02d}", kind=kind, size_bytes=size_bytes, model=model, backing=path)
        for number in range(first, first + count)
    )
    check_specs(made, taken)
    return made


def add_to_list(
    folder: LabFolder, kind: DiskKind, count: int, size_bytes: int, model: str = "", path: str = ""
) -> tuple[str, ...]:
    """Add disks to the list of an embedded lab; the next start creates them.

    Raises SpecError if they are not possible.
    """
    if kind in (DiskKind.PHYSICAL, DiskKind.VIRTIO):
        raise SpecError(
            f"the embedded kernel has no {kind} disks", hint="use --kind file, or --on local: for real disks"
        )
    made = new_specs([spec.name for spec in folder.specs], kind, count, size_bytes, model, path)
    wanted = (*folder.specs, *made)
    files = [spec for spec in wanted if spec.kind is DiskKind.FILE]
    if len(files) > MAX_UBD_DISKS:
        raise SpecError(
            f"{len(files)} file disks; the embedded kernel takes {MAX_UBD_DISKS}",
            hint="remove unused disks with 'raidlab disks remove', or add spindle or loop disks",
        )
    if rams := [spec for spec in wanted if spec.kind is DiskKind.RAM]:
        ram_attachments(rams)
    _require_memory(folder, wanted)
    folder.add(made)
    return tuple(spec.name for spec in made)


def _require_memory(folder: LabFolder, wanted: Sequence[DiskSpec]) -> None:
    without, needed = embedded_memory_bytes([]), embedded_memory_bytes(wanted)
    room = memory_room_bytes(folder.path)
    if needed > max(without, room):
        raise SpecError(
            f"with these disks the embedded kernel needs {human_bytes(needed)} of memory, and there is room for "
            f"{human_bytes(room)}",
            hint=f"disks that are not files may have {human_bytes(max(0, room - without))} in total: ask for "
            "smaller or fewer ones",
        )


def larger_bytes(disks: Sequence[LabDisk]) -> int:
    """The size of disks that makes a lab's disks unequal: twice the largest, in whole MiB."""
    largest = max((disk.size_bytes for disk in disks), default=0)
    return 2 * largest // MIB * MIB


def larger_line(disks: Sequence[LabDisk], *, is_embedded: bool) -> str:
    """The command line that adds these disks."""
    kind = DiskKind.FILE if is_embedded else DiskKind.LOOP
    return f"raidlab disks add --kind {kind} --count {LARGER_COUNT} --size {larger_bytes(disks) // MIB}M"
