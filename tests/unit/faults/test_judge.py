"""The verdict on a history: every difference is reported, and excused only if it has an explanation."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lab.arrays.superblock_program import JOURNAL_ROLE, SPARE_ROLE
from lab.faults.guest.ledger import CORRUPT, LOST, UNREADABLE
from lab.faults.history import Act, ActKind, ArrayShape, FaultHistory, HistoryPolicy, PlannedStep, Purpose
from lab.faults.judge import DECLARED, HistoryJudge

IN_SYNC = "in_sync"
FORCED = ["started only by force"]
MEMBERS = {"4": 4, "5": 4, "1": 2, "6": 5, "10": 4}


def judge_of(*acts: Act, level: str = "5", policy: HistoryPolicy = HistoryPolicy.RESYNC) -> HistoryJudge:
    layout = "n2" if level == "10" else ""
    shape = ArrayShape(level=level, members=MEMBERS[level], policy=policy, layout=layout)
    return HistoryJudge(FaultHistory(1, shape, acts))


def step_output(states: dict[int, tuple[int, str]], members: int = 4, **more: Any) -> dict[str, Any]:
    """The document of a step for an array whose drives are in these states."""
    filled = {slot for slot, words in states.values() if IN_SYNC in words.split(",")}
    state = {
        "array_state": "active",
        "raid_disks": str(members),
        "degraded": str(members - len(filled)),
        "sync_action": "idle",
        "resync_start": "none",
        "reshape_position": "none",
        "mismatch_cnt": "0",
        **more.pop("state", {}),
    }
    return {"state": state, "members": {f"/dev/drive{drive}": list(each) for drive, each in states.items()}, **more}


WHOLE = {drive: (drive, IN_SYNC) for drive in range(4)}


def without(*drives: int) -> dict[int, tuple[int, str]]:
    return {drive: each for drive, each in WHOLE.items() if drive not in drives}


def hear(judge: HistoryJudge, purpose: Purpose, step: list[Any], seen: dict[str, Any], act: int = 0) -> list[str]:
    before = len(judge.differences)
    judge.hear(PlannedStep(step, act, purpose), seen)
    return [each.kind for each in judge.differences[before:]]


def look(judge: HistoryJudge, states: dict[int, tuple[int, str]], *bad: list[Any], act: int = 0) -> list[str]:
    return hear(
        judge, Purpose.LOOK, ["check"], step_output(states, judge.expected.members, verdicts={}, bad=list(bad)), act
    )


def corrupt(block: int) -> list[Any]:
    """A silently corrupt block, as a check lists it."""
    return [block, CORRUPT, ["unknown bytes"], [1]]


CLEAN: dict[str, Any] = {"verdicts": {}, "bad": []}
GONE: dict[str, Any] = {"status": 1, "output": "no", "state": {}, "members": {}}


@pytest.mark.parametrize(
    ("purpose", "step", "seen", "expected"),
    [
        (Purpose.LOOK, ["check"], step_output(WHOLE, **CLEAN), []),
        (Purpose.LOOK, ["check"], step_output(WHOLE, **CLEAN, state={"degraded": "1"}), ["degraded miscounted"]),
        (Purpose.LOOK, ["check"], {"broke": "OSError"}, ["could not be played"]),
        (Purpose.REST, ["idle", 1], step_output(WHOLE, idle=True), []),
        (Purpose.REST, ["idle", 1], step_output(WHOLE, idle=False), ["stood still"]),
        (Purpose.REST, ["idle", 1], step_output(WHOLE, idle=True, state={"resync_start": "0"}), ["not resynced"]),
        (Purpose.PARITY, ["parity"], step_output(WHOLE, wrong=[]), []),
        (Purpose.PARITY, ["parity"], step_output(WHOLE, wrong=[3]), ["redundancy does not fit"]),
        (Purpose.TROUBLE, ["trouble"], {"trouble": []}, []),
        (Purpose.TROUBLE, ["trouble"], {"trouble": ["WARNING: CPU: 0"]}, ["kernel complained"]),
        (Purpose.START, ["assemble", [0], False], GONE, ["not started"]),
        (
            Purpose.START,
            ["assemble", [0], False],
            step_output(without(3), status=0, output="", labels={}),
            ["member left out"],
        ),
        (Purpose.PART, ["load", [], 1], {"failures": 2}, ["write failed"]),
        (Purpose.CREATE, ["run", ["mdadm"], 1], {"status": 1, "output": "no"}, ["not created"]),
        (Purpose.HALT, ["halt"], {"refused": "busy"}, ["could not be stopped"]),
    ],
)
def test_unexpected_states_are_reported_as_differences(
    purpose: Purpose, step: list[Any], seen: dict[str, Any], expected: list[str]
) -> None:
    judge = judge_of(Act(ActKind.RESTART))
    assert hear(judge, purpose, step, seen) == expected
    assert not judge.explained


@pytest.mark.parametrize("verdict", [LOST, CORRUPT, UNREADABLE])
def test_a_wrong_block_is_reported_with_allowed_versions(verdict: str) -> None:
    judge = judge_of(Act(ActKind.CHECK))
    assert look(judge, WHOLE, [7, verdict, [1], [3]]) == [verdict]
    assert "block 7 holds [1], allowed: [3]" in judge.differences[0].text


def test_a_member_lost_without_a_reason_is_reported_and_a_failed_one_is_not() -> None:
    judge = judge_of(Act(ActKind.FAIL, 2))
    assert look(judge, without(1)) == ["member lost"]
    judge = judge_of(Act(ActKind.FAIL, 2))
    assert hear(judge, Purpose.TOOL, ["manage", "fail", "/dev/drive2"], {"refused": ""}) == []
    assert look(judge, {**without(2), 2: (-1, "faulty")}) == []


def test_unreadable_is_right_where_the_level_cannot_help_and_nowhere_else() -> None:
    judge = judge_of(Act(ActKind.FAIL, 0), Act(ActKind.FAIL, 1))
    for act in (0, 1):
        hear(judge, Purpose.TOOL, ["manage", "fail", f"/dev/drive{act}"], {"refused": ""}, act)
    places = {block: judge.expected.map.places(block)[0][0] for block in range(12)}
    gone = next(block for block, slot in places.items() if slot in (0, 1))
    there = next(block for block, slot in places.items() if slot in (2, 3))
    assert look(judge, without(0, 1), [gone, UNREADABLE, [], [1]]) == []
    assert judge.explained[DECLARED] == 1
    assert look(judge, without(0, 1), [there, UNREADABLE, [], [1]]) == [UNREADABLE]
    # Invented data are never allowed.
    assert look(judge, without(0, 1), corrupt(gone)) == [CORRUPT]


def cut(judge: HistoryJudge, open_: list[int], kind: str = "subset") -> None:
    assert hear(judge, Purpose.CUT, ["cut", [0, 1, 2, 3], kind, "1"], {"refused": "", "open": open_}) == []


def start(judge: HistoryJudge, states: dict[int, tuple[int, str]], **more: Any) -> list[str]:
    seen = step_output(states, judge.expected.members, status=0, output="", **{"labels": {}, **more})
    return hear(judge, Purpose.START, ["assemble", [0, 1, 2, 3], True], seen)


def lose_with_power(judge: HistoryJudge) -> tuple[int, int, int]:
    """Lose drive 0 with the power. Return a block on it in a written strip, one in another, and a neighbour."""
    found = judge.expected.map
    block = next(block for block in range(12, 24) if found.places(block)[0][0] == 0)
    strip = found.strips([block])
    (neighbour, *_) = sorted(found.blocks_in(strip, {1, 2, 3}))
    other = block + 1
    cut(judge, [neighbour], "ended")
    hear(judge, Purpose.PART, ["line", "pull 0"], {})
    return block, other, neighbour


@pytest.mark.parametrize("policy", [HistoryPolicy.RESYNC, HistoryPolicy.BITMAP])
def test_the_write_hole_excuses_blocks_of_the_missing_member_in_strips_that_were_written(policy: HistoryPolicy) -> None:
    judge = judge_of(Act(ActKind.CUT, 0, word="ended"), policy=policy)
    block, other, neighbour = lose_with_power(judge)
    assert start(judge, without(0), forced="--force", refusal="dirty and degraded") == []
    assert look(judge, without(0), corrupt(block)) == []
    assert judge.explained["write hole"] == 1
    assert look(judge, without(0), corrupt(other)) == [CORRUPT]
    assert look(judge, without(0), corrupt(neighbour)) == [CORRUPT]
    # Once all blocks are rewritten, nothing is excused.
    assert hear(judge, Purpose.FILL, ["heal"], {"failures": 0}) == []
    assert look(judge, without(0), corrupt(block)) == [CORRUPT]


@pytest.mark.parametrize("policy", [HistoryPolicy.PPL, HistoryPolicy.JOURNAL, HistoryPolicy.WRITE_BACK])
def test_a_log_closes_the_write_hole_and_needs_no_force(policy: HistoryPolicy) -> None:
    judge = judge_of(Act(ActKind.CUT, 0, word="ended"), policy=policy)
    block, _, _ = lose_with_power(judge)
    assert start(judge, without(0), forced="--force", refusal="no") == ["started only by force"]
    assert look(judge, without(0), corrupt(block)) == [CORRUPT]


@pytest.mark.parametrize(("behind", "expected"), [(-1, []), (0, FORCED), (1, FORCED), (-2, FORCED)])
def test_a_journal_may_be_one_event_ahead(behind: int, expected: list[str]) -> None:
    judge = judge_of(Act(ActKind.CUT, word="ended"), policy=HistoryPolicy.JOURNAL)
    cut(judge, [])
    labels = {"/dev/drive0": [7, 0], "/dev/drive7": [7 - behind, JOURNAL_ROLE]}
    assert start(judge, WHOLE, forced="--force", refusal="missing or stale journal device", labels=labels) == expected


@pytest.mark.parametrize(("level", "expected"), [("4", []), ("5", ["not started by force"])])
def test_only_a_raid4_without_parity_needs_more_than_force(level: str, expected: list[str]) -> None:
    judge = judge_of(Act(ActKind.CUT, 3, word="ended"), level=level)
    judge.expected.waived.add(3)
    cut(judge, [])
    hear(judge, Purpose.PART, ["line", "pull 3"], {})
    assert start(judge, without(3), forced="1", refusal="failed to RUN_ARRAY") == expected


@pytest.mark.parametrize(("role", "expected"), [(SPARE_ROLE, []), (1, [CORRUPT])])
def test_a_spare_that_is_taken_for_a_member_in_sync_excuses_what_it_does_not_have(
    role: int, expected: list[str]
) -> None:
    judge = judge_of(Act(ActKind.CUT, word="ended"))
    judge.expected.waived.add(1)
    assert look(judge, {**without(1), 4: (1, "spare")}) == []
    cut(judge, [])
    states = {**without(1), 4: (1, IN_SYNC)}
    assert start(judge, states, labels={"/dev/drive0": [7, 0], "/dev/drive4": [6, role]}) == []
    assert look(judge, states, corrupt(8)) == expected
    assert hear(judge, Purpose.FILL, ["heal"], {"failures": 0}) == []
    assert look(judge, states, corrupt(8)) == [CORRUPT]


@pytest.mark.parametrize(("gone", "expected"), [(1, []), (None, [CORRUPT])])
def test_corruption_is_excused_while_a_member_is_replaced_during_a_rebuild(
    gone: int | None, expected: list[str]
) -> None:
    judge = judge_of(Act(ActKind.REPLACE, 0), level="6")
    judge.expected.waived |= {0, 1}
    states = {drive: (drive, IN_SYNC) for drive in range(5) if drive != gone}
    assert look(judge, {**states, 0: (0, "in_sync,want_replacement"), 5: (0, "spare,replacement")}) == []
    whole = {**states, 0: (0, IN_SYNC), 1: (1, IN_SYNC)}
    assert look(judge, whole, corrupt(8)) == expected
    warning = ["WARNING: CPU: 0 PID: 41 at drivers/md/raid5.c:5238 handle_stripe+0x22b5/0x26e0", "Call Trace:"]
    trouble = [] if gone else ["kernel complained"]
    assert hear(judge, Purpose.TROUBLE, ["trouble"], {"trouble": warning}) == trouble
    assert hear(judge, Purpose.TROUBLE, ["trouble"], {"trouble": ["BUG: other"]}) == ["kernel complained"]


@pytest.mark.parametrize(("there", "expected"), [(WHOLE, []), (without(3), [LOST])])
def test_a_former_member_that_waits_as_a_spare_excuses_what_it_has_missed(
    there: dict[int, tuple[int, str]], expected: list[str]
) -> None:
    judge = judge_of(Act(ActKind.READD, 7), policy=HistoryPolicy.BITMAP)
    judge.expected.waived |= {3, 7}
    assert look(judge, there) == []
    assert hear(judge, Purpose.TOOL, ["run", ["mdadm", "--re-add"], 1], {"status": 0, "output": ""}) == []
    assert look(judge, {**there, 7: (-1, "spare")}) == []
    assert look(judge, {**without(3), 7: (3, IN_SYNC)}, [8, LOST, [1], [3]]) == expected


@pytest.mark.parametrize(("rebuilding", "expected"), [(True, []), (False, ["redundancy does not fit"])])
def test_parity_of_what_a_journal_did_not_log_is_excused_until_all_is_written_again(
    rebuilding: bool, expected: list[str]
) -> None:
    judge = judge_of(Act(ActKind.CUT, word="ended"), policy=HistoryPolicy.JOURNAL)
    judge.expected.waived.add(1)
    states = {**without(1), 4: (1, "spare")} if rebuilding else WHOLE
    assert look(judge, states) == []
    cut(judge, [40])
    assert start(judge, states) == []
    whole = {**without(1), 4: (1, IN_SYNC)} if rebuilding else WHOLE
    (row,) = judge.expected.map.rows(judge.expected.map.strips([40]), (), ())
    assert hear(judge, Purpose.REST, ["idle", 1], step_output(whole, idle=True)) == []
    assert hear(judge, Purpose.PARITY, ["parity"], step_output(whole, wrong=[row])) == expected
    assert hear(judge, Purpose.PARITY, ["parity"], step_output(whole, wrong=[row + 1])) == ["redundancy does not fit"]
    assert hear(judge, Purpose.FILL, ["heal"], {"failures": 0}) == []
    assert hear(judge, Purpose.PARITY, ["parity"], step_output(whole, wrong=[row])) == ["redundancy does not fit"]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [(HistoryPolicy.BITMAP, []), (HistoryPolicy.RESYNC, ["redundancy does not fit"])],
)
def test_with_a_bitmap_the_new_part_of_a_raid10_that_got_a_member_may_not_fit(
    policy: HistoryPolicy, expected: list[str]
) -> None:
    judge = judge_of(Act(ActKind.GROW, 4), level="10", policy=policy)
    step = ["run", ["mdadm", "--grow", "/dev/md0", "--raid-devices=5"], 1]
    assert hear(judge, Purpose.TOOL, step, {"status": 0, "output": ""}) == []
    whole = {drive: (drive, IN_SYNC) for drive in range(5)}
    rows = judge.expected.maps[0].row_count
    assert hear(judge, Purpose.PARITY, ["parity"], step_output(whole, 5, wrong=[rows])) == expected
    assert hear(judge, Purpose.PARITY, ["parity"], step_output(whole, 5, wrong=[rows - 1])) == [
        "redundancy does not fit"
    ]


def test_only_raid10_gives_up_a_rebuild_for_a_bad_block() -> None:
    for level, expected in (("10", []), ("1", ["not rebuilt"])):
        judge = judge_of(Act(ActKind.ADD, 7), level=level)
        judge.expected.waived |= {0, 2, 3}
        seen = step_output({1: (1, IN_SYNC), 7: (-1, "spare")}, members=2, idle=True)
        seen["members"]["/dev/drive1"] = [1, IN_SYNC, [[1920, 8]]]
        judge.expected.members = 2
        assert hear(judge, Purpose.REST, ["idle", 1], seen) == expected


def test_what_a_known_bug_has_lost_stays_lost_until_it_is_written_again() -> None:
    judge = judge_of(Act(ActKind.CUT, word="flushed"), policy=HistoryPolicy.WRITE_BACK)
    cut(judge, [], "flushed")
    assert start(judge, WHOLE) == []
    bad = corrupt(9)
    assert hear(judge, Purpose.SETTLE, ["settle"], step_output(WHOLE, verdicts={}, bad=[bad])) == []
    assert look(judge, WHOLE, bad) == []
    assert look(judge, WHOLE, corrupt(10)) == [CORRUPT]


def test_a_log_is_not_replayed_where_an_array_that_died_is_started_by_force() -> None:
    judge = judge_of(Act(ActKind.FORCE), policy=HistoryPolicy.PPL)
    found = judge.expected.map
    block = next(block for block in range(12, 24) if found.places(block)[0][0] == 0)
    (neighbour, *_) = sorted(found.blocks_in(found.strips([block]), {1, 2, 3}))
    look(judge, {**without(0, 1), 0: (-1, "faulty"), 1: (1, "faulty")})
    judge.differences.clear()
    hear(judge, Purpose.UNSURE, ["unsure"], {"open": [neighbour]})
    assert start(judge, without(0), forced="--force", refusal="not enough") == []
    assert look(judge, without(0), corrupt(block)) == []
    assert judge.explained["write hole"] == 1


def test_a_member_that_had_failed_is_not_taken() -> None:
    judge = judge_of(Act(ActKind.FAIL, 3), Act(ActKind.RESTART))
    hear(judge, Purpose.TOOL, ["manage", "fail", "/dev/drive3"], {"refused": ""})
    look(judge, {**without(3), 3: (-1, "faulty")})
    seen = step_output(WHOLE, status=0, output="", labels={})
    assert hear(judge, Purpose.START, ["assemble", [0], False], seen, 1) == ["stale member taken"]


def test_a_spare_must_be_rebuilt_on() -> None:
    judge = judge_of(Act(ActKind.IDLE))
    judge.expected.waived.add(1)
    spare = {**without(1), 5: (-1, "spare")}
    assert hear(judge, Purpose.REST, ["idle", 1], step_output(spare, idle=True)) == ["not rebuilt"]


def test_rows_with_known_bad_blocks_need_not_fit() -> None:
    judge = judge_of(Act(ActKind.IDLE))
    # 12 pages from the beginning of the data: row 3 of chunks of 4 pages.
    bad = {**step_output(WHOLE, wrong=[3])}
    bad["members"]["/dev/drive0"] = [0, IN_SYNC, [[96, 8]]]
    assert hear(judge, Purpose.PARITY, ["parity"], bad) == []


def test_a_scrub_must_count_exactly_the_corrupted_sectors() -> None:
    act = Act(ActKind.SPOIL, 2, number=16, at=5000)
    for drive, count, expected in ((2, "0", ["scrub missed corruption"]), (2, "8", []), (5, "0", [])):
        judge = judge_of(msgspec.structs.replace(act, drive=drive))
        look(judge, {**WHOLE, 5: (-1, "spare")})
        hear(judge, Purpose.SPOILED, ["spoil", f"/dev/drive{drive}", 5000, 16], {"bytes": 4096})
        seen = step_output(WHOLE, idle=True, state={"mismatch_cnt": count})
        assert hear(judge, Purpose.SCRUBBED, ["idle", 1], seen) == expected
    for count, expected in (("0", []), ("8", ["scrub counts"])):
        seen = step_output(WHOLE, idle=True, state={"mismatch_cnt": count})
        assert hear(judge_of(Act(ActKind.SCRUB, word="check")), Purpose.SCRUBBED, ["idle", 1], seen) == expected


@pytest.mark.parametrize("level", ["1", "5", "6", "10"])
def test_a_scrub_that_begins_where_a_sync_is_due_may_count_and_the_next_one_may_not(level: str) -> None:
    members = MEMBERS[level]
    whole = {drive: (drive, IN_SYNC) for drive in range(members)}
    counted = step_output(whole, members, idle=True, state={"mismatch_cnt": "512"})
    due = step_output(whole, members, **CLEAN, state={"resync_start": "2816"})
    rebuilt = step_output({**whole, 1: (1, "spare")}, members, **CLEAN)
    for before in (due, rebuilt):
        judge = judge_of(Act(ActKind.SCRUB, word="repair"), Act(ActKind.SCRUB, word="check"), level=level)
        judge.expected.waived.add(1)
        hear(judge, Purpose.LOOK, ["check"], before)
        assert hear(judge, Purpose.SCRUBBED, ["idle", 1], counted) == []
        assert hear(judge, Purpose.SCRUBBED, ["idle", 1], counted, 1) == ["scrub counts"]


def test_a_refused_fail_is_excused_if_a_drive_was_missing_for_a_while() -> None:
    refused = {"refused": "Device or resource busy"}
    states = {0: (0, IN_SYNC), 1: (1, IN_SYNC)}
    for lines, expected in ((("pull 0", "plug 0"), []), ((), ["fail refused"])):
        judge = judge_of(Act(ActKind.FAIL, 1), level="1")
        look(judge, states)
        for line in lines:
            hear(judge, Purpose.PART, ["line", line], {})
        assert hear(judge, Purpose.TOOL, ["manage", "fail", "/dev/drive1"], refused) == expected


def test_a_scrub_may_count_in_a_new_part_until_md_is_at_rest() -> None:
    judge = judge_of(Act(ActKind.ENLARGE, number=1536), Act(ActKind.SCRUB, word="check"))
    hear(judge, Purpose.TOOL, ["run", ["mdadm", "--grow", "/dev/md0", "--size=1536"], 60.0], {"status": 0})
    counted = step_output(WHOLE, idle=True, state={"mismatch_cnt": "512"})
    assert hear(judge, Purpose.SCRUBBED, ["idle", 1], counted, 1) == []
    hear(judge, Purpose.REST, ["idle", 1], step_output(WHOLE, idle=True))
    assert hear(judge, Purpose.SCRUBBED, ["idle", 1], counted, 1) == ["scrub counts"]


def test_a_corrupted_block_may_be_bad_until_it_is_rewritten() -> None:
    judge = judge_of(Act(ActKind.SPOIL, 0, number=16, at=5000))
    block = next(block for block in range(12) if judge.expected.map.places(block) == [(0, 1)])
    hear(judge, Purpose.SPOILED, ["spoil", "/dev/drive0", 5000, 16], {"bytes": 4096})
    assert look(judge, WHOLE, corrupt(block)) == []
    hear(judge, Purpose.FILL, ["rewrite", [block]], {"failures": 0})
    assert look(judge, WHOLE, corrupt(block)) == [CORRUPT]


def test_writes_may_fail_where_too_few_members_are_left() -> None:
    judge = judge_of(Act(ActKind.FAIL, 0), level="1")
    whole = {0: (0, IN_SYNC), 1: (1, IN_SYNC)}
    judge.expected.pulled.add(1)
    assert hear(judge, Purpose.TOOL, ["manage", "fail", "/dev/drive0"], {"refused": "busy"}) == []
    assert judge.expected.is_broken
    assert hear(judge, Purpose.PART, ["load", [], 1], {"failures": 2}) == []
    assert look(judge, whole) == []
