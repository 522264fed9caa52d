"""Files under the oracle, from the client: a file system on an array of recorded drives, and its crash points.

What is promised stands in files_ledger_program.py; here it is put together with what the array below promises.
"""

from __future__ import annotations

import base64
import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from lab.arrays.filesystem import FileSystem
from lab.errors import LabError, SpecError
from lab.fault_lab.place import FaultPlace
from lab.fault_lab.program import CRASH, run_program
from lab.fault_lab.record_program import KINDS, Record, chosen_cut
from lab.units import KIB, MIB

FILES = (*CRASH, "files_ledger", "files_plan", "files_writer", "files_check", "files_steps", "files")
DRIVE_BYTES = 24 * MIB
"""Enough for the smallest XFS on two of them (RAID 1)."""
NODE = "/dev/md0"
_JOURNAL_MODE = "/sys/block/md0/md/journal_mode"
_DATA_BYTES = {FileSystem.EXT4: 9 * MIB, FileSystem.XFS: 18 * MIB}
_DATA_OFFSET_BYTES = 2 * MIB
_CHUNK_BYTES = 16 * KIB
_JOURNAL = 5
"""Which drive is the journal of an array that has one."""


@dataclass(frozen=True, slots=True)
class FilesArray:
    """An array under a file system: how mdadm makes it, and what it promises with a member lost in a power cut."""

    name: str
    level: str
    members: int
    options: tuple[str, ...] = ()
    data_members: int = 1
    """Members' worth of data."""
    has_journal: bool = False
    is_write_back: bool = False
    survives_missing: bool = True
    """Whether with a member missing all that was synced is there.

    Not so where parity may be wrong after a power cut: md starts such an array only if forced (md(4), UNCLEAN
    SHUTDOWN).
    """
    known_fault: str = ""
    """What is known to be wrong with it in md itself; empty: nothing."""
    is_arbitrary: bool = False
    """Whether with a member missing a block that was being written may hold anything (driver-api/md/raid5-ppl.rst)."""

    def creation(self, nodes: Sequence[str], file_system: FileSystem) -> list[str]:
        """Mdadm's words."""
        each = -(-_DATA_BYTES[file_system] // self.data_members // (64 * KIB)) * 64
        chunk = () if self.level == "1" else (f"--chunk={_CHUNK_BYTES // KIB}",)
        shape = (f"--level={self.level}", f"--raid-devices={self.members}", f"--size={each}", *chunk)
        offset = f"--data-offset={_DATA_OFFSET_BYTES // MIB}M"
        journal = ("--write-journal", nodes[_JOURNAL]) if self.has_journal else ()
        words = ("mdadm", "--create", NODE, "--run", "--assume-clean", offset, *shape, *self.options, *journal)
        return [*words, *nodes[: self.members]]

    @property
    def numbers(self) -> list[int]:
        """The drives that it is made of."""
        return [*range(self.members), *([_JOURNAL] if self.has_journal else [])]


_NO_BITMAP = ("--bitmap=none",)
_FLUSHED_TOO_EARLY = (
    "the journal notes a stripe as flushed when its members have answered, and not when their caches are on the media "
    "(r5c_finish_stripe_write_out() in drivers/md/raid5-cache.c): a power cut loses acknowledged writes"
)
ARRAYS = (
    FilesArray("raid1", "1", 2, _NO_BITMAP),
    FilesArray("raid1-bitmap", "1", 2, ("--bitmap=internal", "--bitmap-chunk=64K")),
    FilesArray("raid10", "10", 4, _NO_BITMAP, 2),
    FilesArray("raid10-far", "10", 4, ("--layout=f2", *_NO_BITMAP), 2),
    FilesArray("raid5", "5", 4, ("--consistency-policy=resync", *_NO_BITMAP), 3, survives_missing=False),
    FilesArray("raid5-bitmap", "5", 4, ("--bitmap=internal", "--bitmap-chunk=64K"), 3, survives_missing=False),
    FilesArray("raid5-ppl", "5", 4, ("--consistency-policy=ppl",), 3, is_arbitrary=True),
    FilesArray("raid5-journal", "5", 4, _NO_BITMAP, 3, has_journal=True),
    FilesArray(
        "raid5-write-back", "5", 4, _NO_BITMAP, 3, has_journal=True, is_write_back=True, known_fault=_FLUSHED_TOO_EARLY
    ),
    FilesArray("raid6", "6", 5, ("--consistency-policy=resync", *_NO_BITMAP), 3, survives_missing=False),
    FilesArray("raid6-journal", "6", 5, _NO_BITMAP, 3, has_journal=True),
)


def find_files_array(name: str) -> FilesArray:
    """One of ``ARRAYS``. Raises SpecError."""
    for each in ARRAYS:
        if each.name == name:
            return each
    raise SpecError(
        f"there is no array '{name}' for files", hint=f"choose of {', '.join(each.name for each in ARRAYS)}"
    )


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
        ["garble", NODE, _DATA_BYTES[file_system] // (4 * KIB)],
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


@dataclass(frozen=True, slots=True)
class FilePoint:
    """One crash point under a file system."""

    cut: str
    """As record_program.cut_of() reads it."""
    is_missing: bool
    """Whether a member was lost with the power."""
    problems: tuple[str, ...]
    """What is not as promised, each with file, offset in bytes, what was found and what is allowed; empty: all is."""
    is_fsck: bool
    """Whether the file system's own program looked at it too."""
    explanation: str = ""
    """Why what is not as promised was to be expected all the same; empty: that is not known."""
    document: dict[str, Any] = field(repr=False, default_factory=dict)
    """All that the machine said."""


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
    fsck: int = 8,
    options: str = "",
    without: Sequence[int] = (),
) -> Iterator[FilePoint]:
    """The verdict on each cut.

    ``fsck``: one in so many is looked at by e2fsck or xfs_repair as well (0: none); ``options``: of mount(8);
    ``without``: numbers of records that no drive gets, though it had said that it has them: what the oracle must
    notice. Raises LabError if the machine cannot go on.
    """
    job = {**_points_job(recording), "cuts": list(cuts), "fsck": fsck, "options": options, "without": list(without)}
    yield from _points(place, job, recording.array)


def judged_again(
    place: FaultPlace, recording: FilesRecording, cut: str, points: int, *, seed: int = 0, fsck: int = 8
) -> Iterator[FilePoint]:
    """So many moments at which the power fails once more while one cut is recovered from.

    The recording is gone from the machine afterwards.
    """
    yield from _points(
        place, {**_points_job(recording), "again": [cut, f"{recording.seed}:{seed}", points], "fsck": fsck}
    )


def _points_job(recording: FilesRecording) -> dict[str, Any]:
    array = recording.array
    members = {number: recording.nodes[number] for number in array.numbers}
    job = {"seed": recording.seed, "ledger": recording.ledger, "members": members, "kind": recording.file_system.value}
    return {**job, "is_arbitrary": array.is_arbitrary, "settles": False}


def _points(place: FaultPlace, job: dict[str, Any]) -> Iterator[FilePoint]:
    for document in run_program(place.lab.machine, FILES, job):
        if "broke" in document:
            raise LabError(f"crash point {document['cut']} broke: {document['broke']}", hint="see the machine's dmesg")
        if "cut" in document:
            yield file_point(document)


def file_point(document: dict[str, Any]) -> FilePoint:
    """What the machine said of one cut, judged."""
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
    problems += [f"the kernel said: {line}" for line in document.get("kernel", ())]
    is_missing = document["cut"].count(":") >= 3
    return FilePoint(document["cut"], is_missing, tuple(problems), "fsck" in document, document)


@dataclass
class PointsTotal:
    """What many points came to."""

    points: int = 0
    missing: int = 0
    fscked: int = 0
    problems: list[FilePoint] = field(default_factory=list)
    verdicts: Counter[str] = field(default_factory=Counter)
    """Of blocks of files."""
    more: dict[str, list[int]] = field(default_factory=dict)
    """What is more than promised -> how often it was kept, and how often not."""

    def add(self, points: Iterable[FilePoint]) -> PointsTotal:
        """Count them too."""
        for point in points:
            self.points += 1
            self.missing += point.is_missing
            self.fscked += point.is_fsck
            if point.problems:
                self.problems.append(point)
            self.verdicts.update(point.document.get("verdicts", {}))
            for word, (kept, not_kept) in point.document.get("more", {}).items():
                each = self.more.setdefault(word, [0, 0])
                each[0] += kept
                each[1] += not_kept
        return self
