"""Crash points: md keeps its promises at them, and a broken promise would be detected."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest

from lab.faults.crash_points import (
    Exploration,
    Judge,
    PointJudgement,
    find_configuration,
    judge_points,
    make_recording,
)
from lab.faults.guest.ledger import FLUSHED, chosen_cut
from lab.faults.place import FaultPlace, open_place
from lab.machine import Host, parse_target

pytestmark = [pytest.mark.timeout(600)]


def embedded(test: Any) -> Any:
    """Mark a test that runs only on the embedded kernel in virtual time."""
    return pytest.mark.kernel(pytest.mark.virtual_time(test))


VIRTUAL = parse_target("uml:?time=virtual")
POINTS = 12


def fresh() -> AbstractContextManager[FaultPlace]:
    return open_place(VIRTUAL, Host.real("tests"))


@pytest.fixture(scope="module")
def opened() -> Iterator[FaultPlace]:
    with fresh() as place:
        yield place


@pytest.fixture
def place(opened: FaultPlace) -> FaultPlace:
    opened.blank()
    return opened


@embedded
@pytest.mark.parametrize(
    "name", ["raid1/bitmap/idle/mixed", "raid5/ppl/idle/mixed", "raid6/journal/idle/mixed", "raid10/resync/check/mixed"]
)
def test_no_crash_point_breaks_a_promise(place: FaultPlace, name: str) -> None:
    found = Exploration(VIRTUAL, place.lab.host, POINTS).explore(place, find_configuration(name), "1")
    assert found.tally.points == POINTS
    assert [(each.cut, each.reasons) for each in found.tally.broken] == []


@pytest.mark.qemu
def test_no_promise_is_broken_on_two_processors_and_a_stored_recording_gives_the_same() -> None:
    with open_place(parse_target("qemu:"), Host.real("tests")) as place:
        assert place.lab.machine.facts.cpu_count == 2
        recording = make_recording(place, find_configuration("raid5/ppl/idle/mixed"), "1")
        cuts, judge = recording.cuts(4), Judge(recording)
        verdicts = [judge.verdict(seen) for seen in judge_points(place, recording, cuts)]
        again = [judge.verdict(seen) for seen in judge_points(place, recording, cuts[:2], images=recording.images)]
    assert len(verdicts) == len(cuts)
    assert [(each.cut, each.reasons) for each in verdicts if each.judgement is PointJudgement.BROKEN] == []
    # The stored images, without the drives' own record, give the same states.
    assert [each.seen["started"]["verdicts"] for each in again] == [
        each.seen["started"]["verdicts"] for each in verdicts[:2]
    ]


@embedded
def test_the_write_hole_of_raid5_shows_and_only_where_nothing_is_promised() -> None:
    configuration = find_configuration("raid5/resync/idle/mixed")
    with fresh() as place:
        again = make_recording(place, configuration, "1")
    with fresh() as place:
        recording = make_recording(place, configuration, "1")
        chance = random.Random(1)
        moments = recording.record.moments()
        cuts = [chosen_cut(recording.record, chance.choice(moments), "subset", chance, (2,)) for _ in range(20)]
        judge = Judge(recording)
        verdicts = [judge.verdict(seen) for seen in judge_points(place, recording, cuts)]
        by_mdadm = [judge.verdict(seen) for seen in judge_points(place, recording, cuts[:6], by_mdadm=True)]
    assert again.fingerprint == recording.fingerprint
    assert {each.judgement for each in verdicts} >= {PointJudgement.EXEMPT}
    assert not [each.reasons for each in verdicts if each.judgement is PointJudgement.BROKEN]
    # md refuses an array that is dirty and degraded until it is forced.
    assert any("refused" in each.seen for each in verdicts)
    # The result is the same when mdadm starts the array instead of the driver's own requests.
    assert [each.judgement for each in by_mdadm] == [each.judgement for each in verdicts[:6]]
    assert [each.seen["started"]["verdicts"] for each in by_mdadm] == [
        each.seen["started"]["verdicts"] for each in verdicts[:6]
    ]


@embedded
def test_an_acknowledged_write_that_is_not_there_breaks_a_promise(place: FaultPlace) -> None:
    """Claim that all writes bypassed the drives' caches: those that only a flush makes durable then seem to be lost."""
    recording = make_recording(place, find_configuration("raid1/resync/idle/mixed"), "1")
    events = [[*event[:4], 1] if event[0] == "write" else event for event in recording.events]
    claimed = replace(recording, events=events)
    chance = random.Random(1)
    cuts = [chosen_cut(recording.record, at, FLUSHED, chance) for at in recording.record.moments()[20:60:4]]
    true = [Judge(recording).verdict(seen).judgement for seen in judge_points(place, recording, cuts)]
    verdicts = [Judge(claimed).verdict(seen) for seen in judge_points(place, claimed, cuts)]
    assert set(true) == {PointJudgement.KEPT}
    broken = [each for each in verdicts if each.judgement is PointJudgement.BROKEN]
    assert len(broken) >= len(cuts) // 2
    assert all("lost after acknowledgement" in " ".join(each.reasons) for each in broken)
