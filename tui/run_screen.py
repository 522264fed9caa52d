"""The Run screen, which runs workloads, experiments and sweeps, and shows predictions, progress and measurements."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from lab.errors import LabError, RunCancelled
from lab.experiments.sweeps import SweepEntry
from lab.measure.job import Measured
from lab.results.record import ResultRecord
from lab.session.monitor import LoadMeasure, load_value
from tui.charts import Series, TimeChart
from tui.keys import command_key
from tui.look import Tone
from tui.mode import ModeScreen
from tui.quantities import Unit, format_value
from tui.rack import MINUTE_SECONDS, marks_of, shown_seconds
from tui.runs import (
    ExperimentView,
    RunItem,
    RunKind,
    earlier_lines,
    end_job,
    experiment_items,
    figures_lines,
    iops_of,
    measured_of,
    ran_seconds,
    sweep_items,
    workload_items,
)
from tui.state import LabState, LoadView
from tui.sweeps import SweepPanel, SweepState, SweepView
from tui.widgets import (
    ChoiceRow,
    Choices,
    SyncBar,
    SyncView,
    Tile,
    VerdictBanner,
    entitle,
    error_sentence,
    stepped,
    titled,
)

if TYPE_CHECKING:
    from lab.session.load import Forecast

_IN_THE_RESULT = "Theory: the result shows a prediction beside each figure, where the disks have a known service time."


class RunPanel(Vertical):
    """Shows a load or an experiment, without starting anything."""

    _began_seconds: float | None = None
    """When the measured time of the running load started, on the machine's clock."""

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
        load = state.load if state.load and state.load.workload == item.id else None
        if load and load.forecast:
            # Keep the forecast from the start of the load, even if the array has changed since.
            forecast = load.forecast
        self._show_item(item, is_planned=load is None, is_over=bool(load and not load.is_running))
        self._show_forecast(forecast)
        if not state.arrays:
            self.query_one("#run-reason", Static).update("Build an array first; a prediction needs one.")
        self._now(load_value(load.newest, LoadMeasure.IOPS) if load and load.is_running and load.newest else None)
        found = measured_of(load)
        self._measured(f"{format_value(iops_of(found), Unit.IOPS)} IOPS" if found else "–", found is not None)
        self.query_one("#run-progress", SyncBar).view = self._load_progress(load, state)
        self._show_load_charts(load, state, forecast.iops if forecast else None)
        self._show_load_outcome(load, forecast.iops if forecast else None)
        earlier = earlier_lines(state, item.id)
        lines = ("Measured before, in this session:", *earlier, "") if earlier else ()
        # During and after a load, the charts need the room of the job's description.
        self._lines(lines if load else (*lines, *item.details))

    def show_experiment(self, item: RunItem, view: ExperimentView | None) -> None:
        has_nothing = view is None or not (view.is_running or view.points)
        self._show_item(item, is_planned=has_nothing, is_over=bool(view and not view.is_running))
        self.query_one("#run-predicted", Tile).show_text("in the result")
        self.query_one("#run-reason", Static).update(_IN_THE_RESULT)
        rates = view.progress.rates if view and view.is_running else None
        self._now(rates.read_iops + rates.write_iops if rates else None)
        self._lines(() if view and view.is_running else item.details)
        self.query_one("#run-iops", TimeChart).empty_text = "between two measurements"
        bar, verdict = self.query_one("#run-progress", SyncBar), self.query_one("#run-verdict", VerdictBanner)
        self.query_one("#run-figures", Static).update("")
        if view is None:
            self._measured("–", is_good=False)
            bar.view = None
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
            bar.view = SyncView("runs", progress.fraction, eta_seconds=progress.left_seconds)
            verdict.show(Tone.BUSY, "ENDING" if view.is_ending else "NOW", progress.label)
        else:
            bar.view = None
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
            tile.show_text("–")
        elif forecast.iops is None:
            reason.update(f"No prediction: {forecast.reason}")
            tile.show_text("no prediction")
        else:
            reason.update(f"Why: {forecast.reason}")
            tile.show_text(f"{format_value(forecast.iops, Unit.IOPS)} IOPS")

    def _now(self, iops: float | None) -> None:
        self.query_one("#run-now", Tile).show_text(f"{format_value(iops, Unit.IOPS)} IOPS" if iops is not None else "–")

    def _measured(self, text: str, is_good: bool) -> None:
        self.query_one("#run-measured", Tile).show_text(text, Tone.GOOD if is_good else Tone.QUIET)

    def _lines(self, lines: tuple[str, ...]) -> None:
        self.query_one("#run-lines", Static).update("\n".join(lines).rstrip())
        self.set_class(not lines, "-no-details")

    def _load_progress(self, load: LoadView | None, state: LabState) -> SyncView | None:
        if load is None or not load.is_running:
            self._began_seconds = None
            return None
        if load.phase != "running":
            self._began_seconds = None
            notes = {"preparing": "writes the data to read", "warming up": "not counted yet"}
            return SyncView(load.phase, 0.0, note=notes.get(load.phase, ""))
        if load.runtime_seconds is None:
            return SyncView("runs", 0.0, note="until you stop it")
        now = state.snapshot.time_seconds if state.snapshot else 0.0
        if self._began_seconds is None:
            counted = state.history.load(LoadMeasure.IOPS) if state.history else ()
            self._began_seconds = counted[-1][0] if counted else now
        elapsed = min(load.runtime_seconds, max(0.0, now - self._began_seconds))
        return SyncView("runs", elapsed / load.runtime_seconds, eta_seconds=load.runtime_seconds - elapsed)

    def _show_load_charts(self, load: LoadView | None, state: LabState, predicted: float | None) -> None:
        chart, latency = self.query_one("#run-iops", TimeChart), self.query_one("#run-latency", TimeChart)
        chart.empty_text = "no figures yet"
        if load is None or state.history is None:
            chart.show(())
            latency.show(())
            return
        status = state.array(load.array)
        marks = marks_of(state, status) if status else ()
        now = state.snapshot.time_seconds if state.snapshot else None
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
            verdict.show(Tone.BAD, "FAILED", error_sentence(load.outcome))
        elif measured:
            verdict.show(*_load_verdict(measured, load, predicted))
        else:
            verdict.show(Tone.QUIET, "STOPPED", "before anything was measured; nothing is stored.")


def _load_verdict(measured: Measured, load: LoadView, predicted: float | None) -> tuple[Tone, str, str]:
    from lab.session.load import beside_prediction

    compared = beside_prediction(predicted, measured) if predicted else ""
    if measured.figures.interrupted and load.runtime_seconds:
        ran = f"{ran_seconds(measured):.0f} of {load.runtime_seconds:.0f} s"
        return Tone.NOTICE, "STOPPED", f"after {ran} on {load.array}; the figures cover that time. {compared}".rstrip()
    return Tone.GOOD, "MEASURED", compared or f"on {load.array}"


def _experiment_verdict(view: ExperimentView, outcome: ResultRecord | LabError) -> tuple[Tone, str, str]:
    if not isinstance(outcome, LabError):
        return Tone.GOOD, "MEASURED", f"Stored as {view.result_id}; 4 shows it.{_cautions(outcome)}"
    go_on = " Screen 4 resumes it." if view.result_id else ""
    if isinstance(outcome, RunCancelled):
        return Tone.NOTICE, "CANCELLED", view.stored_words() + go_on
    hint = f" {outcome.hint}." if outcome.hint and not view.result_id else ""
    return Tone.BAD, "FAILED", f"{outcome.message}.{hint} {view.stored_words()}{go_on}"


def _cautions(record: ResultRecord) -> str:
    """Return the most important caution about a result, and how many figures differ from theory."""
    from lab.lint.experiment_checks import beside_theory
    from lab.report.tables import foremost

    found = beside_theory(record)
    off = sum(each.is_off for each in found)
    count = f"{off} of {len(found)} figures differ from theory." if off else ""
    caution = f"{foremost(record)} {count}".strip()
    return f" {caution}" if caution else ""


_TITLE_CELLS = 160
_HIGH_ROWS = 34
_RUNTIMES: dict[str, float | None] = {"10 s": 10.0, "30 s": 30.0, "1 min": 60.0, "5 min": 300.0, "until stopped": None}
_FIRST = "rand-read-4k"
_POLL_SECONDS = 1.0
"""Time between two reads of the status of another process's sweep."""
_TICKS_PER_READ = 4
"""How many ticks pass between two checks for a sweep that another process has started."""


class RunScreen(ModeScreen):
    """The Run screen, key 3."""

    CSS_PATH = "run_screen.tcss"
    AREA = "Run"
    HELP = (
        "A workload runs on an array of this lab, while you continue to break and repair it. An experiment builds "
        "its own arrays on a separate machine, measures everything several times and stores a result.\n\n"
        "Before a run, the screen shows the prediction with its reason, or why there is none. "
        "Afterwards it shows the measurement beside the prediction.\n\n"
        "A sweep measures every combination of its axes, each on a separate machine, several at a time. Cells that "
        "were measured before are not measured again. A sweep that another raidlab runs is shown too, but only that "
        "raidlab can end it."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        command_key("run.start", "r", "Run", "run", "Run what is selected in the list", action="run"),
        command_key("run.stop", "s", "Stop", "run", "Stop the run; finished measurements are stored"),
        Binding("d", "duration", "Duration", id="run.duration", tooltip="The next run time of workloads"),
        Binding("tab", "app.focus_next", "Next panel", show=False, id="run.next", tooltip="From the list to the form"),
        Binding("shift+tab", "app.focus_previous", "Back", show=False, id="run.previous", tooltip="Previous panel"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[str, RunItem] = {}
        self._item: RunItem | None = None
        self._own: tuple[tuple[RunItem, ...], tuple[RunItem, ...]] = (), ()
        """The workloads and the experiments in the list."""
        self._listed: tuple[SweepEntry, ...] = ()
        self._ticks = 0
        self._runtime = "30 s"
        self._forecasts: dict[tuple[str, str, int], Forecast | None] = {}
        """The forecast for (array, workload, number of missing members); None while it is computed."""

    def body(self) -> ComposeResult:
        with Horizontal(id="run"):
            with Vertical(id="run-left"):
                yield titled(OptionList(id="run-list", markup=False), "What to run")
                yield titled(Choices(id="run-form"), "How")
            yield RunPanel(id="run-right", classes="framed")
            yield SweepPanel(id="run-sweep", classes="framed")

    def on_mount(self) -> None:
        self._own = workload_items(), experiment_items()
        self._fill(_FIRST)
        self.query_one(OptionList).focus()
        self.set_interval(_POLL_SECONDS, self._read_sweep)

    def on_screen_resume(self) -> None:
        """Read the list of sweeps, which other processes may change. Textual also calls the base class's handler."""
        self.app.sweeps.list_again()

    def _fill(self, highlighted: str) -> None:
        self._listed = self.app.sweeps.entries
        (workloads, experiments), sweeps = self._own, sweep_items(self._listed)
        self._items = {item.option_id: item for item in (*workloads, *experiments, *sweeps)}
        choose = self.query_one(OptionList)
        choose.clear_options()
        groups = (
            ("Workloads, on your arrays", workloads),
            ("Experiments, on new arrays", experiments),
            ("Sweeps, many experiments", sweeps),
        )
        for title, items in groups:
            if items:
                if choose.option_count:
                    choose.add_option(None)
                choose.add_option(Option(Content.styled(title, "italic"), disabled=True))
                has_titles = self.has_class("-titles")
                choose.add_options(Option(self._entry(item, has_titles), id=item.option_id) for item in items)
        choose.highlighted = choose.get_option_index(highlighted if highlighted in self._items else _FIRST)

    def _read_sweep(self) -> None:
        """Read the status of the shown sweep, which another process may be running."""
        item = self._item
        if not self.is_current or item is None or item.kind is not RunKind.SWEEP:
            return
        view, sweep = self._sweep_view, self.app.sweeps.state(item.id)
        self._ticks += 1
        if not (view and view.is_running) and (sweep.runs_elsewhere or self._ticks % _TICKS_PER_READ == 0):
            self.app.sweeps.watch(item.id)

    def _entry(self, item: RunItem, with_title: bool) -> Content:
        if not with_title:
            return Content(item.id)
        cells = max(len(each) for each in self._items) + 2
        return Content.assemble(item.id.ljust(cells), (item.title, "$text-muted"))

    def on_resize(self, event: Resize) -> None:
        has_titles = event.size.width >= _TITLE_CELLS
        if has_titles != self.has_class("-titles"):
            choose = self.query_one(OptionList)
            for item in self._items.values():
                choose.replace_option_prompt(item.option_id, self._entry(item, has_titles))
        self.set_class(has_titles, "-titles")
        self.set_class(event.size.height < _HIGH_ROWS, "-low")
        self.call_after_refresh(self.app.show_now)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._item = self._items.get(event.option.id or "")
        self.changes += 1

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self._item = self._items.get(event.option.id or "")
        if self.check_action("run", ()):
            self.action_run()

    def on_choices_stepped(self, event: Choices.Stepped) -> None:
        value = stepped(self._rows(self.app.lab), event.key, event.by)
        if value is None:
            return
        if event.key == "array":
            self.app.select(array=value)
        else:
            self._runtime = value
        self.changes += 1

    def show_state(self, state: LabState) -> None:
        if self._listed != self.app.sweeps.entries:
            self._fill(self._item.option_id if self._item else _FIRST)
        self.query_one(Choices).show(self._rows(state))
        item, panel = self._item, self.query_one(RunPanel)
        if item is None:
            return
        self.set_class(item.kind is RunKind.SWEEP, "-sweep")
        if item.kind is RunKind.SWEEP:
            self.query_one(SweepPanel).show(item, self.app.sweeps.state(item.id), self._sweep_view)
        elif item.kind is RunKind.EXPERIMENT:
            view = self.app.experiments.view
            panel.show_experiment(item, view if view and view.experiment == item.id else None)
        else:
            panel.show_load(item, state, self._forecast(item, state))

    @property
    def _kind(self) -> RunKind:
        return self._item.kind if self._item else RunKind.WORKLOAD

    @property
    def _sweep_view(self) -> SweepView | None:
        """Return the last sweep of this app if it is the selected item."""
        view = self.app.sweeps.view
        return view if view and self._item and view.name == self._item.id else None

    def _rows(self, state: LabState) -> list[ChoiceRow]:
        if self._kind is RunKind.SWEEP:
            return [ChoiceRow("lab", "On", (), "separate machines"), ChoiceRow("time", "For", (), "as planned")]
        if self._item and self._item.kind is RunKind.EXPERIMENT:
            time = self._item.facts.partition(",")[0]
            return [ChoiceRow("lab", "On", (), "its own arrays"), ChoiceRow("time", "For", (), time)]
        names = tuple(status.name for status in state.arrays)
        selected = state.selected.name if state.selected else ""
        return [
            ChoiceRow("array", "On", names, selected, "" if names else "no array yet"),
            ChoiceRow("time", "For", tuple(_RUNTIMES), self._runtime),
        ]

    def _forecast(self, item: RunItem, state: LabState) -> Forecast | None:
        """Return the forecast of a workload, computed once per array, workload and number of missing members."""
        status = state.selected
        if status is None or not state.is_open:
            return None
        key = (status.name, item.id, status.degraded_count)
        if key not in self._forecasts:
            from lab.session.load import predict

            self._forecasts[key] = None
            self.app.look_up(
                lambda session: predict(session, key[0], key[1]),
                on_done=partial(self._forecasts.__setitem__, key),
                on_error=lambda _: self._forecasts.pop(key, None),
            )
        return self._forecasts[key]

    def action_run(self) -> None:
        item, status = self._item, self.app.lab.selected
        if item and item.kind is RunKind.SWEEP:
            self.app.sweeps.start(item.id)
        elif item and item.kind is RunKind.EXPERIMENT:
            self.app.experiments.start(item.id)
        elif item and status:
            self.app.loads.start(status.name, item.id, _RUNTIMES[self._runtime])

    def action_stop(self) -> None:
        match self._kind:
            case RunKind.SWEEP:
                end_job(self.app, self.app.sweeps.view)
            case RunKind.EXPERIMENT:
                end_job(self.app, self.app.experiments.view)
            case _:
                self.app.loads.stop()

    def action_duration(self) -> None:
        names = list(_RUNTIMES)
        self._runtime = names[(names.index(self._runtime) + 1) % len(names)]
        self.changes += 1

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        state = self.app.lab
        is_possible: object = True
        match action, self._kind:
            case "run", RunKind.SWEEP:
                is_possible = self._can_run_sweep() and not state.background
            case "run", RunKind.EXPERIMENT:
                is_possible = not state.background
            case "run", RunKind.WORKLOAD:
                is_possible = state.is_open and state.arrays and not state.running_load
            case "stop", RunKind.WORKLOAD:
                is_possible = state.running_load
            case "stop", RunKind.EXPERIMENT:
                is_possible = (experiment := self.app.experiments.view) and experiment.can_be_ended
            case "stop", RunKind.SWEEP:
                is_possible = (sweep := self._sweep_view) and sweep.can_be_ended
            case "duration", kind:
                is_possible = kind is RunKind.WORKLOAD
        return True if is_possible else None

    def _can_run_sweep(self) -> bool:
        sweep = self.app.sweeps.state(self._item.id) if self._item else SweepState()
        work = sweep.work
        if work is None or work.missing_dependency or sweep.runs_elsewhere:
            return False
        return work.there < work.cells

    def hint(self, state: LabState) -> str | None:
        if self._item and self._kind is RunKind.SWEEP:
            return _sweep_hint(state, self._sweep_view, self.app.sweeps.state(self._item.id))
        if self._kind is RunKind.EXPERIMENT:
            return self._experiment_hint(state)
        if not state.arrays:
            return "A workload needs an array: [b]2[/b] builds one. Experiments build their own."
        if state.running_load:
            return "[b]s[/b] stops it and keeps the figures; during the run, [b]1[/b] can fail a disk."
        return "[b]r[/b] runs it on the array; [b]d[/b] changes how long."

    def _experiment_hint(self, state: LabState) -> str:
        view = self.app.experiments.view
        if view and view.is_running:
            if view.is_ending:
                return "It ends as soon as the machine has stopped."
            return "[b]s[/b] stops it and keeps what was measured; the lab's own arrays can be used meanwhile."
        if state.background:
            return f"It can run when '{state.background}' has ended."
        return "[b]r[/b] runs it on a separate machine and stores a result."


def _sweep_hint(state: LabState, view: SweepView | None, sweep: SweepState) -> str:
    if view and view.is_running:
        return "It ends as soon as its workers have stopped." if view.is_ending else (
            "[b]s[/b] stops it and keeps every measured cell; [b]r[/b] continues later."
        )  # fmt: skip
    if sweep.runs_elsewhere:
        return "Another raidlab runs it; you can watch it here."
    if state.background:
        return f"It can run when '{state.background}' has ended."
    if sweep.work is None:
        return "The problem on the right must be solved first." if sweep.problem else "It is being planned."
    if sweep.work.missing_dependency:
        return "It needs Dask: the command is on the right."
    if sweep.work.there == sweep.work.cells:
        return "All cells are measured. [b]Tab[/b] goes to the tables, and arrows scroll them."
    return "[b]r[/b] measures the missing cells." if sweep.work.there else "[b]r[/b] measures all cells."
