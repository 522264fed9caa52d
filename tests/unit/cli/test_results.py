from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.cli.context import ProgressBar
from lab.cli.main import run
from lab.results.record import ResultRecord, encode_record
from tests.unit.cli.conftest import Typed
from tests.unit.compare.test_compare import STEADY, changed, result, scaled
from tests.unit.fakes import FakeMachine, Scripted
from tests.unit.results.records import cell as records_cell
from tests.unit.results.records import rebuild, record
from tests.unit.results.test_store import cell, draft


def put(state: Path, *records: ResultRecord) -> None:
    for each in records:
        folder = state / "results" / each.id
        folder.mkdir(parents=True)
        (folder / "record.json").write_bytes(encode_record(each))


@pytest.fixture
def stored(tmp_path: Path) -> str:
    made = replace(draft(), cells=(cell(0), cell(1)))
    put(tmp_path, made)
    return made.id


def test_results_are_listed_and_shown(stored: str, typed: Typed) -> None:
    assert stored in typed("results").out
    shown = typed("results", "show").out
    assert "rand-mix-4k" in shown
    assert json.loads(typed("--json", "results").out)[0]["id"] == stored
    assert json.loads(typed("--json", "results", "show", stored).out)["id"] == stored


def test_what_a_killed_machine_left_is_cleared_away_by_a_command_without_machine(tmp_path: Path, typed: Typed) -> None:
    left = tmp_path / "machines" / "1-a"
    left.mkdir(parents=True)
    # No process has this id: it is above the largest one that Linux assigns (pid_max, proc(5)).
    (left / "owner.json").write_text('{"process_id": 4194305, "command": "raidlab run"}')
    assert "'raidlab run' (process 4194305) ended without closing its machine" in typed("results").err
    assert not left.exists()


def test_rebuilds_are_counted_among_planned_cells(tmp_path: Path, typed: Typed) -> None:
    made = record(cells=(records_cell("raid5", "w", 0, read_iops=1.0),), rebuilds=(rebuild("raid5", 0, 2.0),))
    keys = tuple(sorted(made.done_keys))
    whole, part = replace(made, planned_cells=keys), replace(made, id="part", planned_cells=(*keys, "more"))
    put(tmp_path, whole, part)
    assert [line.split()[2] for line in typed("results").out.splitlines()[1:]] == ["2/3", "2/2"]
    counts = [(each["measured_count"], each["planned_count"]) for each in json.loads(typed("--json", "results").out)]
    assert counts == [(2, 3), (2, 2)]


def test_results_are_deleted_by_id_alone(stored: str, tmp_path: Path, typed: Typed) -> None:
    assert run(["results", "delete", "latest"]) == 1
    assert typed("results", "path").out.strip() == str(tmp_path / "results" / stored)
    assert run(["results", "delete", stored]) == 0
    assert run(["results", "show", stored]) == 1


def test_progress_is_a_line_per_step_without_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(is_terminal=False) as progress:
        progress.show("precondition", 0.0, 30.0, 10.0)
        progress.show("precondition", 0.2, 25.0, 10.0)
        progress.show("measure", 0.3, 20.0, 20.0)
        progress.show("check", 0.9, 2.0)
        progress.show("rebuild", 0.9, 100.0, 3.42)
    lines = ("precondition (about 10 s)", "measure (about 20 s)", "check", "rebuild (about 3 s, 1:40 min left)", "")
    assert capfd.readouterr() == ("", "\n".join(lines))


@pytest.mark.parametrize("is_terminal", [True, False])
def test_quiet_progress_prints_nothing(is_terminal: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar(quiet=True, is_terminal=is_terminal) as progress:
        progress.show("measure", 0.5, 20.0, 20.0)
    assert capfd.readouterr() == ("", "")


def test_workloads_are_listed(typed: Typed) -> None:
    assert "rand-read-4k" in typed("workloads").out
    assert {each["id"] for each in json.loads(typed("--json", "workloads").out)} >= {"rand-read-4k", "verify-4k"}


def test_a_command_on_the_machine_passes_its_output_and_status_on(
    machine: FakeMachine, tmp_path: Path, typed: Typed
) -> None:
    (tmp_path / "labs" / "default").mkdir(parents=True)
    machine.answers[("bash", "-c")] = Scripted(stdout="md0 : active\n", status=3)
    assert typed("--on", "uml:", "exec", "--", "cat", "/proc/mdstat", status=3).out == "md0 : active\n"
    (argv,) = [argv for argv in machine.runs if argv[0] == "bash"]
    assert argv[-1] == "cat /proc/mdstat"


@pytest.fixture
def two_results(tmp_path: Path) -> tuple[str, str]:
    first, second = "20261121T100000Z-x", "20261121T110000Z-x"
    put(tmp_path, replace(result(STEADY), id=first), replace(result(scaled(200.0)), id=second))
    return first, second


def test_two_results_are_compared(two_results: tuple[str, str], typed: Typed) -> None:
    line = typed("compare", *two_results).out.splitlines()[1]
    assert line.endswith("faster")
    assert " 20020 " in line, "without an exponent"
    (row,) = json.loads(typed("--json", "compare", *reversed(two_results)).out)["rows"]
    assert row["outcome"] == "slower"
    assert row["ratio"]["median"] == pytest.approx(0.005)


def test_unlike_results_need_a_permission(two_results: tuple[str, str], tmp_path: Path, typed: Typed) -> None:
    put(tmp_path, replace(changed(kernel_release="6.8"), id="20261121T120000Z-x"))
    assert "kernel: '6.1.0' and '6.8' (--allow kernel)" in typed("compare", two_results[0], "latest", status=1).err
    assert "allowed: kernel" in typed("compare", two_results[0], "latest", "--allow", "kernel").err


def test_results_go_out_and_come_back(two_results: tuple[str, str], tmp_path: Path, typed: Typed) -> None:
    file = tmp_path / "out.zip"
    assert run(["export", *two_results, "--to", str(file)]) == 0
    assert "already stored" in typed("results", "import", str(file)).err
    assert run(["results", "delete", two_results[0]]) == 0
    assert '"imported": [' in typed("--json", "results", "import", str(file)).out
    assert run(["results", "show", two_results[0]]) == 0
