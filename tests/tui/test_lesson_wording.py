"""Every command and action that a lesson mentions has a key in the app."""

from __future__ import annotations

import re

import pytest
from textual.binding import Binding

from lab.lessons.course import built_in_course, make_action
from tui.actions import KEY_ACTIONS
from tui.app import make_screen
from tui.keys import SCREENS
from tui.lessons import in_app, key_for, step_in_app


def commands_of_the_course() -> set[str]:
    """Every quoted command in every text of every lesson, in all languages."""
    found: set[str] = set()
    for files in built_in_course().lessons:
        for language in files.languages:
            for step in files.ready("", language).steps:
                texts = (step.text, step.explain, *step.hints, *(mistake.hint for mistake in step.mistakes))
                found |= {match for text in texts for match in re.findall(r"[`'](raidlab [^`'\n]+)[`']", text)}
    return found


def keys_of(mode: str) -> set[str]:
    """All keys of a screen."""
    screen = make_screen(mode)
    made = [binding for kind in type(screen).__mro__ for binding in vars(kind).get("BINDINGS", ())]
    found = {key.strip() for binding in made if isinstance(binding, Binding) for key in binding.key.split(",")}
    return found | ({action.key for action in KEY_ACTIONS} if mode == "lab" else set())


def test_every_command_of_the_course_has_a_place_in_the_app_and_a_key_there() -> None:
    for command in commands_of_the_course():
        screen, key = key_for(command)
        # The command for fleets needs its own terminal.
        assert screen or command.split()[1] == "fleet", command
        if screen and key:
            entry = next(each for each in SCREENS if each.key == screen[0])
            assert screen == f"{entry.key} {entry.title}", "a screen is called as its tab"
            pressed = key.partition(",")[0]
            assert {"Del": "delete"}.get(pressed, pressed) in keys_of(entry.mode), (command, screen, key)


def test_every_action_of_the_course_is_done_in_the_app() -> None:
    done = {
        type(action): step_in_app(action)
        for files in built_in_course().lessons
        for step in files.ready().steps
        for action in step.do
    }
    assert len(done) > 12
    assert {kind: line for kind, line in done.items() if not line or "raidlab" in line} == {}


def test_commands_become_keys_in_any_language() -> None:
    assert in_app("skriv data (`raidlab array mark md0`).") == "skriv data (**m**, 1 Lab)."
    assert in_app("(`raidlab array mark md0` or so)") == "(**m** (1 Lab) or so)"
    assert in_app("'raidlab lesson reset' empieza de nuevo") == "**z** (6 Lessons) empieza de nuevo"
    assert in_app("of disk01,disk02 now") == "of disk01, disk02 now"
    assert in_app("`raidlab unheard of`") == "`raidlab unheard of`"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"act": "array.grow", "members": "disk05"}, "--raid-devices="),
        ({"act": "array.grow", "members": "5"}, "`raidlab array grow md0 --members 5`"),
        ({"act": "array.scrub", "action": "stop"}, "`raidlab array scrub md0 stop`"),
        (
            {"act": "array.create", "array": "adapt0", "level": "adapt5", "disks": "disk01,disk02,disk03"},
            "--level adapt5",
        ),
        ({"act": "array.create", "level": "raid5"}, "`raidlab array create md0 --level raid5`"),
        ({"act": "disk.slow", "disk": "disk01", "model": "ssd"}, "`raidlab disks slow disk01 ssd`"),
        ({"act": "disk.corrupt", "disk": "disk01", "length": "8K"}, "--length 8K"),
        ({"act": "array.fail", "disk": "disk01", "break_array": True}, "disk01 → **f** Fail"),
        ({"act": "array.bitmap", "bitmap": "none"}, "`raidlab array bitmap md0 none`"),
    ],
)
def test_actions_without_a_key_are_shown_as_commands(written: dict[str, object], message: str) -> None:
    assert message in step_in_app(make_action(written, where="here"))
