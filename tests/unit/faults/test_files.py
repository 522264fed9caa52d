"""Crash points under a file system, judged in the client; and what arrays there are for them."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from lab.arrays.filesystem import FileSystem
from lab.errors import LabError, SpecError
from lab.faults.crash_points import (
    ARRAYS,
    FilePoint,
    FilesRecording,
    PointsTotal,
    chosen_cuts,
    file_point,
    find_files_array,
    require_done,
)
from lab.faults.guest.ledger import DRIVE_WRITE, KINDS, RECORD, Record, cut_of
from lab.units import KIB, MIB

NODES = tuple(f"/dev/drive{number}" for number in range(6))


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: array.name)
@pytest.mark.parametrize(("kind", "least"), [(FileSystem.EXT4, 8 * MIB), (FileSystem.XFS, 16 * MIB)])
def test_every_array_has_room_for_the_smallest_file_systems(array: Any, kind: FileSystem, least: int) -> None:
    words = array.creation(NODES, kind)
    (size,) = [int(word.partition("=")[2]) * KIB for word in words if word.startswith("--size=")]
    assert size * array.data_members > least
    assert size % (64 * KIB) == 0
    assert [NODES.index(word) for word in words if word in NODES][-array.members :] == list(range(array.members))
    assert set(array.numbers) == {NODES.index(each) for word in words if (each := word.rpartition("=")[2]) in NODES}


def test_an_array_is_found_by_its_name() -> None:
    assert find_files_array("raid5-ppl").is_arbitrary
    with pytest.raises(SpecError, match="raid7"):
        find_files_array("raid7")


def recording(name: str) -> FilesRecording:
    """Twenty writes of each of four drives, none of them flushed."""
    requests = [
        RECORD.pack(2 * number + 1, 2 * number + 2, number, 0, 16, number % 4, DRIVE_WRITE, 0) for number in range(80)
    ]
    return FilesRecording(find_files_array(name), FileSystem.EXT4, "1", [], Record(b"".join(requests)), NODES)


@pytest.mark.parametrize(("name", "missing"), [("raid5", False), ("raid5-ppl", True)])
def test_cuts_are_of_every_kind_and_lose_a_member_where_that_is_promised(name: str, missing: bool) -> None:
    words = chosen_cuts(recording(name), 60)
    assert len(words) == 60
    cuts = [cut_of(word) for word in words]
    assert any(cut.missing for cut in cuts) == missing
    assert {len(cut.missing) for cut in cuts} == ({0, 1} if missing else {0})
    assert all(slot < 4 for cut in cuts for slot in cut.missing)
    assert len({cut.at for cut in cuts}) == 60 // len(KINDS) // (2 if missing else 1)
    assert words == chosen_cuts(recording(name), 60)
    assert words != chosen_cuts(recording(name), 60, seed=1)


def judged(document: dict[str, Any], array: str = "raid5") -> FilePoint:
    return file_point(document, find_files_array(array))


def test_a_point_as_promised_has_no_problems() -> None:
    document = {
        "cut": "7",
        "files": {"intact": 1},
        "verdicts": {"intact": 2},
        "bad": [],
        "more": {},
        "fsck": 0,
        "wrong_rows": [],
    }
    point = judged(document)
    assert (point.problems, point.is_fsck, point.is_parity, point.is_missing) == ((), True, True, False)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"dead": "Input/output error"}, "the array cannot be started"),
        ({"unmountable": "Structure needs cleaning"}, "the file system cannot be mounted"),
        ({"stuck": "Device or resource busy"}, "cannot be unmounted"),
        (
            {"bad": [["d0/f1", 512, "silently corrupt", "zeros", [3]]]},
            "d0/f1 at byte 512: silently corrupt, found zeros",
        ),
        ({"fsck": 4, "fsck_said": "errors\n"}, "fsck found damage: errors"),
        ({"wrong_rows": [7, 8]}, "2 rows of the members do not fit each other when md is idle, the first is 7"),
        ({"kernel": ["EXT4-fs error (device md0)"]}, "the kernel said: EXT4-fs error"),
    ],
)
def test_what_is_not_as_promised_is_a_problem(more: dict[str, Any], said: str) -> None:
    (problem,) = judged({"cut": "7:::2", **more}, "raid5-journal").problems
    assert said in problem


@pytest.mark.parametrize(
    ("array", "document", "is_explained"),
    [
        ("raid5-ppl", {"cut": "7:::2", "unmountable": "x", "lost_under_way": 1}, True),
        # Nothing was being written to the member that is missing.
        ("raid5-ppl", {"cut": "7:::2", "unmountable": "x", "lost_under_way": 0}, False),
        ("raid5-ppl", {"cut": "7", "unmountable": "x"}, False),
        ("raid5", {"cut": "7:::2", "unmountable": "x"}, True),
        ("raid5", {"cut": "7", "unmountable": "x"}, False),
        ("raid5-journal", {"cut": "7:::2", "unmountable": "x", "lost_under_way": 1}, False),
        ("raid5-write-back", {"cut": "7", "unmountable": "x"}, True),
        ("raid5-write-back", {"cut": "7", "verdicts": {}}, False),
    ],
)
def test_what_is_explained(array: str, document: dict[str, Any], is_explained: bool) -> None:
    point = judged(document, array)
    assert bool(point.explanation) == is_explained
    total = PointsTotal().add([point])
    assert (len(total.explained), len(total.problems)) == (is_explained, "unmountable" in document and not is_explained)


def test_points_are_counted() -> None:
    good: dict[str, Any] = {"cut": "7", "verdicts": {"intact": 2}, "more": {"order": [1, 0]}, "fsck": 0}
    total = PointsTotal().add(map(judged, [good, {**good, "cut": "7:::1"}, {"cut": "8", "dead": "x"}]))
    assert (total.points, total.missing, total.fscked, len(total.problems)) == (3, 1, 2, 1)
    assert (total.verdicts["intact"], total.more) == (4, {"order": [2, 0]})


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "run", "status": 1, "output": "no"},
        # It did not end in its time.
        {"kind": "run", "status": None, "output": ""},
        {"kind": "mount", "refused": "Invalid argument"},
        {"kind": "work", "first_failure": "write: No space left on device"},
        {"kind": "check", "bad": [["d0/f0", 0, "silently corrupt", "zeros", [1]]]},
        {"kind": "work", "broke": "KeyError: 1"},
    ],
)
def test_a_recording_of_steps_that_fail_is_none(document: dict[str, Any]) -> None:
    with pytest.raises(LabError, match=document["kind"]):
        require_done(document)


def test_records_have_the_size_that_the_driver_gives() -> None:
    assert RECORD.size == struct.calcsize("<QQQQIHBB") == 40
