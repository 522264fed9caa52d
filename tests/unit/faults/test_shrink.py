"""Delta debugging of histories: the fewest acts and writes that still show the same, each step a replay."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lab.faults import campaign
from lab.faults.campaign import Shrinker
from lab.faults.history import ActKind, FaultHistory, generated
from tests.unit.faults.played_histories import PlayedByRule, Rule, host_in

KIND = "silently corrupt"
LONG = next(
    history
    for seed in range(1, 500)
    if len((history := generated(seed)).acts) >= 11 and history.writes > 40 and not history.acts[-1].writes
)
WRITES = [write for act in LONG.acts for write in act.writes]
ONCE = [write for write in WRITES if WRITES.count(write) == 1]


def shrunk_by(
    rule: Rule, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_plays: int = 400
) -> tuple[Shrinker, PlayedByRule]:
    played = PlayedByRule(rule, host_in(tmp_path))
    monkeypatch.setattr(campaign, "play", played.play)
    shrinker = Shrinker(played.arena, KIND, most_plays=most_plays)
    shrinker.shrink(LONG)
    return shrinker, played


def test_what_is_left_is_what_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    last, needed = LONG.acts[-1], {ONCE[1], ONCE[9]}

    def rule(history: FaultHistory) -> str:
        written = {write for act in history.acts if act.kind is ActKind.LOAD for write in act.writes}
        return KIND if needed <= written and last in history.acts else ""

    shrinker, played = shrunk_by(rule, tmp_path, monkeypatch)
    smallest = shrinker.smallest
    assert {write for act in smallest.acts for write in act.writes if act.kind is ActKind.LOAD} == needed
    assert smallest.acts[-1] == last
    assert len(smallest.acts) <= 3
    assert [len(each.acts) for each in shrinker.steps] == sorted((len(s.acts) for s in shrinker.steps), reverse=True)
    assert all(rule(each) == KIND for each in shrinker.steps)
    assert len(played.played) < 200


def test_another_kind_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(history: FaultHistory) -> str:
        return KIND if len(history.acts) > 5 else "unreadable"

    shrinker, _ = shrunk_by(rule, tmp_path, monkeypatch)
    assert len(shrinker.smallest.acts) == 6


def test_what_every_history_shows_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrinker, played = shrunk_by(lambda _: KIND, tmp_path, monkeypatch)
    assert shrinker.smallest == msgspec.structs.replace(LONG, acts=())
    assert played.opened == 1


def test_it_ends_after_so_many_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shrinker, played = shrunk_by(lambda _: "", tmp_path, monkeypatch, most_plays=7)
    assert shrinker.smallest == LONG
    assert len(played.played) == 7


def test_a_machine_that_is_lost_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = PlayedByRule(
        lambda history: KIND if len(history.acts) > 3 else "", host_in(tmp_path), ends_machine=frozenset({KIND})
    )
    monkeypatch.setattr(campaign, "play", played.play)
    shrinker = Shrinker(played.arena, KIND)
    shrinker.shrink(LONG)
    assert len(shrinker.smallest.acts) == 4
    # Each time that it showed, it took the machine with it.
    shown = sum(len(history.acts) > 3 for history in played.played)
    assert played.opened in (shown, shown + 1)
