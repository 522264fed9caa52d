"""Rebuilds: how long they took, whether the data are as before, and their timeline."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.arrays.filesystem import FileSystem
from lab.arrays.status import SyncProgress
from lab.disks.lab import Lab
from lab.errors import ArrayError, CommandFailed
from lab.measure import sum_program
from lab.measure.job import cold_plan, make_cold
from lab.measure.rebuild import (
    MOST_POINTS,
    DataSum,
    Recording,
    mean_request_bytes,
    sum_device,
    sum_files,
    sync_seconds,
    timeline_of,
)
from lab.measure.samples import Sample
from lab.results.record import Timeline
from lab.units import MIB
from tests.unit.disks.machines import Device, host_in, lab_disk, machine_of
from tests.unit.fakes import FakeMachine, Scripted
from tests.unit.measure.samples_of import counters, sample


def idle(time_seconds: float) -> Sample:
    return sample(time_seconds, degraded=0)


def rebuilding(time_seconds: float) -> Sample:
    return sample(time_seconds, action="recover", degraded=1)


@pytest.mark.parametrize(
    ("samples", "seconds"),
    [
        # Begun between 1 and 2, ended between 7 and 8.5: each end lies halfway between two samples.
        ([idle(0), idle(1), rebuilding(2), rebuilding(5), rebuilding(7), idle(8.5), idle(9)], 7.75 - 1.5),
        ([rebuilding(2), rebuilding(4), idle(6)], 3.0),
        ([idle(0), rebuilding(1), idle(2)], 1.0),
        ([idle(0), rebuilding(1), idle(2), rebuilding(3), idle(4)], 3.0),
    ],
    ids=["both ends", "from the first sample on", "one sample", "a gap does not end it"],
)
def test_a_rebuild_takes_as_long_as_samples_show_it(samples: list[Sample], seconds: float) -> None:
    assert sync_seconds(samples) == pytest.approx(seconds)


NEVER_SEEN = "no sample shows the rebuild"


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        ([], NEVER_SEEN),
        ([idle(0), idle(1)], NEVER_SEEN),
        # A check of a healthy array, and "recover" from an array that lacks no member.
        ([idle(0), sample(1, action="check", degraded=0), idle(2)], NEVER_SEEN),
        ([idle(0), sample(1, action="recover", degraded=0), idle(2)], NEVER_SEEN),
        ([idle(0), sample(1, action="recover", degraded=None), idle(2)], NEVER_SEEN),
        ([idle(0), rebuilding(1), rebuilding(2)], "had not ended"),
    ],
)
def test_a_rebuild_that_was_never_seen_or_has_not_ended(samples: list[Sample], message: str) -> None:
    with pytest.raises(ArrayError, match=message):
        sync_seconds(samples)


@settings(max_examples=20)
@given(start=st.floats(10, 1000), length=st.floats(1, 1000), interval=st.floats(0.05, 0.5), phase=st.floats(0, 1))
def test_it_is_wrong_by_an_interval_at_most(start: float, length: float, interval: float, phase: float) -> None:
    count = int((start + length) / interval) + 4
    times = [(number + phase) * interval for number in range(count)]
    samples = [rebuilding(time) if start <= time < start + length else idle(time) for time in times]
    assert abs(sync_seconds(samples) - length) <= interval * 1.001


def test_the_size_of_requests_is_that_of_the_stretch_alone() -> None:
    before = counters(reads=100, read_bytes=10**9, writes=7, written_bytes=70)
    after = counters(reads=103, read_bytes=10**9 + 3000, writes=8, written_bytes=1070)
    samples = [sample(0, disk=before), sample(1, disk=before), sample(2, disk=after)]
    assert mean_request_bytes(samples, ["ubda", "not sampled"]) == 1000
    assert mean_request_bytes(samples[:2], ["ubda"]) is None


SUMS = ("agent:sum-data",)
SHA = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
"""SHA-256 of no data."""


def answering(stdout: str = SHA + " 4096", status: int = 0, stderr: str = "") -> FakeMachine:
    return FakeMachine(answers={SUMS: Scripted(stdout, status, stderr)})


def test_a_whole_device_and_a_part_of_it() -> None:
    machine = answering()
    assert sum_device(machine, "/dev/md0") == DataSum(f"sha256:{SHA}")
    sum_device(machine, "/dev/md0", 32 * MIB, skip_bytes=96 * MIB)
    assert machine.runs == [(*SUMS, "0", "0", "/dev/md0"), (*SUMS, str(96 * MIB), str(32 * MIB), "/dev/md0")]


def test_the_files_of_a_folder_in_the_order_of_their_names() -> None:
    machine = answering()
    machine.dirs["/mnt"] = ("a 1", "b", "folder")
    sum_files(machine, "/mnt")
    assert machine.runs[-1] == (*SUMS, "0", "0", "/mnt/a 1", "/mnt/b", "/mnt/folder")


def test_data_that_cannot_be_read_has_no_sum() -> None:
    sentence = "/dev/md0: Input/output error"
    assert sum_device(answering("", 1, sentence), "/dev/md0") == DataSum("", sentence)
    assert sum_device(answering("", 1), "/dev/md0") == DataSum("", "reading failed")
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


@pytest.mark.parametrize("kind", [FileSystem.RAW, FileSystem.EXT4, FileSystem.XFS])
def test_caches_are_dropped_while_a_file_system_is_unmounted(kind: FileSystem) -> None:
    place = "/run/raidlab/mnt/md0"
    mounted = [f"umount {place}", DROP, f"mount -t {kind} /dev/md0 {place}"]
    assert cold_plan(kind, "/dev/md0", DRIVES).lines() == ([DROP] if kind is FileSystem.RAW else mounted)


def test_make_cold_returns_what_was_dropped(tmp_path: Path) -> None:
    machine = machine_of(Device("ubda", holders=("md0",)), Device("md0", members=("ubda",)))
    lab = Lab(machine, host_in(tmp_path), [lab_disk()])
    assert make_cold(lab, FileSystem.RAW, "/dev/md0", lab.disks) == ("kernel caches dropped",)
    assert make_cold(lab, FileSystem.EXT4, "/dev/md0", lab.disks) == ("remounted", "kernel caches dropped")
    found = make_cold(lab, FileSystem.RAW, "/dev/md0", lab.disks, ("md0", "md101"))
    assert found == ("kernel caches dropped", "md's stripe caches emptied")
    machine.answers[("umount",)] = Scripted(status=32, stderr="target is busy")
    with pytest.raises(CommandFailed, match="target is busy"):
        make_cold(lab, FileSystem.EXT4, "/dev/md0", lab.disks)


def busy_disk(number: int, start: float = 0.0, *, rebuilt: float | None = None) -> Sample:
    """After ``number`` tenths of a second, with 100 reads and 4 MB read in each second so far."""
    disk = counters(reads=10 * number, read_bytes=400_000 * number, read_wait_seconds=0.02 * number)
    progress = None if rebuilt is None else SyncProgress(int(1000 * rebuilt), 1000)
    action = "idle" if rebuilt is None else "recover"
    return sample(start + number / 10, disk=disk, busy=10 * number, idle=10 * number, action=action, progress=progress)


def timeline(*recordings: Recording) -> Timeline:
    found = timeline_of(recordings, "ubda", ["ubda"])
    assert found is not None
    return found


def test_values_are_those_of_the_interval_before() -> None:
    found = timeline(Recording("healthy", (busy_disk(0, 7.0), busy_disk(1, 7.0), busy_disk(3, 7.0))))
    assert found.seconds == pytest.approx((0.0, 0.1, 0.3))
    assert found.read_iops[0] is None
    assert found.read_iops[1:] == pytest.approx((100.0, 100.0))
    assert found.wait_seconds[1:] == pytest.approx((0.002, 0.002))
    assert found.busy_fraction[1:] == pytest.approx((0.5, 0.5))


def test_recordings_are_stretches_of_one_axis_with_a_gap_between_them() -> None:
    rebuilding = (busy_disk(0, 9.0), *(busy_disk(n, 9.0, rebuilt=n / 4) for n in (1, 2, 3)), busy_disk(4, 9.0))
    found = timeline(Recording("healthy", (busy_disk(0), busy_disk(1))), Recording("rebuilding", rebuilding))
    assert found.read_iops[2] is None, "the time between two recordings is no interval"
    assert [stretch.name for stretch in found.stretches] == ["healthy", "rebuilding"]
    assert (found.stretches[1].start_seconds, found.stretches[1].end_seconds) == pytest.approx((9.1, 9.3))
    assert found.rebuilt_fraction == (None, None, None, 0.25, 0.5, 0.75, None)
    assert found.members[0].read_bytes_per_second[1] == pytest.approx(4e6)


def test_a_long_rebuild_is_thinned_and_keeps_its_mean() -> None:
    found = timeline(Recording("rebuilding", tuple(map(busy_disk, range(10 * MOST_POINTS + 1)))))
    assert len(found.seconds) <= MOST_POINTS + 1
    assert found.seconds[-1] == pytest.approx(MOST_POINTS)
    assert set(map(round, filter(None, found.read_iops))) == {100}


def test_one_sample_makes_no_timeline() -> None:
    assert timeline_of([Recording("rebuilding", (busy_disk(0),)), Recording("restored", ())], "ubda", []) is None


def test_columns_of_different_lengths_are_refused() -> None:
    found = timeline(Recording("healthy", (busy_disk(0), busy_disk(1))))
    with pytest.raises(ValueError, match="different lengths"):
        msgspec.structs.replace(found, read_iops=(1.0,))
