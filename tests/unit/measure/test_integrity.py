from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from lab.arrays.filesystem import FileSystem
from lab.disks.lab import Lab
from lab.errors import CommandFailed
from lab.measure import sum_program
from lab.measure.job import cold_plan, make_cold
from lab.measure.rebuild import DataSum, DataVerdict, sum_device, sum_files, verdict
from lab.units import MIB
from tests.unit.disks.machines import Device, host_in, lab_disk, machine_of
from tests.unit.fakes import FakeMachine, Scripted

SUMS = ("agent:sum-data",)
A, B, LOST = DataSum("sha256:a"), DataSum("sha256:b"), DataSum("", "Input/output error")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (A, A, DataVerdict.INTACT),
        (A, B, DataVerdict.CHANGED),
        (A, LOST, DataVerdict.UNREADABLE),
        (LOST, A, DataVerdict.UNREADABLE),
        (LOST, LOST, DataVerdict.UNREADABLE),
    ],
)
def test_verdicts(before: DataSum, after: DataSum, expected: DataVerdict) -> None:
    assert verdict(before, after) is expected


SHA = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""SHA-256 of no data."""


def answering(stdout: str = SHA + " 4096", status: int = 0, stderr: str = "") -> FakeMachine:
    return FakeMachine(answers={SUMS: Scripted(stdout, status, stderr)})


def test_a_whole_device_and_a_part_of_it() -> None:
    machine = answering()
    assert sum_device(machine, "/dev/md0") == DataSum(f"sha256:{SHA}")
    sum_device(machine, "/dev/md0", 32 * MIB, skip_bytes=96 * MIB)
    assert machine.runs == [
        (*SUMS, "0", "0", "/dev/md0"),
        (*SUMS, str(96 * MIB), str(32 * MIB), "/dev/md0"),
    ]


def test_the_files_of_a_folder_in_the_order_of_their_names() -> None:
    machine = answering()
    machine.dirs["/mnt"] = ("a 1", "b", "folder")
    sum_files(machine, "/mnt")
    assert machine.runs[-1] == (*SUMS, "0", "0", "/mnt/a 1", "/mnt/b", "/mnt/folder")


def test_data_that_cannot_be_read_has_no_sum() -> None:
    said = "/dev/md0: Input/output error"
    assert sum_device(answering("", 1, said), "/dev/md0") == DataSum("", said)
    assert sum_device(answering("", 1), "/dev/md0") == DataSum("", "reading failed")


def test_no_data_have_no_sum() -> None:
    assert sum_files(answering(f"{SHA} 0"), "/mnt") == DataSum("", "there are no data")


def summed(*arguments: object) -> list[str]:
    return sum_program.main([str(each) for each in arguments], lambda: False).split()


def test_the_program_sums_what_the_files_hold(tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096 * 5 + b"and a bit"
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(data)
    second.write_bytes(b"more")
    assert summed(0, 0, first, tmp_path, second) == [hashlib.sha256(data + b"more").hexdigest(), str(len(data) + 4)]
    part = data[4096 : 4096 + 8192]
    assert summed(4096, 8192, first) == [hashlib.sha256(part).hexdigest(), "8192"]


def test_the_program_fails_where_a_file_is_missing(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"x")
    with pytest.raises(OSError, match=r"absent: No such file or directory$"):
        summed(0, 0, tmp_path / "there", tmp_path / "absent")


DRIVES = ("/dev/ubda", "/dev/ubdb")
DROP = "sh -c 'sync; sync /dev/ubda /dev/ubdb; echo 3 > /proc/sys/vm/drop_caches'"


def test_cold_caches_of_a_bare_device() -> None:
    assert cold_plan(FileSystem.RAW, "/dev/md0", DRIVES).lines() == [DROP]


@pytest.mark.parametrize("kind", [FileSystem.EXT4, FileSystem.XFS])
def test_cold_caches_of_a_file_system_are_dropped_while_it_is_unmounted(kind: FileSystem) -> None:
    place = "/run/raidlab/mnt/md0"
    assert cold_plan(kind, "/dev/md0", DRIVES).lines() == [
        f"umount {place}",
        DROP,
        f"mount -t {kind} /dev/md0 {place}",
    ]


def test_what_was_made_cold_is_told(tmp_path: Path) -> None:
    machine = machine_of(Device("ubda", holders=("md0",)), Device("md0", members=("ubda",)))
    lab = Lab(machine, host_in(tmp_path), [lab_disk()])
    assert make_cold(lab, FileSystem.RAW, "/dev/md0", lab.disks) == ("kernel caches dropped",)
    assert make_cold(lab, FileSystem.EXT4, "/dev/md0", lab.disks) == ("remounted", "kernel caches dropped")
    told = make_cold(lab, FileSystem.RAW, "/dev/md0", lab.disks, ("md0", "md101"))
    assert told == ("kernel caches dropped", "md's stripe caches emptied")
    machine.answers[("umount",)] = Scripted(status=32, stderr="target is busy")
    with pytest.raises(CommandFailed, match="target is busy"):
        make_cold(lab, FileSystem.EXT4, "/dev/md0", lab.disks)
