"""Experiments on real arrays: cancelled and resumed, and a rebuild under a load that has the whole array."""

from __future__ import annotations

import json
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from benchmarks.support.rig import limit_speed
from lab.errors import RunCancelled
from lab.experiments.run import RunRequest, resume_experiment, run_experiment
from lab.experiments.schedule import RunProgress
from lab.experiments.schema import Experiment, check
from lab.fio_plot.documents import export_for_fio_plot
from lab.report.collected import loaded
from lab.results.record import RunStatus
from lab.results.store import FoundResult, ResultStore
from lab.tomlfile import decode_toml
from tests.kernel.place import host_at, kernel_target

pytestmark = pytest.mark.kernel

HEAD = """
format_version = 2
id = "made-up"
title = "An experiment"
question = "Does it end?"
repeats = 1
order = "listed"
cache = "warm"
file_system = "raw"
disks = { size_bytes = "48M" }
"""
CANCELLED = f"""{HEAD}
arrays = [{{ id = "mirror", level = "raid1", members = 2, assume_clean = true }}]
jobs = [
  {{ workload = "rand-write-4k", runtime_seconds = 1.0, warmup_seconds = 0.0 }},
  {{ workload = "rand-read-4k", runtime_seconds = 1200, warmup_seconds = 0.0 }},
]
"""
REBUILT = f"""{HEAD}
arrays = [{{ id = "parity", level = "raid5", members = 3, assume_clean = true }}]
jobs = [{{ workload = "rand-write-4k", runtime_seconds = 1.0, warmup_seconds = 0.2 }}]
[rebuild]
arrays = ["parity"]
under = {{ workload = "rand-mix-4k", jobs = 2, runtime_seconds = 1.0, warmup_seconds = 0.2 }}
"""


def experiment(text: str) -> Experiment:
    found = decode_toml(text, Experiment, source="test")
    check(found)
    return found


def test_a_cancelled_run_ends_at_once_keeps_its_results_and_can_be_resumed(tmp_path: Path) -> None:
    host = host_at(tmp_path)
    cancelled = threading.Event()
    began: list[float] = []

    def watch(progress: RunProgress) -> None:
        # In the long job, as soon as it reads.
        if progress.done_count == 1 and progress.rates and progress.rates.read_iops > 0 and not began:
            began.append(time.monotonic())
            cancelled.set()

    request = RunRequest(
        target=kernel_target(), host=host, on_progress=watch, on_notice=lambda _: None, is_cancelled=cancelled.is_set
    )
    with pytest.raises(RunCancelled, match=r"\n.*--resume"):
        run_experiment(experiment(CANCELLED), CANCELLED, request)
    # The job itself would have taken twenty minutes.
    assert time.monotonic() - began[0] < 600
    store = ResultStore(host.state.results)
    kept = store.load("latest")
    assert kept.status is RunStatus.INCOMPLETE
    assert [cell.workload for cell in kept.cells] == ["rand-write-4k"]
    assert kept.missing_keys == ("mirror/rand-read-4k/healthy/0",)
    # fio's own documents of a measured interval, as fio-plot reads them.
    result = loaded(FoundResult(kept, kept.id, partial(store.raw_json, kept.id)))
    drawn = export_for_fio_plot(result, tmp_path / "plots")
    assert drawn.left_out == ()
    (job,) = json.loads(drawn.files[0].read_text())["jobs"]
    assert job["write"]["iops"] == kept.cells[0].figures.sections["write"].iops
    assert job["write"]["lat_ns"]["stddev"] > 0
    assert sum(sum(job[unit].values()) for unit in ("latency_ns", "latency_us", "latency_ms")) == pytest.approx(
        100, abs=1
    )
    with pytest.raises(RunCancelled):
        resume_experiment(store.incomplete("latest"), request)
    assert store.load("latest").status is RunStatus.INCOMPLETE


@pytest.mark.wide
def test_a_load_without_bounds_leaves_the_witness_alone(tmp_path: Path) -> None:
    """The load may write to the whole array, except for the data that check the rebuild."""
    rebuilt = experiment(REBUILT)
    request = RunRequest(
        kernel_target(), host_at(tmp_path), on_machine=lambda machine: limit_speed(machine, rebuilt.disks.size_bytes)
    )
    record = run_experiment(rebuilt, REBUILT, request)
    assert [rebuild.data_unchanged for rebuild in record.rebuilds] == [True]
