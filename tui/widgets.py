"""Widgets that several screens share: lines of styled text, forms, figures, verdicts, progress bars, titles.

A widget that is given the values that it already shows is not painted again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from textwrap import wrap
from typing import Any, ClassVar, Generic, Self, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.strip import Strip
from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import Static

from lab.errors import LabError
from tui.keys import hidden_key
from tui.look import Glyphs, Tone, glyphs_of
from tui.quantities import Unit, format_seconds, format_value

Row = TypeVar("Row")
STYLE_SHEET = Path(__file__).with_name("widgets.tcss")


class Line:
    """A line of styled text under construction, measured in cells and never wider than ``width``."""

    __slots__ = ("_segments", "filler", "length", "width")

    def __init__(self, width: int, filler: Style) -> None:
        self._segments: list[Segment] = []
        self.width = width
        self.length = 0
        self.filler = filler

    @property
    def room(self) -> int:
        return self.width - self.length

    def add(self, text: str, style: Style | None = None) -> Line:
        """Append text, truncated to the remaining room."""
        cells = cell_len(text)
        if cells > self.room:
            text, cells = set_cell_size(text, self.room), self.room
        if cells:
            self._segments.append(Segment(text, self.filler if style is None else style))
            self.length += cells
        return self

    def pad_to(self, cell: int) -> Line:
        """Append blanks up to this cell, counted from the start of the line."""
        return self.add(" " * max(0, cell - self.length))

    def extend(self, other: Line) -> Line:
        for segment in other._segments:
            self.add(segment.text, segment.style)
        return self

    def strip(self) -> Strip:
        self.pad_to(self.width)
        return Strip(self._segments, self.width)


def shorten(text: str, cells: int, ellipsis: str) -> str:
    """Return ``text`` in at most ``cells`` cells, with ``ellipsis`` at the end if it was truncated."""
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + ellipsis if cells > 1 else set_cell_size(text, max(0, cells))


class LineWidget(Widget):
    """A widget that paints lines. Subclasses implement ``paint``. Styles are component classes in ``STYLE_SHEET``."""

    _prefix = ""
    """The prefix of component classes, such as ``time-chart`` for ``time-chart--title`` and so on.

    A subclass without component classes of its own uses those of its parent.
    """
    _painted: list[Strip] | None = None
    _painted_size: Size | None = None
    _brushes: dict[str, Style] | None = None
    """A cache of styles, each of which takes as long to compute as painting a line. "" is the widget's style."""

    def __init_subclass__(cls, **options: Any) -> None:
        prefix = re.sub(r"\B(?=[A-Z])", "-", cls.__name__).lower()
        if own := set(re.findall(rf"\.({prefix}--[\w-]+)", STYLE_SHEET.read_text("utf-8"))):
            cls._prefix, cls.COMPONENT_CLASSES = prefix, own
        super().__init_subclass__(**options)

    def paint(self, width: int, height: int) -> list[Line]:
        """Return the lines of the content. Missing lines are blank."""
        raise NotImplementedError

    def lines_needed(self, width: int) -> int:
        """Return the number of lines of a widget whose height is ``auto``."""
        return len(self.paint(width, 0))

    @property
    def glyphs(self) -> Glyphs:
        return glyphs_of(self)

    def style(self, name: str) -> Style:
        """Return the style of a component, on this widget's background."""
        known = {} if self._brushes is None else self._brushes
        if name not in known:
            known[name] = self.get_component_rich_style(f"{self._prefix}--{name}")
        return known[name]

    def line(self, width: int) -> Line:
        return Line(width, self._brushes[""] if self._brushes else self.rich_style)

    def refresh(self, *regions: Region, **options: bool) -> Self:
        """Schedule a repaint. With ``regions``, send only these parts of the painted content to the screen."""
        if not regions:
            self._painted = None
        return super().refresh(*regions, **options)

    def refresh_differences(self) -> None:
        """Like ``refresh``, but for small changes. Only cells that differ are sent to the screen."""
        if self._painted is None or self._painted_size != self.size:
            self.refresh()
            return
        before = [self.render_line(y) for y in range(self.size.height)]
        self._painted = None
        regions = [
            Region(first, y, last - first, 1)
            for y, old in enumerate(before)
            for first, last in (differing_cells(old, self.render_line(y)),)
            if first < last
        ]
        if regions:
            self.refresh(*regions)

    def notify_style_update(self) -> None:
        self._painted = None
        super().notify_style_update()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return self.lines_needed(width)

    def render_line(self, y: int) -> Strip:
        size = self.size
        if self._painted is None or self._painted_size != size:
            self._brushes = {"": self.rich_style}
            try:
                strips = [line.strip() for line in self.paint(size.width, size.height)] if size.area else []
            finally:
                self._brushes = None
            self._painted, self._painted_size = strips, size
        return self._painted[y] if y < len(self._painted) else Strip.blank(size.width, self.rich_style)


class RowsWidget(LineWidget, Generic[Row]):
    """A widget for a list of values, whose height fits them."""

    HIDES_WHEN_EMPTY: ClassVar[bool] = True
    """Whether it is hidden when empty. False if a style sheet controls that."""

    _rows: reactive[tuple[Row, ...]] = reactive((), layout=True)

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows, in this order. Without rows, hide the widget (``HIDES_WHEN_EMPTY``)."""
        if self.HIDES_WHEN_EMPTY:
            self.display = bool(rows)
        self._rows = tuple(rows)


def differing_cells(old: Strip, new: Strip) -> tuple[int, int]:
    """Return (first, end) of the cells in which two strips of the same width differ, or equal numbers if none do."""
    if old == new:
        return 0, 0
    start = _same_cells(list(old), list(new))
    end = _same_cells(list(old)[::-1], list(new)[::-1])
    return start, max(start, new.cell_length - end)


def _same_cells(old: Sequence[Segment], new: Sequence[Segment]) -> int:
    """Return the number of cells in the equal segments at the start, comparing whole segments."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))
    return sum(segment.cell_length for segment, _ in same)


def wrapped(text: str, width: int) -> list[str]:
    """Break ``text`` at blanks into lines of at most ``width`` cells. Words longer than a line are broken too."""
    lines = [line.plain.strip() for line in Content(" ".join(text.split())).wrap(max(1, width))]
    # If a broken word exactly fills its last line, the blank after it is left on a line of its own.
    return [line for line in lines if line] or [""]


LIST_CELLS = 40
"""Width of a line in the list of lessons or drills, without the scroll bar (lesson_screen.tcss, drill_screen.tcss)."""
_NUMBER_CELLS = 4

WidgetType = TypeVar("WidgetType", bound=Widget)


class ChangingText(Static):
    """A text that is repainted only if it changes, with a new layout only if it may need more or less room.

    A new layout paints the whole screen.
    """

    _shown: tuple[object, ...] = ()
    _lengths: tuple[int, ...] = ()

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        """Like ``Static.update``, but does nothing if the text is unchanged."""
        text = content if isinstance(content, Content) else Content(str(content))
        shown = (text.plain, tuple(text.spans))
        if shown == self._shown:
            return
        before, self._lengths = self._lengths, tuple(map(len, text.plain.split("\n")))
        self._shown = shown
        super().update(content, layout=layout and self._needs_room(before, self._lengths))

    def _needs_room(self, before: tuple[int, ...], after: tuple[int, ...]) -> bool:
        """Whether the size may change. With a fixed width, only the number of lines after wrapping matters."""
        width = self.styles.width
        if len(before) != len(after) or (width is not None and width.is_auto):
            return before != after
        return before != after and max(*before, *after, 0, 0) > self.size.width


def numbered(sign: tuple[str, str], number: str, title: str, progress: str = "") -> Content:
    """Return an entry for the list of lessons or drills. All lines of a long title are aligned.

    ``sign`` is (character, style). ``progress``, such as ``1/4``, follows the title.
    """
    rest = " " * (len(sign[0]) + _NUMBER_CELLS)
    wrapped = f"\n{rest}".join(wrap(title, LIST_CELLS - len(rest) - (len(progress) + 1 if progress else 0)))
    behind = (f" {progress}", "$text-primary") if progress else ("", "")
    return Content.assemble((f"{sign[0]} ", sign[1]), (f"{number:>2} ", "$foreground-muted"), wrapped, behind)


def titled(widget: WidgetType, title: str) -> WidgetType:
    """Frame a part of a screen, and return it. The title is not markup, as it may come from a foreign file."""
    entitle(widget, title)
    widget.add_class("framed")
    return widget


def entitle(widget: Widget, title: str | None = None, subtitle: str | None = None) -> None:
    """Set a border's title and subtitle if they changed, since Textual repaints the widget even for the same text."""
    shown = (title, subtitle)
    if getattr(widget, "_entitled", None) != shown:
        widget._entitled = shown  # type: ignore[attr-defined]
        if title is not None:
            widget.border_title = Content(title)
        if subtitle is not None:
            widget.border_subtitle = Content(subtitle)


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """A row of a form, with a label, the possible values, and the current value."""

    key: str
    label: str
    values: tuple[str, ...] = ()
    """The possible values, in the order of stepping. Empty for a row without a choice."""
    current: str = ""
    note: str = ""
    """A few words after the value, or the reason why there is none."""

    def step(self, by: int) -> str:
        """Return the value ``by`` steps after the current one, cyclically."""
        if self.current not in self.values:
            return self.values[0]
        return self.values[(self.values.index(self.current) + by) % len(self.values)]


def stepped(rows: Sequence[ChoiceRow], key: str, by: int) -> str | None:
    """Return the value ``by`` steps after the current one in the row ``key``, or None without a choice."""
    values = [row.step(by) for row in rows if row.key == key and len(row.values) > 1]
    return values[0] if values else None


class Choices(LineWidget, can_focus=True):
    """Rows of values. Up and down move between rows, left and right through the values of a row."""

    HELP = "Up and down choose a row, left and right its value."
    BINDINGS: ClassVar[list[BindingType]] = [
        hidden_key("choices.up", "up,k", "row(-1)", "Row up", "To the row above"),
        hidden_key("choices.down", "down,j", "row(1)", "Row down", "To the row below"),
        hidden_key("choices.before", "left,h", "step(-1)", "Previous value", "The previous value"),
        Binding("right,l,space,enter", "step(1)", "Next value", id="choices.next", tooltip="The row's next value"),
    ]

    _cursor: reactive[int] = reactive(0)

    @dataclass
    class Stepped(Message):
        """The user moved ``by`` values forward in a row.

        The message is relative, as the value may change before the message is handled.
        """

        key: str
        by: int

    def __init__(self, rows: Sequence[ChoiceRow] = (), *, id: str | None = None) -> None:  # noqa: A002 (textual's name)
        super().__init__(id=id)
        self._rows = tuple(rows)

    def show(self, rows: Sequence[ChoiceRow]) -> None:
        """Show these rows. The cursor stays on the same row number."""
        if tuple(rows) != self._rows:
            is_other_height = len(rows) != len(self._rows)
            self._rows = tuple(rows)
            self._cursor = min(self._cursor, max(0, len(self._rows) - 1))
            self.refresh(layout=is_other_height)

    def action_row(self, by: int) -> None:
        if self._rows:
            self._cursor = (self._cursor + by) % len(self._rows)

    def action_step(self, by: int) -> None:
        row = self._rows[self._cursor] if self._rows else None
        if row and len(row.values) > 1:
            self.post_message(self.Stepped(row.key, by))

    def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or offset.y >= len(self._rows):
            return
        event.stop()
        self._cursor = offset.y
        # A click before the value steps back, and a click on it or after it steps forward.
        if offset.x >= self._label_cells:
            self.action_step(-1 if offset.x < self._label_cells + 2 else 1)

    @property
    def _label_cells(self) -> int:
        return max((len(row.label) for row in self._rows), default=0) + 3

    def paint(self, width: int, height: int) -> list[Line]:
        return [self._paint_row(index, row, width) for index, row in enumerate(self._rows)]

    def _paint_row(self, index: int, row: ChoiceRow, width: int) -> Line:
        at_cursor = index == self._cursor
        background = Style(bgcolor=self.style("cursor").bgcolor) if at_cursor else Style()

        def style(name: str) -> Style:
            return self.style(name) + background

        line = self.line(width)
        sign = self.glyphs.cursor if at_cursor and self.has_focus else " "
        line.add(f"{sign} {row.label}".ljust(self._label_cells), style("label"))
        if len(row.values) > 1:
            line.add(f"{self.glyphs.before} ", style("arrow"))
            line.add(shorten(row.current, max(0, line.room - 2), self.glyphs.ellipsis), style("value"))
            line.add(f" {self.glyphs.after}", style("arrow"))
        elif row.values or row.current:
            line.add("  ", style("value")).add(shorten(row.current, line.room, self.glyphs.ellipsis), style("value"))
        # A truncated note after a value is useless.
        if row.note and (not row.values or len(row.note) + 2 <= line.room):
            line.add("  ", style("note")).add(shorten(row.note, line.room, self.glyphs.ellipsis), style("note"))
        return line.add(" " * line.room, style("note"))


_BAR_LEAST_CELLS = 8


def bar(fraction: float, cells: int, glyphs: Glyphs) -> tuple[str, str]:
    """Return (full part, empty part) of a bar that is ``cells`` wide in total."""
    exact = max(0.0, min(1.0, fraction)) * cells
    whole = int(exact)
    part = int((exact - whole) * (len(glyphs.bar_parts) + 1))
    full = glyphs.bar_full * whole + (glyphs.bar_parts[part - 1] if part and whole < cells else "")
    return full, glyphs.bar_empty * (cells - len(full))


@dataclass(frozen=True, slots=True)
class SyncView:
    """The progress of a rebuild, a scrub, a reshape or other work."""

    action: str
    """The name of the work, such as ``rebuild`` or ``check``."""
    fraction: float
    """The progress, from 0 to 1."""
    bytes_per_second: float | None = None
    eta_seconds: float | None = None
    note: str = ""
    """Shown instead of the rate and the remaining time."""


class SyncBar(LineWidget):
    """A row with action, bar, per cent, rate and remaining time. Parts that do not fit are omitted from the end."""

    view: reactive[SyncView | None] = reactive(None)
    """The progress to show; None for nothing."""

    def paint(self, width: int, height: int) -> list[Line]:
        view = self.view
        line = self.line(width)
        if view is None:
            return [line]
        line.add(f"{self.glyphs.busy} {view.action} ", self.style("action"))
        texts = [f"{view.fraction * 100:.1f} %"]
        if view.note:
            texts.append(view.note)
        else:
            texts += [format_value(view.bytes_per_second, Unit.BYTES_PER_SECOND)] if view.bytes_per_second else []
            texts += [f"{format_seconds(round(view.eta_seconds))} left"] if view.eta_seconds is not None else []
        while len(texts) > 1 and line.room - len("  ".join(texts)) - 2 < _BAR_LEAST_CELLS:
            texts.pop()
        text = "  ".join(texts)
        full, empty = bar(view.fraction, max(0, line.room - len(text) - 1), self.glyphs)
        line.add(full, self.style("full")).add(empty, self.style("empty"))
        return [line.add(" ").add(text, self.style("text"))]


_BOLD = Style(bold=True)


class Tile(LineWidget):
    """A label above a figure, with a note below it if there are three rows, else after it."""

    _shown: reactive[tuple[str, Tone, str]] = reactive(("–", Tone.QUIET, ""))

    def __init__(self, label: str, *, id: str | None = None) -> None:  # noqa: A002 (textual's name)
        super().__init__(id=id)
        self.label = label

    def show(self, value: float | None, unit: Unit) -> None:
        self.show_text(format_value(value, unit))

    def show_text(self, text: str, tone: Tone = Tone.QUIET, note: str = "") -> None:
        self._shown = (text, tone, note)

    def paint(self, width: int, height: int) -> list[Line]:
        text, tone, note = self._shown
        ellipsis = self.glyphs.ellipsis
        sign = "" if tone is Tone.QUIET else f"{tone.glyph(self.glyphs)} "
        figure = self.line(width).add(sign, self.style(tone.value))
        figure.add(shorten(text, figure.room, ellipsis), self.style(tone.value) + _BOLD)
        lines = [self.line(width).add(shorten(self.label, width, ellipsis), self.style("label")), figure]
        if height == 2 and note and figure.room > 5:
            figure.add("  ").add(shorten(note, figure.room - 1, ellipsis), self.style("note"))
        elif note:
            rows, parts = max(0, height - 2), wrapped(note, width)
            if len(parts) > rows > 0:
                parts = [*parts[: rows - 1], shorten(" ".join(parts[rows - 1 :]), width, ellipsis)]
            lines += [self.line(width).add(part, self.style("note")) for part in parts[:rows]]
        return lines


def error_sentence(error: LabError) -> str:
    """Return the message of an error and its hint."""
    return f"{error.message}. {error.hint}".rstrip(". ") + "."


class VerdictBanner(LineWidget):
    """A verdict, as a highlighted headline and a sentence."""

    _shown: reactive[tuple[Tone, str, str] | None] = reactive(None, layout=True)

    def show(self, tone: Tone, headline: str, sentence: str = "") -> None:
        self.display = True
        self._shown = (tone, headline, sentence)

    def clear(self) -> None:
        self.display = False
        self._shown = None

    def paint(self, width: int, height: int) -> list[Line]:
        if self._shown is None:
            return []
        tone, headline, sentence = self._shown
        first = self.line(width).add(f" {tone.glyph(self.glyphs)} {headline} ", self.style(tone.value))
        if cell_len(sentence) + 2 <= first.room:
            return [first.add("  ").add(sentence, self.style("sentence"))]
        return [first, *(self.line(width).add(text, self.style("sentence")) for text in wrapped(sentence, width))]
