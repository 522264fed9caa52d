"""One process of a cluster, a scheduler or a worker of Dask: ``python -m lab.sweep.node``.

Its settings come as the first line of standard input, so that no key stands where other users see it; where it can be
reached it tells as one line on standard output. When standard input ends it does too: whoever started it is gone.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
from typing import IO, Any

import msgspec

SCHEDULER = "scheduler"
CLEARING_SECONDS = 10.0
NO_PAGES = "127.0.0.1:0"
"""Where Dask's web server listens that has none: without an address on every interface."""
ENDING = threading.Event()
"""Set when this process is to end: whoever works in it stops as soon as it can."""
CONFIGURATION = {
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


async def _serve(settings: NodeSettings, commands: IO[bytes]) -> None:
    server = _scheduler(settings) if settings.role == SCHEDULER else _worker(settings)
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
    over = asyncio.ensure_future(asyncio.to_thread(commands.read))
    ended = asyncio.ensure_future(server.finished())
    await asyncio.wait({over, ended}, return_when=asyncio.FIRST_COMPLETED)
    ENDING.set()
    # A cell that is being measured stops at its next sample, and clears its machine away.
    deadline = time.monotonic() + CLEARING_SECONDS
    while getattr(server, "active_threads", None) and time.monotonic() < deadline:
        await asyncio.sleep(0.05)
    os._exit(0)


def _scheduler(settings: NodeSettings) -> Any:
    from distributed import Scheduler

    return Scheduler(
        host=settings.listen,
        security=security_of(settings.keys),
        dashboard=bool(settings.dashboard),
        dashboard_address=settings.dashboard or NO_PAGES,
    )


def _worker(settings: NodeSettings) -> Any:
    from distributed import Worker

    return Worker(
        settings.scheduler,
        host=settings.listen,
        contact_address=settings.contact or None,
        nthreads=1,
        name=settings.name,
        security=security_of(settings.keys),
        memory_limit=0,
        local_directory=settings.folder,
        dashboard=False,
        dashboard_address=NO_PAGES,
    )


def main() -> None:
    """Read the settings and serve."""
    import dask.config

    commands = sys.stdin.buffer
    settings = msgspec.json.decode(commands.readline(), type=NodeSettings)
    # Before Dask is loaded, which reads them then.
    dask.config.set(CONFIGURATION)
    if settings.folder:
        dask.config.set({"temporary-directory": settings.folder})
    asyncio.run(_serve(settings, commands))


if __name__ == "__main__":
    main()
