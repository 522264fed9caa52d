"""``raidlab run``: where a result is resumed, and what is printed about a stored one."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.experiments.run import RunRequest
from lab.host.files import write_file
from lab.results.record import ResultRecord, RunStatus
from lab.results.store import ResultStore
from tests.unit.cli.conftest import Typed
from tests.unit.report.records import load

QUICK = "antioquia-quick"
BEGUN_ON = "uml:?name=class&time=virtual"
ELSEWHERE = "ssh:lab1?config=/home/me/lab.conf"


@pytest.fixture
def targets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The target of each run, in order. Two incomplete results are stored, ``own`` (BEGUN_ON) and ``other``."""
    found: list[str] = []
    record = load(QUICK)
    for name, target in (("own", BEGUN_ON), ("other", ELSEWHERE)):
        conditions = replace(record.conditions, target=target)
        begun = replace(record, id=name, status=RunStatus.INCOMPLETE, cells=(), rebuilds=(), conditions=conditions)
        with ResultStore(tmp_path / "results").begin(begun):
            pass

    def resumed(earlier: ResultRecord, request: RunRequest) -> ResultRecord:
        found.append(str(request.target))
        return record

    def anew(*_: object, **__: object) -> ResultRecord:
        return record

    monkeypatch.setattr("lab.cli.run.resume_experiment", resumed)
    monkeypatch.setattr("lab.cli.run.run_experiment", anew)
    return found


def test_a_result_is_resumed_on_its_own_target_unless_another_is_named(targets: list[str], typed: Typed) -> None:
    typed("run", "--resume", "own")
    typed("--on", "uml:?name=other", "run", "--resume", "own")
    assert targets == [BEGUN_ON, "uml:?name=other"]


def test_a_recorded_target_makes_raidlab_neither_log_in_nor_run_a_file(targets: list[str], typed: Typed) -> None:
    refused = typed("run", "--resume", "other", status=1).err
    assert "was begun on ssh:lab1" in refused
    assert f"add --on '{ELSEWHERE}'" in refused
    typed("--on", ELSEWHERE, "run", "--resume", "other")
    assert targets == [ELSEWHERE]


@pytest.mark.usefixtures("targets")
def test_an_empty_name_does_not_list_the_experiments(typed: Typed) -> None:
    assert "--resume needs a result" in typed("run", "--resume", "", status=2).err


@pytest.mark.usefixtures("targets")
def test_the_id_of_a_stored_result_is_printed_even_if_its_figures_cannot_be_written(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, data: bytes) -> None:
        if path.suffix == ".csv":
            raise OSError(28, "No space left on device", str(path))
        write_file(path, data)

    monkeypatch.setattr("lab.cli.run.write_file", full)
    output = typed("run", QUICK, "--csv", str(tmp_path / "figures.csv"), status=1)
    assert f"stored as {load(QUICK).id} in " in output.err
