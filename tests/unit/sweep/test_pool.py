"""Real pools of Dask on this computer: how they start and end, what is repeated, and which ports they open."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import dask.config
import pytest

from lab.errors import LabError, RunCancelled
from lab.machine import Host
from lab.sweep import pool as pools
from lab.sweep import spread as spreads
from lab.sweep.cluster import ClusterLost, ClusterTables, parse_cluster
from lab.sweep.pool import Pool
from lab.sweep.spread import Calls, SpreadTask, TaskSpread
from tests.cluster import keeper
from tests.unit.fakes import FakeClock
from tests.unit.sweep import tasks
from tests.waiting import is_running, listening, wait_until

pytestmark = [
    pytest.mark.slow,
    # Dask gives up a connection that is too slow without closing its socket, which is collected at some later time.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
PATIENCE_SECONDS = 120.0


@pytest.fixture(scope="module", autouse=True)
def no_sockets_left() -> Iterator[None]:
    """Sockets of Dask do not reach the tests of other files."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def made(folder: Path, cluster: str = "local:2", **options: Any) -> Pool:
    return Pool(parse_cluster(cluster), ClusterTables(), Host.real(), folder, **options)


def task(name: str, payload: bytes) -> SpreadTask:
    return SpreadTask(key=name, label=name, payload=payload)


def children_of(pid: int) -> list[int]:
    """The processes that ``pid`` has started, except the one that multiprocessing starts for itself."""
    return [each for each in keeper.children_of(pid) if b"resource_tracker" not in _command(each)]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.fixture(scope="module")
def notices() -> list[str]:
    return []


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory, notices: list[str]) -> Iterator[Pool]:
    with made(tmp_path_factory.mktemp("pool"), on_notice=notices.append) as pool:
        yield pool


def wait_for_notices(pool: Pool, notices: list[str], text: str = "another one is started", count: int = 1) -> None:
    """Wait until ``count`` notices have ``text``: a loss may be reported after the answer of another worker."""

    def are_reported() -> bool:
        pool.tend()
        return sum(text in each for each in notices) >= count

    wait_until(are_reported, PATIENCE_SECONDS, lambda: f"reported: {notices}")


def test_every_task_has_its_answer(pool: Pool) -> None:
    spread = TaskSpread(pool, tasks.echo)
    found = {each.key: answer.data for each, answer in spread.run(task(f"t{n}", b"%d" % n) for n in range(40))}
    assert len(found) == 40
    assert all(found[f"t{n}"].startswith(b"%d " % n) for n in range(40))


def test_both_workers_run_tasks_at_the_same_time(pool: Pool, tmp_path: Path) -> None:
    folder = str(tmp_path).encode()
    found = {answer.data for _, answer in TaskSpread(pool, tasks.meets).run([task("one", folder), task("two", folder)])}
    assert found == {str(pid).encode() for pid in pool.process_ids.values()}


def test_what_fails_is_repeated_once_elsewhere_and_then_reported(pool: Pool, tmp_path: Path) -> None:
    spread = TaskSpread(pool, tasks.fails)
    ((_, answer),) = spread.run([task("bad", str(tmp_path).encode())])
    assert (answer.failure, answer.hint) == ("it cannot be done", "leave it")
    assert answer.console == "its last words"
    assert len(list(tmp_path.iterdir())) == 2, "two processes were asked"


def test_a_worker_that_lacks_something_gets_no_more_and_no_task_is_lost(pool: Pool, tmp_path: Path) -> None:
    heard: list[str] = []
    spread = TaskSpread(pool, tasks.lacks_on_one, on_notice=heard.append)
    found = [answer.data for _, answer in spread.run(task(f"u{n}", str(tmp_path).encode()) for n in range(6))]
    assert found == [b"done"] * 6
    assert heard == ["a worker gets no work: no kernel here"]


def test_without_a_suitable_worker_it_ends(pool: Pool) -> None:
    spread = TaskSpread(pool, tasks.echo)
    with pytest.raises(ClusterLost, match="no worker can do the work"):
        spread.shut_out(dict.fromkeys(pool.workers(), "no kernel"))


def test_without_a_suitable_worker_the_wait_is_reported_and_limited(
    pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spreads, "FIT_SECONDS", 1.0)
    heard: list[str] = []
    spread = TaskSpread(pool, tasks.echo, on_notice=heard.append)
    spread._unfit.update(pool.workers())
    with pytest.raises(ClusterLost, match="no worker is left that can do the work"):
        list(spread.run([SpreadTask(key="t")]))
    assert heard == ["no worker is left that can do the work; waiting up to 1 s for one"]


def test_a_spread_that_is_ended_leaves_nothing_out(pool: Pool, tmp_path: Path) -> None:
    before = set(pool.client.futures)
    counts: list[int] = []

    def is_third_question() -> bool:
        counts.append(len(set(pool.client.futures) - before))
        return len(counts) == 3

    folder = str(tmp_path).encode()
    spread = TaskSpread(pool, tasks.sleeps, is_cancelled=is_third_question)
    try:
        with pytest.raises(RunCancelled):
            list(spread.run([task("one", folder), task("two", folder)]))
        assert counts[-1] == 2
        assert not set(pool.client.futures) - before
    finally:
        # Otherwise the workers stay busy.
        (tmp_path / "awake").touch()
    # The ends of these futures are not taken for answers; otherwise tasks would be sent again.
    again = spread.run([task("two", folder), task("three", folder)])
    assert sorted((each.key, answer.data) for each, answer in again) == [("three", b"done"), ("two", b"done")]
    assert spread._generation == 4


def test_a_worker_that_dies_is_replaced_and_its_task_done_by_another(
    pool: Pool, tmp_path: Path, notices: list[str]
) -> None:
    notices.clear()
    spread = TaskSpread(pool, tasks.dies_once)
    ((_, answer),) = spread.run([task("dies", str(tmp_path).encode())])
    assert answer.data == b"done"

    wait_for_notices(pool, notices)
    wait_until(lambda: len(pool.workers()) == 2, PATIENCE_SECONDS)


def test_a_task_that_only_one_worker_could_do_goes_to_its_successor(
    pool: Pool, tmp_path: Path, notices: list[str]
) -> None:
    # The workers as the scheduler has them now; those of the pool may be half a second old.
    joined = pool._watch.joined
    wait_until(lambda: sorted(joined.values()) == ["worker-0", "worker-1"], PATIENCE_SECONDS)
    notices.clear()
    spread = TaskSpread(pool, tasks.dies_once, on_notice=notices.append)
    spread.shut_out({address: "it is old" for address, name in dict(joined).items() if name == "worker-1"})
    ((_, answer),) = spread.run([SpreadTask(key="t", payload=str(tmp_path).encode())])
    assert answer.data == b"done"
    assert notices[0] == "a worker gets no work: it is old"

    wait_for_notices(pool, notices, "worker-0 ended; another one is started")


def test_a_task_that_kills_each_of_its_workers_is_reported(pool: Pool, notices: list[str]) -> None:
    notices.clear()
    ((_, answer),) = TaskSpread(pool, tasks.dies).run([SpreadTask(key="dies")])
    assert "every worker that received this task died" in answer.failure
    ((_, after),) = TaskSpread(pool, tasks.echo).run([SpreadTask(key="more", payload=b"x")])
    assert after.data.startswith(b"x ")
    wait_for_notices(pool, notices, count=3)


def test_calls_give_answers_and_errors(pool: Pool, tmp_path: Path) -> None:
    calls = Calls(pool)
    assert calls(tasks.echo, b"x").startswith(b"x ")
    with pytest.raises(LabError, match="it cannot be done"):
        calls(tasks.fails, str(tmp_path).encode())


@pytest.mark.parametrize(("pages", "ports"), [("", 3), ("127.0.0.1:0", 4)])
def test_scheduler_nanny_and_worker_listen_on_one_port_of_loopback_each(tmp_path: Path, pages: str, ports: int) -> None:
    before = listening([os.getpid()])
    with made(tmp_path, "local:1", dashboard=pages) as pool:
        assert bool(pool.dashboard) == bool(pages)
        found = listening([os.getpid(), *pool.process_ids.values()])
        assert [found[inode] for inode in found.keys() - before] == ["0100007F"] * ports


def test_without_a_certificate_the_scheduler_does_not_answer(pool: Pool) -> None:
    host, _, port = str(pool.client.scheduler_info()["address"]).removeprefix("tls://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=PATIENCE_SECONDS) as line:
        line.sendall(b"\x80\x00\x00\x00\x00\x00\x00\x00" * 8)
        heard = b""
        with suppress(ConnectionError):
            while piece := line.recv(1000):
                heard += piece
    assert b"op" not in heard


@pytest.mark.parametrize("started", [0, 1])
def test_a_start_that_is_cancelled_leaves_nothing(tmp_path: Path, started: int) -> None:
    before = set(children_of(os.getpid()))
    seen: set[int] = set()

    def is_cancelled() -> bool:
        seen.update(set(children_of(os.getpid())) - before)
        return len(seen) >= started

    with pytest.raises(RunCancelled), made(tmp_path, is_cancelled=is_cancelled):
        pass
    assert len(seen) >= started
    assert not [pid for pid in set(children_of(os.getpid())) - before if is_running(pid)]


def test_a_worker_that_ends_before_it_connects_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pools, "AGAIN_SECONDS", 0.0)
    monkeypatch.setattr(pools, "QuietWorker", partial(tasks.worker_after_one, tmp_path))
    heard: list[str] = []

    with made(tmp_path, on_notice=heard.append) as pool:

        def are_both_there() -> bool:
            pool.tend()
            return sorted(pool.workers().values()) == ["worker-0", "worker-1"]

        wait_until(are_both_there, PATIENCE_SECONDS)
    assert [each for each in heard if "it will be started again" in each]


def test_where_no_worker_starts_the_reason_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "QuietWorker", tasks.no_worker)
    with pytest.raises(ClusterLost, match="no worker starts: worker-0: no such thing"), made(tmp_path, "local:1"):
        pass


def test_pages_that_cannot_be_served_are_named(tmp_path: Path) -> None:
    # An address that no computer has: RFC 5737.
    with (
        pytest.raises(ClusterLost, match=r"pages at 192\.0\.2\.1:8787: OSError: .*assign") as caught,
        made(tmp_path, dashboard="192.0.2.1:8787"),
    ):
        pass
    assert "--dashboard none" in caught.value.hint


@pytest.fixture
def other_server() -> Iterator[int]:
    """The port of a server that speaks HTTP."""
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


def test_an_address_without_a_scheduler_is_reported(
    tmp_path: Path, other_server: int, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pools, "OTHERS_SECONDS", 2.0)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        for port in (other_server, bound.getsockname()[1]):
            address = f"tcp://127.0.0.1:{port}"
            with pytest.raises(ClusterLost, match=f"no Dask scheduler answers at {address}"), made(tmp_path, address):
                pass
    with pytest.raises(ClusterLost, match="no certificate"), made(tmp_path, f"tls://127.0.0.1:{other_server}"):
        pass
    assert "Traceback" not in capfd.readouterr().err


def test_workers_ignore_ctrl_c_and_end_with_their_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = set(children_of(os.getpid()))

    def interrupt() -> bool:
        for pid in set(children_of(os.getpid())) - before:
            os.kill(pid, signal.SIGINT)
        return False

    heard: list[str] = []
    with made(tmp_path, is_cancelled=interrupt, on_notice=heard.append) as pool:
        assert not [each for each in heard if "ended" in each]
        pids = list(pool.process_ids.values())
        for pid in pids:
            os.kill(pid, signal.SIGINT)
        spread = TaskSpread(pool, tasks.echo)
        work = (SpreadTask(key=f"t{number}", payload=b"%d" % number) for number in range(8))
        # On a busy computer one worker may do all of it.
        assert {int(answer.data.split()[1]) for _, answer in spread.run(work)} <= set(pids)
        assert all(is_running(pid) for pid in pids)
        monkeypatch.setattr(pools, "START_SECONDS", PATIENCE_SECONDS)
        begin = time.monotonic()
    # A shutdown that hangs is given up after that time.
    assert time.monotonic() - begin < PATIENCE_SECONDS
    assert not [pid for pid in pids if is_running(pid)]


def test_a_worker_that_hangs_is_replaced_and_its_task_done(tmp_path: Path) -> None:
    heard: list[str] = []
    with dask.config.set({"distributed.scheduler.worker-ttl": "10s"}), made(tmp_path, on_notice=heard.append) as pool:

        def is_stopped() -> bool:
            # If a worker was delayed for longer, it is being restarted, and has no process for a moment.
            pool.tend()
            with suppress(KeyError, ProcessLookupError):
                os.kill(pool.process_ids["worker-0"], signal.SIGSTOP)
                return True
            return False

        wait_until(is_stopped, PATIENCE_SECONDS)
        work = [SpreadTask(key=f"t{number}", payload=b"%d" % number) for number in range(6)]
        found = list(TaskSpread(pool, tasks.echo).run(work))
        wait_for_notices(pool, heard, "worker-0 ended; another one is started")
    assert sorted(task.key for task, _ in found) == [task.key for task in work]


CLIENT = """
import sys
from pathlib import Path
from lab.machine import Host
from lab.sweep.cluster import ClusterTables, parse_cluster
from lab.sweep.pool import Pool
with Pool(parse_cluster("local:3"), ClusterTables(), Host.real(), Path(sys.argv[1])):
    input()
"""


@pytest.mark.parametrize("children", [1, 3])
def test_of_a_client_that_is_killed_while_it_starts_nothing_is_left(tmp_path: Path, children: int) -> None:
    client = subprocess.Popen([sys.executable, "-c", CLIENT, str(tmp_path)], stdin=subprocess.PIPE)
    deadline = time.monotonic() + PATIENCE_SECONDS
    found: list[int] = []
    while len(found) < children:
        assert time.monotonic() < deadline
        found = children_of(client.pid)
        time.sleep(0.001)
    client.kill()
    client.wait()
    assert client.stdin
    client.stdin.close()
    wait_until(lambda: not any(map(is_running, found)), PATIENCE_SECONDS)


def test_jobs_that_end_with_their_time_are_replaced_for_ever_and_not_in_a_row(tmp_path: Path) -> None:
    clock, heard = FakeClock(), list[str]()
    host = replace(Host.real(), clock=clock)
    pool = Pool(parse_cluster("slurm"), ClusterTables(), host, tmp_path, heard.append)

    def ends(times: int, after_seconds: float) -> None:
        for _ in range(times):
            clock.sleep(after_seconds)
            pool._watch.lost.put("slurm-0")
            pool._count_losses(pool.now())

    ends(3 * pools.MOST_LOSSES, 60.0)
    assert len(heard) == 3 * pools.MOST_LOSSES
    with pytest.raises(ClusterLost, match="keep exiting"):
        ends(pools.MOST_LOSSES + 1, 2.0)
