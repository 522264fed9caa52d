"""Real pools of Dask on this computer: what is tried again, shut out or replaced, and who may talk to them."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from lab.errors import LabError
from lab.host.clock import HostClock, wait_for
from lab.machine import Host
from lab.sweep.cluster import ClusterTables, parse_cluster
from lab.sweep.pool import ClusterLost, Pool
from lab.sweep.spread import Calls, SpreadTask, TaskSpread
from tests.unit.sweep import tasks

pytestmark = pytest.mark.slow
_READINGS = 5


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory, said: list[str]) -> Iterator[Pool]:
    folder = tmp_path_factory.mktemp("pool")
    with Pool(
        parse_cluster("local:2"), ClusterTables(), Host.real(), folder, said.append, dashboard="127.0.0.1:0"
    ) as made:
        while len(made.workers()) < 2:
            made.tend()
        yield made


def task(name: str, payload: bytes) -> SpreadTask:
    return SpreadTask(key=name, label=name, payload=payload)


def test_every_task_has_its_answer_and_both_workers_their_share(pool: Pool) -> None:
    spread = TaskSpread(pool, tasks.echo)
    found = {each.key: answer.data for each, answer in spread.run(task(f"t{n}", b"%d" % n) for n in range(40))}
    assert len(found) == 40
    assert all(found[f"t{n}"].startswith(b"%d " % n) for n in range(40))
    assert len({data.split()[1] for data in found.values()}) == 2
    assert (spread.state.done, spread.state.failed) == (40, 0)


def test_what_fails_is_tried_once_more_elsewhere_and_then_told(pool: Pool, tmp_path: Path) -> None:
    spread = TaskSpread(pool, tasks.fails)
    ((_, answer),) = spread.run([task("bad", str(tmp_path).encode())])
    assert (answer.failure, answer.hint) == ("it cannot be done", "leave it")
    assert answer.console == "its last words"
    assert len(list(tmp_path.iterdir())) == 2, "two processes were asked"
    assert (spread.state.tried_again, spread.state.failed) == (1, 1)


def test_a_worker_that_lacks_something_gets_no_more_and_no_task_is_lost(pool: Pool, tmp_path: Path) -> None:
    heard: list[str] = []
    spread = TaskSpread(pool, tasks.lacks_on_one, on_notice=heard.append)
    found = [answer.data for _, answer in spread.run(task(f"u{n}", str(tmp_path).encode()) for n in range(6))]
    assert found == [b"done"] * 6
    assert heard == ["a worker gets no work: no kernel here"]
    assert len(spread.state.unfit) == 1


def test_where_no_worker_is_left_it_ends(pool: Pool) -> None:
    spread = TaskSpread(pool, tasks.echo)
    with pytest.raises(ClusterLost, match="no worker can do the work"):
        spread.shut_out(dict.fromkeys(pool.workers(), "no kernel"))


def test_a_worker_that_dies_is_replaced_and_its_task_done_by_another(
    pool: Pool, tmp_path: Path, said: list[str]
) -> None:
    spread = TaskSpread(pool, tasks.dies_once)
    ((_, answer),) = spread.run([task("dies", str(tmp_path).encode())])
    assert answer.data == b"done"
    while len(pool.workers()) < 2 or not any("another one is started" in each for each in said):
        pool.tend()


def test_calls_give_answers_and_errors(pool: Pool, tmp_path: Path) -> None:
    calls = Calls(pool)
    assert calls(tasks.echo, b"x").startswith(b"x ")
    with pytest.raises(LabError, match="it cannot be done"):
        calls(tasks.fails, str(tmp_path).encode())


def test_its_pages_are_on_loopback_and_nothing_of_it_listens_elsewhere(pool: Pool) -> None:
    with urllib.request.urlopen(f"http://{pool.dashboard}/status", timeout=20) as page:
        assert page.status == 200
    # The scheduler's pages, and one port of each process, which wants a certificate.
    assert _listening_once_all_are_up(pool, 1 + len(pool.process_ids)) == ["0100007F"] * (1 + len(pool.process_ids))


def test_without_pages_each_process_listens_on_one_port_of_loopback_and_says_nothing_without_a_certificate(
    tmp_path: Path,
) -> None:
    with Pool(parse_cluster("local:1"), ClusterTables(), Host.real(), tmp_path) as pool:
        assert not pool.dashboard
        assert _listening_once_all_are_up(pool, 2) == ["0100007F"] * 2


def _listening_once_all_are_up(pool: Pool, ports: int) -> list[str]:
    """As ``_listening_of``: a worker that takes the place of another has no port for its first seconds."""
    return wait_for(
        lambda: _listening_of(pool),
        lambda found: len(found) >= ports,
        what="every process of the pool to listen",
        timeout_seconds=60,
        clock=HostClock(),
    )


def _listening_of(pool: Pool) -> list[str]:
    """The address, as proc(5) writes it, of each TCP port on which a process of the pool listens."""
    sockets = {target for pid in set(pool.process_ids.values()) for target in _sockets_of(pid)}
    # A list that others change while it is read may leave out a line, but not each time.
    listed = {
        tuple(line.split()[index] for index in (1, 3, 9))
        for name in ("tcp", "tcp6") * _READINGS
        for line in Path(f"/proc/net/{name}").read_text().splitlines()
    }
    return [address.partition(":")[0] for address, state, inode in listed if state == "0A" and inode in sockets]


def _sockets_of(pid: int) -> set[str]:
    found = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            name = str(link.readlink())
        except OSError:
            continue
        if name.startswith("socket:["):
            found.add(name[8:-1])
    return found


def test_whoever_has_no_key_is_not_heard(pool: Pool) -> None:
    host, _, port = str(pool.client.scheduler_info()["address"]).removeprefix("tls://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as line:
        line.settimeout(10)
        line.sendall(b"\x80\x00\x00\x00\x00\x00\x00\x00" * 8)
        heard = b""
        try:
            while piece := line.recv(1000):
                heard += piece
        except ConnectionError:
            pass
    assert b"op" not in heard
