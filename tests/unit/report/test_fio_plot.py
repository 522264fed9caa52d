"""Documents for fio-plot: its layout and options, one repeat of each workload, and what it cannot read."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.fio_plot.documents import Drawn, commands, export_for_fio_plot
from lab.report.collected import loaded
from lab.results.record import CellRecord
from lab.results.store import FoundResult
from tests.unit.results.records import cell, record


def document(way: str, *, depth: str = "4", **more: str) -> str:
    """What fio-plot reads, as fio writes it: common options are separate from the job's own."""
    job = {"jobname": "x", "job options": {"rw": way, "bs": "4096", "iodepth": depth, **more}}
    return json.dumps({"fio version": "fio-3.33", "global options": {"numjobs": "1"}, "jobs": [job]})


def measured(array: str, workload: str, repeat: int, iops: float, raw_file: str) -> CellRecord:
    return msgspec.structs.replace(cell(array, workload, repeat, read_iops=iops), raw_file=raw_file)


def exported(cells: list[CellRecord], files: Mapping[str, str], folder: Path) -> Drawn:
    return export_for_fio_plot(loaded(FoundResult(record("r", cells=tuple(cells)), "r", files.__getitem__)), folder)


def test_documents_lie_where_bench_fio_puts_them(tmp_path: Path) -> None:
    files = {"a": document("randread"), "b": document("randread", depth="32")}
    drawn = exported([measured("raid5", "x", 0, 9.0, "a"), measured("raid5", "y", 0, 9.0, "b")], files, tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in drawn.files] == [
        "r/raid5/4k/randread-4-1.json",
        "r/raid5/4k/randread-32-1.json",
    ]
    assert drawn.files[0].read_text() == files["a"]
    assert list(commands([drawn])) == [
        f"fio-plot -i {tmp_path}/r/raid5/4k -T 'randread 4k' -r randread -l -d 4 32 -n 1"
    ]


def cumulative(latencies: list[int], iops: list[int], jobs: int = 1, **changed: Any) -> str:
    """A document of fio after I/Os with these latencies in nanoseconds, with samples of the IOPS of each of its jobs.

    fio adds the samples, the means and the squares of the jobs' IOPS.
    """
    micro = sum(each < 1_000_000 for each in latencies) / len(latencies) * 100
    squares = jobs * statistics.variance(iops) * (len(iops) - 1)
    read = {
        "total_ios": len(latencies),
        "iops_samples": jobs * len(iops),
        "iops_mean": jobs * statistics.fmean(iops),
        "iops_stddev": math.sqrt(squares / (jobs * len(iops) - 1)),
        "lat_ns": {
            "N": len(latencies),
            "mean": statistics.fmean(latencies),
            "stddev": statistics.stdev(latencies),
        },
    }
    made = json.loads(document("randread", numjobs=str(jobs)))
    made["jobs"][0] |= {"read": read, "write": {"total_ios": 0}, "usr_cpu": 1.5, "sys_cpu": 2.5}
    made["jobs"][0] |= {"latency_ns": {}, "latency_us": {"1000": micro}, "latency_ms": {"2": 100 - micro}, **changed}
    return json.dumps(made)


def in_interval() -> CellRecord:
    """A cell whose figures are those between two documents, in the file "a"."""
    one = measured("raid5", "x", 0, 4.0, "a")
    section = msgspec.structs.replace(
        one.figures.sections["read"], mean_seconds=0.0006, bandwidth_bytes_per_second=16384.0, runtime_seconds=1.0
    )
    return msgspec.structs.replace(
        one, figures=msgspec.structs.replace(one.figures, reads=section, window_begin_seconds=0.5)
    )


@pytest.mark.parametrize("jobs", [1, 4])
def test_of_a_measured_interval_only_its_own_ios_count(jobs: int, tmp_path: Path) -> None:
    warmup, measured_ios = [9_000_000] * 50, [100_000, 300_000, 500_000, 1_500_000]
    begin, end = cumulative(warmup, [5, 6], jobs), cumulative(warmup + measured_ios, [5, 6, 100, 120, 170], jobs)
    drawn = exported([in_interval()], {"a": f"[{begin},{end}]"}, tmp_path)
    assert drawn.left_out == ()
    (job,) = json.loads(drawn.files[0].read_text())["jobs"]
    read = job["read"]
    assert (read["iops"], read["bw"], read["runtime"]) == (4.0, 16, 1000)
    assert read["lat_ns"]["mean"] == pytest.approx(statistics.fmean(measured_ios))
    assert read["lat_ns"]["stddev"] == pytest.approx(statistics.stdev(measured_ios))
    alone = json.loads(cumulative([1, 2], [100, 120, 170], jobs))["jobs"][0]["read"]
    assert read["iops_stddev"] == pytest.approx(alone["iops_stddev"])
    assert job["latency_us"]["1000"] == pytest.approx(75)
    assert job["latency_ms"]["2"] == pytest.approx(25)


@pytest.mark.parametrize(
    "changed",
    [
        {"latency_us": {"1000": "x"}},
        {"usr_cpu": "x"},
        {"latency_ms": {"2": 1.7e308}},
        {"read": {"total_ios": 10**400, "iops_mean": 1}},
        {"read": {"total_ios": 50, "lat_ns": {"N": 10**15, "mean": "y"}}},
    ],
)
def test_a_strangers_interval_with_implausible_numbers_is_left_out(changed: dict[str, Any], tmp_path: Path) -> None:
    begin, end = cumulative([1, 2, 3] * 16, [5, 6]), cumulative([1, 2, 3] * 17, [5, 6, 7], **changed)
    drawn = exported([in_interval()], {"a": f"[{begin},{end}]"}, tmp_path)
    assert (drawn.files, len(drawn.left_out)) == ((), 1)


def test_reads_and_writes_of_a_mixed_load_are_drawn_apart(tmp_path: Path) -> None:
    drawn = exported([measured("raid5", "x", 0, 9.0, "a")], {"a": document("randrw")}, tmp_path)
    assert [line.split(" -T ")[1] for line in commands([drawn])] == [
        f"'randrw 4k, {way}s' -r randrw -l -d 4 -n 1 -f {way}" for way in ("read", "write")
    ]


@pytest.mark.parametrize(
    ("block", "folder"), [("512", "512"), ("65536", "64k"), ("1048576", "1m"), ("1073741824", "1024m"), ("8K", "8K")]
)
def test_block_sizes_are_written_as_bench_fio_writes_them(block: str, folder: str, tmp_path: Path) -> None:
    drawn = exported([measured("raid5", "x", 0, 9.0, "a")], {"a": document("read", bs=block)}, tmp_path)
    assert [path.parent.name for path in drawn.files] == [folder]


def test_of_the_repeats_the_median_one_is_there(tmp_path: Path) -> None:
    files = {name: document("randread", name=name) for name in "abc"}
    cells = [
        measured("raid5", "x", n, iops, name) for n, (iops, name) in enumerate(((7.0, "a"), (9.0, "b"), (8.0, "c")))
    ]
    (path,) = exported(cells, files, tmp_path).files
    assert path.read_text() == files["c"]


def test_workloads_that_look_alike_to_fio_plot_have_separate_folders(tmp_path: Path) -> None:
    files = {"a": document("randread"), "b": document("randread", random_distribution="zipf:1.1")}
    drawn = exported([measured("raid5", "x", 0, 9.0, "a"), measured("raid5", "z", 0, 9.0, "b")], files, tmp_path)
    assert [path.parent.name for path in drawn.files] == ["4k", "4k-z"]


def test_what_fio_plot_cannot_read_is_named_and_the_rest_written(tmp_path: Path) -> None:
    old = json.dumps({"fio version": "fio-2.0", "jobs": [{"jobname": "x", "job options": {"rw": "read", "bs": "4k"}}]})
    files = {"a": document("randread"), "b": f"[{document('write')},{document('read')}]", "c": "{", "d": old}
    files["e"] = document("randread", depth="9" * 5000)
    cells = [measured("raid5", f"w{name}", 0, 9.0, name) for name in files]
    drawn = exported([*cells, cell("raid5", "lost", 0, read_iops=1.0)], files, tmp_path)
    assert len(drawn.files) == 1
    assert len(drawn.left_out) == 5
    assert "raid5/wd: the document of fio-2.0 lacks iodepth, numjobs" in drawn.left_out


def test_arrays_are_compared_in_one_picture(tmp_path: Path) -> None:
    files = {"a": document("randread")}
    drawn = exported([measured(name, "x", 0, 9.0, "a") for name in ("raid0", "raid5")], files, tmp_path)
    (line,) = commands([drawn])
    assert f"{tmp_path}/r/raid0/4k {tmp_path}/r/raid5/4k" in line
    assert line.endswith("-r randread -C -d 4 -n 1")


def test_a_strangers_names_stay_in_the_folder(tmp_path: Path) -> None:
    files = {"a": document("randread", bs="../../x")}
    (path,) = exported([measured("../../raid5", "x", 0, 9.0, "a")], files, tmp_path / "in").files
    assert path.resolve().is_relative_to(tmp_path / "in")
