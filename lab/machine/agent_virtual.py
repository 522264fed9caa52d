"""The agent of a machine in virtual time. This file needs only agent.py in the same folder.

The whole machine and its clock stop while the agent reads from its line (provision/kernel/driver/lab_client_kern.c).
Therefore the agent reads whenever no running task needs time to pass (``passes_time``). Otherwise it checks from time
to time for a request to stop a task. The agent handles one request at a time, because how many arrive together
depends on chance.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from lab.machine.agent import Agent
else:
    # In isolated mode, Python does not search a script's own folder.
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    from agent import Agent

POLL_SECONDS = 10.0


class VirtualAgent(Agent):
    """An agent that stops the clock between requests."""

    most_requests = 1
    next_poll = 0.0

    def listen(self) -> None:
        """Do nothing, because the selector does not watch the line."""

    def next_due(self) -> float | None:
        while not self.is_over and self.is_to_read():
            while b"\n" not in self.pending and not self.is_over:
                self.receive()
            self.on_request_data(self.channel_in)
            self.next_poll = time.monotonic() + POLL_SECONDS
        due = super().next_due()
        return self.next_poll if due is None else min(due, self.next_poll)

    def is_to_read(self) -> bool:
        if not any(task.passes_time for task in self.running.values()):
            return True
        now = time.monotonic()
        if now < self.next_poll:
            return False
        self.next_poll = now + POLL_SECONDS
        return bool(self.pending or select.select([self.channel_in], [], [], 0)[0])
