"""Members as queues: each serves its I/Os in the order in which they come, every one for a constant time."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Server:
    """One member."""

    read_seconds: float
    write_seconds: float
    concurrent_requests: int = 1
    """How many I/Os it works on at a time."""


class Servers:
    """The members of an array and what waits at them.

    With service in order of arrival, the time at which an I/O ends is known when it is put in.
    """

    def __init__(self, servers: Sequence[Server], *, follows_heads: bool) -> None:
        self._seconds = ([server.read_seconds for server in servers], [server.write_seconds for server in servers])
        self._free = [0.0] * len(servers)
        """When each member has done all that waits for it, or with several at a time, when it can begin another."""
        self._later = [[0.0] * (server.concurrent_requests - 1) for server in servers]
        self._is_simple = not follows_heads and all(server.concurrent_requests == 1 for server in servers)
        self._ends: list[deque[tuple[float, float]]] = [deque() for _ in servers]
        self._heads = [0.0] * len(servers)
        self._follows_heads = follows_heads
        self.ios = ([0] * len(servers), [0] * len(servers))
        """Reads and writes so far, by slot."""

    @property
    def busy_seconds(self) -> float:
        """Time that all members together spent or will spend on what they were given."""
        return sum(
            count * each
            for counts, seconds in zip(self.ios, self._seconds, strict=True)
            for count, each in zip(counts, seconds, strict=True)
        )

    def put(self, now: float, slots: tuple[int, ...], is_write: bool, address: float) -> float:
        """Give each of these members an I/O; returns when the last one ends."""
        free, seconds, ios = self._free, self._seconds[is_write], self.ios[is_write]
        last = 0.0
        for slot in slots:
            start = free[slot]
            end = (start if start > now else now) + seconds[slot]
            free[slot] = end
            ios[slot] += 1
            if not self._is_simple:
                self._note(slot, end, address)
            if end > last:
                last = end
        return last

    def _note(self, slot: int, end: float, address: float) -> None:
        if self._later[slot]:
            self._free[slot] = heapq.heappushpop(self._later[slot], end)
        if self._follows_heads:
            self._ends[slot].append((end, address))

    def pending(self, slot: int, now: float) -> int:
        """I/Os that the member has not answered."""
        ends = self._ends[slot]
        while ends and ends[0][0] <= now:
            self._heads[slot] = ends.popleft()[1]
        return len(ends)

    def head(self, slot: int) -> float:
        """Where the member's last answered I/O was, as a fraction of its size; ``pending`` brings it up to date."""
        return self._heads[slot]
