"""An open lesson on every screen: beside the screen, in little room, without Unicode, in another language."""

from __future__ import annotations

import pytest
from textual.widgets import OptionList

from tests.tui.lessons import begin, begin_on_its_screen, step_of, view_of
from tests.tui.test_frame import DRILL
from tests.tui.user import User
from tui.keys import SCREENS
from tui.lessons import LessonPanel


async def test_checks_tick_on_the_lab_screen_while_the_student_works(user: User, lesson: str) -> None:
    await begin(user, lesson)
    assert user.app.current_mode == "lab"
    text = user.text
    assert "1. First" in text
    assert "○ md0 is raid5" not in text, "the checks are shown only after the prediction"
    assert "(m, 1 Lab)" in text or "m (1 Lab)" in text, "the app's key instead of the command"
    user.fake_lab.show("raid5")
    await user.look()
    await user.read()
    assert "✔ md0 is raid5" not in user.text
    user.sees("○ your prediction is given", "predict first")
    user.app.guide.answer("no")
    await user.read()
    assert view_of(user).done_count == 1


@pytest.mark.wide
@pytest.mark.parametrize("size", [(120, 40), (160, 50)])
async def test_the_lesson_is_shown_beside_every_screen_from_the_first_frame(
    user: User, lesson: str, size: tuple[int, int]
) -> None:
    await begin(user, lesson)
    for entry in SCREENS:
        user.app.switch_mode(entry.mode)
        # The first moment of a screen, and a second one before its widgets exist.
        user.app.show_now()
        user.app.show_now()
        if size[0] < getattr(user.screen, "LESSON_FROM_CELLS", 0):
            await user.until(
                lambda: bool(side := user.screen.query("#side")) and side.first().region.width == 0,
                f"{entry.title} alone",
            )
            continue
        await user.see("Step 1 of 2")


@pytest.mark.app(size=(80, 24))
async def test_a_new_hint_is_brought_into_sight_on_a_small_terminal(user: User) -> None:
    await begin_on_its_screen(user, "05-failing-and-rebuilding")
    assert "2 Build: RAID 5" not in user.text
    await user.press("h", "h", "h")
    await user.see("chunk 64 KiB → b")
    await user.press("up", "up", "up", "up")
    await user.see("Step 1 of 4")


async def test_letters_and_the_mouse_answer(user: User, lesson: str) -> None:
    await begin_on_its_screen(user, lesson)
    await user.press("b")
    assert step_of(user).progress.answer == "no"
    await user.read("1")
    await user.pilot.click(user.find(OptionList, "#lesson-options"), offset=(4, 0))
    await user.show()
    assert step_of(user).progress.answer == "yes"


async def test_another_language_keeps_the_place(user: User, lesson: str) -> None:
    await begin(user, lesson)
    user.app.guide.answer("yes")
    user.app.guide.change_language("sv")
    await user.read("6")
    user.sees("Steg 1 av 2", "din förutsägelse är gjord", "▣ ja")


async def test_leaving_keeps_the_progress_and_gives_the_room_back(user: User, lesson: str) -> None:
    await begin(user, lesson)
    assert user.find(LessonPanel).region.width > 0
    user.app.guide.leave()
    await user.read()
    assert user.screen.query_one("#side").region.width == 0
    user.app.guide.start(lesson)
    assert view_of(user).lesson.title == "First"


@pytest.mark.parametrize("size", [(80, 24), (60, 15)])
async def test_a_small_terminal_shows_the_open_step_in_its_last_lines(user: User, lesson: str) -> None:
    await begin(user, lesson)
    assert user.screen.query_one("#side").region.width == 0
    assert "predict first. F6" in user.text
    await user.read("f6")
    assert "Step 1 of 2" in user.text
    await user.read("f6")
    assert user.app.current_mode == "lab"


async def test_an_open_drill_puts_the_lesson_away(user: User, lesson: str) -> None:
    await begin(user, lesson)
    assert user.screen.query_one("#side").region.width > 0
    user.app.drills.view = DRILL
    user.app.show_soon()
    await user.until(lambda: user.screen.query_one("#side").region.width == 0, "the lesson is away")
    user.app.guide.answer("no")
    user.fake_lab.show("raid5")
    await user.look()
    assert view_of(user).done_count == 0, "the drill's arrays are none of the lesson's"
    user.app.drills.view = None
    await user.look()
    await user.until(lambda: view_of(user).done_count == 1, "the lesson goes on")
