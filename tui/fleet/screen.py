"""The Fleet screen: shows how the parameters of a fleet, such as the scrub interval, affect its losses over years."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize

from lab.errors import LabError
from tui.fleet.losses import (
    LABEL_CELLS,
    SCRUBS,
    FleetChoice,
    MeasuredRebuild,
    assumptions_text,
    comparison,
    figure_lines,
    loss_rows,
    measured_rates,
    mttdl_text,
    share_rows,
    simulate,
)
from tui.keys import CommandKey
from tui.look import Tone
from tui.mode import ModeScreen
from tui.widgets.charts import DECADES, SHARES, IntervalChart
from tui.widgets.choices import Choices, stepped
from tui.widgets.lines import ChangingText, titled
from tui.widgets.tiles import VerdictBanner

if TYPE_CHECKING:
    from lab.theory.extension import LossFigures
    from tui.state import LabState

_HIGH_ROWS = 34
_LOW_CHART_ROWS = 5
KEPT_FIGURES = 1000
"""Number of fleets whose losses are kept."""


class FleetScreen(ModeScreen):
    """The Fleet screen, key 0. It computes the losses of one fleet at a time; a new request replaces earlier ones."""

    CSS_PATH = "screen.tcss"
    AREA = "Fleet"
    USES_LAB = False
    HELP = (
        "What would arrays like these lose over years? After each change, some sixteen thousand of them are simulated, "
        "drive by drive: how often data are lost, and why. Either more drives fail than the array survives, or a "
        "rebuild meets a bad sector. Scrubs find bad sectors before a rebuild does.\n\n"
        "Figures in brackets are 95 % confidence intervals. If two intervals overlap, no difference is claimed. All "
        "fleets use the same random numbers. Human errors, bad batches and ageing drives are not simulated here; "
        "`raidlab fleet` includes them, so its figures for the same array differ. 'Replaced' is the time until a "
        "failed drive, or a used spare, is replaced; the rebuild follows. For arrays that survive one failure, MTTDL "
        "is life² ÷ (members × (members − 1) × hours until rebuilt)."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        CommandKey("plus", "scrub(1)", "More often", id="fleet.more", tooltip="A shorter interval", command="fleet"),
        CommandKey("minus", "scrub(-1)", "Less often", id="fleet.less", tooltip="A longer interval", command="fleet"),
        Binding("z", "reset", "Reset", id="fleet.reset", tooltip="Restore the initial values"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.choice = self._before = FleetChoice()
        self._changed = ""
        """The parameter that was changed last; ``_before`` is the fleet before the first of its successive changes."""
        self._shown: tuple[FleetChoice, LossFigures] | None = None
        self.rates: tuple[MeasuredRebuild, ...] = ()
        """Rebuild rates of stored results."""
        self._known: dict[FleetChoice, LossFigures | LabError] = {}
        self._requested: tuple[FleetChoice, ...] = ()
        self._is_computing = False

    def body(self) -> ComposeResult:
        with Horizontal(id="fleet"):
            with Vertical(id="fleet-left"):
                yield titled(Choices(self.choice.rows(()), id="fleet-form"), "Fleet")
                with titled(Vertical(id="fleet-beside"), "MTTDL"):
                    yield ChangingText(id="fleet-mttdl", markup=False)
            with titled(Vertical(id="fleet-right"), "Expected losses"):
                yield ChangingText(id="fleet-what", markup=False)
                yield ChangingText(id="fleet-figures", markup=False)
                yield VerdictBanner(id="fleet-problem")
                yield ChangingText(id="fleet-sentence", markup=False)
                yield ChangingText("Causes of losses", classes="fleet-title")
                yield IntervalChart(id="fleet-shares")
                yield ChangingText(id="fleet-chart-title", classes="fleet-title")
                yield IntervalChart(id="fleet-chart")

    def on_mount(self) -> None:
        from lab.results.store import ResultStore

        self.query_one(Choices).focus()
        self.query_one("#fleet-problem", VerdictBanner).clear()
        store = ResultStore(self.app.client.host.state.results)
        self.app.beside("rebuilds", partial(measured_rates, store), on_done=self._keep_rates, on_error=lambda _: None)
        self._compute()

    def _keep_rates(self, rates: tuple[MeasuredRebuild, ...]) -> None:
        self.rates = rates

    def on_resize(self, event: Resize) -> None:
        is_low = event.size.height < _HIGH_ROWS
        self.set_class(is_low, "-low")
        self.query_one("#fleet-chart", IntervalChart).most_rows = _LOW_CHART_ROWS if is_low else len(SCRUBS)

    # Changing the fleet.

    def on_choices_stepped(self, event: Choices.Stepped) -> None:
        if value := stepped(self.choice.rows(self.rates), event.key, event.by):
            self._take(event.key, self.choice.changed(event.key, value, self.rates))

    def action_scrub(self, by: int) -> None:
        order = list(SCRUBS)
        at = max(0, min(len(order) - 1, order.index(self.choice.scrub_hours) + by))
        self._take("scrub_hours", self.choice.changed("scrub_hours", SCRUBS[order[at]][0]))

    def action_reset(self) -> None:
        self.choice, self._changed = FleetChoice(), ""
        self._compute()

    def _take(self, field: str, choice: FleetChoice) -> None:
        if choice == self.choice:
            return
        if field != self._changed:
            self._changed, self._before = field, self.choice
        self.choice = choice
        self._compute()

    # Computing losses.

    def _compute(self) -> None:
        """Compute the losses of this fleet, then of the one it is compared with, then of the others in the chart."""
        before = (self._before,) if self._changed else ()
        self._requested = (self.choice, *before, *self.choice.with_each_scrub_interval())
        self._compute_next()
        self.update_from(self.app.lab)

    def _compute_next(self) -> None:
        choice = next((each for each in self._requested if each not in self._known), None)
        if choice is not None and not self._is_computing:
            self._is_computing = True
            keep = partial(self._keep, choice)
            self.app.beside("fleet", partial(simulate, choice), on_done=keep, on_error=keep)

    def _keep(self, choice: FleetChoice, found: LossFigures | LabError) -> None:
        self._is_computing = False
        self._known[choice] = found
        while len(self._known) > KEPT_FIGURES:
            del self._known[next(iter(self._known))]
        self._compute_next()

    def has_computed(self, choices: Iterable[FleetChoice]) -> bool:
        return all(choice in self._known for choice in choices)

    def _figures(self, choice: FleetChoice) -> LossFigures | None:
        found = self._known.get(choice)
        return None if isinstance(found, LabError) else found

    # Showing losses.

    def show_state(self, state: LabState) -> None:
        self.query_one(Choices).show(self.choice.rows(self.rates))
        problem, found = self.query_one("#fleet-problem", VerdictBanner), self._known.get(self.choice)
        if isinstance(found, LabError):
            problem.show(Tone.BAD, "ERROR", f"{found.message}. {found.hint}".rstrip(". ") + ".")
        else:
            problem.clear()
        if found is not None and not isinstance(found, LabError):
            self._shown = self.choice, found
        # Until the next figures are computed, the previous figures remain, with the description of their fleet.
        if self._shown:
            self._show(*self._shown)
        else:
            self.query_one("#fleet-what", ChangingText).update("Simulating …")

    def _show(self, choice: FleetChoice, found: LossFigures) -> None:
        assumptions = "" if self.has_class("-low") else f"\n{assumptions_text(found)}"
        self.query_one("#fleet-what", ChangingText).update(f"{choice.title}{assumptions}")
        figures = self.query_one("#fleet-figures", ChangingText)
        lines = [
            Content.assemble((label.ljust(LABEL_CELLS), "$foreground-muted"), (text, "bold" if not number else ""))
            for number, (label, text) in enumerate(figure_lines(choice, found, figures.size.width))
        ]
        figures.update(Content("\n").join(lines))
        self.query_one("#fleet-shares", IntervalChart).draw(share_rows(found), SHARES)
        self.query_one("#fleet-mttdl", ChangingText).update(mttdl_text(found))
        self.query_one("#fleet-sentence", ChangingText).update("\n".join(self._comparisons(choice, found)))
        years = "a year" if choice.years == 1 else f"{choice.years:g} years"
        self.query_one("#fleet-chart-title", ChangingText).update(f"Losses in {years}, by scrub interval")
        known = [(each, self._figures(each)) for each in choice.with_each_scrub_interval()]
        self.query_one("#fleet-chart", IntervalChart).draw(loss_rows(choice, known), DECADES)

    def _comparisons(self, choice: FleetChoice, found: LossFigures) -> list[str]:
        """Sentences about the effect of the last change and of scrubbing."""
        sentences = []
        before = self._figures(self._before)
        if self._changed and before and choice == self.choice != self._before:
            sentences.append(comparison(self._changed, (self._before, before), (choice, found)))
        never = next(each for each in choice.with_each_scrub_interval() if each.scrub_hours is None)
        unscrubbed = self._figures(never)
        is_said = sentences and self._changed == "scrub_hours" and self._before == never
        if unscrubbed and choice.scrub_hours and not is_said:
            sentences.append(comparison("scrub_hours", (never, unscrubbed), (choice, found)))
        return sentences[:1] if self.has_class("-low") else sentences

    def hint(self, state: LabState) -> str | None:
        return "[b]+[/b] and [b]-[/b] change the scrub interval; arrow keys change other parameters"
