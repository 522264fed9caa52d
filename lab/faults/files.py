"""Files under the oracle, from the client: a file system on an array of recorded drives, and its crash points.

What is promised stands in guest/files_ledger.py; here it is put together with what the array below promises.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from lab.arrays.filesystem import FileSystem
from lab.errors import LabError
from lab.faults.files_arrays import DATA_BYTES, NODE, FilesArray
from lab.faults.files_points import FilePoint, file_point
from lab.faults.guest.record import KINDS, Record, chosen_cut
from lab.faults.place import FaultPlace
from lab.faults.program import FILES, run_program
from lab.units import KIB, MIB

DRIVE_BYTES = 24 * MIB
"""Enough for the smallest XFS on two of them (RAID 1)."""
_JOURNAL_MODE = "/sys/block/md0/md/journal_mode"


@dataclass(frozen=True, slots=True)
class FilesRecording:
    """A load of files whose writes to the drives were recorded. The record stays in the machine until the next one."""

    array: FilesArray
    file_system: FileSystem
    seed: str
    ledger: list[list[Any]]
    record: Record
    nodes: tuple[str, ...]


# Long enough for the file systems' own writers: a commit each 5 s (ext4), metadata written back after 30 s (both).
_PAUSES = (6.0, 40.0)


def record_files(
    place: FaultPlace,
    array: FilesArray,
    file_system: FileSystem,
    seed: str,
    *,
    operations: int = 120,
    mix: dict[str, int] | None = None,
    options: str = "",
) -> FilesRecording:
    """Make array and file system, and record the drives during so many operations and the unmounting.

    ``mix``: see FilePlan; ``options``: of mount(8). Raises LabError if a step does not succeed or the running file
    system shows anything but what was written.
    """
    create: list[list[Any]] = [["run", array.creation(place.nodes, file_system)]]
    stop: list[list[Any]] = [["run", ["mdadm", "--stop", NODE]]]
    if array.is_write_back:
        create.append(["write", _JOURNAL_MODE, "write-back"])
        # Stopped with stripes in its cache it may wait for ever: they wait for the superblock to be written, which
        # whoever stops it keeps from happening (r5l_write_super_and_discard_space() in drivers/md/raid5-cache.c).
        stop.insert(0, ["write", _JOURNAL_MODE, "write-through"])
    kind, part = file_system.value, operations // (len(_PAUSES) + 1)
    before = [
        ["garble", NODE, DATA_BYTES[file_system] // (4 * KIB)],
        ["make", kind, NODE],
        ["mount", kind, NODE, options],
    ]
    begin = [["files", mix or {}], ["work", 40], ["drain"], ["sync"], ["pause", 1.0], ["record", array.numbers]]
    load: list[list[Any]] = [["work", operations - part * len(_PAUSES)]]
    for seconds in _PAUSES:
        load += [["pause", seconds], ["work", part]]
    end = [["check"], ["unmount"], ["still", array.numbers], ["fsck", kind, NODE], *stop]
    history = {"seed": seed, "has_files": True, "wants_ledger": True, "steps": [*create, *before, *begin, *load, *end]}
    ledger: list[list[Any]] = []
    for document in run_program(place.lab.machine, FILES, {"histories": [history]}):
        require_done(document)
        ledger = document.get("ledger") or ledger
    text = place.lab.machine.run(("base64", "-w0", "/dev/lab-record")).stdout
    return FilesRecording(array, file_system, seed, ledger, Record(base64.b64decode(text)), place.nodes)


def require_done(document: dict[str, Any]) -> None:
    """Raises LabError for a step that failed, or a verdict that is none of those allowed."""
    why = document.get("broke") or document.get("refused") or document.get("first_failure") or document.get("bad")
    if document.get("status", 0) != 0:
        why = f"status {document['status']}: {document.get('output', '').strip()}"
    if why:
        raise LabError(f"step '{document.get('kind')}' on files did not succeed: {why}", hint="see the machine's dmesg")


def chosen_cuts(
    recording: FilesRecording, count: int, *, seed: int = 0, with_missing: bool | None = None, torn_sectors: int = 8
) -> list[str]:
    """About so many cuts, evenly over the recording, of each kind.

    Half of them with a member missing if the array promises to survive that, or as ``with_missing`` says.

    ``torn_sectors``: a write of a drive is torn into units of so many sectors of 512 bytes.
    """
    chance, record = random.Random(f"{recording.seed}:{seed}"), recording.record
    has_missing = recording.array.survives_missing if with_missing is None else with_missing
    losses: list[tuple[int, ...]] = [(), (0,)] if has_missing else [()]
    moments = record.moments()
    wanted = max(1, count // (len(KINDS) * len(losses)))
    cuts = []
    for index in range(min(wanted, len(moments))):
        at = moments[index * len(moments) // wanted] if wanted < len(moments) else moments[index]
        for kind in KINDS:
            for loss in losses:
                missing = [chance.randrange(recording.array.members)] if loss else []
                cuts.append(chosen_cut(record, at, kind, chance, missing, torn_sectors).word())
    return cuts


def judged_points(
    place: FaultPlace,
    recording: FilesRecording,
    cuts: Sequence[str],
    *,
    fsck: int = 7,
    parity: int = 5,
    options: str = "",
    without: Sequence[int] = (),
) -> Iterator[FilePoint]:
    """The verdict on each cut.

    ``fsck``: one in so many is looked at by e2fsck or xfs_repair as well (0: none); ``parity``: of one in so many the
    copies and parity are compared on the members, once md has nothing more to do; ``options``: of mount(8);
    ``without``: numbers of records that no drive gets, though it had said that it has them: what the oracle must
    notice. Raises LabError if the machine cannot go on.
    """
    looks = {"fsck": fsck, "parity": parity, "options": options, "without": list(without)}
    job = {**_points_job(recording), **looks, "cuts": list(cuts)}
    yield from _points(place, job, recording.array)


def judged_again(
    place: FaultPlace,
    recording: FilesRecording,
    cut: str,
    points: int,
    *,
    seed: int = 0,
    fsck: int = 7,
    parity: int = 5,
) -> Iterator[FilePoint]:
    """So many moments at which the power fails once more while one cut is recovered from.

    The recording is gone from the machine afterwards.
    """
    looks = {"fsck": fsck, "parity": parity}
    job = {**_points_job(recording), **looks, "again": [cut, f"{recording.seed}:{seed}", points]}
    yield from _points(place, job, recording.array)


def _points_job(recording: FilesRecording) -> dict[str, Any]:
    array = recording.array
    members = {number: recording.nodes[number] for number in array.numbers}
    job = {"seed": recording.seed, "ledger": recording.ledger, "members": members, "kind": recording.file_system.value}
    return {**job, "is_arbitrary": array.is_arbitrary, "geometry": array.geometry(recording.file_system)}


def _points(place: FaultPlace, job: dict[str, Any], array: FilesArray) -> Iterator[FilePoint]:
    for document in run_program(place.lab.machine, FILES, job):
        if "broke" in document:
            raise LabError(f"crash point {document['cut']} broke: {document['broke']}", hint="see the machine's dmesg")
        if "cut" in document:
            yield file_point(document, array)
