"""Charts of values: over time, and as bars or points with their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.style import Style

from tui.look import Canvas, Tone, tone_css
from tui.quantities import Scale, Unit, format_seconds, format_value, linear_scale, log_scale, ticks
from tui.widgets.lines import Line, LineWidget, RowsWidget, shorten

_BRAILLE_BASE = 0x2800
_BRAILLE_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bit of each dot by row and column (Unicode, Braille Patterns)."""

_CELLS = {Canvas.BRAILLE: (2, 4), Canvas.ASCII: (1, 2)}
_ASCII_SIGNS = " '.:"


@dataclass(slots=True)
class DotCanvas:
    """``columns`` × ``rows`` cells. Dots count from the top left; the owner of a cell is the last to draw in it."""

    columns: int
    rows: int
    kind: Canvas
    _bits: list[list[int]] = field(init=False)
    _owners: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self._bits = [[0] * self.columns for _ in range(self.rows)]
        self._owners = [[-1] * self.columns for _ in range(self.rows)]

    @property
    def dot_columns(self) -> int:
        return self.columns * _CELLS[self.kind][0]

    @property
    def dot_rows(self) -> int:
        return self.rows * _CELLS[self.kind][1]

    def vertical(self, dot_column: int, first: int, last: int, owner: int) -> None:
        """Set the dots of one column between two rows, both included; dots outside the canvas are ignored."""
        across, down = _CELLS[self.kind]
        if not 0 <= dot_column < self.dot_columns:
            return
        column, x = divmod(dot_column, across)
        top, bottom = max(0, min(first, last)), min(self.dot_rows - 1, max(first, last))
        for dot_row in range(top, bottom + 1):
            row, y = divmod(dot_row, down)
            bit = _BRAILLE_DOTS[y][x] if self.kind is Canvas.BRAILLE else 1 << y
            self._bits[row][column] |= bit
            self._owners[row][column] = owner

    def line(self, start: tuple[int, int], end: tuple[int, int], owner: int) -> None:
        """Draw a line between two dots, (column, row) each; ``start`` must not be to the right of ``end``."""
        (x0, y0), (x1, y1) = start, end
        if x1 <= x0:
            self.vertical(x0, y0, y1, owner)
            return
        previous = y0
        for x in range(max(x0, 0), min(x1, self.dot_columns - 1) + 1):
            y = round(y0 + (y1 - y0) * (x - x0) / (x1 - x0))
            # Start next to the last dot of the previous column, so that a steep line has no gaps.
            step = 1 if y > previous else -1
            self.vertical(x, previous + step if y != previous and x != x0 else y, y, owner)
            previous = y

    def sign(self, row: int, column: int) -> str:
        """The character of a cell; a blank if nothing was drawn in it."""
        bits = self._bits[row][column]
        if not bits:
            return " "
        return chr(_BRAILLE_BASE | bits) if self.kind is Canvas.BRAILLE else _ASCII_SIGNS[bits]

    def owner(self, row: int, column: int) -> int:
        """The owner of a cell: the ``owner`` of the last drawing in it; -1 if nothing was drawn."""
        return self._owners[row][column]


SERIES_COLOURS = 6
_LABELLED_MARKS_FROM_ROWS = 6
_GUIDES_FROM_ROWS = 4
_CELLS_PER_TIME_LABEL = 14


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a chart."""

    name: str
    points: Sequence[tuple[float, float | None]]
    """(time in seconds, value), in order of time; None for the value is a gap."""
    colour: int = 0
    """Number of a colour of the theme, 0 to 5."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An event on the time axis."""

    time_seconds: float
    label: str
    tone: Tone = Tone.NOTICE


@dataclass(frozen=True, slots=True)
class _Cell:
    sign: str
    style: str


@dataclass(slots=True)
class _Plot:
    """The cells of the plot area."""

    columns: int
    rows: int
    cells: dict[tuple[int, int], _Cell] = field(default_factory=dict)

    def put(self, row: int, column: int, sign: str, style: str) -> None:
        """Draw into a cell, unless something was drawn in it before."""
        self.cells.setdefault((row, column), _Cell(sign, style))

    def write(self, row: int, column: int, text: str, style: str) -> None:
        for offset, sign in enumerate(text):
            self.put(row, column + offset, sign, style)

    def is_free(self, row: int, first: int, last: int) -> bool:
        return all((row, column) not in self.cells for column in range(first, last))

    def runs(self, row: int) -> Iterator[tuple[str, str]]:
        """(text, style) for each run of a row with one style; a blank has the style of the cell before it."""
        text, style = "", ""
        for column in range(self.columns):
            cell = self.cells.get((row, column))
            sign, new_style = (cell.sign, cell.style) if cell else (" ", style)
            if new_style != style and text:
                yield text, style
                text = ""
            text, style = text + sign, new_style
        yield text, style


class TimeChart(LineWidget):
    """Values over time. It changes only when ``show`` is called, which should be at most four times a second."""

    PREFIX = "time-chart"
    DEFAULT_CSS = """
    TimeChart {
        height: 1fr;
        min-height: 4;
        & > .time-chart--title { color: $foreground; text-style: bold; }
        & > .time-chart--axis { color: $foreground-muted; }
        & > .time-chart--guide { color: $foreground 18%; }
        & > .time-chart--legend { color: $foreground-muted; }
        & > .time-chart--empty { color: $foreground-muted; text-style: italic; }
        & > .time-chart--series-0 { color: $text-primary; }
        & > .time-chart--series-1 { color: $text-warning; }
        & > .time-chart--series-2 { color: $text-success; }
        & > .time-chart--series-3 { color: $text-error; }
        & > .time-chart--series-4 { color: $text-accent; }
        & > .time-chart--series-5 { color: $text-secondary; }
    """ + tone_css("time-chart") + "}"  # fmt: skip

    def __init__(
        self,
        title: str,
        unit: Unit,
        *,
        window_seconds: float = 60.0,
        is_log: bool = False,
        filled: bool = False,
        minimum_top: float | None = None,
        empty_text: str = "nothing measured yet",
        id: str | None = None,  # noqa: A002 (textual's name)
    ) -> None:
        """Create an empty chart.

        ``is_log`` is for latencies. ``filled`` draws areas, and suits one series. ``minimum_top`` is the minimum upper
        end of a linear axis, so that small noise is not enlarged.
        """
        super().__init__(id=id)
        self.title = title
        self.unit = unit
        self.filled = filled
        self.minimum_top = minimum_top
        self.empty_text = empty_text
        self.is_log = is_log
        self.window_seconds = window_seconds
        self._series: tuple[Series, ...] = ()
        self._marks: tuple[Mark, ...] = ()
        self._now_seconds: float | None = None

    def show(self, series: Sequence[Series], marks: Sequence[Mark] = (), now_seconds: float | None = None) -> None:
        """Draw these series. ``now_seconds`` is the right end of the axis; by default the time of the newest point."""
        shown = (tuple(series), tuple(marks), now_seconds)
        if shown != (self._series, self._marks, self._now_seconds):
            self._series, self._marks, self._now_seconds = shown
            self.changed_somewhere()

    def lines_needed(self, width: int) -> int:
        return 8

    @property
    def _end_seconds(self) -> float:
        if self._now_seconds is not None:
            return self._now_seconds
        ends = [series.points[-1][0] for series in self._series if series.points]
        return max(ends, default=0.0)

    def _scale(self, first_seconds: float) -> Scale:
        shown = [
            value
            for series in self._series
            for time_seconds, value in series.points
            if value is not None and time_seconds >= first_seconds
        ]
        if self.is_log:
            positive = [value for value in shown if value > 0]
            return log_scale(min(positive, default=0.0), max(positive, default=0.0))
        return linear_scale(max(shown, default=0.0), self.unit, minimum_top=self.minimum_top)

    def paint(self, width: int, height: int) -> list[Line]:
        rows = height - 2
        if rows < 1:
            return [self._header(width)]
        first = self._end_seconds - self.window_seconds
        scale = self._scale(first)
        has_points = any(value is not None for series in self._series for _, value in series.points)
        labels = {
            rows - 1 - round(scale.place(value) * (rows - 1)): label
            for value, label in (ticks(scale, self.unit, max(2, (rows + 1) // 2)) if has_points else ())
        }
        gutter = max((cell_len(label) for label in labels.values()), default=1)
        columns = width - gutter - 2
        if columns < 8:
            return [self._header(width)]
        plot = _Plot(columns, rows)
        if has_points:
            self._draw_series(plot, scale)
        else:
            text = shorten(self.empty_text, columns, self.glyphs.ellipsis)
            plot.write((rows - 1) // 2, (columns - len(text)) // 2, text, "empty")
        self._draw_marks(plot)
        if rows >= _GUIDES_FROM_ROWS:
            self._draw_guides(plot, labels)
        lines = [self._header(width)]
        for row in range(rows):
            label, axis = labels.get(row, ""), self.style("axis")
            line = self.line(width).add(label.rjust(gutter) + " ", axis)
            line.add(self.glyphs.axis_left if label else self.glyphs.vertical, axis)
            for text, style in plot.runs(row):
                line.add(text, self.style(style) if style else None)
            lines.append(line)
        return [*lines, self._time_axis(width, gutter, columns)]

    def _header(self, width: int) -> Line:
        """The title and the legend; if there is little room, the values are omitted first, then the last names."""
        title = self.line(width).add(self.title, self.style("title"))
        newest = [(series, _newest(series)) for series in self._series]
        for with_values in (True, False):
            for count in range(len(newest), 0, -1):
                if not with_values or count == len(newest):
                    legend = self._legend(newest[:count], with_values, width)
                    if title.length + 2 + legend.length <= width:
                        return title.pad_to(width - legend.length).extend(legend)
        return title

    def _legend(self, newest: Sequence[tuple[Series, float | None]], with_values: bool, width: int) -> Line:
        legend = self.line(width + 1)
        for series, value in newest:
            legend.add("  " if legend.length else "")
            legend.add(f"{self.glyphs.legend} ", self.style(f"series-{series.colour % SERIES_COLOURS}"))
            blank = " " if with_values and series.name else ""
            legend.add(f"{series.name}{blank}", self.style("legend"))
            if with_values:
                # A fixed width for most values, so that the legend does not move.
                legend.add(format_value(value, self.unit).rjust(5), self.style("title"))
        return legend

    def _first_second(self, dot_columns: int) -> tuple[float, float]:
        """(time of the first dot column, seconds per column).

        The time is a whole number of columns: otherwise a point would be rounded to another dot at each redraw, and the
        chart would flicker.
        """
        pace = self.window_seconds / max(1, dot_columns - 1)
        return round(self._end_seconds / pace) * pace - self.window_seconds, pace

    def _draw_series(self, plot: _Plot, scale: Scale) -> None:
        canvas = DotCanvas(plot.columns, plot.rows, self.glyphs.canvas)
        first, pace = self._first_second(canvas.dot_columns)
        bottom = canvas.dot_rows - 1
        # Draw the first series last, so that it is on top.
        for owner in reversed(range(len(self._series))):
            before: tuple[int, int] | None = None
            for time_seconds, value in self._series[owner].points:
                if value is None or (self.is_log and value <= 0):
                    before = None
                    continue
                dot = round((time_seconds - first) / pace), bottom - round(scale.place(value) * bottom)
                if dot[0] >= 0:
                    canvas.line(before or dot, dot, owner)
                    if self.filled:
                        for column in range(before[0] if before else dot[0], dot[0] + 1):
                            canvas.vertical(column, dot[1], bottom, owner)
                before = dot
        for row in range(plot.rows):
            for column in range(plot.columns):
                owner = canvas.owner(row, column)
                if owner >= 0:
                    colour = self._series[owner].colour % SERIES_COLOURS
                    plot.put(row, column, canvas.sign(row, column), f"series-{colour}")

    def _mark_columns(self, columns: int) -> list[tuple[int, Mark]]:
        first, pace = self._first_second(columns)
        placed = [(round((mark.time_seconds - first) / pace), mark) for mark in self._marks]
        return [(column, mark) for column, mark in placed if 0 <= column < columns]

    def _draw_marks(self, plot: _Plot) -> None:
        placed = self._mark_columns(plot.columns)
        if plot.rows >= _LABELLED_MARKS_FROM_ROWS:
            for column, mark in placed:
                self._draw_label(plot, column, mark, {other for other, _ in placed})
        for column, mark in placed:
            for row in range(plot.rows):
                plot.put(row, column, self.glyphs.mark_line, mark.tone.value)

    def _draw_label(self, plot: _Plot, column: int, mark: Mark, lines: set[int]) -> None:
        """Draw the label next to the line of its mark, in the upper half, if it covers no data and no other mark."""
        for row in range(plot.rows // 2):
            for start in (column + 1, column - cell_len(mark.label)):
                end = start + cell_len(mark.label)
                is_inside = start >= 0 and end <= plot.columns
                if is_inside and plot.is_free(row, start - 1, end + 1) and not lines & set(range(start, end)):
                    plot.write(row, start, mark.label, mark.tone.value)
                    return

    def _draw_guides(self, plot: _Plot, labels: dict[int, str]) -> None:
        for row in labels:
            if row < plot.rows - 1:
                plot.write(row, 0, self.glyphs.guide * plot.columns, "guide")

    def _time_axis(self, width: int, gutter: int, columns: int) -> Line:
        """The time axis, with its labels and the characters of the marks."""
        cells = [_Cell(self.glyphs.horizontal, "axis")] * columns
        marked = self._mark_columns(columns)
        count = max(1, min(6, columns // _CELLS_PER_TIME_LABEL))
        for part in range(count + 1):
            label = f" {self._time_label(part / count)}" + ("" if part == count else " ")
            centre = round(part / count * (columns - 1)) - cell_len(label) // 2
            at = min(max(0, centre), columns - cell_len(label))
            if any(at <= column < at + cell_len(label) for column, _ in marked):
                continue
            cells[at : at + len(label)] = [_Cell(sign, "axis") for sign in label]
        for column, mark in marked:
            cells[column] = _Cell(mark.tone.glyph(self.glyphs), mark.tone.value)
        line = self.line(width).add(" " * (gutter + 1) + self.glyphs.axis_corner, self.style("axis"))
        for cell in cells:
            line.add(cell.sign, self.style(cell.style))
        return line

    def _time_label(self, part: float) -> str:
        return "now" if part == 1 else f"-{_short_time(self.window_seconds * (1 - part))}"


def _short_time(seconds: float) -> str:
    """A duration without blanks: ``45s``, ``7.5s``, ``2:30``, ``1:40h``."""
    if seconds >= 3600:
        return format_seconds(round(seconds / 60) * 60).replace(" ", "")
    if seconds >= 60 and seconds != 60:
        return f"{int(seconds) // 60}:{round(seconds) % 60:02d}"
    return format_seconds(round(seconds, 1)).replace(" ", "") if seconds < 60 else "60s"


def _newest(series: Series) -> float | None:
    return next((value for _, value in reversed(series.points) if value is not None), None)


_LEAST_PLOT_CELLS = 8


@dataclass(frozen=True, slots=True)
class IntervalRow:
    """A figure with its interval."""

    label: str
    value: float | None
    """None: there is no figure, or it is not yet computed."""
    low: float
    high: float
    text: str
    """The text at the right: the figure with its unit, possibly with its interval and a verdict."""
    tone: Tone = Tone.QUIET
    is_current: bool = False
    """Whether it is the row with which the others are compared."""
    colour: int = 0
    """Number of the colour of a bar, 0 or 1."""
    expected: float | None = None
    """The predicted figure, which has a mark; None: there is none."""
    group: str = ""
    """The heading above the rows of a group."""


@dataclass(frozen=True, slots=True)
class Axis:
    """How an interval chart draws figures."""

    has_bars: bool = False
    """Bars from 0, whose lighter end is the interval; else points on a line that is the interval."""
    scale: Scale | None = None
    """None: bars reach to the highest figure of their group; points lie on whole decades that contain all rows."""
    labels: tuple[tuple[float, str], ...] = ()
    line_at: float | None = None
    """The value at which a vertical line is drawn."""


BARS, SHARES, DECADES = Axis(has_bars=True), Axis(has_bars=True, scale=Scale(0.0, 1.0)), Axis()
RATIOS = Axis(
    scale=Scale(0.25, 4.0, is_log=True),
    labels=((0.25, "¼"), (0.5, "½"), (1.0, "1"), (2.0, "2"), (4.0, "4×")),
    line_at=1.0,
)
"""Ratios beyond the scale are drawn at its ends; an interval that crosses the line at 1 shows no difference."""


class IntervalChart(RowsWidget[IntervalRow]):
    """Figures with their intervals, one in each row: label, plot, text. Without room for a plot, the texts remain.

    If there is no room for all rows, those around the current one are shown.
    """

    PREFIX = "interval-chart"
    DEFAULT_CSS = """
    IntervalChart {
        height: auto;
        & > .interval-chart--group { color: $foreground; text-style: bold; }
        & > .interval-chart--label { color: $foreground-muted; }
        & > .interval-chart--current { color: $foreground; text-style: bold; }
        & > .interval-chart--bar-0 { color: $text-primary; }
        & > .interval-chart--bar-1 { color: $text-warning; }
        & > .interval-chart--expected { color: $text-accent; text-style: bold; }
        & > .interval-chart--axis { color: $foreground 35%; }
    """ + tone_css("interval-chart", quiet="$foreground") + "}"  # fmt: skip

    most_rows: int | None = None
    """The number of rows with ``height: auto``; None: all."""
    _axis = BARS

    def draw(self, rows: Sequence[IntervalRow], axis: Axis) -> None:
        if axis != self._axis:
            self._axis = axis
            self.changed(layout=True)
        self.show(rows)

    def lines_needed(self, width: int) -> int:
        groups = {row.group for row in self._rows}
        headings = len(groups - {""}) + max(0, len(groups) - 1)
        count = len(self._rows) if self.most_rows is None else min(len(self._rows), self.most_rows)
        return count + headings + (count > 0 and not self._axis.has_bars)

    def paint(self, width: int, height: int) -> list[Line]:
        labels, plot = self._columns(width)
        lines: list[Line] = []
        scale = self._axis.scale or self._decades()
        rows = self._rows if self._axis.has_bars else self._around_current(max(0, height - 1))
        for group in dict.fromkeys(row.group for row in rows):
            if group:
                lines += [self.line(width)] if lines else []
                lines.append(self.line(width).add(shorten(group, width, self.glyphs.ellipsis), self.style("group")))
            members = [row for row in rows if row.group == group]
            if self._axis.has_bars and not self._axis.scale:
                scale = Scale(0.0, max(max(row.high, row.expected or 0.0) for row in members) or 1.0)
            lines += [self._row(row, scale, width, labels, plot) for row in members]
        if rows and not self._axis.has_bars:
            lines.append(self._axis_line(scale, width, labels, plot))
        return lines

    def _columns(self, width: int) -> tuple[int, int]:
        """(cells for the labels, cells for the plot); 0 for the plot if it would be too narrow."""
        longest = max((cell_len(row.label) for row in self._rows), default=0) + 2 * self._has_cursor
        texts = max((cell_len(row.text) for row in self._rows), default=0)
        labels = min(longest, width * 2 // 5)
        plot = width - labels - texts - 2
        return (labels, plot) if plot >= _LEAST_PLOT_CELLS else (min(longest, max(0, width - texts - 1)), 0)

    @property
    def _has_cursor(self) -> bool:
        return any(row.is_current for row in self._rows)

    def _decades(self) -> Scale:
        # The scale of all rows, so that it does not change while the user moves through them.
        known = [row for row in self._rows if row.value]
        lowest = min((row.low or row.value or 0.0 for row in known), default=0.0)
        return log_scale(lowest, max((row.high for row in known), default=0.0))

    def _around_current(self, count: int) -> tuple[IntervalRow, ...]:
        at = next((index for index, row in enumerate(self._rows) if row.is_current), 0)
        first = max(0, min(at - count // 2, len(self._rows) - count))
        return self._rows[first : first + count]

    def _row(self, row: IntervalRow, scale: Scale, width: int, labels: int, plot: int) -> Line:
        sign = (f"{self.glyphs.cursor} " if row.is_current else "  ") if self._has_cursor else ""
        label = shorten(f"{sign}{row.label}", labels, self.glyphs.ellipsis).ljust(labels)
        line = self.line(width).add(f"{label} ", self.style("current" if row.is_current else "label"))
        for text, style in (self._bar if self._axis.has_bars else self._point)(row, scale, plot) if plot else ():
            line.add(text, style)
        return line.add_right(row.text, self.style("current" if row.is_current else row.tone.value))

    def _bar(self, row: IntervalRow, scale: Scale, plot: int) -> list[tuple[str, Style]]:
        low, high = round(scale.place(row.low) * plot), round(scale.place(row.high) * plot)
        style = self.style(f"bar-{row.colour % 2}")
        cells = [(self.glyphs.bar_full, style)] * low + [(self.glyphs.bar_loose, style)] * (high - low)
        if row.value and not cells:
            cells = [(self.glyphs.bar_loose, style)]
        cells += [(" ", style)] * (plot - len(cells))
        if row.expected is not None:
            at = min(plot - 1, max(0, round(scale.place(row.expected) * plot) - 1))
            cells[at] = (self.glyphs.expected, self.style("expected"))
        return cells

    def _point(self, row: IntervalRow, scale: Scale, plot: int) -> list[tuple[str, Style]]:
        line_at, axis = self._axis.line_at, self.style("axis")
        cells = [(self.glyphs.guide if line_at is None else " ", axis)] * plot
        if line_at is not None:
            cells[round(scale.place(line_at) * (plot - 1))] = (self.glyphs.vertical, axis)
        if row.value:
            tone = self.style(row.tone.value)
            first, at, last = (round(scale.place(each) * (plot - 1)) for each in (row.low, row.value, row.high))
            cells[first : last + 1] = [(self.glyphs.horizontal, tone)] * (last + 1 - first)
            cells[at] = (self.glyphs.member, tone)
        return cells

    def _axis_line(self, scale: Scale, width: int, labels: int, plot: int) -> Line:
        """The labels of the axis, each below its value as far as it fits."""
        cells = [" "] * plot
        for value, label in self._axis.labels or ((each, _decade(each)) for each in (scale.low, scale.high)):
            at = min(round(scale.place(value) * (plot - 1)), plot - len(label))
            cells[at : at + len(label)] = label
        is_known = any(row.value for row in self._rows)
        return self.line(width).pad_to(labels + 1).add("".join(cells) if plot and is_known else "", self.style("axis"))


def _decade(value: float) -> str:
    return f"{value:g}" if value >= 1e-3 else f"{value:.0e}".replace("e-0", "e-")
