"""Charts of values over time, charts of values with intervals, and diagrams of where an array puts its chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.style import Style
from textual.reactive import reactive

from lab.arrays.geometry import ChunkKind, StripeCell, StripeRow, stripe_rows
from lab.arrays.levels import Level, LevelName
from lab.arrays.status import SliceState
from lab.errors import SpecError
from lab.units import human_bytes
from tui.look import Canvas, Tone
from tui.quantities import Scale, Unit, format_seconds, format_value, linear_scale, log_scale, ticks
from tui.widgets import Line, LineWidget, RowsWidget, shorten

_BRAILLE_BASE = 0x2800
_BRAILLE_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot, by row and column (Unicode, Braille Patterns)."""

_CELLS = {Canvas.BRAILLE: (2, 4), Canvas.ASCII: (1, 2)}
_ASCII_SIGNS = " '.:"


@dataclass(slots=True)
class DotCanvas:
    """A canvas of ``columns`` × ``rows`` cells. Dots are counted from the top left."""

    columns: int
    rows: int
    kind: Canvas
    cells: dict[tuple[int, int], tuple[str, int]] = field(default_factory=dict)
    """The character and the owner of each cell with a dot, by (row, column). The owner is the last to draw in it."""
    _bits: dict[tuple[int, int], int] = field(default_factory=dict)

    @property
    def dot_columns(self) -> int:
        return self.columns * _CELLS[self.kind][0]

    @property
    def dot_rows(self) -> int:
        return self.rows * _CELLS[self.kind][1]

    def vertical(self, dot_column: int, first: int, last: int, owner: int) -> None:
        """Set the dots of one column between two rows, both included. Dots outside the canvas are ignored."""
        across, down = _CELLS[self.kind]
        if not 0 <= dot_column < self.dot_columns:
            return
        column, x = divmod(dot_column, across)
        top, bottom = max(0, min(first, last)), min(self.dot_rows - 1, max(first, last))
        for dot_row in range(top, bottom + 1):
            row, y = divmod(dot_row, down)
            place = row, column
            bit = _BRAILLE_DOTS[y][x] if self.kind is Canvas.BRAILLE else 1 << y
            self._bits[place] = bits = self._bits.get(place, 0) | bit
            sign = chr(_BRAILLE_BASE | bits) if self.kind is Canvas.BRAILLE else _ASCII_SIGNS[bits]
            self.cells[place] = sign, owner

    def line(self, start: tuple[int, int], end: tuple[int, int], owner: int) -> None:
        """Draw a line between two dots, given as (column, row). ``start`` must not be to the right of ``end``."""
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


SERIES_COLOURS = 6
_LABELLED_MARKS_FROM_ROWS = 6
_GUIDES_FROM_ROWS = 4
_CELLS_PER_TIME_LABEL = 14


@dataclass(frozen=True, slots=True)
class Series:
    """A line of a chart."""

    name: str
    points: Sequence[tuple[float, float | None]]
    """(time in seconds, value) of each point, in order of time. A value of None is a gap."""
    colour: int = 0
    """The number of one of the theme's colours, 0 to 5."""


@dataclass(frozen=True, slots=True)
class Mark:
    """An event on the time axis."""

    time_seconds: float
    label: str
    tone: Tone = Tone.NOTICE


@dataclass(slots=True)
class _Plot:
    """The cells of the plot area."""

    columns: int
    rows: int
    cells: dict[tuple[int, int], tuple[str, str]] = field(default_factory=dict)
    """(character, style) by (row, column)."""

    def put(self, row: int, column: int, sign: str, style: str) -> None:
        """Draw into a cell, unless something was drawn in it before."""
        self.cells.setdefault((row, column), (sign, style))

    def write(self, row: int, column: int, text: str, style: str) -> None:
        for offset, sign in enumerate(text):
            self.put(row, column + offset, sign, style)

    def runs(self, row: int) -> Iterator[tuple[str, str]]:
        """Yield (text, style) for each part of a row with one style. A blank has the style of the cell before it."""
        text, style = "", ""
        for column in range(self.columns):
            sign, new_style = self.cells.get((row, column), (" ", style))
            if new_style != style and text:
                yield text, style
                text = ""
            text, style = text + sign, new_style
        yield text, style


class TimeChart(LineWidget):
    """A chart of values over time. Call ``show`` to change it, at most four times a second."""

    def __init__(
        self,
        title: str,
        unit: Unit,
        *,
        is_log: bool = False,
        filled: bool = False,
        minimum_top: float | None = None,
        empty_text: str = "nothing measured yet",
        id: str | None = None,  # noqa: A002 (textual's name)
    ) -> None:
        """Create an empty chart.

        ``is_log`` is for latencies. ``filled`` draws an area, for a single series. A linear axis extends at least to
        ``minimum_top``, so that small noise is not enlarged.
        """
        super().__init__(id=id)
        self.title = title
        self.unit = unit
        self.filled = filled
        self.minimum_top = minimum_top
        self.empty_text = empty_text
        self.is_log = is_log
        self.window_seconds = 60.0
        self._series: tuple[Series, ...] = ()
        self._marks: tuple[Mark, ...] = ()
        self._now_seconds: float | None = None

    def show(self, series: Sequence[Series], marks: Sequence[Mark] = (), now_seconds: float | None = None) -> None:
        """Draw these series. The axis ends at ``now_seconds``, by default the time of the newest point."""
        shown = (tuple(series), tuple(marks), now_seconds)
        if shown != (self._series, self._marks, self._now_seconds):
            self._series, self._marks, self._now_seconds = shown
            self.refresh_differences()

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
        for row in labels if rows >= _GUIDES_FROM_ROWS else ():
            if row < rows - 1:
                plot.write(row, 0, self.glyphs.guide * columns, "guide")
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
        """Return the title and the legend. If there is little room, omit the values, then the last names."""
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
                # Most values get a fixed width, so that the legend does not move.
                legend.add(format_value(value, self.unit).rjust(5), self.style("title"))
        return legend

    def _first_second(self, dot_columns: int) -> tuple[float, float]:
        """Return (time of the first dot column, seconds per column).

        The time is a whole number of columns. Otherwise a point would be rounded to a different dot at each redraw, and
        the chart would flicker.
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
        for (row, column), (sign, owner) in canvas.cells.items():
            plot.put(row, column, sign, f"series-{self._series[owner].colour % SERIES_COLOURS}")

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
        """Draw the label beside its mark, in the upper half, unless it would cover data or another mark."""
        for row in range(plot.rows // 2):
            for start in (column + 1, column - cell_len(mark.label)):
                end = start + cell_len(mark.label)
                is_inside = start >= 0 and end <= plot.columns
                is_free = all((row, column) not in plot.cells for column in range(start - 1, end + 1))
                if is_inside and is_free and not lines & set(range(start, end)):
                    plot.write(row, start, mark.label, mark.tone.value)
                    return

    def _time_axis(self, width: int, gutter: int, columns: int) -> Line:
        cells = [(self.glyphs.horizontal, "axis")] * columns
        marked = self._mark_columns(columns)
        count = max(1, min(6, columns // _CELLS_PER_TIME_LABEL))
        for part in range(count + 1):
            label = " now" if part == count else f" -{_short_time(self.window_seconds * (1 - part / count))} "
            centre = round(part / count * (columns - 1)) - cell_len(label) // 2
            at = min(max(0, centre), columns - cell_len(label))
            if any(at <= column < at + cell_len(label) for column, _ in marked):
                continue
            cells[at : at + len(label)] = [(sign, "axis") for sign in label]
        for column, mark in marked:
            cells[column] = (mark.tone.glyph(self.glyphs), mark.tone.value)
        line = self.line(width).add(" " * (gutter + 1) + self.glyphs.axis_corner, self.style("axis"))
        for sign, style in cells:
            line.add(sign, self.style(style))
        return line


def _short_time(seconds: float) -> str:
    """Return a duration without blanks, such as ``45s``, ``7.5s``, ``2:30`` or ``1:40h``."""
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
    """None if there is no figure, or it is not yet computed."""
    low: float
    high: float
    text: str
    """The text on the right, which is the figure with its unit, and possibly its interval and a verdict."""
    tone: Tone = Tone.QUIET
    is_current: bool = False
    """Whether the other rows are compared with this one."""
    colour: int = 0
    """The number of the bar's colour, 0 or 1."""
    expected: float | None = None
    """The predicted figure, which has a mark; None if there is none."""
    group: str = ""
    """The heading above the rows of a group."""


@dataclass(frozen=True, slots=True)
class Axis:
    """How an interval chart draws figures."""

    has_bars: bool = False
    """If True, draw bars from 0, whose lighter end is the interval. If False, draw points on the interval as a line."""
    scale: Scale | None = None
    """If None, bars extend to the highest figure of their group, and points are on decades that contain all rows."""
    labels: tuple[tuple[float, str], ...] = ()
    line_at: float | None = None
    """The value at which a vertical line is drawn."""


BARS, SHARES, DECADES = Axis(has_bars=True), Axis(has_bars=True, scale=Scale(0.0, 1.0)), Axis()
RATIOS = Axis(
    scale=Scale(0.25, 4.0, is_log=True),
    labels=((0.25, "¼"), (0.5, "½"), (1.0, "1"), (2.0, "2"), (4.0, "4×")),
    line_at=1.0,
)
"""Ratios beyond the scale are drawn at its ends. An interval that crosses the line at 1 shows no difference."""


class IntervalChart(RowsWidget[IntervalRow]):
    """Figures with their intervals. Each row has a label, a plot if there is room for it, and a text.

    If there is no room for all rows, those around the current row are shown.
    """

    most_rows: int | None = None
    """The number of rows with ``height: auto``; None for all."""
    _axis: reactive[Axis] = reactive(BARS, layout=True)

    def draw(self, rows: Sequence[IntervalRow], axis: Axis) -> None:
        self._axis = axis
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
        """Return (cells for the labels, cells for the plot), with 0 for a plot that would be too narrow."""
        longest = max((cell_len(row.label) for row in self._rows), default=0) + 2 * self._has_cursor
        texts = max((cell_len(row.text) for row in self._rows), default=0)
        labels = min(longest, width * 2 // 5)
        plot = width - labels - texts - 2
        return (labels, plot) if plot >= _LEAST_PLOT_CELLS else (min(longest, max(0, width - texts - 1)), 0)

    @property
    def _has_cursor(self) -> bool:
        return any(row.is_current for row in self._rows)

    def _decades(self) -> Scale:
        # Use the scale of all rows, so that it does not change while the user moves through them.
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
        line.pad_to(width - cell_len(row.text))
        return line.add(row.text, self.style("current" if row.is_current else row.tone.value))

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
        """Return the labels of the axis, each below its value as far as possible."""
        cells = [" "] * plot
        for value, label in self._axis.labels or ((each, _decade(each)) for each in (scale.low, scale.high)):
            at = min(round(scale.place(value) * (plot - 1)), plot - len(label))
            cells[at : at + len(label)] = label
        is_known = any(row.value for row in self._rows)
        return self.line(width).pad_to(labels + 1).add("".join(cells) if plot and is_known else "", self.style("axis"))


def _decade(value: float) -> str:
    return f"{value:g}" if value >= 1e-3 else f"{value:.0e}".replace("e-0", "e-")


_CELL_LEAST = 4
_CELL_MOST = 14


@dataclass(frozen=True, slots=True)
class DiagramMember:
    """A member, as a column of the diagram."""

    name: str
    failed: bool = False
    rebuilding: bool = False


@dataclass(frozen=True, slots=True)
class _Picture:
    level: Level
    layout: str | None
    members: tuple[DiagramMember, ...]
    chunk_bytes: int | None


class StripeDiagram(LineWidget):
    """A diagram of stripe rows × members. A failed member's chunks are crossed out and marked."""

    rows = 6
    """The number of rows with ``height: auto``. Otherwise, as many rows as fit are shown."""
    empty_text: reactive[str] = reactive("", layout=True)
    _picture: reactive[_Picture | None] = reactive(None, layout=True)

    def show(
        self, level: Level, layout: str | None, members: Sequence[DiagramMember], chunk_bytes: int | None = None
    ) -> None:
        """Draw this array or, with too few members for the level, the text for an empty diagram."""
        self._picture = _Picture(level, layout, tuple(members), chunk_bytes)

    def clear(self, text: str) -> None:
        self.empty_text, self._picture = text, None

    def lines_needed(self, width: int) -> int:
        picture = self._picture
        rows = _rows_of(picture, self.rows) if picture else ()
        if picture is None or not rows:
            return 1
        return 2 + len(rows) + len({row.part for row in rows}) - 1

    def paint(self, width: int, height: int) -> list[Line]:
        picture = self._picture
        rows = _rows_of(picture, max(1, height - 2)) if picture else ()
        if picture is None or not rows:
            text = shorten(self.empty_text, width, self.glyphs.ellipsis)
            return [self.line(width).add(text, self.style("note"))]
        label_cells = 4
        shown, cell = self._columns(width - label_cells, picture.members)
        lost = _lost_numbers(picture, rows)
        head = self.line(width).pad_to(label_cells)
        lines = [add_heads(self, head, picture.members, cell, shown)]
        parts = sorted({row.part for row in rows})
        for part in parts:
            if part:
                lines.append(self.line(width).add(f"{self.glyphs.ellipsis} further inside", self.style("label")))
            for row in [row for row in rows if row.part == part]:
                line = self.line(width).add(str(row.row).rjust(label_cells - 2) + "  ", self.style("label"))
                for slot, chunk in enumerate(row.chunks[:shown]):
                    style, text = self._cell(picture, slot, chunk, lost)
                    # Rows alternate between two shades, so that each stripe is visible as a unit.
                    style = "other-data" if style == "data" and row.row % 2 else style
                    line.add(text.center(cell - 1), self.style(style)).add(" ")
                lines.append(line)
        lines = lines[: max(1, height - 1)]
        return [*lines, self._note(picture, rows, width, bool(lost))]

    def _columns(self, room: int, members: Sequence[DiagramMember]) -> tuple[int, int]:
        """Return (number of members that fit, cells of each column)."""
        count = len(members)
        longest = max(cell_len(member.name) for member in members) + 3
        cell = max(_CELL_LEAST, min(longest, _CELL_MOST, room // count))
        return max(1, min(count, room // cell)), cell

    def _cell(self, picture: _Picture, slot: int, chunk: StripeCell, lost: frozenset[int]) -> tuple[str, str]:
        text = chunk.kind.value if chunk.kind.is_parity else str(chunk.number)
        if chunk.kind is ChunkKind.COPY:
            text += "'" * min(chunk.copy, 3)
        if picture.members[slot].failed:
            is_lost = not chunk.kind.is_parity and chunk.number in lost
            return "lost" if is_lost else "failed", f"{self.glyphs.crossed}{text}"
        return chunk.kind.value.lower(), text

    def _note(self, picture: _Picture, rows: Sequence[StripeRow], width: int, is_lost: bool) -> Line:
        """Return the legend, with the kinds of chunks that occur, the most important first."""
        line = self.line(width)
        kinds = {chunk.kind for row in rows for chunk in row.chunks}
        unit = "block" if picture.level.name is LevelName.RAID1 else "chunk"
        size = f" of {human_bytes(picture.chunk_bytes)}" if picture.chunk_bytes else ""
        entries: list[tuple[str, str, str]] = []
        if any(member.failed for member in picture.members):
            style, words = ("lost", "LOST") if is_lost else ("failed", "read from the others")
            entries.append((style, self.glyphs.crossed, words))
        entries.append(("data", "0", f"{unit}{size}"))
        entries += [("copy", "0'", "copy")] if ChunkKind.COPY in kinds else []
        entries += [("p", "P", "parity")] if ChunkKind.P in kinds else []
        entries += [("q", "Q", "2nd parity")] if ChunkKind.Q in kinds else []
        for style, sign, words in entries:
            if line.room < len(sign) + len(words) + 3:
                break
            line.add(f" {sign} ", self.style(style)).add(f" {words}  ", self.style("note"))
        return line


def _rows_of(picture: _Picture, rows: int) -> tuple[StripeRow, ...]:
    """Return about ``rows`` stripe rows, divided between the parts of a far RAID 10, or none for an invalid array."""
    try:
        first = stripe_rows(picture.level, picture.layout, len(picture.members), 1)
        parts = len(first)
        each = max(1, (rows - (parts - 1)) // parts)
        return stripe_rows(picture.level, picture.layout, len(picture.members), each)
    except SpecError:
        return ()


def _lost_numbers(picture: _Picture, rows: Sequence[StripeRow]) -> frozenset[int]:
    """Return the data chunks that only failed members hold, if the array does not survive these failures."""
    failed = frozenset(slot for slot, member in enumerate(picture.members) if member.failed)
    if not failed or picture.level.survives(failed, len(picture.members)):
        return frozenset()
    places: dict[int, set[int]] = {}
    for row in rows:
        for slot, chunk in enumerate(row.chunks):
            if not chunk.kind.is_parity:
                places.setdefault(chunk.number, set()).add(slot)
    return frozenset(number for number, slots in places.items() if slots <= failed)


def fitting_names(names: Sequence[str], cells: int, ellipsis: str) -> list[str]:
    """Return the names, or only their numbers (``01`` for ``disk01``) if a name does not fit."""
    if all(cell_len(name) <= cells for name in names):
        return list(names)
    numbers = [name.lstrip("abcdefghijklmnopqrstuvwxyz-_") or name for name in names]
    return [shorten(number, max(cells, 2), ellipsis) for number in numbers]


def add_heads(widget: LineWidget, line: Line, members: Sequence[DiagramMember], cell: int, shown: int) -> Line:
    """Append the names of the columns, marked if failed or rebuilding, and the number of hidden members."""
    glyphs = widget.glyphs
    names = fitting_names([member.name for member in members], cell - 3, glyphs.ellipsis)
    for member, name in list(zip(members, names, strict=True))[:shown]:
        style = "lost" if member.failed else "rebuilding" if member.rebuilding else "member"
        sign = f"{glyphs.faulty} " if member.failed else f"{glyphs.rebuilding} " if member.rebuilding else ""
        line.add(shorten(f"{sign}{name}", cell - 1, glyphs.ellipsis).center(cell - 1), widget.style(style)).add(" ")
    missing = len(members) - shown
    return line.add(f"+{missing}" if missing else "", widget.style("note"))


_LABEL_CELLS = 10
_DIAGRAM_CELL_LEAST, _DIAGRAM_CELL_MOST = 4, 11
_COLOURS = 6
_MOST_LEGEND_ROWS = 2


@dataclass(frozen=True, slots=True)
class SliceCell:
    """A slice, with the number of its inner array and its state."""

    array: int
    state: SliceState = SliceState.WORKING


@dataclass(frozen=True, slots=True)
class SliceLine:
    """A row of the diagram, with the slice of each disk that has one there. ``size`` is a slice's size as text."""

    size: str
    cells: tuple[SliceCell | None, ...]


@dataclass(frozen=True, slots=True)
class SlicePicture:
    """The contents of the diagram. ``arrays`` are the inner arrays as (name, width), such as ``("md100", "4+1")``."""

    disks: tuple[DiagramMember, ...]
    lines: tuple[SliceLine, ...]
    arrays: tuple[tuple[str, str], ...]


class SliceDiagram(LineWidget):
    """The disks side by side, in the order of selection. The slices of an inner array have its colour and name."""

    _picture: reactive[SlicePicture | None] = reactive(None, layout=True)

    def show(self, picture: SlicePicture | None) -> None:
        self.display = picture is not None
        self._picture = picture

    def lines_needed(self, width: int) -> int:
        picture = self._picture
        if picture is None:
            return 0
        return 1 + len(picture.lines) + min(_MOST_LEGEND_ROWS, len(self._legend(picture, width)))

    def paint(self, width: int, height: int) -> list[Line]:
        picture = self._picture
        if picture is None or not picture.disks:
            return []
        legend = self._legend(picture, width)[:_MOST_LEGEND_ROWS]
        count = len(picture.disks)
        cell = max(_DIAGRAM_CELL_LEAST, min(_DIAGRAM_CELL_MOST, (width - _LABEL_CELLS) // count))
        shown = max(1, min(count, (width - _LABEL_CELLS) // cell))
        lines = [add_heads(self, self.line(width).pad_to(_LABEL_CELLS), picture.disks, cell, shown)]
        room = max(1, height - 1 - len(legend))
        rows = picture.lines if len(picture.lines) <= room else picture.lines[: room - 1]
        for row in rows:
            lines.append(self._row(picture, row, width, cell, shown))
        if len(rows) < len(picture.lines):
            hidden = len(picture.lines) - len(rows)
            lines.append(self.line(width).add(f"{self.glyphs.ellipsis} {hidden} more rows", self.style("note")))
        return [*lines[: max(1, height - len(legend))], *legend]

    def _row(self, picture: SlicePicture, row: SliceLine, width: int, cell: int, shown: int) -> Line:
        line = self.line(width).add(row.size.rjust(_LABEL_CELLS - 2) + "  ", self.style("label"))
        for each in row.cells[:shown]:
            if each is None:
                line.add(" " * cell)
                continue
            name = picture.arrays[each.array][0]
            text = name if len(name) < cell - 2 else name.removeprefix("md")
            style, sign = self._cell_style(each)
            line.add(f"{sign}{text}".center(cell - 1)[: cell - 1], self.style(style)).add(" ")
        return line

    def _cell_style(self, cell: SliceCell) -> tuple[str, str]:
        match cell.state:
            case SliceState.MISSING:
                return "gone", self.glyphs.crossed
            case SliceState.LOST:
                return "lost", self.glyphs.faulty
            case SliceState.REBUILDING:
                return "rebuilding", self.glyphs.rebuilding
            case _:
                return f"array{cell.array % _COLOURS}", ""

    def _legend(self, picture: SlicePicture, width: int) -> list[Line]:
        """Return the inner arrays, grouped by the numbers of data and parity chunks in a stripe."""
        lines: list[Line] = []
        line = self.line(width)
        for number, (name, widths) in enumerate(picture.arrays):
            is_last = number + 1 == len(picture.arrays) or picture.arrays[number + 1][1] != widths
            sign, words = f" {name} ", f" {widths}  " if is_last else " "
            if line.room < len(sign) + len(words):
                lines.append(line)
                line = self.line(width)
            line.add(sign, self.style(f"array{number % _COLOURS}")).add(words, self.style("note"))
        rest = "data + parity chunks of a stripe"
        if line.room >= len(rest):
            line.add(rest, self.style("note"))
        return [*lines, line]
