"""Widgets that paint lines of styled text, only when their values have changed; and the titles of borders."""

from __future__ import annotations

import re
from collections.abc import Sequence
from textwrap import wrap
from typing import Any, ClassVar, Generic, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.visual import VisualType
from textual.widget import Widget
from textual.widgets import Static

from tui.look import ASCII, Glyphs, glyphs_of

Row = TypeVar("Row")
_PLAIN = str.maketrans({"µ": "u", "–": "-", "×": "x", "…": "~", "→": ">", "’": "'", "¼": " ", "½": " "})


class Line:
    """A line under construction: styled text, measured in cells, never wider than ``width``."""

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
        """Append text, truncated to the room that is left."""
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

    def add_right(self, text: str, style: Style | None = None) -> Line:
        return self.pad_to(self.width - cell_len(text)).add(text, style)

    def extend(self, other: Line) -> Line:
        for segment in other._segments:
            self.add(segment.text, segment.style)
        return self

    def strip(self) -> Strip:
        """The finished line, padded with blanks."""
        self.pad_to(self.width)
        return Strip(self._segments, self.width)


def shorten(text: str, cells: int, ellipsis: str) -> str:
    """``text`` in at most ``cells`` cells, with ``ellipsis`` at the end if it was truncated."""
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + ellipsis if cells > 1 else set_cell_size(text, max(0, cells))


class LineWidget(Widget):
    """Subclasses implement ``paint``; the styles are the component classes ``PREFIX--name`` of their style sheet."""

    PREFIX = ""

    _painted: list[Strip] | None = None
    _painted_size: Size | None = None
    _brushes: dict[tuple[str, ...], Style] | None = None
    """Cache of styles while painting: computing one takes as long as painting a line. Key (): the widget's style."""

    def __init_subclass__(cls, **options: Any) -> None:
        cls.COMPONENT_CLASSES = set(re.findall(rf"\.({cls.PREFIX}--[\w-]+)", cls.DEFAULT_CSS))
        super().__init_subclass__(**options)

    def paint(self, width: int, height: int) -> list[Line]:
        """The lines of the content; missing lines are blank."""
        raise NotImplementedError

    def lines_needed(self, width: int) -> int:
        return 1

    @property
    def glyphs(self) -> Glyphs:
        return glyphs_of(self)

    def style(self, *names: str) -> Style:
        """The style of component ``PREFIX--name``, on this widget's background."""
        known = self._brushes
        if known is not None and names in known:
            return known[names]
        found = self.get_component_rich_style(*(f"{self.PREFIX}--{name}" for name in names))
        if known is not None:
            known[names] = found
        return found

    def line(self, width: int) -> Line:
        return Line(width, self._brushes[()] if self._brushes else self.rich_style)

    def changed(self, *, layout: bool = False) -> None:
        """Schedule a repaint; ``layout``: the height may have changed too."""
        self._painted = None
        self.refresh(layout=layout)

    def changed_somewhere(self) -> None:
        """As ``changed``, for small changes: only cells that differ are sent to the screen."""
        if self._painted is None or self._painted_size != self.size:
            self.changed()
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
            self._brushes = {(): self.rich_style}
            try:
                strips = [line.strip() for line in self.paint(size.width, size.height)] if size.area else []
            finally:
                self._brushes = None
            if self.glyphs is ASCII:
                strips = [
                    Strip(
                        [Segment(text.translate(_PLAIN), style, control) for text, style, control in strip], size.width
                    )
                    for strip in strips
                ]
            self._painted, self._painted_size = strips, size
        return self._painted[y] if y < len(self._painted) else Strip.blank(size.width, self.rich_style)


class RowsWidget(LineWidget, Generic[Row]):
    """A widget for a list of values, as high as they need."""

    HIDES_WHEN_EMPTY: ClassVar[bool] = True
    """False if a style sheet controls whether it is shown."""

    _rows: tuple[Row, ...] = ()

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows, in this order; without rows it is hidden (``HIDES_WHEN_EMPTY``)."""
        if self.HIDES_WHEN_EMPTY:
            self.display = bool(rows)
        if tuple(rows) != self._rows:
            self._rows = tuple(rows)
            self.changed(layout=True)

    def lines_needed(self, width: int) -> int:
        return len(self._rows) + 1 if self._rows else 0


class FittedLines(LineWidget):
    """A widget as high as the lines that it paints."""

    def lines_needed(self, width: int) -> int:
        return len(self.paint(width, 0))


def differing_cells(old: Strip, new: Strip) -> tuple[int, int]:
    """(first, end) of the cells in which two strips of the same width differ; equal numbers if they do not differ."""
    if old == new:
        return 0, 0
    start = _same_cells(list(old), list(new))
    end = _same_cells(list(old)[::-1], list(new)[::-1])
    return start, max(start, new.cell_length - end)


def _same_cells(old: Sequence[Segment], new: Sequence[Segment]) -> int:
    """Number of cells of the equal segments at the start; the comparison is by whole segments."""
    cells = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        cells += one.cell_length
    return cells


def wrapped(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` cells, broken at blanks; a longer word is broken too."""
    lines: list[str] = []
    current = ""
    for word in text.split():
        while cell_len(word) > width > 0:
            if current:
                lines.append(current)
                current = ""
            lines.append(word[:width])
            word = word[width:]
        joined = f"{current} {word}" if current else word
        if cell_len(joined) > width:
            lines.append(current)
            current = word
        else:
            current = joined
    return [*lines, current] if current or not lines else lines


LIST_CELLS = 40
"""Width of a line in the list of lessons or drills, without the scroll bar (lessons.tcss, drills.tcss)."""
_NUMBER_CELLS = 4

WidgetType = TypeVar("WidgetType", bound=Widget)


class ChangingText(Static):
    """A text that is repainted only if it differs, with a new layout only if it may need more or less room.

    A new layout paints the whole screen.
    """

    _shown: tuple[object, ...] = ()
    _lengths: tuple[int, ...] = ()

    def update(self, content: VisualType = "", *, layout: bool = True) -> None:
        """As ``Static.update``; does nothing for an unchanged text."""
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
    """An entry of the list of lessons or drills; the further lines of a long title are aligned with its first one.

    ``sign`` is (character, style); ``progress``, such as ``1/4``, follows the title.
    """
    rest = " " * (len(sign[0]) + _NUMBER_CELLS)
    wrapped = f"\n{rest}".join(wrap(title, LIST_CELLS - len(rest) - (len(progress) + 1 if progress else 0)))
    behind = (f" {progress}", "$text-primary") if progress else ("", "")
    return Content.assemble((f"{sign[0]} ", sign[1]), (f"{number:>2} ", "$foreground-muted"), wrapped, behind)


def titled(widget: WidgetType, title: str) -> WidgetType:
    """Set the title of a widget's border; returns the widget. The text is not markup: it may be from a foreign file."""
    entitle(widget, title)
    return widget


def entitle(widget: Widget, title: str | None = None, subtitle: str | None = None) -> None:
    """Set the title and subtitle of a border if they differ: Textual repaints the widget even for the same text."""
    shown = (title, subtitle)
    if getattr(widget, "_entitled", None) != shown:
        widget._entitled = shown  # type: ignore[attr-defined]
        if title is not None:
            widget.border_title = Content(title)
        if subtitle is not None:
            widget.border_subtitle = Content(subtitle)
