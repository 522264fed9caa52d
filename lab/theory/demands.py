"""How much work one request is for each member: exact averages over a period of the layout, and the bounds they set.

Operational analysis (Denning and Buzen, 1978): an array does at most one request in the time that its busiest member
needs for its share of one, and with few requests in flight at most ``depth`` in the time that one takes alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from lab.arrays.levels import Level
from lab.errors import SpecError
from lab.theory.requests import Requests, Server, Servers, requests_for


@dataclass(frozen=True, slots=True)
class Demand:
    """Average member I/Os of one small request."""

    reads: tuple[float, ...]
    """By slot."""
    writes: tuple[float, ...]
    """By slot."""
    stages: float
    """Steps that wait for each other: 2 where md reads before it writes."""

    @property
    def total_reads(self) -> float:
        return sum(self.reads)

    @property
    def total_writes(self) -> float:
        return sum(self.writes)


@lru_cache(maxsize=1024)
def demand(level: Level, members: int, *, is_write: bool, failed: frozenset[int] = frozenset()) -> Demand:
    """The demand of a small read or write, md's stripe cache left aside. Raises SpecError for a lost array."""
    idle = Servers([Server(1.0, 1.0)] * members, follows_heads=True)
    requests = requests_for(level, members, failed, idle, lambda: 0.0, is_rotational=True)
    work = ([0.0] * members, [0.0] * members)
    stages = 0
    for place in range(requests.places):
        found = requests.stages(place, is_write, 0.0)
        stages += len(found)
        for slots, writes in found:
            chosen = _copies(requests, place, slots, is_write)
            for slot in chosen:
                work[writes][slot] += len(slots) / len(chosen)
    reads, writes_by_slot = ([amount / requests.places for amount in amounts] for amounts in work)
    return Demand(tuple(reads), tuple(writes_by_slot), stages / requests.places)


def _copies(requests: Requests, place: int, slots: tuple[int, ...], is_write: bool) -> tuple[int, ...]:
    """A mirror's reads spread evenly over the copies; everything else is where it is."""
    return slots if is_write else requests.copies_of(place) or slots


def ceiling_iops(
    level: Level, servers: Sequence[Server], *, is_write: bool, failed: frozenset[int] = frozenset()
) -> float:
    """Requests per second that no queue depth exceeds: then the busiest member never rests.

    Raises SpecError without disks.
    """
    if not servers:
        raise SpecError("an array without disks does no work", hint="give the members' rates")
    work = demand(level, len(servers), is_write=is_write, failed=failed)
    seconds = [
        (reads * server.read_seconds + writes * server.write_seconds) / server.concurrent_requests
        for reads, writes, server in zip(work.reads, work.writes, servers, strict=True)
    ]
    return 1 / max(seconds)
