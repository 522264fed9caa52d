"""Sweeps: the same figures with any number of workers, and nothing is lost, whatever is killed."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from lab.errors import LabError
from lab.machine import Host, parse_target
from lab.sweep.cells import measured
from lab.sweep.cluster import parse_cluster
from lab.sweep.schema import decode_sweep
from lab.sweep.service import SweepRequest, plan_sweep
from tests.kernel.sweeps import PATIENCE_SECONDS, digests, sweeps_in

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time, pytest.mark.wide]
CELLS = 16


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Digests of all cells, measured by one worker."""
    sweeps = sweeps_in(tmp_path_factory.mktemp("alone"), depths=(1, 2))
    found = sweeps.run("--cluster", "local:1")
    assert found["measured"] == CELLS
    assert len(set(digests(found).values())) == CELLS, "each cell has figures of its own"
    return digests(found)


def test_cells_that_are_there_are_not_measured_again_and_other_sweeps_share_them(
    alone: dict[str, str], tmp_path: Path
) -> None:
    sweeps = sweeps_in(tmp_path, depths=(1,))
    few = sweeps.run("--cluster", "local:2")
    before = sweeps.files()
    assert (few["measured"], few["reused"]) == (CELLS // 2, 0)
    sweeps.file.write_text(sweeps.file.read_text().replace("[1]", "[1, 2]"))
    more = sweeps.run("--cluster", "local:2")
    assert (more["measured"], more["reused"]) == (CELLS // 2, CELLS // 2)
    assert digests(more) == alone
    assert {key: sweeps.files()[key] for key in before} == before
    again = sweeps.run()
    assert (again["measured"], again["reused"]) == (0, CELLS)


@pytest.mark.parametrize("victim", ["worker-0", "client"])
def test_after_a_kill_the_sweep_resumes_and_no_finished_cell_is_measured_again(
    alone: dict[str, str], tmp_path: Path, victim: str
) -> None:
    sweeps = sweeps_in(tmp_path, depths=(1, 2))
    process = sweeps.start("--cluster", "local:2")
    sweeps.until(lambda: len(sweeps.files()) >= 3 and sweeps.progress().get("processes"), process)
    sweeps.kill(victim, process)
    _, output = process.communicate(timeout=180)
    assert process.returncode == {"worker-0": 0, "client": -9}[victim], output
    if victim == "worker-0":
        assert "worker-0 ended" in output
    sweeps.until_ended()
    before = sweeps.files()
    assert len(before) == CELLS if victim == "worker-0" else 3 <= len(before) < CELLS
    sweeps.resumes_after_kill(("--cluster", "local:2"), alone, before)
    assert not sweeps.left()
    assert not list((sweeps.state / "sweeps/work").iterdir())


def test_two_clients_that_sweep_one_file_measure_each_cell_once(alone: dict[str, str], tmp_path: Path) -> None:
    sweeps = sweeps_in(tmp_path, depths=(1, 2))
    clients = [sweeps.start("--cluster", "local:1") for _ in range(2)]
    documents = [json.loads(each.communicate(timeout=180)[0]) for each in clients]
    assert [digests(each) for each in documents] == [alone, alone]
    assert sum(each["measured"] for each in documents) == CELLS
    assert sum(each["measured"] + each["reused"] for each in documents) == 2 * CELLS


def test_a_cell_that_takes_far_too_long_is_reported_and_its_machine_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps = sweeps_in(tmp_path)
    monkeypatch.setenv("RAIDLAB_STATE", str(sweeps.state))
    text = sweeps.file.read_text()
    request = SweepRequest(parse_target("uml:?time=virtual"), Host.real(), parse_cluster("local"))
    task = plan_sweep(decode_sweep(text, "small"), text, request).tasks[0]
    payload = msgspec.json.encode(msgspec.structs.replace(task, most_seconds=1.0))
    with pytest.raises(LabError, match="not finished within 1 s"):
        measured(payload)
    assert not sweeps.files()
    assert not list((sweeps.state / "sweeps/work").iterdir())
    assert not sweeps.left()


def test_a_cell_with_a_lost_machine_is_retried_once_and_then_reported(tmp_path: Path) -> None:
    sweeps = sweeps_in(tmp_path)
    text = sweeps.file.read_text()
    text = text.replace('["raid0", "raid1", "raid5"]', '["raid0"]').replace("[2, 3, 4]", "[2]")
    # Long enough that the machine still runs if the kill is delayed.
    sweeps.file.write_text(text.replace("runtime_seconds = 3.0", "runtime_seconds = 30.0"))
    process = sweeps.start("--cluster", "local:2")
    deadline = time.monotonic() + PATIENCE_SECONDS
    # Kill its machine whenever it has one.
    while process.poll() is None:
        assert time.monotonic() < deadline
        for number in sweeps.kernels():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        time.sleep(0.02)
    printed, output = process.communicate()
    assert process.returncode == 1, output
    (failed,) = json.loads(printed)["failed"]
    assert "embedded kernel" in failed["message"]
    assert output.count("it is tried again") == 1
    assert not sweeps.files()
    assert not list((sweeps.state / "sweeps/work").iterdir())
    again = sweeps.run("--resume")
    assert (again["measured"], again["failed"]) == (1, [])
