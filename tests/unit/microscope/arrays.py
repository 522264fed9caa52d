"""Arrays whose sysfs and members are made up for the test: small chunks, bytes that the test chooses."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping

from lab.arrays.array import OpenArrays
from lab.arrays.geometry import ArrayGeometry, ParityGeometry
from lab.arrays.kinds import kinds
from lab.disks import Lab
from lab.machine import Host
from lab.microscope.array_map import MappedArray, read_shape
from lab.microscope.picture import parities_of
from tests.unit.disks.machines import lab_disks
from tests.unit.fakes import FakeMachine, Scripted, as_machine

MD = "/sys/block/md0/md"
CHUNK_BYTES = 4096
CHUNK_SECTORS = CHUNK_BYTES // 512
OFFSET = 128
COMPONENT_KIB = 64
LETTERS = "abcdefghij"
DISKS = lab_disks(LETTERS, size_bytes=1 << 20)


def sysfs(level: str, disks: int, size_kib: int, **words: str) -> dict[str, str | None]:
    """The files of md0. ``words`` replace or add some; ``__`` in their names stands for a slash, ``___`` for a dash."""
    array = {
        "level": level,
        "raid_disks": str(disks),
        "layout": {"raid5": "2", "raid6": "2", "raid10": "258"}.get(level, "0"),
        "chunk_size": "0" if level == "raid1" else str(CHUNK_BYTES),
        "component_size": str(COMPONENT_KIB),
        "array_state": "clean",
        "metadata_version": "1.2",
        "reshape_position": "none",
        "reshape_direction": "forwards",
        "sync_action": "idle",
        "sync_completed": "none",
        "sync_max": "max",
        "resync_start": "none",
        "consistency_policy": "resync",
        "rmw_level": "1",
        "safe_mode_delay": "0.204",
        "stripe_cache_size": "256",
        "suspend_hi": "0",
        "bitmap/location": "none",
    }
    members = {
        "state": "in_sync",
        "offset": str(OFFSET),
        "new_offset": str(OFFSET),
        "size": str(COMPONENT_KIB),
        "recovery_start": "none",
        "bad_blocks": "",
    }
    files: dict[str, str | None] = {f"{MD}/{name}": f"{text}\n" for name, text in array.items()}
    for slot in range(disks):
        block = f"ubd{LETTERS[slot]}"
        for name, text in {**members, "slot": str(slot)}.items():
            files[f"{MD}/dev-{block}/{name}"] = f"{text}\n"
        files[f"/sys/class/block/{block}/size"] = "2048\n"
    files["/sys/block/md0/size"] = f"{2 * size_kib}\n"
    for name, text in words.items():
        files[f"{MD}/{name.replace('___', '-').replace('__', '/')}"] = f"{text}\n"
    return files


def without(*slots: int) -> dict[str, str]:
    """The words of ``sysfs`` for an array whose members in these slots are faulty."""
    names = [f"dev___ubd{LETTERS[slot]}" for slot in slots]
    return {f"{name}__slot": "none" for name in names} | {f"{name}__state": "faulty" for name in names}


class Members:
    """What the members hold; answers for the program that reads them."""

    def __init__(self, machine: FakeMachine) -> None:
        self.bytes: dict[str, bytearray] = {disk.node: bytearray(disk.size_bytes) for disk in DISKS}
        self.failing: set[str] = set()
        self.held: list[list[object] | None] = []
        self._machine = machine
        self._answer = Scripted(act=self._read)
        machine.answers[("agent:read-members",)] = self._answer

    def _read(self) -> None:
        request = json.loads(self._machine.runs[-1][1])
        self.held.append(request["hold"])
        places = request["places"]
        data = b"".join(bytes(self.bytes[node][start : start + length]) for node, start, length in places)
        failed = {str(index): "Input/output error" for index, place in enumerate(places) if place[0] in self.failing}
        self._answer.stdout = json.dumps(
            {
                "data": base64.b64encode(zlib.compress(data)).decode(),
                "failed": failed,
                "held": request["hold"] is not None,
                "why_not": "",
            }
        )

    def put(self, slot: int, sector: int, data: bytes) -> None:
        """Write bytes at a sector of a member's data."""
        start = (OFFSET + sector) * 512
        self.bytes[DISKS[slot].node][start : start + len(data)] = data

    def flip(self, slot: int, sector: int, byte: int, bits: int = 0xFF) -> None:
        """Flip bits of one byte, counted from a sector of a member's data."""
        self.bytes[DISKS[slot].node][(OFFSET + sector) * 512 + byte] ^= bits


def arrays_on(machine: FakeMachine) -> OpenArrays:
    """The lab's view of a machine."""
    return OpenArrays(Lab(as_machine(machine), Host.real("tests"), DISKS), kinds())


def shape_of(level: str, disks: int, size_kib: int = 192, /, **words: str) -> MappedArray:
    return read_shape(arrays_on(FakeMachine(files=sysfs(level, disks, size_kib, **words))), "md0")


def parity_array(level: str = "raid5", disks: int = 4, **words: str) -> tuple[OpenArrays, FakeMachine, Members]:
    """An array of a parity level whose first stripes contain data with correct parity."""
    data_disks = disks - (2 if level == "raid6" else 1)
    machine = FakeMachine(files=sysfs(level, disks, COMPONENT_KIB * data_disks, **words))
    members, arrays = Members(machine), arrays_on(machine)
    geometry = read_shape(arrays, "md0").geometry
    for number in range(4):
        for slot, data in stripe_bytes(geometry, number).items():
            members.put(slot, number * CHUNK_SECTORS, data)
    return arrays, machine, members


def stripe_bytes(geometry: ArrayGeometry, number: int) -> Mapping[int, bytes]:
    """By slot: data that depend on their chunk, and parity."""
    assert isinstance(geometry, ParityGeometry)
    row = geometry.row(number)
    first = number * geometry.data_count
    data = {
        slot: bytes((17 * (first + index) + place) % 251 for place in range(CHUNK_BYTES))
        for index, slot in enumerate(row.data_slots)
    }
    return {**data, **parities_of(row, data, CHUNK_BYTES)}
