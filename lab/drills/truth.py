"""How much of a drill's data can still be recovered from its disks, whatever arrays run and superblocks say.

When the files of a drill are complete, the location and digest of each of their blocks are recorded, and those of the
parity over them. When the drill is judged, the disks are searched for these blocks. A block that is found, or can be
computed from found blocks, can be recovered. All other blocks are destroyed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.arrays.geometry import Chunk, ChunkKind, period_rows, stripe_rows
from lab.arrays.levels import Level, LevelName, Raid10, Raid10Layout, layout_name
from lab.arrays.status import ArrayStatus, read_array
from lab.checks.state import MemberPicture, look_at_members
from lab.disks.kinds import LabDisk
from lab.drills import truth_program
from lab.drills.disks import MACHINE_FOLDER, are_own_files
from lab.drills.truth_program import PAGE_BYTES
from lab.errors import DrillError
from lab.host.files import write_file
from lab.machine import GuestProgram
from lab.session.session import LabSession
from lab.units import KIB, SECTOR_BYTES

_PROGRAM = GuestProgram(Path(truth_program.__file__), "drill-truth")
_FILE, _BEGUN = "truth.json", "truth-begun.json"
_SECONDS = 300.0
_LETTERS = {ChunkKind.DATA: "D", ChunkKind.COPY: "D", ChunkKind.P: "P", ChunkKind.Q: "Q"}


@dataclass(frozen=True, slots=True)
class DiskTruth:
    """How much of a drill's data its disks hold."""

    blocks: int
    """Number of 4 KiB blocks in files."""
    gone: int
    """Number of those that are not on the disks and cannot be computed from the disks."""
    gone_at_begin: int
    """As ``gone``, when the drill began."""
    meta_gone: int
    """Number of metadata blocks that were destroyed since the drill began: files named there have lost their names."""
    damaged_data: int
    """Number of data blocks on members that were correct when the drill began and are wrong now."""
    damaged_parity: int
    """As ``damaged_data``, for parity blocks."""
    uuid: str
    """UUID of the array that had the data."""

    @property
    def kept_percent(self) -> float:
        """Percentage of the files' blocks that can still be recovered, rounded down."""
        return self._percent(self.gone)

    @property
    def begun_percent(self) -> float:
        """As ``kept_percent``, when the drill began."""
        return self._percent(self.gone_at_begin)

    def _percent(self, gone: int) -> float:
        return int(10_000 * (self.blocks - gone) / self.blocks) / 100 if self.blocks else 0.0


@dataclass(frozen=True, slots=True)
class FileMap:
    """Location of the files in a file system: numbers of 4 KiB pages of its device."""

    files: tuple[int, ...]
    meta: tuple[int, ...]


def map_files(session: LabSession, place: str, node: str, file_system: str) -> FileMap:
    """Map the file system on ``node``, which is mounted on ``place`` and synced. Raises CommandFailed."""
    answer = session.machine.call(_PROGRAM, ["mapped", json.dumps({"place": place})], timeout_seconds=_SECONDS)
    found = json.loads(answer)
    meta = [*found["folders"]]
    if file_system == "ext4":
        told = session.machine.run(("dumpe2fs", node), check=False).stdout
        for first, last in re.findall(r"Inode table at ([0-9]+)-([0-9]+)", told):
            meta += range(int(first), int(last) + 1)
    return FileMap(tuple(found["files"]), tuple(meta))


def note_truth(
    session: LabSession,
    disks: Sequence[LabDisk],
    folder: Path,
    node: str,
    files: FileMap,
    *,
    next_chunk_bytes: int = 0,
) -> None:
    """Record in ``folder`` the location of the data of a complete and unmounted array.

    ``next_chunk_bytes``: chunk size after a later reshape. Raises DrillError if it is not an md array with data at
    multiples of 4 KiB.
    """
    name = node.removeprefix("/dev/")
    status = read_array(session.machine, name)
    chunks = [status.chunk_bytes or PAGE_BYTES, *([next_chunk_bytes] if next_chunk_bytes else [])]
    asked = {
        "node": node,
        "files": files.files,
        "meta": files.meta,
        # Every repair and every writable mount writes the first block of a file system.
        "also": [0],
        "geometries": [geometry_of(status, chunk) for chunk in chunks],
    }
    noted = json.loads(session.machine.call(_PROGRAM, ["note", json.dumps(asked)], timeout_seconds=_SECONDS))
    pictures = look_at_members(session.machine, disks)
    noted["slots"] = _slots(disks, status, pictures)
    noted["uuid"] = next((pictures[disk.name].uuid for disk in disks if disk.node in _members(status).values()), "")
    text = json.dumps(noted)
    write_file(folder / _FILE, text.encode())
    if not are_own_files(session, disks):
        session.machine.run(("mkdir", "-p", MACHINE_FOLDER))
        session.machine.write(f"{MACHINE_FOLDER}/{_FILE}", text)


def begin_truth(session: LabSession, disks: Sequence[LabDisk], folder: Path) -> None:
    """Record what the disks hold when the drill begins: data destroyed by then cannot be saved."""
    if (folder / _FILE).exists():
        write_file(folder / _BEGUN, json.dumps(_look(session, disks, folder)).encode())


def look_for_truth(session: LabSession, disks: Sequence[LabDisk], folder: Path) -> DiskTruth | None:
    """What the disks hold now; None if the drill's data were not recorded. Caches must have been written before."""
    if not (folder / _BEGUN).exists():
        return None
    noted = json.loads((folder / _FILE).read_text(encoding="utf-8"))
    begun = json.loads((folder / _BEGUN).read_text(encoding="utf-8"))
    now = _look(session, disks, folder)
    marks = list(zip(begun["cells"], now["cells"], strict=True))
    return DiskTruth(
        blocks=len(noted["files"]),
        gone=len(now["files"]),
        gone_at_begin=len(begun["files"]),
        meta_gone=len({*now["meta"]} - {*begun["meta"]}),
        damaged_data=sum(mark == "D" != after for mark, after in marks),
        damaged_parity=sum(mark == "P" != after for mark, after in marks),
        uuid=noted["uuid"],
    )


def _look(session: LabSession, disks: Sequence[LabDisk], folder: Path) -> dict[str, Any]:
    is_own = are_own_files(session, disks)
    asked = {
        "noted": str(folder / _FILE) if is_own else f"{MACHINE_FOLDER}/{_FILE}",
        "disks": [disk.backing if is_own else disk.node for disk in disks],
        "slots": json.loads((folder / _FILE).read_text(encoding="utf-8"))["slots"],
    }
    if is_own:
        return truth_program.look(asked)
    answer: dict[str, Any] = json.loads(
        session.machine.call(_PROGRAM, ["look", json.dumps(asked)], timeout_seconds=_SECONDS)
    )
    return answer


def geometry_of(status: ArrayStatus, chunk_bytes: int) -> dict[str, Any]:
    """The layout of an array, as ``note`` takes it. ``chunk_bytes`` may be the chunk size after a later reshape."""
    level, layout = status.raid, None
    if level.name in (LevelName.RAID5, LevelName.RAID6) and status.layout_number is not None:
        layout = layout_name(level.name, status.layout_number)
    used = status.component_bytes or min((member.data_size_kib or 0) * KIB for member in status.members)
    rows = stripe_rows(level, layout, status.raid_disks, period_rows(level, status.raid_disks))
    return {
        "chunk": chunk_bytes // PAGE_BYTES,
        "member": used // PAGE_BYTES,
        "parts": level.copies if isinstance(level, Raid10) and level.layout is Raid10Layout.FAR else 1,
        "parities": _parities(level),
        "pattern": [[row.part, row.row, [_cell(chunk) for chunk in row.chunks]] for row in rows],
    }


def _parities(level: Level) -> int:
    return {LevelName.RAID4: 1, LevelName.RAID5: 1, LevelName.RAID6: 2}.get(level.name, 0)


def _cell(chunk: Chunk) -> list[str | int]:
    return [_LETTERS[chunk.kind], chunk.number]


def _members(status: ArrayStatus) -> dict[int, str]:
    """Slot -> device."""
    return {member.slot: member.device for member in status.members if member.slot is not None}


def _slots(
    disks: Sequence[LabDisk], status: ArrayStatus, pictures: Mapping[str, MemberPicture]
) -> list[list[list[int]]]:
    """For each slot, the disks that may be its member: [index of the disk, first page of its data]."""
    places = {disk.node: number for number, disk in enumerate(disks)}
    offsets = {disk.node: pictures[disk.name].data_offset_sectors for disk in disks}
    if any(sectors * SECTOR_BYTES % PAGE_BYTES for sectors in offsets.values()):
        raise DrillError("data of a drill begin at a multiple of 8 sectors", hint="take another --data-offset")
    members = _members(status)
    uuids = {pictures[disk.name].uuid for disk in disks if disk.node in members.values()}
    away = [disk.node for disk in disks if pictures[disk.name].uuid in uuids and disk.node not in members.values()]
    found = []
    for slot in range(status.raid_disks):
        nodes = [members[slot]] if slot in members else away
        found.append([[places[node], offsets[node] * SECTOR_BYTES // PAGE_BYTES] for node in nodes if node in places])
    return found
