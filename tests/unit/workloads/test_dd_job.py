from __future__ import annotations

import pytest

from lab.errors import SpecError, WorkloadError
from lab.units import MIB
from lab.workloads.jobs import JobTarget, PathKind, dd_invocation, parse_dd
from lab.workloads.workload import changed, find_workload

WRITE = find_workload("ilsistemista-dd-write")
READ = find_workload("ilsistemista-dd-read")
# coreutils 9.1 on Debian 12, LC_ALL=C dd if=/dev/zero of=FILE bs=2M count=40
SAID = "40+0 records in\n40+0 records out\n83886080 bytes (84 MB, 80 MiB) copied, 0.0412365 s, 2.0 GB/s\n"


def target(available_bytes: int, kind: PathKind = PathKind.DEVICE, path: str = "/dev/md0") -> JobTarget:
    return JobTarget(path, kind, available_bytes)


def test_the_recipe_stands_as_published_where_it_fits() -> None:
    argv = dd_invocation(WRITE, target(100_000 * MIB)).argv
    assert argv == ("env", "LC_ALL=C", "dd", "if=/dev/zero", "of=/dev/md0", "bs=2M", "count=16000")


def test_a_count_that_does_not_fit_is_cut_to_whole_blocks() -> None:
    assert dd_invocation(WRITE, target(101 * MIB)).argv[-1] == "count=50"


def test_a_place_without_room_for_one_block_is_refused() -> None:
    with pytest.raises(WorkloadError, match="file-exceeds-fs"):
        dd_invocation(WRITE, target(MIB))


def test_a_raw_write_names_the_device_to_the_guard_and_a_read_none() -> None:
    assert dd_invocation(WRITE, target(100 * MIB)).step().writes_devices == ("/dev/md0",)
    assert dd_invocation(READ, target(100 * MIB)).step().writes_devices == ()


def test_on_a_file_system_it_writes_a_file() -> None:
    place = target(100 * MIB, PathKind.DIRECTORY, "/mnt/md0")
    assert "of=/mnt/md0/raidlab.0" in dd_invocation(WRITE, place).argv


def test_figures_of_what_dd_says() -> None:
    figures = parse_dd(SAID, WRITE)
    assert figures.reads is None
    assert figures.writes
    assert figures.writes.io_bytes == 40 * 2 * MIB
    assert figures.writes.total_ios == 40
    assert figures.writes.bandwidth_bytes_per_second == pytest.approx(83886080 / 0.0412365)
    assert figures.writes.mean_seconds == pytest.approx(0.0412365 / 40)
    assert figures.writes.p99_seconds is None


def test_a_reader_has_figures_for_reads() -> None:
    assert parse_dd(SAID, READ).writes is None


@pytest.mark.parametrize(
    ("text", "status"),
    [("", 0), (SAID, 1), ("dd: failed to open '/dev/md0': Permission denied\n", 1), ("0 bytes copied, 0 s\n", 0)],
)
def test_a_dd_that_failed_is_an_error_with_its_words(text: str, status: int) -> None:
    with pytest.raises(WorkloadError, match=f"dd exited with status {status}"):
        parse_dd(text, WRITE, exit_status=status)


def test_dd_without_a_recipe_is_refused() -> None:
    with pytest.raises(SpecError, match="the program '' where only dd is run"):
        changed(WRITE, recipe="")
