"""The ledger: which writes were asked for, acknowledged and flushed, and what a block may therefore hold.

Runs inside the agent of a machine as a part of other programs, and in the client; standard library alone.

Events have numbers, from 1, in the order in which the writer met them. Generation 0 of a block is whatever was there
before the ledger began. No two writes of one block are ever under way at the same time, so its generations have one
order.

What must be there, by the kind of fault (Documentation/block/writeback_cache_control.rst for flush and FUA):

    running    an acknowledged write is there; one under way, or that failed, may be there or not, also in part
    power cut  the same of what was flushed before the cut; each later write may be there or not
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

WRITE, FLUSH, ACKNOWLEDGED, FAILED, SETTLED = "write", "flush", "acknowledged", "failed", "settled"
INTACT, OLD, NEW, TORN = "intact", "in-flight old", "in-flight new", "torn"
LOST, CORRUPT, UNREADABLE = "lost after acknowledgement", "silently corrupt", "unreadable"
ALLOWED = (INTACT, OLD, NEW, TORN)


class Ledger:
    """What the writer knows. ``events`` is all of it, as lists that JSON can carry."""

    def __init__(self, events: Iterable[list[Any]] = ()) -> None:
        self.events: list[list[Any]] = []
        self.versions: dict[int, list[int]] = {}
        self.writes: dict[int, dict[str, Any]] = {}
        self.flushes: dict[int, dict[str, Any]] = {}
        self.settled: dict[int, tuple[int, int]] = {}
        for event in events:
            self.add(*event)

    def add(self, kind: str, number: int, *more: int) -> int:
        """Note an event; returns its number.

        ``write G FIRST COUNT THROUGH`` (generation G of these blocks; THROUGH 1: past all caches), ``flush N``,
        ``acknowledged N`` and ``failed N`` of
        either; ``settled BLOCK G``: a fault is over, and the block is seen to hold generation G for good.
        """
        self.events.append([kind, number, *more])
        at = len(self.events)
        if kind == WRITE:
            first, count, through = more
            self.writes[number] = {"came": at, "ended": 0, "through": through}
            for block in range(first, first + count):
                self.versions.setdefault(block, [0]).append(number)
        elif kind == FLUSH:
            self.flushes[number] = {"came": at, "ended": 0}
        elif kind == SETTLED:
            self.settled[number] = (at, more[0])
        elif kind == ACKNOWLEDGED:
            (self.writes.get(number) or self.flushes[number])["ended"] = at
        return at

    @property
    def newest(self) -> int:
        """The highest generation so far; flushes take numbers of the same count."""
        return max([0, *self.writes, *self.flushes])

    def blocks(self) -> list[int]:
        """Those ever written, in order."""
        return sorted(self.versions)

    def allowed(self, at: int | None = None, *, is_power_cut: bool = False) -> dict[int, list[int]]:
        """Of each block, the generations of which it may hold parts after event ``at`` (None: after all), oldest first.

        The first is the one that must be there if none of the others are.
        """
        at = len(self.events) if at is None else at
        durable_before = at + 1
        if is_power_cut:
            durable_before = max((each["came"] for each in self.flushes.values() if 0 < each["ended"] <= at), default=0)
        sure: set[int] = set()
        there: set[int] = set()
        for generation, write in self.writes.items():
            if write["came"] <= at:
                there.add(generation)
                if 0 < write["ended"] <= at and (write["ended"] < durable_before or write["through"]):
                    sure.add(generation)
        found = {}
        for block, versions in self.versions.items():
            versions = [each for each in versions if each in there or not each]
            settled_at, settled = self.settled.get(block, (0, 0))
            if 0 < settled_at <= at:
                versions = [settled, *(each for each in versions if each and self.writes[each]["came"] > settled_at)]
            first = max((index for index, each in enumerate(versions) if each in sure), default=0)
            found[block] = versions[first:]
        return found


def judged(found: list[int | None], allowed: list[int]) -> str:
    """The verdict on a block from the generations that its sectors hold (None: no generation of this block)."""
    whole = found[0] if all(each == found[0] for each in found) else None
    if whole is not None and whole in allowed:
        if len(allowed) == 1:
            return INTACT
        return OLD if whole == allowed[0] else NEW
    if all(each is None for each in found) and 0 in allowed:
        # What was there before the ledger began, nobody knows.
        return OLD if len(allowed) > 1 else INTACT
    if any(each is None for each in found):
        return CORRUPT
    if all(each in allowed for each in found):
        return TORN
    # Only generations of this very block: too old a one, or one that was replaced long ago.
    return LOST
