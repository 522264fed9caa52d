"""The course in the app: read, predict, do it on any screen, see the checks tick."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.widgets import OptionList

from lab.lessons.course import built_in_course
from lab.lessons.registry import ACTIONS
from tests.tui.conftest import AppMaker, AppPilot, idle, looked, running, until
from tests.tui.fake_lab import FakeLab
from tests.tui.still import text_of
from tests.unit.lessons.samples import LESSON, TRANSLATION, write
from tui.app import RaidlabApp
from tui.glyphs import ASCII
from tui.lessons.view import LessonView, StepCard
from tui.lessons.wording import in_app, key_for, steps_in_app
from tui.registry import SCREENS
from tui.screens.menu import MenuScreen
from tui.screens.number import NumberScreen
from tui.screens.plan import PlanScreen
from tui.screens.variant import VariantScreen
from tui.widgets.lesson_panel import LessonPanel

# The captured RAID 5 lies on disk01 to disk03, rebuilds its last member, and has md's own chunk.
MINE = (
    LESSON.replace('["raid1", "raid5"]', '["raid5"]')
    .replace('{ case = "level", of = { raid1 = 2, raid5 = 3 } }', "{ one_of = [3] }")
    .replace('{ that = "array.healthy" }', '{ that = "array.disks", disks = "{seed.disks}" }')
    .replace('say = "Build `md0`', 'say = "Write with `raidlab array mark md0` when you have built `md0`')
    .replace('equals = 1 }, { that = "scrub.found" }', "equals = 2 }")
)


@pytest.fixture
def lesson(tmp_path: Path) -> str:
    """The path of a lesson that the captured arrays pass."""
    folder = tmp_path / "mine"
    folder.mkdir()
    return str(write(folder, MINE, sv=TRANSLATION))


async def begin(app: RaidlabApp, pilot: AppPilot, fake_lab: FakeLab, lesson: str) -> None:
    """Open a lesson on a blank lab."""
    await looked(pilot, app, fake_lab)
    app.guide.open()
    await until(pilot, lambda: app.guide.is_ready, "the course is read")
    app.guide.begin(lesson)
    await until(pilot, lambda: app.guide.view is not None, "the lesson is open")
    await shown(app, pilot)


async def shown(app: RaidlabApp, pilot: AppPilot) -> None:
    app.show_now()
    await pilot.pause()
    await pilot.pause()


def view_of(app: RaidlabApp) -> LessonView:
    assert app.guide.view is not None
    return app.guide.view


async def test_the_course_is_listed_and_enter_begins_a_lesson(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        await pilot.press("6")
        await until(pilot, lambda: len(app.guide.course) == 13, "the course is read")
        await shown(app, pilot)
        assert "What a disk promises" in text_of(app)
        assert "0 of 13 done" in text_of(app)
        await pilot.press("enter")
        await until(pilot, lambda: app.guide.view is not None, "the lesson is open")
        await shown(app, pilot)
        assert "Step 1 of 4" in text_of(app)
        assert "Predict: 8 requests in flight" in text_of(app)


async def test_a_lesson_that_builds_on_others_offers_them_first(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        await pilot.press("6")
        await until(pilot, lambda: len(app.guide.course) == 13, "the course is read")
        await shown(app, pilot)
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
        await begin(app, pilot, fake_lab, "01-what-a-disk-promises")
        await pilot.press("6")
        await shown(app, pilot)
        assert "between" not in text_of(app)
        await pilot.press("r")
        await shown(app, pilot)
        assert not view_of(app).activity, "predict first"


async def test_checks_tick_on_the_lab_screen_while_the_student_works(
    app_on: AppMaker, fake_lab: FakeLab, lesson: str
) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        assert app.current_mode == "lab"
        text = text_of(app)
        assert "1. First" in text
        assert "○ md0 is raid5" in text
        assert "(m, 1 Lab)" in text or "m (1 Lab)" in text, "the app's key instead of the command"
        fake_lab.show("raid5")
        await looked(pilot, app, fake_lab)
        await shown(app, pilot)
        text = text_of(app)
        assert "✔ md0 is raid5" in text
        assert "○ your prediction is given" in text
        assert "predict first" in text


@pytest.mark.parametrize("size", [(120, 40), (160, 50)])
async def test_the_lesson_stands_beside_every_screen_at_its_first_sight(
    app_on: AppMaker, fake_lab: FakeLab, lesson: str, size: tuple[int, int]
) -> None:
    app = app_on()
    async with running(app, size) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        for entry in SCREENS:
            app.switch_mode(entry.mode)
            # The first moment of a screen, and one more before its widgets are there.
            app.show_now()
            app.show_now()
            await until(pilot, lambda: "Step 1 of 2" in text_of(app), f"the lesson on {entry.title}")


async def test_a_step_ends_with_the_reason_and_goes_on_when_that_is_read(
    app_on: AppMaker, fake_lab: FakeLab, lesson: str
) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        app.guide.answer("no")
        fake_lab.show("raid5")
        await looked(pilot, app, fake_lab)
        why = view_of(app).explanation
        assert why is not None
        assert why.is_right is False
        assert "it turned out: yes" in why.told
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


async def test_a_mistake_is_recognised(app_on: AppMaker, fake_lab: FakeLab, lesson: str) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        fake_lab.show("raid0")
        await looked(pilot, app, fake_lab)
        await shown(app, pilot)
        await until(pilot, lambda: "That is a RAID 0." in text_of(app), "the hint for this mistake")


async def test_hints_come_one_by_one_and_the_last_is_the_apps_own_way(
    app_on: AppMaker, fake_lab: FakeLab, lesson: str
) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        await pilot.press("f7")
        assert len(step_hints(app)) == 1
        await pilot.press("6")
        await shown(app, pilot)
        await pilot.press("h", "h")
        assert len(step_hints(app)) == 3
        assert "2 Build: RAID 5; disk01, disk02, disk03 → **b**" in step_hints(app)[2]
        await until(pilot, lambda: "2 Build: RAID 5" in text_of(app), "the hint is in sight")


async def test_a_new_hint_is_brought_into_sight_on_a_small_terminal(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app, (80, 24)) as pilot:
        await begin(app, pilot, fake_lab, "05-failing-and-rebuilding")
        await pilot.press("6")
        await shown(app, pilot)
        assert "2 Build: RAID 5" not in text_of(app)
        await pilot.press("h", "h", "h")
        await until(pilot, lambda: "chunk 64 KiB → b" in text_of(app), "the last hint is in sight")
        await pilot.press("up", "up", "up", "up")
        await until(pilot, lambda: "Step 1 of 4" in text_of(app), "the beginning again")


def step_of(app: RaidlabApp) -> StepCard:
    step = view_of(app).step
    assert step is not None
    return step


def step_hints(app: RaidlabApp) -> tuple[str, ...]:
    return step_of(app).hints


async def test_letters_and_the_mouse_answer(app_on: AppMaker, fake_lab: FakeLab, lesson: str) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        await pilot.press("6")
        await shown(app, pilot)
        await pilot.press("b")
        assert answer_of(app) == "no"
        await pilot.press("1")
        await shown(app, pilot)
        await pilot.click(app.screen.query_one("#lesson-options", OptionList), offset=(4, 0))
        await pilot.pause()
        assert answer_of(app) == "yes"


def answer_of(app: RaidlabApp) -> str:
    return step_of(app).answer


async def test_what_was_done_is_there_after_a_restart(app_on: AppMaker, fake_lab: FakeLab, lesson: str) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        app.guide.answer("yes")
        fake_lab.show("raid5")
        await looked(pilot, app, fake_lab)
        assert view_of(app).done_count == 1
    again = app_on()
    async with running(again) as pilot:
        await looked(pilot, again, fake_lab)
        await until(pilot, lambda: again.guide.view is not None, "the lesson is open again")
        assert view_of(again).done_count == 1
        assert view_of(again).explanation is None, "it was read, or can be looked up"


async def test_beginning_anew_shows_what_is_lost_first(app_on: AppMaker, fake_lab: FakeLab, lesson: str) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        app.guide.answer("yes")
        fake_lab.show("raid5")
        await looked(pilot, app, fake_lab)
        await pilot.press("6", "z")
        await idle(pilot, app)
        assert isinstance(app.screen, PlanScreen)
        assert app.screen.plan.destroys_data
        await pilot.press("escape")
        assert view_of(app).done_count == 1, "nothing has happened yet"
        await pilot.press("z")
        await idle(pilot, app)
        fake_lab.show(None)
        await pilot.press("r")
        await until(pilot, lambda: view_of(app).done_count == 0, "the lesson begins anew")


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
        assert "'lots' is no number" in text_of(app)
        await pilot.press(*(["backspace"] * 4), *"125", "enter")
        await shown(app, pilot)
        assert "125 TB is not what is there" in text_of(app)
        assert view_of(app).done_count == 0
        await pilot.press("t")
        await pilot.pause()
        await pilot.press(*(["backspace"] * 3), *"12,5", "enter")
        await until(pilot, lambda: view_of(app).done_count == 1, "the step is done")


async def test_another_language_keeps_the_place(app_on: AppMaker, fake_lab: FakeLab, lesson: str) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        app.guide.answer("yes")
        app.guide.speak("sv")
        await pilot.press("6")
        await shown(app, pilot)
        text = text_of(app)
        assert "Steg 1 av 2" in text
        assert "din förutsägelse är gjord" in text
        assert "▣ ja" in text


async def test_leaving_keeps_the_progress_and_gives_the_room_back(
    app_on: AppMaker, fake_lab: FakeLab, lesson: str
) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        assert app.screen.query_one(LessonPanel).region.width > 0
        app.guide.leave()
        await shown(app, pilot)
        assert app.screen.query_one("#side").region.width == 0
        app.guide.start(lesson)
        assert view_of(app).title == "First"


@pytest.mark.parametrize("size", [(80, 24), (60, 15)])
async def test_a_small_terminal_tells_what_is_missing_in_its_last_lines(
    app_on: AppMaker, fake_lab: FakeLab, lesson: str, size: tuple[int, int]
) -> None:
    app = app_on()
    async with running(app, size) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        assert app.screen.query_one("#side").region.width == 0
        assert "predict first. F6" in text_of(app)
        await pilot.press("f6")
        await shown(app, pilot)
        assert "Step 1 of 2" in text_of(app)
        await pilot.press("f6")
        await shown(app, pilot)
        assert app.current_mode == "lab"


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
        assert "nothing is checked here" in text_of(app)


async def test_it_can_be_read_without_unicode(app_on: AppMaker, fake_lab: FakeLab, lesson: str) -> None:
    app = app_on(glyphs=ASCII)
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        await pilot.press("6", "h", "h", "h")
        await shown(app, pilot)
        await until(pilot, lambda: "2 Build: RAID 5" in text_of(app), "the hint is in sight")


def commands_of_the_course() -> list[str]:
    """Every quoted command in every text of every lesson, in all languages."""
    found = set()
    for files in built_in_course().lessons:
        for language in files.languages:
            for step in files.ready("", language).steps:
                texts = (step.say, step.explain, *step.hints, *(mistake.hint for mistake in step.mistakes))
                found |= {match for text in texts for match in re.findall(r"[`'](raidlab [^`'\n]+)[`']", text)}
    return sorted(found)


@pytest.mark.parametrize("command", commands_of_the_course())
def test_every_command_of_the_course_has_a_place_in_the_app(command: str) -> None:
    assert key_for(command)[0], command


def test_every_action_of_a_lesson_is_told_as_keys() -> None:
    told = {
        type(action)
        for files in built_in_course().lessons
        for step in files.ready().steps
        for action in step.do
        if steps_in_app([action])
    }
    from tui.lessons import wording

    assert set(ACTIONS.values()) <= set(wording._DONE)
    assert told


def test_commands_become_keys_in_any_language() -> None:
    assert in_app("skriv data (`raidlab array mark md0`).") == "skriv data (**m**, 1 Lab)."
    assert in_app("'raidlab lesson reset' empieza de nuevo") == "**z** (6 Lessons) empieza de nuevo"
    assert in_app("of disk01,disk02 now") == "of disk01, disk02 now"
    assert in_app("`raidlab unheard of`") == "`raidlab unheard of`"
