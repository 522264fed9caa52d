"""Crash points: their verdicts, what a known defect excuses, and reports when an exploration ends."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.cli.fault import chosen_configurations, points_exit_code
from lab.errors import ExitCode, LabError, MachineLost, RunCancelled, SpecError, ToolMissing
from lab.faults import crash_points
from lab.faults.crash_points import (
    DriveRecording,
    Exploration,
    Explored,
    Judge,
    PointJudgement,
    PointVerdict,
    Tally,
    explore_all,
    find_configuration,
    stored_points,
)
from lab.faults.guest.ledger import CORRUPT, DRIVE_WRITE, RECORD, Cut, cut_of
from lab.machine import Host, parse_target
from tests.waiting import wait_until

CONFIGURATION = find_configuration("raid5/ppl/idle/mixed")
CUTS = [Cut(number, {}, {}) for number in range(1, 9)]


@pytest.fixture
def exploration(monkeypatch: pytest.MonkeyPatch) -> Exploration:
    """An exploration on a machine that is lost at the fourth crash point."""

    @contextmanager
    def opened(*_: object, **__: object) -> Iterator[object]:
        yield SimpleNamespace(lab=SimpleNamespace(machine=None))

    def judged(_place: object, _recording: object, cuts: list[Cut]) -> Iterator[dict[str, Any]]:
        for number, cut in enumerate(cuts):
            if number == 3:
                raise MachineLost("the kernel crashed")
            yield {"cut": cut.word()}

    class KeepsAll:
        def __init__(self, _: object) -> None:
            pass

        def verdict(self, seen: dict[str, Any]) -> PointVerdict:
            return PointVerdict(seen["cut"], PointJudgement.KEPT, (), seen)

    recording = SimpleNamespace(cuts=lambda _: CUTS, fingerprint="f", images=None)
    monkeypatch.setattr(crash_points, "open_place", opened)
    monkeypatch.setattr(crash_points, "make_recording", lambda *_, **__: recording)
    monkeypatch.setattr(crash_points, "judge_points", judged)
    monkeypatch.setattr(crash_points, "Judge", KeepsAll)
    return Exploration(parse_target("uml:?time=virtual"), Host.real("tests"), points=8)


def test_a_lost_machine_is_reported_with_the_crash_point(exploration: Exploration) -> None:
    (found,) = explore_all(exploration, [(CONFIGURATION, "1")])
    assert (found.tally.points, found.last) == (3, "4")
    assert isinstance(found.error, MachineLost)
    assert points_exit_code([found]) == ExitCode.MACHINE_LOST


@pytest.mark.parametrize(("stops", "error"), [(False, MachineLost), (True, RunCancelled)])
def test_an_unfinished_configuration_is_not_stored(
    stops: bool, error: type[LabError], exploration: Exploration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine is lost at the fourth crash point. A cancellation takes precedence."""
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    host = Host.real("tests")
    with pytest.raises(error):
        Exploration(exploration.target, host, 8, is_stopped=lambda: stops).store_one(CONFIGURATION, "1")
    assert list(stored_points(host)) == []


def test_unfinished_work_is_reported_when_the_exploration_is_closed(
    exploration: Exploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest: list[Explored] = []
    points: list[PointVerdict] = []
    is_closing = threading.Event()

    class Results(queue.SimpleQueue[Any]):
        asked = 0

        def get(self, *_: Any) -> Any:
            self.asked += 1
            if self.asked == 2:
                # Set only on closing; until then only the first result is requested.
                is_closing.set()
            return super().get()

    def on_point(verdict: PointVerdict) -> None:
        points.append(verdict)
        if len(points) > 3:
            # The first point of the second configuration waits here until closing.
            is_closing.wait(60)

    monkeypatch.setattr(queue, "SimpleQueue", Results)
    work = [(CONFIGURATION, str(seed)) for seed in range(9)]
    running = explore_all(replace(exploration, on_point=on_point), work, machines=1, on_rest=rest.append)
    assert next(running).tally.points == 3
    # Otherwise nothing else might have begun.
    wait_until(lambda: len(points) > 3)
    running.close()
    assert [(each.seed, each.tally.points) for each in rest] == [("1", 1)]


def test_a_computer_without_the_kernel_is_reported_once(
    exploration: Exploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_place(*_: object, **__: object) -> object:
        raise ToolMissing("the embedded kernel is not installed", hint="make uml-kernel")

    monkeypatch.setattr(crash_points, "open_place", no_place)
    work = [(CONFIGURATION, str(seed)) for seed in range(9)]
    with pytest.raises(ToolMissing, match="not installed"):
        list(explore_all(exploration, work, machines=2))


def test_the_exit_status_is_that_of_the_gravest_outcome() -> None:
    def one(error: LabError | None, *, is_broken: bool = False) -> Explored:
        tally = Tally()
        if is_broken:
            tally.add(PointVerdict("1", PointJudgement.BROKEN, ("x",), {}))
        return Explored(CONFIGURATION, "1", "", tally, 1.0, error)

    good, broken, lost = one(None), one(None, is_broken=True), one(MachineLost("x"))
    missing = one(ToolMissing("make", hint="make uml-kernel"))
    assert points_exit_code([good]) == ExitCode.DONE
    assert points_exit_code([good, broken]) == ExitCode.FAILED
    assert points_exit_code([broken, lost, missing]) == ExitCode.MACHINE_LOST
    assert points_exit_code([good, missing]) == ExitCode.MISSING


def test_each_name_must_fit_something() -> None:
    assert chosen_configurations(["raid5/ppl/idle/mixed", "raid5/ppl/idle"])[0] == CONFIGURATION
    assert len(chosen_configurations([])) > 70
    with pytest.raises(SpecError):
        chosen_configurations(["raid5", "raid9"])


BROKEN, KNOWN, KEPT = PointJudgement.BROKEN, PointJudgement.KNOWN, PointJudgement.KEPT
DATA_SECTOR = 4096
LABEL = {"raid_disks": 5, "reshape_position": 0, "data_offset": DATA_SECTOR, "recovery_offset": 0}


def judge_of(name: str, *writes: tuple[int, int, int]) -> Judge:
    """A judge for a recording with these unflushed writes: drive, sector of its data, sectors."""
    lines = [
        RECORD.pack(2 * number + 1, 2 * number + 2, DATA_SECTOR + sector, 0, count, drive, DRIVE_WRITE, 0)
        for number, (drive, sector, count) in enumerate(writes)
    ]
    return Judge(DriveRecording(find_configuration(name), "1", [], b"".join(lines)))


def judged(judge: Judge, *, blocks: tuple[int, ...] = (), rows: tuple[int, ...] = (), **seen: Any) -> PointJudgement:
    bad = [[block, CORRUPT, ["unknown bytes"], [1]] for block in blocks]
    look = {"verdicts": {CORRUPT: len(bad)}, "bad": bad, "wrong_rows": list(rows)}
    return judge.verdict({"cut": "100", "idle": True, "settled": look, **seen}).judgement


RESHAPE = "raid5/resync/reshape/mixed"


def test_first_rows_of_a_reshape_are_excused_where_it_has_written_and_not_recorded_it() -> None:
    # The first page of member 1: block 4, the second chunk of the array.
    judge = judge_of(RESHAPE, (1, 0, 8))
    assert judge.places[4] == (1, 0)
    assert judged(judge, blocks=(4,), labels=[LABEL] * 5) is KNOWN
    assert judged(judge, blocks=(5,), labels=[LABEL] * 5) is BROKEN
    assert judged(judge, blocks=(4,), labels=[{**LABEL, "reshape_position": 64}] * 5) is BROKEN
    assert judged(judge, blocks=(4,), labels=[{**LABEL, "reshape_position": None}] * 5) is BROKEN
    assert judged(judge, rows=(0,), labels=[LABEL] * 5) is BROKEN


def test_beyond_its_first_rows_a_reshape_is_excused_of_nothing() -> None:
    # 2 chunks of 4 blocks, times 3 and times 4 data members (before and after the reshape).
    end = 2 * 4 * 3 * 4
    judge = judge_of(RESHAPE, *((drive, 0, 2048) for drive in range(4)))
    assert judged(judge, blocks=(end - 1,), labels=[LABEL] * 5) is KNOWN
    assert judged(judge, blocks=(end,), labels=[LABEL] * 5) is BROKEN


def test_members_that_disagree_on_where_their_data_begin_excuse_all() -> None:
    judge = judge_of(RESHAPE)
    moved = {**LABEL, "reshape_position": None, "data_offset": DATA_SECTOR - 128}
    assert judged(judge, blocks=(700,), rows=(9,), labels=[moved, LABEL, LABEL, LABEL, LABEL]) is KNOWN
    assert judged(judge, blocks=(700,), rows=(9,), labels=[moved] * 5) is BROKEN


@pytest.mark.parametrize(("disks", "found"), [(4, KNOWN), (5, BROKEN)])
def test_an_array_is_refused_only_if_superblocks_have_different_shapes(disks: int, found: PointJudgement) -> None:
    labels = [LABEL, {**LABEL, "raid_disks": disks}]
    seen = {"cut": "100", "labels": labels, "refused": "Invalid argument", "dead": "Invalid argument"}
    assert judge_of(RESHAPE).verdict(seen).judgement is found


def test_a_bitmap_excuses_copies_that_were_being_written_and_no_others() -> None:
    # RAID 10 of four: the first chunk of members 2 and 3 is the second chunk of the array, which is row 1.
    judge = judge_of("raid10/bitmap/rebuild/mixed", (3, 0, 8))
    assert judged(judge, rows=(1,)) is KNOWN
    assert judged(judge, rows=(2,)) is BROKEN
    assert judged(judge, blocks=(4,)) is BROKEN


@pytest.mark.parametrize("level", ["raid4", "raid5", "raid6"])
def test_a_bitmap_excuses_parity_only_below_the_checkpoint_of_the_rebuild(level: str) -> None:
    # Each chunk has 32 sectors, so these writes are in rows 20 and 22.
    judge = judge_of(f"{level}/bitmap/rebuild/mixed", (0, 20 * 32, 8), (0, 22 * 32, 8))
    assert judged(judge, rows=(20,), labels=[LABEL, {**LABEL, "recovery_offset": 680}]) is KNOWN
    assert judged(judge, rows=(21,), labels=[LABEL, {**LABEL, "recovery_offset": 680}]) is BROKEN
    assert judged(judge, rows=(22,), labels=[LABEL, {**LABEL, "recovery_offset": 680}]) is BROKEN
    assert judged(judge, rows=(20,), labels=[LABEL, LABEL]) is BROKEN


def test_where_no_defect_is_known_nothing_is_excused() -> None:
    judge = judge_of("raid5/resync/idle/mixed", (1, 0, 8))
    assert judged(judge) is KEPT
    assert judged(judge, blocks=(4,)) is BROKEN
    assert judged(judge, rows=(0,)) is BROKEN


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("0", "it has no event 0"),
        ("99", "it has no event 99"),
        ("4:9=1", "drive 9 has no open write 1"),
        ("4:0=7", "drive 0 has no open write 7"),
        ("2:1=1", "drive 1 has no open write 1"),
        ("4:1=1:1=0-8", "write 1 has no sectors 0 to 8"),
        ("4:1=1:1=5-1", "write 1 has no sectors 5 to 1"),
        ("4::1=0-3", "write 1 has no sectors 0 to 3"),
        ("4:::9", "drives 9 may not be lost"),
        ("4:::0+1", "drives 0, 1 may not be lost"),
    ],
)
def test_a_cut_of_another_recording_is_refused(word: str, reason: str) -> None:
    recording = judge_of("raid5/resync/idle/mixed", (0, 0, 8), (1, 0, 8)).recording
    for cut in ("2", "4:0=0,1=1:1=0-3", "4:1=1::2"):
        recording.require(cut_of(cut))
    with pytest.raises(SpecError, match=reason):
        recording.require(cut_of(word))


@pytest.mark.parametrize(("target", "machines"), [("uml:?time=virtual", 3), ("qemu:", 1)])
def test_a_machine_in_real_time_is_blanked_and_reused(
    target: str, machines: int, exploration: Exploration, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[SimpleNamespace] = []

    @contextmanager
    def open_place(*_: object, **__: object) -> Iterator[SimpleNamespace]:
        answering = SimpleNamespace(is_answering=lambda _: True)
        opened.append(SimpleNamespace(blanked=0, lab=SimpleNamespace(machine=answering)))
        opened[-1].blank = lambda: setattr(opened[-1], "blanked", opened[-1].blanked + 1)
        yield opened[-1]

    monkeypatch.setattr(crash_points, "open_place", open_place)
    monkeypatch.setattr(crash_points, "judge_points", lambda *_: iter([{"cut": "1"}]))
    work = [(CONFIGURATION, str(seed)) for seed in range(3)]
    found = list(explore_all(replace(exploration, target=parse_target(target)), work, machines=1))
    assert [each.tally.points for each in found] == [1] * 3
    assert [len(opened), sum(each.blanked for each in opened)] == [machines, 3 - machines]
