"""The Run screen: runs workloads, experiments and sweeps, and compares predictions with measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize, ScreenResume
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from lab.errors import LabError
from tui.keys import CommandKey
from tui.runs import RunItem, RunKind, experiment_items, sweep_items, workload_items
from tui.screens.mode import ModeScreen
from tui.sweeps.panel import SweepPanel
from tui.widgets.choices import ChoiceRow, Choices, stepped
from tui.widgets.run_panel import RunPanel
from tui.widgets.words import titled

if TYPE_CHECKING:
    from lab.experiments.sweeps import SweepEntry
    from lab.session.load import Forecast
    from tui.runs import ExperimentView
    from tui.state import LabState
    from tui.sweeps.service import SweepLook, SweepView

_TITLE_CELLS = 160
_HIGH_ROWS = 34
_RUNTIMES: dict[str, float | None] = {"10 s": 10.0, "30 s": 30.0, "1 min": 60.0, "5 min": 300.0, "until stopped": None}
_FIRST = "rand-read-4k"
_LOOK_SECONDS = 1.0
"""Time between two reads of the status of a sweep of another process."""
_TICKS_A_LOOK = 4
"""Number of ticks between two checks whether another process has started the sweep."""


class RunScreen(ModeScreen):
    """The Run screen, key 3."""

    CSS_PATH = "run.tcss"
    AREA = "Run"
    HELP = (
        "A workload runs on an array of this lab, while you go on breaking and repairing it. An experiment builds "
        "arrays of its own on a machine of its own, measures everything several times and stores a result.\n\n"
        "Before anything runs, the prediction stands there with its reason, or the reason why there is none. "
        "Afterwards it stands beside what was measured.\n\n"
        "A sweep measures every combination of its axes, each on a machine of its own, several at a time. Cells that "
        "were measured before are not measured again. One that runs in another raidlab is shown too, and only that one "
        "ends it."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        CommandKey("r", "run", "Run", id="run.start", tooltip="Run what is selected in the list", command="run"),
        CommandKey(
            "s", "stop", "Stop", id="run.stop", tooltip="End what runs; what was measured is kept", command="run"
        ),
        Binding("d", "duration", "Duration", id="run.duration", tooltip="How long a workload runs: the next choice"),
        Binding("tab", "app.focus_next", "Next panel", show=False, id="run.next", tooltip="From the list to the form"),
        Binding("shift+tab", "app.focus_previous", "Back", show=False, id="run.previous", tooltip="The panel before"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[str, RunItem] = {}
        self._item: RunItem | None = None
        self._own: tuple[tuple[RunItem, ...], tuple[RunItem, ...]] = (), ()
        """The workloads and the experiments."""
        self._listed: tuple[SweepEntry, ...] = ()
        self._ticks = 0
        self._runtime = "30 s"
        self._forecasts: dict[tuple[str, str, int], Forecast | None] = {}
        """(array, workload, number of missing members) -> forecast; None while it is computed."""

    def body(self) -> ComposeResult:
        with Horizontal(id="run"):
            with Vertical(id="run-left"):
                yield titled(OptionList(id="run-list", markup=False), "What to run")
                yield titled(Choices(id="run-form"), "How")
            yield RunPanel(id="run-right")
            yield SweepPanel(id="run-sweep")

    def on_mount(self) -> None:
        self._own = workload_items(), experiment_items()
        self._fill(_FIRST)
        self.query_one(OptionList).focus()
        self.set_interval(_LOOK_SECONDS, self._look_elsewhere)

    def on_screen_resume(self, event: ScreenResume) -> None:  # type: ignore[override]
        """Read the list of sweeps, which other processes change. Textual also calls the handler of the base class."""
        self.app.sweeps.list_again()

    def _fill(self, highlighted: str) -> None:
        """Fill the list, with the cursor on this option."""
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

    def _look_elsewhere(self) -> None:
        """Read the status of the shown sweep, which another process may be running."""
        item = self._item
        if not self.is_current or item is None or item.kind is not RunKind.SWEEP:
            return
        view, look = self._sweep_of(item), self.app.sweeps.look(item.id)
        self._ticks += 1
        if not (view and view.is_running) and (look.runs_elsewhere or self._ticks % _TICKS_A_LOOK == 0):
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
        self.call_after_refresh(self.update_from, self.app.lab)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        self._item = self._items.get(event.option.id or "")
        self.update_from(self.app.lab)

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
        self.update_from(self.app.lab)

    def show_state(self, state: LabState) -> None:
        if self._listed != self.app.sweeps.entries:
            self._fill(self._item.option_id if self._item else _FIRST)
        self.query_one(Choices).show(self._rows(state))
        item, panel = self._item, self.query_one(RunPanel)
        if item is None:
            return
        self.set_class(item.kind is RunKind.SWEEP, "-sweep")
        if item.kind is RunKind.SWEEP:
            self.query_one(SweepPanel).show(item, self.app.sweeps.look(item.id), self._sweep_of(item))
        elif item.kind is RunKind.EXPERIMENT:
            panel.show_experiment(item, self._experiment_of(item))
        else:
            panel.show_load(item, state, self._forecast(item, state))

    def _experiment_of(self, item: RunItem) -> ExperimentView | None:
        view = self.app.experiments.view
        return view if view and view.experiment == item.id else None

    def _sweep_of(self, item: RunItem) -> SweepView | None:
        view = self.app.sweeps.view
        return view if view and view.name == item.id else None

    def _rows(self, state: LabState) -> list[ChoiceRow]:
        if self._item and self._item.kind is RunKind.SWEEP:
            return [ChoiceRow("lab", "On", (), "machines of its own"), ChoiceRow("time", "For", (), "as planned")]
        if self._item and self._item.kind is RunKind.EXPERIMENT:
            time = self._item.facts.partition(",")[0]
            return [ChoiceRow("lab", "On", (), "arrays of its own"), ChoiceRow("time", "For", (), time)]
        names = tuple(status.name for status in state.arrays)
        selected = state.selected.name if state.selected else ""
        return [
            ChoiceRow("array", "On", names, selected, "" if names else "no array yet"),
            ChoiceRow("time", "For", tuple(_RUNTIMES), self._runtime),
        ]

    def _forecast(self, item: RunItem, state: LabState) -> Forecast | None:
        """The forecast of a workload; it is computed once per array, workload and number of missing members."""
        status = state.selected
        if status is None or not state.is_open:
            return None
        key = (status.name, item.id, status.degraded_count)
        if key not in self._forecasts:
            self._forecasts[key] = None
            self._ask_forecast(key)
        return self._forecasts[key]

    def _ask_forecast(self, key: tuple[str, str, int]) -> None:
        from lab.session.load import predict

        array, workload, _ = key

        def keep(forecast: Forecast) -> None:
            self._forecasts[key] = forecast
            self.app.show_soon()

        def forget(_error: LabError) -> None:
            self._forecasts.pop(key, None)

        self.app.look_up(lambda session: predict(session, array, workload), on_done=keep, on_error=forget)

    def action_run(self) -> None:
        item, status = self._item, self.app.lab.selected
        if item and item.kind is RunKind.SWEEP:
            self.app.sweeps.start(item.id)
        elif item and item.kind is RunKind.EXPERIMENT:
            self.app.experiments.start(item.id)
        elif item and status:
            self.app.loads.start(status.name, item.id, _RUNTIMES[self._runtime])
        self.app.show_soon()

    def action_stop(self) -> None:
        kind = self._item.kind if self._item else RunKind.WORKLOAD
        if kind is RunKind.SWEEP:
            self.app.sweeps.cancel()
        elif kind is RunKind.EXPERIMENT:
            self.app.experiments.cancel()
        else:
            self.app.loads.stop()

    def action_duration(self) -> None:
        names = list(_RUNTIMES)
        self._runtime = names[(names.index(self._runtime) + 1) % len(names)]
        self.update_from(self.app.lab)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        state = self.app.lab
        if self._item and self._item.kind is RunKind.SWEEP:
            return self._check_sweep(action, self._item)
        is_experiment = bool(self._item and self._item.kind is RunKind.EXPERIMENT)
        load_runs = state.running_load is not None
        view = self.app.experiments.view
        if action == "run" and is_experiment:
            return None if state.background else True
        if action == "run":
            return True if state.is_open and state.arrays and not load_runs else None
        if action == "stop" and is_experiment:
            return True if view and view.is_running and not view.is_ending else None
        if action == "stop":
            return True if load_runs else None
        if action == "duration":
            return None if is_experiment else True
        return True

    def _check_sweep(self, action: str, item: RunItem) -> bool | None:
        view, look = self._sweep_of(item), self.app.sweeps.look(item.id)
        if action == "run":
            work = look.work
            can_run = work and work.there < work.cells and not work.missing_dependency and not look.runs_elsewhere
            return True if can_run and not self.app.lab.background else None
        if action == "stop":
            return True if view and view.is_running and not view.is_ending else None
        return None if action == "duration" else True

    def hint(self, state: LabState) -> str | None:
        if self._item and self._item.kind is RunKind.SWEEP:
            return _sweep_hint(state, self._sweep_of(self._item), self.app.sweeps.look(self._item.id))
        if self._item and self._item.kind is RunKind.EXPERIMENT:
            return self._experiment_hint(state)
        if not state.arrays:
            return "A workload needs an array: [b]2[/b] builds one. Experiments bring their own."
        if state.running_load:
            return "[b]s[/b] stops it and keeps the figures; [b]1[/b] breaks a disk meanwhile."
        return "[b]r[/b] runs it on the array; [b]d[/b] changes how long."

    def _experiment_hint(self, state: LabState) -> str:
        view = self.app.experiments.view
        if view and view.is_running:
            if view.is_ending:
                return "It ends as soon as the machine has let go."
            return "[b]s[/b] ends it and keeps what was measured; the lab's own arrays can be used meanwhile."
        if state.background:
            return f"It can run when '{state.background}' is done."
        return "[b]r[/b] runs it on a machine of its own and stores a result."


def _sweep_hint(state: LabState, view: SweepView | None, look: SweepLook) -> str:
    if view and view.is_running:
        return "It ends as soon as its workers have let go." if view.is_ending else (
            "[b]s[/b] ends it and keeps every cell that was measured; [b]r[/b] goes on later."
        )  # fmt: skip
    if look.runs_elsewhere:
        return "It runs in another raidlab; here it can be watched."
    if state.background:
        return f"It can run when '{state.background}' is done."
    if look.work is None:
        return "What stands at the right comes first." if look.problem else "It is being planned."
    if look.work.missing_dependency:
        return "It needs Dask: the command stands at the right."
    if look.work.there == look.work.cells:
        return "All cells are there. [b]Tab[/b] goes to the tables, arrows move them."
    return "[b]r[/b] goes on with what is missing." if look.work.there else "[b]r[/b] measures all cells."
