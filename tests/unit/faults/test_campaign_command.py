"""``raidlab fault campaign``, ``replay`` and ``findings`` as far as they need no machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.cli import fault as fault_commands
from lab.cli.context import Options, use_options
from lab.cli.main import run
from lab.errors import ExitCode
from lab.faults.campaign import Arena, Campaign, CampaignSummary, FindingRecord, FindingStore, HistoryOutcome
from lab.faults.history import Bounds, FaultHistory, generated
from lab.machine import Host
from tests.unit.faults.played_histories import outcome_of

RECORD = FindingRecord(
    id="c1-7",
    kind="unreadable",
    text="2 blocks",
    title="RAID 5 of 4",
    act=1,
    differences=(("unreadable", 1, "2 blocks"),),
    operations=5,
    writes=12,
)


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("RAIDLAB_ON", raising=False)
    monkeypatch.setattr(fault_commands, "with_own_kernel", lambda target, _host: target)
    use_options(Options())


def fault(*words: str) -> int:
    return run(["--quiet", "fault", *words])


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("campaign", "--level", "7"), "choose one of 1, 4, 5, 6, 10"),
        (("campaign", "--policy", "raid"), "resync, bitmap, ppl"),
        (("campaign", "--level", "1", "--policy", "ppl"), "PPL needs RAID 5"),
        (("campaign", "--planted", "parity-not-writen"), "parity-not-written"),
        (("campaign", "--resume", "latest", "--seeds", "5"), "give --resume alone"),
        (("campaign", "--resume", "latest"), "there is no campaign in"),
        (("campaign", "--seeds", "0"), "seeds"),
        (("replay", "c9-7"), "version 9"),
        (("replay", "nothing"), "is not the id of a finding"),
        (("replay", "c1-7-s99"), "is not part of this history"),
        (("findings", "c1-8"), "no finding 'c1-8' is stored"),
        (("findings", "--forget"), "name one"),
    ],
)
def test_what_cannot_be_is_refused_before_any_machine(
    words: Sequence[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fault(*words) != ExitCode.DONE
    assert what in capsys.readouterr().err


def test_findings_are_listed_told_and_forgotten(capsys: pytest.CaptureFixture[str]) -> None:
    assert fault("findings") == ExitCode.DONE
    assert capsys.readouterr().out == "no findings are stored\n"
    FindingStore(Host.real("tests")).keep(RECORD, generated(7), {})
    fault("findings")
    listed = capsys.readouterr().out
    assert "c1-7" in listed
    assert "unreadable" in listed
    fault("findings", "c1-7")
    told = capsys.readouterr().out
    assert all(act.title() in told for act in generated(7).acts)
    assert "act 1: unreadable: 2 blocks" in told
    run(["--json", "fault", "findings", "c1-7"])
    assert json.loads(capsys.readouterr().out)["finding"]["operations"] == 5
    fault("findings", "c1-7", "--forget")
    assert FindingStore(Host.real("tests")).all() == []


def test_a_replay_is_of_the_history_that_the_id_tells(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[FaultHistory, list[FaultHistory], int]] = []

    def replayed(arena: Arena, history: FaultHistory, before: list[FaultHistory]) -> HistoryOutcome:
        asked.append((history, before, arena.planted))
        return outcome_of(history, "unreadable" if len(asked) < 4 else "")

    monkeypatch.setattr(fault_commands, "replayed", replayed)
    assert fault("replay", "c1-l5-ppl-p7-9-a2", "--times", "3") == ExitCode.FAILED
    bounds = Bounds("5", "ppl")
    assert asked == [(generated(9, bounds), [generated(7, bounds), generated(8, bounds)], 7)] * 3
    assert "3 replays: the same verdict each time" in capsys.readouterr().out
    assert fault("replay", "c1-9") == ExitCode.DONE
    assert "nothing else that should not be" in capsys.readouterr().out


def test_a_kept_finding_is_replayed_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As if an earlier version had made it: not what the seed makes now.
    asked: list[FaultHistory] = []

    def replayed(_arena: Arena, history: FaultHistory, _before: list[FaultHistory]) -> HistoryOutcome:
        asked.append(history)
        return outcome_of(history, "")

    monkeypatch.setattr(fault_commands, "replayed", replayed)
    folder = FindingStore(Host.real("tests")).keep(RECORD, generated(8), {})
    for word in ("c1-7", str(folder)):
        fault("replay", word)
    assert asked == [generated(8)] * 2


def summary_of(*records: FindingRecord, **more: Any) -> CampaignSummary:
    return CampaignSummary(
        run="20260101T000000Z",
        seeds=3,
        seconds=2.0,
        histories_per_second=1.5,
        explained={"write hole": 2},
        said_no={},
        findings=records,
        **more,
    )


def test_what_a_campaign_came_to_is_told_and_is_its_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[tuple[int, int, float, str, int]] = []
    summaries = [summary_of(), summary_of(RECORD), summary_of(RECORD)]

    def campaign_run(self: Campaign) -> CampaignSummary:
        run = self.journal.run
        asked.append((run.first, run.seeds, run.seconds, run.level, run.planted))
        return summaries.pop(0)

    monkeypatch.setattr(Campaign, "run", campaign_run)
    assert fault("campaign") == ExitCode.DONE
    assert "explained: write hole  2" in capsys.readouterr().out
    assert fault("campaign", "--minutes", "2", "--level", "5", "--first", "30") == ExitCode.FAILED
    told = capsys.readouterr().out
    assert "c1-7" in told
    assert run(["--json", "fault", "campaign", "--seeds", "3"]) == ExitCode.FAILED
    assert json.loads(capsys.readouterr().out)["findings"][0]["id"] == "c1-7"
    assert asked == [(1, 1000, 0.0, "", 0), (30, 0, 120.0, "5", 0), (1, 3, 0.0, "", 0)]
