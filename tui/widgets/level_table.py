"""A table that compares levels with the same disks: capacity, failures survived, cost of a small write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.style import Style

from tui.widgets.lines import Line, RowsWidget

_TITLES = ("level", "usable", "survives", "small write")
_NARROW_TITLES = ("level", "usable", "survives", "write")
_GAP_CELLS, _NARROW_GAP_CELLS = 3, 1


@dataclass(frozen=True, slots=True)
class LevelRow:
    """A row of the table, as text; dashes if the array cannot be built."""

    level: str
    usable: str
    survives: str
    small_write: str
    is_current: bool = False


class LevelTable(RowsWidget[LevelRow]):
    """One level per line; a colour and a character mark the current one."""

    PREFIX = "level-table"
    HIDES_WHEN_EMPTY = False
    DEFAULT_CSS = """
    LevelTable {
        height: auto;
        & > .level-table--title { color: $foreground-muted; }
        & > .level-table--row { color: $foreground; }
        & > .level-table--current { color: $text-primary; text-style: bold; }
    }
    """

    titles: tuple[str, str, str, str] = _TITLES
    narrow_titles: tuple[str, str, str, str] = _NARROW_TITLES
    """The titles of the columns; set both before ``show``."""

    def paint(self, width: int, height: int) -> list[Line]:
        if not self._rows:
            return []
        cells = [(row.level, row.usable, row.survives, row.small_write) for row in self._rows]
        titles, gap = self.titles, _GAP_CELLS
        widths = _widths([titles, *cells])
        if 2 + sum(widths) + gap * (len(titles) - 1) > width:
            titles, gap = self.narrow_titles, _NARROW_GAP_CELLS
            widths = _widths([titles, *cells])
        lines = [self._line(width, " ", titles, widths, self.style("title"), gap)]
        for row, words in zip(self._rows, cells, strict=True):
            style = self.style("current" if row.is_current else "row")
            sign = self.glyphs.cursor if row.is_current else " "
            lines.append(self._line(width, sign, words, widths, style, gap))
        return lines

    def _line(self, width: int, sign: str, words: Sequence[str], widths: Sequence[int], style: Style, gap: int) -> Line:
        """A line of the table, after ``sign``; the second column is right-aligned, the others are left-aligned."""
        line = self.line(width).add(f"{sign} ", style)
        for column, (text, cells) in enumerate(zip(words, widths, strict=True)):
            line.add(text.rjust(cells) if column == 1 else text.ljust(cells), style).add(" " * gap)
        return line


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]
