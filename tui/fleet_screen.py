"""The Fleet screen, with a form for a fleet's parameters, and its losses over years as sentences and a chart.

The plugin that simulates fleets computes the losses on separate threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize

from lab.arrays.levels import parse_level
from lab.errors import LabError
from lab.plugins import extension
from lab.results.store import ResultStore, measured_rebuilds
from lab.theory.extension import FleetLosses, Interval, LossFigures
from lab.units import human_bytes
from tui.actions import title_of
from tui.charts import DECADES, SHARES, IntervalChart, IntervalRow
from tui.keys import command_key
from tui.look import Tone
from tui.mode import ModeScreen
from tui.state import LabState
from tui.widgets import ChangingText, ChoiceRow, Choices, VerdictBanner, error_sentence, stepped, titled

_HIGH_ROWS = 34
_LOW_CHART_ROWS = 5
MOST_FIGURES = 1000
"""Number of fleets whose losses are cached."""


class FleetScreen(ModeScreen):
    """The Fleet screen, key 0. It computes the losses of one fleet at a time. A new request replaces earlier ones."""

    CSS_PATH = "fleet_screen.tcss"
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
        command_key("fleet.more", "plus", "More often", "fleet", "A shorter interval", action="scrub(1)"),
        command_key("fleet.less", "minus", "Less often", "fleet", "A longer interval", action="scrub(-1)"),
        Binding("z", "reset", "Reset", id="fleet.reset", tooltip="Restore the initial values"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.choice = self._before = FleetChoice()
        self._changed = ""
        """The parameter that was changed last. ``_before`` is the fleet before the first of its successive changes."""
        self._shown: tuple[FleetChoice, LossFigures] | None = None
        self.rates: tuple[MeasuredRebuild, ...] = ()
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
        self.query_one(Choices).focus()
        store = ResultStore(self.app.client.host.state.results)
        self.app.beside("rebuilds", partial(measured_rates, store), on_done=self._set_rates, on_error=lambda _: None)
        self._compute()

    def _set_rates(self, rates: tuple[MeasuredRebuild, ...]) -> None:
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
        """Compute the losses of this fleet, then of the fleet it is compared with, then of the others in the chart."""
        before = (self._before,) if self._changed else ()
        self._requested = (self.choice, *before, *self.choice.with_each_scrub_interval())
        self._compute_next()
        self.changes += 1

    def _compute_next(self) -> None:
        choice = next((each for each in self._requested if each not in self._known), None)
        if choice is not None and not self._is_computing:
            self._is_computing = True
            store = partial(self._store_figures, choice)
            self.app.beside("fleet", partial(simulate, choice), on_done=store, on_error=store)

    def _store_figures(self, choice: FleetChoice, found: LossFigures | LabError) -> None:
        self._is_computing = False
        self._known[choice] = found
        while len(self._known) > MOST_FIGURES:
            del self._known[next(iter(self._known))]
        self._compute_next()

    def _figures(self, choice: FleetChoice) -> LossFigures | None:
        found = self._known.get(choice)
        return None if isinstance(found, LabError) else found

    # Showing losses.

    def show_state(self, state: LabState) -> None:
        self.query_one(Choices).show(self.choice.rows(self.rates))
        problem, found = self.query_one("#fleet-problem", VerdictBanner), self._known.get(self.choice)
        if isinstance(found, LabError):
            problem.show(Tone.BAD, "ERROR", error_sentence(found))
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
        # An example is "A failed drive is replaced after 24 h, rebuilt in 48 h; nobody errs."
        assumptions = f"{found.counted[0].upper()}{found.counted[1:]}." if found.counted else ""
        what = choice.title if self.has_class("-low") else f"{choice.title}\n{assumptions}"
        self.query_one("#fleet-what", ChangingText).update(what)
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
        sentences = []
        before = self._figures(self._before)
        if self._changed and before and choice == self.choice != self._before:
            sentences.append(comparison(self._changed, (self._before, before), (choice, found)))
        never = next(each for each in choice.with_each_scrub_interval() if each.scrub_hours is None)
        unscrubbed = self._figures(never)
        is_shown = sentences and self._changed == "scrub_hours" and self._before == never
        if unscrubbed and choice.scrub_hours and not is_shown:
            sentences.append(comparison("scrub_hours", (never, unscrubbed), (choice, found)))
        return sentences[:1] if self.has_class("-low") else sentences

    def hint(self, state: LabState) -> str | None:
        return "[b]+[/b] and [b]-[/b] change the scrub interval; arrow keys change other parameters"


TB = 1e12
LEVELS = ("raid0", "raid1", "raid5", "raid6", "raid10")
MEMBERS = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24)
_MOST_COPIES = 4
_MONTH_HOURS = 730.5
SCRUBS: dict[float | None, tuple[str, str]] = {
    None: ("never", "never"),
    12 * _MONTH_HOURS: ("every year", "a year"),
    6 * _MONTH_HOURS: ("every 6 months", "6 months"),
    3 * _MONTH_HOURS: ("every 3 months", "3 months"),
    _MONTH_HOURS: ("every month", "a month"),
    336.0: ("every 2 weeks", "2 weeks"),
    168.0: ("every week", "a week"),
    72.0: ("every 3 days", "3 days"),
}
"""(text, short text) by hours between scrubs. More frequent scrubs would keep a large drive busy all the time."""
_NOT_MEASURED = "no"


@dataclass(frozen=True, slots=True)
class MeasuredRebuild:
    """The rebuild rate of a stored result."""

    label: str
    bytes_per_second: float


@dataclass(frozen=True, slots=True)
class FleetChoice:
    """The parameters of a fleet."""

    arrays: int = 4
    level: str = "raid5"
    members: int = 6
    disk_tb: float = 16.0
    failing_percent: float = 1.57
    chosen_hours: float = 48.0
    measured: MeasuredRebuild | None = None
    """If set, its rate replaces ``chosen_hours``."""
    scrub_hours: float | None = _MONTH_HOURS
    spares: int = 0
    replaced_hours: float = 24.0
    years: float = 5.0

    @property
    def rebuild_hours(self) -> float:
        """Hours to rebuild one drive. If a measured rate is used, they are proportional to the drive's size."""
        return self.disk_tb * TB / self.measured.bytes_per_second / 3600 if self.measured else self.chosen_hours

    @property
    def title(self) -> str:
        """The fleet as one line, such as ``4 × RAID 5 of 6 × 16 TB, 5 years, scrubbed every month``."""
        scrub = f"scrubbed {SCRUBS[self.scrub_hours][0]}" if self.scrub_hours else "never scrubbed"
        arrays = f"{self.arrays:,} × " if self.arrays > 1 else ""
        return f"{arrays}{title_of(self.level)} of {self.members} × {self.disk_tb:g} TB, {_years(self.years)}, {scrub}"

    def rows(self, measured: Sequence[MeasuredRebuild]) -> tuple[ChoiceRow, ...]:
        rows = []
        for knob in KNOBS:
            texts, note = tuple(map(knob.text, knob.values)), ""
            if knob.field == "members":
                texts = tuple(map(str, members_of(self.level)))
            elif knob.field == "chosen_hours":
                note = f"{self.disk_tb * TB / self.rebuild_hours / 3600 / 1e6:,.0f} MB/s"
                texts = () if self.measured else texts
            rows.append(ChoiceRow(knob.field, knob.label, texts, knob.current(self), note))
            if knob.field == "chosen_hours":
                labels = (_NOT_MEASURED, *(each.label for each in measured)) if measured else ()
                chosen = self.measured.label if self.measured else _NOT_MEASURED if measured else ""
                rows.append(ChoiceRow("measured", "As measured", labels, chosen, "" if measured else "no result yet"))
        return tuple(rows)

    def changed(self, field: str, text: str, measured: Sequence[MeasuredRebuild] = ()) -> FleetChoice:
        """Return a copy in which one row has a new value. The value is text in the form that the row shows."""
        if field == "measured":
            return replace(self, measured=next((each for each in measured if each.label == text), None))
        knob = _knob(field)
        changes = {field: next(value for value in knob.values if knob.text(value) == text)}
        if field == "level":
            fitting = members_of(changes[field])
            changes["members"] = min(fitting, key=lambda each: (abs(each - self.members), each))
        return replace(self, **changes)

    def with_each_scrub_interval(self) -> tuple[FleetChoice, ...]:
        """Return a copy for each scrub interval of ``SCRUBS``, this fleet's own first, then the others by distance."""
        order = list(SCRUBS)
        at = order.index(self.scrub_hours)
        nearest = sorted(order, key=lambda each: abs(order.index(each) - at))
        return tuple(replace(self, scrub_hours=hours) for hours in nearest)


def _hours(hours: float) -> str:
    return f"{hours:,.0f} h" if hours >= 10 else f"{hours:.2g} h"


def _years(years: float) -> str:
    return f"{years:g} year{'' if years == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Knob:
    """A row of the form, which sets one parameter of a fleet."""

    field: str
    label: str
    values: Sequence[Any]
    text: Callable[[Any], str]
    """Formats a value for the form."""
    change: str
    """Words for a change in a sentence, with ``{after}`` and ``{before}``."""

    def current(self, choice: FleetChoice) -> str:
        return self.text(choice.rebuild_hours if self.field == "chosen_hours" else getattr(choice, self.field))


KNOBS = (
    Knob("arrays", "Arrays", (1, 2, 4, 10, 40, 100, 400, 1000, 10_000, 100_000), "{:,}".format,
         "{after} arrays instead of {before}"),
    Knob("level", "Level", LEVELS, title_of, "{after} instead of {before}"),
    Knob("members", "Members", MEMBERS, str, "{after} members instead of {before}"),
    Knob("disk_tb", "Drive", (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 32.0), "{:g} TB".format,
         "drives of {after} instead of {before}"),
    # 1.57 % a year is Backblaze's figure for 2024 (docs/fleet.md).
    Knob("failing_percent", "Fail a year", (0.5, 1.0, 1.57, 2.0, 3.0, 5.0, 8.0), "{:g} %".format,
         "{after} failing a year instead of {before}"),
    Knob("chosen_hours", "Rebuild", (6.0, 12.0, 24.0, 36.0, 48.0, 72.0, 168.0, 336.0), _hours,
         "rebuilds of {after} instead of {before}"),
    Knob("scrub_hours", "Scrub", tuple(SCRUBS), lambda hours: SCRUBS[hours][0],
         "scrubbing {after} instead of {before}"),
    Knob("spares", "Spares", (0, 1, 2), str, "a spare count of {after} instead of {before}"),
    # This is the time until a failed drive, or a used spare, is replaced.
    Knob("replaced_hours", "Replaced", (0.0, 6.0, 24.0, 72.0, 168.0, 336.0),
         lambda hours: f"after {hours:.0f} h" if hours else "at once", "drives replaced {after} instead of {before}"),
    Knob("years", "Period", (1.0, 3.0, 5.0, 10.0), _years, "{after} instead of {before}"),
)  # fmt: skip


def _knob(field: str) -> Knob:
    return next(knob for knob in KNOBS if knob.field == ("chosen_hours" if field == "measured" else field))


def members_of(level: str) -> tuple[int, ...]:
    """Return the numbers of members that the form offers for this level."""
    least = parse_level(level).minimum_members
    most = _MOST_COPIES if level == "raid1" else MEMBERS[-1]
    step = 2 if level == "raid10" else 1
    return tuple(each for each in MEMBERS if least <= each <= most and each % step == 0)


def change_text(field: str, before: FleetChoice, after: FleetChoice) -> str:
    """Describe the change of one parameter, for example ``scrubbing every 2 weeks instead of never``."""
    knob = _knob(field)
    new, old = knob.current(after), knob.current(before)
    if field == "scrub_hours" and after.scrub_hours is None:
        return f"never scrubbing instead of {old}"
    if field == "level" and before.members != after.members:
        return f"{new} of {after.members} instead of {old} of {before.members}"
    return knob.change.format(after=new, before=old)


_FROM_TWICE = 2.0
"""Changes by at least this factor are given as a factor, and smaller ones in per cent."""
_WHOLE_BYTES = 100.0
_LEAST_DECIMAL = 1e-3


LABEL_CELLS = 19
_CAUSES = {"failures": "failed drives", "sectors": "bad sectors"}


def figure_lines(choice: FleetChoice, found: LossFigures, width: int) -> tuple[tuple[str, str], ...]:
    """Return (label, figure) of each line, with three digits if all lines fit into ``width`` cells, else two."""

    def lines(digits: int) -> tuple[tuple[str, str], ...]:
        return (
            (f"any loss, {_years(choice.years)}", _percent_text(found.fleet_loss_chance, digits)),
            ("per array and year", _percent_text(found.loss_chance_per_array_year, digits)),
            ("nines per year", _nines_text(found)),
            ("lost per PB, year", _bytes_text(found.lost_bytes_per_pb_year)),
            *_seldom_lines(found),
        )

    return lines(3) if all(LABEL_CELLS + len(text) <= width for _, text in lines(3)) else lines(2)


def share_rows(found: LossFigures) -> tuple[IntervalRow, ...]:
    """Return each cause's share of the losses. Human error is not simulated."""
    shares = ((label, found.cause_losses.get(cause, 0.0)) for cause, label in _CAUSES.items())
    return tuple(IntervalRow(label, share, share, share, f"{100 * share:5.1f} %", colour=1) for label, share in shares)


def _seldom_lines(found: LossFigures) -> tuple[tuple[str, str], ...]:
    """Return lines for causes too rare to estimate, or none if nothing was lost, as every figure is then a bound."""
    if not found.has_losses:
        return ()
    return tuple(
        (f"by {_CAUSES[cause]}", f"{'few' if each.value else 'none'} seen, at most {_bytes(each.high)}")
        for cause, each in found.seldom.items()
        if cause in _CAUSES
    )


def fleet_losses(choice: FleetChoice, found: LossFigures) -> tuple[float, float, float]:
    """Return (expected losses, low end, high end) of the whole fleet over all its years."""
    of_all, each = choice.arrays * choice.years, found.losses_per_array_year
    return each.value * of_all, each.low * of_all, each.high * of_all


def comparison(field: str, before: tuple[FleetChoice, LossFigures], after: tuple[FleetChoice, LossFigures]) -> str:
    """Return a sentence such as ``Scrubbing every 2 weeks instead of never: 40 times fewer losses (35 to 46).``."""
    change = change_text(field, before[0], after[0])
    return f"{change[0].upper()}{change[1:]}: {_difference(before, after)}."


def _difference(before: tuple[FleetChoice, LossFigures], after: tuple[FleetChoice, LossFigures]) -> str:
    """Describe the difference between the losses. If the intervals overlap, neither figure is called larger."""
    old, old_low, old_high = fleet_losses(*before)
    new, new_low, new_high = fleet_losses(*after)
    if before[1].losses_per_array_year == after[1].losses_per_array_year:
        # Only the number of arrays or years differs, so none of the difference is due to chance.
        old_low = old_high = old
        new_low = new_high = new
    if old_low <= new_high and new_low <= old_high:
        return "no difference beyond the intervals"
    if not old or not new:
        return f"{'fewer' if not new else 'more'} losses: none seen {'now' if not new else 'before'}"
    is_fewer = new < old
    ratio = old / new if is_fewer else new / old
    low, high = (old_low / new_high, old_high / max(new_low, 1e-300)) if is_fewer else (
        new_low / old_high, new_high / max(old_low, 1e-300)
    )  # fmt: skip
    if ratio >= _FROM_TWICE:
        return f"{_times(ratio)} times {'fewer' if is_fewer else 'as many'} losses{_range(_times(low), _times(high))}"
    if is_fewer:
        return f"{_share(1 - 1 / ratio)} % fewer losses{_range(_share(1 - 1 / low), _share(1 - 1 / high))}"
    return f"{_share(ratio - 1)} % more losses{_range(_share(low - 1), _share(high - 1))}"


def _range(low: str, high: str) -> str:
    return f" ({low} to {high})" if low != high else ""


def _times(ratio: float) -> str:
    return f"{float(f'{ratio:.2g}'):,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def _share(part: float) -> str:
    return f"{100 * part:.2g}" if part < 0.995 else f"{100 * part:.0f}"


def loss_rows(choice: FleetChoice, known: Sequence[tuple[FleetChoice, LossFigures | None]]) -> tuple[IntervalRow, ...]:
    """Return a row for each scrub interval, from never to the shortest, without a figure if it is not yet computed."""
    by_hours = {each.scrub_hours: (each, found) for each, found in known}
    now = by_hours.get(choice.scrub_hours, (choice, None))[1]
    rows = []
    for hours, (_, label) in SCRUBS.items():
        each, found = by_hours.get(hours, (choice, None))
        value, low, high = fleet_losses(each, found) if found else (None, 0.0, 0.0)
        text = "…" if value is None else _number(value, 2) if value else "none seen"
        tone = _tone((choice, now), (each, found)) if found else Tone.QUIET
        rows.append(IntervalRow(label, value, low, high, text, tone, is_current=hours == choice.scrub_hours))
    return tuple(rows)


def _tone(now: tuple[FleetChoice, LossFigures | None], other: tuple[FleetChoice, LossFigures]) -> Tone:
    """Return GOOD for fewer losses than now, BAD for more, or QUIET if intervals overlap or figures are missing."""
    if now[1] is None:
        return Tone.QUIET
    _, low, high = fleet_losses(now[0], now[1])
    _, other_low, other_high = fleet_losses(*other)
    if other_low <= high and low <= other_high:
        return Tone.QUIET
    return Tone.GOOD if other_high < low else Tone.BAD


def mttdl_text(found: LossFigures) -> str:
    """Return the MTTDL with its formula, the simulated losses relative to it, and the reason for the difference."""
    by_hand = f": {found.mttdl_by_hand.partition(' = ')[0]}" if found.mttdl_by_hand else ""
    return (
        f"{_year_text(found.mttdl_years)}{by_hand}. MTTDL ignores bad sectors, and therefore scrubs. "
        f"Simulated: {_relative_to_mttdl(found)}."
    )


def _relative_to_mttdl(found: LossFigures) -> str:
    if not found.has_losses:
        return f"no losses, fewer than {_times(found.losses_per_array_year.high * found.mttdl_years)} times as many"
    times = found.losses_to_mttdl
    return f"{_times(times)} times as many losses" if times >= 1 else f"{100 * times:.0f} % of its losses"


def _year_text(years: float) -> str:
    for size, word in ((1e9, "billion"), (1e6, "million")):
        if years >= size:
            return f"{years / size:,.3g} {word} years"
    return f"{float(f'{years:.3g}'):,.0f} years"


def _percent_text(estimate: Interval, digits: int) -> str:
    value, low, high = (_number(100 * each, digits) for each in (estimate.value, estimate.low, estimate.high))
    return f"{value} % [{low}–{high}]" if estimate.value else f"less than {high} %"


def _number(value: float, digits: int) -> str:
    """Return a number with ``digits`` significant digits, such as ``0.0343`` or ``1.21e-5``."""
    if 0 < value < _LEAST_DECIMAL:
        return f"{value:.{digits - 1}e}".replace("e-0", "e-")
    return f"{value:.{digits}g}"


def _nines_text(found: LossFigures) -> str:
    nines = found.nines_per_array_year
    if not found.has_losses:
        return f"more than {nines.low:.2f}"
    return f"{nines.value:.2f} [{nines.low:.2f}–{nines.high:.2f}]"


def _bytes_text(estimate: Interval) -> str:
    value, low, high = (_bytes(each) for each in (estimate.value, estimate.low, estimate.high))
    if not estimate.value:
        return f"less than {high}"
    units = {each.rpartition(" ")[2] for each in (value, low, high)}
    if len(units) == 1:
        low, high = low.rpartition(" ")[0], high.rpartition(" ")[0]
    return f"{value} [{low}–{high}]"


def _bytes(count: float) -> str:
    return human_bytes(round(count)) if count >= _WHOLE_BYTES else f"{count:.2g} B"


def simulate(choice: FleetChoice) -> LossFigures:
    """Compute the losses. Call this on a separate thread. Raises LabError, also if the plugin is missing."""
    losses = extension(FleetLosses)
    if losses is None:
        raise LabError("the plugin that simulates fleets is missing", hint="install the complete raidlab package")
    return losses.what_if(
        arrays=choice.arrays,
        level=choice.level,
        members=choice.members,
        disk_tb=choice.disk_tb,
        afr_percent=choice.failing_percent,
        rebuild_hours=choice.rebuild_hours,
        scrub_interval_hours=choice.scrub_hours,
        spares=choice.spares,
        replenish_hours=choice.replaced_hours,
        years=choice.years,
    )


def measured_rates(store: ResultStore) -> tuple[MeasuredRebuild, ...]:
    """Return the newest rebuild rate of each array, load and experiment."""
    found: dict[str, MeasuredRebuild] = {}
    for each in measured_rebuilds(store):
        under = f" under {each.under_workload}" if each.under_workload else ""
        label = f"{each.array}{under}, {each.experiment}"
        found.setdefault(label, MeasuredRebuild(label, each.bytes_per_second))
    return tuple(found.values())
