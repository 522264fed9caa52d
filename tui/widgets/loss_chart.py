"""What a fleet loses, as charts of lines: by cause, and against the interval between scrubs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tui.quantities import Scale, log_scale
from tui.tones import Tone, tone_css
from tui.widgets.bars import bar
from tui.widgets.lines import Line, RowsWidget

_NOW = "now"
_LEAST_PLOT_CELLS = 8


@dataclass(frozen=True, slots=True)
class LossShare:
    """A part of a whole."""

    label: str
    fraction: float
    """0 to 1."""


class ShareBars(RowsWidget[LossShare]):
    """Parts of one whole below each other."""

    PREFIX = "share-bars"
    DEFAULT_CSS = """
    ShareBars {
        height: auto;
        & > .share-bars--label { color: $foreground-muted; }
        & > .share-bars--full { color: $text-warning; }
        & > .share-bars--empty { color: $foreground 20%; }
        & > .share-bars--text { color: $foreground; }
    }
    """

    def lines_needed(self, width: int) -> int:
        return len(self._rows)

    def paint(self, width: int, height: int) -> list[Line]:
        labels = max((len(row.label) for row in self._rows), default=0)
        lines = []
        for row in self._rows:
            text = f"{100 * row.fraction:5.1f} %"
            line = self.line(width).add(row.label.ljust(labels + 1), self.style("label"))
            full, empty = bar(row.fraction, max(0, line.room - len(text) - 1), self.glyphs)
            line.add(full, self.style("full")).add(empty, self.style("empty"))
            lines.append(line.add_right(text, self.style("text")))
        return lines


@dataclass(frozen=True, slots=True)
class LossRow:
    """Losses at one interval between scrubs."""

    label: str
    value: float | None
    """None: it is being reckoned."""
    low: float
    high: float
    text: str
    is_now: bool = False
    tone: Tone = Tone.QUIET
    """Beside now: fewer losses, more, or no difference that is told apart."""


class LossChart(RowsWidget[LossRow]):
    """A point with its interval in each row, on a logarithmic axis; one row is that of now.

    Where there is no room for all rows, those around now are shown.
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
        # Of all rows, so that it stays as it is while somebody walks through them.
        known = [row for row in self._rows if row.value]
        lowest = min((row.low or row.value or 0.0 for row in known), default=0.0)
        scale = log_scale(lowest, max((row.high for row in known), default=0.0))
        lines = [self._row(row, width, labels, plot, scale, bool(known)) for row in rows]
        return [*lines, self._axis(width, labels, plot, scale if known else None)]

    def _around_now(self, count: int) -> tuple[LossRow, ...]:
        at = next((index for index, row in enumerate(self._rows) if row.is_now), 0)
        first = max(0, min(at - count // 2, len(self._rows) - count))
        return self._rows[first : first + count]

    def _row(self, row: LossRow, width: int, labels: int, plot: int, scale: Scale, has_scale: bool) -> Line:
        sign = self.glyphs.cursor if row.is_now else " "
        line = self.line(width).add(f"{sign} {row.label}".ljust(labels), self.style("now" if row.is_now else "label"))
        if plot >= _LEAST_PLOT_CELLS:
            cells = [(self.glyphs.guide, self.style("guide"))] * plot
            if row.value and has_scale:
                style = self.style(row.tone.value)
                first, at, last = (round(scale.place(each) * (plot - 1)) for each in (row.low, row.value, row.high))
                cells[first : last + 1] = [(self.glyphs.horizontal, style)] * (last + 1 - first)
                cells[at] = (self.glyphs.member, style)
            for text, style in cells:
                line.add(text, style)
        text = self.glyphs.ellipsis if row.value is None else row.text if row.value else "none seen"
        line.add(f" {text}", self.style("now" if row.is_now else row.tone.value))
        return line.add(f" {_NOW}", self.style("now")) if row.is_now else line

    def _axis(self, width: int, labels: int, plot: int, scale: Scale | None) -> Line:
        line = self.line(width).pad_to(labels)
        if scale is None or plot < _LEAST_PLOT_CELLS:
            return line
        low, high = (round(math.log10(each)) for each in (scale.low, scale.high))
        left, right = (f"1e{power}" if power < -3 else f"{10.0**power:g}" for power in (low, high))
        return line.add(left, self.style("axis")).pad_to(labels + plot - len(right)).add(right, self.style("axis"))
