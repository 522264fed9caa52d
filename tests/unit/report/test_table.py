from __future__ import annotations

import csv
import io

import pytest

from lab.report.table import Column, Table, as_csv

TABLE = Table(
    "Title",
    (Column("name", False), Column("µs")),
    (("a|b", "1"), ("漢字", "1234")),
    ("a note",),
)


def test_text() -> None:
    assert TABLE.as_text() == "\n".join(
        ["Title", "", "name    µs", "────  ────", "a|b      1", "漢字  1234", "  a note"]
    )


def test_markdown() -> None:
    assert TABLE.as_markdown() == "\n".join(
        ["**Title**", "", "| name | µs |", "|---|---:|", "| a\\|b | 1 |", "| 漢字 | 1234 |", "", "- a note"]
    )


def test_markdown_without_notes_ends_with_its_rows() -> None:
    assert Table("T", (Column("n"),), (("1",),)).as_markdown().endswith("| 1 |")


def test_a_row_of_another_length_is_a_mistake() -> None:
    with pytest.raises((ValueError, IndexError)):
        Table("T", (Column("a"), Column("b")), (("1",),)).as_text()


def test_csv_quotes_what_must_be_quoted() -> None:
    text = as_csv(("a", "b"), [["x,y", 'say "hi"'], [1, ""]])
    assert text == 'a,b\n"x,y","say ""hi"""\n1,\n'
    assert list(csv.reader(io.StringIO(text)))[1] == ["x,y", 'say "hi"']
