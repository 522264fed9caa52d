from __future__ import annotations

import pytest

from lab.tables import NOTHING, Column, Table

TABLE = Table("Title", (Column("name", False), Column("µs")), (("a|b", "1"), ("漢字", "1234")), ("a note",))


def test_text() -> None:
    assert TABLE.as_text() == "\n".join(
        ["Title", "", "name    µs", "────  ────", "a|b      1", "漢字  1234", "  a note"]
    )


def test_markdown() -> None:
    assert TABLE.as_markdown() == "\n".join(
        ["**Title**", "", "| name | µs |", "|---|---:|", "| a\\|b | 1 |", "| 漢字 | 1234 |", "", "- a note"]
    )
    assert Table("T", (Column("n"),), (("1",),)).as_markdown().endswith("| 1 |")
    with pytest.raises(ValueError, match="shorter than"):
        Table("T", (Column("a"), Column("b")), (("1",),)).as_markdown()


def test_values_are_formatted_as_their_column_defines() -> None:
    columns = (
        Column("of", False),
        Column("rebuild", unit="s", form=".1f"),
        Column("", unit="MB/s"),
        Column("n", form=","),
    )
    shown = Table("T", columns, (("a", 12.34, "fast", 1234), ("b", None, 7, 0)))
    assert [column.heading for column in columns] == ["of", "rebuild s", "MB/s", "n"]
    assert shown.texts == (("a", "12.3", "fast", "1,234"), ("b", NOTHING, "7", "0"))


def test_a_listing_has_no_title_and_no_rule() -> None:
    shown = Table.listing(("disk", "", "size"), [("a\x1b", None, 7), ("bcd", True, 10)], right=("size",))
    assert shown.as_text() == "\n".join(["disk         size", r"a\x1b  None     7", "bcd    True    10"])
    assert shown.as_markdown().startswith("| disk |  | size |\n|---|---|---:|\n")


def test_a_row_too_wide_for_the_terminal_is_split_into_lines() -> None:
    shown = Table.listing(("array", "is", "of"), [("raid5", "slow", "because one disk is"), ("raid1", "", "y")])
    assert shown.as_text(80) == shown.as_text()
    assert shown.as_text(30).splitlines() == [
        "array  is    of", "raid5  slow  because one disk", "             is", "raid1        y"
    ]  # fmt: skip
    assert shown.as_text(25).splitlines() == ["raid5", "  is: slow; of: because", "  one disk is", "raid1", "  of: y"]
    titled = Table("T", shown.columns, shown.rows, ("note",))
    assert titled.as_text(25).splitlines()[:3] + titled.as_text(32).splitlines()[-1:] == ["T", "", "raid5", "  note"]


def test_wide_characters_wrap_at_the_width_of_the_terminal() -> None:
    shown = Table.listing(("name", "what"), [("a", "漢" * 40)])
    assert max(sum(1 + (ord(each) > 0x2E80) for each in line) for line in shown.as_text(50).splitlines()) <= 50
