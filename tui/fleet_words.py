"""What a fleet loses, in words and figures: every one with its interval. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from lab.units import human_bytes
from tui.fleet import SCRUBS, FleetChoice, change_words
from tui.tones import Tone
from tui.widgets.bars import Share
from tui.widgets.interval_charts import IntervalRow

if TYPE_CHECKING:
    from lab.theory.losses import Interval, LossFigures

_FROM_TWICE = 2.0
"""From so much on a change is told in times, below it in per cent."""
_WHOLE_BYTES = 100.0
_LEAST_DECIMAL = 1e-3


LABEL_CELLS = 19
_CAUSES = {"failures": "failed drives", "sectors": "bad sectors"}


def figure_lines(choice: FleetChoice, found: LossFigures, width: int) -> tuple[tuple[str, str], ...]:
    """Label and figure of each line, with as many digits as fit into so many cells."""
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
    """Where the losses come from; people are no part of it here."""
    return tuple(Share(word, found.cause_losses.get(cause, 0.0)) for cause, word in _CAUSES.items())


def _seldom_lines(found: LossFigures) -> tuple[tuple[str, str], ...]:
    """Causes that were hardly seen beside others; where no loss was seen at all, every figure is a bound anyway."""
    if not found.losses_per_array_year.value:
        return ()
    return tuple(
        (f"by {_CAUSES[cause]}", f"{'few' if each.value else 'none'} seen, at most {_bytes(each.high)}")
        for cause, each in found.seldom.items()
        if cause in _CAUSES
    )


def fleet_losses(choice: FleetChoice, found: LossFigures) -> tuple[float, float, float]:
    """Losses that the fleet is expected to have in all its years, and the interval's ends."""
    of_all, each = choice.arrays * choice.years, found.losses_per_array_year
    return each.value * of_all, each.low * of_all, each.high * of_all


def compared(key: str, before: tuple[FleetChoice, LossFigures], after: tuple[FleetChoice, LossFigures]) -> str:
    """Such as ``Scrubbing every 2 weeks instead of never: 40 times fewer losses (35 to 46).``, as a sentence."""
    words = change_words(key, before[0], after[0])
    return f"{words[0].upper()}{words[1:]}: {_difference(before, after)}."


def _difference(before: tuple[FleetChoice, LossFigures], after: tuple[FleetChoice, LossFigures]) -> str:
    """Of two figures that their intervals do not tell apart, none is called the larger."""
    old, old_low, old_high = fleet_losses(*before)
    new, new_low, new_high = fleet_losses(*after)
    if _same_arrays(before, after):
        # The same arrays, more of them or for longer: nothing of the difference is chance.
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
    """The chart: a row for each interval, from never to the shortest; those not known yet have no figure."""
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
    """Fewer or more losses than now, as far as the intervals tell."""
    if now[1] is None:
        return Tone.QUIET
    _, low, high = fleet_losses(now[0], now[1])
    _, other_low, other_high = fleet_losses(*other)
    if other_low <= high and low <= other_high:
        return Tone.QUIET
    return Tone.GOOD if other_high < low else Tone.BAD


def counted_words(found: LossFigures) -> str:
    """What is counted, as a sentence: ``A failed drive is replaced after 24 h, rebuilt in 48 h; nobody errs.``."""
    return f"{found.counted[:1].upper()}{found.counted[1:]}." if found.counted else ""


def mttdl_words(found: LossFigures) -> str:
    """The usual figure with its formula, and why it is not the one to go by."""
    by_hand = f": {found.mttdl_by_hand.partition(' = ')[0]}" if found.mttdl_by_hand else ""
    return (
        f"{_years(found.mttdl_years)}{by_hand}. A mean over endless time that knows no bad sectors, and so no scrubs. "
        f"Here: {_against_mttdl(found)}."
    )


def _against_mttdl(found: LossFigures) -> str:
    if not found.losses_per_array_year.value:
        return f"none seen, fewer than {_times(found.losses_per_array_year.high * found.mttdl_years)} times its losses"
    times = found.losses_to_mttdl
    return (
        f"{_times(times)} times as many losses as it promises" if times >= 1 else f"{100 * times:.0f} % of its losses"
    )


def _years(years: float) -> str:
    for size, word in ((1e9, "billion"), (1e6, "million")):
        if years >= size:
            return f"{years / size:,.3g} {word} years"
    return f"{float(f'{years:.3g}'):,.0f} years"


def _percent_text(estimate: Interval, digits: int) -> str:
    value, low, high = (_number(100 * each, digits) for each in (estimate.value, estimate.low, estimate.high))
    return f"{value} % [{low}–{high}]" if estimate.value else f"less than {high} %"


def _number(value: float, digits: int) -> str:
    """``0.0343``, ``1.21e-5``."""
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
