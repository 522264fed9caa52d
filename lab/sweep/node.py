"""One process of a cluster, a scheduler or a worker of Dask. lab.host.processes starts it.

Its settings come as the first line of standard input, so that no key stands where other users see it; where it can be
reached it tells as one line on standard output. When standard input ends it does too: whoever started it is gone.
With ``--processors`` it prints how many processors this computer has, and ends.
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
from lab.host.clock import HostClock, looks
from lab.host.pool import processors

SCHEDULER = "scheduler"
JOINED = "raidlab-joined"
"""The scheduler's topic that has the name of each worker that ever was connected, once for each time."""
CLEARING_SECONDS = 10.0
PROCESSORS = "--processors"
ENDING = threading.Event()
"""Set when this process is to end: whoever works in it stops as soon as it can."""
NO_PRELOADS: dict[str, Any] = {f"distributed.{role}.preload": [] for role in ("scheduler", "worker")}
"""Programs of somebody's own that Dask would load into each process (``preload`` in ~/.config/dask/*.yaml)."""
_KEPT_VARIABLES = "DASK_DISTRIBUTED__COMM__"
CONFIGURATION = {
    **NO_PRELOADS,
    # A computer that works hard may be late, and is not dead.
    "distributed.scheduler.worker-ttl": "10 minutes",
    "distributed.scheduler.allowed-failures": 2,
    # Each has one task at a time, and takes the next when it is done.
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.work-stealing": False,
    "distributed.worker.memory.target": False,
    "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False,
    "distributed.admin.tick.limit": "1 minute",
    "logging": {"distributed": "error", "bokeh": "error"},
}


class Keys(msgspec.Struct, frozen=True, kw_only=True):
    """The certificate by which the cluster's processes know each other, and its key, in PEM. Empty: no encryption."""

    certificate: str = ""
    key: str = ""


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a process is told."""

    role: str
    keys: Keys
    listen: str
    """Address on which to listen, such as ``tls://127.0.0.1:0``."""
    contact: str = ""
    """Of a worker: the address by which the scheduler reaches it, where that is another one."""
    scheduler: str = ""
    """Of a worker: where the scheduler is."""
    name: str = ""
    folder: str = ""
    """For what Dask puts down meanwhile; empty: the one for temporary files."""
    dashboard: str = ""
    """Of a scheduler: HOST:PORT of its pages; empty: none."""


class NodeReady(msgspec.Struct, frozen=True, kw_only=True):
    """What a process tells."""

    address: str
    dashboard: str = ""
    process_id: int


def drop_dask_variables() -> None:
    """Take out of the environment, before Dask is loaded, the settings of Dask that may name code to be imported.

    ``DASK_CONFIG``, preloads, routes and plugins do; those of its connections name none, and stay.
    """
    for name in [each for each in os.environ if each.startswith("DASK_") and not each.startswith(_KEPT_VARIABLES)]:
        del os.environ[name]


def security_of(keys: Keys) -> Any:
    """Dask's words for keys; None without any."""
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
    """End when whoever started this is gone, whatever this process is doing: also while it starts."""
    # Not by sys.stdin, whose lock the interpreter wants when it ends.
    while os.read(commands, 4096):
        pass
    _leave(serving)


def _leave(serving: list[Any]) -> None:
    ENDING.set()
    # A cell that is being measured stops at its next sample, and clears its machine away.
    for _ in looks(HostClock(), CLEARING_SECONDS):
        if not any(getattr(server, "active_threads", None) for server in serving):
            break
    os._exit(0)


def _scheduler(settings: NodeSettings) -> Any:
    from distributed import Scheduler
    from distributed.diagnostics.plugin import SchedulerPlugin

    from lab.sweep.quiet import QuietScheduler

    base: Any = SchedulerPlugin

    class Joined(base):  # type: ignore[misc] # it comes without types
        """Notes each worker before it is given a task: one that dies of it was connected all the same."""

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
    """Read the settings and serve."""
    drop_dask_variables()
    if sys.argv[1:] == [PROCESSORS]:
        # Without Dask no worker could run here.
        import distributed  # noqa: F401

        sys.stdout.write(f"processors {processors()}\n")
        return
    # It ends by its input alone, in good order. A handler, since what it starts would inherit that it is ignored.
    signal.signal(signal.SIGINT, lambda *_: None)
    commands = sys.stdin.buffer
    line = commands.readline()
    if not line:
        return
    settings = decode_json(line, NodeSettings)
    serving: list[Any] = []
    threading.Thread(target=_watch, args=(commands.fileno(), serving), daemon=True).start()
    import dask.config

    # Before Dask is loaded, which reads them then.
    dask.config.set(CONFIGURATION)
    if settings.folder:
        dask.config.set({"temporary-directory": settings.folder})
    asyncio.run(_serve(settings, serving))


if __name__ == "__main__":
    main()
