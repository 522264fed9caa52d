"""Walks through the whole app: every key has an id, tooltip and help, and the command line can do what the app can."""

from __future__ import annotations

from typing import Any

import pytest
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.dom import DOMNode
from textual.screen import Screen
from textual.widget import Widget

from lab.actions import ACTIONS
from lab.cli.app import make_app
from lab.drills.verbs import VERBS as DRILL_VERBS
from lab.lessons.verbs import VERBS as LESSON_VERBS
from tests.tui.test_frame import each_screen
from tests.tui.user import User
from tui.app import RaidlabApp
from tui.help import CLOCK_IDS, HelpScreen, key_table
from tui.keys import CommandKey, classes_with_keys, known_ids, own_bindings
from tui.mode import ModeScreen

_NO_NEED_OF_HELP = {"HelpScreen", "Screen", "StateScreen", "ModeScreen", "Modal", "TypedScreen"}


CLASSES = classes_with_keys()
BINDINGS: list[tuple[type[DOMNode], Binding]] = list(own_bindings(CLASSES))


def test_every_binding_has_an_id_a_name_and_a_tooltip() -> None:
    """A keymap refers to a key by its id; F1 and the palette show the rest."""
    assert [each for _, each in BINDINGS if not (each.id and each.description and each.tooltip)] == []


def test_no_id_means_two_things() -> None:
    meanings: dict[str, set[str]] = {}
    for _, binding in BINDINGS:
        meanings.setdefault(binding.id or "", set()).add(binding.action)
    assert {each: actions for each, actions in meanings.items() if len(actions) > 1} == {}


VERBS = (*ACTIONS, *LESSON_VERBS, *DRILL_VERBS)
COMMANDS = {binding.command for _, binding in BINDINGS if isinstance(binding, CommandKey)}


def test_every_verb_that_has_a_key_is_on_a_screen() -> None:
    assert len(COMMANDS) > 30
    assert {each.words for each in VERBS if each.key} <= COMMANDS


def test_the_command_line_can_do_what_the_app_can() -> None:
    app = make_app()
    for words in COMMANDS | {each.words for each in VERBS}:
        command: Any = app
        for word in words.split():
            assert word in command, f"raidlab {words} is no command"
            command = command[word]


@pytest.mark.parametrize(
    "screen", [each for each in CLASSES if issubclass(each, Screen)], ids=lambda each: each.__name__
)
def test_every_screen_has_a_help_text(screen: type[Screen[Any]]) -> None:
    if screen.__name__ not in _NO_NEED_OF_HELP:
        assert getattr(screen, "HELP", ""), "F1 would show keys only"
    if issubclass(screen, ModeScreen) and screen is not ModeScreen:
        assert screen.AREA, "its commands would have no place in the palette"


@pytest.mark.slow
@pytest.mark.app(shows="raid5-failed")
async def test_every_screen_shows_its_keys_in_f1_and_in_the_palette(user: User) -> None:
    known = known_ids()
    async for screen in each_screen(user):
        if user.app.current_mode == "commands":
            # In the terminal, F1 is passed to the program that runs there.
            await user.press("f12")
        live = {each.binding.id or "": each for each in screen.active_bindings.values() if each.binding.id in known}
        own = {binding.id for _, binding in own_bindings([type(screen)])}
        assert own, "the screen has keys of its own"
        table = str(key_table(user.app, screen, 100))
        palette = [command.title for command in user.app.get_system_commands(screen)]
        assert len(palette) == len(set(palette))
        for binding_id, active in live.items():
            assert binding_id in table
            # The machine runs in real time, so keys for its clock have no effect.
            is_idle = binding_id.startswith(CLOCK_IDS)
            if active.enabled and binding_id != "app.palette" and not is_idle:
                assert any(title.endswith(f": {active.binding.description}") for title in palette), binding_id
        await user.press("f1")
        assert isinstance(user.screen, HelpScreen)
        await user.press("escape")


@pytest.mark.slow
async def test_whatever_can_have_the_focus_can_be_explained(user: User) -> None:
    async for screen in each_screen(user):
        assert [widget for widget in screen.focus_chain if not explained(user.app, widget)] == []


def explained(app: RaidlabApp, widget: Widget) -> bool:
    """Whether a tooltip, keys of its own that F1 lists, or its frame's title and the screen's help explain a widget."""
    has_keys = any(True for _, binding in own_bindings([type(widget)]) if binding.tooltip)
    is_of_screen = bool(widget.border_title) or type(widget) is VerticalScroll
    return bool(widget.tooltip or has_keys or (is_of_screen and getattr(app.screen, "HELP", "")))
