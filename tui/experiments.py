"""Experiments as the app's long work: on a lab of their own, told as they go on, ended on request."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.errors import LabError, RunCancelled

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lab.experiments.progress import RunProgress
    from lab.experiments.schema import Experiment
    from lab.machine import Target
    from lab.results.record import ResultRecord
    from lab.results.store import ResultStore, ResultSummary
    from tui.app import RaidlabApp

KEPT_POINTS = 4 * 600
Progress = Callable[[object], None]
Cancelled = Callable[[], bool]


@dataclass(slots=True)
class ExperimentView:
    """An experiment under way, or the last one."""

    experiment: str
    progress: RunProgress
    points: dict[str, deque[tuple[float, float | None]]] = field(default_factory=dict)
    """Reads and writes per second of the measured array; a gap between two measurements."""
    earlier_count: int = 0
    """Measurements that were there before it went on."""
    result_id: str = ""
    """Of what is stored: whole, or as far as it came. Empty: nothing."""
    outcome: ResultRecord | LabError | None = None
    """None while it runs."""
    is_ending: bool = False
    """Somebody has asked it to end."""

    @property
    def is_running(self) -> bool:
        return self.outcome is None

    @property
    def was_cancelled(self) -> bool:
        return isinstance(self.outcome, RunCancelled)

    @property
    def done_count(self) -> int:
        return self.earlier_count + self.progress.done_count

    def advance(self, progress: RunProgress) -> None:
        """The next moment."""
        self.progress = progress
        if progress.time_seconds is None:
            return
        for name, rate in (("reads", "read_iops"), ("writes", "write_iops")):
            value = getattr(progress.rates, rate) if progress.rates else None
            self.points.setdefault(name, deque(maxlen=KEPT_POINTS)).append((progress.time_seconds, value))

    def kept(self) -> str:
        """What is stored of a run that did not come to its end."""
        if not self.result_id:
            return "Nothing had been measured yet, so nothing is stored."
        return f"{self.done_count} of {self.progress.planned_count} measurements are stored as {self.result_id}."


class Experiments:
    """Starts an experiment, goes on with one that broke off, and ends it. One at a time."""

    def __init__(self, app: RaidlabApp) -> None:
        self._app = app
        self.view: ExperimentView | None = None

    def start(self, name: str) -> bool:
        """Run a built-in experiment; False if other long work still runs."""
        return self._begin(name)

    def resume(self, summary: ResultSummary) -> bool:
        """Go on with an incomplete result; False if other long work still runs."""
        return self._begin(summary.experiment, summary)

    def cancel(self) -> None:
        """Ask it to end at the next step or sample; what was measured stays."""
        if self.view and self.view.is_running:
            self.view.is_ending = True
            self._app.cancel_background()
            self._app.show_soon()

    def _begin(self, name: str, earlier: ResultSummary | None = None) -> bool:
        from lab.experiments.progress import RunProgress

        view = ExperimentView(name, RunProgress(label="starting a machine"))
        view.earlier_count = earlier.measured_count if earlier else 0

        def advanced(progress: RunProgress) -> None:
            view.advance(progress)

        def done(record: ResultRecord) -> None:
            view.outcome, view.result_id = record, record.id
            self._app.notify(f"{name}: stored as {record.id}", title="Measured", markup=False)

        def failed(error: LabError) -> None:
            view.outcome = error

        def work(progress: Progress, cancelled: Cancelled) -> ResultRecord:
            return self._work(view, earlier.id if earlier else None, progress, cancelled)

        begun = self._app.background(name, work, on_done=done, on_error=failed, on_progress=advanced)
        if begun:
            self.view = view
        return begun

    def _work(
        self, view: ExperimentView, resumed: str | None, progress: Progress, cancelled: Cancelled
    ) -> ResultRecord:
        """On the thread of the long work."""
        from lab.experiments.progress import ProgressMeter
        from lab.experiments.service import RunRequest, resume_experiment, run_experiment
        from lab.machine import Host, parse_target
        from lab.results.store import ResultStore

        host = Host.real("raidlab")
        target = parse_target(self._app.lab.target or "uml:")
        store = ResultStore(host.state.results)
        before = set(store.ids())
        experiment, text = _experiment_of(store, view.experiment, resumed)
        request = RunRequest(
            target=target,
            host=host,
            observer=ProgressMeter(experiment, host.clock, progress),
            on_notice=lambda _: None,
            is_cancelled=cancelled,
        )
        try:
            with self._machine_for(target):
                return resume_experiment(resumed, request) if resumed else run_experiment(experiment, text, request)
        except LabError:
            view.result_id = resumed or _kept_id(store, before)
            raise

    def _machine_for(self, target: Target) -> AbstractContextManager[None]:
        """An embedded kernel is a new one each time; of any other machine there is only one, and the app holds it."""
        from lab.machine.target import TargetKind

        return nullcontext() if target.kind is TargetKind.UML else self._app.client.released()


def _experiment_of(store: ResultStore, name: str, resumed: str | None) -> tuple[Experiment, str]:
    """The experiment and its file: a built-in one, or as it was stored with the result."""
    from lab.experiments.schema import Experiment, find_experiment
    from lab.tomlfile import decode_toml

    if resumed is None:
        return find_experiment(name)
    text = store.load(resumed).experiment_toml
    return decode_toml(text, Experiment, source=f"{resumed}/experiment"), text


def _kept_id(store: ResultStore, before: set[str]) -> str:
    """The result that has come, if anything was measured; one without a single measurement is taken away."""
    new = [each for each in store.list() if each.id not in before]
    for each in new:
        if not each.measured_count and not each.problem:
            with suppress(LabError):
                store.delete(each.id)
    return next((each.id for each in new if each.measured_count), "")
