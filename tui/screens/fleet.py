"""The Fleet screen: shows how the parameters of a fleet, such as the scrub interval, affect its losses over years."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize

from lab.errors import LabError
from tui.fleet import (
    LABEL_CELLS,
    SCRUBS,
    FleetChoice,
    compared,
    counted_words,
    figure_lines,
    loss_rows,
    mttdl_words,
    shares,
)
from tui.keys import CommandKey
from tui.look import Tone
from tui.mode import ModeScreen
from tui.widgets.choices import Choices, stepped
from tui.widgets.interval_charts import LossChart
from tui.widgets.lines import ChangingText, titled
from tui.widgets.tiles import ShareBars, VerdictBanner

if TYPE_CHECKING:
    from lab.theory.extension import LossFigures
    from tui.state import LabState

_HIGH_ROWS = 34
_LOW_CHART_ROWS = 5


class FleetScreen(ModeScreen):
    """The Fleet screen, key 0."""

    CSS_PATH = "fleet.tcss"
    AREA = "Fleet"
    USES_LAB = False
    HELP = (
        "What would arrays like these lose over years? Each turn of a knob follows some sixteen thousand of them "
        "through their years, drive by drive, and tells how often data are lost and by what: more failed drives than "
        "parities, or a bad sector that a rebuild finds. Scrubs find bad sectors before a rebuild does.\n\n"
        "Figures in brackets are the interval that covers the truth with 95 %. Where two intervals overlap, nothing is "
        "called different. All choices have the same random numbers. Left out here: people who pull a wrong drive, bad "
        "batches, drives that age; `raidlab fleet` has them, and so it gives other figures for the same array. "
        "'Replaced' is the time until a failed drive, or a used spare, is replaced; the rebuild comes after it. MTTDL "
        "is life² ÷ (members × (members − 1) × hours until rebuilt) where one failure is survived."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        CommandKey(
            "plus",
            "scrub(1)",
            "Scrub more often",
            id="fleet.more",
            tooltip="The next shorter interval",
            command="fleet",
        ),
        CommandKey(
            "minus",
            "scrub(-1)",
            "Less often",
            id="fleet.less",
            tooltip="The next longer interval, up to never",
            command="fleet",
        ),
        Binding("z", "reset", "As at first", id="fleet.reset", tooltip="All knobs as they were when the app began"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._choice = self._before = FleetChoice()
        self._turned = ""
        """The parameter that was changed last; ``_before`` is the fleet before the first of its successive changes."""
        self._shown: tuple[FleetChoice, LossFigures] | None = None

    def body(self) -> ComposeResult:
        with Horizontal(id="fleet"):
            with Vertical(id="fleet-left"):
                yield titled(Choices(self._choice.rows(()), id="fleet-form"), "A fleet")
                with titled(Vertical(id="fleet-beside"), "And MTTDL?"):
                    yield ChangingText(id="fleet-mttdl", markup=False)
            with titled(Vertical(id="fleet-right"), "What it would lose"):
                yield ChangingText(id="fleet-what", markup=False)
                yield ChangingText(id="fleet-figures", markup=False)
                yield VerdictBanner(id="fleet-problem")
                yield ChangingText(id="fleet-sentence", markup=False)
                yield ChangingText("Where losses come from", classes="fleet-title")
                yield ShareBars(id="fleet-shares")
                yield ChangingText(id="fleet-chart-title", classes="fleet-title")
                yield LossChart(id="fleet-chart")

    def on_mount(self) -> None:
        self.query_one(Choices).focus()
        self.query_one("#fleet-problem", VerdictBanner).clear()
        self.app.fleets.look_for_rates()
        self._reckon()

    def on_resize(self, event: Resize) -> None:
        is_low = event.size.height < _HIGH_ROWS
        self.set_class(is_low, "-low")
        self.query_one(LossChart).most_rows = _LOW_CHART_ROWS if is_low else len(SCRUBS)

    @property
    def choice(self) -> FleetChoice:
        return self._choice

    def on_choices_stepped(self, event: Choices.Stepped) -> None:
        rates = self.app.fleets.rates or ()
        if value := stepped(self._choice.rows(rates), event.key, event.by):
            self._take(event.key, self._choice.changed(event.key, value, rates))

    def action_scrub(self, by: int) -> None:
        order = list(SCRUBS)
        at = max(0, min(len(order) - 1, order.index(self._choice.scrub_hours) + by))
        self._take("scrub", self._choice.changed("scrub", SCRUBS[order[at]][0]))

    def action_reset(self) -> None:
        self._choice, self._turned = FleetChoice(), ""
        self._reckon()

    def _take(self, key: str, choice: FleetChoice) -> None:
        if choice == self._choice:
            return
        if key != self._turned:
            self._turned, self._before = key, self._choice
        self._choice = choice
        self._reckon()

    def _reckon(self) -> None:
        """Compute the losses of this fleet, then of the one it is compared with, then of the others in the chart."""
        before = (self._before,) if self._turned else ()
        self.app.fleets.want((self._choice, *before, *self._choice.beside()))
        self.update_from(self.app.lab)

    def show_state(self, state: LabState) -> None:
        fleets = self.app.fleets
        self.query_one(Choices).show(self._choice.rows(fleets.rates or ()))
        problem, found = self.query_one("#fleet-problem", VerdictBanner), fleets.figures(self._choice)
        if isinstance(found, LabError):
            problem.show(Tone.BAD, "NO ANSWER", f"{found.message}. {found.hint}".rstrip(". ") + ".")
        else:
            problem.clear()
        if found is not None and not isinstance(found, LabError):
            self._shown = self._choice, found
        # Until the next figures are computed, the last ones remain, with the description of their fleet.
        if self._shown:
            self._show(*self._shown)
        else:
            self.query_one("#fleet-what", ChangingText).update("It is being reckoned …")

    def _show(self, choice: FleetChoice, found: LossFigures) -> None:
        counted = "" if self.has_class("-low") else f"\n{counted_words(found)}"
        self.query_one("#fleet-what", ChangingText).update(f"{choice.words}{counted}")
        figures = self.query_one("#fleet-figures", ChangingText)
        lines = [
            Content.assemble((label.ljust(LABEL_CELLS), "$foreground-muted"), (text, "bold" if not number else ""))
            for number, (label, text) in enumerate(figure_lines(choice, found, figures.size.width))
        ]
        figures.update(Content("\n").join(lines))
        self.query_one(ShareBars).show(shares(found))
        self.query_one("#fleet-mttdl", ChangingText).update(mttdl_words(found))
        self.query_one("#fleet-sentence", ChangingText).update("\n".join(self._sentences(choice, found)))
        years = "a year" if choice.years == 1 else f"{choice.years:g} years"
        title = f"Losses in {years}, by scrub interval"
        self.query_one("#fleet-chart-title", ChangingText).update(title)
        known = [(each, self._figures(each)) for each in choice.beside()]
        self.query_one(LossChart).show(loss_rows(choice, known))

    def _sentences(self, choice: FleetChoice, found: LossFigures) -> list[str]:
        """Sentences about the effect of the last change and of scrubbing."""
        said = []
        before = self._figures(self._before)
        if self._turned and before and choice == self._choice != self._before:
            said.append(compared(self._turned, (self._before, before), (choice, found)))
        never = next(each for each in choice.beside() if each.scrub_hours is None)
        unscrubbed = self._figures(never)
        if unscrubbed and choice.scrub_hours and not (said and self._turned == "scrub" and self._before == never):
            said.append(compared("scrub", (never, unscrubbed), (choice, found)))
        return said[:1] if self.has_class("-low") else said

    def _figures(self, choice: FleetChoice) -> LossFigures | None:
        found = self.app.fleets.figures(choice)
        return None if isinstance(found, LabError) else found

    def hint(self, state: LabState) -> str | None:
        return "[b]+[/b] and [b]-[/b] change how often it is scrubbed; arrows turn the other knobs"
