"""Job files: own place for each job, equal offsets on every array, and room for the data."""

from __future__ import annotations

import configparser
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import SpecError, WorkloadError
from lab.plans import Danger
from lab.units import MIB
from lab.workloads.fio_output import MeasuredWindow
from lab.workloads.jobs import FioPhase, Invocation, JobTarget, PathKind, fio_invocations, job_bytes
from lab.workloads.workload import all_workloads, find_workload

FOLDER = JobTarget("/mnt/lab", PathKind.DIRECTORY, 400 * MIB, repeat=3)
DEVICE = JobTarget("/dev/md0", PathKind.DEVICE, 400 * MIB)


def options(invocation: Invocation) -> dict[str, str]:
    parser = configparser.ConfigParser(allow_no_value=True, interpolation=None)
    parser.read_string(invocation.job_text)
    sections = [name for name in parser.sections() if name != "global"]
    assert len(sections) == 1
    return dict(parser["global"]) | dict(parser[sections[0]])


def test_a_read_job_in_a_folder() -> None:
    (job,) = fio_invocations(find_workload("rand-read-4k"), FOLDER, runtime_seconds=2, warmup_seconds=0.5)
    assert job.phase is FioPhase.MEASURE
    # Two documents mark the stretch: so many seconds apart, the first when the warm-up is over.
    assert job.argv == ("fio", "--output-format=json+", "--eta=never", "--status-interval=500ms", "-")
    assert job.window == MeasuredWindow(0.5, 2.0, 0.5)
    found = options(job)
    assert found == {
        "ioengine": "libaio",
        "direct": "1",
        "thread": "1",
        "group_reporting": "1",
        "lat_percentiles": "1",
        "clat_percentiles": "0",
        "percentile_list": "50:95:99:99.9",
        "randrepeat": "0",
        "randseed": "20263",
        "random_distribution": "random",
        "refill_buffers": "1",
        "size": str(98 * MIB),
        "directory": "/mnt/lab",
        "filename_format": "raidlab.$jobnum",
        "time_based": "1",
        "runtime": "3100ms",
        "rw": "randread",
        "bs": "4096",
        "iodepth": "4",
        "numjobs": "4",
    }
    assert job.expected_seconds == pytest.approx(3.1)
    assert job.step().danger is Danger.NONE


def test_jobs_on_a_device_get_regions_that_do_not_overlap() -> None:
    (job,) = fio_invocations(find_workload("rand-write-4k"), DEVICE)
    found = options(job)
    assert found["filename"] == "/dev/md0"
    assert found["offset_increment"] == found["size"] == str(100 * MIB)
    step = job.step()
    assert step.writes_devices == ("/dev/md0",)
    assert step.danger is Danger.DATA


def test_the_offsets_depend_on_the_repeat_and_not_on_the_array() -> None:
    workload = find_workload("rand-read-4k")
    seeds = [
        options(fio_invocations(workload, target)[0])["randseed"]
        for target in (FOLDER, replace(FOLDER, path="/mnt/other"), replace(FOLDER, repeat=4))
    ]
    assert seeds == ["20263", "20263", "20264"]
    (other,) = fio_invocations(workload, replace(FOLDER, seed=2))
    assert options(other)["randseed"] == "2020263"
    fixed = msgspec.structs.replace(workload, vary_seed=False)
    assert options(fio_invocations(fixed, FOLDER)[0])["randseed"] == "20260"


def test_verify_writes_over_everything_then_checks_the_same_pattern() -> None:
    prepare, write, verify = fio_invocations(find_workload("verify-4k"), FOLDER)
    assert [each.phase for each in (prepare, write, verify)] == [FioPhase.PREPARE, FioPhase.WRITE, FioPhase.VERIFY]
    assert options(prepare)["rw"] == "write"
    assert options(prepare)["size"] == options(write)["size"] == options(verify)["size"]
    assert options(write)["do_verify"] == "0"
    assert options(verify)["verify_only"] == "1"
    assert options(verify)["verify_state_save"] == options(write)["verify_state_save"] == "0"
    assert "time_based" not in options(write)
    assert options(write)["randseed"] == options(verify)["randseed"] != options(prepare)["randseed"]
    assert (write.writes, verify.writes) == (True, False)


def test_verify_under_load_runs_by_time() -> None:
    (job,) = fio_invocations(find_workload("verify-load-4k"), FOLDER)
    assert options(job)["verify_backlog"] == "64"
    assert options(job)["time_based"] == "1"


def test_the_published_recipe_is_left_as_it_is() -> None:
    workload = find_workload("antioquia-literal")
    room = replace(FOLDER, available_bytes=600 * MIB)
    (job,) = fio_invocations(workload, room, runtime_seconds=1)
    assert "filename=/mnt/lab/raidlab.0\nbs=4k\nsize=524288000\n" in job.job_text
    assert job.job_text.index("[read]\nrw=randread") < job.job_text.index("[write]\nrw=randwrite")
    assert "refill_buffers" not in job.job_text
    # The study's own defect: 500 MiB on a mirror of 499 MiB.
    with pytest.raises(WorkloadError, match="file-exceeds-fs"):
        fio_invocations(workload, replace(FOLDER, available_bytes=510_976 * 1024))


def test_what_does_not_fit_is_refused() -> None:
    workload = find_workload("rand-read-4k")
    with pytest.raises(WorkloadError, match="file-exceeds-fs") as caught:
        job_bytes(workload, replace(FOLDER, file_bytes=100 * MIB))
    assert "file_bytes" in caught.value.hint
    assert job_bytes(workload, replace(DEVICE, file_bytes=100 * MIB)) == 100 * MIB
    with pytest.raises(WorkloadError, match="file-exceeds-fs"):
        job_bytes(workload, replace(FOLDER, available_bytes=0))


def test_times_that_do_not_fit_are_refused() -> None:
    workload = find_workload("rand-read-4k")
    with pytest.raises(SpecError, match="runtime-short"):
        fio_invocations(workload, FOLDER, runtime_seconds=1)
    with pytest.raises(SpecError, match="status interval"):
        fio_invocations(workload, FOLDER, status_interval_seconds=0.01)
    (job,) = fio_invocations(workload, FOLDER, status_interval_seconds=0.25)
    assert job.argv[-2:] == ("--status-interval=250ms", "-")


def test_odd_paths() -> None:
    workload = find_workload("rand-read-4k")
    (job,) = fio_invocations(workload, replace(DEVICE, path="/dev/disk/by-path/pci-0:1"))
    assert "filename=/dev/disk/by-path/pci-0\\:1\n" in job.job_text
    for path in ("/dev/md0\nexec=x", "/dev/${HOME}", "/dev/md0;x", "/dev/md0#", "/dev/'md0'", "/a\\b", "md0", "-"):
        with pytest.raises(SpecError, match="characters that fio reads in another way"):
            fio_invocations(workload, replace(DEVICE, path=path))


@given(
    name=st.sampled_from(sorted(all_workloads())),
    kind=st.sampled_from(PathKind),
    available=st.integers(0, 2**42),
    wanted=st.none() | st.integers(1, 2**40),
)
def test_data_never_exceed_the_room(name: str, kind: PathKind, available: int, wanted: int | None) -> None:
    workload = find_workload(name)
    try:
        each = job_bytes(workload, JobTarget("/x", kind, available, file_bytes=wanted))
    except WorkloadError:
        return
    assert each % workload.block_bytes == 0
    assert 0 < each * workload.region_count <= available
