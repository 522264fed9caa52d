"""The agent's verbs for raidlab's own programs, loaded when first needed. This file stands alone, like the agent.

    install  folder, files: {path: text}  -> {}
    call     folder, module, arguments    -> {"out" or "failed": text, "seconds", "started"}

A program is a module together with the modules that it imports (lab/machine/programs.py). ``call`` runs the
module's ``main(arguments, is_stopped)``, which returns text or raises OSError with the reason. ``main`` runs in the
agent's own interpreter, because starting another one takes an embedded kernel a seventh of a second of processor time.
It runs on a separate thread, because a disk may answer late or never.
"""

from __future__ import annotations

import _thread
import os
import selectors
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from lab.machine.agent import Agent


def install(agent: Agent, request: dict[str, Any]) -> None:
    """Write files below a folder whose name is derived from their contents. An existing folder is complete."""
    folder = request["folder"]
    if not os.path.isdir(folder):
        unfinished = f"{folder}.{os.getpid()}"
        for path, text in request["files"].items():
            os.makedirs(os.path.dirname(f"{unfinished}/{path}"), exist_ok=True)
            with open(f"{unfinished}/{path}", "w", encoding="utf-8") as file:
                file.write(text)
        try:
            os.rename(unfinished, folder)
        except OSError:
            # Another client's agent may have put the folder in place first.
            if not os.path.isdir(folder):
                raise
    agent.send({"id": request["id"], "done": True})


class ProgramCall:
    """A running program. End of file on its pipe tells the agent's main thread that the program has ended."""

    due: float | None = None
    passes_time = True

    def __init__(self, agent: Agent, request: dict[str, Any]) -> None:
        self.agent = agent
        self.id: int = request["id"]
        self.is_stopped = False
        self.end: dict[str, Any] = {}
        if request["folder"] not in sys.path:
            sys.path.append(request["folder"])
        __import__(request["module"])
        program = sys.modules[request["module"]].main
        read_fd, self.write_fd = os.pipe2(os.O_CLOEXEC)
        try:
            _thread.start_new_thread(self.work, (program, request["arguments"]))
        except BaseException:
            os.close(read_fd)
            os.close(self.write_fd)
            raise
        agent.running[self.id] = self
        agent.selector.register(read_fd, selectors.EVENT_READ, self.on_end)

    def work(self, program: Callable[[list[str], Callable[[], bool]], str], arguments: list[str]) -> None:
        started = time.monotonic()
        try:
            self.end["out"] = program(arguments, lambda: self.is_stopped)
        except OSError as error:
            self.end["failed"] = str(error)
        except BaseException as error:
            self.end["failed"] = repr(error)
        self.end |= {"started": started, "seconds": time.monotonic() - started}
        os.close(self.write_fd)

    def on_end(self, read_fd: int) -> None:
        self.agent.selector.unregister(read_fd)
        os.close(read_fd)
        self.agent.running.pop(self.id, None)
        self.agent.send({"id": self.id, "done": True, **self.end})

    def stop(self, number: int) -> None:
        self.is_stopped = True

    def on_time(self, now: float) -> None:
        """Do nothing, because the client applies its own time-out."""


verbs = {"install": install, "call": ProgramCall}
