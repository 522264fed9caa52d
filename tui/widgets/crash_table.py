"""The states after a crash in a small write: a row for each set of completed writes, a column for each lost disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.microscope.small_write import CrashOutcome, CrashState
from tui.look import Tone
from tui.widgets.lines import Line, RowsWidget, shorten
from tui.widgets.stripe_diagram import fitting_names

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
