"""The canvas of the charts: dots on a grid of character cells, as braille patterns or ASCII."""

from __future__ import annotations

from dataclasses import dataclass, field

from tui.look import Canvas

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
