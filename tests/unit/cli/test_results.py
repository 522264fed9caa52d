from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.cli.context import ProgressBar
from lab.cli.main import run
from lab.results.record import encode_record
from tests.unit.results.records import cell as records_cell
from tests.unit.results.records import rebuild, record
from tests.unit.results.test_store import cell, draft


@pytest.fixture
def stored(tmp_path: Path) -> str:
    record = draft()
    folder = tmp_path / "results" / record.id
    folder.mkdir(parents=True)
    (folder / "record.json").write_bytes(encode_record(replace(record, cells=(cell(0), cell(1)))))
    return record.id


def test_results_are_listed_and_shown(stored: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["results"]) == 0
    assert stored in capfd.readouterr().out
    assert run(["results", "show"]) == 0
    shown = capfd.readouterr().out
    assert "rand-mix-4k" in shown
    assert run(["--json", "results"]) == 0
    assert json.loads(capfd.readouterr().out)[0]["id"] == stored
    assert run(["--json", "results", "show", stored]) == 0
    assert json.loads(capfd.readouterr().out)["id"] == stored


def test_what_a_killed_machine_left_is_cleared_away_by_a_command_without_machine(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    left = tmp_path / "machines" / "1-a"
    left.mkdir(parents=True)
    # No process has this id: it is above what Linux gives (pid_max, proc(5)).
    (left / "owner.json").write_text('{"process_id": 4194305, "command": "raidlab run"}')
    assert run(["results"]) == 0
    assert "'raidlab run' (process 4194305) ended without closing its machine" in capfd.readouterr().err
    assert not left.exists()


def test_rebuilds_count_as_what_was_planned(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    made = record(cells=(records_cell("raid5", "w", 0, read_iops=1.0),), rebuilds=(rebuild("raid5", 0, 2.0),))
    keys = tuple(sorted(made.done_keys))
    whole, part = replace(made, planned_cells=keys), replace(made, id="part", planned_cells=(*keys, "more"))
    for each in (whole, part):
        folder = tmp_path / "results" / each.id
        folder.mkdir(parents=True)
        (folder / "record.json").write_bytes(encode_record(each))
    assert run(["results"]) == 0
    assert [line.split()[4] for line in capfd.readouterr().out.splitlines()[1:]] == ["2/3", "2/2"]
    assert run(["--json", "results"]) == 0
    counts = [(each["measured_count"], each["planned_count"]) for each in json.loads(capfd.readouterr().out)]
    assert counts == [(2, 3), (2, 2)]


def test_results_are_deleted_by_id_alone(stored: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["results", "delete", "latest"]) == 1
    assert run(["results", "path"]) == 0
    assert capfd.readouterr().out.strip() == str(tmp_path / "results" / stored)
    assert run(["results", "delete", stored]) == 0
    assert run(["results", "show", stored]) == 1


def test_progress_is_a_line_per_step_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(is_terminal=False) as progress:
        progress.show("precondition", 0.0, 30.0, 10.0)
        progress.show("precondition", 0.2, 25.0, 10.0)
        progress.show("measure", 0.3, 20.0, 20.0)
        progress.show("check", 0.9, 2.0)
    assert capfd.readouterr() == ("", "precondition (about 10 s)\nmeasure (about 20 s)\ncheck\n")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_quiet_progress_says_nothing(is_terminal: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(quiet=True, is_terminal=is_terminal) as progress:
        progress.show("measure", 0.5, 20.0, 20.0)
    assert capfd.readouterr() == ("", "")
