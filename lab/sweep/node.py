"""The program of a cluster process: a scheduler or worker of Dask, started through lab.host.processes.

It reads its settings (NodeSettings) from the first line of standard input, so that the key does not appear in a command
line that other users can read. It writes its address (NodeReady) as one line to standard output. It exits when standard
input ends, which means that its parent has ended.

With ``--processors`` it prints the number of processors of this computer and exits.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import Any

import msgspec

from lab.gates.decoding import decode_json
from lab.host.clock import HostClock, polls
from lab.host.pool import processors

SCHEDULER = "scheduler"
JOINED = "raidlab-joined"
"""Topic of scheduler events: the name of a worker, logged each time that one connects."""
CLEARING_SECONDS = 10.0
PROCESSORS = "--processors"
ENDING = threading.Event()
"""Set when this process is to end; running work stops as soon as it can."""
NO_PRELOADS: dict[str, Any] = {f"distributed.{role}.preload": [] for role in ("scheduler", "worker")}
"""Disable programs that the user's configuration of Dask (~/.config/dask/*.yaml, ``preload``) loads in each process."""
_KEPT_VARIABLES = "DASK_DISTRIBUTED__COMM__"
CONFIGURATION = {
    **NO_PRELOADS,
    # A computer under load may answer late without being dead.
    "distributed.scheduler.worker-ttl": "10 minutes",
    "distributed.scheduler.allowed-failures": 2,
    # A worker has one task at a time, and gets the next when that is done.
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.work-stealing": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.admin.tick.limit": "1 minute",
    "logging": {"distributed": "error", "bokeh": "error"},
}


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """The PEM certificate and key with which the processes of a cluster authenticate each other.

    If they are empty, connections are not encrypted.
    """

    certificate: str = ""
    key: str = ""


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a cluster process."""

    role: str
    keys: Keys
    listen: str
    """Address to listen on, such as ``tls://127.0.0.1:0``."""
    contact: str = ""
    """Worker: the address at which the scheduler reaches it, if it differs from ``listen``."""
    scheduler: str = ""
    """Worker: the address of the scheduler."""
    name: str = ""
    folder: str = ""
    """Dask's folder for temporary files; empty for the system's default."""
    dashboard: str = ""
    """Scheduler: HOST:PORT of its web pages; empty for none."""


class NodeReady(msgspec.Struct, frozen=True, kw_only=True):
    """The line that a process writes when it is ready."""

    address: str
    dashboard: str = ""
    process_id: int


def drop_dask_variables() -> None:
    """Remove the environment variables of Dask that may name code to import; to be called before Dask is imported.

    ``DASK_CONFIG``, preloads, routes and plugins may name code. The variables for connections do not, and remain.
    """
    for name in [each for each in os.environ if each.startswith("DASK_") and not each.startswith(_KEPT_VARIABLES)]:
        del os.environ[name]


def security_of(keys: Keys) -> Any:
    """The keys as Dask's ``Security``, or None without keys."""
    if not keys.certificate:
        return None
    from distributed import Security

    make: Any = Security
    roles = {f"tls_{role}_{what}": pem for role in ("client", "scheduler", "worker") for what, pem in _pems(keys)}
    return make(tls_ca_file=keys.certificate, require_encryption=True, **roles)


def _pems(keys: Keys) -> tuple[tuple[str, str], ...]:
    return (("cert", keys.certificate), ("key", keys.key))


async def _serve(settings: NodeSettings, serving: list[Any]) -> None:
    server = _scheduler(settings) if settings.role == SCHEDULER else _worker(settings)
    serving.append(server)
    await server
    pages = getattr(server, "http_server", None)
    port = pages.port if pages is not None and settings.dashboard else 0
    ready = NodeReady(
        address=str(server.address),
        dashboard=f"{settings.dashboard.rpartition(':')[0]}:{port}" if port else "",
        process_id=os.getpid(),
    )
    sys.stdout.buffer.write(msgspec.json.encode(ready) + b"\n")
    sys.stdout.buffer.flush()
    await server.finished()
    _leave(serving)


def _watch(commands: int, serving: list[Any]) -> None:
    """Exit when standard input ends, in any phase of the process, including its start."""
    # sys.stdin is not used: the interpreter takes its lock at shutdown.
    while os.read(commands, 4096):
        pass
    _leave(serving)


def _leave(serving: list[Any]) -> None:
    ENDING.set()
    # A running measurement stops at its next sample and then removes its machine.
    for _ in polls(HostClock(), CLEARING_SECONDS):
        if not any(getattr(server, "active_threads", None) for server in serving):
            break
    os._exit(0)


def _scheduler(settings: NodeSettings) -> Any:
    from distributed import Scheduler
    from distributed.diagnostics.plugin import SchedulerPlugin

    from lab.sweep.quiet import QuietScheduler

    base: Any = SchedulerPlugin

    class Joined(base):  # type: ignore[misc] # it comes without types
        """Log the name of each worker before it gets a task, so a worker that dies of its first task is logged too."""

        def add_worker(self, scheduler: Any, worker: str) -> None:
            scheduler.log_event(JOINED, str(scheduler.workers[worker].name))

    make: Any = Scheduler if settings.dashboard else QuietScheduler
    return make(
        plugins=[Joined()],
        host=settings.listen,
        security=security_of(settings.keys),
        dashboard=bool(settings.dashboard),
        dashboard_address=settings.dashboard or None,
    )


def _worker(settings: NodeSettings) -> Any:
    from lab.sweep.quiet import QuietWorker

    return QuietWorker(
        settings.scheduler,
        host=settings.listen,
        contact_address=settings.contact or None,
        nthreads=1,
        name=settings.name,
        security=security_of(settings.keys),
        memory_limit=0,
        local_directory=settings.folder,
        dashboard=False,
    )


def main() -> None:
    """Read the settings and serve until standard input ends."""
    drop_dask_variables()
    if sys.argv[1:] == [PROCESSORS]:
        # Fail here if Dask is missing, since a worker needs it.
        import distributed  # noqa: F401

        sys.stdout.write(f"processors {processors()}\n")
        return
    # Only the end of standard input ends this process. SIG_IGN would be inherited by child processes, a handler is not.
    signal.signal(signal.SIGINT, lambda *_: None)
    commands = sys.stdin.buffer
    line = commands.readline()
    if not line:
        return
    settings = decode_json(line, NodeSettings)
    serving: list[Any] = []
    threading.Thread(target=_watch, args=(commands.fileno(), serving), daemon=True).start()
    import dask.config

    # Dask reads the configuration when it is imported.
    dask.config.set(CONFIGURATION)
    if settings.folder:
        dask.config.set({"temporary-directory": settings.folder})
    asyncio.run(_serve(settings, serving))


if __name__ == "__main__":
    main()
