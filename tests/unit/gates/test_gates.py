"""Numbers, names, text, files and formats from outside: each is accepted, or refused with a short message."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import pkgutil
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import lab
from lab.drills.case import CaseRecord
from lab.errors import ResultError, SpecError
from lab.gates.decoding import (
    DiskCount,
    Hertz,
    Margin,
    Seconds,
    SizeBytes,
    checked,
    decode_json,
    parse_bytes,
    version_numbers,
    whole,
)
from lab.gates.files import gunzip, read_plain
from lab.gates.text import checked_name, is_name, markdown, spreadsheet, visible, visible_json
from lab.lessons.engine import Progress
from lab.results.record import ResultRecord
from tests.waiting import PATIENCE_SECONDS

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
def test_a_number_out_of_bounds_is_rejected_with_the_bounds(value: float, kind: Any) -> None:
    with pytest.raises(SpecError) as caught:
        checked(value, kind, "figure")
    assert "write " in caught.value.hint
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("text", ["9" * 5000, "-" + "9" * 5000, "٣", "1.5", "", "+", "1_000", "0x10", "4\x1b[31m"])
def test_no_text_but_digits_is_a_whole_number(text: str) -> None:
    with pytest.raises(SpecError):
        whole(text)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        *(("6.12.95-cloud", (6, 12)), ("fio-3.33", (3, 33)), ("fio-v3.28", (3, 28)), ("3.36-12-gabc", (3, 36))),
        *(("mdadm - v4.2 - 2021-12-30", (4, 2)), ("fio-3.33000", (0, 0)), ("12345.6", (0, 0)), ("9" * 5000, (0, 0))),
    ],
)
def test_a_version_has_two_numbers(text: str, numbers: tuple[int, int]) -> None:
    assert version_numbers(text) == numbers


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
def test_visible_text_has_no_control_characters(text: str) -> None:
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
def test_markdown_is_escaped(text: str) -> None:
    shown = markdown(text)
    assert "<" not in shown
    assert "\n" not in shown
    assert "](" not in shown.replace(r"\](", "")
    assert "]:" not in shown.replace(r"\]:", "")
    assert not shown.startswith(("# ", "- "))
    assert "|" not in shown.replace(r"\|", "")


def test_no_cell_of_a_spreadsheet_is_a_formula() -> None:
    for text in ("=HYPERLINK(1)", "+1+cmd", "-cmd", "@SUM(1)", "\t=1", "\r=1"):
        assert spreadsheet(text)[0] not in "=+-@\t\r"
    for text in ("-1.5", "+3", "1e9", "-2e-3", "", "RAID 5"):
        assert spreadsheet(text) == text


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ResultError, match="larger than"):
        read_plain(large, 1000)


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


RACE = """
import sys, threading, types
from lab.gates.decoding import convert, decode_json

sys.setswitchinterval(1e-6)
TREE = {"f": 1, "inner": {"f": 1, "inner": {"f": 1}}}
TEXT = b'{"f": 1, "inner": {"f": 1, "inner": {"f": 1}}}'


def nested(number):
    source = "import msgspec\\n"
    for depth in range(6):
        source += f"class Level{depth}(msgspec.Struct):\\n    f: 'int | None' = None\\n"
        source += "".join(f"    f{field}: 'int | None' = None\\n" for field in range(20))
        source += f"    inner: 'Level{depth - 1} | None' = None\\n" if depth else ""
    module = types.ModuleType(f"made{number}")
    sys.modules[module.__name__] = module
    exec(source, module.__dict__)
    return module.Level5


problems = []


def decode(kind, barrier, way):
    barrier.wait()
    try:
        found = way(kind)
        assert found.inner.inner.f == 1, found
    except BaseException as problem:
        problems.append(repr(problem))


for number in range(60):
    kind, barrier = nested(number), threading.Barrier(3)
    ways = (lambda kind: convert(TREE, kind), lambda kind: decode_json(TEXT, kind), lambda kind: convert(TREE, kind))
    threads = [threading.Thread(target=decode, args=(kind, barrier, way)) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(problems or "whole")
"""


def test_threads_that_decode_a_type_for_the_first_time_together_get_it_whole() -> None:
    """Runs in a separate process, which would end with a segmentation fault without the lock."""
    ended = subprocess.run(
        [sys.executable, "-c", RACE], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert ended.returncode == 0, f"ended with {ended.returncode}: {ended.stderr[-2000:]}"
    assert ended.stdout.strip() == "whole"


NAMES = ("format_version", "schema_version")
PRINTED = {"DoctorReport"}
"""Types that raidlab only writes."""


def versioned() -> list[type[msgspec.Struct]]:
    """All types with a field for the version of their format."""
    for module in pkgutil.walk_packages(lab.__path__, "lab."):
        # Programs are not imported here, and a plugin's requirements may be missing.
        if not module.name.endswith(("_program", "__main__", "agent", "plain_stack")):
            with suppress(ModuleNotFoundError):
                importlib.import_module(module.name)
    found, left = [], [msgspec.Struct]
    while left:
        left += (below := left.pop().__subclasses__())
        found += [each for each in below if set(NAMES) & {*each.__struct_fields__}]
    return [each for each in found if each.__module__.startswith("lab.")]


def test_every_format_is_a_bounded_number() -> None:
    kinds = versioned()
    assert {CaseRecord, Progress, ResultRecord} <= {*kinds}
    for kind in kinds:
        (field,) = [each for each in msgspec.structs.fields(kind) if each.name in NAMES]
        info = msgspec.inspect.type_info(field.type)
        is_bounded = isinstance(info, msgspec.inspect.LiteralType) or getattr(info, "le", None) is not None
        assert is_bounded or kind.__name__ in PRINTED, f"{kind.__module__}.{kind.__name__}"


@pytest.mark.parametrize("number", ["9" * 30, "9" * 5000, "-1", "1e999", "1.5"])
def test_an_invalid_format_number_is_rejected_with_a_short_message(number: str) -> None:
    text = f'{{"format_version": {number}, "lesson": "x", "began_utc": ""}}'
    with pytest.raises(msgspec.MsgspecError) as caught:
        decode_json(text.encode(), Progress)
    assert len(str(caught.value)) < 120
