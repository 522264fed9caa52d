"""A table as a value, and its plain-text, Markdown and CSV forms."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from unicodedata import east_asian_width

from lab.gates.text import markdown, spreadsheet, visible


@dataclass(frozen=True, slots=True)
class Column:
    """A heading; numbers stand to the right."""

    title: str
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under headings. ``notes`` explain what a reader must know to read it rightly."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    def within(self, width: int) -> Table:
        """The same in fewer columns if it is wider: first columns that are the same in every row become a note."""
        if not self.rows or max(map(_width, self.as_text().splitlines())) <= width:
            return self
        first = takewhile(lambda index: not self.columns[index].is_number, range(len(self.columns)))
        same = [index for index in first if len({row[index] for row in self.rows}) == 1 and self.rows[0][index]]
        kept = [index for index in range(len(self.columns)) if index not in same]
        said = ", ".join(self.rows[0][index] for index in same)
        return Table(
            self.title,
            tuple(self.columns[index] for index in kept),
            tuple(tuple(row[index] for index in kept) for row in self.rows),
            (f"every row: {said}", *self.notes) if said else self.notes,
        )

    def as_text(self) -> str:
        """For a terminal, aligned with spaces."""
        head = tuple(visible(column.title) for column in self.columns)
        body = [tuple(map(visible, row)) for row in self.rows]
        widths = [max(_width(row[index]) for row in (head, *body)) for index in range(len(head))]
        lines = [visible(self.title), "", self._line(head, widths), "  ".join("─" * width for width in widths)]
        lines += [self._line(row, widths) for row in body]
        lines += [f"  {visible(note)}" for note in self.notes]
        return "\n".join(line.rstrip() for line in lines)

    def _line(self, row: Sequence[str], widths: Sequence[int]) -> str:
        cells = []
        for text, width, column in zip(row, widths, self.columns, strict=True):
            gap = " " * (width - _width(text))
            cells.append(gap + text if column.is_number else text + gap)
        return "  ".join(cells)

    def as_markdown(self) -> str:
        """For documents."""
        head = "| " + " | ".join(markdown(column.title) for column in self.columns) + " |"
        rule = "|" + "|".join("---:" if column.is_number else "---" for column in self.columns) + "|"
        body = ["| " + " | ".join(map(markdown, row)) + " |" for row in self.rows]
        notes = ["", *(f"- {markdown(note)}" for note in self.notes)] if self.notes else []
        return "\n".join([f"**{markdown(self.title)}**", "", head, rule, *body, *notes])


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


def _width(text: str) -> int:
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)
