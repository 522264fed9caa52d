"""How far an experiment is: what it does, what part is done, what is left, and what the array does meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from lab.arrays.names import is_array_name
from lab.experiments.schedule import estimated_seconds, planned_keys
from lab.experiments.schema import Experiment
from lab.measure.samples import Rates, Sample, rates_between
from lab.seams.clock import Clock


@dataclass(frozen=True, slots=True)
class RunProgress:
    """One moment of a run."""

    label: str = ""
    """What is being done."""
    fraction: float = 0.0
    """0 to 1, of the expected time."""
    left_seconds: float = 0.0
    done_count: int = 0
    planned_count: int = 0
    """Measurements of the whole run."""
    time_seconds: float | None = None
    """The machine's clock at the newest sample."""
    rates: Rates | None = None
    """What the measured array has done since the sample before; None between measurements."""


class ProgressMeter:
    """An Observer that turns what a run tells into ``RunProgress``; steps count by the time that they should take."""

    def __init__(self, experiment: Experiment, clock: Clock, on_progress: Callable[[RunProgress], None]) -> None:
        self._clock = clock
        self._on_progress = on_progress
        self._total_seconds = max(1.0, estimated_seconds(experiment))
        self._steps_seconds = 0.0
        """Of the steps that are over, as they were expected."""
        self._step_seconds = 0.0
        self._began_seconds = clock.monotonic_seconds()
        self._sample: Sample | None = None
        self._now = RunProgress(planned_count=len(planned_keys(experiment)), left_seconds=self._total_seconds)

    def doing(self, what: str, expected_seconds: float) -> None:
        """The next step begins."""
        self._steps_seconds += self._step_seconds
        self._step_seconds, self._began_seconds = expected_seconds, self._clock.monotonic_seconds()
        self._sample = None
        self._tell(replace(self._now, label=what, rates=None))

    def done(self, key: str) -> None:
        """One measurement more."""
        count = self._now.done_count + 1
        # Cells with a wide interval get more repeats than were planned.
        planned = max(self._now.planned_count, count)
        self._tell(replace(self._now, done_count=count, planned_count=planned, rates=None))

    def on_sample(self, sample: Sample) -> None:
        """The bar moves within a step as well, and the array's rates are known."""
        earlier, self._sample = self._sample, sample
        device = next((name for name in sample.disks if is_array_name(name)), None) or next(iter(sample.disks), None)
        rates = rates_between(earlier, sample, device) if earlier and device else None
        self._tell(replace(self._now, time_seconds=sample.time_seconds, rates=rates))

    def _tell(self, progress: RunProgress) -> None:
        in_step = min(self._step_seconds, self._clock.monotonic_seconds() - self._began_seconds)
        gone = min(self._total_seconds, self._steps_seconds + in_step)
        # The end is not reached before it is: estimates are rough.
        fraction = max(self._now.fraction, min(0.99, gone / self._total_seconds))
        self._now = replace(progress, fraction=fraction, left_seconds=self._total_seconds - gone)
        self._on_progress(self._now)
