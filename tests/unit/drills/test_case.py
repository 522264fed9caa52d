"""The stored state of a drill, exams, and the texts of the debriefing."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lab.arrays.discovery import plain_uuid
from lab.checks.state import DrillEnd, parse_examine
from lab.classroom.folder import DrillTry, decode_outcome
from lab.classroom.grading import BUILT_IN, CountedWork, chosen_try, drill_worth, read_scale
from lab.drills import desk, verdict
from lab.drills.case import (
    CHANGED_FILE,
    OUTCOME_VERSION,
    CaseRecord,
    DrillCase,
    DrillCommand,
    DrillOutcome,
    DrillStore,
    ExamTerms,
    begin_exam,
    ended_words,
    forget_drill,
    require_no_exam,
    stored_name,
)
from lab.drills.schema import file_digest, find_drill, read_drill, ready
from lab.drills.verbs import StartDrill, answer_one
from lab.drills.verdict import STRIP_CELLS, debriefing, lacking, strip, verdict_of
from lab.errors import DrillError, SpecError
from lab.machine import Host, parse_target
from lab.session.session import (
    Arrival,
    Leftovers,
    left_words,
    read_leftovers,
    still_there,
    store_arrival,
    store_leftovers,
)
from lab.units import KIB, MIB
from tests.unit.disks.machines import Device, host_in, lab_disks, machine_of
from tests.unit.drills.outcomes import put_outcome
from tests.unit.fakes import FakeMachine
from tests.unit.session.looks import session_on

BEGAN = "2026-12-18T09:00:00Z"
TERMS = ExamTerms(minutes=45, first_utc=BEGAN)


def opened(lab_folder: Path, exam: ExamTerms | None = None) -> DrillCase:
    path = find_drill("1")
    record = CaseRecord(drill=path.stem, target="uml:", began_utc=BEGAN, file_system_uuid="x", blocks=10, exam=exam)
    (lab_folder / "drill").mkdir(parents=True, exist_ok=True)
    case = DrillCase(lab_folder / "drill", record, ready(read_drill(path), path))
    case.change()
    return case


def read_again(lab_folder: Path) -> DrillCase:
    case = DrillCase.find(lab_folder)
    assert case is not None
    return case


def test_hints_shown_by_another_process_are_counted(tmp_path: Path) -> None:
    case, other = opened(tmp_path), read_again(tmp_path)
    assert [other.hint()[0], other.hint()[0]] == [1, 2]
    case.change(open_seconds=5.0)
    assert case.hint()[0] == 3
    found = read_again(tmp_path).record
    assert (found.hints, found.open_seconds) == (3, 5.0)


GONE = '{"drill": "/gone.toml", "target": "", "began_utc": "", "file_system_uuid": "", "blocks": 1}'


@pytest.mark.parametrize("text", ["", "{", '{"drill": "1", "target": ""}', GONE])
def test_a_damaged_one_can_be_left(tmp_path: Path, text: str) -> None:
    case = opened(tmp_path)
    (case.folder / "case.json").write_text(text)
    with pytest.raises(DrillError) as caught:
        DrillCase.find(tmp_path)
    assert "drill leave" in caught.value.hint
    assert forget_drill(tmp_path)
    assert DrillCase.find(tmp_path) is None
    assert not forget_drill(tmp_path)


@pytest.mark.parametrize("seed", ["x" * 101, " ", "a\nb", "\x1b[2J", " anna"])
def test_an_invalid_seed_is_refused_at_the_start(seed: str) -> None:
    path = find_drill("1")
    with pytest.raises(SpecError, match="is not a valid seed"):
        ready(read_drill(path), path, seed)


def at(minutes: float) -> str:
    return f"{datetime(2026, 12, 18, 9, tzinfo=UTC) + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return host_in(tmp_path)


def test_the_first_attempt_counts_and_another_is_seen(host: Host) -> None:
    first = begin_exam(host, "11-second-error", seed="otter", minutes=45, again=False)
    assert first.attempt == 1
    with pytest.raises(DrillError, match="only the first attempt counts") as caught:
        begin_exam(host, "11-second-error", seed="fox", minutes=45, again=False)
    assert "--again" in caught.value.hint
    assert begin_exam(host, "01-dropped-members", seed="", minutes=10, again=False).attempt == 1
    # A truncated line does not invalidate the other lines.
    with (host.state.root / "drills" / "exams.jsonl").open("ab") as log:
        log.write(b'{"drill": "11-second-error", "minu\n')
    second = begin_exam(host, "11-second-error", seed="fox", minutes=60, again=True)
    assert (second.attempt, second.first_utc) == (2, first.first_utc)


@pytest.mark.parametrize("fails", [True, False])
def test_a_disaster_that_cannot_be_made_costs_no_attempt(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    path = find_drill("11")
    drill = ready(read_drill(path), path, "otter")
    session: Any = SimpleNamespace(
        host=host, folder=tmp_path / "lab", target="uml:", machine=FakeMachine(), is_embedded=False
    )

    def keep(*_: object) -> None:
        if fails:
            raise DrillError("the copies of the disks: no space left on device")

    replaced = ("require_possible", "drill_disks", "store_arrival", "release", "examine_members", "begin_truth")
    for name in (*replaced, "environment"):
        monkeypatch.setattr(desk, name, lambda *_: {})
    monkeypatch.setattr(desk, "images_of", keep)
    methods = ((desk.DisasterMaker, "do"), (desk.DrillClock, "__init__"), (desk.DrillClock, "put_right"))
    for kind, name in (*methods, (desk.DrillDesk, "_arrive")):
        monkeypatch.setattr(kind, name, lambda *_: None)
    attempt = partial(begin_exam, host, drill.id, seed="otter", minutes=45, again=False)
    with suppress(DrillError):
        desk.DrillDesk.begin(session, drill, attempt)
    assert (host.state.root / "drills" / "exams.jsonl").exists() is not fails
    if not fails:
        assert read_again(tmp_path / "lab").record.exam is not None


@pytest.mark.parametrize("minutes", [0, -1, 24 * 60 + 1, float("inf"), float("nan")])
def test_a_time_limit_has_bounds(host: Host, minutes: float) -> None:
    with pytest.raises(DrillError, match="minutes"):
        begin_exam(host, "a", seed="", minutes=minutes, again=False)
    assert not (host.state.root / "drills" / "exams.jsonl").exists()


def test_time_goes_by_the_clock(tmp_path: Path) -> None:
    exam, practice = (opened(tmp_path / str(terms), terms).record for terms in (TERMS, None))
    exam.require_time(at(45))
    practice.require_time(at(1000))
    with pytest.raises(DrillError, match="time for this exam is up") as caught:
        exam.require_time(at(46))
    assert "debrief" in caught.value.hint
    assert exam.exam_words(at(30)) == "attempt 1, 15 of 45 minutes left"
    assert "time is up" in exam.exam_words(at(50))
    for minutes, over, words in ((44, 0, ""), (48, 3, ", ended 3.0 minutes late")):
        end = exam.exam_end(at(minutes))
        assert end is not None
        assert end.over_minutes == over
        assert ended_words(end) == f"exam of 45 minutes, attempt 1{words}"
    assert practice.exam_end(at(48)) is None


@pytest.mark.parametrize(
    ("exam", "word", "answered"),
    [
        (None, "hint", "Hint 1 of 4. Before you write anything"),
        (TERMS, "hint", "an exam has no hints: end it with 'raidlab drill debrief'"),
        (None, "status", "# Members dropped out, one after the other"),
    ],
)
def test_what_is_typed_at_the_machines_shell_is_answered_there(
    tmp_path: Path, exam: ExamTerms | None, word: str, answered: str
) -> None:
    machine = FakeMachine()
    request = f"{desk.GUEST_FOLDER}/request"
    machine.files[request] = f"12-34 {word}\n"
    open_desk: Any = SimpleNamespace(
        session=SimpleNamespace(machine=machine), case=opened(tmp_path, exam), now_utc=BEGAN, is_over=False
    )
    assert not answer_one(open_desk)
    assert machine.files[request] == ""
    answer = machine.files[f"{desk.GUEST_FOLDER}/.12-34"] or ""
    assert answer.startswith(answered)
    assert "**" not in answer
    assert machine.runs[-1] == ("mv", f"{desk.GUEST_FOLDER}/.12-34", f"{desk.GUEST_FOLDER}/answer.12-34")
    assert not answer_one(open_desk), "it was answered"


@pytest.mark.parametrize("damaged", ["truth.json", "truth-begun.json", ""])
def test_an_exam_is_given_up_only_if_it_cannot_be_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str
) -> None:
    opened(tmp_path, TERMS)
    monkeypatch.setattr(desk, "drill_disks", lambda *_: ())
    session: Any = SimpleNamespace(
        folder=tmp_path, machine=FakeMachine(), target=SimpleNamespace(is_embedded=True), is_embedded=True
    )
    exam = desk.DrillDesk(session, read_again(tmp_path))
    if damaged:
        (tmp_path / "drill" / damaged).write_text("{")
        exam.leave()
    else:
        with pytest.raises(DrillError, match="cannot be given up") as caught:
            exam.leave()
        assert "debrief" in caught.value.hint
    assert (DrillCase.find(tmp_path) is None) is bool(damaged)


def test_practice_does_not_replace_an_open_exam(tmp_path: Path) -> None:
    case = opened(tmp_path, TERMS)
    session: Any = SimpleNamespace(folder=tmp_path)
    host: Any = SimpleNamespace(state=SimpleNamespace(lab_folder=lambda _: tmp_path))
    for begin in (
        lambda: StartDrill(name="1", again=True).ready(host, parse_target("uml:")),
        lambda: desk.DrillDesk.begin(session, case.drill),
    ):
        with pytest.raises(DrillError, match="an exam in 01-dropped-members is open") as caught:
            begin()
        assert "debrief" in caught.value.hint
    assert read_again(tmp_path).record.exam == TERMS
    case.change(exam=None)
    require_no_exam(tmp_path)


@pytest.mark.parametrize("is_repeated", [False, True])
def test_a_damaged_drill_is_replaced_only_by_one_that_starts_over(tmp_path: Path, is_repeated: bool) -> None:
    case = opened(tmp_path)
    (case.folder / "case.json").write_text("{")
    host: Any = SimpleNamespace(state=SimpleNamespace(lab_folder=lambda _: tmp_path, root=tmp_path))
    verb = StartDrill(name="2", seed="anna", again=is_repeated)
    if is_repeated:
        assert verb.ready(host, parse_target("uml:")).id.startswith("02-")
        return
    with pytest.raises(DrillError) as caught:
        verb.ready(host, parse_target("uml:"))
    assert "drill leave" in caught.value.hint


def test_an_exam_is_replaced_only_by_an_attempt_at_the_same_drill(tmp_path: Path) -> None:
    case = opened(tmp_path, TERMS)
    other = ready(read_drill(find_drill("2")), find_drill("2"))
    session: Any = SimpleNamespace(folder=tmp_path)
    with pytest.raises(DrillError, match="an exam in 01-dropped-members is open"):
        desk.DrillDesk.begin(session, other, lambda: TERMS)
    require_no_exam(tmp_path, besides=stored_name(case.drill.id, case.drill.path))
    assert read_again(tmp_path).record.exam == TERMS


@pytest.mark.parametrize("changes", [{"drill": "/moved/01-mine.toml"}, {"format_version": 9}])
def test_an_exam_that_only_this_program_cannot_judge_is_not_replaced(tmp_path: Path, changes: dict[str, Any]) -> None:
    opened(tmp_path, TERMS).change(**changes)
    with pytest.raises(DrillError) as caught:
        DrillCase.find(tmp_path)
    assert "leave" not in caught.value.hint
    with pytest.raises(DrillError, match="is open in this lab"):
        require_no_exam(tmp_path)
    (tmp_path / "drill" / "case.json").write_text("{")
    require_no_exam(tmp_path)


def tried(outcome: str, *, attempt: int = 0, over: float = 0.0, verdict: str = "saved") -> DrillTry:
    figures = (verdict, 100.0, 5.0, 0, 0, 0, attempt, over, ())
    return DrillTry("k", "f", outcome, outcome, "11-second-error", "", "otter", at(attempt), at(attempt + 5), *figures)


def test_a_scale_counts_the_first_attempt_and_takes_off_for_time() -> None:
    scale, line = read_scale(BUILT_IN), CountedWork(name="11-second-error", attempt="exam")
    practice, first, second = tried("p"), tried("a", attempt=1, verdict="lost"), tried("b", attempt=2)
    assert chosen_try(scale, line, [practice]) is None
    assert chosen_try(scale, line, [second, practice, first]) is first
    assert drill_worth(scale, line, tried("c", attempt=1)).points == 4
    assert drill_worth(scale, line, tried("c", attempt=1, over=0.5)).points == 2
    assert drill_worth(scale, line, second).points == 0


CAPTURES = Path(__file__).with_name("captures")


def captured(name: str) -> str:
    return (CAPTURES / f"examine-{name}.txt").read_text(encoding="utf-8")


def test_metadata_of_version_1_2() -> None:
    picture = parse_examine("disk01", captured("1.2"))
    assert picture.has_superblock
    assert (picture.level, picture.devices, picture.role, picture.state) == ("raid5", 3, "Active device 0", "clean")
    assert (picture.events, picture.data_offset_sectors) == (18, 2048)
    assert (picture.chunk, picture.layout) == ("64K", "left-symmetric")
    assert picture.uuid == "1114ddd0:c1cb7c90:3fd34e0c:1fe08cd6"
    assert picture.created == "Tue Nov 24 17:35:57 2026"


def test_metadata_of_version_0_90() -> None:
    picture = parse_examine("disk04", captured("0.90"))
    assert picture.uuid == "0feec018:cf4ba7c7:21d546d2:7da2707b"
    assert (picture.level, picture.devices, picture.events) == ("raid1", 2, 7)


@pytest.mark.parametrize("note", ["mdadm: No md superblock detected on /dev/ubdf.", ""])
def test_a_disk_without_a_superblock_has_the_note_of_mdadm(note: str) -> None:
    picture = parse_examine("disk06", f"{note}\n")
    assert not picture.has_superblock
    assert picture.note == (note or "nothing")


def test_invalid_output_of_mdadm_is_sanitised() -> None:
    picture = parse_examine(
        "disk01", "Array UUID : \x1b[31mred\nEvents : 99999999999999999999999999\nData Offset : x\n"
    )
    assert "\x1b" not in picture.uuid
    assert picture.data_offset_sectors == 0


def test_control_characters_in_a_name_forge_no_line_of_examine() -> None:
    name = "\r     Raid Level : raid0\x0b     Events : 9\x85     Device Role : spare"
    text = captured("1.2").replace("Name : ", f"Name : {name}")
    picture = parse_examine("disk01", text)
    assert (picture.level, picture.role, picture.events) == ("raid5", "Active device 0", 18)


ENDED = DrillOutcome(
    format_version=OUTCOME_VERSION, id="x", drill="x", title="x", began_utc="", ended_utc="", verdict="not recovered",
    saved_percent=0.0, blocks={"missing": 1}, kept_percent=100.0, begun_percent=100.0, touched_bytes=0,
    was_committed=False, minutes=1.0, hints=1, resets=0,
)  # fmt: skip


def page_of(**changes: Any) -> str:
    """The debriefing of ENDED with these changes."""
    return debriefing(msgspec.structs.replace(ENDED, **changes), None)


@pytest.mark.parametrize(
    ("saved", "kept", "is_as_asked", "touched", "verdict"),
    [
        (100.0, 100.0, True, 0, "saved"),
        (93.0, 93.0, True, 0, "saved"),
        (100.0, 100.0, True, 512, "saved, at risk"),
        (100.0, 100.0, False, 512, "saved, unfinished"),
        (0.0, 100.0, False, 0, "not recovered"),
        (50.0, 93.0, False, 0, "not recovered"),
        (50.0, 92.99, False, 0, "partly lost"),
        (0.0, 0.01, False, 0, "partly lost"),
        (0.0, 0.0, False, 0, "lost"),
        (0.0, None, False, 0, "not recovered"),
    ],
)
def test_the_verdict(saved: float, kept: float | None, is_as_asked: bool, touched: int, verdict: str) -> None:
    assert verdict_of(saved, kept, lost_percent=7.0, is_as_asked=is_as_asked, touched_bytes=touched) == verdict


def test_the_page_distinguishes_saved_recoverable_and_destroyed_data() -> None:
    assert "# x: a word" in page_of(verdict="a word")
    page = page_of(verdict="partly lost", saved_percent=25.0, kept_percent=60.5)
    assert "data saved: **25 %** of 1 block of 4 KiB" in page
    assert "can still be recovered from the disks: **60.5 %**" in page
    assert "destroyed since the drill began: **39.5 %**" in page
    at_begin = page_of(kept_percent=98.5, begun_percent=98.5)
    assert "destroyed since the drill began: **0 %**; 1.5 % were lost when the drill began" in at_begin
    assert "1 minute, 0 commands, 1 hint, 0 resets" in page


def test_bytes_written_are_shown_with_bytes_that_differ() -> None:
    page = page_of(touched_bytes=32 * KIB, changed_bytes=2 * KIB)
    assert "written to the disks before commit: **32 KiB written, of which 2 KiB differ**" in page


def test_several_lines_that_were_typed_at_once_are_lines() -> None:
    typed = DrillCommand(seconds=60.0, line="for d in a b; do\n  echo $d\n\ndone\n")
    page = page_of(commands=(typed,))
    assert "- 1.0 min: 3 lines\n    - `for d in a b; do`\n    - `  echo $d`\n    - `done`\n" in page
    many = DrillCommand(seconds=60.0, line="\n".join(f"echo {number}" for number in range(99)))
    page = page_of(commands=(many,))
    assert "99 lines\n    - `echo 0`\n" in page
    assert "    - `echo 19`\n    - 79 more\n" in page


def test_required_and_found_are_shown_separately_and_escaped() -> None:
    assert lacking("md0 is complete", "md0 lacks 1 member") == "required: md0 is complete; found: md0 lacks 1 member"
    sentence = lacking("the file system on the array can be mounted", "mount: \x1b[2J" + "x" * 9999)
    assert sentence.startswith(r"required: the file system on the array can be mounted; found: mount: \x1b[2Jx")
    assert len(sentence) < 300


def test_a_little_and_much_look_different_and_are_explained() -> None:
    size = 128 * MIB
    assert strip([[0, 512]], size)[0] != strip([[0, 349 * KIB]], size)[0] != strip([[0, 2 * MIB]], size)[0]
    assert strip([], size) == "·" * STRIP_CELLS
    changed = {"disk01": [[0, 512]], "disk02": [[0, 349 * KIB]]}
    page = page_of(changed=changed, sizes={"disk01": size, "disk02": size})
    assert "512 B differ" in page
    assert "one character: 4 MiB" in page
    assert "128 MiB" in page


def test_an_outcome_of_the_first_format_is_read_and_claims_no_more_than_it_knew(host: Host) -> None:
    written = (CAPTURES / "outcome-1.json").read_bytes()
    outcome = decode_outcome(written, "04-superblocks-gone-20261126T203519Z", "a bundle")
    assert (outcome.format_version, outcome.kept_percent) == (1, None)
    for word, says in (("lost", "destroyed, or no running array"), ("partly lost", "was missing")):
        page = debriefing(msgspec.structs.replace(outcome, verdict=word), None)
        assert says in page
        assert "can still be recovered" not in page
    put_outcome(host, outcome)
    (host.state.root / "drills" / outcome.drill / f"{outcome.id}.json").write_bytes(written)
    assert DrillStore(host).all() == (outcome,)


def test_an_outcome_records_whether_the_drills_file_has_changed(tmp_path: Path) -> None:
    case = opened(tmp_path)
    digest = file_digest(case.drill.path)
    session = SimpleNamespace(machine=FakeMachine())
    judged: Any = SimpleNamespace(
        case=case, session=session, now_utc=BEGAN, minutes=1.0, disks=(), beyond_own=lambda _: 0
    )
    end = DrillEnd(before={}, after={}, changed={}, saved_percent=100.0, touched_bytes=0)
    found = []
    for begun in ("", digest, "of another file"):
        case.change(drill_file=begun)
        found.append(verdict._outcome(judged, end, verdict._Saved(None, (), {}, 100.0, ()), None).drill_file)
    assert found == [digest, digest, CHANGED_FILE]


def test_disks_of_an_open_drill_are_made_blank_only_if_it_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    session = session_on(machine_of(Device("ubda", number="98:97")), lab_disks("a"), "local:")
    session.folder.mkdir(parents=True)
    store_arrival(session.folder, Arrival(title="A drill", script="", environment={}))
    with pytest.raises(DrillError, match="the drill 'A drill' is open on these disks"):
        session.reset_all()
    assert session.reset_all(ends_drill=True).steps


def test_leftovers_of_a_drill_are_reported_until_they_are_removed(tmp_path: Path) -> None:
    uuid = "b7b4c1e2:c3affa09:73428372:c7f0a103"
    left = Leftovers(title="A drill", disks=("disk01", "disk02"), uuids=(plain_uuid(uuid),))
    store_leftovers(tmp_path, left)
    assert still_there(tmp_path, [uuid, "another"]) == left
    assert left_words(left, ["server:data"]) == (
        "the drill 'A drill' left server:data on disk01 to disk02; 'raidlab drill clear' makes these disks blank"
    )
    assert still_there(tmp_path, ["another"]) is None
    assert read_leftovers(tmp_path) is None
