"""What theory is given of a drive."""

from __future__ import annotations

import pytest

from lab.disks import DiskKind, LabDisk
from lab.measure import job
from lab.measure.job import Measured, probe_disk
from lab.units import MIB
from lab.workloads.fio_output import JobFigures
from lab.workloads.workload import Workload, find_workload
from tests.unit.results.records import direction

IOPS = {("read", 1): 73.4, ("write", 1): 71.8}


READS, WRITES, STREAM = find_workload("rand-read-4k"), find_workload("rand-write-4k"), find_workload("seq-write-1m")
DRIVE = LabDisk(name="disk01", kind=DiskKind.SPINDLE, node="/dev/nbd0", size_bytes=64 * MIB, model="hdd-7200")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Workload]:
    """Every load that a probe measures; it finds IOPS, or 1000 of those that are not there."""
    asked: list[Workload] = []

    def run(_lab: object, _target: object, workload: Workload, _options: object) -> Measured:
        asked.append(workload)
        way = workload.direction.value
        found = direction(IOPS.get((way, workload.queue_depth), 1000.0), block_bytes=workload.block_bytes)
        reads, writes = (found, None) if way == "read" else (None, found)
        figures = JobFigures(
            job_name="probe",
            reads=reads,
            writes=writes,
            fio_user_cpu_percent=0.0,
            fio_system_cpu_percent=0.0,
            fio_version="fio-3.33",
        )
        return Measured(figures=figures, cpu=None, samples=(), job_text="", file_bytes=None)

    monkeypatch.setattr(job, "run_workload", run)
    return asked


def test_reads_and_writes_of_an_emulated_drive_are_measured_apart(asked: list[Workload]) -> None:
    """A write takes longer than a read in real time: theory of the one must not start from the other."""
    rates = probe_disk(None, DRIVE, [WRITES], rebuilds=False)  # type: ignore[arg-type]
    assert (rates.random_read_iops, rates.random_write_iops) == (73.4, 71.8)
    assert {(each.direction.value, each.queue_depth, each.jobs) for each in asked} == {("read", 1, 1), ("write", 1, 1)}


@pytest.mark.parametrize(
    ("workloads", "rebuilds", "measured"),
    [
        ([READS], False, {"rand-read-4k"}),
        ([STREAM], False, {"seq-read-1m", "seq-write-1m"}),
        ([], True, {"seq-read-1m", "seq-write-1m"}),
        ([READS, STREAM], False, {"seq-read-1m", "seq-write-1m", "rand-read-4k", "rand-write-4k"}),
    ],
)
def test_what_no_theory_asks_for_is_not_measured(
    asked: list[Workload], workloads: list[Workload], rebuilds: bool, measured: set[str]
) -> None:
    rates = probe_disk(None, DRIVE, workloads, rebuilds=rebuilds)  # type: ignore[arg-type]
    assert {each.id for each in asked} == measured
    assert min(rates.random_read_iops, rates.sequential_read_bytes_per_second) > 0
