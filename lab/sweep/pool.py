"""A running cluster and its client, built from Dask's own clusters with the workers and settings that a sweep needs.

The scheduler runs in this process. On this computer, Dask's Nanny starts and restarts the workers, and dask-jobqueue
provides Slurm's jobs. SpecCluster restarts any worker that is still missing when ``Pool.tend`` requests it.

raidlab replaces three parts, and a test shows for each why this is needed:

- QuietScheduler, QuietWorker: Dask opens an HTTP server in each scheduler and worker. Here each process has one port,
  which requires a certificate (test_scheduler_nanny_and_worker_listen_on_one_port_of_loopback_each).
- SshWorker: SSHCluster lets the workers and the scheduler listen on the network, and does not read ssh_config(5). Here
  ssh carries all traffic, and processes listen on loopback (test_over_ssh_nothing_listens_on_the_network).
- ``Pool.tend``: The scheduler does not know a worker that ends before it has connected, so Dask never replaces it
  (test_a_worker_that_ends_before_it_connects_is_started_again, and in tests/cluster
  test_a_job_that_is_cancelled_before_it_starts_is_submitted_again).
"""

from __future__ import annotations

import asyncio
import logging
import os
import queue
import random
import re
import shlex
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Self

import msgspec

from lab.errors import LabError, RequirementMissing, RunCancelled
from lab.host import signals
from lab.host.files import open_to_append
from lab.host.pool import held_back, processors
from lab.host.processes import RunningProcess, ended_how, isolated_python
from lab.machine import Host
from lab.sweep.cluster import LOOPBACK, ClusterKind, ClusterLost, ClusterSpec, ClusterTables, SshTable, require_dask

require_dask()
import dask.config  # noqa: E402 # Dask reads its configuration when it is imported
import distributed  # noqa: E402
from distributed.core import Status  # noqa: E402
from distributed.deploy.spec import ProcessInterface, SpecCluster  # noqa: E402
from distributed.diagnostics.plugin import SchedulerPlugin  # noqa: E402

from lab.sweep.node import PROCESSORS, NodeSettings, QuietScheduler, QuietWorker, Security, security_of  # noqa: E402

START_SECONDS = 60.0
OTHERS_SECONDS = 10.0
"""How long an existing scheduler may take to answer."""
FIRST_WORKER_SECONDS = 300.0
"""How long a Slurm queue may take to start the first worker."""
MOST_LOSSES, LOSSES_SECONDS = 20, 600.0
"""The sweep gives up if, within this time, it loses more workers than this and more than three times as many as it has.
"""
AGAIN_SECONDS = 30.0
"""Time after which a worker that ended before it connected is started again. Its computer may be back by then."""
END_SECONDS = 12.0
"""How long a process may take to exit after its input was closed."""
DEATH_SECONDS = 60
"""How long the worker of a Slurm job waits for a scheduler that has gone."""
_TEND_SECONDS = 1.0
_SEEN_SECONDS = 0.5
_POLL_SECONDS = 0.05
_QUEUE, _QUEUE_SECONDS = ("squeue", "--noheader", "--format=%i", "--me"), 10.0
_QUIET_SECONDS = 5.0
_SCRATCH = "dask-scratch-space"
"""Folder for the temporary files of Dask's processes."""
_SSH_FAILED = 255
"""The exit status of ssh(1) for its own errors."""
_PORTS = range(20_000, 60_000)
_NODE = ("-m", "lab.sweep.node")
_ERROR = re.compile(r"([a-z_]+\.)*[A-Z][A-Za-z]*(Error|Exception): ")
"""Matches the line of a traceback that names the exception."""
_DaskClient: Any = distributed.Client
_Nanny: Any = distributed.Nanny
_ProcessInterface: Any = ProcessInterface
_SchedulerPlugin: Any = SchedulerPlugin


class _Client(_DaskClient):  # type: ignore[misc] # it comes without types
    """A Dask client without a finalizer, so that only a call to ``close`` closes it.

    A client that cannot connect may be garbage-collected at any later time. Dask's finalizer would then take a lock. If
    the same thread is just starting another client, it already holds that lock, and the process would hang.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        try:
            super().__init__(*arguments, **options)
        except BaseException:
            self.close(timeout=0)
            raise

    def __del__(self) -> None:
        pass


class _Watch(_SchedulerPlugin):  # type: ignore[misc] # it comes without types
    """Records each worker that leaves the scheduler, because the client's ``workers`` may miss a short-lived one."""

    def __init__(self) -> None:
        self.joined: dict[str, str] = {}
        """Names of the connected workers, by address."""
        self.lost: queue.SimpleQueue[str] = queue.SimpleQueue()
        """Names of workers that have left."""

    def add_worker(self, scheduler: Any, worker: str) -> None:
        self.joined[worker] = str(scheduler.workers[worker].name)

    def remove_worker(self, scheduler: Any, worker: str, **_: Any) -> None:
        self.lost.put(self.joined.pop(worker, worker))


class SshWorker(_ProcessInterface):  # type: ignore[misc] # it comes without types
    """A worker on another computer, started through ssh, whose connection carries all traffic."""

    def __init__(
        self,
        scheduler: str,
        *,
        name: str,
        ssh_host: str,
        keys: tuple[str, str],
        table: SshTable,
        folder: Path,
        host: Host,
    ) -> None:
        """Take the certificate and its key (``keys``, as PEM), and the folder to which the log is written."""
        super().__init__(scheduler=scheduler, name=name)
        self.name, self._scheduler = name, scheduler
        self._ssh_host, self._keys, self._table, self._host = ssh_host, keys, table, host
        self._log = folder / f"{name.replace('/', '-')}.log"
        self._log_begin = 0
        self.process: RunningProcess | None = None

    async def start(self) -> None:
        """Start ssh. If this client dies, the worker's standard input ends, and the worker exits."""
        there, back, ours = (random.SystemRandom().choice(_PORTS) for _ in range(3))
        forwards = (
            f"-R{LOOPBACK}:{back}:{LOOPBACK}:{self._scheduler.rpartition(':')[2]}",
            f"-L{LOOPBACK}:{ours}:{LOOPBACK}:{there}",
        )
        options = ("-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=15", *forwards)
        certificate, key = self._keys
        settings = NodeSettings(
            certificate=certificate,
            key=key,
            listen=f"tls://{LOOPBACK}:{there}",
            contact=f"tls://{LOOPBACK}:{ours}",
            scheduler=f"tls://{LOOPBACK}:{back}",
            name=self.name,
        )
        descriptor = open_to_append(self._log)
        try:
            self._log_begin = os.fstat(descriptor).st_size
            argv = (*ssh_argv(self._table, self._ssh_host, *options), remote_line(self._table, _NODE))
            self.process = self._host.processes.start(argv, stderr_fd=descriptor)
        finally:
            os.close(descriptor)
        assert self.process.stdin is not None
        # If the process has already exited, ``end_of`` reports it.
        with suppress(BrokenPipeError):
            self.process.stdin.write(msgspec.json.encode(settings) + b"\n")
        await super().start()

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    def end_of(self) -> str:
        """Return how the process ended, with its last error message, or an empty string while it runs."""
        status = self.process.poll() if self.process else None
        if status is None:
            return ""
        lines = self._log.read_bytes()[self._log_begin :].decode("utf-8", "replace").strip().splitlines()
        errors = [line for line in lines if _ERROR.match(line)] or lines
        return ": ".join([f"{self.name} ended ({ended_how(status)})", *errors[-1:]])

    async def close(self) -> None:
        """Close standard input and wait. Kill the process if it does not exit within ``END_SECONDS``."""
        if self.process:
            await asyncio.to_thread(self._end, self.process)
        await super().close()

    @staticmethod
    def _end(process: RunningProcess) -> None:
        with suppress(OSError):
            if process.stdin:
                process.stdin.close()
        try:
            process.wait(timeout=END_SECONDS)
        except Exception:  # for any reason
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()


def ssh_argv(table: SshTable, host: str, *options: str) -> tuple[str, ...]:
    """Return the command line of ssh for ``host``, without the remote command."""
    config = ("-F", table.config) if table.config else ()
    return ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", *config, *options, "--", host)


def remote_line(table: SshTable, arguments: tuple[str, ...]) -> str:
    """Return a shell command that runs Python on another computer, isolated from the user's settings."""
    state = (f"RAIDLAB_STATE={table.state}",) if table.state else ()
    return shlex.join(("exec", "env", *state, *isolated_python(*arguments, python=table.python)))


def processors_of(ssh_host: str, table: SshTable, host: Host) -> int:
    """Return the number of processors of a host. Raises LabError if ssh or raidlab fails there."""
    found = host.processes.run(
        (*ssh_argv(table, ssh_host), remote_line(table, (*_NODE, PROCESSORS))), timeout_seconds=60
    )
    word, _, count = found.stdout.strip().rpartition("processors ")
    message = (found.stderr.strip() or word or f"status {found.status}").splitlines()[-1]
    if found.status == _SSH_FAILED:
        raise LabError(
            f"{ssh_host} cannot be reached: {message}",
            hint=f"make sure that 'ssh {ssh_host} true' works without a password",
        )
    if found.status or not count.isdecimal():
        raise LabError(
            f"no worker can be started on {ssh_host}: {message}",
            hint="install raidlab with its cluster extra there, and set 'python' in [cluster.ssh] to the path of its "
            "Python interpreter",
        )
    return int(count)


class Pool:
    """A cluster as a context manager. Inside the context, ``client`` is Dask's client."""

    client: Any
    dashboard: str = ""
    """HOST:PORT of the scheduler's web pages, or an empty string if there are none."""

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
        """Write logs and certificates to ``folder``. ``dashboard`` is HOST:PORT for Dask's web pages, or empty.

        ``is_cancelled`` is polled while the cluster starts. When it returns True, RunCancelled is raised.
        """
        self.spec, self.tables = spec, tables
        self._host, self._folder, self._on_notice = host, folder, on_notice
        self._asked_dashboard, self._is_cancelled = dashboard, is_cancelled
        self._stack = ExitStack()
        self._watch = _Watch()
        self._cluster: Any = None
        self._settling: Future[None] | None = None
        self._count = 0
        """Number of workers that this pool starts."""
        self._later: dict[str, tuple[float, Any]] = {}
        """When each worker will be started again, and its specification for SpecCluster, by the worker's name."""
        self._losses: deque[float] = deque()
        """Times of the losses within the last ``LOSSES_SECONDS``."""
        self._tended = 0.0
        self._queue_seen_at = 0.0
        self._seen: dict[str, str] = {}
        self._seen_at = 0.0
        self._empty_since: float | None = None

    def __enter__(self) -> Self:
        # Finish the cleanup even after a signal, because otherwise Slurm would keep submitted jobs in its queue.
        self._stack.enter_context(signals.unhurried())
        # In the sweep's folder, no other user can replace the scripts of jobs.
        self._stack.enter_context(dask.config.set({"temporary-directory": str(self._folder)}))
        try:
            self._start()
            self._wait_for_workers()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End all workers that were started, and the scheduler."""
        client = getattr(self, "client", None)
        for what in (client, self._cluster):
            if what is not None:
                with suppress(Exception):  # the cluster may be gone
                    # Workers that are just starting are ended once they have started.
                    what.close(timeout=START_SECONDS)
        self._cluster = None
        self._stack.close()
        shutil.rmtree(self._folder / _SCRATCH, ignore_errors=True)

    @property
    def process_ids(self) -> dict[str, int]:
        """The process id of each worker, or of ssh(1) for a worker on another computer, by the worker's name."""
        workers = list(self._cluster.workers.items()) if self._cluster else ()
        return {str(name): int(pid) for name, worker in workers if (pid := getattr(worker, "pid", None))}

    def workers(self) -> dict[str, str]:
        """Return the names of all connected workers by address. The answer may be half a second old."""
        now = self.now()
        if now > self._seen_at + _SEEN_SECONDS or not self._seen:
            self._seen, self._seen_at = {}, now
            with suppress(OSError):
                found = self.client.scheduler_info(n_workers=-1).get("workers", {})
                self._seen = {str(address): str(each["name"]) for address, each in found.items()}
        return self._seen

    def run(self, function: Callable[..., object], *arguments: bytes, workers: list[str] | None = None) -> Any:
        """Call ``function`` on each worker. Return the result, or the exception that it raised, by worker address."""
        return self.client.run(function, *arguments, workers=workers, on_error="return")

    def now(self) -> float:
        return self._host.clock.monotonic_seconds()

    def tend(self) -> None:
        """Restart workers that have ended. Raises ClusterLost if no worker is left, or if too many end."""
        now = self.now()
        if now < self._tended + _TEND_SECONDS:
            return
        self._tended = now
        if self._cluster:
            self._count_losses(now)
            self._start_again(now)
        if self.workers():
            self._empty_since = None
        elif self._empty_since is None:
            self._empty_since = now
        elif now > self._empty_since + self._patience_seconds:
            raise ClusterLost(
                f"no worker has been connected for {self._patience_seconds:.0f} s",
                hint="check the cluster; --resume continues the work",
            )

    def _count_losses(self, now: float) -> None:
        """Report lost workers, which Dask restarts by itself. Raises ClusterLost if there are too many."""
        with suppress(queue.Empty):
            while True:
                name = self._watch.lost.get_nowait()
                self._losses.append(now)
                self._on_notice(f"{name} ended; another one is started")
        # During a long sweep, jobs of a queue keep reaching their time limit, so only recent losses count.
        while self._losses and self._losses[0] < now - LOSSES_SECONDS:
            self._losses.popleft()
        if len(self._losses) > max(MOST_LOSSES, 3 * self._count):
            raise ClusterLost("workers keep exiting", hint=self._see_logs)

    def _start_again(self, now: float) -> None:
        """Let SpecCluster start missing workers.

        A worker that ended before it connected is started again after ``AGAIN_SECONDS``.
        """
        if self._settling and not self._settling.done():
            return
        failure = self._settling.exception() if self._settling else None
        self._settling = None
        ended = self._ended(now, failure)
        for name, why in ended.items():
            if name in self._watch.joined.values():
                continue
            if not self.workers() and len(self._later) + len(ended) >= self._count:
                raise ClusterLost(f"no worker starts: {why}", hint=self._see_logs)
            self._on_notice(f"{why}; it will be started again in {AGAIN_SECONDS:.0f} s")
            self._later[name] = (now + AGAIN_SECONDS, self._cluster.worker_spec.pop(name))
        due = {name: spec for name, (at, spec) in self._later.items() if now >= at}
        for name in due:
            del self._later[name]
        self._cluster.worker_spec.update(due)
        if ended or due or set(self._cluster.worker_spec) - set(self._cluster.workers):
            self._settle(tuple(ended))

    def _ended(self, now: float, failure: BaseException | None) -> dict[str, str]:
        """Return why workers ended before they connected, by the worker's name. Dask does not notice this."""
        found = {}
        connected = set(self._watch.joined.values())
        for name, worker in self._cluster.workers.items():
            if isinstance(worker, SshWorker) and (end := worker.end_of()):
                found[name] = end
            elif name not in connected and worker.status in (Status.created, Status.failed, Status.closed):
                found[name] = f"{name}: {_root(failure)}"
        if self.spec.kind is ClusterKind.SLURM and now > self._queue_seen_at + _QUEUE_SECONDS:
            self._queue_seen_at = now
            jobs = {n: w.job_id for n, w in self._cluster.workers.items() if n not in connected | found.keys()}
            if jobs and not (listed := self._host.processes.run(_QUEUE)).status:
                there = listed.stdout.split()
                found |= {name: f"{name} (job {job}) has ended" for name, job in jobs.items() if job not in there}
        return found

    def _settle(self, ended: tuple[str, ...] = ()) -> None:
        """Close the workers in ``ended``, and start missing ones. Set ``_settling`` to the Future of this work."""

        async def settle() -> None:
            closing = [self._cluster.workers.pop(name) for name in ended if name in self._cluster.workers]
            await asyncio.gather(*(worker.close() for worker in closing), return_exceptions=True)
            await self._cluster

        self._settling = asyncio.run_coroutine_threadsafe(settle(), self._cluster.loop.asyncio_loop)

    @property
    def _patience_seconds(self) -> float:
        return START_SECONDS if self.spec.kind is ClusterKind.LOCAL else FIRST_WORKER_SECONDS

    @property
    def _see_logs(self) -> str:
        return f"look at the logs in {self._folder}"

    def _wait_for_workers(self) -> None:
        """Wait until all started workers are connected.

        With a queue or an existing scheduler, wait only for the first worker. ``tend`` limits the wait for the first
        worker, and ``START_SECONDS`` the wait for all others. Raises ClusterLost if no worker connects, and
        RunCancelled if the user cancels.
        """
        begin = self.now()
        comes_slowly = self.spec.kind in (ClusterKind.ADDRESS, ClusterKind.SLURM)
        is_reported = False
        while True:
            workers = self.workers()
            needed = 1 if comes_slowly else self._count - len(self._later)
            passed = self.now() - begin
            # A worker may connect before SpecCluster has recorded its process.
            is_settled = comes_slowly or not self._settling or self._settling.done()
            if workers and ((len(workers) >= needed and is_settled) or passed > START_SECONDS):
                return
            if not workers and passed > _QUIET_SECONDS and not is_reported:
                self._on_notice(f"no worker is connected yet; waiting up to {self._patience_seconds:.0f} s")
                is_reported = True
            if self._is_cancelled():
                raise RunCancelled("the work was cancelled", hint="start it again; nothing has been measured yet")
            self._host.clock.sleep(_POLL_SECONDS)
            self.tend()

    def _start(self) -> None:
        if self.spec.kind is ClusterKind.ADDRESS:
            self.client = _client_of_others(self.spec.text)
            return
        fresh = Security.temporary()
        security = security_of(str(fresh.tls_ca_file), str(fresh.tls_client_key))
        workers = dict(self._worker_specs(security))
        self._count = len(workers) or self.tables.slurm.workers
        try:
            # The thread of Dask's loop inherits the mask, and the workers inherit it in turn, until QuietWorker handles
            # signals.
            with held_back(), warnings.catch_warnings():
                # If the requested port for Dask's pages is in use, Dask takes another one, which ``dashboard`` then
                # contains.
                warnings.simplefilter("ignore")
                self._cluster = self._made(security)
        except Exception as error:
            pages = f", with its pages at {self._asked_dashboard}" if self._asked_dashboard else ""
            message = str(error).removeprefix("Cluster failed to start: ")
            raise ClusterLost(
                f"the scheduler does not start{pages}: {type(error.__cause__ or error).__name__}: {message}",
                hint="use --dashboard none to run without pages" if pages else self._see_logs,
            ) from None
        if self._asked_dashboard:
            port = self._cluster.scheduler.http_server.port
            self.dashboard = f"{self._asked_dashboard.rpartition(':')[0]}:{port}"
        self.client = _Client(self._cluster, set_as_default=False)
        if self.spec.kind is ClusterKind.SLURM:
            while len(self._cluster.worker_spec) < self._count:
                self._cluster.worker_spec.update(self._cluster.new_worker_spec())
        self._cluster.worker_spec.update(workers)
        self._settle()

    def _made(self, security: Any) -> Any:
        """Return the cluster, with a running scheduler and no workers."""
        scheduler = distributed.Scheduler if self._asked_dashboard else QuietScheduler
        is_far = self.spec.kind is ClusterKind.SLURM
        options = {
            "host": (self.tables.slurm.host or os.uname().nodename) if is_far else LOOPBACK,
            "protocol": "tls://",
            "security": security,
            "dashboard": bool(self._asked_dashboard),
            "dashboard_address": self._asked_dashboard or None,
            "plugins": [self._watch],
        }
        if is_far:
            return self._slurm_cluster(security, scheduler, options)
        make: Any = SpecCluster
        return make(workers={}, scheduler={"cls": scheduler, "options": options}, security=security)

    def _worker_specs(self, security: Any) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the name and specification of each worker here or over ssh. Raises LabError if a host fails."""
        if self.spec.kind is ClusterKind.LOCAL:
            options = {
                "host": LOOPBACK,
                "protocol": "tls://",
                "security": security,
                "nthreads": 1,
                "memory_limit": 0,
                "local_directory": str(self._folder),
                "worker_class": QuietWorker,
                "silence_logs": logging.CRITICAL,
            }
            for number in range(self.spec.workers or processors()):
                name = f"worker-{number}"
                yield name, {"cls": _Nanny, "options": {**options, "log": str(self._folder / f"{name}.log")}}
        elif self.spec.kind is ClusterKind.SSH:
            table = self.tables.ssh
            keys = (security.tls_client_cert, security.tls_client_key)
            options = {"keys": keys, "table": table, "folder": self._folder, "host": self._host}
            for host in self.spec.hosts:
                count = processors_of(host, table, self._host)
                for number in range(table.workers or count):
                    yield f"{host}-{number}", {"cls": SshWorker, "options": {**options, "ssh_host": host}}

    def _slurm_cluster(self, security: Any, scheduler: Any, options: dict[str, Any]) -> Any:
        table = self.tables.slurm
        if not self._host.processes.find("sbatch"):
            raise RequirementMissing("Slurm's programs are not installed here", hint="run raidlab on a cluster node")
        # dask_jobqueue installs handlers for SIGINT and SIGTERM when it is imported, so restore our own.
        with signals.restored():
            from dask_jobqueue.slurm import SLURMCluster
        make: Any = SLURMCluster
        return make(
            name="slurm",
            scheduler_cls=scheduler,
            scheduler_options=options,
            security=security,
            protocol="tls://",
            # The folder holds the certificate and its key while the cluster runs. Only this user can read it.
            shared_temp_directory=str(self._folder),
            job_name="raidlab",
            queue=table.partition or None,
            account=table.account or None,
            walltime=table.walltime,
            cores=1,
            processes=1,
            memory=f"{table.memory}iB",
            death_timeout=DEATH_SECONDS,
            # Shell words that precede "-m" and the command.
            python=shlex.join(isolated_python(python=table.python)),
            worker_command="lab.sweep.node",
            local_directory=str(self._folder),
            log_directory=str(self._folder),
            # A requeued job would be a second worker with the same name, and SLURMCluster already submits a new job.
            job_extra_directives=["--no-requeue", *table.directives],
            worker_extra_args=["--no-nanny", "--no-dashboard", "--worker-class", "lab.sweep.node.QuietWorker"],
        )


def _root(failure: BaseException | None) -> str:
    """Return the last line of the message of an error's first cause."""
    while failure and failure.__cause__:
        failure = failure.__cause__
    return (str(failure or "").strip().splitlines() or ["it has not started"])[-1]


def _client_of_others(address: str) -> Any:
    """Connect to an existing scheduler, with the certificates from the user's Dask configuration."""
    security = Security() if address.startswith("tls:") else None
    if security is not None and not security.tls_ca_file:
        raise ClusterLost(
            f"there is no certificate for {address}",
            hint="give the certificate files under distributed.comm.tls in Dask's configuration, ~/.config/dask/*.yaml",
        )
    try:
        return _Client(address, security=security, timeout=OTHERS_SECONDS, set_as_default=False)
    except Exception as error:  # any exception, if the answer is not Dask's
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ClusterLost(
            f"no Dask scheduler answers at {address}: {lines[0]}",
            hint="check the address, and that the scheduler is running",
        ) from None
