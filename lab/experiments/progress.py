"""How far an experiment is, and what its time went into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from lab.arrays.names import is_array_name
from lab.errors import RunCancelled
from lab.experiments.schedule import estimated_seconds, planned_keys
from lab.experiments.schema import Experiment
from lab.host.clock import Clock
from lab.machine.api import CommandResult
from lab.measure.samples import Rates, Sample, rates_between
from lab.results.record import Timings


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
    step_seconds: float = 0.0
    """What is being done should take so long."""


class ProgressMeter:
    """Turns what a run tells into ``RunProgress``; steps count by the time that they should take.

    ``on_sample`` is called on the recorder's thread, the others on the thread that runs the experiment.
    """

    def __init__(
        self,
        experiment: Experiment,
        clock: Clock,
        on_progress: Callable[[RunProgress], None],
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self.is_cancelled = is_cancelled
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
        """The next step begins. Raises RunCancelled if the run is to end."""
        if self.is_cancelled():
            raise RunCancelled(f"the run was cancelled before: {what}")
        self._steps_seconds += self._step_seconds
        self._step_seconds, self._began_seconds = expected_seconds, self._clock.monotonic_seconds()
        self._sample = None
        self._tell(replace(self._now, label=what, step_seconds=expected_seconds, rates=None))

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


class Stopwatch:
    """Counts commands by their program, and waiting for resyncs by itself.

    Args:
        clock: this process's clock.
        started_seconds: when the whole began on that clock; None: now.
    """

    def __init__(self, clock: Clock, started_seconds: float | None) -> None:
        self._clock = clock
        self._started = clock.monotonic_seconds() if started_seconds is None else started_seconds
        self._seconds = {"fio": 0.0, "mkfs": 0.0, "mdadm": 0.0, "resync": 0.0}
        self._is_in_resync = False

    def on_command(self, result: CommandResult) -> None:
        """Listener for a machine's commands."""
        program = result.argv[0].partition(".")[0]
        # What happens while a resync is waited for is inside that wait already.
        if program in self._seconds and not self._is_in_resync:
            self._seconds[program] += result.duration_seconds

    @contextmanager
    def resync(self) -> Iterator[None]:
        """Time a wait for a resync or rebuild."""
        begin = self._clock.monotonic_seconds()
        self._is_in_resync = True
        try:
            yield
        finally:
            self._is_in_resync = False
            self._seconds["resync"] += self._clock.monotonic_seconds() - begin

    def timings(self, earlier: Timings | None = None) -> Timings:
        """The account until now, with that of an earlier part of the same run added."""
        total = self._clock.monotonic_seconds() - self._started
        before = earlier or Timings()
        return Timings(
            fio_seconds=before.fio_seconds + self._seconds["fio"],
            mkfs_seconds=before.mkfs_seconds + self._seconds["mkfs"],
            mdadm_seconds=before.mdadm_seconds + self._seconds["mdadm"],
            resync_seconds=before.resync_seconds + self._seconds["resync"],
            other_seconds=before.other_seconds + max(0.0, total - sum(self._seconds.values())),
            total_seconds=before.total_seconds + total,
        )
