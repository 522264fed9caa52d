"""Files under the oracle on ext4 and XFS on md: crash points keep all promises, and damage is reported by name."""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator

import pytest

from lab.arrays.filesystem import FileSystem
from lab.faults.guest.file_ledger import FILE_BLOCKS, FileLedger
from lab.faults.guest.ledger import DRIVE_WRITE, EVERYTHING, Request, chosen_cut, identity_of
from lab.faults.place import FaultPlace, open_place
from lab.machine import Host, parse_target
from tests.kernel.files_points import (
    ARRAYS,
    DRIVE_BYTES,
    FilePoint,
    FilesRecording,
    chosen_cuts,
    judged_points,
    record_files,
)

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time, pytest.mark.wide]

EXT4, XFS = FileSystem.EXT4, FileSystem.XFS
POINTS = 48


@pytest.fixture(scope="module")
def place() -> Iterator[FaultPlace]:
    with open_place(parse_target("uml:"), Host.real("tests"), drives=6, size_bytes=DRIVE_BYTES) as opened:
        yield opened


def recorded(place: FaultPlace, array: str, kind: FileSystem) -> FilesRecording:
    place.blank()
    return record_files(place, ARRAYS[array], kind)


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        ("raid1", XFS),
        ("raid10", EXT4),
        ("raid5", EXT4),
        ("raid5-ppl", EXT4),
        ("raid5-ppl", XFS),
        ("raid5-journal", EXT4),
    ],
)
def test_every_crash_point_is_as_promised(place: FaultPlace, array: str, kind: FileSystem) -> None:
    recording = recorded(place, array, kind)
    cuts = chosen_cuts(recording, POINTS)
    points = list(judged_points(place, recording, cuts))
    assert [point.problems for point in points if point.problems] == []
    assert len(points) == len(cuts)
    assert any(point.is_missing for point in points) == recording.array.survives_missing
    assert any("fsck" in point.document for point in points)
    assert any("wrong_rows" in point.document for point in points)
    # Something must have been in flight, otherwise the test would prove nothing.
    assert {word for point in points for word in point.document.get("verdicts", ())} >= {
        "in-flight old",
        "in-flight new",
    }


DATA_OFFSET_SECTORS = 4096


class Written:
    """On a RAID 1, the recorded writes of file blocks that are durable at the end and never written again."""

    def __init__(self, place: FaultPlace, recording: FilesRecording) -> None:
        text = place.lab.machine.run(("base64", "-w0", "/dev/lab-record-data")).stdout
        self.data = base64.b64decode(text)
        self.recording = recording
        states = FileLedger(recording.ledger).allowed(is_power_cut=True)
        self.names = {files[0]: name for name, files in states.names.items() if len(files) == 1 and files[0]}
        self.sure = {
            (file * FILE_BLOCKS + sector // 8, sector % 8): generations[0]
            for file in self.names
            for sector, generations in states.files[file][2].items()
            if len(generations) == 1
        }

    def block(self, request: Request) -> int | None:
        """The number of the file block that this write contains in its last generation, or None."""
        for start in range(0, request.count, 8):
            found = identity_of(self.data[request.data + start * 512 : request.data + (start + 1) * 512])
            if found and all(self.sure.get((found[0], at)) == found[1] for at in range(8)):
                return found[0]
        return None

    def pairs(self) -> list[tuple[int, list[int]]]:
        """The number of each such block, and the indices of its records on all members."""
        found: dict[int, list[int]] = {}
        for request in self.recording.record.requests:
            if request.kind == DRIVE_WRITE and request.sector >= DATA_OFFSET_SECTORS and (block := self.block(request)):
                found.setdefault(block, []).append(request.index)
        return [each for each in found.items() if len(each[1]) == self.recording.array.members]

    def place_of(self, block: int) -> str:
        file, number = divmod(block, FILE_BLOCKS)
        return f"{self.names[file]} at byte {number * 4096}:"


def last(recording: FilesRecording) -> str:
    record = recording.record
    return chosen_cut(record, record.requests[-1].came, EVERYTHING, random.Random(1)).word()


def judged_once(place: FaultPlace, recording: FilesRecording, without: list[int]) -> FilePoint:
    (point,) = judged_points(place, recording, [last(recording)], fsck=0, without=without)
    return point


@pytest.mark.parametrize("kind", [EXT4, XFS])
def test_each_synced_write_that_the_drives_drop_is_found_as_lost(place: FaultPlace, kind: FileSystem) -> None:
    recording = recorded(place, "raid1", kind)
    written = Written(place, recording)
    assert judged_once(place, recording, []).problems == ()
    pairs = written.pairs()
    assert len(pairs) >= 5
    for block, records in pairs[:5]:
        problems = judged_once(place, recording, records).problems
        assert any(problem.startswith(written.place_of(block)) for problem in problems), (records, block, problems)


def test_a_stale_mirror_is_found(place: FaultPlace) -> None:
    """The other member is missing, and this one lacks the second half of the writes to its data."""
    recording = recorded(place, "raid1", EXT4)
    mine = [each for each in recording.record.by_drive[1] if each.sector >= DATA_OFFSET_SECTORS]
    late = [each.index for each in mine[len(mine) // 2 :]]
    cut = last(recording).split(":")
    (point,) = judged_points(place, recording, [":".join([*[*cut, "", ""][:3], "0"])], fsck=0, without=late)
    assert any("lost after acknowledgement" in problem for problem in point.problems)
