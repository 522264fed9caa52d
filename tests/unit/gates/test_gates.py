from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.errors import ResultError, SpecError
from lab.gates.decoding import DiskCount, Hertz, Margin, Seconds, SizeBytes, checked, parse_bytes, whole
from lab.gates.files import gunzip, open_plain, read_plain
from lab.gates.text import checked_name, is_name, markdown, spreadsheet, visible, visible_json

anything = st.text(st.characters(exclude_categories=[]))


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (float("nan"), Seconds),
        (float("inf"), Seconds),
        (-float("inf"), Seconds),
        (1e-300, Hertz),
        (10**400, DiskCount),
        (-(10**400), DiskCount),
        (0, DiskCount),
        (65, DiskCount),
        (-1, SizeBytes),
        (2**63, SizeBytes),
        (1.0, Margin),
    ],
)
def test_a_number_out_of_bounds_is_told_the_bounds(value: float, kind: Any) -> None:
    with pytest.raises(SpecError) as told:
        checked(value, kind, "figure")
    assert "write " in told.value.hint
    assert len(str(told.value)) < 200


@given(st.floats(), st.sampled_from([Seconds, Hertz, Margin]))
def test_only_finite_numbers_pass(value: float, kind: Any) -> None:
    try:
        passed = checked(value, kind, "figure")
    except SpecError:
        return
    assert 0 <= passed < 10**9


@pytest.mark.parametrize("text", ["9" * 5000, "-" + "9" * 5000, "٣", "1.5", "", "+", "1_000", "0x10", "4\x1b[31m"])
def test_no_text_but_digits_is_a_whole_number(text: str) -> None:
    with pytest.raises(SpecError):
        whole(text)


@given(anything)
@example("9" * 5000)
@example("9" * 5000 + "T")
def test_a_size_is_read_or_refused(text: str) -> None:
    try:
        size = parse_bytes(text)
    except SpecError:
        return
    assert 0 <= size < 2**63


@given(anything)
@example("../../victim")
@example("")
@example("/etc/passwd")
@example("..")
@example("-rf")
@example(".hidden")
@example("a" * 300)
@example("disk\n")
@example("disk\x1b[31m")
def test_a_name_stays_in_its_folder(text: str) -> None:
    if not is_name(text):
        with pytest.raises(SpecError):
            checked_name(text, "disk")
        return
    inside = Path("/folder") / text
    assert os.path.normpath(inside) == str(inside)
    assert inside.parent == Path("/folder")
    assert text.isascii()
    assert text.isprintable()
    assert not text.startswith((".", "-"))


@given(anything)
@example("\x1b]0;title\x07")
@example("\x9b31m")
@example("\u202ereversed")
@example("a\r\nb")
@example("\udcff")
def test_what_is_shown_does_nothing_to_a_terminal(text: str) -> None:
    shown = visible(text)
    shown.encode()
    assert all(c.isprintable() or c.isspace() for c in shown)
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)
    assert "\n" not in shown
    assert visible(shown) == shown
    if text.isprintable():
        assert shown == text


@given(st.recursive(st.none() | anything | st.floats(allow_nan=False), lambda inner: st.lists(inner), max_leaves=5))
@example("\x9b31m\x7f\u202e")
def test_json_that_is_shown_means_the_same(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    shown = visible_json(text)
    assert json.loads(shown) == value
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in shown)


@pytest.mark.parametrize(
    "text",
    ["<script>", "[a](javascript:x)", "| a |", "`x`", "a\n# b", "<!--", "&lt;", "~~x~~", "[a]: http://x", "# x", "- x"],
)
def test_markdown_shows_what_is_written(text: str) -> None:
    shown = markdown(text)
    assert "<" not in shown
    assert "\n" not in shown
    assert "](" not in shown.replace(r"\](", "")
    assert "]:" not in shown.replace(r"\]:", "")
    assert not shown.startswith(("# ", "- "))
    assert "|" not in shown.replace(r"\|", "")


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1+cmd", "-cmd", "@SUM(1)", "\t=1", "\r=1"])
def test_no_cell_of_a_spreadsheet_is_a_formula(text: str) -> None:
    assert spreadsheet(text)[0] not in "=+-@\t\r"


@pytest.mark.parametrize("text", ["-1.5", "+3", "1e9", "-2e-3", "", "RAID 5"])
def test_numbers_of_a_spreadsheet_stay(text: str) -> None:
    assert spreadsheet(text) == text


def test_only_a_plain_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(ResultError, match=r"is a .*, not a file"):
            read_plain(path, 10)


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ResultError, match="larger than"):
        read_plain(large, 1000)


def test_an_own_file_is_no_link_and_has_one_name(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"data")
    (tmp_path / "link").symlink_to(victim)
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    os.link(victim, tmp_path / "hard")
    for name in ("link", "dangling", "hard", "victim"):
        with pytest.raises(ResultError):
            open_plain(tmp_path / name, os.O_RDWR, is_own=True)
    assert read_plain(tmp_path / "link", 10) == b"data"


@pytest.mark.parametrize("members", [1, 3])
def test_gzip_is_unpacked_up_to_its_bound(members: int) -> None:
    data = gzip.compress(b"x" * 100) * members
    assert gunzip(data, 100 * members, "it") == b"x" * 100 * members
    with pytest.raises(ResultError, match="larger than"):
        gunzip(data, 100 * members - 1, "it")


def test_a_gzip_of_endless_parts_is_refused() -> None:
    with pytest.raises(ResultError, match="too many parts"):
        gunzip(gzip.compress(b"") * 500_000, 100, "it")


@given(st.binary(max_size=200), st.integers(0, 200))
def test_damaged_gzip_is_an_error_of_the_lab(data: bytes, cut: int) -> None:
    for damaged in (data, gzip.compress(data)[: cut % 18 + 1], gzip.compress(data) + b"more"):
        try:
            gunzip(damaged, 10**6, "it")
        except ResultError:
            continue
        assert damaged == b""
