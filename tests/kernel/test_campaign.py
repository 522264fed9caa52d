"""Random histories on real arrays: every finding is explained, planted bugs are found, and a replay is exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.faults.campaign import (
    Arena,
    Campaign,
    CampaignSummary,
    FindingStore,
    begun_campaign,
    find_planted_bug,
    history_of,
    replayed,
)
from lab.faults.history import Act, ActKind, ArrayShape, FaultHistory, HistoryPolicy, Purpose, parse_id
from lab.faults.judge import KnownBug
from lab.faults.place import with_own_kernel
from lab.machine import Host, parse_target
from tests.kernel.oracle_controls import failed_controls

pytestmark = [pytest.mark.kernel, pytest.mark.virtual_time, pytest.mark.wide]
SEEDS = 16
STEPS_OF_A_REPLAY = 30


@pytest.fixture
def arena(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Arena:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    host = Host.real("tests")
    return Arena(with_own_kernel(parse_target("uml:"), host), host)


def run(arena: Arena, **asked: Any) -> CampaignSummary:
    wanted = {"first": 1, "seeds": 0, "seconds": 0.0, "planted": arena.planted, **asked}
    with begun_campaign(arena.host, str(arena.target), **wanted) as journal:
        return Campaign(journal, arena, stops_at_first=bool(arena.planted), most_plays=80).run()


def test_the_oracle_reports_known_damage_and_nothing_else(arena: Arena) -> None:
    assert failed_controls(arena) == []


def test_a_campaign_finds_nothing_that_is_not_explained(arena: Arena) -> None:
    summary = run(arena, seeds=SEEDS)
    assert [(record.id, record.kind, record.text) for record in summary.findings] == []
    assert summary.seeds == SEEDS


def test_a_replay_is_the_same_to_the_last_word(arena: Arena) -> None:
    history, earlier = history_of(parse_id("c1-189"))
    outcomes = [replayed(arena, history, earlier, wants_log=True, wants_ledger=True) for _ in range(2)]
    assert len(outcomes[0].documents) > STEPS_OF_A_REPLAY
    assert outcomes[0].documents == outcomes[1].documents
    assert outcomes[0].differences == outcomes[1].differences


def test_a_known_bug_of_md_is_reproduced_and_reported_by_name(arena: Arena) -> None:
    """An array with a bitmap is enlarged, and stopped before its new part is synced (docs/findings.md)."""
    shape = ArrayShape(level="5", members=3, policy=HistoryPolicy.BITMAP, has_junk=True, sync_kib=200)
    acts = (Act(ActKind.IDLE), Act(ActKind.ENLARGE, number=1536), Act(ActKind.PAUSE, number=300), Act(ActKind.RESTART))
    outcome = replayed(arena, FaultHistory(5, shape, acts))
    assert outcome.differences == ()
    assert outcome.explained[str(KnownBug.NEW_PART)] > 0


def test_a_scrub_that_replaces_an_interrupted_sync_is_not_a_finding(arena: Arena) -> None:
    """A RAID 1 of three members is enlarged, stopped and started: the repair syncs the new part and counts it."""
    outcome = replayed(arena, history_of(parse_id("c1-l1-5180-s1_3_4_5"))[0])
    counts = [seen["state"]["mismatch_cnt"] for step, seen in outcome.documents if step.purpose is Purpose.SCRUBBED]
    assert counts == ["512"]
    assert outcome.differences == ()


@pytest.mark.planted
def test_a_planted_bug_is_found_shrunk_and_replayed(arena: Arena) -> None:
    bug = find_planted_bug("short-write-to-one-mirror")
    planted = Arena(arena.target, arena.host, bug.number)
    (record,) = run(planted, level="1").findings
    assert (record.status, record.planted) == ("shrunk", bug.number)
    assert record.operations <= 3
    kept = FindingStore(arena.host).find(record.id)
    assert kept is not None
    names = {path.name for path in kept.folder.iterdir()}
    assert names >= {"commands.sh", "kernel.log", "record.bin.gz", "superblocks.txt", "versions.json", "mdstat.txt"}
    history, _ = history_of(parse_id(record.id))
    assert history == kept.history
    assert record.kind in replayed(planted, history).kinds
    assert replayed(arena, history).kinds == frozenset()
