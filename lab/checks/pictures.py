"""Superblocks as mdadm --examine shows them: administrators read these first, and they distinguish mistakes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import msgspec

from lab.disks.kinds import LabDisk
from lab.gates.numbers import digits
from lab.gates.text import shortened, visible
from lab.machine import Machine

_LINE = re.compile(r"\s*([A-Z][^:]*?) : (.*)")
_LONGEST = 200


class MemberPicture(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The superblock of one disk. If there is none, all fields except ``disk`` and ``note`` are empty."""

    disk: str
    uuid: str = ""
    created: str = ""
    name: str = ""
    """With the host name, as ``server:data``."""
    device_uuid: str = ""
    level: str = ""
    devices: int = 0
    role: str = ""
    state: str = ""
    events: int = 0
    data_offset_sectors: int = 0
    chunk: str = ""
    layout: str = ""
    updated: str = ""
    bad_blocks: str = ""
    """``yes`` if the bad-block list has entries, ``no`` if it is empty or absent."""
    note: str = ""
    """The message of mdadm if there is no superblock."""

    @property
    def has_superblock(self) -> bool:
        return bool(self.uuid)

    @property
    def has_place(self) -> bool:
        """Whether the superblock gives the disk a slot in its array."""
        return self.role.startswith("Active device")


def look_at_members(machine: Machine, disks: Sequence[LabDisk]) -> dict[str, MemberPicture]:
    """Disk name -> its superblock."""
    nodes = [disk.node for disk in disks]
    said = machine.run(("mdadm", "--examine", *nodes), check=False)
    parts: dict[str, list[str]] = {node: [] for node in nodes}
    told: list[str] = []
    # Only a line feed ends a line: the other line ends of ``str.splitlines`` may be part of a name.
    for line in said.stdout.split("\n"):
        # The output for each disk begins with its device and a colon.
        told = parts[line[:-1]] if line[:-1] in parts and line.endswith(":") else told
        told.append(line)
    for line in said.stderr.splitlines():
        for node in re.findall(r"/dev/[\w/.-]*\w", line):
            parts.get(node, []).append(line)
    return {disk.name: parse_examine(disk.name, "\n".join(parts[disk.node])) for disk in disks}


def parse_examine(disk: str, text: str) -> MemberPicture:
    """Parse the output of ``mdadm --examine`` for one disk: metadata 1.x, and of 0.90 the lines that 1.x has too."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        if match := _LINE.fullmatch(line):
            found.setdefault(match[1].strip(), shortened(visible(match[2].strip()), _LONGEST))
    uuid = found.get("Array UUID") or found.get("UUID", "")
    if not uuid:
        told = [line for line in text.split("\n") if line.strip()]
        note = shortened(visible(told[0].strip()), _LONGEST) if told else "nothing"
        return MemberPicture(disk=disk, note=note)
    return MemberPicture(
        disk=disk,
        uuid=uuid.split(" ")[0],
        created=found.get("Creation Time", ""),
        name=found.get("Name", "").split(" ")[0],
        device_uuid=found.get("Device UUID", ""),
        level=found.get("Raid Level", ""),
        devices=_number(found, "Raid Devices"),
        role=found.get("Device Role", ""),
        state=found.get("State", ""),
        events=_number(found, "Events"),
        data_offset_sectors=_number(found, "Data Offset"),
        chunk=found.get("Chunk Size", ""),
        layout=found.get("Layout", ""),
        updated=found.get("Update Time", ""),
        bad_blocks="yes" if "bad blocks present" in found.get("Bad Block Log", "") else "no",
    )


def freshest_events(pictures: Mapping[str, MemberPicture]) -> int:
    """The highest event count; 0 if there is no superblock."""
    return max((picture.events for picture in pictures.values()), default=0)


def _number(found: Mapping[str, str], key: str) -> int:
    # Metadata 0.90 shows events as "0.42".
    return digits(found.get(key, "").split(" ")[0].rpartition(".")[2]) or 0
