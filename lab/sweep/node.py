"""Dask's scheduler and worker as they run on a cluster node, and the program of workers on other computers.

Without arguments, the program is a worker that was started over ssh. It reads its settings (NodeSettings) from the
first line of standard input, so that the key does not appear in a command line that other users can read. It exits when
standard input ends, because this means that its client has ended. With arguments, it is the worker of a Slurm job, and
accepts the arguments of ``dask worker``. With ``--processors``, it prints this computer's number of processors and
exits. Workers on this computer need no program, because Dask's Nanny starts them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from lab.gates.decoding import decode_json
from lab.host.clock import HostClock, polls
from lab.host.files import open_to_append
from lab.host.pool import processors
from lab.host.signals import ENDING as ENDING_SIGNALS
from lab.sweep.cells import ENDING
from lab.sweep.cluster import configure_dask

configure_dask()
import distributed  # noqa: E402 # Dask reads its configuration when it is imported

CLEARING_SECONDS = 10.0
PROCESSORS = "--processors"
Security: Any = distributed.Security
_Scheduler: Any = distributed.Scheduler
_Worker: Any = distributed.Worker


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a worker over ssh."""

    certificate: str
    """The certificate with which a cluster's processes authenticate each other. It and its ``key`` are PEM."""
    key: str
    listen: str
    """Address to listen on, such as ``tls://127.0.0.1:20000``."""
    contact: str
    """The address at which the scheduler reaches this worker."""
    scheduler: str
    name: str


class _NoPages:
    """A mixin that keeps Dask from starting the HTTP server of ``distributed.node.ServerNode``."""

    http_server = None

    def start_http_server(self, *_: object, **__: object) -> None:
        """Start no server.

        Dask would start one even without web pages, and any user of the computer could read from it.
        """


class QuietScheduler(_NoPages, _Scheduler):  # type: ignore[misc] # it comes without types
    """A scheduler with one port that requires a certificate."""


class QuietWorker(_NoPages, _Worker):  # type: ignore[misc] # it comes without types
    """A worker with one port that requires a certificate. A running measurement stops when the worker closes."""

    def __init__(self, *arguments: Any, log: str = "", **options: Any) -> None:
        """Take the path of a file that receives all output of this process, or "" for no file."""
        if log:
            descriptor = open_to_append(Path(log))
            for each in (1, 2):
                os.dup2(descriptor, each)
            os.close(descriptor)
        if threading.current_thread() is threading.main_thread():
            # Ctrl-C interrupts the client, not this worker. Child processes would inherit SIG_IGN, but not a handler.
            signal.signal(signal.SIGINT, lambda *_: None)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING_SIGNALS)
        super().__init__(*arguments, **options)

    async def close(self, *arguments: Any, **options: Any) -> Any:
        """Stop the running measurement, and close."""
        ENDING.set()
        return await super().close(*arguments, **options)


def security_of(certificate: str, key: str) -> Any:
    """Return security settings that use a certificate and its key, as PEM or as paths, for all roles in a cluster."""
    roles = {
        f"tls_{role}_{what}": pem
        for role in ("client", "scheduler", "worker")
        for what, pem in (("cert", certificate), ("key", key))
    }
    return Security(tls_ca_file=certificate, require_encryption=True, **roles)


async def _serve(settings: NodeSettings, serving: list[Any]) -> None:
    worker = QuietWorker(
        settings.scheduler,
        host=settings.listen,
        contact_address=settings.contact,
        nthreads=1,
        name=settings.name,
        security=security_of(settings.certificate, settings.key),
        memory_limit=0,
    )
    serving.append(worker)
    await worker
    await worker.finished()
    _leave(serving)


def _watch(commands: int, serving: list[Any]) -> None:
    """Exit when standard input ends, in any phase of the process, even during its start."""
    # sys.stdin is not used, because the interpreter takes its lock at shutdown.
    while os.read(commands, 4096):
        pass
    _leave(serving)


def _leave(serving: list[Any]) -> None:
    ENDING.set()
    # A running measurement stops at its next sample and then removes its machine.
    for _ in polls(HostClock(), CLEARING_SECONDS):
        if not any(getattr(worker, "active_threads", None) for worker in serving):
            break
    os._exit(0)


def main() -> None:
    """Serve until the client is gone."""
    if sys.argv[1:] == [PROCESSORS]:
        sys.stdout.write(f"processors {processors()}\n")
        return
    if len(sys.argv) > 1:
        from distributed.cli.dask_worker import main as serve

        serve()
        return
    commands = sys.stdin.buffer
    line = commands.readline()
    if not line:
        return
    serving: list[Any] = []
    threading.Thread(target=_watch, args=(commands.fileno(), serving), daemon=True).start()
    asyncio.run(_serve(decode_json(line, NodeSettings), serving))


if __name__ == "__main__":
    main()
