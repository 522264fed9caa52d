"""A running cluster: its scheduler, its workers, and a client of both. What it started ends with it.

The scheduler of a local cluster and of one over ssh listens on loopback alone: what goes to other computers goes
through ssh. Slurm's nodes reach it over the network. All three are encrypted with a certificate that only this cluster
has.
"""

from __future__ import annotations

import logging
import os
import random
import shlex
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec

from lab.errors import LabError, RequirementMissing
from lab.host.pool import processors
from lab.host.processes import RunningProcess
from lab.machine import Host
from lab.sweep.cluster import ClusterKind, ClusterSpec, ClusterTables, SshTable
from lab.sweep.node import SCHEDULER, Keys, NodeReady, NodeSettings, security_of

if TYPE_CHECKING:
    from distributed import Client

INSTALL = "make cluster (in a clone), or pip install 'raidlab[cluster]'"
LOOPBACK = "127.0.0.1"
DASHBOARD = f"{LOOPBACK}:8787"
START_SECONDS = 60.0
FIRST_WORKER_SECONDS = 300.0
"""How long a queue of Slurm may take to give a first one."""
MOST_RESTARTS = 20
"""Of workers, before something is wrong with the cluster and not with one of them."""
AGAIN_SECONDS = 30.0
_PORTS = range(20_000, 60_000)
_PORT_TRIES = 3
MOST_STARTING = 16
_TEND_SECONDS = 2.0
_SEEN_SECONDS = 0.5


class ClusterLost(LabError):
    """The scheduler has ended, or there is no worker any more; what was measured is kept."""


class WorkerHandle(Protocol):
    """A worker that was started here."""

    name: str

    def end_of(self) -> str | None: ...
    def close(self) -> None: ...


def require_dask() -> None:
    """Raises RequirementMissing, with the command that brings it."""
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise RequirementMissing("a sweep is spread by Dask, which is not installed", hint=INSTALL) from None


@dataclass(slots=True)
class NodeProcess:
    """A process of ours: of this computer, or the ssh that leads to one of another."""

    name: str
    process: RunningProcess
    ready: NodeReady
    log: Path

    def end_of(self) -> str | None:
        """Why it is over; None while it runs."""
        status = self.process.poll()
        return None if status is None else f"{self.name} ended with status {status}"

    def close(self) -> None:
        """It ends when its input does."""
        with suppress(OSError):
            if self.process.stdin:
                self.process.stdin.close()
        try:
            self.process.wait(timeout=END_SECONDS)
        except Exception:  # whatever keeps it
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


END_SECONDS = 12.0


class Pool:
    """``with Pool(…) as pool``: ``pool.client`` is Dask's."""

    client: Client
    dashboard: str = ""

    def __init__(
        self,
        spec: ClusterSpec,
        tables: ClusterTables,
        host: Host,
        folder: Path,
        on_notice: Callable[[str], None] = lambda _: None,
        *,
        dashboard: str = DASHBOARD,
    ) -> None:
        """``folder``: for logs and certificates. ``dashboard``: HOST:PORT of Dask's own pages; empty: none."""
        require_dask()
        self.spec, self.tables = spec, tables
        self._host, self._folder, self._on_notice = host, folder, on_notice
        self._asked_dashboard = dashboard
        self._stack = ExitStack()
        self._keys = Keys()
        self._scheduler: NodeProcess | None = None
        self._handles: list[WorkerHandle] = []
        self._makers: list[Callable[[], WorkerHandle]] = []
        self._restarts = 0
        self._not_before: dict[int, float] = {}
        """Worker -> when it may be started again."""
        self._tended = 0.0
        self._seen: dict[str, str] = {}
        self._seen_at = 0.0
        self._empty_since: float | None = None
        self._random = random.SystemRandom()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def process_ids(self) -> dict[str, int]:
        """Of what was started on this computer: ``scheduler`` and names of workers."""
        nodes = [each for each in (self._scheduler, *self._handles) if isinstance(each, NodeProcess)]
        return {each.name: each.process.pid for each in nodes}

    def workers(self) -> dict[str, str]:
        """Address -> name of every worker that is connected, as the scheduler said within the last half second."""
        now = self._host.clock.monotonic_seconds()
        if now > self._seen_at + _SEEN_SECONDS or not self._seen:
            # A scheduler that is gone has none; ``tend`` says so.
            with suppress(OSError):
                found = self.client.scheduler_info(n_workers=-1).get("workers", {})
                self._seen = {str(address): str(each["name"]) for address, each in found.items()}
            self._seen_at = now
        return self._seen

    def tend(self) -> None:
        """Start again what has ended. Raises ClusterLost if nothing can go on."""
        now = self._host.clock.monotonic_seconds()
        if self._scheduler and (end := self._scheduler.end_of()):
            raise ClusterLost(f"the cluster is lost: its {end}", hint="what was measured is kept: --resume goes on")
        if now < self._tended + _TEND_SECONDS:
            return
        self._tended = now
        for number, handle in enumerate(self._handles):
            if now >= self._not_before.get(number, 0.0) and (end := handle.end_of()):
                self._replace(number, handle, end)
        if self.workers():
            self._empty_since = None
        elif self._empty_since is None:
            self._empty_since = now
        elif now > self._empty_since + FIRST_WORKER_SECONDS:
            raise ClusterLost(
                f"no worker for {FIRST_WORKER_SECONDS:.0f} s", hint="look at the cluster; --resume goes on"
            )

    def _replace(self, number: int, handle: WorkerHandle, end: str) -> None:
        self._restarts += 1
        if self._restarts > MOST_RESTARTS:
            raise ClusterLost(
                f"workers end again and again, the last: {end}", hint=f"look at the logs in {self._folder}"
            )
        self._on_notice(f"{end}; another one is started")
        handle.close()
        try:
            self._handles[number] = self._makers[number]()
        except LabError as error:
            # Its computer may come back. Meanwhile the others go on.
            self._on_notice(f"{handle.name} cannot be started: {error.message}")
            self._not_before[number] = self._host.clock.monotonic_seconds() + AGAIN_SECONDS

    def wait_for_worker(self) -> None:
        """Until there is one. Raises ClusterLost."""
        while not self.workers():
            self.tend()
            self._host.clock.sleep(0.1)

    def close(self) -> None:
        """End everything that was started."""
        client = getattr(self, "client", None)
        if client is not None:
            with suppress(Exception):  # of a cluster that is gone
                client.close(timeout=5)
        for handle in self._handles:
            with suppress(Exception):
                if isinstance(handle, NodeProcess) and handle.process.stdin:
                    handle.process.stdin.close()
        for handle in self._handles:
            handle.close()
        self._handles.clear()
        if self._scheduler:
            self._scheduler.close()
            self._scheduler = None
        self._stack.close()

    def _start(self) -> None:
        # Its words are for whoever develops it; what matters is told by us.
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        from distributed import Client, Security  # whose words have no types

        make_client: Any = Client
        make_security: Any = Security

        kind = self.spec.kind
        if kind is ClusterKind.ADDRESS:
            address, security = self.spec.address, None
        else:
            fresh = make_security.temporary()
            self._keys = Keys(certificate=str(fresh.tls_ca_file), key=str(fresh.tls_client_key))
            host = LOOPBACK if kind is not ClusterKind.SLURM else self.tables.slurm.host or os.uname().nodename
            self._scheduler = self._start_scheduler(host)
            self.dashboard = self._scheduler.ready.dashboard
            address, security = self._scheduler.ready.address, security_of(self._keys)
        try:
            self.client = make_client(address, security=security, timeout=START_SECONDS, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            raise ClusterLost(f"no scheduler answers at {address}: {error}", hint="check the address") from None
        if kind is not ClusterKind.ADDRESS:
            self._makers = list(self._worker_makers(address))
            # Each takes half a second until it serves.
            with ThreadPoolExecutor(min(len(self._makers), MOST_STARTING)) as starting:
                begun = [starting.submit(make) for make in self._makers]
            self._handles = [each.result() for each in begun if each.exception() is None]
            for each in begun:
                each.result()
        self.wait_for_worker()

    def _start_scheduler(self, host: str) -> NodeProcess:
        settings = NodeSettings(
            role=SCHEDULER,
            keys=self._keys,
            listen=f"tls://{host}:0",
            folder=str(self._folder),
            dashboard=self._asked_dashboard,
        )
        return self._node("scheduler", (sys.executable, "-m", "lab.sweep.node"), settings)

    def _worker_makers(self, address: str) -> Iterator[Callable[[], WorkerHandle]]:
        match self.spec.kind:
            case ClusterKind.LOCAL:
                for number in range(self.spec.workers or processors()):
                    yield partial(self._local_worker, f"worker-{number}", address)
            case ClusterKind.SSH:
                table = self.tables.ssh
                for host in self.spec.hosts:
                    count = self._look_at(host, table)
                    for number in range(table.workers or count):
                        yield partial(self._ssh_worker, host, f"{host}-{number}", address)
            case _:
                from lab.sweep.slurm import SlurmWorkers

                slurm = SlurmWorkers(self.tables.slurm, address, self._written_keys(), self._folder, self._host)
                for number in range(self.tables.slurm.workers):
                    yield partial(slurm.submit, f"slurm-{number}")

    def _local_worker(self, name: str, address: str) -> NodeProcess:
        return self._node(name, (sys.executable, "-m", "lab.sweep.node"), self._worker_settings(name, address))

    def _worker_settings(self, name: str, address: str, **changes: str) -> NodeSettings:
        settings = NodeSettings(
            role="worker",
            keys=self._keys,
            listen=f"tls://{LOOPBACK}:0",
            scheduler=address,
            name=name,
            folder=str(self._folder),
        )
        return msgspec.structs.replace(settings, **changes)

    def _look_at(self, host: str, table: SshTable) -> int:
        """How many processors a host has. Raises LabError if raidlab is not there."""
        code = "import os, lab.sweep.node, distributed; print('processors', len(os.sched_getaffinity(0)))"
        found = self._host.processes.run((*self._ssh(host, table), _remote(table, ("-c", code))), timeout_seconds=60)
        word, _, count = found.stdout.strip().rpartition("processors ")
        if found.status or not count.isdecimal():
            said = (found.stderr.strip() or word or f"status {found.status}").splitlines()[-1]
            raise LabError(
                f"no worker can be started on {host}: {said}",
                hint="install raidlab with its cluster extra there, and say where its Python is: [cluster.ssh] python",
            )
        return int(count)

    def _ssh(self, host: str, table: SshTable, *options: str) -> tuple[str, ...]:
        config = ("-F", table.config) if table.config else ()
        return ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", *config, *options, "--", host)

    def _ssh_worker(self, host: str, name: str, address: str) -> NodeProcess:
        """A worker whose traffic, both ways, goes through the ssh that starts it: nothing listens but on loopback."""
        table, port = self.tables.ssh, address.rpartition(":")[2]
        for tries in range(_PORT_TRIES):
            there, back, ours = (self._random.choice(_PORTS) for _ in range(3))
            forwards = (f"-R{LOOPBACK}:{back}:{LOOPBACK}:{port}", f"-L{LOOPBACK}:{ours}:{LOOPBACK}:{there}")
            settings = self._worker_settings(
                name,
                f"tls://{LOOPBACK}:{back}",
                listen=f"tls://{LOOPBACK}:{there}",
                contact=f"tls://{LOOPBACK}:{ours}",
                folder="",
            )
            options = ("-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=15", *forwards)
            argv = (*self._ssh(host, table, *options), _remote(table, ("-m", "lab.sweep.node")))
            try:
                return self._node(name, argv, settings)
            except ClusterLost:
                # A port was taken.
                if tries == _PORT_TRIES - 1:
                    raise
        raise AssertionError(host)

    def _node(self, name: str, argv: tuple[str, ...], settings: NodeSettings) -> NodeProcess:
        """Start one process and wait until it serves. Raises ClusterLost with its last words."""
        log = self._folder / f"{name.replace('/', '-')}.log"
        with log.open("ab") as file:
            process = self._host.processes.start(argv, stderr_fd=file.fileno())
        line = b""
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):
                process.stdin.write(msgspec.json.encode(settings) + b"\n")
            line = process.stdout.readline()
            ready = msgspec.json.decode(line, type=NodeReady)
        except msgspec.DecodeError:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe:
                    pipe.close()
            words = log.read_text("utf-8", "replace").strip().splitlines() or [line.decode(errors="replace")]
            raise ClusterLost(f"{name} does not start: {words[-1]}", hint=f"the whole is in {log}") from None
        except BaseException:
            process.kill()
            raise
        return NodeProcess(name, process, ready, log)

    def _written_keys(self) -> tuple[Path, Path]:
        """Certificate and key as files that only this user reads; they go when the pool closes."""
        paths = (self._folder / "cluster.crt", self._folder / "cluster.key")
        for path, text in zip(paths, (self._keys.certificate, self._keys.key), strict=True):
            path.unlink(missing_ok=True)
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
            path.write_text(text, encoding="utf-8")
            self._stack.callback(path.unlink, missing_ok=True)
        return paths


def _remote(table: SshTable, arguments: tuple[str, ...]) -> str:
    """A line for the other computer's shell."""
    state = (f"RAIDLAB_STATE={table.state}",) if table.state else ()
    return shlex.join(("exec", "env", *state, table.python or sys.executable, *arguments))
