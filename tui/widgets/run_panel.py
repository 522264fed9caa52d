"""The panel of a workload or an experiment: description, prediction, progress and measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.widgets import Static

from lab.errors import LabError
from tui.quantities import Unit, format_value
from tui.runs import RunItem, RunKind, earlier_lines, figures_lines, iops_of, live_iops, measured_of, ran_seconds
from tui.tones import Tone
from tui.views import MINUTE_SECONDS, marks_of, shown_seconds
from tui.widgets.charts import Series, TimeChart
from tui.widgets.tiles import SyncBar, SyncView, Tile, VerdictBanner
from tui.widgets.words import entitle

if TYPE_CHECKING:
    from lab.measure.job import Measured
    from lab.results.record import ResultRecord
    from lab.session.load import Forecast
    from tui.runs import ExperimentView
    from tui.state import LabState, LoadView

_IN_THE_RESULT = (
    "Theory: a prediction stands beside each figure of the result, where disks have a service time of their own."
)


class RunPanel(Vertical):
    """Shows a load or an experiment; it does not start anything."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (textual's name)
        super().__init__(id=id)
        self._began_seconds: float | None = None
        """Start of the measured time of the running load, on the machine's clock."""

    def compose(self) -> ComposeResult:
        yield Static(id="run-about", markup=False)
        with Horizontal(id="run-tiles"):
            yield Tile("Predicted", id="run-predicted")
            yield Tile("Now", id="run-now")
            yield Tile("Measured", id="run-measured")
        yield Static(id="run-reason", markup=False)
        yield SyncBar(id="run-progress")
        yield VerdictBanner(id="run-verdict")
        yield Static(id="run-figures", markup=False)
        yield TimeChart("IOPS", Unit.IOPS, id="run-iops", filled=True, empty_text="nothing runs yet")
        yield TimeChart("Latency", Unit.SECONDS, is_log=True, id="run-latency", empty_text="")
        with VerticalScroll(id="run-details", can_focus=False):
            yield Static(id="run-lines", markup=False)

    def show_load(self, item: RunItem, state: LabState, forecast: Forecast | None) -> None:
        """Show a workload on the selected array: planned, running or measured."""
        load = state.load if state.load and state.load.workload == item.id else None
        if load and load.forecast:
            # The forecast from the start of the load, even if the array has changed since.
            forecast = load.forecast
        self._show_item(item, is_planned=load is None, is_over=bool(load and not load.is_running))
        self._show_forecast(forecast)
        if not state.arrays:
            self.query_one("#run-reason", Static).update("Build an array first: then theory has something to say.")
        self._now(live_iops(load.newest) if load and load.is_running else None)
        found = measured_of(load)
        self._measured(f"{format_value(iops_of(found), Unit.IOPS)} IOPS" if found else "–", found is not None)
        self.query_one("#run-progress", SyncBar).show(self._load_progress(load, state))
        self._show_load_charts(load, state, forecast.iops if forecast else None)
        self._show_load_outcome(load, forecast.iops if forecast else None)
        earlier = earlier_lines(state, item.id)
        lines = ("Measured before, in this session:", *earlier, "") if earlier else ()
        # During and after a load the charts need the room of the job's description.
        self._lines(lines if load else (*lines, *item.details))

    def show_experiment(self, item: RunItem, view: ExperimentView | None) -> None:
        """Show an experiment: planned, running or ended."""
        has_nothing = view is None or not (view.is_running or view.points)
        self._show_item(item, is_planned=has_nothing, is_over=bool(view and not view.is_running))
        self.query_one("#run-predicted", Tile).say("in the result")
        self.query_one("#run-reason", Static).update(_IN_THE_RESULT)
        rates = view.progress.rates if view and view.is_running else None
        self._now(rates.read_iops + rates.write_iops if rates else None)
        self._lines(() if view and view.is_running else item.details)
        self.query_one("#run-iops", TimeChart).empty_text = "between two measurements"
        bar, verdict = self.query_one("#run-progress", SyncBar), self.query_one("#run-verdict", VerdictBanner)
        self.query_one("#run-figures", Static).update("")
        if view is None:
            self._measured("–", is_good=False)
            bar.show(None)
            verdict.clear()
            return
        progress = view.progress
        self._measured(f"{view.done_count} of {progress.planned_count}", is_good=False)
        colours = {"reads": 0, "writes": 1}
        series = [Series(name, tuple(points), colours[name]) for name, points in view.points.items()]
        chart = self.query_one("#run-iops", TimeChart)
        chart.window_seconds = MINUTE_SECONDS
        chart.show(series)
        if view.outcome is None:
            bar.show(SyncView("runs", progress.fraction, eta_seconds=progress.left_seconds))
            verdict.show(Tone.BUSY, "ENDING" if view.is_ending else "NOW", progress.label)
        else:
            bar.show(None)
            verdict.show(*_experiment_verdict(view, view.outcome))

    def _show_item(self, item: RunItem, *, is_planned: bool, is_over: bool) -> None:
        entitle(self, item.title)
        self.query_one("#run-about", Static).update(f"{item.shows}\n{item.facts}")
        self.set_class(is_planned, "-planned")
        self.set_class(is_over, "-over")
        self.set_class(item.kind is RunKind.EXPERIMENT, "-experiment")

    def _show_forecast(self, forecast: Forecast | None) -> None:
        tile, reason = self.query_one("#run-predicted", Tile), self.query_one("#run-reason", Static)
        if forecast is None:
            reason.update("")
            tile.say("–")
        elif forecast.iops is None:
            reason.update(f"No prediction: {forecast.reason}")
            tile.say("no prediction")
        else:
            reason.update(f"Why: {forecast.reason}")
            tile.say(f"{format_value(forecast.iops, Unit.IOPS)} IOPS")

    def _now(self, iops: float | None) -> None:
        self.query_one("#run-now", Tile).say(f"{format_value(iops, Unit.IOPS)} IOPS" if iops is not None else "–")

    def _measured(self, text: str, is_good: bool) -> None:
        self.query_one("#run-measured", Tile).say(text, Tone.GOOD if is_good else Tone.QUIET)

    def _lines(self, lines: tuple[str, ...]) -> None:
        self.query_one("#run-lines", Static).update("\n".join(lines).rstrip())
        self.set_class(not lines, "-no-details")

    def _load_progress(self, load: LoadView | None, state: LabState) -> SyncView | None:
        if load is None or not load.is_running:
            self._began_seconds = None
            return None
        if load.phase != "running":
            self._began_seconds = None
            notes = {"preparing": "writes what it will read", "warming up": "not counted yet"}
            return SyncView(load.phase, 0.0, note=notes.get(load.phase, ""))
        if load.runtime_seconds is None:
            return SyncView("runs", 0.0, note="until you stop it")
        now = state.look.time_seconds if state.look else 0.0
        if self._began_seconds is None:
            self._began_seconds = _first_counted(state) or now
        gone = min(load.runtime_seconds, max(0.0, now - self._began_seconds))
        return SyncView("runs", gone / load.runtime_seconds, eta_seconds=load.runtime_seconds - gone)

    def _show_load_charts(self, load: LoadView | None, state: LabState, predicted: float | None) -> None:
        from lab.session.history import LoadMeasure

        chart, latency = self.query_one("#run-iops", TimeChart), self.query_one("#run-latency", TimeChart)
        chart.empty_text = "no figures yet"
        if load is None or state.history is None:
            chart.show(())
            latency.show(())
            return
        status = state.array(load.array)
        marks = marks_of(state, status) if status else ()
        now = state.look.time_seconds if state.look else None
        chart.window_seconds = latency.window_seconds = window = shown_seconds(state)
        found = {
            measure: state.history.load(measure, seconds=window)
            for measure in (LoadMeasure.IOPS, LoadMeasure.P50_SECONDS, LoadMeasure.P99_SECONDS)
        }
        series = [Series("measured", found[LoadMeasure.IOPS])]
        if predicted and found[LoadMeasure.IOPS]:
            ends = (found[LoadMeasure.IOPS][0][0], found[LoadMeasure.IOPS][-1][0])
            series.append(Series("predicted", [(time, predicted) for time in ends], 4))
        chart.filled = len(series) == 1
        chart.show(series, marks, now)
        percentiles = ((LoadMeasure.P99_SECONDS, "p99", 1), (LoadMeasure.P50_SECONDS, "p50", 2))
        latency.show([Series(name, found[measure], colour) for measure, name, colour in percentiles], marks, now)

    def _show_load_outcome(self, load: LoadView | None, predicted: float | None) -> None:
        verdict, figures = self.query_one("#run-verdict", VerdictBanner), self.query_one("#run-figures", Static)
        measured = measured_of(load)
        lines = figures_lines(measured, self.content_size.width) if measured else ()
        figures.update("\n".join(lines))
        if load is None or load.is_running:
            verdict.clear()
        elif isinstance(load.outcome, LabError):
            verdict.show(Tone.BAD, "FAILED", f"{load.outcome.message}. {load.outcome.hint}".rstrip(". ") + ".")
        elif measured:
            verdict.show(*_load_verdict(measured, load, predicted))
        else:
            verdict.show(Tone.QUIET, "STOPPED", "before anything was measured: nothing is kept.")


def _first_counted(state: LabState) -> float | None:
    """The time of the newest interval of the load, on the machine's clock; None without an interval."""
    from lab.session.history import LoadMeasure

    points = state.history.load(LoadMeasure.IOPS) if state.history else []
    return points[-1][0] if points else None


def _load_verdict(measured: Measured, load: LoadView, predicted: float | None) -> tuple[Tone, str, str]:
    from lab.session.load import beside_prediction

    compared = beside_prediction(predicted, measured) if predicted else ""
    if measured.figures.interrupted and load.runtime_seconds:
        ran = f"{ran_seconds(measured):.0f} of {load.runtime_seconds:.0f} s"
        return Tone.NOTICE, "STOPPED", f"after {ran} on {load.array}; the figures are of what ran. {compared}".rstrip()
    return Tone.GOOD, "MEASURED", compared or f"on {load.array}"


def _experiment_verdict(view: ExperimentView, outcome: ResultRecord | LabError) -> tuple[Tone, str, str]:
    if not isinstance(outcome, LabError):
        return Tone.GOOD, "MEASURED", f"Stored as {view.result_id}; 4 shows it.{_cautions(outcome)}"
    go_on = " Screen 4 goes on with it." if view.result_id else ""
    if view.was_cancelled:
        return Tone.NOTICE, "CANCELLED", view.kept() + go_on
    hint = f" {outcome.hint}." if outcome.hint and not view.result_id else ""
    return Tone.BAD, "FAILED", f"{outcome.message}.{hint} {view.kept()}{go_on}"


def _cautions(record: ResultRecord) -> str:
    """The most important caution about a result, and the number of figures that differ from the theory."""
    from lab.lint.theory_checks import beside_theory
    from lab.report.tables import foremost

    found = beside_theory(record)
    off = sum(each.is_off for each in found)
    count = f"{off} of {len(found)} figures are off theory." if off else ""
    said = f"{foremost(record)} {count}".strip()
    return f" {said}" if said else ""
