"""Tables, and their plain-text, Markdown and CSV forms. ``lab.report.page`` provides the HTML form."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile, zip_longest
from unicodedata import east_asian_width

from lab.gates.text import markdown, spreadsheet, visible

NOTHING = "–"
"""The text shown in place of a missing value."""
Value = str | int | float | None
_LEAST_TEXT_CELLS = 16
"""Minimum width of a column of text that wraps."""


@dataclass(frozen=True, slots=True)
class Column:
    """The heading of a column and the format of its values. Numbers are right-aligned."""

    title: str
    is_number: bool = True
    unit: str = ""
    form: str = ""
    """Format specification of its numbers, such as ``.2f``."""

    @property
    def heading(self) -> str:
        return f"{self.title} {self.unit}" if self.title and self.unit else self.title or self.unit

    def text(self, value: Value) -> str:
        if isinstance(value, str):
            return value
        return NOTHING if value is None else format(value, self.form)


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of values under headings, with ``notes`` below them."""

    title: str
    """The title. It is empty for a listing, which is printed without a rule below the headings."""
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def listing(cls, headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Iterable[str] = ()) -> Table:
        """Make a table without a title from cells of text. ``right`` contains the headings of right-aligned columns."""
        numbers = set(right)
        columns = tuple(Column(heading, heading in numbers) for heading in headings)
        return cls("", columns, tuple(tuple(map(str, row)) for row in rows))

    @property
    def texts(self) -> tuple[tuple[str, ...], ...]:
        columns = self.columns
        return tuple(tuple(column.text(value) for column, value in zip(columns, row, strict=True)) for row in self.rows)

    def within(self, width: int) -> Table:
        """Return this table. If it is too wide, leading columns that have the same value in all rows become a note."""
        if not self.rows or max(map(_width, self.as_text().splitlines())) <= width:
            return self
        texts = self.texts
        first = takewhile(lambda index: not self.columns[index].is_number, range(len(self.columns)))
        same = [index for index in first if len({row[index] for row in texts}) == 1 and texts[0][index]]
        remaining = [index for index in range(len(self.columns)) if index not in same]
        shared = ", ".join(texts[0][index] for index in same)
        return Table(
            self.title,
            tuple(self.columns[index] for index in remaining),
            tuple(tuple(row[index] for index in remaining) for row in self.rows),
            (f"every row: {shared}", *self.notes) if shared else self.notes,
        )

    def as_text(self, most_columns: int | None = None) -> str:
        """Return the table aligned with spaces and at most ``most_columns`` wide. Long texts wrap within their columns.

        If the columns would become too narrow, each row becomes a paragraph.
        """
        head = [visible(column.heading) for column in self.columns]
        body = [[visible(text) for text in row] for row in self.texts]
        widths = [max(_width(row[index]) for row in (head, *body)) for index in range(len(head))]
        narrow = widths if most_columns is None else self._narrowed(widths, most_columns)
        if narrow is None:
            lines = [line for row in body for line in _row_lines(head, row, most_columns or 0)]
        else:
            lines = [*self._lines(head, narrow)]
            lines += ["  ".join("─" * width for width in narrow)] if self.title else []
            lines += [line for row in body for line in self._lines(row, narrow)]
        title = [visible(self.title), ""] if self.title else []
        return "\n".join([*title, *lines, *(f"  {visible(note)}" for note in self.notes)])

    def _narrowed(self, widths: Sequence[int], most: int) -> list[int] | None:
        """Narrow the widest text columns until all columns fit. Return their widths, or None if some are too narrow."""
        narrow = list(widths)
        texts = [index for index, column in enumerate(self.columns) if not column.is_number]
        while sum(narrow) + 2 * (len(narrow) - 1) > most:
            widest = max(texts, key=lambda index: narrow[index], default=None)
            if widest is None or narrow[widest] <= _LEAST_TEXT_CELLS:
                return None
            narrow[widest] -= 1
        return narrow

    def _lines(self, row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
        cells = zip(row, widths, strict=True)
        parts = [[text] if _width(text) <= width else _wrapped(text, width) for text, width in cells]
        return (self._line(line, widths) for line in zip_longest(*parts, fillvalue=""))

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        cells = []
        for text, width, column in zip(row, widths, self.columns, strict=True):
            gap = " " * (width - _width(text))
            cells.append(gap + text if column.is_number else text + gap)
        return "  ".join(cells).rstrip()

    def as_document(self, is_markdown: bool, most_columns: int | None = None) -> str:
        return self.as_markdown() if is_markdown else self.as_text(most_columns)

    def as_markdown(self) -> str:
        title = [f"**{markdown(self.title)}**", ""] if self.title else []
        head = "| " + " | ".join(markdown(column.heading) for column in self.columns) + " |"
        rule = "|" + "|".join("---:" if column.is_number else "---" for column in self.columns) + "|"
        body = ["| " + " | ".join(map(markdown, row)) + " |" for row in self.texts]
        notes = ["", *(f"- {markdown(note)}" for note in self.notes)] if self.notes else []
        return "\n".join([*title, head, rule, *body, *notes])


def as_line(text: str, is_markdown: bool) -> str:
    """Return one line of untrusted text, escaped for a Markdown document or for a terminal."""
    return markdown(text) if is_markdown else visible(text)


def as_csv(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return CSV with a header line, quoted as in RFC 4180. Text that looks like a formula is escaped."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(head)
    writer.writerows([spreadsheet(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)
    return file.getvalue()


def _row_lines(head: Sequence[str], row: Sequence[str], width: int) -> list[str]:
    """Return the first cell, followed by each other cell with its heading."""
    cells = [f"{heading}: {text}" for heading, text in zip(head[1:], row[1:], strict=True) if text]
    first = textwrap.wrap(row[0], width) or [""]
    return first + textwrap.wrap("; ".join(cells), width, initial_indent="  ", subsequent_indent="  ")


def _wrapped(text: str, cells: int) -> list[str]:
    return textwrap.wrap(text, cells if _width(text) == len(text) else cells // 2)


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
