"""``raidlab lint``, as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.cli.main import run
from lab.errors import ExitCode
from lab.results.record import encode_record
from tests.unit.cli.conftest import Typed
from tests.unit.compare.platform_records import HDD, bundle, machine
from tests.unit.compare.test_platforms import WRITES
from tests.unit.results.records import cell, record


def test_errors_in_a_published_recipe_are_reported_with_remedies(typed: Typed) -> None:
    output = typed("lint", "antioquia-as-published", status=ExitCode.FAILED).out
    assert "not-a-member" in output
    assert "member-reused: give every array its own disks" in output


def test_a_correct_recipe_has_no_findings(typed: Typed) -> None:
    output = typed("lint", "antioquia")
    assert output.out == ""
    assert "no rule is broken" in output.err


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("a.fio", "[r]\nrw=read\n[w]\nrw=write\ndirect=1\ntime_based\nruntime=3\n", "mixed-directions"),
        ("a.sh", "dd if=/dev/zero of=/dev/md0 bs=1M oflag=direct\n", "zero-data"),
        ("a.json", encode_record(record(cells=(cell("a", "b", 0, read_iops=900),))).decode(), "too-few-repeats"),
    ],
)
def test_files_are_read_by_what_they_are(tmp_path: Path, typed: Typed, name: str, text: str, rule: str) -> None:
    (tmp_path / name).write_text(text)
    found = json.loads(typed("lint", str(tmp_path / name), "--json", status=ExitCode.FAILED).out)
    assert rule in {each["rule"] for each in found}
    assert all(each["remedy"] and each["required"] for each in found)


def test_the_results_of_a_bundle_are_read(tmp_path: Path, typed: Typed) -> None:
    made = bundle(tmp_path / "a.zip", machine("a", HDD, WRITES, repeats=3), tmp_path / "key.pem")
    found = json.loads(typed("lint", str(made), "--json", status=ExitCode.FAILED).out)
    assert "too-few-repeats" in {each["rule"] for each in found}
    made.write_bytes(made.read_bytes()[:-40])
    assert "is damaged" in typed("lint", str(made), status=ExitCode.FAILED).err


def test_a_rule_is_explained(typed: Typed) -> None:
    assert "parity of zeros is zero" in typed("lint", "--explain", "zero-data").out
    assert "shared-backing-disk" in typed("lint").out


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.fio", b"", "it contains no fio job"),
        ("shared.fio", b"[global]\nbs=4k\n", "it contains no fio job"),
        ("junk.fio", b"Dear reader,\nthis is a letter.\n", "it contains no fio job"),
        ("binary.fio", b"\x00\x01[a]\n", "byte 1 is zero"),
        ("latin.fio", b"[a]\n; \xe9\n", "byte 7 is not UTF-8"),
        ("empty.sh", b"", "the script has no commands"),
        ("comments.sh", b"#!/bin/bash\n\n# nothing yet\n", "the script has no commands"),
        ("binary.sh", b"\x7fELF\x02\x01\x01\x00", "byte 8 is zero"),
        ("empty.toml", b"", "key 'arrays' is missing"),
        ("empty.json", b"", "is damaged"),
        ("empty.zip", b"", "is not a raidlab export"),
        ("missing.fio", None, "missing.fio"),
        ("missing.json", None, "missing.json"),
    ],
)
def test_a_file_in_which_there_is_nothing_to_judge_is_an_error(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    content: bytes | None,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert run(["lint", name]) in (ExitCode.FAILED, ExitCode.USAGE)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert name in printed.err
    assert "next:" in printed.err


def test_options_before_a_section_are_reported_with_their_proper_place(tmp_path: Path, typed: Typed) -> None:
    (tmp_path / "a.fio").write_text("bs=4k\n[a]\ntime_based\nruntime=9\n")
    assert "put fio options into a [section]" in typed("lint", str(tmp_path / "a.fio")).out


def test_a_missing_result_is_reported(typed: Typed) -> None:
    printed = typed("lint", "nothing-of-that-name", status=ExitCode.FAILED).err
    assert "there is no result in" in printed
    assert "next:" in printed
