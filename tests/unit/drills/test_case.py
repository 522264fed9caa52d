"""A drill in the folder of its lab and as an exam: what is stored stays, and there is a way out of a damaged one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.classroom.folder import DrillTry
from lab.classroom.grading import BUILT_IN, CountedWork, chosen_try, drill_worth, read_scale
from lab.drills.case import (
    CaseRecord,
    DrillCase,
    DrillOutcome,
    ExamTerms,
    begin_exam,
    ended,
    ended_words,
    exam_words,
    forget_drill,
    minutes_left,
    require_practice,
    require_time,
)
from lab.drills.schema import find_drill, read_drill, ready
from lab.drills.verdict import debriefing
from lab.errors import DrillError, SpecError
from lab.machine import Host


def opened(lab_folder: Path) -> DrillCase:
    path = find_drill("1")
    record = CaseRecord(drill=path.stem, target="uml:", began_utc="", file_system_uuid="x", blocks=10)
    (lab_folder / "drill").mkdir(parents=True, exist_ok=True)
    case = DrillCase(lab_folder / "drill", record, ready(read_drill(path), path))
    case.change()
    return case


def test_a_hint_that_another_program_noted_is_kept(tmp_path: Path) -> None:
    case = opened(tmp_path)
    other = DrillCase.find(tmp_path)
    assert other is not None
    assert [other.hint()[0], other.hint()[0]] == [1, 2]
    case.change(open_seconds=5.0)
    assert case.hint()[0] == 3
    found = DrillCase.find(tmp_path)
    assert found is not None
    assert (found.record.hints, found.record.open_seconds) == (3, 5.0)


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


@pytest.mark.parametrize(
    "damage", [{"saved_percent": -4.0}, {"changed": {"disk01": []}}, {"changed": {"disk01": [[0, 0]]}}]
)
def test_an_outcome_that_raidlab_cannot_have_written_is_none(damage: dict[str, Any]) -> None:
    sound = DrillOutcome(
        id="x", drill="x", title="x", began_utc="", ended_utc="", verdict="saved", saved_percent=100.0, touched_bytes=0,
        was_committed=True, minutes=1.0, hints=0, resets=0, changed={"disk01": [[0, 512]]},
    )  # fmt: skip
    assert sound.is_sound
    assert not msgspec.structs.replace(sound, **damage).is_sound
    assert "# x: a word" in debriefing(msgspec.structs.replace(sound, verdict="a word"), None)


@pytest.mark.parametrize("seed", ["x" * 101, " ", "a\nb", "\x1b[2J", " anna"])
def test_what_is_no_seed_is_refused_at_the_start(seed: str) -> None:
    path = find_drill("1")
    with pytest.raises(SpecError, match="is no seed"):
        ready(read_drill(path), path, seed)


BEGAN = "2026-12-18T09:00:00Z"
TERMS = ExamTerms(minutes=45, first_utc=BEGAN)


def at(minutes: float) -> str:
    return f"{datetime(2026, 12, 18, 9, tzinfo=UTC) + timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"


@pytest.fixture
def host(tmp_path: Path) -> Host:
    real = Host.real("tests")
    return Host(real.processes, real.files, real.clock, real.state.elsewhere(tmp_path))


def test_the_first_attempt_counts_and_another_is_seen(host: Host) -> None:
    first = begin_exam(host, "11-second-error", seed="otter", minutes=45, again=False)
    assert first.attempt == 1
    with pytest.raises(DrillError, match="first attempt is the one that counts") as caught:
        begin_exam(host, "11-second-error", seed="fox", minutes=45, again=False)
    assert "--again" in caught.value.hint
    assert begin_exam(host, "01-dropped-members", seed="", minutes=10, again=False).attempt == 1
    second = begin_exam(host, "11-second-error", seed="fox", minutes=60, again=True)
    assert (second.attempt, second.first_utc) == (2, first.first_utc)


def test_a_line_that_was_torn_forgets_no_other(host: Host) -> None:
    begin_exam(host, "a", seed="", minutes=1, again=False)
    log = host.state.root / "drills" / "exams.jsonl"
    log.write_bytes(log.read_bytes() + b'{"drill": "a", "minu\n')
    assert begin_exam(host, "a", seed="", minutes=1, again=True).attempt == 2


@pytest.mark.parametrize("minutes", [0, -1, 24 * 60 + 1, float("inf"), float("nan")])
def test_a_time_limit_has_bounds(host: Host, minutes: float) -> None:
    with pytest.raises(DrillError, match="minutes"):
        begin_exam(host, "a", seed="", minutes=minutes, again=False)
    assert not (host.state.root / "drills" / "exams.jsonl").exists()


def test_time_goes_by_the_clock() -> None:
    assert minutes_left(TERMS, BEGAN, at(30)) == 15
    require_time(TERMS, BEGAN, at(45))
    require_time(None, BEGAN, at(1000))
    with pytest.raises(DrillError, match="time of this exam is over") as caught:
        require_time(TERMS, BEGAN, at(46))
    assert "debrief" in caught.value.hint
    assert exam_words(TERMS, BEGAN, at(30)) == "attempt 1, 15 of 45 minutes left"
    assert "over" in exam_words(TERMS, BEGAN, at(50))
    early, late = ended(TERMS, BEGAN, at(44)), ended(TERMS, BEGAN, at(48))
    assert early is not None
    assert late is not None
    assert (early.over_minutes, late.over_minutes) == (0, 3)
    assert ended_words(early) == "exam of 45 minutes, attempt 1"
    assert ended_words(late) == "exam of 45 minutes, attempt 1, ended 3.0 minutes after its time"
    assert ended(None, BEGAN, at(48)) is None


def test_it_has_no_hints_and_is_not_given_up(tmp_path: Path) -> None:
    path = find_drill("1")
    record = CaseRecord(drill=path.stem, target="uml:", began_utc=BEGAN, file_system_uuid="x", blocks=1, exam=TERMS)
    (tmp_path / "drill").mkdir()
    DrillCase(tmp_path / "drill", record, ready(read_drill(path), path)).change()
    case = DrillCase.find(tmp_path)
    assert case is not None
    assert case.record.exam == TERMS
    with pytest.raises(DrillError, match="no hints"):
        case.hint()
    assert case.record.hints == 0
    with pytest.raises(DrillError, match="cannot be given up") as caught:
        require_practice(case.record.exam)
    assert "debrief" in caught.value.hint
    require_practice(None)


def tried(outcome: str, *, attempt: int = 0, over: float = 0.0, verdict: str = "saved") -> DrillTry:
    figures = (verdict, 100.0, 5.0, 0, 0, 0, attempt, over, ())
    return DrillTry("k", "f", outcome, outcome, "11-second-error", "", "otter", at(attempt), at(attempt + 5), *figures)


def test_a_scale_counts_the_first_attempt_and_takes_off_for_time() -> None:
    scale, line = read_scale(BUILT_IN), CountedWork(name="11-second-error", attempt="exam")
    practice, first, second = tried("p"), tried("a", attempt=1, verdict="lost"), tried("b", attempt=2)
    assert chosen_try(scale, line, [practice]) is None
    assert chosen_try(scale, line, [second, practice, first]) is first
    assert drill_worth(scale, line, tried("c", attempt=1)).points == 4
    assert drill_worth(scale, line, replace(tried("c", attempt=1), exam_over_minutes=0.5)).points == 2
    assert drill_worth(scale, line, second).points == 0
