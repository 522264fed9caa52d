"""Crash points under a file system: arrays, recordings of a load on files, and the verdict on each cut.

The promises of the file systems are in lab/faults/guest/file_ledger.py. This module combines them with those of the
array below.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab.arrays.filesystem import FileSystem
from lab.arrays.levels import level_with_layout
from lab.errors import LabError
from lab.faults.arrays import NODE, BlockMap, array_spec
from lab.faults.guest.ledger import KINDS, Record, chosen_cut
from lab.faults.place import FaultPlace, run_program
from lab.machine import GuestProgram
from lab.units import KIB, MIB

PROGRAM = GuestProgram(Path(__file__).with_name("files_points_program.py"), "fault-files-points")
SEED = "1"
CHUNK_BYTES = 16 * KIB
DATA_BYTES = {FileSystem.EXT4: 9 * MIB, FileSystem.XFS: 18 * MIB}
"""Data size of an array in bytes: slightly more than the smallest file system with a journal needs."""
JOURNAL = 5
"""The number of the drive that is the journal of an array with a journal."""


@dataclass(frozen=True, slots=True)
class FilesArray:
    """An array under a file system: how mdadm creates it, and what it promises if a power cut also takes a member."""

    name: str
    level: str
    members: int
    policy: str = "resync"
    data_members: int = 1
    """Data capacity in units of one member."""
    survives_missing: bool = True
    """Whether all synced data remain readable if a member is missing after the power cut.

    False where parity may be wrong after a power cut, the write hole, and with a PPL, which leaves arbitrary data in
    blocks that were being written (driver-api/md/raid5-ppl.rst): then only cuts with all members are tried.
    """

    @property
    def has_journal(self) -> bool:
        return self.policy == "journal"

    def member_bytes(self, file_system: FileSystem) -> int:
        """Data size of each member in bytes, a multiple of 64 KiB."""
        return -(-DATA_BYTES[file_system] // self.data_members // (64 * KIB)) * 64 * KIB

    def geometry(self, file_system: FileSystem) -> dict[str, Any]:
        """The layout of its copies and parity (``BlockMap.geometry``)."""
        level = level_with_layout(f"raid{self.level}", None)
        return BlockMap(level, self.members, self.member_bytes(file_system), CHUNK_BYTES).geometry()

    def creation(self, nodes: Sequence[str], file_system: FileSystem) -> list[str]:
        return list(
            array_spec(
                f"raid{self.level}",
                nodes[: self.members],
                self.policy,
                size_bytes=self.member_bytes(file_system),
                chunk_bytes=CHUNK_BYTES,
                journal_device=nodes[JOURNAL] if self.has_journal else None,
                assume_clean=True,
            ).create_argv
        )

    @property
    def numbers(self) -> list[int]:
        return [*range(self.members), *([JOURNAL] if self.has_journal else [])]


_ARRAYS = (
    FilesArray("raid1", "1", 2),
    FilesArray("raid10", "10", 4, data_members=2),
    FilesArray("raid5", "5", 4, data_members=3, survives_missing=False),
    FilesArray("raid5-ppl", "5", 4, "ppl", data_members=3, survives_missing=False),
    FilesArray("raid5-journal", "5", 4, "journal", data_members=3),
)
ARRAYS = {each.name: each for each in _ARRAYS}


@dataclass(frozen=True, slots=True)
class FilePoint:
    problems: tuple[str, ...]
    """Each violation of a promise, with file, offset in bytes, what was found and what is allowed."""
    document: dict[str, Any] = field(repr=False)
    """The document of the machine."""

    @property
    def is_missing(self) -> bool:
        """Whether a member was lost together with the power."""
        return bool(self.document["cut"].count(":") >= 3)


def file_point(document: dict[str, Any]) -> FilePoint:
    problems = []
    if "dead" in document:
        problems.append(f"the array cannot be started: {document['dead']}")
    if "unmountable" in document:
        problems.append(f"the file system cannot be mounted: {document['unmountable']}")
    if "stuck" in document:
        problems.append(f"the file system cannot be unmounted: {document['stuck']}")
    for name, offset, verdict, found, allowed in document.get("bad", ()):
        problems.append(f"{name} at byte {offset}: {verdict}, found {found}, allowed {allowed}")
    if document.get("fsck"):
        problems.append(f"fsck found damage: {document['fsck_said'].strip()}")
    if rows := document.get("wrong_rows"):
        problems.append(f"{len(rows)} rows of the members are inconsistent when md is idle, the first is {rows[0]}")
    problems += [f"kernel message: {line}" for line in document.get("kernel", ())]
    return FilePoint(tuple(problems), document)


DRIVE_BYTES = 24 * MIB
"""Large enough for the smallest XFS on two drives (RAID 1)."""


@dataclass(frozen=True, slots=True)
class FilesRecording:
    """A load on files whose writes to the drives were recorded.

    The record stays on the machine until the next recording.
    """

    array: FilesArray
    file_system: FileSystem
    ledger: list[list[Any]]
    record: Record
    nodes: tuple[str, ...]


def record_files(place: FaultPlace, array: FilesArray, file_system: FileSystem) -> FilesRecording:
    """Create array and file system, and record the drives during operations on files and the unmount.

    Raises LabError if a step fails, or if the mounted file system returns anything but what was written.
    """
    kind, create = file_system.value, ["run", array.creation(place.nodes, file_system)]
    garble: list[Any] = ["garble", NODE, DATA_BYTES[file_system] // (4 * KIB)]
    before: list[list[Any]] = [create, garble, ["make", kind, NODE], ["mount", kind, NODE]]
    begin = [["files", {}], ["work", 40], ["drain"], ["sync"], ["pause", 1.0], ["record", array.numbers]]
    # Long enough for the periodic writeback of the file systems: a commit every 5 s (ext4), metadata after 30 s (both).
    load = [["work", 40], ["pause", 6.0], ["work", 40], ["pause", 40.0], ["work", 40]]
    end = [["check"], ["unmount"], ["still", array.numbers], ["fsck", kind, NODE], ["run", ["mdadm", "--stop", NODE]]]
    history = {"seed": SEED, "wants_ledger": True, "steps": [*before, *begin, *load, *end]}
    ledger: list[list[Any]] = []
    for document in run_program(place.lab.machine, PROGRAM, {"histories": [history]}):
        require_done(document)
        ledger = document.get("ledger") or ledger
    text = place.lab.machine.run(("base64", "-w0", "/dev/lab-record")).stdout
    return FilesRecording(array, file_system, ledger, Record(base64.b64decode(text)), place.nodes)


def require_done(document: dict[str, Any]) -> None:
    """Raises LabError for a failed step, and for a check that found a verdict which is not allowed."""
    why = document.get("broke") or document.get("refused") or document.get("first_failure") or document.get("bad")
    if document.get("status", 0) != 0:
        why = f"status {document['status']}: {document.get('output', '').strip()}"
    if why:
        raise LabError(f"step '{document.get('kind')}' on files did not succeed: {why}", hint="see the machine's dmesg")


def chosen_cuts(recording: FilesRecording, count: int) -> list[str]:
    """About ``count`` cuts of all kinds, evenly distributed over the recording.

    Half of them have a member missing if the array survives that.
    """
    chance, record = random.Random(f"{SEED}:0"), recording.record
    losses: list[tuple[int, ...]] = [(), (0,)] if recording.array.survives_missing else [()]
    moments = record.moments()
    wanted = max(1, count // (len(KINDS) * len(losses)))
    cuts = []
    for index in range(min(wanted, len(moments))):
        at = moments[index * len(moments) // wanted] if wanted < len(moments) else moments[index]
        for kind in KINDS:
            for loss in losses:
                missing = [chance.randrange(recording.array.members)] if loss else []
                cuts.append(chosen_cut(record, at, kind, chance, missing).word())
    return cuts


def judged_points(
    place: FaultPlace,
    recording: FilesRecording,
    cuts: Sequence[str],
    *,
    fsck: int = 7,
    without: Sequence[int] = (),
) -> Iterator[FilePoint]:
    """The verdict on each cut.

    One in ``fsck`` cuts is also checked by e2fsck or xfs_repair (0: none). ``without`` lists indices of recorded writes
    that are restored to no drive although it had acknowledged them: damage that the oracle must detect. Raises LabError
    if the machine cannot continue.
    """
    array = recording.array
    job = {
        "seed": SEED,
        "ledger": recording.ledger,
        "members": {number: recording.nodes[number] for number in array.numbers},
        "kind": recording.file_system.value,
        "geometry": array.geometry(recording.file_system),
        "parity": 5,
        "fsck": fsck,
        "without": list(without),
        "cuts": list(cuts),
    }
    for document in run_program(place.lab.machine, PROGRAM, job):
        if "broke" in document:
            raise LabError(f"crash point {document['cut']} broke: {document['broke']}", hint="see the machine's dmesg")
        if "cut" in document:
            yield file_point(document)
