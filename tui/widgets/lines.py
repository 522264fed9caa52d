"""A widget that paints whole lines of styled text, all at once, and only when its values have changed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, ClassVar, Generic, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from tui.glyphs import ASCII, Glyphs, glyphs_of

Row = TypeVar("Row")
_PLAIN = str.maketrans({"µ": "u", "–": "-", "×": "x", "…": "~", "→": ">", "’": "'", "¼": " ", "½": " "})


class Line:
    """One line under construction: text in styles, measured in cells, never longer than ``width``."""

    __slots__ = ("_segments", "filler", "length", "width")

    def __init__(self, width: int, filler: Style) -> None:
        self._segments: list[Segment] = []
        self.width = width
        self.length = 0
        self.filler = filler

    @property
    def room(self) -> int:
        """Cells that are left."""
        return self.width - self.length

    def add(self, text: str, style: Style | None = None) -> Line:
        """Append text; what does not fit is cut."""
        cells = cell_len(text)
        if cells > self.room:
            text, cells = set_cell_size(text, self.room), self.room
        if cells:
            self._segments.append(Segment(text, self.filler if style is None else style))
            self.length += cells
        return self

    def pad_to(self, cell: int) -> Line:
        """Blanks up to this cell, counted from the line's start."""
        return self.add(" " * max(0, cell - self.length))

    def add_right(self, text: str, style: Style | None = None) -> Line:
        """Append text at the line's right end."""
        return self.pad_to(self.width - cell_len(text)).add(text, style)

    def extend(self, other: Line) -> Line:
        """Append what another line holds."""
        for segment in other._segments:
            self.add(segment.text, segment.style)
        return self

    def strip(self) -> Strip:
        """The finished line, filled up with blanks."""
        self.pad_to(self.width)
        return Strip(self._segments, self.width)


def shorten(text: str, cells: int, ellipsis: str) -> str:
    """``text`` in at most so many cells, with a sign where something is missing."""
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + ellipsis if cells > 1 else set_cell_size(text, max(0, cells))


class LineWidget(Widget):
    """Subclasses give ``paint``; styles are the component classes ``PREFIX--name`` of their style sheet."""

    PREFIX = ""

    _painted: list[Strip] | None = None
    _painted_size: Size | None = None
    _brushes: dict[tuple[str, ...], Style] | None = None
    """Styles while painting: to work one out takes as long as to paint a line with it. Nameless: the widget's own."""

    def __init_subclass__(cls, **options: Any) -> None:
        cls.COMPONENT_CLASSES = set(re.findall(rf"\.({cls.PREFIX}--[\w-]+)", cls.DEFAULT_CSS))
        super().__init_subclass__(**options)

    def paint(self, width: int, height: int) -> list[Line]:
        """All lines of the content; missing ones stay blank."""
        raise NotImplementedError

    def lines_needed(self, width: int) -> int:
        """For ``height: auto``."""
        return 1

    @property
    def glyphs(self) -> Glyphs:
        """The signs of this terminal."""
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
        """An empty line of this widget."""
        return Line(width, self._brushes[()] if self._brushes else self.rich_style)

    def changed(self, *, layout: bool = False) -> None:
        """Paint anew at the next chance; with ``layout`` the height may differ too."""
        self._painted = None
        self.refresh(layout=layout)

    def changed_somewhere(self) -> None:
        """As ``changed``, for what looks much the same each time: only lines that differ go to the screen."""
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
    """Shows a list of values in as many lines as they need."""

    HIDES_WHEN_EMPTY: ClassVar[bool] = True
    """False where a style sheet says whether it is shown."""

    _rows: tuple[Row, ...] = ()

    def show(self, rows: Sequence[Row]) -> None:
        """Show these, in this order; nothing takes no room."""
        if self.HIDES_WHEN_EMPTY:
            self.display = bool(rows)
        if tuple(rows) != self._rows:
            self._rows = tuple(rows)
            self.changed(layout=True)

    def lines_needed(self, width: int) -> int:
        return len(self._rows) + 1 if self._rows else 0


class FittedLines(LineWidget):
    """As tall as what it paints."""

    def lines_needed(self, width: int) -> int:
        return len(self.paint(width, 0))


def differing_cells(old: Strip, new: Strip) -> tuple[int, int]:
    """From which cell to which two strips of one width differ; both the same if they do not."""
    if old == new:
        return 0, 0
    start = _same_cells(list(old), list(new))
    end = _same_cells(list(old)[::-1], list(new)[::-1])
    return start, max(start, new.cell_length - end)


def _same_cells(old: Sequence[Segment], new: Sequence[Segment]) -> int:
    """Cells of the segments that both begin with: whole segments are enough."""
    cells = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        cells += one.cell_length
    return cells


def wrapped(text: str, width: int) -> list[str]:
    """``text`` in lines of at most ``width`` cells, broken at blanks; a longer word is cut."""
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
