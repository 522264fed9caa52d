"""The agent's verbs that take samples and let time pass, loaded on demand. This file stands alone, like the agent.

sample  interval, files, block_devices, thread_prefixes -> {"sample": {...}} at each tick until stopped; with an
        interval of 0 a single sample immediately
sleep   seconds, until -> {"now": seconds of the machine's monotonic clock}; earlier if a file in ``until`` changes
"""

from __future__ import annotations

import contextlib
import os
import select
import selectors
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from lab.machine.agent import Agent

SHORTEST_INTERVAL_SECONDS = 0.001
RESCAN_SECONDS = 0.5
ATTRIBUTE_BYTES = 4096


class Sampler:
    """Reads the same small files again and again, and keeps them open because opening costs more than reading."""

    def __init__(self, agent: Agent, request: dict[str, Any]) -> None:
        self.agent = agent
        self.id: int = request["id"]
        self.passes_time = False
        self.interval = max(float(request["interval"]), SHORTEST_INTERVAL_SECONDS)
        self.files = [str(path) for path in request["files"]]
        block_devices = frozenset(request["block_devices"])
        self.keeps_row: dict[str, Callable[[str], bool]] = {
            "/proc/diskstats": lambda row: row.split(None, 3)[2] in block_devices,
            "/proc/stat": lambda row: row.startswith("cpu"),
        }
        self.prefixes = tuple(request["thread_prefixes"])
        self.fds: dict[str, int] = {}
        self.threads: dict[str, str] = {}
        self.other_pids: set[str] = set()
        self.due = self.next_scan = time.monotonic()
        agent.running[self.id] = self
        if not request["interval"]:
            self.on_time(self.due)
            self.stop(0)

    def read(self, path: str) -> str | None:
        try:
            fd = self.fds.get(path)
            if fd is None:
                fd = self.fds[path] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            pieces, offset = [], 0
            while piece := os.pread(fd, 65536, offset):
                pieces.append(piece)
                offset += len(piece)
                if len(piece) < 4096 and path != "/proc/diskstats":
                    break
            text = b"".join(pieces).decode("ascii", "replace")
            keeps_row = self.keeps_row.get(path)
            return "\n".join(filter(keeps_row, text.splitlines())) if keeps_row else text
        except OSError:
            if (fd := self.fds.pop(path, None)) is not None:
                os.close(fd)
            return None

    def scan_threads(self) -> None:
        found = {name for name in os.listdir("/proc") if name.isdigit()}
        self.other_pids &= found
        for pid in found - self.other_pids - self.threads.keys():
            name = "kthreadd"
            with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as comm:
                name = comm.read().strip()
            if name.startswith(self.prefixes):
                self.threads[pid] = name
            elif name != "kthreadd":
                # A new kernel thread has its parent's name until it gets its own.
                self.other_pids.add(pid)

    def thread_ticks(self, now: float) -> dict[str, int]:
        if not self.prefixes:
            return {}
        if now >= self.next_scan:
            self.scan_threads()
            self.next_scan = now + RESCAN_SECONDS
        ticks = {}
        for pid, name in list(self.threads.items()):
            stat = self.read(f"/proc/{pid}/stat")
            if stat is None:
                del self.threads[pid]
                continue
            fields = stat.rpartition(")")[2].split()
            # utime and stime are fields 14 and 15 of the line (proc(5)).
            ticks[f"{name}/{pid}"] = int(fields[11]) + int(fields[12])
        return ticks

    def on_time(self, now: float) -> None:
        sample = {"t": time.monotonic(), "files": {path: self.read(path) for path in self.files}}
        sample["threads"] = self.thread_ticks(now)
        self.agent.send({"id": self.id, "sample": sample})
        self.due += self.interval
        if self.due < now:
            # Skip missed ticks instead of catching up in a burst.
            self.due = now + self.interval

    def stop(self, number: int) -> None:
        for fd in self.fds.values():
            os.close(fd)
        self.agent.running.pop(self.id, None)
        self.agent.send({"id": self.id, "done": True})


class Sleep:
    """A sleep that the client requested."""

    passes_time = True

    def __init__(self, agent: Agent, request: dict[str, Any]) -> None:
        self.agent = agent
        self.id: int = request["id"]
        self.due = time.monotonic() + float(request["seconds"])
        # A sysfs attribute is always readable, so the selector does not help. The kernel reports a change as POLLPRI
        # (sysfs_notify, Documentation/filesystems/sysfs.rst).
        self.changes = select.epoll()
        self.fds: list[int] = []
        try:
            for path in request["until"]:
                self.fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                # Read the current value, so that only later changes count.
                os.read(self.fds[-1], ATTRIBUTE_BYTES)
                self.changes.register(self.fds[-1], select.EPOLLPRI)
        except OSError:
            self.close()
            raise
        agent.selector.register(self.changes, selectors.EVENT_READ, lambda _: self.on_time(time.monotonic()))
        agent.running[self.id] = self

    def on_time(self, now: float) -> None:
        self.agent.running.pop(self.id, None)
        self.agent.selector.unregister(self.changes)
        self.close()
        self.agent.send({"id": self.id, "done": True, "now": now})

    def close(self) -> None:
        self.changes.close()
        for fd in self.fds:
            os.close(fd)

    def stop(self, number: int) -> None:
        self.on_time(time.monotonic())


verbs = {"sample": Sampler, "sleep": Sleep}
