"""Strict TOML: every mistake is named, with the nearest known key."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.errors import LabError, SpecError
from lab.tomlfile import decode_toml, nearest, read_toml, unknown_word


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    chunk_bytes: int
    members: int = 2


class Whole(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    parts: tuple[Part, ...] = ()
    named: dict[str, Part] = {}
    sizes_bytes: tuple[int, ...] = ()
    factor: float = 1.0
    one: Part | None = None


def test_sizes_may_be_text_and_whole_numbers_may_be_floats() -> None:
    whole = decode_toml('title = "x"\nfactor = 2\nsizes_bytes = ["4K", 5]\n[[parts]]\nchunk_bytes = "64K"\n', Whole)
    assert whole == Whole(title="x", parts=(Part(65536),), sizes_bytes=(4096, 5), factor=2.0)


def test_all_problems_are_listed_with_paths_and_nearest_keys() -> None:
    text = """
titel = "x"
factor = "fast"
[[parts]]
chunk_byte = 5
[[parts]]
chunk_bytes = "many"
members = "two"
[named.a]
chunk_bytes = 1
colour = 3
[one]
"""
    with pytest.raises(SpecError) as caught:
        decode_toml(text, Whole, source="my.toml")
    message = caught.value.message
    assert "my.toml" in message
    assert "unknown key 'titel': did you mean 'title'?" in message
    assert "key 'title' is missing" in message
    assert "factor: Expected `float`, got `str`" in message
    assert "unknown key 'parts[0].chunk_byte': did you mean 'chunk_bytes'?" in message
    assert "parts[1].chunk_bytes 'many' is not a size" in message
    assert "parts[1].members: Expected `int`, got `str`" in message
    assert "unknown key 'named.a.colour': known here: chunk_bytes, members" in message
    assert "key 'one.chunk_bytes' is missing" in message


def test_syntax_errors_name_the_line() -> None:
    with pytest.raises(SpecError, match="line 2"):
        decode_toml('title = "x"\nfactor =\n', Whole)


def test_a_missing_and_an_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="there is no file"):
        read_toml(tmp_path / "none.toml", Whole)
    with pytest.raises(SpecError, match="cannot be read"):
        read_toml(tmp_path, Whole)
    bad = tmp_path / "bad.toml"
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="cannot be read"):
        read_toml(bad, Whole)


def test_nearest_words() -> None:
    assert nearest("rand-reed-4k", ["rand-read-4k", "seq-read-1m"]) == "rand-read-4k"
    assert nearest("xyz", ["rand-read-4k"]) is None
    assert "known: a, b" in unknown_word("thing", "zzz", ["b", "a"]).hint


@given(st.text())
def test_any_text_gives_a_struct_or_a_lab_error(text: str) -> None:
    with contextlib.suppress(LabError):
        decode_toml(text, Whole)
