"""Delta debugging: the fewest acts and writes of a history that still show the same kind, every step a real replay.

Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (2002): parts are left out, large ones first,
then smaller ones, as long as what is left still shows it. Here first acts, then the writes of each load.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TypeVar

import msgspec

from lab.faults.history import Act, ActKind, FaultHistory
from lab.faults.history_play import Arena, HistoryOutcome, play
from lab.faults.place import FaultPlace

T = TypeVar("T")
MOST_PLAYS = 400
"""Histories played for one finding; then the best so far is taken."""


class Shrinker:
    """Shrinks one history. ``kind`` is what must still be seen."""

    def __init__(
        self,
        arena: Arena,
        kind: str,
        *,
        most_plays: int = MOST_PLAYS,
        is_stopped: Callable[[], bool] = lambda: False,
        on_progress: Callable[[FaultHistory], None] = lambda _: None,
    ) -> None:
        self.arena, self.kind, self.left = arena, kind, most_plays
        self._is_stopped, self._on_progress = is_stopped, on_progress
        self._open = ExitStack()
        self._place: FaultPlace | None = None
        self.steps: list[FaultHistory] = []
        """Each smaller than the one before, and each showed it."""

    def shrink(self, history: FaultHistory, outcome: HistoryOutcome | None = None) -> FaultHistory:
        """The smallest that was found; ``outcome`` is that of the history, if it is known."""
        self.steps = [history]
        with self._open:
            if outcome:
                last = next(each.act for each in outcome.differences if each.kind == self.kind)
                self._take_first([_with_acts(history, history.acts[: max(0, last) + 1])])
            while True:
                before = self.smallest
                self._reduce(self.smallest.acts, lambda acts: _with_acts(self.smallest, acts))
                self._reduce_writes()
                if self.smallest == before or self.left <= 0 or self._is_stopped():
                    return self.smallest

    @property
    def smallest(self) -> FaultHistory:
        return self.steps[-1]

    def _reduce_writes(self) -> None:
        for index in range(len(self.smallest.acts)):
            act = self.smallest.acts[index]
            if act.kind is ActKind.LOAD:
                self._reduce(act.writes, lambda writes, index=index: _with_writes(self.smallest, index, writes))  # type: ignore[misc]

    def _reduce(self, items: Sequence[T], made: Callable[[tuple[T, ...]], FaultHistory]) -> None:
        """Leave out parts of these, from halves down to single ones."""
        items = tuple(items)
        size = max(1, len(items) // 2)
        while items:
            rests = [rest for rest in _without_parts(items, size) if rest != items]
            found = self._take_first([made(rest) for rest in rests])
            if found is not None:
                items = rests[found]
                size = min(size, max(1, len(items)))
            elif size == 1:
                return
            else:
                size = max(1, size // 2)

    def _take_first(self, candidates: list[FaultHistory]) -> int | None:
        """Play them until one shows it, and go on from that; its number."""
        number = 0
        while number < len(candidates) and self.left > 0 and not self._is_stopped():
            for outcome in self._played(candidates[number : number + self.left]):
                self.left -= 1
                if self.kind in outcome.kinds:
                    self.steps.append(candidates[number])
                    self._on_progress(self.smallest)
                    return number
                number += 1
        return None

    def _played(self, candidates: list[FaultHistory]) -> Iterator[HistoryOutcome]:
        """On one machine as long as it lasts."""
        if self._place is None:
            self._place = self._open.enter_context(self.arena.opened())
        for outcome in play(self._place, candidates, change=self.arena.change, is_stopped=self._is_stopped):
            if outcome.is_over:
                self._open.close()
                self._place = None
            yield outcome


def _without_parts(items: tuple[T, ...], size: int) -> Iterator[tuple[T, ...]]:
    """These without so many, from each place; the last first, since what came last is needed least."""
    for start in reversed(range(0, len(items), size)):
        yield items[:start] + items[start + size :]


def _with_acts(history: FaultHistory, acts: Sequence[Act]) -> FaultHistory:
    return msgspec.structs.replace(history, acts=tuple(acts))


def _with_writes(history: FaultHistory, index: int, writes: tuple[tuple[int, int, int], ...]) -> FaultHistory:
    act = msgspec.structs.replace(history.acts[index], writes=writes)
    return _with_acts(history, (*history.acts[:index], act, *history.acts[index + 1 :]))
