"""What was typed after ``raidlab array create``, and which disks can be told without starting a machine."""

from __future__ import annotations

from dataclasses import dataclass

from lab.arrays.filesystem import FileSystem
from lab.arrays.spec import Bitmap, ConsistencyPolicy
from lab.cli.context import Context
from lab.disks import DiskKind, LabDisk


@dataclass(frozen=True, slots=True)
class Wish:
    """What was typed, read but not yet tied to disks."""

    name: str | None
    level: str
    disks: str | None
    spares: str | None
    journal: str | None
    chunk_bytes: int | None
    layout: str | None
    bitmap: Bitmap
    bitmap_chunk_bytes: int | None
    policy: ConsistencyPolicy
    assume_clean: bool
    file_system: FileSystem


def disks_without_booting(context: Context) -> tuple[LabDisk, ...]:
    """The disks of the embedded lab that lasts, if all are files: their nodes follow from its list."""
    from lab.disks.lab_files import lab_folder

    if not context.is_embedded:
        return ()
    with lab_folder(context.host.state, context.target.options.get("name", "default")) as folder:
        if any(spec.kind is not DiskKind.FILE for spec in folder.specs):
            return ()
        return folder.lab_disks(folder.specs)


def asks_for_free_ones(wish: Wish) -> bool:
    """Whether only the machine knows which disks are meant."""
    return any(text is not None and text.isdecimal() for text in (wish.disks, wish.spares)) or wish.disks is None
