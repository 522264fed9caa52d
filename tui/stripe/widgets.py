"""The widgets of the Stripe screen: the bytes of a stripe, and the states after a crash in a small write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.microscope.small_write import CrashOutcome, CrashState
from tui.look import Tone
from tui.widgets.diagrams import fitting_names
from tui.widgets.lines import Line, LineWidget, RowsWidget, shorten

_PLACE_CELLS = 8
_HEAD_LINES = 3
_BYTES_IN_ROW = (16, 8, 4, 2, 1)


@dataclass(frozen=True, slots=True)
class HexColumn:
    """The stored content of a chunk, or its computed content."""

    slot: int
    name: str
    """The name of the disk; empty for computed content."""
    holds: str
    """The kind of the content: ``data 9``, ``P``, ``computed``."""
    look: str
    """The style: ``data``, ``copy``, ``p`` or ``q``."""
    data: bytes | None
    wrong: frozenset[int] = frozenset()
    """Indices in ``data`` of the bytes that differ."""
    tone: Tone = Tone.QUIET
    note: str = ""
    """The result in a word or two: ``agrees``, ``3 differ``, ``missing``."""
    short: tuple[str, str] = ("", "")
    """Short forms of ``holds`` and ``note`` for narrow columns."""


class StripeHex(LineWidget):
    """The heads of the columns, and below them as many rows of bytes as fit."""

    PREFIX = "stripe-hex"
    DEFAULT_CSS = """
    StripeHex {
        height: 1fr;
        & > .stripe-hex--place { color: $foreground-muted; }
        & > .stripe-hex--name { color: $foreground; text-style: bold; }
        & > .stripe-hex--cursor { color: $block-cursor-foreground; background: $block-cursor-background; }
        & > .stripe-hex--data { color: $foreground; background: $primary 25%; }
        & > .stripe-hex--copy { color: $foreground; background: $success 25%; }
        & > .stripe-hex--p { color: $text-warning; background: $warning 25%; text-style: bold; }
        & > .stripe-hex--q { color: $text-accent; background: $accent 25%; text-style: bold; }
        & > .stripe-hex--byte { color: $foreground; }
        & > .stripe-hex--zero { color: $foreground-muted; }
        & > .stripe-hex--wrong { color: $text-error; background: $error 30%; text-style: bold; }
        & > .stripe-hex--good { color: $text-success; }
        & > .stripe-hex--bad { color: $text-error; text-style: bold; }
        & > .stripe-hex--notice { color: $text-warning; }
        & > .stripe-hex--busy { color: $text-primary; }
        & > .stripe-hex--quiet { color: $foreground-muted; }
    }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 (textual's name)
        super().__init__(id=id)
        self._columns: tuple[HexColumn, ...] = ()
        self._first = 0
        self._slot: int | None = None
        self._skip = 0
        self._empty = ""

    def show(self, columns: Sequence[HexColumn], first: int, slot: int | None, skip: int = 0) -> None:
        """Show the columns from byte ``first`` of each chunk; ``slot`` has the cursor, ``data`` begin at ``skip``."""
        shown = (tuple(columns), first, slot, skip)
        if shown != (self._columns, self._first, self._slot, self._skip):
            self._columns, self._first, self._slot, self._skip = shown
            self.changed()

    def clear(self, text: str) -> None:
        """Show ``text`` in place of a stripe."""
        if self._columns or text != self._empty:
            self._columns, self._empty = (), text
            self.changed()

    @property
    def rows(self) -> int:
        return max(1, self.size.height - _HEAD_LINES)

    def bytes_in_row(self, width: int | None = None) -> int:
        """Number of bytes of each chunk in a row; it depends on the width."""
        room = (self.size.width if width is None else width) - _PLACE_CELLS
        count = max(1, len(self._columns))
        return next((each for each in _BYTES_IN_ROW if (3 * each + 1) * count <= room), 1)

    def paint(self, width: int, height: int) -> list[Line]:
        if not self._columns:
            return [self.line(width).add(shorten(self._empty, width, self.glyphs.ellipsis), self.style("place"))]
        in_row = self.bytes_in_row(width)
        cell = 3 * in_row + 1
        shown = self._in_sight(max(1, (width - _PLACE_CELLS) // cell))
        heads = [self._head(width, shown, cell, part) for part in ("name", "holds", "note")]
        rows = []
        for row in range(max(0, height - _HEAD_LINES)):
            start = self._first + row * in_row
            if any(column.data and start - self._skip < len(column.data) for column in shown):
                rows.append(self._row(width, shown, start, in_row))
        return [*heads, *rows]

    def _in_sight(self, count: int) -> tuple[HexColumn, ...]:
        """The ``count`` successive columns that include that of the cursor."""
        slots = [column.slot for column in self._columns]
        at = slots.index(self._slot) if self._slot in slots else 0
        last = max(index for index, slot in enumerate(slots) if slot == slots[at])
        first = max(0, min(at, last - count + 1), last - count + 1) if last >= count else 0
        return self._columns[first : first + count]

    def _head(self, width: int, shown: Sequence[HexColumn], cell: int, part: str) -> Line:
        line = self.line(width)
        missing = len(self._columns) - len(shown)
        line.add(f"+{missing} more" if missing and part == "name" else "", self.style("place")).pad_to(_PLACE_CELLS)
        names = fitting_names([column.name for column in shown], cell - 2, self.glyphs.ellipsis)
        for column, name in zip(shown, names, strict=True):
            text, style = self._title(column, name, cell - 1, part)
            line.add(shorten(text, cell - 1, self.glyphs.ellipsis).ljust(cell - 1), self.style(style)).add(" ")
        return line

    def _title(self, column: HexColumn, name: str, room: int, part: str) -> tuple[str, str]:
        """The text above a column in this line of the head, and its style."""
        is_marked = bool(name) and column.slot == self._slot
        if part == "name":
            return (
                f"{self.glyphs.cursor if is_marked else ' '}{name}" if name else "",
                "cursor" if is_marked else "name",
            )
        if part == "holds":
            return (f" {column.holds}" if len(column.holds) < room else f" {column.short[0]}"), column.look
        note = column.note if len(column.note) + 3 <= room else column.short[1]
        sign = column.tone.glyph(self.glyphs) if column.note else ""
        return f" {sign} {note}".rstrip(), column.tone.value

    def _row(self, width: int, shown: Sequence[HexColumn], start: int, in_row: int) -> Line:
        line = self.line(width).add(f"{start:>{_PLACE_CELLS - 1}} ", self.style("place"))
        for column in shown:
            for byte in range(start - self._skip, start - self._skip + in_row):
                if column.data is None or not 0 <= byte < len(column.data):
                    line.add("   ")
                    continue
                value = column.data[byte]
                is_wrong = byte in column.wrong
                style = "wrong" if is_wrong else "byte" if value else "zero"
                line.add(f"{'>' if is_wrong else ' '}{value:02x}", self.style(style))
            line.add(" ")
        return line


_WORDS = {
    CrashOutcome.OLD: ("old", Tone.GOOD),
    CrashOutcome.NEW: ("new", Tone.GOOD),
    CrashOutcome.EITHER: ("either", Tone.NOTICE),
    CrashOutcome.MIXED: ("neither", Tone.NOTICE),
    CrashOutcome.HOLE: ("HOLE", Tone.BAD),
    CrashOutcome.LOST: ("lost", Tone.BAD),
}
_WRITTEN_CELLS = 18
_FITS_CELLS = 4
_LEAST_CELLS = 7


@dataclass(frozen=True, slots=True)
class CrashRow:
    """A state that a crash can leave."""

    written: str
    """The completed writes, such as ``data + P``."""
    state: CrashState


class CrashTable(RowsWidget[CrashRow]):
    """Shows what is read in each state; an arrow marks the states that md's own order of writes can leave."""

    PREFIX = "crash-table"
    DEFAULT_CSS = """
    CrashTable {
        height: auto;
        & > .crash-table--head { color: $foreground-muted; }
        & > .crash-table--written { color: $foreground; }
        & > .crash-table--good { color: $foreground; }
        & > .crash-table--notice { color: $text-warning; }
        & > .crash-table--bad { color: $text-error; background: $error 30%; text-style: bold; }
    }
    """

    _names: tuple[str, ...] = ()

    def show_states(self, rows: Sequence[CrashRow], names: Sequence[str]) -> None:
        """Show these rows; ``names`` are the names of the disks, by slot."""
        self._names = tuple(names)
        self.show(rows)

    def paint(self, width: int, height: int) -> list[Line]:
        singles = [read.lost for read in self._rows[0].state.reads if len(read.lost) < 2] if self._rows else []
        room = width - _WRITTEN_CELLS - _FITS_CELLS
        cell = max(_LEAST_CELLS, min(12, room // max(1, len(singles))))
        names = fitting_names(self._names, cell - 2, self.glyphs.ellipsis)
        titles = ["all" if not lost else f"-{names[lost[0]]}" for lost in singles]
        head = self.line(width).add(" written".ljust(_WRITTEN_CELLS) + "fit ", self.style("head"))
        for title in titles:
            head.add(shorten(title, cell - 1, self.glyphs.ellipsis).ljust(cell), self.style("head"))
        return [head, *(self._line(width, row, singles, cell) for row in self._rows)]

    def _line(self, width: int, row: CrashRow, singles: Sequence[tuple[int, ...]], cell: int) -> Line:
        arrow = self.glyphs.arrow if row.state.is_beginning else " "
        written = shorten(f"{arrow}{row.written}", _WRITTEN_CELLS - 1, self.glyphs.ellipsis).ljust(_WRITTEN_CELLS)
        fits = self.glyphs.good if row.state.is_consistent else self.glyphs.bad
        line = self.line(width).add(written, self.style("written"))
        line.add(f" {fits}  ", self.style("good" if row.state.is_consistent else "notice"))
        for lost in singles:
            text, tone = _WORDS[row.state.without(*lost).outcome]
            line.add(text, self.style(tone.value)).add(" " * (cell - len(text)))
        return line
