"""Repeats on one sequence of addresses are named: by their fingerprints, or by the jobs of results from before."""

from __future__ import annotations

import msgspec
import pytest

from lab.lint.experiment_checks import same_addresses
from lab.results.record import CellRecord, ResultRecord
from lab.workloads.fio_output import DirectionFigures, JobFigures
from tests.unit.experiments.test_run import CONDITIONS

BEFORE = "[global]\nrandrepeat=1\nrandseed={seed}\n[x]\nrw=randread\nbs=4096\nnumjobs={jobs}\n"
READS = DirectionFigures(
    iops=1.0, bandwidth_bytes_per_second=1.0, total_ios=1, io_bytes=1, runtime_seconds=1.0, mean_seconds=1.0
)


def cell(repeat: int, text: str, *, fio: str = "fio-3.33", addresses: str = "") -> CellRecord:
    return CellRecord(
        array="a",
        workload="w",
        phase="healthy",
        repeat=repeat,
        order_index=repeat,
        started_utc="2026-11-01T00:00:00Z",
        figures=JobFigures(job_name="x", reads=READS, fio_version=fio),
        job_text=text,
        addresses=addresses,
    )


def record(*cells: CellRecord) -> ResultRecord:
    return ResultRecord(
        id="r",
        created_utc="2026-11-01T00:00:00Z",
        raidlab_version="0",
        experiment="e",
        experiment_toml="",
        conditions=CONDITIONS,
        cells=cells,
    )


def said(*cells: CellRecord) -> list[str]:
    return [seen.observed for seen in same_addresses(record(*cells))]


def before(repeat: int, *, jobs: int = 1, fio: str = "fio-3.33") -> CellRecord:
    return cell(repeat, BEFORE.format(seed=20_260 + repeat, jobs=jobs), fio=fio)


def test_results_from_before_are_told_by_their_jobs() -> None:
    assert said(before(0), before(1), before(2)) == ["3 repeats on one sequence of addresses"]
    assert said(before(0, jobs=4), before(1, jobs=4)) == ["1 of 4 jobs on one sequence of addresses in all 2 repeats"]


@pytest.mark.parametrize("fio", ["fio-3.35", "fio-3.41"])
def test_a_fio_that_heeds_the_seed_gave_true_repeats(fio: str) -> None:
    assert said(before(0, fio=fio), before(1, fio=fio)) == []


def test_results_of_now_are_told_by_their_fingerprints() -> None:
    text = BEFORE.replace("randrepeat=1", "randrepeat=0")
    assert said(*(cell(n, text.format(seed=n, jobs=1), addresses=f"{n:x}") for n in range(3))) == []
    same = [cell(n, text.format(seed=7, jobs=1), addresses="7") for n in range(3)]
    assert said(*same) == ["3 repeats on one sequence of addresses"]


def test_one_repeat_sequential_loads_and_records_without_jobs_say_nothing() -> None:
    assert said(before(0)) == []
    assert said(*(cell(n, "[x]\nrw=read\nbs=1m\n") for n in range(3))) == []
    assert said(*(cell(n, "") for n in range(3))) == []
    assert msgspec.json.decode(msgspec.json.encode(before(0)), type=CellRecord) == before(0)
