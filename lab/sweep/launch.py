"""Starts the processes of a cluster, on this computer and through ssh on others."""

from __future__ import annotations

import os
import random
import re
import shlex
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lab.errors import LabError
from lab.host.files import open_to_append
from lab.host.processes import RunningProcess, ended_how, isolated_python
from lab.machine import Host
from lab.sweep.cluster import SshTable
from lab.sweep.node import PROCESSORS, SCHEDULER, Keys, NodeSettings

LOOPBACK = "127.0.0.1"
END_SECONDS = 12.0
"""Time for a process to exit after its input was closed."""
_ERROR = re.compile(r"([a-z_]+\.)*[A-Z][A-Za-z]*(Error|Exception): ")
"""Matches the line of a traceback that names the exception."""
SSH_FAILED = 255
"""ssh(1): exit status for an error of ssh itself."""
_PORTS = range(20_000, 60_000)
_NODE = ("-m", "lab.sweep.node")


@dataclass(slots=True)
class NodeProcess:
    """A process that was started here: a node on this computer, or the ssh client of a node on another one."""

    name: str
    process: RunningProcess
    log: Path
    log_begin: int
    """Offset in the log file at which the output of this process begins."""

    def end_of(self) -> str | None:
        """The exit status and the last error message, or None while the process runs."""
        status = self.process.poll()
        if status is None:
            return None
        lines = self.log.read_bytes()[self.log_begin :].decode("utf-8", "replace").strip().splitlines()
        errors = [line for line in lines if _ERROR.match(line)] or lines
        return ": ".join([f"{self.name} ended ({ended_how(status)})", *errors[-1:]])

    def tell_to_end(self) -> None:
        """Close standard input, on which the process exits."""
        with suppress(OSError):
            if self.process.stdin:
                self.process.stdin.close()

    def close(self) -> None:
        """Close standard input and wait; kill the process if it does not exit within ``END_SECONDS``."""
        self.tell_to_end()
        try:
            self.process.wait(timeout=END_SECONDS)
        except Exception:  # for any reason
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()


class Launcher:
    """Starts processes that authenticate each other with one certificate, and write their logs into one folder."""

    def __init__(self, host: Host, folder: Path, keys: Keys, ssh_table: SshTable) -> None:
        self.folder = folder
        self._host, self._keys, self._ssh_table = host, keys, ssh_table
        self._random = random.SystemRandom()

    def scheduler(self, listen_host: str, dashboard: str) -> NodeProcess:
        """Start a scheduler, which writes its address to standard output.

        ``dashboard`` is HOST:PORT of its web pages; empty for none.
        """
        settings = NodeSettings(
            role=SCHEDULER,
            keys=self._keys,
            listen=f"tls://{listen_host}:0",
            folder=str(self.folder),
            dashboard=dashboard,
        )
        return self._node(SCHEDULER, isolated_python(*_NODE), settings)

    def local_worker(self, name: str, address: str) -> NodeProcess:
        """Start a worker on this computer for the scheduler at ``address``."""
        return self._node(name, isolated_python(*_NODE), self._worker_settings(name, address))

    def _worker_settings(self, name: str, address: str, **changes: str) -> NodeSettings:
        settings = NodeSettings(
            role="worker",
            keys=self._keys,
            listen=f"tls://{LOOPBACK}:0",
            scheduler=address,
            name=name,
            folder=str(self.folder),
        )
        return msgspec.structs.replace(settings, **changes)

    def ssh_worker(self, host: str, name: str, address: str) -> NodeProcess:
        """Start a worker on ``host``; the ssh connection carries all traffic, so processes listen only on loopback."""
        port = address.rpartition(":")[2]
        there, back, ours = (self._random.choice(_PORTS) for _ in range(3))
        settings = self._worker_settings(
            name,
            f"tls://{LOOPBACK}:{back}",
            listen=f"tls://{LOOPBACK}:{there}",
            contact=f"tls://{LOOPBACK}:{ours}",
            folder="",
        )
        forwards = (f"-R{LOOPBACK}:{back}:{LOOPBACK}:{port}", f"-L{LOOPBACK}:{ours}:{LOOPBACK}:{there}")
        options = ("-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=15", *forwards)
        argv = (*self._ssh(host, *options), remote_line(self._ssh_table, _NODE))
        return self._node(name, argv, settings)

    def processors_of(self, host: str) -> int:
        """The number of processors of a host. Raises LabError if ssh or raidlab fails there."""
        line = remote_line(self._ssh_table, (*_NODE, PROCESSORS))
        found = self._host.processes.run((*self._ssh(host), line), timeout_seconds=60)
        word, _, count = found.stdout.strip().rpartition("processors ")
        said = (found.stderr.strip() or word or f"status {found.status}").splitlines()[-1]
        if found.status == SSH_FAILED:
            raise LabError(
                f"{host} cannot be reached: {said}", hint=f"see that 'ssh {host} true' works without a password"
            )
        if found.status or not count.isdecimal():
            raise LabError(
                f"no worker can be started on {host}: {said}",
                hint="install raidlab with its cluster extra there, and say where its Python is: [cluster.ssh] python",
            )
        return int(count)

    def _ssh(self, host: str, *options: str) -> tuple[str, ...]:
        config = ("-F", self._ssh_table.config) if self._ssh_table.config else ()
        return ("ssh", "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15", *config, *options, "--", host)

    def _node(self, name: str, argv: tuple[str, ...], settings: NodeSettings) -> NodeProcess:
        """Start a process. If this process dies before it records the new one, the input of the new one ends."""
        log = self.folder / f"{name.replace('/', '-')}.log"
        descriptor = open_to_append(log)
        try:
            begin = os.fstat(descriptor).st_size
            process = self._host.processes.start(argv, stderr_fd=descriptor)
        finally:
            os.close(descriptor)
        node = NodeProcess(name, process, log, begin)
        assert process.stdin is not None
        # If the process has already exited, ``end_of`` reports it.
        with suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(settings) + b"\n")
        return node


def remote_line(table: SshTable, arguments: tuple[str, ...]) -> str:
    """A shell command for another computer that runs Python, isolated from the user's settings, with ``arguments``."""
    state = (f"RAIDLAB_STATE={table.state}",) if table.state else ()
    return shlex.join(("exec", "env", *state, *isolated_python(*arguments, python=table.python)))
