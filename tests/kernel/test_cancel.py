"""A run can be ended at any moment: at once, with what was measured kept, and resumed."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from lab.errors import RunCancelled
from lab.experiments.run import RunRequest, resume_experiment, run_experiment
from lab.experiments.schedule import RunProgress
from lab.experiments.schema import Experiment, check
from lab.machine import Host
from lab.results.record import RunStatus
from lab.results.store import ResultStore
from lab.tomlfile import decode_toml
from tests.kernel.place import kernel_target

pytestmark = pytest.mark.kernel

TEXT = """
format_version = 2
id = "cancelled"
title = "Two jobs, the second far too long"
question = "Does it end?"
repeats = 1
order = "listed"
cache = "warm"
file_system = "raw"
[disks]
size_bytes = 33554432
[[arrays]]
id = "mirror"
level = "raid1"
members = 2
assume_clean = true
[[jobs]]
workload = "rand-write-4k"
runtime_seconds = 1.0
warmup_seconds = 0.0
[[jobs]]
workload = "rand-read-4k"
runtime_seconds = {runtime}
warmup_seconds = 0.0
"""


def test_a_cancelled_run_ends_at_once_keeps_what_it_has_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    host = Host.real("tests")
    text = TEXT.format(runtime=120)
    experiment = decode_toml(text, Experiment, source="test")
    check(experiment)
    cancelled = threading.Event()
    began: list[float] = []

    def watch(progress: RunProgress) -> None:
        # Within the long job, as soon as it does something.
        if progress.done_count == 1 and progress.rates and progress.rates.read_iops > 0 and not began:
            began.append(time.monotonic())
            cancelled.set()

    request = RunRequest(
        target=kernel_target(),
        host=host,
        on_progress=watch,
        on_notice=lambda _: None,
        is_cancelled=cancelled.is_set,
    )
    with pytest.raises(RunCancelled) as raised:
        run_experiment(experiment, text, request)
    # The job itself would have taken two minutes.
    assert time.monotonic() - began[0] < 60
    assert "--resume" in raised.value.hint
    store = ResultStore(host.state.results)
    kept = store.load("latest")
    assert kept.status is RunStatus.INCOMPLETE
    assert [cell.workload for cell in kept.cells] == ["rand-write-4k"]
    assert kept.missing_keys == ("mirror/rand-read-4k/healthy/0",)
    with pytest.raises(RunCancelled):
        resume_experiment("latest", request)
    assert store.load("latest").status is RunStatus.INCOMPLETE
