"""What the parts of a run share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lab.disks import Lab
from lab.errors import RunCancelled
from lab.experiments.bench import BuiltArray
from lab.experiments.schema import Experiment
from lab.experiments.stopwatch import Stopwatch
from lab.measure.job import Measured
from lab.measure.samples import Sample
from lab.results.journal import RunJournal
from lab.results.record import CellRecord
from lab.workloads.workload import Workload

RecordMaker = Callable[[BuiltArray, Workload, Measured, str, int, int], CellRecord]


class Observer(Protocol):
    """Who wants to know how a run goes: a progress bar, a live view.

    ``on_sample`` is called on the recorder's thread, the others on the thread that runs the experiment.
    """

    def doing(self, what: str, expected_seconds: float) -> None:
        """Something begins that should take about so long."""
        ...

    def done(self, key: str) -> None:
        """A planned cell is finished."""
        ...

    def on_sample(self, sample: Sample) -> None:
        """A sample was taken while a job runs."""
        ...


def never() -> bool:
    """Nobody cancels."""
    return False


class CancellableObserver:
    """Passes on what it hears, and ends the run at the next step when it is cancelled. Raises RunCancelled."""

    def __init__(self, observer: Observer, is_cancelled: Callable[[], bool]) -> None:
        self._observer = observer
        self._is_cancelled = is_cancelled

    def doing(self, what: str, expected_seconds: float) -> None:
        if self._is_cancelled():
            raise RunCancelled(f"the run was cancelled before: {what}")
        self._observer.doing(what, expected_seconds)

    def done(self, key: str) -> None:
        self._observer.done(key)

    def on_sample(self, sample: Sample) -> None:
        self._observer.on_sample(sample)


@dataclass(frozen=True, slots=True)
class RunContext:
    """What every part of a run needs."""

    lab: Lab
    experiment: Experiment
    journal: RunJournal
    stopwatch: Stopwatch
    observer: Observer
    is_cancelled: Callable[[], bool] = never
    allowed_rules: frozenset[str] = frozenset()
    """Rules of the lint that may be broken."""
