"""Figures with their intervals as bars, and ratios with theirs beside a line at 1: results to be read at a glance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.style import Style

from tui.tones import Tone, tone_css
from tui.widgets.lines import Line, RowsWidget, shorten

_LEAST_PLOT_CELLS = 10
_RATIO_SPAN = 4.0
"""Ratios from 1/4 to 4 are drawn to scale; what lies beyond stands at the edge."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One figure."""

    label: str
    value: float
    low: float
    high: float
    text: str
    """The value with its unit, as it is read."""
    colour: int = 0
    """0 or 1: reads or writes."""
    expected: float | None = None
    """What theory said."""
    group: str = ""
    """Heading over the bars that share it; its bars share a scale."""


class BarChart(RowsWidget[Bar]):
    """Horizontal bars; the interval is the lighter part at the end, theory a mark of its own."""

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
class RatioRow:
    """Second to first, of one figure."""

    label: str
    ratio: float | None
    low: float
    high: float
    text: str
    """The ratio with its interval and the verdict, as it is read."""
    tone: Tone = Tone.QUIET


class RatioChart(RowsWidget[RatioRow]):
    """Ratios on a logarithmic axis around 1; an interval that crosses the line tells no difference."""

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

    def _row_cells(self, row: RatioRow, plot: int) -> list[tuple[str, Style]]:
        axis, tone = self.style("axis"), self.style(row.tone.value)
        cells = [(" ", axis)] * plot
        cells[_place(1.0, plot)] = (self.glyphs.vertical, axis)
        if row.ratio is None:
            return cells
        for column in range(_place(row.low, plot), _place(row.high, plot) + 1):
            cells[column] = (self.glyphs.horizontal, tone)
        cells[_place(row.ratio, plot)] = (self.glyphs.member, tone)
        return cells


def _columns(rows: Sequence[tuple[str, str]], width: int) -> tuple[int, int]:
    """Cells for the labels and for the plot between label and text; 0 for a plot that would say nothing."""
    longest = max((cell_len(label) for label, _ in rows), default=0)
    texts = max((cell_len(text) for _, text in rows), default=0)
    labels = min(longest, width * 2 // 5)
    plot = width - labels - texts - 2
    if plot >= _LEAST_PLOT_CELLS:
        return labels, plot
    return min(longest, max(0, width - texts - 1)), 0


def _place(ratio: float, plot: int) -> int:
    """The column of a ratio."""
    bounded = min(_RATIO_SPAN, max(1 / _RATIO_SPAN, ratio))
    part = (math.log(bounded) / math.log(_RATIO_SPAN) + 1) / 2
    return round(part * (plot - 1))


def _axis_text(plot: int) -> str:
    """Labels under the ratios that they stand for, as far as they fit."""
    cells = [" "] * plot
    for ratio, label in ((0.25, "¼"), (0.5, "½"), (1.0, "1"), (2.0, "2"), (4.0, "4×")):
        at = min(_place(ratio, plot), plot - len(label))
        cells[at : at + len(label)] = label
    return "".join(cells)
