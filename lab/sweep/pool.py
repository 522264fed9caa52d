"""A running cluster: its scheduler, its workers, and a client of both. Closing it ends all processes that it started.

The scheduler of a local cluster or of one over ssh listens only on loopback; traffic with other computers goes through
ssh. The nodes of a Slurm cluster reach the scheduler over the network. In all three cases, connections are encrypted
with a certificate made for this cluster.
"""

from __future__ import annotations

import logging
import math
import os
import shutil
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from lab.errors import LabError, RequirementMissing, RunCancelled
from lab.gates.decoding import decode_json
from lab.host import signals
from lab.host.files import write_file
from lab.host.pool import processors
from lab.machine import Host
from lab.sweep.cluster import ClusterKind, ClusterSpec, ClusterTables
from lab.sweep.launch import LOOPBACK, Launcher, NodeProcess
from lab.sweep.node import JOINED, Keys, NodeReady, drop_dask_variables, security_of

if TYPE_CHECKING:
    from distributed import Client

INSTALL = "make cluster (in a clone), or pip install 'raidlab[cluster]'"
PAGES = f"{LOOPBACK}:8787"
"""The usual address of Dask's dashboard, as an example in help texts."""
START_SECONDS = 60.0
CONNECT_SECONDS = 20.0
"""Time for the scheduler to answer at the address that it has written."""
OTHERS_SECONDS = 10.0
"""Time for an existing scheduler to answer."""
FIRST_WORKER_SECONDS = 300.0
"""Time for a Slurm queue to start the first worker."""
MOST_RESTARTS, RESTARTS_SECONDS = 20, 600.0
"""Maximum restarts of workers within this time, or ``MOST_STILLBORN`` per worker; above it, the sweep gives up."""
AGAIN_SECONDS = 30.0
MOST_STILLBORN = 3
"""Number of times in a row that a worker may exit before it connects; over ssh, a port may be in use."""
SILENT_SECONDS, SUSPECTED_SECONDS = 90.0, 10.0
"""A worker is replaced after this silence, and this further observation; it sends a heartbeat every second."""
_TEND_SECONDS = 1.0
_SEEN_SECONDS = 0.5
_LOOK_SECONDS = 0.05
_QUIET_SECONDS = 5.0
_SCRATCH = "dask-scratch-space"
"""Folder with temporary files of Dask's processes."""
_LOGGERS = ("distributed", "distributed.client", "distributed.core", "tornado.application", "asyncio")


class ClusterLost(LabError):
    """The scheduler has exited, or no worker is left; cells measured so far are stored."""


class WorkerHandle(Protocol):
    """A worker that this client started."""

    name: str

    def end_of(self) -> str | None: ...
    def tell_to_end(self) -> None: ...
    def close(self) -> None: ...


def require_dask() -> None:
    """Raises RequirementMissing, with the command that installs Dask."""
    drop_dask_variables()
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise RequirementMissing("a sweep is spread by Dask, which is not installed", hint=INSTALL) from None
    # Dask's log messages are for its developers; raidlab reports errors itself.
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)


class Pool:
    """A cluster as a context manager; ``client`` is Dask's client inside the context."""

    client: Client
    dashboard: str = ""
    _launcher: Launcher

    def __init__(
        self,
        spec: ClusterSpec,
        tables: ClusterTables,
        host: Host,
        folder: Path,
        on_notice: Callable[[str], None] = lambda _: None,
        *,
        dashboard: str = "",
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """``folder`` receives logs and certificates; ``dashboard`` is HOST:PORT of Dask's web pages, or empty for none.

        ``is_cancelled`` is polled while the cluster starts; when it returns True, RunCancelled is raised.
        """
        require_dask()
        self.spec, self.tables = spec, tables
        self._host, self._folder, self._on_notice = host, folder, on_notice
        self._asked_dashboard, self._is_cancelled = dashboard, is_cancelled
        self._stack = ExitStack()
        self._keys = Keys()
        self._scheduler: NodeProcess | None = None
        self._handles: list[WorkerHandle] = []
        self._makers: list[Callable[[], WorkerHandle]] = []
        self._restarts: deque[float] = deque()
        """Times of the restarts within the last ``RESTARTS_SECONDS``."""
        self._not_before: dict[int, float] = {}
        """Index of a worker -> the time before which it is not started again."""
        self._stillborn: dict[int, int] = {}
        """Index of a worker -> number of times in a row that it exited before it connected."""
        self._joined: dict[str, int] = {}
        """Name of a worker -> number of its connections when the last process of this name exited."""
        self._heard: dict[str, float] = {}
        """Name of a worker -> time of its last heartbeat, by the scheduler's clock."""
        self._suspected: dict[str, float] = {}
        """Name of a worker -> when its silence was first noticed, by this computer's monotonic clock."""
        self._tended = 0.0
        self._seen: dict[str, str] = {}
        self._seen_at = 0.0
        self._empty_since: float | None = None

    def __enter__(self) -> Self:
        # Finish the cleanup after signals, since Slurm would keep submitted jobs in its queue.
        self._stack.enter_context(signals.unhurried())
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
        """Name -> process id of the scheduler and the workers that run on this computer."""
        nodes = [each for each in (self._scheduler, *self._handles) if isinstance(each, NodeProcess)]
        return {each.name: each.process.pid for each in nodes}

    def workers(self) -> dict[str, str]:
        """Address -> name of all connected workers, at most half a second old."""
        now = self._host.clock.monotonic_seconds()
        if now > self._seen_at + _SEEN_SECONDS or not self._seen:
            # If the scheduler is gone, ``tend`` raises the error.
            with suppress(OSError):
                found = self.client.scheduler_info(n_workers=-1).get("workers", {})
                self._seen = {str(address): str(each["name"]) for address, each in found.items()}
                self._heard = {str(each["name"]): float(each["last_seen"]) for each in found.values()}
            self._seen_at = now
        return self._seen

    def now(self) -> float:
        """This computer's monotonic clock, in seconds."""
        return self._host.clock.monotonic_seconds()

    def tend(self) -> None:
        """Restart workers that have exited. Raises ClusterLost if the scheduler is gone or no worker is left."""
        now = self._host.clock.monotonic_seconds()
        if self._scheduler and (end := self._scheduler.end_of()):
            raise ClusterLost(f"the cluster is lost: its {end}", hint="finished cells are stored: --resume continues")
        if now < self._tended + _TEND_SECONDS:
            return
        self._tended = now
        workers = self.workers()
        for number, handle in enumerate(self._handles):
            if now >= self._not_before.get(number, 0.0) and (end := handle.end_of() or self._silence_of(handle.name)):
                self._replace(number, handle, end)
        if workers:
            self._empty_since = None
        elif self._empty_since is None:
            self._empty_since = now
        elif now > self._empty_since + self._patience_seconds:
            raise ClusterLost(
                f"no worker for {self._patience_seconds:.0f} s", hint="look at the cluster; --resume continues"
            )

    def _silence_of(self, name: str) -> str | None:
        """A message if a connected worker sends no heartbeat; the scheduler's clock is this computer's."""
        silent_seconds = self._host.clock.utc_now().timestamp() - self._heard.get(name, math.inf)
        if silent_seconds < SILENT_SECONDS:
            self._suspected.pop(name, None)
            return None
        # After the computer was suspended, heartbeats arrive again within moments.
        if self.now() < self._suspected.setdefault(name, self.now()) + SUSPECTED_SECONDS:
            return None
        # Do not report the new process before its first heartbeat.
        del self._heard[name], self._suspected[name]
        return f"{name} has given no sign of life for {silent_seconds:.0f} s"

    @property
    def _patience_seconds(self) -> float:
        return START_SECONDS if self.spec.kind is ClusterKind.LOCAL else FIRST_WORKER_SECONDS

    def _replace(self, number: int, handle: WorkerHandle, end: str) -> None:
        joined = self._joined_so_far(handle.name)
        was_connected = joined > self._joined.get(handle.name, 0)
        self._stillborn[number] = 0 if was_connected else self._stillborn.get(number, 0) + 1
        self._joined[handle.name] = joined
        now = self._host.clock.monotonic_seconds()
        self._restarts.append(now)
        # Jobs of a queue reach their time limit again and again during a long sweep, so only recent restarts count.
        while self._restarts[0] < now - RESTARTS_SECONDS:
            self._restarts.popleft()
        if len(self._restarts) > max(MOST_RESTARTS, MOST_STILLBORN * len(self._handles)):
            raise ClusterLost(f"workers end again and again, the last: {end}", hint=self._see_logs)
        if self._stillborn[number] >= MOST_STILLBORN:
            if not self.workers():
                raise ClusterLost(f"no worker starts: {end}", hint=self._see_logs)
            self._later(number, end)
            return
        self._on_notice(f"{end}; another one is started")
        handle.close()
        try:
            self._handles[number] = self._makers[number]()
        except LabError as error:
            self._later(number, f"{handle.name} cannot be started: {error.message}")

    def _joined_so_far(self, name: str) -> int:
        """Number of connections of a worker; the scheduler logs them, since ``workers`` may miss a short one."""
        # If the scheduler is gone, ``tend`` raises the error.
        with suppress(OSError):
            events = self.client.get_events(JOINED)
            return sum(joined == name for _, joined in events)
        return 0

    def _later(self, number: int, why: str) -> None:
        """Try this worker again after ``AGAIN_SECONDS``, when its computer may be back; the others continue."""
        self._on_notice(f"{why}; it is tried again in {AGAIN_SECONDS:.0f} s")
        self._stillborn[number] = 0
        self._not_before[number] = self._host.clock.monotonic_seconds() + AGAIN_SECONDS

    @property
    def _see_logs(self) -> str:
        return f"look at the logs in {self._folder}"

    def _wait_for_workers(self) -> None:
        """Wait until all started workers are connected, or the first one of a queue or of an existing scheduler.

        Raises ClusterLost if none connects, RunCancelled.
        """
        clock = self._host.clock
        begin = clock.monotonic_seconds()
        comes_slowly = self.spec.kind in (ClusterKind.ADDRESS, ClusterKind.SLURM)
        is_told = False
        while True:
            workers = self.workers()
            wanted = 1 if comes_slowly else len(self._handles) - len(self._not_before)
            passed = clock.monotonic_seconds() - begin
            if workers and (len(workers) >= wanted or passed > START_SECONDS):
                return
            if not workers and passed > _QUIET_SECONDS and not is_told:
                self._on_notice(f"no worker is connected yet; it is waited for {self._patience_seconds:.0f} s")
                is_told = True
            self._pause()
            self.tend()

    def _pause(self) -> None:
        if self._is_cancelled():
            raise RunCancelled("the work was ended before its time", hint="nothing was begun yet")
        self._host.clock.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """End the scheduler and all workers that were started."""
        client = getattr(self, "client", None)
        if client is not None:
            with suppress(Exception):  # the cluster may be gone
                client.close(timeout=5)
        for handle in self._handles:
            handle.tell_to_end()
        for handle in self._handles:
            try:
                handle.close()
            except Exception as error:  # end the others in any case
                self._on_notice(f"{handle.name} may go on: {error}")
        self._handles.clear()
        if self._scheduler:
            self._scheduler.close()
            self._scheduler = None
        self._stack.close()
        shutil.rmtree(self._folder / _SCRATCH, ignore_errors=True)

    def _start(self) -> None:
        kind = self.spec.kind
        if kind is ClusterKind.ADDRESS:
            self.client = self._client_of_others()
        else:
            from distributed import Security  # which has no types

            make_security: Any = Security
            fresh = make_security.temporary()
            self._keys = Keys(certificate=str(fresh.tls_ca_file), key=str(fresh.tls_client_key))
            self._launcher = Launcher(self._host, self._folder, self._keys, self.tables.ssh)
            ready = self._start_scheduler()
            self.dashboard = ready.dashboard
            try:
                self.client = _client(ready.address, security_of(self._keys), CONNECT_SECONDS)
            except Exception as error:
                raise ClusterLost(f"the scheduler cannot be reached: {error}", hint=self._see_logs) from None
            for make in self._worker_makers(ready.address):
                self._makers.append(make)
                self._handles.append(make())
        self._wait_for_workers()

    def _client_of_others(self) -> Client:
        """A client of an existing scheduler, with the certificates named in the user's configuration of Dask."""
        from distributed import Security

        make_security: Any = Security
        address = self.spec.address
        security = make_security() if address.startswith("tls:") else None
        if security is not None and not security.tls_ca_file:
            raise ClusterLost(
                f"no certificate for {address}",
                hint="name its files in Dask's configuration: distributed.comm.tls in ~/.config/dask/*.yaml",
            )
        try:
            return _client(address, security, OTHERS_SECONDS)
        except Exception as error:  # any exception for an answer that is not Dask's
            said = str(error).strip().splitlines() or [type(error).__name__]
            raise ClusterLost(
                f"no scheduler of Dask answers at {address}: {said[0]}", hint="check the address, and that it runs"
            ) from None

    def _start_scheduler(self) -> NodeReady:
        """Start the scheduler and wait for its address. Raises ClusterLost with its last error, RunCancelled."""
        is_near = self.spec.kind is not ClusterKind.SLURM
        host = LOOPBACK if is_near else self.tables.slurm.host or os.uname().nodename
        node = self._scheduler = self._launcher.scheduler(host, self._asked_dashboard)
        assert node.process.stdout is not None
        os.set_blocking(node.process.stdout.fileno(), False)
        line, until = b"", self._host.clock.monotonic_seconds() + START_SECONDS
        while not line.endswith(b"\n"):
            line += node.process.stdout.read(4096) or b""
            end = node.end_of()
            if end or self._host.clock.monotonic_seconds() > until:
                pages = f", with its pages at {self._asked_dashboard}" if self._asked_dashboard else ""
                raise ClusterLost(
                    f"the scheduler does not start{pages}: {end or f'it has said nothing for {START_SECONDS:.0f} s'}",
                    hint=f"{'--dashboard none leaves the pages away; ' if pages else ''}the whole is in {node.log}",
                )
            self._pause()
        return decode_json(line, NodeReady)

    def _worker_makers(self, address: str) -> Iterator[Callable[[], WorkerHandle]]:
        match self.spec.kind:
            case ClusterKind.LOCAL:
                for number in range(self.spec.workers or processors()):
                    yield partial(self._launcher.local_worker, f"worker-{number}", address)
            case ClusterKind.SSH:
                for host in self.spec.hosts:
                    count = self._launcher.processors_of(host)
                    for number in range(self.tables.ssh.workers or count):
                        yield partial(self._launcher.ssh_worker, host, f"{host}-{number}", address)
            case _:
                from lab.sweep.slurm import SlurmWorkers

                slurm = SlurmWorkers(self.tables.slurm, address, self._written_keys(), self._folder, self._host)
                for number in range(self.tables.slurm.workers):
                    yield partial(slurm.submit, f"slurm-{number}")

    def _written_keys(self) -> tuple[Path, Path]:
        """Write certificate and key to files that only this user can read; they are removed when the pool closes."""
        paths = (self._folder / "cluster.crt", self._folder / "cluster.key")
        for path, text in zip(paths, (self._keys.certificate, self._keys.key), strict=True):
            write_file(path, text.encode(), mode=0o600)
            self._stack.callback(path.unlink, missing_ok=True)
        return paths


def _client(address: str, security: Any, timeout_seconds: float) -> Client:
    from distributed import Client

    make: Any = Client
    found: Client = make(address, security=security, timeout=timeout_seconds, set_as_default=False)
    return found
