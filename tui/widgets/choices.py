"""A form of rows, each with a few values to step through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual.binding import Binding, BindingType
from textual.events import Click
from textual.message import Message

from tui.widgets.lines import Line, LineWidget, shorten


@dataclass(frozen=True, slots=True)
class ChoiceRow:
    """One row: a label, the possible values, and the current one."""

    key: str
    label: str
    values: tuple[str, ...] = ()
    """The possible values, in the order of stepping; empty for a row without a choice."""
    current: str = ""
    note: str = ""
    """A few words after the value, or the reason why there is none."""

    def step(self, by: int) -> str:
        """The value ``by`` steps after the current one, cyclically."""
        if self.current not in self.values:
            return self.values[0]
        return self.values[(self.values.index(self.current) + by) % len(self.values)]


def stepped(rows: Sequence[ChoiceRow], key: str, by: int) -> str | None:
    """The value ``by`` steps after the current one of the row ``key``; None if the row has no choice."""
    values = [row.step(by) for row in rows if row.key == key and len(row.values) > 1]
    return values[0] if values else None


class Choices(LineWidget, can_focus=True):
    """Rows of values. Up and down move between the rows, left and right through the values of a row."""

    PREFIX = "choices"
    HELP = "Up and down choose a row, left and right its value."
    DEFAULT_CSS = """
    Choices {
        height: auto;
        & > .choices--label { color: $foreground-muted; }
        & > .choices--value { color: $foreground; text-style: bold; }
        & > .choices--arrow { color: $text-primary; }
        & > .choices--note { color: $foreground-muted; }
        & > .choices--cursor { background: $foreground 8%; }
        &:focus > .choices--cursor { background: $block-cursor-blurred-background; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "row(-1)", "Row up", show=False, id="choices.up", tooltip="To the row above"),
        Binding("down,j", "row(1)", "Row down", show=False, id="choices.down", tooltip="To the row below"),
        Binding("left,h", "step(-1)", "Previous value", show=False, id="choices.before", tooltip="The previous value"),
        Binding("right,l,space,enter", "step(1)", "Next value", id="choices.next", tooltip="The row's next value"),
    ]

    @dataclass
    class Stepped(Message):
        """The user stepped ``by`` values; relative, because the value may change before the message is handled."""

        key: str
        by: int

    def __init__(self, rows: Sequence[ChoiceRow] = (), *, id: str | None = None) -> None:  # noqa: A002 (textual's name)
        super().__init__(id=id)
        self._rows = tuple(rows)
        self._cursor = 0

    def show(self, rows: Sequence[ChoiceRow]) -> None:
        """Show these rows; the cursor stays on the same row number."""
        if tuple(rows) != self._rows:
            is_other_height = len(rows) != len(self._rows)
            self._rows = tuple(rows)
            self._cursor = min(self._cursor, max(0, len(self._rows) - 1))
            self.changed(layout=is_other_height)

    def action_row(self, by: int) -> None:
        if self._rows:
            self._cursor = (self._cursor + by) % len(self._rows)
            self.changed()

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
        self.changed()
        # A click before the value steps back, a click on it or after it steps forward.
        if offset.x >= self._label_cells:
            self.action_step(-1 if offset.x < self._label_cells + 2 else 1)

    @property
    def _label_cells(self) -> int:
        return max((len(row.label) for row in self._rows), default=0) + 3

    def on_focus(self) -> None:
        self.changed()

    def on_blur(self) -> None:
        self.changed()

    def lines_needed(self, width: int) -> int:
        return len(self._rows)

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
