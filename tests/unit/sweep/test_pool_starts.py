"""How pools start, and what is left of those that do not: real processes of Dask, ended at awkward moments."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.errors import RunCancelled
from lab.host.processes import HostProcesses, RunningProcess
from lab.machine import Host
from lab.sweep import launch
from lab.sweep import pool as pools
from lab.sweep import spread as spreads
from lab.sweep.cluster import ClusterTables, parse_cluster
from lab.sweep.launch import END_SECONDS
from lab.sweep.pool import ClusterLost, Pool
from lab.sweep.spread import SpreadTask, TaskSpread
from tests.unit.fakes import FakeClock
from tests.unit.sweep import tasks

pytestmark = pytest.mark.slow
PATIENCE_SECONDS = 30.0


class Meddling(HostProcesses):
    """Starts what it is told to, and then does something to it."""

    def __init__(self, meddle: Callable[[int, RunningProcess], None], argv: Sequence[str] | None = None) -> None:
        self._meddle, self._argv, self._count = meddle, argv, 0

    def start(self, argv: Sequence[str], **options: Any) -> RunningProcess:
        number, self._count = self._count, self._count + 1
        process = super().start(self._argv if self._argv and number else argv, **options)
        self._meddle(number, process)
        return process


def made(folder: Path, cluster: str = "local:2", processes: HostProcesses | None = None, **options: Any) -> Pool:
    host = Host.real()
    host = replace(host, processes=processes) if processes else host
    return Pool(parse_cluster(cluster), ClusterTables(), host, folder, **{"dashboard": "", **options})


def is_there(pid: int) -> bool:
    """A process that has ended and waits for its parent is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while left := [pid for pid in pids if is_there(pid)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


@pytest.mark.parametrize("started", [1, 2, 3])
def test_whoever_gives_up_while_it_starts_leaves_nothing(tmp_path: Path, started: int) -> None:
    pids: list[int] = []
    processes = Meddling(lambda _, process: pids.append(process.pid))
    pool = made(tmp_path, processes=processes, is_cancelled=lambda: len(pids) >= started)
    with pytest.raises(RunCancelled), pool:
        pass
    assert len(pids) >= started
    assert not [pid for pid in pids if is_there(pid)]


def test_a_worker_that_ends_while_it_starts_is_started_again(tmp_path: Path) -> None:
    heard: list[str] = []

    def kill_first_worker(number: int, process: RunningProcess) -> None:
        if number == 1:
            process.kill()

    with made(tmp_path, processes=Meddling(kill_first_worker), on_notice=heard.append) as pool:
        assert sorted(pool.workers().values()) == ["worker-0", "worker-1"]
    assert heard == ["worker-0 ended (SIGKILL); another one is started"]


def test_where_no_worker_starts_its_last_words_are_told(tmp_path: Path) -> None:
    processes = Meddling(lambda _, __: None, argv=("sh", "-c", "echo 'no such thing' >&2; exit 3"))
    with (
        pytest.raises(ClusterLost, match=r"no worker starts: worker-0 ended \(status 3\): no such thing"),
        made(tmp_path, "local:1", processes),
    ):
        pass


def test_pages_that_cannot_be_served_are_named(tmp_path: Path) -> None:
    # An address that no computer has: RFC 5737.
    with (
        pytest.raises(ClusterLost, match=r"pages at 192\.0\.2\.1:8787: .*OSError: .*assign") as told,
        made(tmp_path, dashboard="192.0.2.1:8787"),
    ):
        pass
    assert "--dashboard none" in told.value.hint


@pytest.fixture
def other_server() -> Iterator[int]:
    """The port of one that speaks HTTP."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:

        def serve() -> None:
            while True:
                try:
                    line, _ = listening.accept()
                except OSError:
                    return
                with line:
                    line.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")

        threading.Thread(target=serve, daemon=True).start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)


def test_what_is_no_scheduler_is_named(
    tmp_path: Path, other_server: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pools, "OTHERS_SECONDS", 2.0)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        for port in (other_server, bound.getsockname()[1]):
            address = f"tcp://127.0.0.1:{port}"
            with (
                pytest.raises(ClusterLost, match=f"no scheduler of Dask answers at {address}"),
                made(tmp_path, address),
            ):
                pass
    with pytest.raises(ClusterLost, match="no certificate"), made(tmp_path, f"tls://127.0.0.1:{other_server}"):
        pass
    assert "Traceback" not in capfd.readouterr().err


def test_workers_do_not_hear_ctrl_c_and_end_with_their_client(tmp_path: Path) -> None:
    with made(tmp_path) as pool:
        pids = list(pool.process_ids.values())
        for pid in pids:
            os.kill(pid, signal.SIGINT)
        spread = TaskSpread(pool, tasks.echo)
        work = (SpreadTask(key=f"t{number}", payload=b"%d" % number) for number in range(8))
        assert len({answer.data.split()[1] for _, answer in spread.run(work)}) == 2
        begin = time.monotonic()
    assert time.monotonic() - begin < END_SECONDS
    assert not [pid for pid in pids if is_there(pid)]


def test_a_task_whose_worker_dies_again_and_again_is_reported(tmp_path: Path) -> None:
    heard: list[str] = []
    with made(tmp_path, on_notice=heard.append) as pool:
        spread = TaskSpread(pool, tasks.dies)
        ((_, answer),) = spread.run([SpreadTask(key="dies")])
        assert "ended meanwhile" in answer.failure
        ((_, after),) = TaskSpread(pool, tasks.echo).run([SpreadTask(key="more", payload=b"x")])
        assert after.data.startswith(b"x ")
        # Two at the start, and those that died were connected before they did.
        assert sum(map(pool._joined_so_far, ("worker-0", "worker-1"))) >= 5
    assert len(heard) >= 4


def test_a_worker_that_stands_still_is_replaced_and_its_task_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "SILENT_SECONDS", 3.0)
    monkeypatch.setattr(pools, "SUSPECTED_SECONDS", 1.0)
    monkeypatch.setattr(launch, "END_SECONDS", 0.5)
    heard: list[str] = []
    with made(tmp_path, on_notice=heard.append) as pool:
        os.kill(pool.process_ids["worker-0"], signal.SIGSTOP)
        work = [SpreadTask(key=f"t{number}", payload=b"%d" % number) for number in range(6)]
        found = list(TaskSpread(pool, tasks.echo).run(work))
    assert sorted(task.key for task, _ in found) == [task.key for task in work]
    assert [each.partition(" for")[0] for each in heard] == ["worker-0 has given no sign of life"]


def test_where_no_worker_is_left_that_can_do_it_that_is_told_and_then_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreads, "FIT_SECONDS", 1.0)
    heard: list[str] = []
    with made(tmp_path, "local:1") as pool:
        spread = TaskSpread(pool, tasks.echo, on_notice=heard.append)
        spread._unfit.update(pool.workers())
        with pytest.raises(ClusterLost, match="no worker is left that can do the work"):
            list(spread.run([SpreadTask(key="t")]))
    assert heard == ["no worker is left that can do the work; one is waited for 1 s"]


def test_a_task_that_only_one_worker_could_do_goes_to_its_successor(tmp_path: Path) -> None:
    heard: list[str] = []
    with made(tmp_path, on_notice=heard.append) as pool:
        spread = TaskSpread(pool, tasks.dies_once, on_notice=heard.append)
        spread.shut_out({address: "it is old" for address, name in pool.workers().items() if name == "worker-1"})
        ((_, answer),) = spread.run([SpreadTask(key="t", payload=str(tmp_path).encode())])
        assert answer.data == b"done"
    assert heard[0] == "a worker gets no work: it is old"
    assert "worker-0 ended (SIGKILL); another one is started" in heard


CLIENT = """
import sys
from pathlib import Path
from lab.machine import Host
from lab.sweep.cluster import ClusterTables, parse_cluster
from lab.sweep.pool import Pool
with Pool(parse_cluster("local:3"), ClusterTables(), Host.real(), Path(sys.argv[1]), dashboard=""):
    input()
"""


@pytest.mark.parametrize("children", [1, 2, 4])
def test_of_a_client_that_is_killed_while_it_starts_nothing_is_left(tmp_path: Path, children: int) -> None:
    client = subprocess.Popen([sys.executable, "-c", CLIENT, str(tmp_path)], stdin=subprocess.PIPE)
    path = Path(f"/proc/{client.pid}/task/{client.pid}/children")
    deadline = time.monotonic() + PATIENCE_SECONDS
    found: list[int] = []
    while len(found) < children:
        assert time.monotonic() < deadline
        found = list(map(int, path.read_text().split()))
        time.sleep(0.001)
    client.kill()
    client.wait()
    assert client.stdin
    client.stdin.close()
    until_gone(found)


class Ending:
    """A worker whose time is over as soon as it has begun."""

    name = "worker-0"

    def __init__(self, *, is_stubborn: bool = False) -> None:
        self.is_stubborn, self.is_closed = is_stubborn, False

    def end_of(self) -> str | None:
        return "its time is over"

    def tell_to_end(self) -> None: ...

    def close(self) -> None:
        self.is_closed = True
        if self.is_stubborn:
            raise OSError("no answer")


def one_that_works(folder: Path, clock: FakeClock, heard: list[str]) -> Any:
    """A pool without processes: its worker was connected, and ends."""
    host = replace(Host.real(), clock=clock)
    pool: Any = Pool(parse_cluster("local:1"), ClusterTables(), host, folder, heard.append)
    pool._handles, pool._makers = [Ending()], [Ending]
    pool._seen, pool._seen_at = {"a": "worker-0"}, float("inf")
    return pool


def test_jobs_that_end_with_their_time_are_replaced_for_ever_and_not_in_a_row(tmp_path: Path) -> None:
    clock, heard, joined = FakeClock(), list[str](), list[tuple[float, str]]()
    pool = one_that_works(tmp_path, clock, heard)
    pool.client = SimpleNamespace(get_events=lambda _: joined)

    def ends(times: int, after_seconds: float) -> None:
        for _ in range(times):
            clock.sleep(after_seconds)
            joined.append((clock.monotonic_seconds(), "worker-0"))
            pool.tend()

    ends(3 * pools.MOST_RESTARTS, 60.0)
    assert len(heard) == 3 * pools.MOST_RESTARTS
    with pytest.raises(ClusterLost, match="again and again"):
        ends(pools.MOST_RESTARTS + 1, 2.0)


@pytest.mark.parametrize("is_connected", [True, False])
def test_one_that_dies_before_the_client_has_looked_again_was_connected(tmp_path: Path, *, is_connected: bool) -> None:
    clock, heard, joined = FakeClock(), list[str](), list[tuple[float, str]]()
    pool = one_that_works(tmp_path, clock, heard)
    pool.client = SimpleNamespace(get_events=lambda _: joined)
    for _ in range(pools.MOST_STILLBORN):
        clock.sleep(2.0)
        joined += [(0.0, "worker-0")] * is_connected
        pool.tend()
    assert ("tried again" in heard[-1]) is not is_connected


def test_one_that_cannot_be_ended_keeps_no_other_from_it(tmp_path: Path) -> None:
    heard: list[str] = []
    pool = one_that_works(tmp_path, FakeClock(), heard)
    pool._handles = handles = [Ending(is_stubborn=True), Ending()]
    pool.close()
    assert all(each.is_closed for each in handles)
    assert heard == ["worker-0 may go on: no answer"]
