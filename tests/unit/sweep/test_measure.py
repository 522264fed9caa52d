"""What a worker does before it measures: one process at a time for each cell, and only permitted options."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from lab.errors import RunCancelled, SpecError, WaitTimedOut
from lab.host.clock import HostClock
from lab.machine import Host, parse_target
from lab.sweep import cells
from lab.sweep.cells import sweeps_folder
from lab.sweep.cluster import parse_cluster
from lab.sweep.schema import find_sweep
from lab.sweep.service import SweepRequest, plan_sweep
from tests.unit.disks.machines import host_in

KEY, OTHER = "ab" * 32, "cd" * 32
HOLDER = """
import sys
from lab.machine import Host
from lab.sweep.cells import claimed
with claimed(sys.argv[1], Host.real(), 60.0):
    print("held", flush=True)
    input()
"""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    return host_in(tmp_path / "state", HostClock())


@contextmanager
def claiming(host: Host) -> Iterator[threading.Event]:
    """A thread that waits for the cell; the event is set once it has it."""
    got = threading.Event()

    def claim() -> None:
        with cells.claimed(KEY, host, 60.0):
            got.set()

    waiting = threading.Thread(target=claim)
    waiting.start()
    yield got
    assert got.wait(60), "it ends with its holder"
    waiting.join()


def test_a_cell_that_another_process_is_measuring_is_waited_for(host: Host) -> None:
    argv = [sys.executable, "-c", HOLDER, KEY]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == "held\n"
        with claiming(host) as got:
            assert not got.wait(0.5)
            # Other cells are free meanwhile.
            with cells.claimed(OTHER, host, 60.0):
                pass
            holder.kill()


def test_threads_of_one_worker_wait_for_each_other_too(host: Host) -> None:
    with ExitStack() as waiting, cells.claimed(KEY, host, 60.0):
        got = waiting.enter_context(claiming(host))
        assert not got.wait(0.3)


def test_a_worker_that_is_to_end_waits_no_more(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    ending = threading.Event()
    ending.set()
    monkeypatch.setattr(cells, "ENDING", ending)
    with cells.claimed(KEY, host, 60.0), pytest.raises(RunCancelled), cells.claimed(KEY, host, 60.0):
        pass


def test_the_wait_for_a_cell_is_bounded(host: Host) -> None:
    bounded = pytest.raises(WaitTimedOut, match=r"waited 0 s for .* the same cell")
    with cells.claimed(KEY, host, 60.0), bounded, cells.claimed(KEY, host, 0.2):
        pass


WORKER = """
from lab.machine import Host
from lab.sweep.cells import work_folder
for _ in range(60):
    with work_folder(Host.real()) as folder:
        (folder / "file").touch()
"""


def test_no_worker_takes_the_folder_of_another_for_one_that_was_left(host: Host) -> None:
    workers = [subprocess.Popen([sys.executable, "-c", WORKER], stderr=subprocess.PIPE, text=True) for _ in range(6)]
    assert [each.communicate()[1] for each in workers] == [""] * 6
    assert not list((sweeps_folder(host) / "work").iterdir())


@pytest.mark.parametrize("option", ["kernel=/tmp/linux", "mem=512M", "name=mine"])
def test_options_that_would_mean_nothing_are_refused(host: Host, option: str) -> None:
    sweep, text = find_sweep("chunks")
    request = SweepRequest(parse_target(f"uml:?time=virtual&{option}"), host, parse_cluster("local"))
    with pytest.raises(SpecError, match=f"cannot set {option.partition('=')[0]}"):
        plan_sweep(sweep, text, request)
