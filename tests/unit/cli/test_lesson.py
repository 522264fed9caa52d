"""``raidlab lesson``: input, what is stored between commands, and answers to wrong words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.drills import desk
from lab.drills.case import CaseRecord, ExamTerms
from lab.lessons import student
from lab.lessons.course import Course, built_in_course
from tests.unit.cli.conftest import Typed
from tests.unit.fakes import FakeMachine
from tests.unit.lessons.samples import LESSON, TRANSLATION, write

UML = ["--on", "uml:"]
OutputOf = Callable[..., str]
Value = Callable[..., dict[str, Any]]


@pytest.fixture
def output_of(typed: Typed) -> OutputOf:
    """The output of a command, on both streams."""
    return lambda *words, status=0: "".join(typed(*UML, *words, status=status))


@pytest.fixture
def value(typed: Typed) -> Value:
    return lambda *words: json.loads(typed(*UML, "--json", *words).out)


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """The path of the student's own lesson file."""
    folder = tmp_path / "mine"
    folder.mkdir()
    return str(write(folder, sv=TRANSLATION))


def test_the_course_is_listed_without_a_machine(machine: FakeMachine, output_of: OutputOf) -> None:
    text = output_of("lesson", "list")
    assert "05-failing-and-rebuilding" in text
    assert "start with 'raidlab lesson start 01-what-a-disk-promises'" in text
    assert machine.runs == []


def test_a_lesson_is_begun_shown_and_left(output_of: OutputOf) -> None:
    text = output_of("lesson", "start", "1")
    assert "What a disk promises\n" in text
    assert "• 'same'" in text
    assert "Step 1 of 4" in output_of("lesson")
    assert ">  01-what-a-disk-promises" in output_of("lesson", "list")
    output_of("lesson", "leave")
    assert "no lesson is open" in output_of("lesson", "show", status=1)
    assert "you continue where you left off" in output_of("lesson", "start", "1")


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        (["2"], 1, ["not finished yet: 01-what-a-disk-promises", "--anyway"]),
        (
            ["5", "--anyway"],
            1,
            ["uses disk01 to disk07, but the lab has no disk06, disk07", "raidlab disks add --kind file --count 2"],
        ),
        (["03-mirorring"], 2, ["did you mean '03-mirroring'"]),
    ],
)
def test_a_lesson_that_cannot_be_started_is_rejected_with_the_reason(
    output_of: OutputOf, words: list[str], status: int, expected: list[str]
) -> None:
    text = output_of("lesson", "start", *words, status=status)
    assert [each for each in expected if each not in text] == []


def test_a_typed_number_is_compared_and_stored(tmp_path: Path, output_of: OutputOf, value: Value) -> None:
    reading = (
        '[steps.read]\nquestion = "How much?"\nvalue = { get = "number", equals = 12.5 }\nunit = "TB"\n[steps.ask]'
    )
    text = LESSON.replace("[steps.ask]", reading, 1).replace(
        'check = [{ that = "array.level", level = "{seed.level}" }, { that = "array.healthy" }]', "check = []", 1
    )
    path = str(write(tmp_path, text))
    assert "Read off" not in output_of("lesson", "start", path), "the prediction comes first"
    for typed in ("lots", "125"):
        assert f"there is no answer '{typed}'" in output_of("lesson", "answer", typed, status=2)
    predicted = output_of("lesson", "answer", "no")
    assert 'You predicted "no".' in predicted
    assert "Read off How much? (TB)" in predicted
    assert "'lots' is not a number" in output_of("lesson", "answer", "lots", status=2)
    assert "125 TB is not the right number" in output_of("lesson", "answer", "125", status=1)
    shown = value("lesson", "show")["step"]
    assert (shown["read"], shown["number"], shown["answer"]) == ({"question": "How much?", "unit": "TB"}, "125", "no")
    assert "Step 2 of 2" in output_of("lesson", "answer", "12,5 TB")


def test_the_prediction_is_stored_and_checked(output_of: OutputOf) -> None:
    output_of("lesson", "start", "1")
    assert "did you mean 'same'" in output_of("lesson", "answer", "sam", status=2)
    assert "Measure 'raidlab lesson measure depth'" in output_of("lesson", "show")
    answered = output_of("lesson", "answer", "same")
    assert 'You predicted "about as many answers' in answered
    assert "Measure 'raidlab lesson measure depth'" in answered
    text = output_of("lesson", "check", status=1)
    assert "✓ your prediction is given" in text
    assert "✗ theory and measurement agree on the IOPS: many-at-a-time against one-at-a-time" in text
    assert "between" not in text, "the bounds would give the prediction away"
    assert "now: measurement depth has not finished" in text


def test_hints_are_graded(output_of: OutputOf, value: Value) -> None:
    output_of("lesson", "start", "1")
    texts = [output_of("lesson", "hint") for _ in range(3)]
    assert [text[:11] for text in texts] == ["Hint 1 of 3", "Hint 2 of 3", "Hint 3 of 3"]
    assert "raidlab lesson measure depth" in texts[2]
    assert value("lesson", "show")["step"]["hints_shown"][0].split(" ")[0] in texts[0]


def test_what_the_lab_would_do_is_printed(machine: FakeMachine, output_of: OutputOf, value: Value) -> None:
    output_of("lesson", "start", "1")
    machine.runs.clear()
    assert value("lesson", "show")["step"]["by_hand"] == [], "that is the last hint"
    assert output_of("lesson", "do", "--plan") == "raidlab lesson measure depth\n"
    shown = value("lesson", "show")["step"]
    assert (len(shown["hints_shown"]), shown["by_hand"]) == (3, ["raidlab lesson measure depth"])
    assert machine.runs == []


def test_the_seed_is_reused_for_the_next_lesson(output_of: OutputOf, value: Value, mine: str) -> None:
    output_of("lesson", "start", "1", "--seed", "anna")
    shown = value("lesson", "start", mine)
    assert shown["seed"] == "anna"
    assert shown["values"]["disks"] == "disk02,disk03"


def test_a_lesson_speaks_the_language_that_was_asked_for(output_of: OutputOf, mine: str) -> None:
    assert "Steg 1 av 2" in output_of("lesson", "start", mine, "--language", "sv")
    assert "✗ din förutsägelse är gjord" in output_of("lesson", "check", status=1)
    assert "no language of lesson 01-first 'se'" in output_of("lesson", "start", mine, "--language", "se", status=2)


def test_the_locale_chooses_the_language(value: Value, mine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "sv_SE.UTF-8")
    assert value("lesson", "start", mine)["language"] == "sv"
    monkeypatch.setenv("LC_ALL", "fi_FI.UTF-8")
    assert value("lesson", "start", mine, "--again")["language"] == "sv"


def test_every_command_asks_for_a_lesson_first(output_of: OutputOf) -> None:
    for command in ("show", "check", "hint", "do", "reset"):
        text = output_of("lesson", command, status=1)
        assert "no lesson is open" in text
        assert "raidlab lesson list" in text


def test_a_lesson_file_is_verified(
    output_of: OutputOf, mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = output_of("lesson", "verify", mine)
    # A long path is shortened.
    assert printed.startswith(f"01-first: no errors; '{mine[:40]}")
    assert "does not come with raidlab: this lesson runs no shell lines; it works on arrays of this lab" in printed
    bad = write(tmp_path, LESSON.replace("minutes = 5", "minutes = 99"))
    assert "minutes is 99" in output_of("lesson", "verify", str(bad), status=2)
    # The real search for problems takes seconds; test_the_course_is_sound runs it.
    problems: list[str] = []
    courses: list[Course] = []

    def found(course: Course) -> tuple[str, ...]:
        courses.append(course)
        return tuple(problems)

    monkeypatch.setattr("lab.cli.lesson.course_problems", found)
    assert "12-choosing-a-level: no errors" in output_of("lesson", "verify")
    problems.append("12-choosing-a-level.toml: minutes is 99")
    assert "the course has errors:\n  - 12-choosing-a-level.toml: minutes" in output_of("lesson", "verify", status=2)
    assert courses == [built_in_course()] * 2


@pytest.mark.parametrize(
    ("kind", "names"), [("lesson", ("2", "03-mirroring", "pari")), ("drill", ("2", "03-which-copy", "gone"))]
)
def test_lessons_and_drills_are_verified_by_name(output_of: OutputOf, kind: str, names: tuple[str, ...]) -> None:
    printed = output_of(kind, "verify", *names)
    assert [line[:3] for line in printed.splitlines() if line.endswith(": no errors")] == ["02-", "03-", "04-"]
    assert f"no {kind} 'mirors'" in output_of(kind, "verify", "mirors", status=2)


def test_damaged_progress_is_reported_and_the_lesson_can_be_restarted(output_of: OutputOf, tmp_path: Path) -> None:
    output_of("lesson", "start", "1")
    progress = tmp_path / "lessons" / "01-what-a-disk-promises.json"
    progress.write_text("{", encoding="utf-8")
    assert "--again" in output_of("lesson", "show", status=1)
    assert "01-what-a-disk-promises" in output_of("lesson", "list")
    assert "the lesson cannot be followed" in output_of("disks")
    assert "What a disk promises\n" in output_of("lesson", "start", "1", "--again")


@pytest.mark.parametrize("words", [("drill", "start", "1"), ("lesson", "start", "2", "--anyway")])
def test_what_is_impossible_is_refused_before_disks_become_blank(
    output_of: OutputOf, machine: FakeMachine, words: tuple[str, ...]
) -> None:
    assert "the lab has no disk06" in output_of(*words, "--reset", status=1)
    assert [argv for argv in machine.runs if argv[0] == "blkdiscard"] == []


def test_a_drill_does_not_begin_beside_arrays_that_its_reset_leaves_running(
    output_of: OutputOf, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "labs" / "default").mkdir(parents=True)
    monkeypatch.setattr(desk, "require_possible", lambda *_: None)
    monkeypatch.setattr(student, "use_words", lambda *_: "arrays are running")
    monkeypatch.setattr(desk.DrillDesk, "begin", lambda *_: pytest.fail("the disaster was created"))
    printed = output_of("drill", "start", "5", "--reset", status=1)
    assert "drill 05-not-assembled needs blank disks, and arrays are running" in printed


@pytest.mark.parametrize("words", [("check",), ("do",), ("measure", "depth"), ("answer", "12"), ("reset",)])
def test_a_lesson_acts_only_on_the_machine_on_which_it_was_started(
    typed: Typed, machine: FakeMachine, mine: str, words: tuple[str, ...]
) -> None:
    typed("--on", "uml:?name=class", "lesson", "start", mine)
    typed(*UML, "lesson", "answer", "no")
    machine.runs.clear()
    printed = typed(*UML, "lesson", *words, status=1).err
    assert "lesson 01-first was started on the embedded kernel, lab 'class'" in printed
    assert "('uml:?name=class'), not on 'uml:'" in printed
    assert "add --on 'uml:?name=class'" in printed
    assert machine.runs == []


def test_options_that_change_no_lab_do_not_stop_a_lesson(typed: Typed, mine: str) -> None:
    typed(*UML, "lesson", "start", mine)
    for target in ("uml:?mem=1G", "uml:?name=default&time=virtual"):
        assert "was started on" not in typed("--on", target, "lesson", "check", status=1).err
    assert "was started on" in typed("--on", "qemu:", "lesson", "check", status=1).err


def test_a_step_without_a_lab_is_checked_on_every_machine(typed: Typed, machine: FakeMachine) -> None:
    typed(*UML, "lesson", "start", "1")
    machine.runs.clear()
    assert "was started on" not in typed("--on", "uml:?name=other", "lesson", "check", status=1).err
    assert machine.runs == []


def test_an_open_exam_is_neither_erased_nor_left(output_of: OutputOf, machine: FakeMachine, tmp_path: Path) -> None:
    terms = ExamTerms(minutes=45, first_utc="2026-01-01T00:00:00Z")
    record = CaseRecord(
        drill="01-dropped-members", target="uml:", began_utc=terms.first_utc, file_system_uuid="x", blocks=1, exam=terms
    )
    case = tmp_path / "labs" / "default" / "drill" / "case.json"
    case.parent.mkdir(parents=True)
    case.write_bytes(msgspec.json.encode(record))
    printed = output_of("drill", "start", "2", "--exam", "45", "--again", status=1)
    assert "an exam in 01-dropped-members is open in this lab" in printed
    moved = msgspec.json.encode(msgspec.structs.replace(record, drill="/moved/01-mine.toml"))
    case.write_bytes(moved)
    assert "this exam needs the drill's file" in output_of("drill", "leave", status=1)
    assert case.read_bytes() == moved
    assert machine.runs == []


def test_the_disks_of_a_damaged_drill_are_unknown_when_it_is_left(output_of: OutputOf, tmp_path: Path) -> None:
    case = tmp_path / "labs" / "default" / "drill" / "case.json"
    case.parent.mkdir(parents=True)
    case.write_text("{")
    text = output_of("drill", "leave")
    assert "the drill is closed; 'raidlab disks reset --all'" in text
    assert not case.exists()
    assert "no drill has left anything" in output_of("drill", "clear", status=1)
