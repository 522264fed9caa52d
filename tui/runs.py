"""The workloads, experiments and sweeps that the app can run, and experiments as background jobs.

An experiment has its own lab, reports its progress, and can be cancelled at any time.
"""

from __future__ import annotations

import shlex
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from lab.actions.arrays import workloads
from lab.errors import LabError
from lab.machine import Target, parse_target
from lab.results.record import ResultRecord
from lab.results.store import ResultStore, ResultSummary
from lab.units import GIB, MIB, human_bytes, human_seconds
from lab.workloads.fio_output import DirectionFigures, MeasuredWindow
from tui.quantities import Unit, format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lab.experiments.run import RunRequest
    from lab.experiments.schedule import RunProgress
    from lab.experiments.schema import Experiment
    from lab.experiments.sweeps import SweepEntry
    from lab.measure.job import Measured
    from lab.workloads.workload import Workload
    from tui.frontend import Cancelled, Frontend, Progress
    from tui.state import LabState, LoadView, PastLoad

Outcome = TypeVar("Outcome")
MOST_LINES = 5


@dataclass(slots=True, kw_only=True)
class JobView(Generic[Outcome]):
    """The current or the last background job of a screen."""

    outcome: Outcome | None = None
    """The outcome of the job; None while it runs."""
    is_ending: bool = False

    @property
    def is_running(self) -> bool:
        return self.outcome is None

    @property
    def can_be_ended(self) -> bool:
        return self.is_running and not self.is_ending


def end_job(frontend: Frontend, view: JobView[Outcome] | None) -> None:
    """Ask a job to end at its next step or sample. Finished measurements remain stored."""
    if view and view.is_running:
        view.is_ending = True
        frontend.background.cancel()
        frontend.show_soon()


class RunKind(Enum):
    """The kinds of items on the Run screen."""

    WORKLOAD = auto()
    EXPERIMENT = auto()
    SWEEP = auto()


@dataclass(frozen=True, slots=True)
class RunItem:
    """A workload, an experiment or a sweep."""

    id: str
    """A name that is unique among the items of one kind."""
    title: str
    shows: str
    """What the workload demonstrates, or the question that the experiment or sweep answers."""
    facts: str
    """The block size, depth and so on of a workload, the duration of an experiment, or the state of a sweep."""
    kind: RunKind
    details: tuple[str, ...] = ()
    """The lines of the description, with fio's job file, the arrays and workloads, or the axes of a sweep."""

    @property
    def option_id(self) -> str:
        """An id that is unique in the list, in which a sweep and a workload may have the same name."""
        return f"sweep-{self.id}" if self.kind is RunKind.SWEEP else self.id


def workload_items() -> tuple[RunItem, ...]:
    """Return the catalogue of workloads, the common ones first, in the order of the Lab screen's menu."""
    items = []
    for workload in workloads():
        depth = f"depth {workload.queue_depth}" + (f" × {workload.jobs} jobs" if workload.jobs > 1 else "")
        share = f" {workload.read_percent} % reads" if workload.read_percent is not None else ""
        facts = f"{human_bytes(workload.block_bytes)} {workload.pattern} {workload.direction}{share}, {depth}"
        details = _job_lines(workload)
        items.append(RunItem(workload.id, workload.title, workload.shows, facts, RunKind.WORKLOAD, details))
    return tuple(items)


def experiment_items() -> tuple[RunItem, ...]:
    """Return the built-in experiments, the shortest first."""
    from lab.experiments.schedule import estimated_seconds, planned_keys
    from lab.experiments.schema import built_in_names, find_experiment

    found = [find_experiment(name)[0] for name in built_in_names()]
    return tuple(
        RunItem(
            each.id,
            each.title,
            each.question,
            f"about {human_seconds(estimated_seconds(each))}, {len(planned_keys(each))} measurements",
            kind=RunKind.EXPERIMENT,
            details=_plan_lines(each),
        )
        for each in sorted(found, key=estimated_seconds)
    )


def sweep_items(entries: Sequence[SweepEntry]) -> tuple[RunItem, ...]:
    """Return the items of these sweeps, in the same order."""
    return tuple(
        RunItem(each.name, each.title, each.question, each.state, kind=RunKind.SWEEP, details=tuple(each.axes))
        for each in entries
    )


def _job_lines(workload: Workload) -> tuple[str, ...]:
    """Return the fio job file or the dd command for an array named md0."""
    from lab.workloads.jobs import JobTarget, PathKind, dd_invocation, fio_invocations
    from lab.workloads.workload import LoadProgram

    target = JobTarget("/dev/md0", PathKind.DEVICE, GIB, file_bytes=64 * MIB)
    if workload.program is LoadProgram.DD:
        return ("this command runs, here on /dev/md0:", "", f"  {shlex.join(dd_invocation(workload, target).argv)}")
    first = fio_invocations(workload, target)[0]
    times = _times_words(first.window) if first.window else ""
    return (f"fio runs this job, here on /dev/md0{times}:", "", *(f"  {line}" for line in first.job_text.splitlines()))


def _times_words(window: MeasuredWindow) -> str:
    """Explain fio's run time, which is longer than the measured time, and is in milliseconds in the job file."""
    measured = window.seconds or 0.0
    rest = window.issue_seconds - window.warmup_seconds - measured
    parts = [f"{window.warmup_seconds:g} s of warm-up"] if window.warmup_seconds else []
    parts += [f"{measured:g} s measured", f"{rest:g} s until the last figures arrive"]
    return f", for {window.issue_seconds:g} s ({', '.join(parts)})"


def _plan_lines(experiment: Experiment) -> tuple[str, ...]:
    disks = experiment.disks
    kind = f"{disks.model} drives" if disks.model else f"{disks.kind} disks"
    lines = [experiment.why, ""] if experiment.why else []
    lines += [f"Arrays, on {kind} of {human_bytes(disks.size_bytes)}, {disks.sharing}:"]
    lines += [f"  {array.label}: {array.level} on {array.members}" for array in experiment.arrays]
    lines += ["", "Workloads:"]
    jobs = [job.build() for job in experiment.jobs]
    lines += [
        f"  {job.id}: {human_seconds(job.runtime_seconds)} after {human_seconds(job.warmup_seconds)}" for job in jobs
    ]
    if experiment.rebuild:
        under = f" under {experiment.rebuild.under.workload}" if experiment.rebuild.under else ""
        lines += ["", f"Rebuilds of {', '.join(experiment.rebuild.arrays)}{under}, with a verdict on the data."]
    lines += [
        "",
        f"{experiment.repeats} repeats, {experiment.order}, {experiment.cache} caches, {experiment.file_system}.",
    ]
    lines += [f"Known defect: {defect}" for defect in experiment.defects]
    return tuple(lines)


def measured_of(load: LoadView | None) -> Measured | None:
    """Return the figures of a load that ended without an error, else None."""
    if load is None or load.outcome is None or isinstance(load.outcome, LabError):
        return None
    return load.outcome


def iops_of(measured: Measured) -> float:
    """Return the IOPS of reads and writes together."""
    return sum(part.iops for part in _directions(measured))


def _directions(measured: Measured) -> list[DirectionFigures]:
    return [part for part in (measured.figures.reads, measured.figures.writes) if part]


def figures_lines(measured: Measured, width: int) -> tuple[str, ...]:
    """Return IOPS, throughput and latencies in one line for each direction, or in two if ``width`` is too small."""
    lines: list[str] = []
    for name, section in (("reads", measured.figures.reads), ("writes", measured.figures.writes)):
        if section:
            rates, latencies = f"{name:<7}{_rates(section)}", _latencies(section)
            one = f"{rates}   {latencies}"
            lines += [one] if len(one) <= width else [rates, f"{'':<7}{latencies}"]
    return tuple(lines)


def _rates(section: DirectionFigures) -> str:
    bandwidth = format_value(section.bandwidth_bytes_per_second, Unit.BYTES_PER_SECOND)
    return f"{format_value(section.iops, Unit.IOPS):>6} IOPS   {bandwidth:>9}"


def _latencies(section: DirectionFigures) -> str:
    values = (("p50", section.p50_seconds), ("p99", section.p99_seconds), ("max", section.max_seconds))
    return "  ".join(f"{name} {format_value(value, Unit.SECONDS)}" for name, value in values)


def ran_seconds(measured: Measured) -> float:
    """Return the measured time, in seconds."""
    return max((part.runtime_seconds for part in _directions(measured)), default=0.0)


def earlier_lines(state: LabState, workload: str) -> tuple[str, ...]:
    """Return a line for each earlier load of this workload except the one shown, with the newest first."""
    past = [each for each in state.past_loads if each.workload == workload]
    if state.load and state.load.workload == workload and not state.load.is_running:
        past = past[:-1]
    return tuple(_past_line(each) for each in reversed(past[-MOST_LINES:]))


def _past_line(past: PastLoad) -> str:
    p99 = max((part.p99_seconds or 0.0 for part in _directions(past.measured)), default=0.0)
    iops = format_value(iops_of(past.measured), Unit.IOPS)
    return f"{iops:>6} IOPS   p99 {format_value(p99, Unit.SECONDS):<8} {past.array} {past.condition}"


MOST_POINTS = 4 * 600


@dataclass(slots=True)
class ExperimentView(JobView["ResultRecord | LabError"]):
    """The current or the last experiment."""

    experiment: str
    progress: RunProgress
    points: dict[str, deque[tuple[float, float | None]]] = field(default_factory=dict)
    """(time, IOPS of the measured array) for ``reads`` and ``writes``. The IOPS are None between measurements."""
    earlier_count: int = 0
    """How many measurements a resumed result already contained."""
    result_id: str = ""
    """The id of the stored result, complete or partial; empty if nothing is stored."""

    @property
    def done_count(self) -> int:
        return self.earlier_count + self.progress.done_count

    def advance(self, progress: RunProgress) -> None:
        self.progress = progress
        if progress.time_seconds is None:
            return
        for name, rate in (("reads", "read_iops"), ("writes", "write_iops")):
            value = getattr(progress.rates, rate) if progress.rates else None
            self.points.setdefault(name, deque(maxlen=MOST_POINTS)).append((progress.time_seconds, value))

    def stored_words(self) -> str:
        if not self.result_id:
            return "Nothing had been measured yet, so nothing is stored."
        return f"{self.done_count} of {self.progress.planned_count} measurements are stored as {self.result_id}."


class Experiments:
    """Starts and resumes experiments, one at a time."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self.view: ExperimentView | None = None

    def start(self, name: str, resumed: ResultSummary | None = None) -> bool:
        """Run a built-in experiment, or resume its incomplete result. Return False if another job is running."""
        from lab.experiments.schedule import RunProgress

        view = ExperimentView(name, RunProgress(label="starting a machine"))
        view.earlier_count = resumed.measured_count if resumed else 0

        def done(record: ResultRecord) -> None:
            view.outcome, view.result_id = record, record.id
            self._frontend.show_message(f"{name}: stored as {record.id}", title="Measured")

        def failed(error: LabError) -> None:
            view.outcome = error

        work = partial(self._work, view, resumed.id if resumed else None)
        begun = self._frontend.background.run(name, work, on_done=done, on_error=failed, on_progress=view.advance)
        if begun:
            self.view = view
        return begun

    def _work(
        self, view: ExperimentView, resumed: str | None, progress: Progress, cancelled: Cancelled
    ) -> ResultRecord:
        from lab.experiments.run import resume_experiment, resumed_target, run_experiment
        from lab.experiments.schema import find_experiment

        store = ResultStore(self._frontend.client.host.state.results)
        before = set(store.ids())
        try:
            usual = parse_target(self._frontend.lab.target or "uml:")
            earlier = store.incomplete(resumed) if resumed else None
            target = resumed_target(earlier, usual) if earlier else usual
            request, released = request_of(self._frontend, progress, cancelled, target)
            with released:
                if earlier:
                    return resume_experiment(earlier, request)
                return run_experiment(*find_experiment(view.experiment), request)
        except LabError:
            view.result_id = resumed or next(
                (each.id for each in store.list() if each.id not in before and each.measured_count), ""
            )
            raise


def request_of(
    frontend: Frontend, progress: Progress, cancelled: Cancelled, target: Target | None = None
) -> tuple[RunRequest, AbstractContextManager[None]]:
    """Return a request that runs an experiment, and a context that closes the app's lab if both need its machine.

    ``progress`` is called with each ``RunProgress``. Without ``target``, the experiment runs on that of the app's lab.
    """
    from lab.experiments.run import RunRequest

    chosen = target or parse_target(frontend.lab.target or "uml:")
    request = RunRequest(chosen, frontend.client.host, on_progress=progress, is_cancelled=cancelled)
    # raidlab starts a machine for each run if it can. Any other machine exists only once, and the app has locked it.
    return request, nullcontext() if chosen.is_embedded else frontend.client.released()
