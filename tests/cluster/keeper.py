"""Daemons that end with the test that started them, however the test ends.

``Keeper`` runs this file as a program between the test and its daemons. The program reads orders from a pipe. Only the
test holds the other end of the pipe, so the pipe closes when the test ends, even by SIGKILL. The program then kills
everything that it started, and all descendants of that. It is a child subreaper (PR_SET_CHILD_SUBREAPER, prctl(2)): a
process that moves to a session of its own, as slurmstepd and jobs do, becomes its child when its parent ends, and so
cannot escape.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
END_SECONDS = 20
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


class Keeper:
    """Starts daemons in a folder that is removed with them. Use it as a context manager.

    Only the user can enter the folder. Its path is short enough for sockets in it (108 bytes, unix(7)).
    """

    def __init__(self, prefix: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"raidlab-{prefix}-", dir=_short_folder()))
        self._program = subprocess.Popen(
            [sys.executable, "-I", __file__, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the test, which then closes the pipe
        )

    @property
    def pid(self) -> int:
        return self._program.pid

    def start(self, argv: Sequence[str], log: str, environment: Mapping[str, str]) -> int:
        """Start a daemon in the foreground and append its output to a file in the folder. Return its process id."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        order = {"argv": list(argv), "log": str(self.folder / log), "environment": dict(environment)}
        self._program.stdin.write(json.dumps(order) + "\n")
        self._program.stdin.flush()
        return int(self._program.stdout.readline())

    def log(self, name: str) -> str:
        return (self.folder / name).read_text(errors="replace")

    def __enter__(self) -> Keeper:
        return self

    def __exit__(self, *_: object) -> None:
        """End the daemons and everything that they started. Returns when the last process and the folder are gone."""
        assert self._program.stdin is not None
        assert self._program.stdout is not None
        self._program.stdin.close()
        code = self._program.wait(END_SECONDS)
        self._program.stdout.close()
        assert code == 0, f"the keeper of {self.folder} ended with {code}"


def _short_folder() -> str | None:
    """The default folder of temporary files (None), or /tmp if the default path is too long for sockets."""
    return None if len(tempfile.gettempdir()) <= 40 else "/tmp"


def free_ports(count: int) -> list[int]:
    """Return ports of the loopback address on which nobody listens.

    They are below the range that the kernel uses for outgoing connections, so that no connection takes one meanwhile.
    """
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    found: list[int] = []
    for port in random.SystemRandom().sample(range(10_000, lowest), 200):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            found.append(port)
        if len(found) == count:
            return found
    raise AssertionError(f"of 200 ports between 10000 and {lowest} fewer than {count} are free")


def children_of(parent: int) -> list[int]:
    """Process ids of the children, including zombies."""
    return [pid for pid, of in _parents() if of == parent]


def descendants_of(ancestor: int) -> set[int]:
    """Process ids of the children, their children, and so on."""
    parents, found, before = dict(_parents()), {ancestor}, 0
    while len(found) != before:
        before = len(found)
        found |= {pid for pid, parent in parents.items() if parent in found}
    return found - {ancestor}


def _parents() -> Iterator[tuple[int, int]]:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name, in parentheses, may contain anything (proc(5)).
            yield int(stat.parent.name), int(stat.read_text(errors="replace").rpartition(")")[2].split()[1])


def _reap(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _end_all() -> None:
    """Kill children until there are none: the children of a killed child become children of this process.

    No other process gets a child's id before this process has reaped the child, so only children are killed.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    while True:
        _reap()
        children = children_of(os.getpid())
        if not children:
            return
        for pid in children:
            os.kill(pid, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, 0.05)


def _obey(order: str) -> int:
    wanted, libc, keeper = json.loads(order), ctypes.CDLL(None), os.getpid()

    def follow_the_keeper() -> None:
        """Runs in the daemon before its program starts: the daemon also ends if the keeper itself is killed."""
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != keeper:
            os._exit(1)

    with open(wanted["log"], "ab") as log:
        daemon = subprocess.Popen(
            wanted["argv"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=wanted["environment"],
            start_new_session=True,
            preexec_fn=follow_the_keeper,  # the keeper has no threads
        )
    return daemon.pid


def main(folder: str) -> None:
    """Start a daemon for each line of JSON, and end all daemons at the end of input."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGCHLD, _reap)
    # A signal that ends the keeper must also end its daemons.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        while order := sys.stdin.readline():
            sys.stdout.write(f"{_obey(order)}\n")
            sys.stdout.flush()
    finally:
        _end_all()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1])
