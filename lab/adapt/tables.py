"""Device-mapper tables (kernel: Documentation/admin-guide/device-mapper/linear.rst) of slices and volumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from lab.adapt.interleave import Volume
from lab.adapt.label import Label, checksum_of
from lab.adapt.names import slice_name
from lab.arrays.names import array_device
from lab.errors import ArrayError
from lab.units import MIB, SECTOR_BYTES


@lru_cache(maxsize=8)
def layout_of(label: Label) -> Volume:
    """The layout that a label describes. Raises ArrayError where this program would compute another than its maker."""
    volume = label.volume()
    if checksum_of(volume) != label.layout_checksum:
        raise ArrayError(
            f"array {label.name} was laid out by another version of raidlab, and this one computes another layout",
            hint="use the version that made it; nothing was touched",
        )
    return volume


def slice_table(label: Label, disk: int, window: int, node: str) -> str:
    """The table of one slice: its header, then its pieces, all on the disk at ``node``."""
    layout = layout_of(label)
    own = [each.number for each in layout.composition.windows_on(disk)]
    chunk, header = label.chunk_bytes // SECTOR_BYTES, label.slice_header_bytes // SECTOR_BYTES
    reserve = label.reserve_bytes // SECTOR_BYTES
    rows = [(0, header, MIB // SECTOR_BYTES + own.index(window) * header)]
    rows += [
        (header + piece.slice_start * chunk, piece.lines * chunk, reserve + piece.disk_start * chunk)
        for piece in layout.placement[disk, window]
    ]
    return "".join(f"{start} {length} linear {node} {offset}\n" for start, length, offset in rows)


def slices_on(label: Label, disk: int) -> tuple[int, ...]:
    """The windows that have a slice on a disk."""
    return tuple(window.number for window in layout_of(label).composition.windows_on(disk))


def slice_tables(label: Label, nodes: Mapping[int, str]) -> str:
    """All slices of some disks, in the form that ``dmsetup create --concise`` reads (dmsetup(8))."""
    return ";".join(_concise(label, disk, node) for disk, node in nodes.items()) + "\n"


def _concise(label: Label, disk: int, node: str) -> str:
    made = []
    for window in slices_on(label, disk):
        name = slice_name(label.name, disk, window)
        table = slice_table(label, disk, window, node).strip().replace("\n", ",")
        made.append(f"{name},raidlab-{label.uuid}-d{disk:02d}w{window:02d},,rw,{table}")
    return ";\n".join(made)


def volume_table(label: Label, arrays: Mapping[int, str]) -> str:
    """The table of the volume; ``arrays`` are the md names of its windows."""
    chunk = label.chunk_bytes // SECTOR_BYTES
    devices = {window: array_device(name) for window, name in arrays.items()}
    rows: Iterable[str] = (
        f"{segment.start * chunk} {segment.blocks * chunk} linear "
        f"{devices[segment.window]} {segment.window_start * chunk}\n"
        for segment in layout_of(label).segments
    )
    return "".join(rows)


def slice_bytes(label: Label, window: int) -> int:
    """Bytes of a slice behind its header: what md uses of it."""
    return layout_of(label).composition.windows[window].lines * label.chunk_bytes


def needed_bytes(label: Label, disk: int) -> int:
    """Bytes that a disk must have in order to take this place."""
    return label.reserve_bytes + label.disks[disk].lines * label.chunk_bytes


def volume_bytes(label: Label) -> int:
    """Bytes of data that the volume offers."""
    return layout_of(label).composition.data_blocks * label.chunk_bytes
