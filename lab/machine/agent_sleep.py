"""The agent's verb that lets time pass, loaded when a client first needs it. Stand-alone like the agent.

sleep   seconds, until -> {"now": seconds of the machine's monotonic clock}; early if a file in ``until`` changes
"""

from __future__ import annotations

import os
import select
import selectors
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from lab.machine.agent import Agent

ATTRIBUTE_BYTES = 4096


class Sleep:
    """A sleep that the client requested."""

    passes_time = True

    def __init__(self, agent: Agent, request: dict[str, Any]) -> None:
        self.agent = agent
        self.id: int = request["id"]
        self.due = time.monotonic() + float(request["seconds"])
        # A sysfs attribute is always readable, so the selector is no help; the kernel reports a change as POLLPRI
        # (sysfs_notify, Documentation/filesystems/sysfs.rst).
        self.changes = select.epoll()
        self.fds: list[int] = []
        try:
            for path in request["until"]:
                self.fds.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                # Read the present value, so that only later changes count.
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


verbs = {"sleep": Sleep}
