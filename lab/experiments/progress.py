"""Progress of an experiment, and the account of its time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from lab.arrays.names import is_array_name
from lab.errors import MachineLost, RunCancelled
from lab.experiments.schedule import estimated_seconds, planned_keys
from lab.experiments.schema import Experiment
from lab.host.clock import Clock
from lab.machine.api import CommandResult, Machine
from lab.measure.samples import Rates, Sample, rates_between
from lab.results.record import Timings


@dataclass(frozen=True, slots=True)
class RunProgress:
    """Progress of a run at one moment."""

    label: str = ""
    """The current step."""
    fraction: float = 0.0
    """0 to 1, of the expected time."""
    left_seconds: float | None = 0.0
    """Remaining time on this computer's clock; None: not known yet."""
    done_count: int = 0
    planned_count: int = 0
    """Number of measurements of the whole run."""
    time_seconds: float | None = None
    """The machine's clock at the newest sample."""
    rates: Rates | None = None
    """Rates of the measured array since the previous sample; None between measurements."""
    step_seconds: float = 0.0
    """Expected time of the current step on this computer's clock; 0: not known yet."""


class ProgressMeter:
    """Converts events of a run to ``RunProgress``; steps are weighted by their expected time.

    In virtual time the expected time is the machine's; its ratio to the computer's time comes from finished steps.

    ``on_sample`` is called on the recorder's thread, the other methods on the thread that runs the experiment.
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
        """Expected time of the finished steps."""
        self._step_seconds = 0.0
        self._began_seconds = self._first_seconds = clock.monotonic_seconds()
        self._pace: float | None = 1.0
        """The computer's seconds per expected second; None: not known yet."""
        self._is_virtual = False
        self._boot_seconds: float | None = None
        """Expected time of the steps before the first one on that machine."""
        self._sample: Sample | None = None
        self._now = RunProgress(planned_count=len(planned_keys(experiment)), left_seconds=self._total_seconds)

    def watch(self, machine: Machine) -> None:
        if machine.facts.is_virtual_time:
            self._is_virtual, self._pace = True, None

    def doing(self, what: str, expected_seconds: float) -> None:
        """Begin the next step. Raises RunCancelled if the run was cancelled."""
        if self.is_cancelled():
            raise RunCancelled(f"the run was cancelled before: {what}")
        self._steps_seconds += self._step_seconds
        self._step_seconds, self._began_seconds = expected_seconds, self._clock.monotonic_seconds()
        if self._is_virtual:
            # Excludes the start of the machine, which takes the computer's time and no virtual time.
            if self._boot_seconds is None:
                self._boot_seconds, self._first_seconds = self._steps_seconds, self._began_seconds
            if over := self._steps_seconds - self._boot_seconds:
                self._pace = (self._began_seconds - self._first_seconds) / over
        self._sample = None
        self._tell(replace(self._now, label=what, step_seconds=expected_seconds * (self._pace or 0.0), rates=None))

    def done(self, key: str) -> None:
        count = self._now.done_count + 1
        # Cells with a wide interval get more repeats than planned.
        planned = max(self._now.planned_count, count)
        self._tell(replace(self._now, done_count=count, planned_count=planned, rates=None))

    def on_sample(self, sample: Sample) -> None:
        """Update the progress within a step, and the rates of the array."""
        earlier, self._sample = self._sample, sample
        device = next((name for name in sample.disks if is_array_name(name)), None) or next(iter(sample.disks), None)
        rates = rates_between(earlier, sample, device) if earlier and device else None
        self._tell(replace(self._now, time_seconds=sample.time_seconds, rates=rates))

    def _tell(self, progress: RunProgress) -> None:
        passed = self._clock.monotonic_seconds() - self._began_seconds
        in_step = min(self._step_seconds, passed / self._pace if self._pace else 0.0)
        gone = min(self._total_seconds, self._steps_seconds + in_step)
        # Estimates are rough, so never report the end before it is reached.
        fraction = max(self._now.fraction, min(0.99, gone / self._total_seconds))
        left = (self._total_seconds - gone) * self._pace if self._pace is not None else None
        self._now = replace(progress, fraction=fraction, left_seconds=left)
        self._on_progress(self._now)


class Stopwatch:
    """Accounts time to programs and to waits for resyncs; in virtual time by the machine's clock too.

    fio's time counts as ``fio`` only in measurements: probing a disk or writing files counts as ``other``.

    Args:
        clock: this process's clock.
        started_seconds: start of the run on that clock; None: now.
    """

    def __init__(self, clock: Clock, started_seconds: float | None) -> None:
        self._clock = clock
        self._started = clock.monotonic_seconds() if started_seconds is None else started_seconds
        self._seconds = dict.fromkeys(("fio", "mkfs", "mdadm", "resync"), 0.0)
        self._simulated = dict(self._seconds)
        self._machine_clock: Clock | None = None
        self._is_aside = False
        """Whether commands are not counted now, because they are accounted elsewhere."""

    def watch(self, machine: Machine) -> None:
        machine.on_command(self.on_command)
        if machine.facts.is_virtual_time:
            self._machine_clock = machine.clock

    def on_command(self, result: CommandResult) -> None:
        program = result.argv[0].partition(".")[0]
        if program in self._seconds and not self._is_aside:
            self._seconds[program] += result.computer_seconds
            self._simulated[program] += result.duration_seconds

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Do not account commands to their program, such as those of preparations."""
        before, self._is_aside = self._is_aside, True
        try:
            yield
        finally:
            self._is_aside = before

    @contextmanager
    def resync(self) -> Iterator[None]:
        """Account a wait for a resync or rebuild, including all commands during it."""
        begin, simulated = self._clock.monotonic_seconds(), self._machine_seconds()
        try:
            with self.aside():
                yield
        finally:
            self._seconds["resync"] += self._clock.monotonic_seconds() - begin
            self._simulated["resync"] += self._machine_seconds() - simulated

    def _machine_seconds(self) -> float:
        """Seconds since the machine's start, in virtual time; else 0. A lost machine has no clock."""
        with suppress(MachineLost):
            return self._machine_clock.monotonic_seconds() if self._machine_clock else 0.0
        return 0.0

    def timings(self, earlier: Timings | None = None) -> Timings:
        """The account so far, plus that of an earlier part of the same run."""
        before = earlier or Timings()
        account = _whole(self._seconds, self._clock.monotonic_seconds() - self._started)
        simulated = _whole(self._simulated, self._machine_seconds()) if self._machine_clock else {}
        old = before.simulated_seconds
        return Timings(
            fio_seconds=before.fio_seconds + account["fio"],
            mkfs_seconds=before.mkfs_seconds + account["mkfs"],
            mdadm_seconds=before.mdadm_seconds + account["mdadm"],
            resync_seconds=before.resync_seconds + account["resync"],
            other_seconds=before.other_seconds + account["other"],
            total_seconds=before.total_seconds + account["total"],
            simulated_seconds={word: old.get(word, 0.0) + seconds for word, seconds in simulated.items()},
        )


def _whole(parts: Mapping[str, float], total: float) -> dict[str, float]:
    return {**parts, "other": max(0.0, total - sum(parts.values())), "total": total}
