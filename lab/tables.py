"""A table as a value: what whoever has figures fills in, and its plain-text, Markdown and CSV forms.

As HTML it is drawn by the page's own template (``lab.report.page``).
"""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from unicodedata import east_asian_width

from lab.gates.text import markdown, spreadsheet, visible

NOTHING = "–"
"""Stands where there is no value."""
Value = str | int | float | None


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and how the values under it are written; numbers stand to the right."""

    title: str
    is_number: bool = True
    unit: str = ""
    form: str = ""
    """Of its numbers, as ``format`` takes it: ``.2f``."""

    @property
    def heading(self) -> str:
        """Title and unit."""
        return f"{self.title} {self.unit}" if self.title and self.unit else self.title or self.unit

    def text(self, value: Value) -> str:
        """A value as it stands in the table; text is shown as it is."""
        if isinstance(value, str):
            return value
        return NOTHING if value is None else format(value, self.form)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values under headings. ``notes`` explain what a reader must know to read it rightly."""

    title: str
    """Without one it is a listing: as text, its headings have no rule under them."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def listing(cls, headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> Table:
        """One without a title, of anything that can be written. ``right``: headings over numbers."""
        numbers = set(right)
        columns = tuple(Column(heading, heading in numbers) for heading in headings)
        return cls("", columns, tuple(tuple(map(str, row)) for row in rows))

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        """The rows as they are shown."""
        columns = self.columns
        return tuple(tuple(column.text(value) for column, value in zip(columns, row, strict=True)) for row in self.rows)

    def within(self, width: int) -> Table:
        """The same in fewer columns if it is wider: first columns that are the same in every row become a note."""
        if not self.rows or max(map(_width, self.as_text().splitlines())) <= width:
            return self
        texts = self.texts
        first = takewhile(lambda index: not self.columns[index].is_number, range(len(self.columns)))
        same = [index for index in first if len({row[index] for row in texts}) == 1 and texts[0][index]]
        kept = [index for index in range(len(self.columns)) if index not in same]
        said = ", ".join(texts[0][index] for index in same)
        return Table(
            self.title,
            tuple(self.columns[index] for index in kept),
            tuple(tuple(row[index] for index in kept) for row in self.rows),
            (f"every row: {said}", *self.notes) if said else self.notes,
        )

    def as_text(self, most_columns: int | None = None) -> str:
        """For a terminal, aligned with spaces: readable, and parseable by tools.

        Where it is wider than ``most_columns``, each row stands on lines of its own, its first cell first.
        """
        head = [visible(column.heading) for column in self.columns]
        body = [[visible(text) for text in row] for row in self.texts]
        widths = [max(_width(row[index]) for row in (head, *body)) for index in range(len(head))]
        top = [self._line(head, widths)]
        if self.title:
            top = [visible(self.title), "", *top, "  ".join("─" * width for width in widths)]
        lines = [*top, *(self._line(row, widths) for row in body)]
        if most_columns is not None and max(map(_width, lines)) > most_columns:
            lines = [line for row in body for line in _row_lines(head, row, most_columns)]
            lines = [visible(self.title), "", *lines] if self.title else lines
        return "\n".join([*lines, *(f"  {visible(note)}" for note in self.notes)])

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        cells = []
        for text, width, column in zip(row, widths, self.columns, strict=True):
            gap = " " * (width - _width(text))
            cells.append(gap + text if column.is_number else text + gap)
        return "  ".join(cells).rstrip()

    def as_markdown(self) -> str:
        """For documents."""
        title = [f"**{markdown(self.title)}**", ""] if self.title else []
        head = "| " + " | ".join(markdown(column.heading) for column in self.columns) + " |"
        rule = "|" + "|".join("---:" if column.is_number else "---" for column in self.columns) + "|"
        body = ["| " + " | ".join(map(markdown, row)) + " |" for row in self.texts]
        notes = ["", *(f"- {markdown(note)}" for note in self.notes)] if self.notes else []
        return "\n".join([*title, head, rule, *body, *notes])


def as_line(text: str, is_markdown: bool) -> str:
    """One line of text, which may be a stranger's, for a document or for a terminal."""
    return markdown(text) if is_markdown else visible(text)


def as_csv(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Comma-separated values (RFC 4180) with a heading line. No text in it is a formula."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([spreadsheet(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return file.getvalue()


def _row_lines(head: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """One row below its first cell, each of its other cells with its heading."""
    cells = [f"{heading}: {text}" for heading, text in zip(head[1:], row[1:], strict=True) if text]
    first = textwrap.wrap(row[0], width) or [""]
    return first + textwrap.wrap("; ".join(cells), width, initial_indent="  ", subsequent_indent="  ")


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
