"""Device-mapper tables of slices and volumes (kernel: Documentation/admin-guide/device-mapper/linear.rst)."""

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
    """The layout of a volume. Raises ArrayError if this version computes a layout other than the original one."""
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
    """The windows with a slice on this disk."""
    return tuple(window.number for window in layout_of(label).composition.windows_on(disk))


@dataclass(frozen=True, slots=True)
class SliceTables:
    """Slices that one call of dmsetup creates: several in the concise format, or one with a plain table."""

    names: tuple[str, ...]
    uuid: str
    """UUID of the slice with a plain table; in the concise format, each line has its own."""
    text: str

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments after ``dmsetup create``; ``text`` is its standard input (dmsetup(8))."""
        return (self.names[0], "--uuid", self.uuid) if self.uuid else ("--concise",)


def slice_tables(label: Label, nodes: Mapping[int, str]) -> tuple[SliceTables, ...]:
    """The tables of all slices of some disks.

    dmsetup (2.03.16) reads at most 64 KiB of the concise format and ignores the rest; plain tables have no such limit.
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
    """The table of the volume; ``arrays`` maps its windows to md names."""
    chunk = label.chunk_bytes // SECTOR_BYTES
    devices = {window: array_device(name) for window, name in arrays.items()}
    rows: Iterable[str] = (
        f"{segment.start * chunk} {segment.blocks * chunk} linear "
        f"{devices[segment.window]} {segment.window_start * chunk}\n"
        for segment in layout_of(label).segments
    )
    return "".join(rows)


def slice_bytes(label: Label, window: int) -> int:
    """Bytes of a slice after its header, which are the component size of the md array."""
    return layout_of(label).composition.windows[window].lines * label.chunk_bytes


def needed_bytes(label: Label, disk: int) -> int:
    """Bytes that a disk must have to take this place."""
    return label.reserve_bytes + label.disks[disk].lines * label.chunk_bytes


def volume_bytes(label: Label) -> int:
    """Capacity of the volume in bytes."""
    return layout_of(label).composition.data_blocks * label.chunk_bytes
