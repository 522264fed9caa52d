"""``raidlab run seeds`` runs all studies, and a study that fails does not keep the others from running."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from lab.errors import MachineLost
from lab.experiments.run import RunRequest
from lab.experiments.schema import Experiment
from lab.results.record import ResultRecord
from tests.unit.cli.conftest import Typed
from tests.unit.report.records import load

Ran = list[str]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    """The experiments that were run, in order. The machine is lost during louwrentius."""
    names: Ran = []

    def run_one(experiment: Experiment, text: str, request: RunRequest) -> ResultRecord:
        names.append(experiment.id)
        if experiment.study == "louwrentius":
            raise MachineLost("the machine was lost", hint="start it again")
        record = load("antioquia-quick")
        return msgspec.structs.replace(record, id=f"id-{experiment.id}", experiment=experiment.id, experiment_toml=text)

    monkeypatch.setattr("lab.cli.run.run_experiment", run_one)
    return names


def test_one_study_fails_and_the_others_run(ran: Ran, typed: Typed) -> None:
    output = typed("run", "seeds", "--quick", status=1)
    assert "louwrentius-quick" in ran
    assert ran == sorted(ran)
    assert len(ran) >= 4
    assert "The study's findings, as ratios" in output.out
    assert "RAID 5 reads fastest" in output.out
    assert "1 of" in output.err
    assert "raidlab run louwrentius-quick" in output.err


def test_json_and_one_report_name_all_results_and_failures(ran: Ran, typed: Typed) -> None:
    found = json.loads(typed("--json", "run", "seeds", status=1).out)
    ids = [f"id-{name}" for name in ran if name != "louwrentius"]
    assert found["failed"] == {"louwrentius": "the machine was lost"}
    assert found["results"] == ids
    path = Path(found["report"])
    page = path.read_text()
    assert path.suffix == ".html"
    assert "louwrentius failed: the machine was lost" in page
    assert all(f'id="{each}"' in page for each in ids)


def test_the_plan_runs_nothing(ran: Ran, typed: Typed) -> None:
    assert typed("run", "seeds", "--quick", "--plan").out.count("-quick: about") >= 4
    planned = json.loads(typed("--json", "run", "seeds", "--quick", "--plan").out)
    assert [each["id"] for each in planned] == sorted(each["id"] for each in planned)
    typed("run", "--resume", "latest", "--plan", status=2)
    typed("run", "seeds", "--quick", "--verify-repeat", status=2)
    typed("run", "seeds", "--resume", "latest", status=2)
    assert ran == []
