"""A rebuild under load as part of an experiment, on a bare array that the load is free to write on."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.support.rig import limit_speed
from lab.experiments.run import RunRequest, run_experiment
from lab.experiments.schema import Experiment, check
from lab.machine import Host
from lab.tomlfile import decode_toml
from tests.kernel.place import kernel_target

pytestmark = [pytest.mark.kernel, pytest.mark.wide]

TEXT = """
format_version = 2
id = "rebuilt"
title = "A rebuild under a load that has the whole device"
question = "Is its witness left alone?"
repeats = 1
order = "listed"
cache = "warm"
file_system = "raw"
[disks]
size_bytes = "48M"
[[arrays]]
id = "parity"
level = "raid5"
members = 3
assume_clean = true
[[jobs]]
workload = "rand-write-4k"
runtime_seconds = 1.0
warmup_seconds = 0.2
[rebuild]
arrays = ["parity"]
[rebuild.under]
workload = "rand-mix-4k"
jobs = 2
runtime_seconds = 1.0
warmup_seconds = 0.2
"""


def test_a_load_without_bounds_leaves_the_witness_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    experiment = decode_toml(TEXT, Experiment, source="test")
    check(experiment)
    request = RunRequest(
        kernel_target(),
        Host.real("tests"),
        on_machine=lambda machine: limit_speed(machine, experiment.disks.size_bytes),
    )
    record = run_experiment(experiment, TEXT, request)
    assert [rebuild.data_unchanged for rebuild in record.rebuilds] == [True]
