"""Every screen: its frame fits into 80 columns, no terminal size ends it, and it needs no colours."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest
from rich.color import Color
from textual.screen import Screen
from textual.widgets import OptionList

from lab.drills.case import CaseRecord
from lab.drills.verbs import StartDrill
from tests.tui.conftest import Start
from tests.tui.user import User
from tui.drill_screen import DebriefScreen
from tui.drills import Drills, DrillView
from tui.help import HelpScreen, WelcomeScreen
from tui.keys import SCREENS
from tui.mode import HintLine, ModeScreen, TopBar
from tui.plan_screen import PlanScreen

pytestmark = pytest.mark.app(is_still=True)
COLUMNS = 80
DRILL = DrillView(
    id="10-created-over",
    title="Someone ran mdadm --create over the array",
    briefing="",
    rules="",
    hints=(),
    status=(("time", "100 min (meant for 20)"),),
    is_committed=False,
    touched_bytes=0,
    has_more_hints=True,
    seed="",
    is_exam=False,
)


async def each_screen(user: User) -> AsyncIterator[ModeScreen]:
    for entry in SCREENS:
        await user.app.switch_mode(entry.mode)
        await user.show()
        screen = user.at(ModeScreen)
        screen.changes += 1
        yield screen


@pytest.mark.app(size=(COLUMNS, 24))
async def test_no_name_of_a_screen_is_cut(user: User) -> None:
    for user.lab.background in ("", "a long piece of work"):
        async for screen in each_screen(user):
            text = str(screen.query_one(TopBar).render())
            assert all(f"{entry.key} {entry.narrow_title} " in text for entry in SCREENS), text
            assert len(text) == COLUMNS


async def test_the_activity_of_the_machine_is_shown_in_full_where_it_fits(user: User) -> None:
    for user.lab.background in ("", "rand-mix-4k on md0"):
        await user.show()
        text = str(user.find(TopBar).render())
        assert "…" not in text
        assert user.lab.background in text


@pytest.mark.app(size=(COLUMNS, 24))
async def test_no_next_step_is_cut(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Drills, "refresh", lambda _: None)
    for view in (None, DRILL, replace(DRILL, touched_bytes=512), replace(DRILL, is_committed=True)):
        user.app.drills.view = view
        async for screen in each_screen(user):
            text = str(screen.query_one(HintLine).visual)
            assert len(text) <= COLUMNS, text


@pytest.mark.app(is_still=False)
async def test_an_exam_has_no_variant(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Drills, "refresh", lambda _: None)
    await user.read("9")
    for is_exam in (False, True):
        user.app.drills.view = replace(DRILL, is_exam=is_exam)
        assert user.screen.check_action("variant", ()) is not is_exam


@pytest.mark.app(is_still=False)
async def test_no_hint_is_recorded_that_the_page_would_not_show(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the machine is lost, the drill's page no longer changes."""
    asked: list[object] = []
    monkeypatch.setattr(Drills, "refresh", lambda _: None)
    monkeypatch.setattr(Drills, "perform", lambda _self, verb, *_: asked.append(verb))
    user.app.drills.view = replace(DRILL, has_more_hints=True)
    await user.read("9")
    await user.press("h", "f7")
    assert asked == []


@pytest.mark.app(is_still=False)
@pytest.mark.parametrize("is_damaged", [False, True])
async def test_a_drill_replaces_an_open_one_only_if_its_record_is_damaged(
    user: User, monkeypatch: pytest.MonkeyPatch, is_damaged: bool
) -> None:
    session = user.app.client.session
    assert session is not None
    record = CaseRecord(drill="01-dropped-members", target="uml:", began_utc="", file_system_uuid="x", blocks=1)
    (session.folder / "drill").mkdir(parents=True)
    (session.folder / "drill" / "case.json").write_bytes(b"{" if is_damaged else msgspec.json.encode(record))
    monkeypatch.setattr(StartDrill, "use_of_disks", lambda *_: "a disk is in use")
    user.app.drills.begin(StartDrill(name="2"))
    await user.idle()
    assert isinstance(user.screen, PlanScreen) is is_damaged
    refused = [each for each in user.notifications if "drill 01-dropped-members is open in this lab" in each]
    assert len(refused) == (not is_damaged)


async def test_what_opens_while_another_window_is_in_front_has_a_focus(user: User) -> None:
    user.app.app_focus = False
    for screen, focused in (
        (HelpScreen(user.screen), "help-box"),
        (DebriefScreen(""), "debrief-box"),
        (WelcomeScreen(), "welcome-build"),
    ):
        user.app.push_screen(screen)
        await user.show()
        assert screen.focused
        assert screen.focused.id == focused
        await user.press("escape")
    async for mode_screen in each_screen(user):
        # The Lab screen was already open.
        if user.app.current_mode not in ("lab", "stripe", "commands"):
            assert mode_screen.focused, user.app.current_mode


@pytest.mark.wide
@pytest.mark.slow
@pytest.mark.parametrize("key", [*(entry.key for entry in SCREENS), "question_mark", "ctrl+p", "f", "b"])
@pytest.mark.app(shows="raid5", is_still=False)
async def test_every_screen_bears_every_size(user: User, key: str) -> None:
    await user.press(key)
    for columns, rows in ((1, 1), (2, 1), (3, 3), (80, 2), (5, 20), (20, 5), (80, 3), (400, 150), (120, 40)):
        await user.pilot.resize_terminal(columns, rows)
        await user.show()
        await user.press("pageup", "pagedown", "home", "end", "up", "down")


@pytest.mark.app(size=(80, 2))
async def test_a_page_of_a_list_without_lines_is_nowhere(user: User) -> None:
    await user.press("ctrl+p", "pageup", "pagedown", "l", "pagedown", "pageup")
    assert any(each.option_count for each in user.screen.query(OptionList))


def colours(screen: Screen[object]) -> set[Color]:
    """All colours on the screen except greys."""
    styles = [segment.style for strip in screen._compositor.render_strips() for segment in strip if segment.style]
    found = {colour for style in styles for colour in (style.color, style.bgcolor) if colour}
    return {colour for colour in found if len(set(colour.get_truecolor())) > 1}


@pytest.mark.slow
@pytest.mark.app(shows="raid5-rebuilding", is_still=False)
async def test_without_colours_every_state_still_has_a_sign(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses ``NO_COLOR`` (no-color.org)."""
    async with start() as user:
        assert colours(user.screen)
    monkeypatch.setenv("NO_COLOR", "1")
    async with start() as user:
        for entry in reversed(SCREENS):
            await user.app.switch_mode(entry.mode)
            await user.look()
            assert colours(user.screen) == set(), entry.mode
        assert user.app.current_mode == "lab"
        assert {"●", "◐", "○", "▲"} <= set(user.text)
