"""Device-mapper tables (kernel: Documentation/admin-guide/device-mapper/linear.rst) of slices and volumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache

from lab.adapt.label import Label, checksum_of
from lab.adapt.layout import VolumeLayout
from lab.adapt.names import slice_name
from lab.arrays.names import array_device
from lab.errors import ArrayError
from lab.units import MIB, SECTOR_BYTES

CONCISE_BYTES = 60_000


@lru_cache(maxsize=8)
def layout_of(label: Label) -> VolumeLayout:
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


@dataclass(frozen=True, slots=True)
class SliceTables:
    """Some slices, made by one call of dmsetup: several in its concise form, or one by its plain table."""

    names: tuple[str, ...]
    uuid: str
    """Of the one slice with a plain table; in the concise form each line has its own."""
    text: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """What follows ``dmsetup create``; ``text`` is its standard input (dmsetup(8))."""
        return (self.names[0], "--uuid", self.uuid) if self.uuid else ("--concise",)


def slice_tables(label: Label, nodes: Mapping[int, str]) -> tuple[SliceTables, ...]:
    """All slices of some disks.

    dmsetup (2.03.16) reads no more than 64 KiB of the concise form and leaves the rest away; plain tables may be long.
    """
    alone: list[SliceTables] = []
    groups: list[dict[str, str]] = [{}]
    for disk, node in nodes.items():
        for window in slices_on(label, disk):
            name, uuid = slice_name(label.name, disk, window), f"raidlab-{label.uuid}-d{disk:02d}w{window:02d}"
            table = slice_table(label, disk, window, node)
            one = f"{name},{uuid},,rw,{table.strip().replace(chr(10), ',')}"
            if len(one) > CONCISE_BYTES:
                alone.append(SliceTables((name,), uuid, table))
                continue
            if sum(len(other) + 2 for other in groups[-1].values()) + len(one) > CONCISE_BYTES:
                groups.append({})
            groups[-1][name] = one
    made = (SliceTables(tuple(group), "", ";\n".join(group.values()) + "\n") for group in groups if group)
    return (*made, *alone)


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
