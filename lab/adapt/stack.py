"""Reads which parts of volumes are running on a machine: slices, md arrays and mapped volumes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lab.adapt.names import names_volume, parse_slice_name
from lab.arrays.names import is_array_name, node_of
from lab.disks.inventory import mapped_devices
from lab.machine.api import Machine


@dataclass(frozen=True, slots=True)
class Stack:
    """The running parts of volumes on a machine: slices, md arrays on them, and mapped volumes."""

    slices: Mapping[tuple[str, int, int], str]
    """(volume, disk, window) -> kernel name of the slice."""
    arrays: Mapping[str, Mapping[int, str]]
    """Volume -> window -> md name."""
    volumes: Mapping[str, str]
    """Mapped volume -> kernel name."""
    nodes: Mapping[tuple[str, int], str]
    """(volume, disk) -> node of the disk with its slices."""

    @property
    def inner_arrays(self) -> frozenset[str]:
        """The md names of arrays inside volumes."""
        return frozenset(name for own in self.arrays.values() for name in own.values())

    def disks_cut(self, volume: str) -> tuple[int, ...]:
        """The numbers of the volume's disks that have slices."""
        return tuple(sorted({disk for name, disk, _ in self.slices if name == volume}))

    def has_any(self, volume: str) -> bool:
        """Whether the volume is mapped or has slices."""
        return volume in self.volumes or bool(self.disks_cut(volume))


def read_stack(machine: Machine) -> Stack:
    """Read the device-mapper devices of a machine; one round trip if there are none."""
    mapped = mapped_devices(machine)
    slices = {parsed: kernel for name, kernel in mapped.items() if (parsed := parse_slice_name(name))}
    folders = {key: f"/sys/block/{kernel}" for key, kernel in slices.items()}
    wanted = [f"{folder}/{part}" for folder in folders.values() for part in ("holders", "slaves")]
    listed = machine.list_dirs(wanted) if wanted else {}
    arrays: dict[str, dict[int, str]] = {}
    nodes = {}
    for (volume, disk, window), folder in sorted(folders.items()):
        for below in listed[f"{folder}/slaves"]:
            nodes[volume, disk] = node_of(below)
        for holder in listed[f"{folder}/holders"]:
            if is_array_name(holder):
                arrays.setdefault(volume, {})[window] = holder
    ordered = {volume: dict(sorted(own.items())) for volume, own in arrays.items()}
    volumes = {name: kernel for name, kernel in mapped.items() if names_volume(name)}
    return Stack(slices, ordered, volumes, nodes)
