"""An open lesson on every screen: beside it, in little room, without Unicode, in another language."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList

from tests.tui.conftest import AppMaker, looked, running, until
from tests.tui.fake_lab import FakeLab
from tests.tui.lessons import answer_of, begin, begin_on_its_screen, lesson, shown, view_of
from tests.tui.still import text_of
from tui.keys import SCREENS
from tui.lessons import LessonPanel

__all__ = ["lesson"]


async def test_checks_tick_on_the_lab_screen_while_the_student_works(
    app_on: AppMaker, fake_lab: FakeLab, lesson: str
) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin(app, pilot, fake_lab, lesson)
        assert app.current_mode == "lab"
        text = text_of(app)
        assert "1. First" in text
        assert "○ md0 is raid5" not in text, "what the checks want is told after the prediction"
        assert "(m, 1 Lab)" in text or "m (1 Lab)" in text, "the app's key instead of the command"
        fake_lab.show("raid5")
        await looked(pilot, app, fake_lab)
        await shown(app, pilot)
        text = text_of(app)
        assert "✔ md0 is raid5" not in text
        assert "○ your prediction is given" in text
        assert "predict first" in text
        app.guide.answer("no")
        await shown(app, pilot)
        assert view_of(app).done_count == 1


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
            if size[0] < getattr(app.screen, "LESSON_FROM_CELLS", 0):
                await until(
                    pilot,
                    lambda: bool(side := app.screen.query("#side")) and side.first().region.width == 0,
                    f"{entry.title} alone",
                )
                continue
            await until(pilot, lambda: "Step 1 of 2" in text_of(app), f"the lesson on {entry.title}")


async def test_a_new_hint_is_brought_into_sight_on_a_small_terminal(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app, (80, 24)) as pilot:
        await begin_on_its_screen(app, pilot, fake_lab, "05-failing-and-rebuilding")
        assert "2 Build: RAID 5" not in text_of(app)
        await pilot.press("h", "h", "h")
        await until(pilot, lambda: "chunk 64 KiB → b" in text_of(app), "the last hint is in sight")
        await pilot.press("up", "up", "up", "up")
        await until(pilot, lambda: "Step 1 of 4" in text_of(app), "the beginning again")


async def test_letters_and_the_mouse_answer(app_on: AppMaker, fake_lab: FakeLab, lesson: str) -> None:
    app = app_on()
    async with running(app) as pilot:
        await begin_on_its_screen(app, pilot, fake_lab, lesson)
        await pilot.press("b")
        assert answer_of(app) == "no"
        await pilot.press("1")
        await shown(app, pilot)
        await pilot.click(app.screen.query_one("#lesson-options", OptionList), offset=(4, 0))
        await pilot.pause()
        assert answer_of(app) == "yes"


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
