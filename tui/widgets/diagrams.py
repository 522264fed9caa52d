"""Diagrams of where an array puts its chunks: stripe rows, and slices of disks in an array's inner arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from lab.arrays.geometry import Chunk, ChunkKind, StripeRow, stripe_rows
from lab.arrays.levels import Level, LevelName
from lab.arrays.status import SliceState
from lab.errors import SpecError
from lab.units import human_bytes
from tui.widgets.lines import Line, LineWidget, shorten

_CELL_LEAST = 4
_CELL_MOST = 14
_ROWS_WANTED = 6


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
    """Stripe rows × members. The chunks of a failed member are crossed out and marked as rebuildable or lost."""

    PREFIX = "stripe-diagram"
    DEFAULT_CSS = """
    StripeDiagram {
        height: auto;
        & > .stripe-diagram--member { color: $foreground; text-style: bold; }
        & > .stripe-diagram--label { color: $foreground-muted; }
        & > .stripe-diagram--note { color: $foreground-muted; }
        & > .stripe-diagram--data { color: $foreground; background: $primary 45%; }
        & > .stripe-diagram--other-data { color: $foreground; background: $primary 25%; }
        & > .stripe-diagram--copy { color: $foreground; background: $success 25%; }
        & > .stripe-diagram--p { color: $text-warning; background: $warning 25%; text-style: bold; }
        & > .stripe-diagram--q { color: $text-accent; background: $accent 25%; text-style: bold; }
        & > .stripe-diagram--failed { color: $text-error; background: $error 20%; }
        & > .stripe-diagram--lost { color: $text-error; background: $error 45%; text-style: bold; }
        & > .stripe-diagram--rebuilding { color: $text-warning; text-style: bold; }
    }
    """

    def __init__(
        self,
        *,
        rows: int = _ROWS_WANTED,
        empty_text: str = "choose disks to see where the data go",
        id: str | None = None,  # noqa: A002 (textual's name)
    ) -> None:
        """``rows`` is the number of rows with ``height: auto``; otherwise as many rows as fit are shown."""
        super().__init__(id=id)
        self.rows = rows
        self.empty_text = empty_text
        self._picture: _Picture | None = None

    def show(
        self, level: Level, layout: str | None, members: Sequence[DiagramMember], chunk_bytes: int | None = None
    ) -> None:
        """Draw this array; with too few members for the level, the text for an empty diagram is shown instead."""
        self._set(_Picture(level, layout, tuple(members), chunk_bytes))

    def clear(self, text: str | None = None) -> None:
        """Show the text for an empty diagram, which ``text`` replaces."""
        if text is not None and text != self.empty_text:
            self.empty_text = text
            self.changed(layout=True)
        self._set(None)

    def _set(self, picture: _Picture | None) -> None:
        if picture != self._picture:
            self._picture = picture
            self.changed(layout=True)

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
        shown, cell = self._columns(width - label_cells, len(picture.members), picture.members)
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

    def _columns(self, room: int, count: int, members: Sequence[DiagramMember]) -> tuple[int, int]:
        """(number of members that fit, cells of each column)."""
        longest = max(cell_len(member.name) for member in members) + 3
        cell = max(_CELL_LEAST, min(longest, _CELL_MOST, room // count))
        return max(1, min(count, room // cell)), cell

    def _cell(self, picture: _Picture, slot: int, chunk: Chunk, lost: frozenset[int]) -> tuple[str, str]:
        text = chunk.kind.value if chunk.kind.is_parity else str(chunk.number)
        if chunk.kind is ChunkKind.COPY:
            text += "'" * min(chunk.copy, 3)
        if picture.members[slot].failed:
            is_lost = not chunk.kind.is_parity and chunk.number in lost
            return ("lost", f"{self.glyphs.crossed}{text}") if is_lost else ("failed", f"{self.glyphs.crossed}{text}")
        return chunk.kind.value.lower(), text

    def _note(self, picture: _Picture, rows: Sequence[StripeRow], width: int, is_lost: bool) -> Line:
        """The legend: only the kinds of chunks that occur, the most important first."""
        line = self.line(width)
        kinds = {chunk.kind for row in rows for chunk in row.chunks}
        unit = "block" if picture.level.name is LevelName.RAID1 else "chunk"
        size = f" of {human_bytes(picture.chunk_bytes)}" if picture.chunk_bytes else ""
        entries: list[tuple[str, str, str]] = []
        if any(member.failed for member in picture.members):
            crossed = f"{self.glyphs.crossed}"
            entries.append(("lost", crossed, "LOST") if is_lost else ("failed", crossed, "read from the others"))
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
    """The stripe rows, about ``rows`` in total, divided between the parts of RAID 10 far; none for an invalid array."""
    try:
        first = stripe_rows(picture.level, picture.layout, len(picture.members), 1)
        parts = len(first)
        each = max(1, (rows - (parts - 1)) // parts)
        return stripe_rows(picture.level, picture.layout, len(picture.members), each)
    except SpecError:
        return ()


def _lost_numbers(picture: _Picture, rows: Sequence[StripeRow]) -> frozenset[int]:
    """The data chunks whose copies are all on failed members, if the array does not survive these failures."""
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
    """The names, or only their numbers if a name does not fit: ``01`` for ``disk01``."""
    if all(cell_len(name) <= cells for name in names):
        return list(names)
    numbers = [name.lstrip("abcdefghijklmnopqrstuvwxyz-_") or name for name in names]
    return [shorten(number, max(cells, 2), ellipsis) for number in numbers]


def add_heads(widget: LineWidget, line: Line, members: Sequence[DiagramMember], cell: int, shown: int) -> Line:
    """Append the names of the columns, marked if failed or rebuilding, and the number of members not shown."""
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
