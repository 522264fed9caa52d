"""Every command and action that a lesson names has its keys in the app."""

from __future__ import annotations

import re

import pytest

from lab.lessons.course import built_in_course
from lab.lessons.ready import ACTIONS
from tui.lessons.wording import in_app, key_for, steps_in_app


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
