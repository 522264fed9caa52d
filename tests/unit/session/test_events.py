from __future__ import annotations

from dataclasses import replace

from lab.arrays.status import ArrayStatus, SyncAction
from lab.session.monitor import EventKind, Weight, events_between
from tests.unit.session.looks import captured, look


def kinds(before: ArrayStatus | None, after: ArrayStatus | None) -> list[EventKind]:
    first = look(1.0, *((before,) if before else ()))
    second = look(2.0, *((after,) if after else ()))
    return [event.kind for event in events_between(first, second)]


def test_nothing_happens_between_equal_looks() -> None:
    assert kinds(captured("raid5"), captured("raid5")) == []


def test_an_array_that_appears_is_told_with_its_members() -> None:
    (appeared, *more) = events_between(look(1.0), look(2.0, captured("raid6-assume-clean")))
    assert appeared.kind is EventKind.ARRAY_APPEARED
    assert appeared.sentence == "md0 appeared: raid6 of 4 members"
    assert more == []


def test_an_array_that_appears_degraded_and_rebuilding_says_so() -> None:
    told = kinds(None, captured("raid5-rebuilding"))
    assert told == [EventKind.ARRAY_APPEARED, EventKind.DEGRADED, EventKind.SYNC_STARTED]


def test_a_stopped_array_is_gone() -> None:
    assert kinds(captured("raid1"), None) == [EventKind.ARRAY_GONE]


def test_a_failing_member_is_told_before_the_array_that_suffers() -> None:
    healthy = captured("raid5", degraded_count=0)
    failed = captured("raid5-failed")
    told = events_between(look(1.0, healthy), look(2.5, failed), name_of=lambda node: f"<{node}>")
    (faulty,) = [event for event in told if event.kind is EventKind.MEMBER_FAULTY]
    assert faulty.sentence == f"<{faulty.device}> in md0 is faulty"
    assert faulty.time_seconds == 2.5
    assert faulty.kind.weight is Weight.BAD
    order = [event.kind for event in told]
    assert order.index(EventKind.MEMBER_FAULTY) < order.index(EventKind.DEGRADED)


def test_two_failures_degrade_twice() -> None:
    one = captured("raid6", degraded_count=1)
    two = captured("raid6", degraded_count=2)
    (event,) = events_between(look(1.0, one), look(2.0, two))
    assert event.sentence == "md0 is degraded: 2 members are missing"


def test_a_rebuild_ends_with_a_member_in_sync_and_a_whole_array() -> None:
    before = captured("raid5-rebuilding")
    members = tuple(
        replace(member, flags=frozenset({"in_sync"})) if member.is_rebuilding else member for member in before.members
    )
    after = replace(before, degraded_count=0, sync_action=SyncAction.IDLE, sync_progress=None, members=members)
    assert kinds(before, after) == [EventKind.MEMBER_IN_SYNC, EventKind.SYNC_FINISHED, EventKind.RESTORED]


def test_a_removed_member_has_left() -> None:
    before = captured("raid1-failed")
    after = replace(before, members=tuple(member for member in before.members if not member.is_faulty))
    assert kinds(before, after) == [EventKind.MEMBER_REMOVED]


def test_mismatches_of_a_check_are_told() -> None:
    before = captured("raid5-checking", mismatch_sectors=0)
    after = captured("raid5-checking", mismatch_sectors=128)
    (event,) = events_between(look(1.0, before), look(2.0, after))
    assert event.kind is EventKind.MISMATCH
    assert "128 sectors" in event.sentence


def test_a_disk_that_vanishes_and_comes_back() -> None:
    gone = look(2.0, vanished=frozenset({"nbd3"}))
    (event,) = events_between(look(1.0), gone, name_of=lambda node: {"/dev/nbd3": "disk04"}[node])
    assert (event.kind, event.device, event.sentence) == (
        EventKind.DISK_VANISHED,
        "/dev/nbd3",
        "disk04 has vanished",
    )
    assert [event.kind for event in events_between(gone, look(3.0))] == [EventKind.DISK_RETURNED]
