"""Jobs of fio and dd, and synthetic traces: separate regions, equal offsets on every array, room for the data."""

from __future__ import annotations

import configparser
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import SpecError, WorkloadError
from lab.plans import Danger
from lab.units import MIB
from lab.workloads.fio_output import MeasuredWindow
from lab.workloads.jobs import (
    LEAD_MILLISECONDS,
    MEAN_PER_SECOND,
    RUN_REQUESTS,
    RUN_SHARE,
    WRITE_SHARE,
    FioPhase,
    Invocation,
    JobTarget,
    PathKind,
    dd_invocation,
    fio_invocations,
    job_bytes,
    parse_dd,
    trace_texts,
)
from lab.workloads.workload import TRACE_PATH, all_workloads, find_workload

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
    # Two documents mark the measured stretch: that many seconds apart, the first when the warm-up is over.
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
    (job,) = fio_invocations(workload, FOLDER, status_interval_seconds=0.25)
    assert job.argv[-2:] == ("--status-interval=250ms", "-")


def test_odd_paths() -> None:
    workload = find_workload("rand-read-4k")
    (job,) = fio_invocations(workload, replace(DEVICE, path="/dev/disk/by-path/pci-0:1"))
    assert "filename=/dev/disk/by-path/pci-0\\:1\n" in job.job_text
    for path in ("/dev/md0\nexec=x", "/dev/${HOME}", "/dev/md0;x", "/dev/md0#", "/dev/'md0'", "/a\\b", "md0", "-"):
        with pytest.raises(SpecError, match="characters that have a special meaning for fio"):
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
        # Only what is smaller than a block or larger than the room is refused.
        asked = wanted or workload.file_bytes or workload.block_bytes
        whole = max(workload.block_bytes, asked - asked % workload.block_bytes) * workload.region_count
        own = 0 if kind is PathKind.DEVICE else max(MIB, available // 50)
        assert asked < workload.block_bytes or whole > available - own
        return
    assert each % workload.block_bytes == 0
    assert 0 < each * workload.region_count <= available


WRITE = find_workload("ilsistemista-dd-write")
READ = find_workload("ilsistemista-dd-read")
# coreutils 9.1 on Debian 12, LC_ALL=C dd if=/dev/zero of=FILE bs=2M count=40
DD_OUTPUT = "40+0 records in\n40+0 records out\n83886080 bytes (84 MB, 80 MiB) copied, 0.0412365 s, 2.0 GB/s\n"


def target(available_bytes: int, kind: PathKind = PathKind.DEVICE, path: str = "/dev/md0") -> JobTarget:
    return JobTarget(path, kind, available_bytes)


@pytest.mark.parametrize(
    ("place", "words"),
    [
        (target(100_000 * MIB), ("of=/dev/md0", "bs=2M", "count=16000")),
        (target(101 * MIB), ("of=/dev/md0", "bs=2M", "count=50")),
        (target(100 * MIB, PathKind.DIRECTORY, "/mnt/md0"), ("of=/mnt/md0/raidlab.0", "bs=2M", "count=49")),
    ],
    ids=["as published", "cut to whole blocks", "a file"],
)
def test_the_recipe_is_played_as_far_as_it_fits(place: JobTarget, words: tuple[str, ...]) -> None:
    assert dd_invocation(WRITE, place).argv == ("env", "LC_ALL=C", "dd", "if=/dev/zero", *words)


def test_a_raw_write_names_the_device_to_the_guard_and_a_read_none() -> None:
    with pytest.raises(WorkloadError, match="file-exceeds-fs"):
        dd_invocation(WRITE, target(MIB))
    assert dd_invocation(WRITE, target(100 * MIB)).step().writes_devices == ("/dev/md0",)
    assert dd_invocation(READ, target(100 * MIB)).step().writes_devices == ()


def test_figures_from_the_output_of_dd() -> None:
    figures = parse_dd(DD_OUTPUT, WRITE)
    assert figures.reads is None
    assert figures.writes
    assert figures.writes.io_bytes == 40 * 2 * MIB
    assert figures.writes.total_ios == 40
    assert figures.writes.bandwidth_bytes_per_second == pytest.approx(83886080 / 0.0412365)
    assert figures.writes.mean_seconds == pytest.approx(0.0412365 / 40)
    assert figures.writes.p99_seconds is None
    assert parse_dd(DD_OUTPUT, READ).writes is None


@pytest.mark.parametrize(
    ("text", "status"),
    [("", 0), (DD_OUTPUT, 1), ("dd: failed to open '/dev/md0': Permission denied\n", 1)]
    + [(f"{text} s\n", 0) for text in ("0 bytes copied, 0", "8 bytes copied, 1.2.3", f"{'9' * 5000} bytes copied, 1")],
)
def test_a_dd_that_failed_is_an_error_with_its_words(text: str, status: int) -> None:
    with pytest.raises(WorkloadError, match=f"dd exited with status {status}"):
        parse_dd(text, WRITE, exit_status=status)


SPACE = 64 * MIB


def requests(texts: tuple[str, ...]) -> list[tuple[int, str, int, int]]:
    """(due, word, offset, length) of all streams, in order of time."""
    found = []
    for text in texts:
        lines = text.splitlines()
        assert lines[:3] == ["fio version 2 iolog", "data add", "data open"]
        assert lines[-1] == "data close"
        for wait, io in zip(lines[3:-1:2], lines[4:-1:2], strict=True):
            _, word, offset, length = io.split()
            found.append((int(wait.split()[2]), word, int(offset), int(length)))
    return sorted(found)


def test_the_same_seed_gives_the_same_trace_and_another_seed_another() -> None:
    one, again = (trace_texts("server-1990s", 10, seconds=20, space_bytes=SPACE, seed=5) for _ in range(2))
    assert one == again
    assert one != trace_texts("server-1990s", 10, seconds=20, space_bytes=SPACE, seed=6)


def test_a_trace_is_of_its_kind() -> None:
    found = requests(trace_texts("server-1990s", 10, seconds=400, space_bytes=SPACE, seed=1))
    assert all(offset >= 0 and offset + length <= SPACE for _, _, offset, length in found)
    assert all(offset % 512 == 0 and length % 512 == 0 for _, _, offset, length in found)
    assert LEAD_MILLISECONDS <= found[0][0] <= found[-1][0] < LEAD_MILLISECONDS + 400_000
    assert sum(word == "write" for _, word, *_ in found) / len(found) == pytest.approx(WRITE_SHARE, abs=0.05)
    # A run counts as one request of the mean rate.
    arrivals = len(found) / (1 + RUN_SHARE * (RUN_REQUESTS - 1))
    assert arrivals / 400 == pytest.approx(MEAN_PER_SECOND, rel=0.15)
    gaps = [after - before for (before, *_), (after, *_) in pairwise(found)]
    # Bursts: most requests follow soon, and some only after a long pause.
    assert sorted(gaps)[len(gaps) // 2] < 8
    assert max(gaps) > 1000


def test_every_stream_gets_its_share_and_none_is_without_a_request() -> None:
    texts = trace_texts("server-1990s", 4, seconds=30, space_bytes=SPACE, seed=1)
    counts = [len(requests((text,))) for text in texts]
    assert max(counts) - min(counts) <= 1
    texts = trace_texts("server-1990s", 500, seconds=2, space_bytes=SPACE, seed=1)
    assert 0 < len(texts) < 500
    assert all(requests((text,)) for text in texts)
    with pytest.raises(SpecError, match="no request of trace"):
        trace_texts("server-1990s", 1, seconds=1e-6, space_bytes=SPACE, seed=1)


def test_unknown_kinds_and_too_little_space_are_refused() -> None:
    with pytest.raises(SpecError, match="synthetic trace 'server-1990'"):
        trace_texts("server-1990", 1, seconds=1, space_bytes=SPACE, seed=1)
    with pytest.raises(SpecError, match="needs at least 16 MiB"):
        trace_texts("server-1990s", 1, seconds=1, space_bytes=MIB, seed=1)


def test_the_traces_reach_their_files_and_the_job_is_left_for_fio(tmp_path: Path) -> None:
    target = JobTarget("/dev/md0", PathKind.DEVICE, SPACE)
    (start,) = fio_invocations(find_workload("trace-server"), target, runtime_seconds=3)
    command = [*start.argv[:4], start.argv[4].replace(TRACE_PATH, f"{tmp_path}/trace"), "cat"]
    ran = subprocess.run(command, input=start.stdin_text, capture_output=True, text=True, check=True)
    assert ran.stdout == start.job_text
    assert tuple((tmp_path / f"trace.{number}").read_text() for number in range(10)) == start.traces
    sections = [line for line in start.job_text.splitlines() if line.startswith("read_iolog=")]
    assert sections == [f"read_iolog={TRACE_PATH}.{number}" for number in range(10)]
    assert "replay_redirect=/dev/md0" in start.job_text
    assert start.step().writes_devices == ("/dev/md0",)
