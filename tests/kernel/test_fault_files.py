"""Files under the oracle on ext4 and XFS on md: crash points are as promised, and what is broken is found."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lab.arrays.filesystem import FileSystem
from lab.faults.guest.ledger import KINDS
from lab.faults.place import FaultPlace, open_place, run_program
from lab.machine import Host, parse_target
from tests.kernel.files_points import (
    DRIVE_BYTES,
    PROGRAM,
    FilesRecording,
    chosen_cuts,
    find_files_array,
    judged_again,
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


def recorded(place: FaultPlace, array: str, kind: FileSystem, seed: str = "1", **more: Any) -> FilesRecording:
    place.blank()
    return record_files(place, find_files_array(array), kind, seed, **more)


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
    assert [point.problems for point in points if point.is_broken] == []
    assert len(points) == len(cuts)
    assert any(point.is_missing for point in points) == recording.array.survives_missing
    assert any(point.is_fsck for point in points)
    assert any(point.is_parity for point in points)
    # Something was in flight, or nothing was tried.
    assert {word for point in points for word in point.document.get("verdicts", ())} >= {
        "in-flight old",
        "in-flight new",
    }


def test_the_power_may_fail_again_while_the_first_time_is_recovered_from(place: FaultPlace) -> None:
    recording = recorded(place, "raid5", EXT4)
    cut = chosen_cuts(recording, POINTS)[POINTS // 2]
    points = list(judged_again(place, recording, cut, 24))
    assert [point.problems for point in points if point.is_broken] == []
    assert len(points) == 24


def test_the_write_hole_of_raid5_is_seen_through_a_file_system(place: FaultPlace) -> None:
    recording = recorded(place, "raid5", EXT4)
    cuts = chosen_cuts(recording, 192, with_missing=True)
    hurt = [point for point in judged_points(place, recording, cuts, fsck=0) if point.problems]
    assert all("write hole" in point.explanation for point in hurt)
    assert any("silently corrupt" in problem for point in hurt for problem in point.problems)


def test_a_write_back_journal_loses_what_its_members_caches_lose(place: FaultPlace) -> None:
    """Known of md: nothing is wrong where the drives keep all that they had answered for."""
    recording = recorded(place, "raid5-write-back", EXT4)
    assert recording.array.known_fault
    cuts = chosen_cuts(recording, 192)
    points = list(judged_points(place, recording, cuts, fsck=0))
    hurt = {cut_kind(index) for index, point in enumerate(points) if point.problems}
    assert hurt
    assert not hurt & {"ended", "come"}


def cut_kind(index: int) -> str:
    """Of a list of cuts with and without a missing member."""
    return KINDS[index // 2 % len(KINDS)]


def test_a_history_goes_on_after_its_power_cut(place: FaultPlace) -> None:
    place.blank()
    array = find_files_array("raid5-ppl")
    numbers = array.numbers
    assemble = ["mdadm", "--assemble", "/dev/md0", "--run", *place.nodes[:4]]
    steps: list[list[Any]] = [
        ["run", array.creation(place.nodes, EXT4)],
        ["make", "ext4", "/dev/md0"],
        ["mount", "ext4", "/dev/md0"],
        ["files", {}],
        ["work", 40],
        ["drain"],
        ["sync"],
        ["record", numbers],
        ["work", 60],
        ["cut", numbers, "subset", "1"],
        ["run", assemble],
        ["mount", "ext4", "/dev/md0"],
        ["recheck"],
        ["settle"],
        ["files", {}],
        ["work", 40],
        ["drain"],
        ["check"],
        ["unmount"],
        ["fsck", "ext4", "/dev/md0"],
        ["run", ["mdadm", "--stop", "/dev/md0"]],
    ]
    history = {"seed": "1", "has_files": True, "steps": steps}
    seen = list(run_program(place.lab.machine, PROGRAM, {"histories": [history]}))
    assert [each["kind"] for each in seen[:-1]] == [step[0] for step in steps]
    assert not any(each.get("status") or each.get("refused") or each.get("failures") for each in seen[10:])
    recheck, check = seen[12], seen[17]
    assert recheck["bad"] == check["bad"] == []
    assert recheck["verdicts"]["in-flight old"] > 0
    assert set(check["verdicts"]) == {"intact"}
