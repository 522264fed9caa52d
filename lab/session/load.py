"""One workload on one array, or on a free disk, while the session continues."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from lab.arrays.levels import DEFAULT_CHUNK_BYTES
from lab.disks.kinds import find_drive_model
from lab.errors import LabError, SpecError
from lab.lint.experiment_checks import AGREEMENT_FRACTION
from lab.measure.job import FioRun, LoadTarget, Measured, measured_by
from lab.session.data_mark import load_target, with_free_bytes
from lab.session.session import LabSession
from lab.theory.model import DiskRates, nominal_rates, predict_load, small_write_cost
from lab.units import MIB
from lab.workloads.fio_output import LiveInterval
from lab.workloads.jobs import JobTarget, fio_invocations, prepare_invocation
from lab.workloads.workload import AccessPattern, Direction, Verify, Workload, find_workload

WORKING_SET_BYTES = 256 * MIB
"""The working set if neither the workload nor the caller sets one. It touches every member, and is written in about a
second."""
LONGEST_SECONDS = 24 * 3600.0
LIVE_SECONDS = 0.5
_HURRIED_SECONDS = 0.2


class LoadPhase(StrEnum):
    """The phases of a load."""

    PREPARING = "preparing"
    """The load writes the data that it will read, so that reads do not hit unallocated space."""
    WARMING_UP = "warming up"
    RUNNING = "running"
    OVER = "over"


class Load:
    """A workload's run: ``Load(session, "md0", "rand-read-4k", on_live=…).start()``, then ``stop()`` or ``wait()``.

    A load never touches the data mark. On a bare array, it overwrites everything before the mark.

    Args:
        where: an array, or a free disk.
        runtime_seconds: the measured time; None means until ``stop`` (at most a day), without a warm-up.
        working_set_bytes: the total for all jobs; None means the workload's own working set or, if it sets none,
            256 MiB or the available space, whichever is less.
        is_aside: whether the load leaves the clock of a machine in virtual time alone (Machine.stream), except while it
            prepares; live values are then reported at the pace of this computer's clock.
        on_live: called with the values of each half second, on the load's thread.
        on_phase: called with each phase as it begins, on the same thread.
        on_end: called once at the end, on the same thread, with the figures, with None if the load was stopped before
            it measured anything, or with the error that made it fail.
    """

    def __init__(
        self,
        session: LabSession,
        where: str,
        workload: str | Workload,
        *,
        runtime_seconds: float | None = None,
        working_set_bytes: int | None = None,
        is_aside: bool = False,
        on_live: Callable[[LiveInterval], None] = lambda _: None,
        on_phase: Callable[[LoadPhase], None] = lambda _: None,
        on_end: Callable[[Measured | LabError | None], None] = lambda _: None,
    ) -> None:
        self.workload = find_workload(workload) if isinstance(workload, str) else workload
        self.where = where
        self.phase = LoadPhase.PREPARING
        self._session = session
        self._runtime = runtime_seconds
        self._working_set = working_set_bytes
        self._on_live, self._on_phase, self._on_end = on_live, on_phase, on_end
        is_hurried = is_aside and session.machine.facts.is_virtual_time
        self._reported_seconds = -math.inf
        self._fio = FioRun(
            session.lab,
            self.workload,
            self._report,
            is_aside=is_aside,
            is_due=self._is_due if is_hurried else lambda: True,
        )
        self._outcome: Measured | LabError | None = None
        self._thread = threading.Thread(target=self._run, name="raidlab-load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_over(self) -> bool:
        return self.phase is LoadPhase.OVER

    def stop(self) -> None:
        """Ask fio to print its results and end. Returns immediately; repeated calls have no effect."""
        self._fio.stop()

    def wait(self, timeout_seconds: float | None = None) -> Measured | None:
        """Wait for the end, and return the figures, or None if nothing was measured. Raises the load's error."""
        self._thread.join(timeout_seconds)
        if isinstance(self._outcome, LabError):
            raise self._outcome
        return self._outcome

    def _run(self) -> None:
        try:
            self._outcome = self._measure()
        except LabError as error:
            self._outcome = error
        except Exception as error:
            self._outcome = LabError(f"the load failed: {error!r}", hint="report this")
            raise
        finally:
            self._enter(LoadPhase.OVER)
            self._on_end(self._outcome)

    def _enter(self, phase: LoadPhase) -> None:
        if phase is not self.phase or phase is LoadPhase.PREPARING:
            self.phase = phase
            self._on_phase(phase)

    def _measure(self) -> Measured | None:
        self._enter(LoadPhase.PREPARING)
        where = with_free_bytes(self._session, load_target(self._session, self.where))
        target = where.job_target(file_bytes=self._file_bytes(where))
        self._prepare(where, target)
        endless = self._runtime is None
        runtime = LONGEST_SECONDS if self._runtime is None else self._runtime
        parts = self._fio.run(
            fio_invocations(
                self.workload,
                target,
                runtime_seconds=runtime,
                warmup_seconds=0.0 if endless else min(self.workload.warmup_seconds, runtime / 4),
                status_interval_seconds=LIVE_SECONDS,
                is_endless=endless,
            )
        )
        return measured_by(parts) if parts else None

    def _file_bytes(self, where: LoadTarget) -> int:
        files, block_bytes = self.workload.region_count, self.workload.block_bytes
        room = where.available_bytes // files
        requested = self._working_set // files if self._working_set else self.workload.file_bytes
        size = min(requested or WORKING_SET_BYTES // files, room - room // 16)
        size -= size % max(block_bytes, MIB if size >= 2 * MIB else 1)
        return max(size, block_bytes)

    def _prepare(self, where: LoadTarget, target: JobTarget) -> None:
        """Write each region once, so that reads do not hit unallocated space.

        A load with Verify.REREAD writes them itself.
        """
        region = (where.uuid or where.device, where.file_system, self.workload.jobs, target.file_bytes)
        if self.workload.verify is Verify.REREAD or region in self._session.written:
            return
        if self.workload.reads or not where.is_raw:
            self._fio.run((prepare_invocation(self.workload, target),))
            if not self._fio.is_stopped:
                self._session.written.add(region)

    def _is_due(self) -> bool:
        # Hours of machine time may pass in seconds, too fast to show every half second.
        now = self._session.host.clock.monotonic_seconds()
        if now - self._reported_seconds < _HURRIED_SECONDS:
            return False
        self._reported_seconds = now
        return True

    def _report(self, interval: LiveInterval) -> None:
        self._enter(LoadPhase.WARMING_UP if interval.is_warmup else LoadPhase.RUNNING)
        self._on_live(interval)


@dataclass(frozen=True, slots=True)
class Forecast:
    """The predicted performance of a load."""

    iops: float | None
    """I/Os per second, reads and writes together, or None if no number can be predicted."""
    reason: str
    """The reason for the number, or why there is none."""


def predict(session: LabSession, name: str, workload: str | Workload) -> Forecast:
    """Predict IOPS if the members have a known service time (spindles). Raises ArrayError if the array is stopped."""
    work = find_workload(workload) if isinstance(workload, str) else workload
    status = session.array(name).status()
    if status.unpredicted:
        return Forecast(None, status.unpredicted)
    level, members = status.raid, status.raid_disks
    nodes = [member.device for member in status.members if member.is_in_sync]
    rates = _rates(session, nodes)
    writes = "small writes to the complete array" if status.is_degraded else "small writes"
    is_small = work.direction is not Direction.READ and work.block_bytes < DEFAULT_CHUNK_BYTES
    cost = f" For {writes}, {small_write_cost(level, members).reason}" if is_small else ""
    if work.direction is Direction.VERIFY or (
        work.pattern is AccessPattern.SEQUENTIAL and work.direction is not Direction.MIX
    ):
        return Forecast(None, f"it depends on how md and the disks merge the requests of '{work.id}'")
    if rates is None:
        limit = "the processor is the limit, so all levels look alike"
        if session.machine.facts.is_virtual_time:
            limit = "in virtual time they are all equally fast, and theory has no model of them"
        return Forecast(None, f"these disks have no service time: {limit}.{cost}")
    if status.is_degraded:
        return Forecast(None, f"{name} is degraded, so a read of a missing block reads all other members.{cost}")
    try:
        # Approximately the size of the data on each disk: md reserves a few MiB.
        own = {disk.node: disk.size_bytes for disk in session.disks}
        sizes = tuple(own[node] for node in nodes if node in own) if level.has_zones else ()
        # The load covers the array from its start; its size is the default working set if the workload sets none.
        covered = work.file_bytes * work.region_count if work.file_bytes else WORKING_SET_BYTES
        working_bytes = covered if len(set(sizes)) > 1 else None
        prediction = predict_load(
            level, rates, work, working_bytes=working_bytes, chunk_bytes=status.chunk_bytes, member_bytes=sizes
        )
    except SpecError as error:
        return Forecast(None, error.message)
    return Forecast(prediction.iops, prediction.reason)


def beside_prediction(predicted_iops: float, measured: Measured) -> str:
    """Compare one run with its prediction, using only their ratio, since a single run has no confidence interval."""
    sections = (measured.figures.reads, measured.figures.writes)
    share = sum(section.iops for section in sections if section) / predicted_iops
    if abs(share - 1) <= AGREEMENT_FRACTION:
        return f"{share:.2f} × the prediction: within {AGREEMENT_FRACTION:.0%} of it"
    return (
        f"{share:.2f} × the prediction. One run is too few to say whether it differs from theory; experiments repeat it"
    )


def _rates(session: LabSession, nodes: list[str]) -> list[DiskRates] | None:
    models = {disk.node: disk.model for disk in session.disks}
    found = [models.get(node, "") for node in nodes]
    return [nominal_rates(find_drive_model(model)) for model in found] if found and all(found) else None
