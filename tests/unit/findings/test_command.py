"""``raidlab findings`` without a machine: refusals, and the output of a record."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lab.cli.main import run
from lab.errors import ExitCode
from lab.findings.record import Record, read_script, write_record
from tests.unit.findings.test_record import a_cell


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "a.sh"
    path.write_text("# As root: a.sh MEMBER MEMBER   (1 MiB)\n")
    return path


RECORD = ("--output", "RECORD")


@pytest.mark.parametrize(
    ("on", "words", "message"),
    [
        ("qemu:", [*RECORD], "no script was given"),
        ("qemu:", ["SCRIPT"], "no file was given for the record of the runs"),
        ("qemu:", ["SCRIPT"], "next: add --output runs.json"),
        ("local:", ["SCRIPT", *RECORD], "do not run on local:"),
        ("qemu:?kernel=6.1", ["SCRIPT", "--kernel", "6.12", *RECORD], "the kernel is given twice"),
        ("uml:?mdadm=4.2", ["SCRIPT", "--mdadm", "4.4", *RECORD], "the mdadm is given twice"),
        ("qemu:", ["SCRIPT", "SCRIPT", *RECORD], "several scripts are named a.sh"),
        ("qemu:?root=amd64", ["SCRIPT", "--kernel", "6.1", *RECORD], "a root image has its own kernel"),
    ],
)
def test_what_cannot_be_run_is_refused_before_a_machine_starts(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], on: str, words: list[str], message: str
) -> None:
    record = tmp_path / "record.json"
    places = {"SCRIPT": str(script), "RECORD": str(record)}
    assert run(["--on", on, "findings", "run", *(places.get(word, word) for word in words)]) == ExitCode.USAGE
    assert message in capsys.readouterr().err
    assert not record.exists()


def test_the_record_is_printed_and_fills_in_a_page(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record, page = tmp_path / "record.json", tmp_path / "page.md"
    write_record(record, Record().with_cell(a_cell("rf", script=read_script(script).name)))
    assert run(["findings", "show", str(record)]) == 0
    assert "mdadm 4.2: reproduced 1 of 2, refuted 1 of 2" in capsys.readouterr().out
    assert run(["--json", "findings", "show", str(record)]) == 0
    assert len(json.loads(capsys.readouterr().out)["cells"][0]["runs"]) == 2
    page.write_text("| finding | Linux 6.1 |\n|---|---|\n| `a.sh` | old |\n")
    assert run(["findings", "show", str(record), "--into", str(page)]) == 0
    assert page.read_text().splitlines()[2] == "| `a.sh` | mdadm 4.2: reproduced 1 of 2, refuted 1 of 2 |"


@pytest.mark.parametrize("text", ['{"name": "another program\'s"}', '{"cells": [], "format_version": 7}'])
def test_a_file_that_is_no_record_is_not_overwritten(script: Path, tmp_path: Path, text: str) -> None:
    record = tmp_path / "record.json"
    record.write_text(text)
    assert run(["--on", "qemu:", "findings", "run", str(script), "--output", str(record)]) != 0
    assert record.read_text() == text
