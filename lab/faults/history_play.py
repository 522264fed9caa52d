"""Plays histories on a machine and has them judged; and opens machines for that, each as the one before."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from lab.errors import LabError, MachineLost
from lab.faults.history import DRIVES, FaultHistory
from lab.faults.history_steps import PlannedStep, job_of, planned
from lab.faults.judge import HistoryDifference, HistoryJudge
from lab.faults.place import FaultPlace, open_place
from lab.faults.planted import PLANTED_SWITCH, find_planted_bug, on_planted_kernel
from lab.faults.program import CAMPAIGN, run_program
from lab.machine import Host, Target
from lab.machine.guest_program import Change, unchanged

MACHINE_SEED = 1
"""Of all machines of campaigns: what a history shows must not hang on what else was played."""
SILENT_SECONDS = 180.0
"""On this computer's clock: a machine that tells nothing for so long will never end what it is at."""
LOST, STOOD_STILL = "machine lost", "stood still"


@dataclass(frozen=True, slots=True)
class Arena:
    """Where histories are played: the machine, the planted bug that is on (0: none), what is altered in the oracle."""

    target: Target
    host: Host
    planted: int = 0
    change: Change = unchanged
    is_control: bool = False
    """The kernel with planted bugs, and none of them switched on."""

    @contextmanager
    def opened(self) -> Iterator[FaultPlace]:
        """A machine as new, with blank drives."""
        target = on_planted_kernel(self.target, self.host) if self.planted else self.target
        with open_place(target, self.host, drives=DRIVES, seed=MACHINE_SEED) as place:
            if self.planted and not self.is_control:
                place.lab.machine.write(PLANTED_SWITCH, str(find_planted_bug(str(self.planted)).number))
            yield place


@dataclass(frozen=True)
class HistoryOutcome:
    """What became of one history. ``documents`` are the player's, with the step of each."""

    history: FaultHistory
    differences: tuple[HistoryDifference, ...]
    explained: Counter[str]
    said_no: Counter[str] = field(default_factory=Counter)
    documents: tuple[tuple[PlannedStep, dict[str, Any]], ...] = ()
    is_over: bool = False
    """The machine is not to be used any more."""

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(each.kind for each in self.differences)


class SilenceWatch:
    """Closes a machine that has told nothing for too long.

    In virtual time a guest that computes without end is not stopped by any clock.
    """

    def __init__(self, place: FaultPlace, seconds: float = SILENT_SECONDS) -> None:
        self._place, self._seconds = place, seconds
        self._timer: threading.Timer | None = None
        self.has_ended_it = False

    def hear(self) -> None:
        """There was a word."""
        self.close()
        self._timer = threading.Timer(self._seconds, self._end)
        self._timer.daemon = True
        self._timer.start()

    def _end(self) -> None:
        self.has_ended_it = True
        self._place.lab.machine.close()

    def close(self) -> None:
        """No word is awaited any more."""
        if self._timer:
            self._timer.cancel()


def play(
    place: FaultPlace,
    histories: Sequence[FaultHistory],
    *,
    change: Change = unchanged,
    is_stopped: Callable[[], bool] = lambda: False,
    has_evidence: bool = False,
    **more: Any,
) -> Iterator[HistoryOutcome]:
    """Play them one after the other, in one process; the outcome of each as it ends.

    A machine that is lost, or stands still, is the outcome of the history that it was at, and the last one; so is a
    history after which nothing can be trusted. Nothing more comes once it is stopped.
    """
    plans = [planned(history, has_evidence=has_evidence) for history in histories]
    jobs = [job_of(history, plan, **more) for history, plan in zip(histories, plans, strict=True)]
    watch = SilenceWatch(place)
    number, judge, documents = 0, HistoryJudge(histories[0]), list[tuple[PlannedStep, dict[str, Any]]]()
    try:
        watch.hear()
        for seen in run_program(place.lab.machine, CAMPAIGN, {"histories": jobs}, change=change):
            watch.hear()
            if is_stopped():
                return
            if "end" not in seen:
                step = plans[number][seen["step"]]
                documents.append((step, seen))
                judge.hear(step, seen)
                continue
            is_over = bool({each.kind for each in judge.differences} & SPOILING)
            yield _outcome(judge, documents, is_over=is_over)
            if is_over:
                return
            number, documents = number + 1, []
            if number < len(histories):
                judge = HistoryJudge(histories[number])
    except LabError as error:
        if is_stopped() or number == len(histories):
            raise
        step = documents[-1][0] if documents else plans[number][0]
        is_still = watch.has_ended_it or not isinstance(error, MachineLost)
        judge.differ(STOOD_STILL if is_still else LOST, step, f"{error.message} after {step.step[0]}")
        yield _outcome(judge, documents, is_over=True)
    finally:
        watch.close()


SPOILING = frozenset(
    {STOOD_STILL, LOST, "could not be played", "could not be stopped", "kernel complained", "not created"}
)
"""After these the machine may not be as before."""


def _outcome(
    judge: HistoryJudge, documents: list[tuple[PlannedStep, dict[str, Any]]], *, is_over: bool
) -> HistoryOutcome:
    return HistoryOutcome(
        judge.history, tuple(judge.differences), judge.explained, judge.said_no, tuple(documents), is_over
    )


def replayed(arena: Arena, history: FaultHistory, before: Sequence[FaultHistory] = (), **more: Any) -> HistoryOutcome:
    """A history on a machine of its own, after those that went before."""
    with arena.opened() as place:
        outcomes = list(play(place, [*before, history], change=arena.change, **more))
    return outcomes[-1]
