"""The addresses that a load uses in the real fio: what fio does with our jobs, and what fingerprints say about it.

fio's engine ``null`` moves no data, so every job is over in a moment; its I/O log shows where it would have gone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import pytest

from lab.units import MIB
from lab.workloads.jobs import FioPhase, Invocation, JobTarget, PathKind, fingerprint, fio_invocations
from lab.workloads.workload import Workload, find_workload

pytestmark = pytest.mark.skipif(shutil.which("fio") is None, reason="needs fio: provision/host/setup.sh test")

I_OS = 200
LOADS = {
    "reads": find_workload("rand-read-4k-q1"),
    "mix": msgspec.structs.replace(find_workload("rand-mix-4k"), jobs=1),
    "several jobs": msgspec.structs.replace(find_workload("rand-read-4k"), jobs=3),
    "zipf": msgspec.structs.replace(find_workload("zipf-read-4k"), jobs=1),
    "verified under load": msgspec.structs.replace(find_workload("verify-load-4k"), jobs=1),
}


@dataclass(frozen=True)
class FioRun:
    """Where a run of fio went: the offsets of each job, in order."""

    offsets: dict[str, list[int]]
    fingerprint: str


def version() -> str:
    return subprocess.run(("fio", "--version"), check=True, capture_output=True, text=True).stdout.strip()


def go(folder: Path, job: Invocation, *, repeatable: bool = False) -> FioRun:
    """Run one of our jobs for some I/Os, unchanged except for the engine, the duration, the depth and verification."""
    text = re.sub(r"^(time_based|runtime|direct|verify\w*|do_verify)=.*\n", "", job.job_text, flags=re.M)
    text = re.sub(r"^ioengine=.*$", "ioengine=null", text, flags=re.M)
    if repeatable:
        text = text.replace("randrepeat=0", "randrepeat=1")
    text = text.replace("[global]\n", f"[global]\nnumber_ios={I_OS}\nlog_offset=1\nwrite_lat_log={folder}/log\n", 1)
    # One at a time, so that a log's order is that of the addresses.
    text = re.sub(r"^iodepth=.*$", "iodepth=1", text, flags=re.M)
    for old in folder.glob("log*"):
        old.unlink()
    subprocess.run(("fio", "-"), input=text, check=True, capture_output=True, text=True, cwd=folder)
    logs = sorted(folder.glob("log_lat.*.log"))
    offsets = {log.name: [int(line.split(",")[4]) for line in log.read_text().splitlines()] for log in logs}
    return FioRun(offsets, fingerprint(text, (), version()))


def job_of(workload: Workload, folder: Path, *, repeat: int = 0, seed: int = 7) -> Invocation:
    target = JobTarget(str(folder), PathKind.DIRECTORY, 400 * MIB, 16 * MIB, repeat, seed)
    return next(each for each in fio_invocations(workload, target) if each.phase is not FioPhase.PREPARE)


@pytest.mark.parametrize("name", LOADS)
def test_another_repeat_goes_elsewhere_and_the_same_one_to_the_same_places(tmp_path: Path, name: str) -> None:
    first, again = (go(tmp_path, job_of(LOADS[name], tmp_path)) for _ in range(2))
    repeat, seeded = (go(tmp_path, job_of(LOADS[name], tmp_path, **other)) for other in ({"repeat": 1}, {"seed": 8}))
    assert first.offsets
    assert all(len(set(each)) > I_OS / 4 for each in first.offsets.values())
    assert first == again
    for other in (repeat, seeded):
        for log, offsets in first.offsets.items():
            assert other.offsets[log] != offsets
            # Not the same places in another order either.
            assert len(set(other.offsets[log]) & set(offsets)) < I_OS / 2
        assert other.fingerprint != first.fingerprint


@pytest.mark.parametrize("name", LOADS)
def test_fingerprints_reveal_whether_fio_uses_the_seed(tmp_path: Path, name: str) -> None:
    """With ``randrepeat=1``, as in earlier results: the fingerprint says what this fio does."""
    first, repeat = (go(tmp_path, job_of(LOADS[name], tmp_path, repeat=number), repeatable=True) for number in range(2))
    assert (first.offsets == repeat.offsets) is (first.fingerprint == repeat.fingerprint)


def test_a_verified_load_reads_back_what_it_wrote_with_its_own_seed(tmp_path: Path) -> None:
    workload = find_workload("verify-4k")
    target = JobTarget(str(tmp_path), PathKind.DIRECTORY, 64 * MIB, MIB, 3, 9)
    starts = fio_invocations(msgspec.structs.replace(workload, jobs=2, direct=False), target)
    for start in starts:
        found = subprocess.run(start.argv, input=start.stdin_text, capture_output=True, text=True, cwd=tmp_path)
        assert found.returncode == 0, found.stdout + found.stderr
    # One block changed between the two starts is noticed, so the second one does read them.
    with (tmp_path / "raidlab.1").open("r+b") as file:
        file.seek(40 * 4096)
        file.write(b"changed" * 100)
    found = subprocess.run(starts[-1].argv, input=starts[-1].stdin_text, capture_output=True, text=True, cwd=tmp_path)
    assert found.returncode != 0


def test_sequential_loads_and_replays_have_no_fingerprint(tmp_path: Path) -> None:
    job = job_of(find_workload("seq-read-1m"), tmp_path)
    assert fingerprint(job.job_text, (), version()) == ""
    replay = job_of(find_workload("trace-server"), tmp_path)
    assert fingerprint(replay.job_text, (), version()) == ""
    other = job_of(find_workload("trace-server"), tmp_path, repeat=1)
    prints = {fingerprint(each.job_text, each.traces, version()) for each in (replay, other)}
    assert len(prints) == 2
    assert "" not in prints


@pytest.mark.parametrize(
    ("fio", "is_constant"), [("fio-3.28", True), ("fio-3.34", True), ("fio-3.35", False), ("fio-3.41-12-gabc", False)]
)
def test_which_fio_heeds_the_seed_of_a_repeatable_job(tmp_path: Path, fio: str, is_constant: bool) -> None:
    """What sources and builds of these versions do; the installed one is tried above."""
    texts = [
        job_of(LOADS["reads"], tmp_path, repeat=number).job_text.replace("randrepeat=0", "randrepeat=1")
        for number in range(2)
    ]
    assert (len({fingerprint(text, (), fio) for text in texts}) == 1) is is_constant
    assert fingerprint(texts[0].replace("randrepeat=1\n", "randrepeat=0\n").replace("randseed", "x"), (), fio) == ""


def test_one_device_is_split_among_jobs_by_their_offset(tmp_path: Path) -> None:
    job = job_of(LOADS["several jobs"], tmp_path)
    on_device = replace(job.target, path=str(tmp_path / "device"), kind=PathKind.DEVICE)
    jobs = [fio_invocations(LOADS["several jobs"], replace(on_device, repeat=number))[0] for number in range(2)]
    first, second = (go(tmp_path, each) for each in jobs)
    assert len(first.offsets) == 3
    assert not set(first.offsets) - set(second.offsets)
    assert all(first.offsets[log] != second.offsets[log] for log in first.offsets)
