"""The layout of an array: rows of chunks, a column for each member; parity and copies have their own colours."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from lab.arrays.geometry import Chunk, ChunkKind, StripeRow, stripe_rows
from lab.arrays.levels import Level, LevelName
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
