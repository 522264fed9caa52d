"""The course in the app: read, predict, do it on any screen, see the checks tick."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import OptionList

from lab.lessons.course import built_in_course
from tests.tui.conftest import AppMaker, AppPilot, looked, running, until
from tests.tui.fake_lab import FakeLab
from tests.tui.lessons import MINE, begin, begin_on_its_screen, do_first_step, lesson, shown, view_of
from tests.tui.still import text_of
from tests.unit.lessons.samples import write
from tui.app import RaidlabApp
from tui.dialogs import MenuScreen, NumberScreen, VariantScreen
from tui.drill_screen import DrillsScreen

__all__ = ["lesson"]
COURSE_LENGTH = len(built_in_course().lessons)


async def list_course(app: RaidlabApp, pilot: AppPilot, fake_lab: FakeLab) -> None:
    await looked(pilot, app, fake_lab)
    await pilot.press("6")
    await until(pilot, lambda: len(app.guide.course) == COURSE_LENGTH, "the course is read")
    await shown(app, pilot)


async def test_the_course_is_listed_and_enter_begins_a_lesson(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app) as pilot:
        await list_course(app, pilot, fake_lab)
        assert "What a disk promises" in text_of(app)
        assert f"0 of {COURSE_LENGTH} done" in text_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.guide.view is not None, "the lesson is open")
        await shown(app, pilot)
        assert "Step 1 of 4" in text_of(app)
        assert "Predict: 8 requests in flight" in text_of(app)


async def test_a_lesson_that_builds_on_others_offers_them_first(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app) as pilot:
        await list_course(app, pilot, fake_lab)
        await pilot.press("down", "enter")
        await pilot.pause()
        assert isinstance(app.screen, MenuScreen)
        await pilot.press("enter")
        await until(pilot, lambda: app.guide.view is not None, "a lesson is open")
        assert view_of(app).number == "1"


async def test_bounds_are_told_after_the_prediction_and_the_measurement_only(
    app_on: AppMaker, fake_lab: FakeLab
) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin_on_its_screen(app, pilot, fake_lab, "01-what-a-disk-promises")
        assert "between" not in text_of(app)
        await pilot.press("r")
        await shown(app, pilot)
        assert not view_of(app).activity, "predict first"


async def test_a_step_ends_with_the_reason_and_goes_on_when_that_is_read(
    app_on: AppMaker, fake_lab: FakeLab, lesson: str
) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        await do_first_step(app, pilot, fake_lab, answer="no")
        why = view_of(app).explanation
        assert why is not None
        assert why.is_right is False
        assert "it turned out: yes" in why.outcome
        await shown(app, pilot)
        assert "Because." in text_of(app)
        assert "F8" in text_of(app)
        await pilot.press("f8")
        await shown(app, pilot)
        assert view_of(app).explanation is None
        assert "Step 2 of 2" in text_of(app)
        # The second step wants two members less.
        fake_lab.show("raid5-broken")
        await looked(pilot, app, fake_lab)
        await pilot.press("f8")
        assert view_of(app).step is None
        await shown(app, pilot)
        assert "Lesson done: First" in text_of(app)


async def test_what_the_lab_does_for_the_student_is_shown(
    app_on: AppMaker, fake_lab: FakeLab, lesson: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin_on_its_screen(app, pilot, fake_lab, lesson)
        said: list[str] = []
        monkeypatch.setattr(app, "say", lambda text, **more: said.append(text))
        await pilot.press("o")
        assert said[0].startswith("raidlab array create md0 --level raid5")


async def test_what_was_done_is_there_after_a_restart(app_on: AppMaker, fake_lab: FakeLab, lesson: str) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        await do_first_step(app, pilot, fake_lab, answer="yes")
        assert view_of(app).done_count == 1
    again = app_on()
    async with running(again) as pilot:
        await looked(pilot, again, fake_lab)
        await until(pilot, lambda: again.guide.view is not None, "the lesson is open again")
        assert view_of(again).done_count == 1
        assert view_of(again).explanation is None, "it was read, or can be looked up"


async def test_a_word_of_ones_own_varies_the_lesson(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, "05-failing-and-rebuilding")
        plain = view_of(app).step
        await pilot.press("6", "v")
        await pilot.pause()
        assert isinstance(app.screen, VariantScreen)
        await pilot.press(*"anna", "enter")
        await until(pilot, lambda: view_of(app).seed == "anna", "the lesson of anna")
        varied = view_of(app).step
        assert plain is not None
        assert varied is not None
        assert varied.text != plain.text


async def test_a_number_is_typed_and_what_is_none_is_told_where_it_was_typed(
    app_on: AppMaker, fake_lab: FakeLab, tmp_path: Path
) -> None:
    reading = (
        '[steps.read]\nquestion = "How large?"\nvalue = { get = "number", equals = 12.5 }\nunit = "TB"\n[steps.ask]'
    )
    checks = (
        'check = [{ that = "array.level", level = "{seed.level}" }, { that = "array.disks", disks = "{seed.disks}" }]'
    )
    assert checks in MINE
    path = str(write(tmp_path, MINE.replace(checks, "check = []").replace("[steps.ask]", reading)))
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, path)
        app.guide.answer("no")
        await pilot.press("6")
        await shown(app, pilot)
        assert "Read off: How large? (TB)" in text_of(app)
        await pilot.press("t")
        await pilot.pause()
        assert isinstance(app.screen, NumberScreen)
        await pilot.press(*"lots", "enter")
        await pilot.pause()
        assert isinstance(app.screen, NumberScreen), "what was typed is still there"
        assert "'lots' is not a number" in text_of(app)
        await pilot.press(*(["backspace"] * 4), *"125", "enter")
        await shown(app, pilot)
        assert "125 TB is not the right number" in text_of(app)
        assert view_of(app).done_count == 0
        await pilot.press("t")
        await pilot.pause()
        await pilot.press(*(["backspace"] * 3), *"12,5", "enter")
        await until(pilot, lambda: view_of(app).done_count == 1, "the step is done")


async def test_a_lesson_of_another_machine_is_not_checked_here(
    app_on: AppMaker, fake_lab: FakeLab, lesson: str
) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        app.lab.target = "ssh:elsewhere"
        fake_lab.show("raid5")
        await looked(pilot, app, fake_lab)
        app.guide.refresh()
        await shown(app, pilot)
        assert view_of(app).elsewhere
        assert "not checked here" in text_of(app)


async def test_drills_are_listed_below_the_lessons_and_enter_goes_to_one(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app) as pilot:
        await list_course(app, pilot, fake_lab)
        await until(pilot, lambda: bool(app.drills.items), "the drills are read")
        item = app.drills.items[-2]
        app.drills.items = (
            *app.drills.items[:-2],
            replace(item, tries=2, best="partly, 40 %"),
            app.drills.items[-1],
        )
        await shown(app, pilot)
        await pilot.press("end", "up")
        await shown(app, pilot)
        told = text_of(app)
        assert "Drills: disasters to practise on" in told
        assert f"drill {item.number}".title() in told
        assert "partly, 40 % (2 attempts)" in told
        await pilot.press("enter")
        await until(pilot, lambda: app.current_mode == "drills", "the screen of the drills")
        await shown(app, pilot)
        listed = app.screen.query_one("#drill-list", OptionList)
        assert listed.highlighted == len(app.drills.items) - 2
        # Nothing is made before it is begun there.
        assert app.drills.view is None
        assert isinstance(app.screen, DrillsScreen)


async def test_after_a_lesson_the_course_stands_on_the_next(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app) as pilot:
        await list_course(app, pilot, fake_lab)
        first, *others = app.guide.course
        await pilot.press("enter")
        await until(pilot, lambda: app.guide.view is not None, "the lesson is open")
        app.guide.course = (replace(first, done_steps=first.step_count), *others)
        app.guide.view = replace(view_of(app), step=None, explanation=None)
        app.show_now()
        assert "Esc shows the course" in text_of(app)
        await pilot.press("escape")
        assert app.screen.query_one("#course", OptionList).highlighted == 1


async def test_the_lessons_options_are_none_of_the_screen_below(
    app_on: AppMaker, fake_lab: FakeLab, lesson: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[str | None] = []
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        await pilot.press("3")
        await shown(app, pilot)
        screen = app.screen
        monkeypatch.setattr(
            type(screen), "on_option_list_option_highlighted", lambda _, event: met.append(event.option_list.id)
        )
        options = screen.query_one("#lesson-options", OptionList)
        options.highlighted = None
        options.highlighted = 0
        await pilot.pause()
        assert "lesson-options" not in met
