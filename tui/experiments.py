"""Experiments as the app's long work: on a lab of their own, told as they go on, ended on request."""

from __future__ import annotations

from collections import deque
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lab.errors import LabError, RunCancelled

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from lab.experiments.progress import RunProgress
    from lab.experiments.service import RunRequest
    from lab.results.record import ResultRecord
    from lab.results.store import ResultStore, ResultSummary
    from tui.frontend import Frontend
    from tui.services import Cancelled, Progress

KEPT_POINTS = 4 * 600


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

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
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
            self._frontend.background.cancel()
            self._frontend.show_soon()

    def _begin(self, name: str, earlier: ResultSummary | None = None) -> bool:
        from lab.experiments.progress import RunProgress

        view = ExperimentView(name, RunProgress(label="starting a machine"))
        view.earlier_count = earlier.measured_count if earlier else 0

        def done(record: ResultRecord) -> None:
            view.outcome, view.result_id = record, record.id
            self._frontend.say(f"{name}: stored as {record.id}", title="Measured")

        def failed(error: LabError) -> None:
            view.outcome = error

        def work(progress: Progress, cancelled: Cancelled) -> ResultRecord:
            return self._work(view, earlier.id if earlier else None, progress, cancelled)

        begun = self._frontend.background.run(name, work, on_done=done, on_error=failed, on_progress=view.advance)
        if begun:
            self.view = view
        return begun

    def _work(
        self, view: ExperimentView, resumed: str | None, progress: Progress, cancelled: Cancelled
    ) -> ResultRecord:
        """On the thread of the long work."""
        from lab.results.store import ResultStore

        store = ResultStore(self._frontend.client.host.state.results)
        before = set(store.ids())
        from lab.experiments.schema import find_experiment
        from lab.experiments.service import resume_experiment, run_experiment

        request, released = request_of(self._frontend, progress, cancelled)
        try:
            with released:
                if resumed:
                    return resume_experiment(resumed, request)
                return run_experiment(*find_experiment(view.experiment), request)
        except LabError:
            view.result_id = resumed or _kept_id(store, before)
            raise


def request_of(
    frontend: Frontend, progress: Progress, cancelled: Cancelled
) -> tuple[RunRequest, AbstractContextManager[None]]:
    """To run an experiment beside the open lab, where there is room for both; ``progress`` hears ``RunProgress``."""
    from lab.experiments.service import RunRequest
    from lab.machine import TargetKind, parse_target

    target = parse_target(frontend.lab.target or "uml:")
    request = RunRequest(target, frontend.client.host, on_progress=progress, is_cancelled=cancelled)
    # An embedded kernel is a new one each time; of any other machine there is only one, and the app holds it.
    return request, nullcontext() if target.kind is TargetKind.UML else frontend.client.released()


def _kept_id(store: ResultStore, before: set[str]) -> str:
    """The result that has come, if anything was measured; one without a single measurement is taken away."""
    new = [each for each in store.list() if each.id not in before]
    for each in new:
        if not each.measured_count and not each.problem:
            with suppress(LabError):
                store.delete(each.id)
    return next((each.id for each in new if each.measured_count), "")
