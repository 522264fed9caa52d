"""Strict TOML: every mistake is named, with the nearest known key."""

from __future__ import annotations

import gc
import os
import time
import tomllib
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lab.errors import SpecError
from lab.gates.decoding import MOST_TOML_BYTES, parse_toml
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


def test_whatever_keeps_a_file_from_being_read_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_bytes(b"\xff\xfe")
    (tmp_path / "large.toml").write_bytes(b"#" * (MOST_TOML_BYTES + 1))
    (tmp_path / "circle.toml").symlink_to(tmp_path / "circle.toml")
    (tmp_path / "endless.toml").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "pipe.toml")
    messages = {
        "none.toml": "there is no file",
        "": "is a folder, not a file",
        "bad.toml": "byte 1 is not UTF-8",
        "large.toml": "is larger than 256 KiB",
        "circle.toml": "cannot be read: Too many levels",
        "endless.toml": "is a device, not a file",
        "pipe.toml": "is a pipe, not a file",
        "bad.toml/below": "cannot be read: Not a directory",
        "x" * 300: "cannot be read: File name too long",
        "zero\0byte": "a path cannot contain a zero byte",
    }
    for name, words in messages.items():
        with pytest.raises(SpecError, match=f"{words}.*\n  next: "):
            read_toml(tmp_path / name, Whole)


LONGEST_GOOD = "".join(f"[[parts]]\nmembers = {n}\n" for n in range(MOST_TOML_BYTES // 26))
"""About as long as a text may be."""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("members = " + "9" * 5000, "a word of 5,000 characters", id="digits"),
        pytest.param("members = " + "9_" * 2500 + "9", "a word of 5,001 characters", id="digits apart"),
        pytest.param("a." * 50_000 + "a = 1", "nests tables", id="dots"),
        pytest.param("a .\t" * 30_000 + "a = 1", "nests tables", id="dots apart"),
        pytest.param('"a"."b".' * 30_000 + "a = 1", "nests tables", id="dots of strings"),
        pytest.param("[" + "a." * 50_000 + "a]", "nests tables", id="dots of a header"),
        pytest.param('x = """\n""""\n' + "a." * 50_000 + "a = 1", "nests tables", id="dots after a string"),
        pytest.param("x = " + "[" * 10_000 + "]" * 10_000, "nests tables", id="lists"),
        pytest.param("x = " + "{a=" * 10_000 + "1" + "}" * 10_000, "nests tables", id="tables"),
        pytest.param("x = " + "{a.b.c.d.e=" * 20 + "1" + "}" * 20, "nests tables", id="tables with dots"),
        pytest.param("".join(f"k{n} = 1\n" for n in range(20_000)), "a table or list of 20,000 entries", id="keys"),
        pytest.param("x = [" + "1," * 100_000 + "]", "a table or list of 100,000 entries", id="list"),
        pytest.param("[[a]]\n" * 40_000, "a table or list of 40,000 entries", id="tables of a list"),
        pytest.param("".join(f"{'k' * 200}{n} = 1\n" for n in range(900)), "and 891 more", id="unknown keys"),
        pytest.param(f'"{"k" * 200_000}" = 1', "unknown key", id="long key"),
        pytest.param('x = """\\' + '"""\\' * 50_000, "is not TOML", id="strings without end"),
        pytest.param('"\\' * 100_000, "is not TOML", id="escapes without end"),
        pytest.param("x = '''" + "''" * 100_000, "a word of", id="quotes without end"),
        pytest.param("#" * 300_000, "is larger than 256 KiB", id="size"),
    ],
)
def test_every_bad_text_is_refused_quickly_with_a_short_message(text: str, words: str) -> None:
    # A garbage collection would go through everything that earlier tests have left.
    gc.disable()
    try:
        began = time.process_time()
        tomllib.loads(LONGEST_GOOD)
        usual_seconds = time.process_time() - began
        began = time.process_time()
        with pytest.raises(SpecError) as caught:
            decode_toml(text, Whole)
        assert time.process_time() - began < 20 * usual_seconds
    finally:
        gc.enable()
    assert words in caught.value.message
    assert len(str(caught.value)) < 5000
    assert caught.value.hint


TEXTS = [
    'a = "x.y.z # [[[["',
    'a = \'x"y\' # it\'s """ [[[',
    f'a = """{"." * 500}""""" # {"." * 500}',
    f"a = '''{'.' * 500}''\n'''''\nb = \"\\\"{'[' * 100}\"",
    f'a = "\\\\" # {"." * 500}\nb = ""\nc = """\\\\{"." * 500}""" # """',
    f'"{"." * 500}" = ["{"[" * 100}", 1.5, 1979-05-27T07:32:00.5Z]',
]


@pytest.mark.parametrize("text", TEXTS)
def test_special_characters_in_strings_and_comments_are_ignored(text: str) -> None:
    assert parse_toml(text) == tomllib.loads(text)


@given(st.lists(st.sampled_from([*"\"'\\#[]{}=.,\n ", '"""', "'''", "a", "1", *TEXTS])).map("".join))
@example('a = """""""')
def test_what_tomllib_reads_is_read_alike(text: str) -> None:
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        with pytest.raises(SpecError):
            parse_toml(text)
        return
    assert parse_toml(text) == tree


def test_nearest_words() -> None:
    assert nearest("rand-reed-4k", ["rand-read-4k", "seq-read-1m"]) == "rand-read-4k"
    assert nearest("xyz", ["rand-read-4k"]) is None
    assert "known: a, b" in unknown_word("thing", "zzz", ["b", "a"]).hint
