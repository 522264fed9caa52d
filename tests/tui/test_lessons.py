"""The course in the app: read, predict, do it on any screen, see the checks tick."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import OptionList

from lab.errors import ResultError
from lab.lessons.course import built_in_course
from lab.lessons.student import Student
from lab.machine import parse_target
from tests.tui.conftest import Start
from tests.tui.lessons import MINE, begin, begin_on_its_screen, do_first_step, step_of, view_of
from tests.tui.user import User
from tests.unit.drills.outcomes import OUTCOME
from tests.unit.lessons.samples import array, lab_state, write
from tui.dialogs import MenuScreen, NumberScreen, VariantScreen
from tui.drill_screen import DrillsScreen

COURSE_LENGTH = len(built_in_course().lessons)
NEWER = "started again by another program"


async def list_course(user: User) -> None:
    await user.press("6")
    await user.until(lambda: len(user.app.guide.course) == COURSE_LENGTH, "the course is read")
    await user.read()


async def test_the_course_is_listed_and_a_lesson_that_builds_on_others_offers_them_first(user: User) -> None:
    await list_course(user)
    user.sees("What a disk promises", f"0 of {COURSE_LENGTH} done")
    await user.press("down", "enter")
    assert isinstance(user.screen, MenuScreen)
    await user.press("enter")
    await user.until(lambda: user.app.guide.view is not None, "a lesson is open")
    await user.read()
    assert view_of(user).lesson.number == "1"
    user.sees("Step 1 of 4", "Predict: A drive has 8 requests in flight")


async def test_bounds_are_shown_only_after_the_prediction_and_the_measurement(user: User) -> None:
    await begin_on_its_screen(user, "01-what-a-disk-promises")
    assert "between" not in user.text
    await user.read("r")
    assert not view_of(user).activity, "predict first"


async def test_a_step_ends_with_an_explanation_and_f8_continues(user: User, lesson: str) -> None:
    await begin(user, lesson)
    await do_first_step(user, answer="no")
    why = view_of(user).explanation
    assert why is not None
    assert why.is_right is False
    assert "it turned out: yes" in why.outcome
    await user.read()
    user.sees("Because.", "F8")
    await user.read("f8")
    assert view_of(user).explanation is None
    user.sees("Step 2 of 2")
    # The second step requires two members less.
    user.fake_lab.show("raid5-broken")
    await user.look()
    await user.press("f8")
    assert view_of(user).step is None
    await user.read()
    assert "Lesson done: First" in user.text


async def test_what_the_lab_does_for_the_student_is_shown(user: User, lesson: str) -> None:
    await begin_on_its_screen(user, lesson)
    await user.press("o")
    assert any(text.startswith("raidlab array create md0 --level raid5") for text in user.notifications)


async def test_progress_in_a_lesson_survives_a_restart(start: Start, lesson: str) -> None:
    async with start() as user:
        await begin(user, lesson)
        await do_first_step(user, answer="yes")
        assert view_of(user).done_count == 1
    async with start(shows="raid5") as again:
        await again.until(lambda: again.app.guide.view is not None, "the lesson is open again")
        assert view_of(again).done_count == 1
        assert view_of(again).explanation is None, "it was read, or can be looked up"


async def test_a_word_of_ones_own_varies_the_lesson(user: User) -> None:
    await begin(user, "05-failing-and-rebuilding")
    plain = step_of(user).ready.text
    await user.press("6", "v")
    assert isinstance(user.screen, VariantScreen)
    await user.press(*"anna", "enter")
    await user.until(lambda: view_of(user).lesson.seed == "anna", "the lesson of anna")
    assert step_of(user).ready.text != plain


async def test_a_number_can_be_typed_and_invalid_input_is_rejected_in_the_dialog(start: Start, tmp_path: Path) -> None:
    reading = (
        '[steps.read]\nquestion = "How large?"\nvalue = { get = "number", equals = 12.5 }\nunit = "TB"\n[steps.ask]'
    )
    checks = (
        'check = [{ that = "array.level", level = "{seed.level}" }, { that = "array.disks", disks = "{seed.disks}" }]'
    )
    assert checks in MINE
    path = str(write(tmp_path, MINE.replace(checks, "check = []").replace("[steps.ask]", reading)))
    async with start() as user:
        await begin(user, path)
        user.app.guide.answer("no")
        await user.read("6")
        assert "Read off: How large? (TB)" in user.text
        await user.press("t")
        assert isinstance(user.screen, NumberScreen)
        await user.press(*"lots", "enter")
        assert isinstance(user.screen, NumberScreen), "what was typed is still there"
        assert "'lots' is not a number" in user.text
        await user.read(*(["backspace"] * 4), *"125", "enter")
        assert "125 TB is not the right number" in user.text
        assert view_of(user).done_count == 0
        await user.press("t")
        await user.press(*(["backspace"] * 3), *"12,5", "enter")
        await user.until(lambda: view_of(user).done_count == 1, "the step is done")


async def test_a_lesson_of_another_machine_is_not_checked_here(user: User, lesson: str) -> None:
    await begin(user, lesson)
    user.lab.target = "ssh:elsewhere"
    user.fake_lab.show("raid5")
    await user.look()
    user.app.guide.refresh()
    await user.read()
    assert view_of(user).elsewhere
    assert "not checked here" in user.text
    user.app.guide.do_step()
    await user.until(lambda: any("was started on" in text for text in user.notifications), "why it is not done")
    assert not any(run[:2] == ("mdadm", "--create") for run in user.fake_lab.machine.runs)


async def test_the_lab_of_a_newer_attempt_is_left_alone(user: User, lesson: str) -> None:
    await begin(user, lesson)
    user.fake_lab.clock.sleep(1)
    newest = Student(user.app.client.host).start(lesson, parse_target("uml:?name=other"))
    machine = user.fake_lab.machine
    machine.runs.clear()
    user.app.guide.do_step()
    await user.until(lambda: any(NEWER in text for text in user.notifications), "why it is not done")
    assert not any(text.startswith("raidlab array create") for text in user.notifications)
    user.app.guide.again()
    await user.until(lambda: sum(NEWER in text for text in user.notifications) == 2, "why it is not restarted")
    assert not any(run[:2] == ("mdadm", "--create") or run[0] == "blkdiscard" for run in machine.runs)
    assert Student(user.app.client.host).require_lesson().progress == newest.progress


async def test_a_lesson_of_another_machine_accepts_no_number_here(start: Start, tmp_path: Path) -> None:
    reading = '[steps.read]\nquestion = "How large?"\nvalue = { get = "array.size" }\nunit = "MiB"\n[steps.ask]'
    path = str(write(tmp_path, MINE.replace("[steps.ask]", reading)))
    async with start() as user:
        await begin(user, path)
        user.lab.target = "ssh:elsewhere"
        assert user.app.guide.answer("no") == "", "a prediction needs no lab"
        assert step_of(user).progress.answer == "no"
        assert "was started on" in user.app.guide.answer("12")
        assert step_of(user).reading is not None
        assert step_of(user).progress.reading == ""


async def test_a_lesson_of_another_machine_is_not_measured_here(user: User) -> None:
    await begin(user, "01-what-a-disk-promises")
    user.lab.target = "ssh:elsewhere"
    user.app.guide.measure()
    await user.until(lambda: any("was started on" in text for text in user.notifications), "why it is not measured")
    assert not view_of(user).activity


async def test_drills_are_listed_below_the_lessons_and_enter_goes_to_one(user: User) -> None:
    await list_course(user)
    await user.until(lambda: bool(user.app.drills.items), "the drills are read")
    *others, item, last = user.app.drills.items
    user.app.drills.items = (*others, replace(item, outcomes=(OUTCOME, OUTCOME)), last)
    await user.read()
    await user.read("end", "up")
    user.sees("Drills: disasters to practise on", f"Drill {item.number}", "partly lost, 62.5 % (2 attempts)")
    await user.press("enter")
    await user.until(lambda: user.app.current_mode == "drills", "the screen of the drills")
    await user.read()
    listed = user.find(OptionList, "#drill-list")
    assert listed.highlighted == len(user.app.drills.items) - 2
    # The drill is set up only when it is started there.
    assert user.app.drills.view is None
    assert isinstance(user.screen, DrillsScreen)


async def test_after_a_lesson_the_course_highlights_the_next(user: User) -> None:
    await list_course(user)
    first, *others = user.app.guide.course
    await user.press("enter")
    await user.until(lambda: user.app.guide.view is not None, "the lesson is open")
    user.app.guide.course = (replace(first, done_steps=first.step_count), *others)
    user.app.guide.view = replace(view_of(user), step=None, explanation=None)
    await user.show()
    assert "Esc shows the course" in user.text
    await user.press("escape")
    assert user.find(OptionList, "#course").highlighted == 1


async def test_the_lessons_options_are_none_of_the_screen_below(
    user: User, lesson: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin(user, lesson)
    await user.read("3")
    met: list[str | None] = []
    monkeypatch.setattr(
        type(user.screen), "on_option_list_option_highlighted", lambda _, event: met.append(event.option_list.id)
    )
    options = user.find(OptionList, "#lesson-options")
    options.highlighted = None
    options.highlighted = 0
    await user.show()
    assert "lesson-options" not in met


async def test_progress_that_cannot_be_stored_is_reported_once_and_stored_later(
    user: User, lesson: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin(user, lesson)
    user.app.guide.answer("yes")

    def full(*_: object) -> None:
        raise ResultError("cannot be written: no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("lab.lessons.student.write_file", full)
        user.fake_lab.show("raid5")
        await user.look(3)
        await user.until(lambda: any("no space left" in text for text in user.notifications), "the error")
        assert sum("no space left" in text for text in user.notifications) == 1
        assert view_of(user).done_count == 0
    await user.look()
    assert view_of(user).done_count == 1


@pytest.mark.parametrize("text", ["", None])
async def test_a_lesson_continues_when_its_file_is_damaged_or_gone(user: User, lesson: str, text: str | None) -> None:
    await begin(user, lesson)
    assert view_of(user).languages == ("en", "sv")
    if text is None:
        Path(lesson).unlink()
    else:
        Path(lesson).write_text(text)
    await do_first_step(user, answer="yes")
    assert view_of(user).done_count == 1
    user.app.guide.change_language("sv")
    await user.until(lambda: any(lesson[:20] in text for text in user.notifications), "the error")
    assert view_of(user).done_count == 1


async def test_a_step_that_another_program_completed_is_explained_and_gets_no_hint(user: User, lesson: str) -> None:
    await begin(user, lesson)
    user.fake_lab.show("raid5")
    await user.look()
    other = Student(user.app.client.host).require_lesson()
    other.answer("yes")
    other.evaluate(lab_state(array("raid5")))
    assert other.done_count == 1
    user.app.guide.hint()
    await user.until(lambda: any("completed by another program" in text for text in user.notifications), "the error")
    assert other.progress == Student(user.app.client.host).require_lesson().progress
    assert view_of(user).explanation is not None
    assert view_of(user).done_count == 1
    assert not any("raid5" in check.required for check in step_of(user).checks)
