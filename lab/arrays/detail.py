"""The details of an array as tables of the field give them: from sysfs, its name from ``mdadm --detail --export``."""

from __future__ import annotations

from dataclasses import dataclass

from lab.arrays.level_names import layout_name
from lab.arrays.levels import LevelName
from lab.arrays.state import read_array
from lab.arrays.status import ArrayStatus
from lab.machine.api import Machine
from lab.units import KIB


@dataclass(frozen=True, slots=True)
class ArrayDetail:
    """What does not change while an array is merely used, and its state in words. None: not applicable."""

    device: str
    level: str
    metadata_version: str
    array_size_kib: int
    used_device_size_kib: int | None
    """Of each member; None for levels that may use members unequally (raid0)."""
    raid_devices: int
    total_devices: int
    chunk_kib: int | None
    layout: str | None
    consistency_policy: str
    state: str
    uuid: str | None
    array_name: str | None
    """As the superblock has it, such as ``any:0``."""


def read_detail(machine: Machine, name: str) -> ArrayDetail:
    """Details of one array. Raises ArrayError if the machine has no such array."""
    status = read_array(machine, name)
    export = machine.run(("mdadm", "--detail", "--export", status.device)).stdout
    return detail_of(status, parse_export(export))


def detail_of(status: ArrayStatus, export: dict[str, str]) -> ArrayDetail:
    """Details from one look at sysfs and the variables that mdadm exports."""
    return ArrayDetail(
        device=status.device,
        level=status.level,
        metadata_version=status.metadata_version,
        array_size_kib=status.size_bytes // KIB,
        used_device_size_kib=None if status.level == LevelName.RAID0 else status.component_size_kib,
        raid_devices=status.raid_disks,
        total_devices=len(status.members),
        chunk_kib=None if status.chunk_bytes is None else status.chunk_bytes // KIB,
        layout=_layout(status),
        consistency_policy=status.consistency_policy,
        state=status.state_words,
        uuid=export.get("MD_UUID"),
        array_name=export.get("MD_NAME"),
    )


def parse_export(text: str) -> dict[str, str]:
    """``KEY=value`` lines of ``mdadm --detail --export`` and ``--examine --export``."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def _layout(status: ArrayStatus) -> str | None:
    if status.layout_number is None or status.level not in tuple(LevelName):
        return None
    return layout_name(LevelName(status.level), status.layout_number)
