"""Charts of figures with their intervals: bars, ratios relative to a line at 1, and losses by scrub interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style

from tui.look import Tone, tone_css
from tui.quantities import Scale, log_scale
from tui.widgets.lines import Line, RowsWidget, shorten

_LEAST_PLOT_CELLS = 10
_RATIOS = Scale(0.25, 4.0, is_log=True)
"""The axis of ratios; ratios beyond it are drawn at its ends."""
_NOW = "now"
_LEAST_LOSS_CELLS = 8


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure with its interval, and the prediction."""

    label: str
    value: float
    low: float
    high: float
    text: str
    """The value with its unit, as text."""
    colour: int = 0
    """Number of the colour: 0 for reads, 1 for writes."""
    expected: float | None = None
    """The prediction of the theory; None: there is none."""
    group: str = ""
    """The heading of a group of bars, which share a scale."""


class BarChart(RowsWidget[Bar]):
    """Horizontal bars; the interval is the lighter part at the end, and a mark shows the prediction."""

    PREFIX = "bar-chart"
    DEFAULT_CSS = """
    BarChart {
        height: auto;
        & > .bar-chart--group { color: $foreground; text-style: bold; }
        & > .bar-chart--label { color: $foreground-muted; }
        & > .bar-chart--text { color: $foreground; }
        & > .bar-chart--bar-0 { color: $text-primary; }
        & > .bar-chart--bar-1 { color: $text-warning; }
        & > .bar-chart--interval-0 { color: $text-primary; }
        & > .bar-chart--interval-1 { color: $text-warning; }
        & > .bar-chart--expected { color: $text-accent; text-style: bold; }
    }
    """

    def lines_needed(self, width: int) -> int:
        groups = list(dict.fromkeys(bar.group for bar in self._rows))
        headings = len([group for group in groups if group])
        return len(self._rows) + headings + max(0, len(groups) - 1)

    def paint(self, width: int, height: int) -> list[Line]:
        lines: list[Line] = []
        label_cells, plot = _columns([(bar.label, bar.text) for bar in self._rows], width)
        for group in dict.fromkeys(bar.group for bar in self._rows):
            if lines:
                lines.append(self.line(width))
            if group:
                lines.append(self.line(width).add(shorten(group, width, self.glyphs.ellipsis), self.style("group")))
            bars = [bar for bar in self._rows if bar.group == group]
            top = max(max(bar.high, bar.expected or 0.0) for bar in bars) or 1.0
            lines += [self._bar_line(bar, top, width, label_cells, plot) for bar in bars]
        return lines

    def _bar_line(self, bar: Bar, top: float, width: int, label_cells: int, plot: int) -> Line:
        label = shorten(bar.label, label_cells, self.glyphs.ellipsis).ljust(label_cells)
        line = self.line(width).add(label, self.style("label")).add(" ")
        for sign, style in self._bar_cells(bar, top, plot) if plot else ():
            line.add(sign, style)
        return line.add_right(bar.text, self.style("text"))

    def _bar_cells(self, bar: Bar, top: float, plot: int) -> list[tuple[str, Style]]:
        low, high = round(bar.low / top * plot), round(bar.high / top * plot)
        solid, loose = self.style(f"bar-{bar.colour % 2}"), self.style(f"interval-{bar.colour % 2}")
        cells = [(self.glyphs.bar_full, solid)] * low + [(self.glyphs.bar_loose, loose)] * (high - low)
        if bar.value > 0 and not cells:
            cells = [(self.glyphs.bar_loose, loose)]
        cells += [(" ", loose)] * (plot - len(cells))
        if bar.expected is not None:
            at = min(plot - 1, max(0, round(bar.expected / top * plot) - 1))
            cells[at] = (self.glyphs.expected, self.style("expected"))
        return cells[:plot]


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """A ratio or another figure, with its interval."""

    label: str
    value: float | None
    """None: there is no figure, or it is not yet computed."""
    low: float
    high: float
    text: str
    """The text at the right: the figure, possibly with its interval and the verdict."""
    tone: Tone = Tone.QUIET
    is_now: bool = False
    """Whether it is the current one, with which the others are compared."""


class IntervalChart(RowsWidget[IntervalRow]):
    """A point with its interval in each row, on one logarithmic axis."""

    def interval(self, row: IntervalRow, scale: Scale, cells: list[tuple[str, Style]]) -> None:
        """Draw the figure and the interval of a row into ``cells``."""
        if row.value is None:
            return
        tone = self.style(row.tone.value)
        first, at, last = (round(scale.place(each) * (len(cells) - 1)) for each in (row.low, row.value, row.high))
        cells[first : last + 1] = [(self.glyphs.horizontal, tone)] * (last + 1 - first)
        cells[at] = (self.glyphs.member, tone)


class RatioChart(IntervalChart):
    """Ratios on a logarithmic axis around 1; an interval that crosses the line shows no difference."""

    PREFIX = "ratio-chart"
    DEFAULT_CSS = """
    RatioChart {
        height: auto;
        & > .ratio-chart--label { color: $foreground-muted; }
        & > .ratio-chart--axis { color: $foreground 35%; }
    """ + tone_css("ratio-chart", quiet="$foreground") + "}"  # fmt: skip

    def paint(self, width: int, height: int) -> list[Line]:
        if not self._rows:
            return []
        label_cells, plot = _columns([(row.label, row.text) for row in self._rows], width)
        lines = []
        for row in self._rows:
            label = shorten(row.label, label_cells, self.glyphs.ellipsis).ljust(label_cells)
            line = self.line(width).add(f"{label} ", self.style("label"))
            for sign, style in self._row_cells(row, plot) if plot else ():
                line.add(sign, style)
            lines.append(line.add_right(row.text, self.style(row.tone.value)))
        axis = self.line(width).pad_to(label_cells + 1)
        if plot:
            axis.add(_axis_text(plot), self.style("axis"))
        return [*lines, axis]

    def _row_cells(self, row: IntervalRow, plot: int) -> list[tuple[str, Style]]:
        axis = self.style("axis")
        cells = [(" ", axis)] * plot
        cells[_place(1.0, plot)] = (self.glyphs.vertical, axis)
        self.interval(row, _RATIOS, cells)
        return cells


class LossChart(IntervalChart):
    """A point with its interval in each row, on a logarithmic axis; one row is the current one.

    If there is no room for all rows, those around the current one are shown.
    """

    PREFIX = "loss-chart"
    HIDES_WHEN_EMPTY = False
    DEFAULT_CSS = """
    LossChart {
        height: auto;
        & > .loss-chart--label { color: $foreground-muted; }
        & > .loss-chart--now { color: $foreground; text-style: bold; }
        & > .loss-chart--axis { color: $foreground 45%; }
        & > .loss-chart--guide { color: $foreground 25%; }
    """ + tone_css("loss-chart", quiet="$foreground") + "}"  # fmt: skip

    most_rows = 8

    def lines_needed(self, width: int) -> int:
        return min(len(self._rows), self.most_rows) + 1 if self._rows else 0

    def paint(self, width: int, height: int) -> list[Line]:
        rows = self._around_now(max(0, height - 1))
        if not rows:
            return []
        labels = max(len(row.label) for row in self._rows) + 3
        texts = max((len(row.text) for row in self._rows), default=0) + len(_NOW) + 2
        plot = width - labels - texts
        # The scale of all rows, so that it does not change while the user moves through them.
        known = [row for row in self._rows if row.value]
        lowest = min((row.low or row.value or 0.0 for row in known), default=0.0)
        scale = log_scale(lowest, max((row.high for row in known), default=0.0))
        lines = [self._row(row, width, labels, plot, scale, bool(known)) for row in rows]
        return [*lines, self._axis(width, labels, plot, scale if known else None)]

    def _around_now(self, count: int) -> tuple[IntervalRow, ...]:
        at = next((index for index, row in enumerate(self._rows) if row.is_now), 0)
        first = max(0, min(at - count // 2, len(self._rows) - count))
        return self._rows[first : first + count]

    def _row(self, row: IntervalRow, width: int, labels: int, plot: int, scale: Scale, has_scale: bool) -> Line:
        sign = self.glyphs.cursor if row.is_now else " "
        line = self.line(width).add(f"{sign} {row.label}".ljust(labels), self.style("now" if row.is_now else "label"))
        if plot >= _LEAST_LOSS_CELLS:
            cells = [(self.glyphs.guide, self.style("guide"))] * plot
            if row.value and has_scale:
                self.interval(row, scale, cells)
            for text, style in cells:
                line.add(text, style)
        text = self.glyphs.ellipsis if row.value is None else row.text if row.value else "none seen"
        line.add(f" {text}", self.style("now" if row.is_now else row.tone.value))
        return line.add(f" {_NOW}", self.style("now")) if row.is_now else line

    def _axis(self, width: int, labels: int, plot: int, scale: Scale | None) -> Line:
        line = self.line(width).pad_to(labels)
        if scale is None or plot < _LEAST_LOSS_CELLS:
            return line
        low, high = (round(math.log10(each)) for each in (scale.low, scale.high))
        left, right = (f"1e{power}" if power < -3 else f"{10.0**power:g}" for power in (low, high))
        return line.add(left, self.style("axis")).pad_to(labels + plot - len(right)).add(right, self.style("axis"))


def _columns(rows: Sequence[tuple[str, str]], width: int) -> tuple[int, int]:
    """(cells for the labels, cells for the plot); 0 for the plot if it would be too narrow."""
    longest = max((cell_len(label) for label, _ in rows), default=0)
    texts = max((cell_len(text) for _, text in rows), default=0)
    labels = min(longest, width * 2 // 5)
    plot = width - labels - texts - 2
    if plot >= _LEAST_PLOT_CELLS:
        return labels, plot
    return min(longest, max(0, width - texts - 1)), 0


def _place(ratio: float, plot: int) -> int:
    """The column of a ratio in a plot."""
    return round(_RATIOS.place(ratio) * (plot - 1))


def _axis_text(plot: int) -> str:
    """The labels of the axis, each below its ratio as far as it fits."""
    cells = [" "] * plot
    for ratio, label in ((0.25, "¼"), (0.5, "½"), (1.0, "1"), (2.0, "2"), (4.0, "4×")):
        at = min(_place(ratio, plot), plot - len(label))
        cells[at : at + len(label)] = label
    return "".join(cells)
