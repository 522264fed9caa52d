"""A fleet of arrays: the rows of its form, and its data losses in words and in figures with intervals.

The plugin that simulates fleets computes the losses, on threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from lab.arrays.levels import parse_level
from lab.errors import LabError
from lab.units import human_bytes
from tui.arrays.drafts import title_of
from tui.look import Tone
from tui.widgets.choices import ChoiceRow
from tui.widgets.interval_charts import IntervalRow
from tui.widgets.tiles import Share

if TYPE_CHECKING:
    from lab.results.store import ResultStore
    from lab.theory.extension import Interval, LossFigures
    from tui.frontend import Frontend

TB = 1e12
ARRAYS = (1, 2, 4, 10, 40, 100, 400, 1000, 10_000, 100_000)
LEVELS = ("raid0", "raid1", "raid5", "raid6", "raid10")
MEMBERS = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 20, 24)
_MOST_COPIES = 4
DISKS_TB = (1.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0, 24.0, 32.0)
FAILING_PERCENT = (0.5, 1.0, 1.57, 2.0, 3.0, 5.0, 8.0)
"""1.57 % a year is Backblaze's figure for 2024 (docs/fleet.md)."""
REBUILD_HOURS = (6.0, 12.0, 24.0, 36.0, 48.0, 72.0, 168.0, 336.0)
SPARES = (0, 1, 2)
REPLACED_HOURS = (0.0, 6.0, 24.0, 72.0, 168.0, 336.0)
"""Hours until a failed drive, or a used spare, is replaced."""
YEARS = (1.0, 3.0, 5.0, 10.0)
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
"""Hours between two scrubs -> (words, short words). More frequent scrubs would keep a large drive busy all the time."""
_NOT_MEASURED = "no"


@dataclass(frozen=True, slots=True)
class ChosenRebuild:
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
    measured: ChosenRebuild | None = None
    """If set, its rate replaces ``chosen_hours``."""
    scrub_hours: float | None = _MONTH_HOURS
    spares: int = 0
    replaced_hours: float = 24.0
    years: float = 5.0

    @property
    def rebuild_hours(self) -> float:
        """Hours to rebuild one drive. At a measured rate they grow with the size of the drive."""
        return self.disk_tb * TB / self.measured.bytes_per_second / 3600 if self.measured else self.chosen_hours

    @property
    def scrub_words(self) -> str:
        return SCRUBS[self.scrub_hours][0]

    @property
    def words(self) -> str:
        """The fleet in words, such as ``4 × RAID 5 of 6 × 16 TB, 5 years, scrubbed every month``."""
        scrub = f"scrubbed {self.scrub_words}" if self.scrub_hours else "never scrubbed"
        arrays = f"{self.arrays:,} × " if self.arrays > 1 else ""
        return f"{arrays}{title_of(self.level)} of {self.members} × {self.disk_tb:g} TB, {_years(self.years)}, {scrub}"

    def rows(self, measured: Sequence[ChosenRebuild]) -> tuple[ChoiceRow, ...]:
        """The rows of the form; ``measured`` are the rebuild rates of stored results."""
        rate = f"{self.disk_tb * TB / self.rebuild_hours / 3600 / 1e6:,.0f} MB/s"
        hours = _hours(self.rebuild_hours)
        rebuild = ChoiceRow("rebuild", "Rebuild", tuple(map(_hours, REBUILD_HOURS)), hours, rate)
        if self.measured:
            rebuild = ChoiceRow("rebuild", "Rebuild", (), hours, rate)
        labels = (_NOT_MEASURED, *(each.label for each in measured))
        return (
            ChoiceRow("arrays", "Arrays", tuple(f"{each:,}" for each in ARRAYS), f"{self.arrays:,}"),
            ChoiceRow("level", "Level", tuple(map(title_of, LEVELS)), title_of(self.level)),
            ChoiceRow("members", "Members", tuple(map(str, members_of(self.level))), str(self.members)),
            ChoiceRow("disk", "Drive", tuple(map(_terabytes, DISKS_TB)), _terabytes(self.disk_tb)),
            ChoiceRow("failing", "Fail a year", tuple(map(_percent, FAILING_PERCENT)), _percent(self.failing_percent)),
            rebuild,
            ChoiceRow("measured", "As measured", labels, self.measured.label if self.measured else _NOT_MEASURED)
            if measured
            else ChoiceRow("measured", "As measured", note="no result yet"),
            ChoiceRow("scrub", "Scrub", tuple(words for words, _ in SCRUBS.values()), self.scrub_words),
            ChoiceRow("spares", "Spares", tuple(map(str, SPARES)), str(self.spares)),
            ChoiceRow("replaced", "Replaced", tuple(map(_after, REPLACED_HOURS)), _after(self.replaced_hours)),
            ChoiceRow("years", "Years", tuple(f"{each:g}" for each in YEARS), f"{self.years:g}"),
        )

    def changed(self, key: str, value: str, measured: Sequence[ChosenRebuild] = ()) -> FleetChoice:
        """A copy with a new value for one row; ``value`` is the value as the row shows it."""
        match key:
            case "arrays":
                return replace(self, arrays=int(value.replace(",", "")))
            case "level":
                level = next(each for each in LEVELS if title_of(each) == value)
                fitting = members_of(level)
                nearest = min(fitting, key=lambda each: (abs(each - self.members), each))
                return replace(self, level=level, members=nearest)
            case "members":
                return replace(self, members=int(value))
            case "disk":
                return replace(self, disk_tb=next(each for each in DISKS_TB if _terabytes(each) == value))
            case "failing":
                return replace(self, failing_percent=next(each for each in FAILING_PERCENT if _percent(each) == value))
            case "rebuild":
                return replace(self, chosen_hours=next(each for each in REBUILD_HOURS if _hours(each) == value))
            case "measured":
                return replace(self, measured=next((each for each in measured if each.label == value), None))
            case "scrub":
                return replace(self, scrub_hours=next(hours for hours, words in SCRUBS.items() if words[0] == value))
            case "spares":
                return replace(self, spares=int(value))
            case "replaced":
                return replace(self, replaced_hours=next(each for each in REPLACED_HOURS if _after(each) == value))
            case _:
                return replace(self, years=float(value))

    def beside(self) -> tuple[FleetChoice, ...]:
        """Copies with every scrub interval of ``SCRUBS``, this one first, then by distance in the list."""
        order = list(SCRUBS)
        at = order.index(self.scrub_hours)
        nearest = sorted(order, key=lambda each: abs(order.index(each) - at))
        return tuple(replace(self, scrub_hours=hours) for hours in nearest)


def members_of(level: str) -> tuple[int, ...]:
    """The numbers of members that the form offers for this level."""
    least = parse_level(level).minimum_members
    most = _MOST_COPIES if level == "raid1" else MEMBERS[-1]
    step = 2 if level == "raid10" else 1
    return tuple(each for each in MEMBERS if least <= each <= most and each % step == 0)


def change_words(key: str, before: FleetChoice, after: FleetChoice) -> str:
    """The change of one parameter in words, such as ``scrubbing every 2 weeks instead of never``."""
    match key:
        case "scrub" if after.scrub_hours is None:
            return f"never scrubbing instead of {before.scrub_words}"
        case "scrub":
            return f"scrubbing {after.scrub_words} instead of {before.scrub_words}"
        case "arrays":
            return f"{after.arrays:,} arrays instead of {before.arrays:,}"
        case "level":
            old, new = title_of(before.level), title_of(after.level)
            has_others = before.members != after.members
            return (
                f"{new} of {after.members} instead of {old} of {before.members}"
                if has_others
                else f"{new} instead of {old}"
            )
        case "members":
            return f"{after.members} members instead of {before.members}"
        case "disk":
            return f"drives of {_terabytes(after.disk_tb)} instead of {_terabytes(before.disk_tb)}"
        case "failing":
            return f"{_percent(after.failing_percent)} failing a year instead of {_percent(before.failing_percent)}"
        case "spares":
            return (
                f"{after.spares or 'no'} spare{'' if after.spares == 1 else 's'} instead of {before.spares or 'none'}"
            )
        case "replaced":
            return f"drives replaced {_after(after.replaced_hours)} instead of {_after(before.replaced_hours)}"
        case "years":
            return f"{_years(after.years)} instead of {before.years:g}"
        case _:
            return f"rebuilds of {_hours(after.rebuild_hours)} instead of {_hours(before.rebuild_hours)}"


def _hours(hours: float) -> str:
    return f"{hours:,.0f} h" if hours >= 10 else f"{hours:.2g} h"


def _after(hours: float) -> str:
    return f"after {hours:.0f} h" if hours else "at once"


def _terabytes(terabytes: float) -> str:
    return f"{terabytes:g} TB"


def _percent(percent: float) -> str:
    return f"{percent:g} %"


def _years(years: float) -> str:
    return f"{years:g} year{'' if years == 1 else 's'}"


_FROM_TWICE = 2.0
"""Changes by at least this factor are given as a factor, smaller ones in per cent."""
_WHOLE_BYTES = 100.0
_LEAST_DECIMAL = 1e-3


LABEL_CELLS = 19
_CAUSES = {"failures": "failed drives", "sectors": "bad sectors"}


def figure_lines(choice: FleetChoice, found: LossFigures, width: int) -> tuple[tuple[str, str], ...]:
    """(label, figure) of each line, with three digits if all lines fit into ``width`` cells, else two."""
    years = "1 year" if choice.years == 1 else f"{choice.years:g} years"

    def lines(digits: int) -> tuple[tuple[str, str], ...]:
        return (
            (f"any loss, {years}", _percent_text(found.fleet_loss_chance, digits)),
            ("an array, a year", _percent_text(found.loss_chance_per_array_year, digits)),
            ("nines of a year", _nines_text(found)),
            ("lost a year per PB", _bytes_text(found.lost_bytes_per_pb_year)),
            *_seldom_lines(found),
        )

    return lines(3) if all(LABEL_CELLS + len(text) <= width for _, text in lines(3)) else lines(2)


def shares(found: LossFigures) -> tuple[Share, ...]:
    """The share of each cause of losses; human error is not simulated."""
    return tuple(Share(word, found.cause_losses.get(cause, 0.0)) for cause, word in _CAUSES.items())


def _seldom_lines(found: LossFigures) -> tuple[tuple[str, str], ...]:
    """Lines for causes that were too rare to estimate; none without any loss, because every figure is then a bound."""
    if not found.losses_per_array_year.value:
        return ()
    return tuple(
        (f"by {_CAUSES[cause]}", f"{'few' if each.value else 'none'} seen, at most {_bytes(each.high)}")
        for cause, each in found.seldom.items()
        if cause in _CAUSES
    )


def fleet_losses(choice: FleetChoice, found: LossFigures) -> tuple[float, float, float]:
    """(expected losses, low end, high end) of the whole fleet over all its years."""
    of_all, each = choice.arrays * choice.years, found.losses_per_array_year
    return each.value * of_all, each.low * of_all, each.high * of_all


def compared(key: str, before: tuple[FleetChoice, LossFigures], after: tuple[FleetChoice, LossFigures]) -> str:
    """The change and its effect: ``Scrubbing every 2 weeks instead of never: 40 times fewer losses (35 to 46).``."""
    words = change_words(key, before[0], after[0])
    return f"{words[0].upper()}{words[1:]}: {_difference(before, after)}."


def _difference(before: tuple[FleetChoice, LossFigures], after: tuple[FleetChoice, LossFigures]) -> str:
    """The difference of the losses in words; if the intervals overlap, neither figure is called larger."""
    old, old_low, old_high = fleet_losses(*before)
    new, new_low, new_high = fleet_losses(*after)
    if _same_arrays(before, after):
        # Only the number of arrays or years differs, so no part of the difference is chance.
        old_low = old_high = old
        new_low = new_high = new
    if old_low <= new_high and new_low <= old_high:
        return "no difference that the intervals tell apart"
    if not old or not new:
        return f"{'fewer' if not new else 'more'} losses: none was seen {'now' if not new else 'before'}"
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


def _same_arrays(before: tuple[FleetChoice, LossFigures], after: tuple[FleetChoice, LossFigures]) -> bool:
    one, other = before[1].losses_per_array_year, after[1].losses_per_array_year
    return (one.value, one.low, one.high) == (other.value, other.low, other.high)


def _range(low: str, high: str) -> str:
    return f" ({low} to {high})" if low != high else ""


def _times(ratio: float) -> str:
    return f"{float(f'{ratio:.2g}'):,.0f}" if ratio >= 10 else f"{ratio:.2g}"


def _share(part: float) -> str:
    return f"{100 * part:.2g}" if part < 0.995 else f"{100 * part:.0f}"


def loss_rows(choice: FleetChoice, known: Sequence[tuple[FleetChoice, LossFigures | None]]) -> tuple[IntervalRow, ...]:
    """The rows of the chart: one per scrub interval, from never to the shortest; no figure if not yet computed."""
    by_hours = {each.scrub_hours: (each, found) for each, found in known}
    now = by_hours.get(choice.scrub_hours, (choice, None))[1]
    rows = []
    for hours, (_, short) in SCRUBS.items():
        if hours not in by_hours:
            continue
        each, found = by_hours[hours]
        is_now = hours == choice.scrub_hours
        if found is None:
            rows.append(IntervalRow(short, None, 0.0, 0.0, "", is_now=is_now))
            continue
        value, low, high = fleet_losses(each, found)
        rows.append(
            IntervalRow(
                short, value, low, high, _number(value, 2), is_now=is_now, tone=_tone((choice, now), (each, found))
            )
        )
    return tuple(rows)


def _tone(now: tuple[FleetChoice, LossFigures | None], other: tuple[FleetChoice, LossFigures]) -> Tone:
    """GOOD for fewer losses than now, BAD for more, QUIET if the intervals overlap or the figures are missing."""
    if now[1] is None:
        return Tone.QUIET
    _, low, high = fleet_losses(now[0], now[1])
    _, other_low, other_high = fleet_losses(*other)
    if other_low <= high and low <= other_high:
        return Tone.QUIET
    return Tone.GOOD if other_high < low else Tone.BAD


def counted_words(found: LossFigures) -> str:
    """The simulated events, as a sentence: ``A failed drive is replaced after 24 h, rebuilt in 48 h; nobody errs.``."""
    return f"{found.counted[:1].upper()}{found.counted[1:]}." if found.counted else ""


def mttdl_words(found: LossFigures) -> str:
    """The MTTDL with its formula, and the simulated losses relative to it, with the reason for the difference."""
    by_hand = f": {found.mttdl_by_hand.partition(' = ')[0]}" if found.mttdl_by_hand else ""
    return (
        f"{_year_words(found.mttdl_years)}{by_hand}. A mean over endless time that knows no bad sectors, "
        f"and so no scrubs. Here: {_against_mttdl(found)}."
    )


def _against_mttdl(found: LossFigures) -> str:
    if not found.losses_per_array_year.value:
        return f"none seen, fewer than {_times(found.losses_per_array_year.high * found.mttdl_years)} times its losses"
    times = found.losses_to_mttdl
    return (
        f"{_times(times)} times as many losses as it promises" if times >= 1 else f"{100 * times:.0f} % of its losses"
    )


def _year_words(years: float) -> str:
    for size, word in ((1e9, "billion"), (1e6, "million")):
        if years >= size:
            return f"{years / size:,.3g} {word} years"
    return f"{float(f'{years:.3g}'):,.0f} years"


def _percent_text(estimate: Interval, digits: int) -> str:
    value, low, high = (_number(100 * each, digits) for each in (estimate.value, estimate.low, estimate.high))
    return f"{value} % [{low}–{high}]" if estimate.value else f"less than {high} %"


def _number(value: float, digits: int) -> str:
    """A number with ``digits`` significant digits, such as ``0.0343`` or ``1.21e-5``."""
    if 0 < value < _LEAST_DECIMAL:
        return f"{value:.{digits - 1}e}".replace("e-0", "e-")
    return f"{value:.{digits}g}"


def _nines_text(found: LossFigures) -> str:
    nines = found.nines_per_array_year
    if not found.losses_per_array_year.value:
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


KEPT_FIGURES = 1000


class Fleets:
    """Computes the losses of fleets, one fleet at a time; the newest request replaces the one before."""

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend
        self.rates: tuple[ChosenRebuild, ...] | None = None
        """Rebuild rates of stored results; None: not read yet."""
        self._known: dict[FleetChoice, LossFigures | LabError] = {}
        self._wanted: tuple[FleetChoice, ...] = ()
        self._is_busy = False

    def want(self, choices: Iterable[FleetChoice]) -> None:
        """Compute these fleets in this order; earlier requests that have not started are dropped."""
        self._wanted = tuple(choices)
        self._go_on()

    def figures(self, choice: FleetChoice) -> LossFigures | LabError | None:
        """The losses of a fleet, or the error of the computation; None: not yet computed."""
        return self._known.get(choice)

    def look_for_rates(self) -> None:
        """Read the rebuild rates of the stored results, on the first call only."""
        if self.rates is None:
            self.rates = ()
            store = _result_store(self._frontend)
            self._frontend.beside(
                "rebuilds", partial(_measured, store), on_done=self._keep_rates, on_error=lambda _: None
            )

    def _keep_rates(self, rates: tuple[ChosenRebuild, ...]) -> None:
        self.rates = rates

    def _go_on(self) -> None:
        choice = next((each for each in self._wanted if each not in self._known), None)
        if choice is None or self._is_busy:
            return
        self._is_busy = True
        keep = partial(self._keep, choice)
        self._frontend.beside("fleet", partial(_reckoned, choice), on_done=keep, on_error=keep)

    def _keep(self, choice: FleetChoice, found: LossFigures | LabError) -> None:
        self._is_busy = False
        self._known[choice] = found
        while len(self._known) > KEPT_FIGURES:
            del self._known[next(iter(self._known))]
        self._go_on()


def _reckoned(choice: FleetChoice) -> LossFigures:
    """Compute the losses, on a thread of its own. Raises LabError, also if the plugin is missing."""
    from lab.plugins import extension
    from lab.theory.extension import FleetLosses

    losses = extension(FleetLosses)
    if losses is None:
        raise LabError("this raidlab has no plugin that simulates fleets", hint="install the whole of it")
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


def _result_store(frontend: Frontend) -> ResultStore:
    from lab.results.store import ResultStore

    return ResultStore(frontend.client.host.state.results)


def _measured(store: ResultStore) -> tuple[ChosenRebuild, ...]:
    """The newest rebuild rate of each array, load and experiment."""
    from lab.results.store import measured_rebuilds

    found: dict[str, ChosenRebuild] = {}
    for each in measured_rebuilds(store):
        under = f" under {each.under_workload}" if each.under_workload else ""
        label = f"{each.array}{under}, {each.experiment}"
        found.setdefault(label, ChosenRebuild(label, each.bytes_per_second))
    return tuple(found.values())
