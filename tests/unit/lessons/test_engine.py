"""A student's progress, by answers and by checks; and the values that a seed selects."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from lab.checks.state import CheckedState
from lab.errors import LessonError, SpecError
from lab.lessons import engine
from lab.lessons.course import Lesson, ReadyLesson, built_in_course, draw, fill_tree, make_ready
from lab.lessons.engine import Progress
from lab.lessons.student import LessonSession, Student
from lab.machine import parse_target
from lab.tomlfile import decode_toml
from tests.unit.disks.machines import host_in
from tests.unit.fakes import FakeClock
from tests.unit.lessons.samples import LESSON, TRANSLATION, array, lab_state, member, write
from tests.unit.results import records

READ = """[steps.read]
question = "What does md0 hold?"
value = { get = "array.size" }
unit = "MiB"
within_percent = 0.5

[steps.ask]"""
READING = make_ready(decode_toml(LESSON.replace("[steps.ask]", READ), Lesson))
"""The lesson whose first step also asks for a number."""
EARLY, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
WANTED = array("raid1")


@pytest.fixture
def lesson() -> ReadyLesson:
    return make_ready(decode_toml(LESSON, Lesson))


@pytest.fixture
def begun(lesson: ReadyLesson) -> Progress:
    return engine.begin(lesson, target="uml:", now_utc=EARLY)


def look(lesson: ReadyLesson, progress: Progress, at: CheckedState) -> tuple[engine.StepView, Progress]:
    view = engine.evaluate(lesson, progress, at)
    assert view is not None
    return view, engine.note(lesson, progress, view, now_utc=LATER)


def number_message(view: engine.StepView) -> str:
    """The key of the message about the number."""
    outcome = view.checks[-1].outcome
    assert outcome is not None
    return outcome.key


def typed_after_prediction(progress: Progress, number: str) -> Progress:
    return engine.answer(READING, engine.answer(READING, progress, "no"), number)


def first_step_done(lesson: ReadyLesson, begun: Progress) -> Progress:
    return look(lesson, engine.answer(lesson, begun, "no"), lab_state(WANTED))[1]


def test_a_step_needs_its_answer_and_all_its_checks(lesson: ReadyLesson, begun: Progress) -> None:
    view, same = look(lesson, begun, lab_state(WANTED))
    assert (sum(check.is_passed for check in view.checks), view.is_done) == (2, False)
    assert same is begun
    answered = engine.answer(lesson, begun, "no")
    assert not look(lesson, answered, lab_state())[0].is_done
    view, done = look(lesson, answered, lab_state(WANTED))
    assert view.is_done
    assert done.in_step("build").done_utc == done.in_step("fail").began_utc == LATER
    assert engine.current_step(lesson, done) is lesson.steps[1]


def test_a_step_without_a_question_rejects_answers(lesson: ReadyLesson, begun: Progress) -> None:
    with pytest.raises(LessonError, match="does not ask for an answer"):
        engine.answer(lesson, first_step_done(lesson, begun), "yes")


def test_a_number_is_compared_with_the_actual_value_and_a_wrong_one_is_reported(begun: Progress) -> None:
    view, _ = look(READING, begun, lab_state(WANTED))
    assert number_message(view) == "reading-not-given"
    view, kept = look(READING, typed_after_prediction(begun, "125"), lab_state())
    assert (number_message(view), view.is_done) == ("reading-nothing-there", False)
    view, kept = look(READING, kept, lab_state(WANTED))
    assert (number_message(view), view.is_done) == ("reading-off", False)
    assert kept.in_step("build").reading == "125", "what was typed stays"
    view, done = look(READING, engine.answer(READING, kept, "124 MiB"), lab_state(WANTED))
    assert view.is_done
    assert done.is_done("build")


@pytest.mark.parametrize(
    ("typed", "outcome"),
    [
        ("124", "reading-exact"),
        (" 124,4 ", "reading-right"),
        ("124.7 mib", "reading-off"),
        ("130023424", "reading-other-unit"),
        ("125024000", "reading-off"),
        ("126976", "reading-other-unit"),
        ("0.121", "reading-other-unit"),
        ("-124", "reading-off"),
        ("1e999", "reading-off"),
    ],
)
def test_a_typed_number_is_taken_as_it_is_meant(begun: Progress, typed: str, outcome: str) -> None:
    assert number_message(look(READING, typed_after_prediction(begun, typed), lab_state(WANTED))[0]) == outcome


WITHOUT_A_NUMBER = ("much", "", "nan", "124 GiB")


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        *((text, "type digits, with a point or comma before decimals; the unit is MiB") for text in WITHOUT_A_NUMBER),
        ("yess", "did you mean 'yes'?"),
    ],
)
def test_input_that_is_not_a_number_is_refused_and_earlier_answers_are_preserved(
    begun: Progress, typed: str, hint: str
) -> None:
    before = typed_after_prediction(begun, "7")
    with pytest.raises(SpecError) as caught:
        engine.answer(READING, before, typed)
    assert caught.value.hint == hint
    assert (before.in_step("build").answer, before.in_step("build").reading) == ("no", "7")


def test_a_right_number_stays_right_until_another_one_is_typed(begun: Progress) -> None:
    typed = typed_after_prediction(begun, "124")
    # The step is not done: earlier versions kept a number that was typed before the prediction.
    step = msgspec.structs.replace(typed.in_step("build"), answer="")
    _, read_off = look(READING, msgspec.structs.replace(typed, steps={"build": step}), lab_state(WANTED))
    view, _ = look(READING, read_off, lab_state())
    assert view.checks[-1].is_passed, "the array has gone since"
    view, _ = look(READING, typed_after_prediction(read_off, "7"), lab_state(WANTED))
    assert not view.checks[-1].is_passed


def test_progress_of_earlier_versions_is_still_read(lesson: ReadyLesson) -> None:
    kept = b"""{"lesson": "01-first", "began_utc": "2026-01-01T00:00:00Z", "steps": {
      "build": {"began_utc": "2026-01-01T00:00:00Z", "done_utc": "2026-01-01T00:05:00Z", "answer": "no", "hints": 1},
      "fail": {"began_utc": "2026-01-01T00:05:00Z", "passed": [1]}}}"""
    progress = msgspec.json.decode(kept, type=Progress)
    assert progress.is_done("build")
    assert (progress.in_step("fail").passed, progress.in_step("fail").reading) == ((1,), "")
    assert not look(READING, progress, lab_state())[0].is_done


def test_hints_come_one_by_one_and_the_last_stays(lesson: ReadyLesson, begun: Progress) -> None:
    progress, counts = begun, []
    for _ in range(4):
        progress = engine.take_hint(lesson, progress)
        counts.append(progress.in_step("build").hints)
    assert counts == [1, 2, 3, 3]
    assert "raidlab array create md0 --level raid1 --disks disk01,disk02" in lesson.steps[0].hints_by_hand[2]


def test_a_mistake_is_recognised_while_the_step_is_open(lesson: ReadyLesson, begun: Progress) -> None:
    view, _ = look(lesson, begun, lab_state(array("raid0")))
    assert view.mistake is not None
    assert view.mistake.hint == "That is a RAID 0."
    assert look(lesson, begun, lab_state(WANTED))[0].mistake is None


def test_what_happened_once_counts_for_its_step(lesson: ReadyLesson, begun: Progress) -> None:
    second = first_step_done(lesson, begun)
    view, scrubbed = look(lesson, second, lab_state(array("raid1", mismatch_sectors=8)))
    assert not view.is_done
    assert scrubbed.in_step("fail").passed == (1,)
    # The next start of the array resets the count, but the progress records that the check held.
    left = (member("/dev/ubda", 0),)
    view, done = look(lesson, scrubbed, lab_state(array("raid1", left, degraded_count=1)))
    assert view.is_done
    assert engine.current_step(lesson, done) is None
    assert engine.done_count(lesson, done) == 2


def test_a_check_that_passed_earlier_must_still_pass(lesson: ReadyLesson, begun: Progress) -> None:
    second = first_step_done(lesson, begun)
    _, progress = look(lesson, second, lab_state(array("raid1", degraded_count=1)))
    view, _ = look(lesson, progress, lab_state(array("raid1", mismatch_sectors=8)))
    assert [check.is_passed for check in view.checks] == [False, True]


def test_at_the_end_there_is_nothing_to_look_at(lesson: ReadyLesson, begun: Progress) -> None:
    done = look(
        lesson, first_step_done(lesson, begun), lab_state(array("raid1", degraded_count=1, mismatch_sectors=8))
    )[1]
    assert engine.evaluate(lesson, done, lab_state()) is None
    with pytest.raises(LessonError, match="is done"):
        engine.take_hint(lesson, done)


HEAD = LESSON.partition("[seed]")[0]
TAIL = "[[steps]]" + LESSON.partition("[[steps]]")[2]


def with_seed(seed: str) -> Lesson:
    return decode_toml(f"{HEAD}\n[seed]\n{seed}\n{TAIL}", Lesson)


# These values must never change, or every student would get another lesson in the middle of a course.
@pytest.mark.parametrize(
    ("seed", "disks", "victim"), [("", "disk01,disk02", "disk01"), ("anna", "disk02,disk03", "disk03")]
)
def test_choices_are_the_same_on_every_computer(seed: str, disks: str, victim: str) -> None:
    values = draw(decode_toml(LESSON, Lesson), seed)
    assert values == {"level": "raid1", "members": 2, "disks": disks, "victim": victim}


def test_a_new_variable_leaves_the_others_alone() -> None:
    text = LESSON.replace("[seed]", '[seed]\nmore = { one_of = ["a", "b"] }')
    before, after = draw(decode_toml(LESSON, Lesson), "eva"), draw(decode_toml(text, Lesson), "eva")
    assert after == before | {"more": after["more"]}


def test_disks_build_on_each_other() -> None:
    built = with_seed(
        'set = { disks = 3 }\nfirst = { disk_from = "set", index = 0 }\n'
        'other = { disk_from = "set", disk_besides = ["first"] }\n'
        'new = { disk_besides = ["set"] }'
    )
    for number in range(30):
        values = draw(built, f"s{number}")
        disks = str(values["set"]).split(",")
        assert len(disks) == 3
        assert values["first"] == disks[0]
        assert values["other"] in disks[1:]
        assert values["new"] not in disks


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        ("a = {}", "has 0 of the keys one_of, disks"),
        ("a = { one_of = [1], disks = 2 }", "has 2 of the keys"),
        ("a = { disks = 5 }", "asks for '5' disks"),
        ('a = { disks = "b" }', "asks for 'b' disks"),
        ('a = { disk_from = "b" }', "uses seed.b, which is not defined above it"),
        ('b = { disks = 2 }\na = { disk_from = "b", disk_besides = ["b"] }', "nothing can be drawn for seed.a"),
        ('b = { one_of = ["x"] }\na = { case = "b", of = { y = 1 } }', "has no value for b = x"),
        ('a = { case = "b", of = { y = 1 } }', "uses seed.b"),
    ],
)
def test_what_cannot_be_drawn_is_explained(seed: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        draw(with_seed(seed), "anna")
    assert words in caught.value.message
    assert caught.value.hint


def test_a_text_that_is_one_placeholder_becomes_the_value_itself_and_other_braces_stay() -> None:
    tree = {"a": "{seed.members}", "b": ["{seed.chunk} x"], "c": 1, "d": "{by_hand} {x}"}
    filled = fill_tree(tree, {"members": 4, "chunk": "64K"})
    assert filled == {"a": 4, "b": ["64K x"], "c": 1, "d": "{by_hand} {x}"}


def test_no_placeholder_is_left_in_a_lesson_of_the_course() -> None:
    for files in built_in_course().lessons:
        ready = files.ready("björn")
        texts = [each for step in ready.steps for each in (step.text, step.explain, *step.hints_by_hand)]
        assert not re.search(r"\{seed\.|\{by_hand\}", "\n".join([ready.title, ready.goal, *texts])), ready.id


def test_an_older_measurement_does_not_replace_the_newest(begun: Progress) -> None:
    newest, older = (records.record(f"{day}-lesson-x-m", created_utc=LATER) for day in (2, 1))
    lesson: Any = SimpleNamespace(id="x", steps=(), measures={"m": (None, newest.experiment_toml)})
    host: Any = SimpleNamespace(state=SimpleNamespace(results=Path("none")))
    opened = LessonSession(lesson, begun, store=lambda _: None, host=host)
    stored = {newest.id: newest, older.id: older}
    fake: Any = SimpleNamespace(ids=lambda: tuple(stored), load=stored.__getitem__)
    opened._results = fake
    for _ in range(2):
        opened.find_results()
        assert opened.results == {"m": newest}


def test_progress_stored_by_another_program_is_kept(tmp_path: Path) -> None:
    clock = FakeClock()
    student, path = Student(host_in(tmp_path, clock)), str(write(tmp_path))
    student.start(path, parse_target("uml:"))
    first, second = student.require_lesson(), student.require_lesson()
    second.hint()
    first.note_help()
    first.answer("yes")
    second.answer("yes")
    stored = student.require_lesson().progress.in_step("build")
    assert (stored.hints, stored.by_lab, stored.answer) == (1, True, "yes")
    # Both see that the step is done; the time of the first counts.
    for opened in (first, second):
        opened.evaluate(lab_state(WANTED))
        clock.sleep(60)
    assert second.progress == first.progress == student.require_lesson().progress
    assert second.done_count == 1
    student.start(path, parse_target("uml:"))
    newest = student.require_lesson().progress
    for act in (first.hint, first.restart):
        with pytest.raises(LessonError, match="started again by another program"):
            act()
    assert student.require_lesson().progress == newest
    assert newest.steps["build"].done_utc == ""


def test_another_language_keeps_what_another_program_has_stored(tmp_path: Path) -> None:
    clock = FakeClock()
    student, path = Student(host_in(tmp_path, clock)), str(write(tmp_path, sv=TRANSLATION))
    shown = student.start(path, parse_target("uml:"))
    other = student.require_lesson()
    other.answer("yes")
    other.evaluate(lab_state(WANTED))
    # By now the student may have opened another lesson in a terminal.
    student.start("1", parse_target("uml:"))
    translated = student.translate(shown, "sv")
    assert (translated.lesson.id, translated.lesson.title, translated.done_count) == ("01-first", "Först", 1)
    clock.sleep(60)
    newest = student.start(path, parse_target("uml:"))
    with pytest.raises(LessonError, match="started again by another program"):
        student.translate(translated, "en")
    assert student.require_lesson().progress == newest.progress


def test_nothing_is_noted_in_a_step_that_the_student_has_not_seen(tmp_path: Path) -> None:
    student, path = Student(host_in(tmp_path, FakeClock())), str(write(tmp_path))
    actions: list[Callable[[LessonSession], object]] = [
        lambda opened: opened.answer("no"),
        lambda opened: opened.hint(),
        lambda opened: opened.note_help(),
    ]
    for act in actions:
        shown = student.start(path, parse_target("uml:"))
        other = student.require_lesson()
        other.answer("yes")
        other.evaluate(lab_state(WANTED))
        with pytest.raises(LessonError, match="was completed by another program"):
            act(shown)
        assert shown.progress == student.require_lesson().progress == other.progress
        assert (shown.done_count, shown.progress.in_step("fail").hints) == (1, 0)
        assert shown.hint() == "a"
