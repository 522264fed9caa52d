"""The state of running volumes, derived from the states of their md arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from lab.adapt import tables
from lab.adapt.discovery import FoundVolume
from lab.adapt.layout import Composition, TierWindow
from lab.adapt.names import volume_device
from lab.adapt.stack import Stack
from lab.arrays.status import ArrayStatus
from lab.errors import ArrayError
from lab.gates.decoding import read_count
from lab.machine.api import Machine
from lab.units import SECTOR_BYTES


@dataclass(frozen=True, slots=True)
class WindowStatus:
    """One array of a volume; ``array`` is None if it is not running."""

    window: TierWindow
    array: ArrayStatus | None

    @property
    def is_lost(self) -> bool:
        """Whether more than one member is missing, so that data of the window cannot be read."""
        return self.array is None or self.array.degraded_count > 1

    @property
    def is_degraded(self) -> bool:
        return self.array is None or self.array.is_degraded


@dataclass(frozen=True, slots=True)
class VolumeDisk:
    """One disk of a volume. ``windows`` are the windows with a slice on it.

    It is in sync in those in ``working``, in sync or being rebuilt in those in ``present``, and faulty in those in
    ``faulty``.
    """

    number: int
    node: str | None
    size_bytes: int
    """Bytes that the volume uses on the disk, including metadata."""
    windows: tuple[int, ...]
    working: tuple[int, ...]
    present: tuple[int, ...]
    faulty: tuple[int, ...]
    is_failed: bool

    @property
    def is_incomplete(self) -> bool:
        """Whether the disk is part of the volume, but some of its windows have not been rebuilt."""
        return bool(self.present) and self.working != self.windows and not self.faulty

    @property
    def state(self) -> str:
        """The state for display, such as ``in sync in 2 of 5 arrays``."""
        if self.node is None and not self.working:
            return "missing"
        if len(self.working) == len(self.windows):
            return "in sync"
        if self.is_failed or (self.faulty and not self.working):
            return "faulty"
        if self.faulty:
            return f"faulty in {len(self.faulty)} of {len(self.windows)} arrays"
        return f"in sync in {len(self.working)} of {len(self.windows)} arrays"


@dataclass(frozen=True, slots=True)
class VolumeStatus:
    """The state of a running volume."""

    name: str
    uuid: str
    level: str
    size_bytes: int
    optimal_io_bytes: int
    chunk_bytes: int
    reference_blocks: int
    disks: tuple[VolumeDisk, ...]
    windows: tuple[WindowStatus, ...]
    kernel_name: str = ""
    """The kernel name of the mapped device, such as dm-12."""

    @property
    def device(self) -> str:
        return volume_device(self.name)

    @property
    def is_degraded(self) -> bool:
        return any(window.is_degraded for window in self.windows)

    @property
    def lost(self) -> tuple[WindowStatus, ...]:
        """The arrays whose data cannot be read."""
        return tuple(window for window in self.windows if window.is_lost)

    @property
    def arrays(self) -> tuple[ArrayStatus, ...]:
        """The running arrays."""
        return tuple(window.array for window in self.windows if window.array)

    @property
    def busy(self) -> tuple[ArrayStatus, ...]:
        """The arrays with a running or pending sync."""
        return tuple(each for each in self.arrays if each.owes_sync)

    @property
    def mismatch_sectors(self) -> int:
        """The mismatches of the last scrub in all arrays, in sectors."""
        return sum(each.mismatch_sectors or 0 for each in self.arrays)

    @property
    def failures_survived(self) -> int:
        """The number of further disk failures that are certainly survived: 0 while an array is degraded, else 1."""
        return int(not self.is_degraded and not self.lost)

    @property
    def survives_words(self) -> str:
        """The survivable failures for display, now and when no member is missing."""
        return "1 failed disk" if self.failures_survived else "no failed disks now; 1 failed disk when whole"

    @property
    def loss_words(self) -> str:
        """The extent of a data loss for display; empty if there is none."""
        return f"data lost in {len(self.lost)} of {len(self.windows)} arrays" if self.lost else ""

    @property
    def state_words(self) -> str:
        """``clean``, ``degraded``, or the extent of a data loss."""
        if self.lost:
            return self.loss_words
        return "degraded" if self.is_degraded else "clean"

    def disk(self, node: str) -> VolumeDisk:
        """The disk with this node. Raises ArrayError if the volume has none."""
        for disk in self.disks:
            if disk.node == node:
                return disk
        nodes = ", ".join(disk.node for disk in self.disks if disk.node)
        raise ArrayError(f"{node} is no disk of {self.name}", hint=f"its disks are {nodes}")

    def broken_by(self, disk: VolumeDisk) -> tuple[int, ...]:
        """The windows that would lose data if this disk failed now."""
        return tuple(
            each.window.number
            for each in self.windows
            if each.window.number in disk.working and each.array and each.array.is_degraded
        )


def read_volume(machine: Machine, found: FoundVolume, stack: Stack, arrays: Sequence[ArrayStatus]) -> VolumeStatus:
    """The state of one running volume; ``arrays`` are all md arrays. Raises ArrayError if it is not running."""
    if found.name not in stack.volumes:
        raise ArrayError(
            f"array {found.name} does not run", hint=f"start it with 'raidlab array assemble {found.name}'"
        )
    block = stack.volumes[found.name]
    paths = [f"/sys/block/{block}/size", f"/sys/block/{block}/queue/optimal_io_size"]
    texts = machine.read(paths)
    size, optimal = (read_count(texts[path], path) for path in paths)
    names = stack.arrays.get(found.name, {})
    inner = {status.name: status for status in arrays if status.name in names.values()}
    label = found.description
    composition = tables.layout_of(label).composition
    windows = tuple(WindowStatus(window, inner.get(names.get(window.number, ""))) for window in composition.windows)
    return VolumeStatus(
        name=found.name,
        uuid=found.uuid,
        level=found.level,
        size_bytes=size * SECTOR_BYTES,
        optimal_io_bytes=optimal,
        chunk_bytes=label.chunk_bytes,
        reference_blocks=label.reference,
        disks=tuple(_disks(found, composition, windows, stack)),
        windows=windows,
        kernel_name=block,
    )


def _disks(
    found: FoundVolume, composition: Composition, windows: tuple[WindowStatus, ...], stack: Stack
) -> Iterable[VolumeDisk]:
    label = found.description
    for number in range(len(label.disks)):
        own = tuple(window.number for window in composition.windows_on(number))
        members = {}
        for window in own:
            device = f"/dev/{stack.slices.get((found.name, number, window), '')}"
            array = windows[window].array
            members[window] = next((each for each in array.members if each.device == device), None) if array else None
        yield VolumeDisk(
            number=number,
            # The slices are correct even while a disk is being replaced.
            node=stack.nodes.get((found.name, number)) or _known_node(found, number),
            size_bytes=tables.needed_bytes(label, number),
            windows=own,
            working=tuple(window for window, member in members.items() if member and member.is_in_sync),
            present=tuple(window for window, member in members.items() if member and not member.is_faulty),
            faulty=tuple(window for window, member in members.items() if member and member.is_faulty),
            is_failed=label.disks[number].is_failed,
        )


def _known_node(found: FoundVolume, number: int) -> str | None:
    return found.nodes_by_disk.get(number) or dict(found.former_nodes).get(number)
