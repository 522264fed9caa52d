"""The slices of the disks in the inner arrays of an array: a column for each disk, a row for each slice."""

from __future__ import annotations

from dataclasses import dataclass

from lab.arrays.status import SliceState
from tui.widgets.lines import Line, LineWidget
from tui.widgets.stripe_diagram import DiagramMember, add_heads

_LABEL_CELLS = 10
_CELL_LEAST, _CELL_MOST = 4, 11
_COLOURS = 6
_MOST_LEGEND_ROWS = 2


@dataclass(frozen=True, slots=True)
class SliceCell:
    """A slice: the number of its inner array, and its state."""

    array: int
    state: SliceState = SliceState.WORKING


@dataclass(frozen=True, slots=True)
class SliceLine:
    """A row of the diagram: the slice of each disk that has one there; ``size`` is the size of a slice, as text."""

    size: str
    cells: tuple[SliceCell | None, ...]


@dataclass(frozen=True, slots=True)
class SlicePicture:
    """The contents of the diagram; ``arrays`` are (name, width) of the inner arrays: ``("md100", "4+1")``."""

    disks: tuple[DiagramMember, ...]
    lines: tuple[SliceLine, ...]
    arrays: tuple[tuple[str, str], ...]


class SliceDiagram(LineWidget):
    """The disks side by side, in the order of the choice; the slices of an inner array have its colour and name."""

    PREFIX = "slice-diagram"
    DEFAULT_CSS = """
    SliceDiagram {
        height: auto;
        & > .slice-diagram--member { color: $foreground; text-style: bold; }
        & > .slice-diagram--label { color: $foreground-muted; }
        & > .slice-diagram--note { color: $foreground-muted; }
        & > .slice-diagram--array0 { color: $foreground; background: $primary 45%; }
        & > .slice-diagram--array1 { color: $foreground; background: $success 30%; }
        & > .slice-diagram--array2 { color: $foreground; background: $warning 30%; }
        & > .slice-diagram--array3 { color: $foreground; background: $accent 30%; }
        & > .slice-diagram--array4 { color: $foreground; background: $secondary 40%; }
        & > .slice-diagram--array5 { color: $foreground; background: $foreground 18%; }
        & > .slice-diagram--gone { color: $text-error; background: $error 20%; }
        & > .slice-diagram--lost { color: $text-error; background: $error 45%; text-style: bold; }
        & > .slice-diagram--rebuilding { color: $text-warning; text-style: bold; }
    }
    """

    _picture: SlicePicture | None = None

    def show(self, picture: SlicePicture | None) -> None:
        """Draw this picture; None hides the diagram."""
        self.display = picture is not None
        if picture != self._picture:
            self._picture = picture
            self.changed(layout=True)

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
        cell = max(_CELL_LEAST, min(_CELL_MOST, (width - _LABEL_CELLS) // count))
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
            style, sign = self._look(each)
            line.add(f"{sign}{text}".center(cell - 1)[: cell - 1], self.style(style)).add(" ")
        return line

    def _look(self, cell: SliceCell) -> tuple[str, str]:
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
        """The inner arrays with the numbers of data and parity chunks of a stripe, grouped by these numbers."""
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
