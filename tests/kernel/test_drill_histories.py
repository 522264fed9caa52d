"""Whatever somebody does in a drill, what is said of it is fair: on the command line, in the app and its text mode."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.drills.schema import catalogue, find_drill, read_drill, ready
from tests.kernel.drill_histories import SEED, histories, play_all, play_typed

pytestmark = [pytest.mark.kernel, pytest.mark.wide]

TYPED = ("1", "5", "10")
"""With few lines, with names of arrays, and with the longest lines; the other drills differ in what is typed alone."""


# Longer than the limit of one step's lines, so that a step that hangs is named.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", catalogue().values(), ids=catalogue())
def test_every_verdict_is_fair(path: Path) -> None:
    problems = [problem for ended in play_all(ready(read_drill(path), path, SEED)) for problem in ended.problems]
    assert problems == []


@pytest.mark.parametrize("number", TYPED)
def test_the_text_mode_says_the_same_of_what_is_typed_line_by_line(number: str) -> None:
    path = find_drill(number)
    drill = ready(read_drill(path), path, SEED)
    right, unfinished = f"right: {drill.drill.right[0].id}", "half: tried and committed"
    typed = {ended.history.id: ended for ended in play_typed(drill, only=(right, unfinished))}
    assert set(typed) == {right, unfinished} <= {each.id for each in histories(drill)}
    assert [problem for ended in typed.values() for problem in ended.problems] == []
