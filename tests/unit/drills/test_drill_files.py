"""Drills as files: those that come with raidlab are sound, and what is wrong with another is told."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from lab.checks.catalogue import make_check
from lab.drills.schema import (
    LEAST_RIGHT,
    LEAST_WRONG,
    DrillStep,
    catalogue,
    common_mistakes,
    drill_problems,
    find_drill,
    read_drill,
    ready,
)
from lab.errors import SpecError

FILES = sorted(catalogue().items())
FIRST = read_drill(FILES[0][1])


@pytest.mark.parametrize(("name", "path"), FILES)
def test_a_drill_is_sound(name: str, path: Path) -> None:
    drill = read_drill(path)
    assert len(drill.right) >= LEAST_RIGHT
    assert len(drill.wrong) >= LEAST_WRONG
    assert drill.sources
    for mistake in (*drill.mistakes, *common_mistakes()):
        for sign in mistake.when:
            make_check(msgspec.to_builtins(sign), where=f"{name}, {mistake.id}", in_drill=True)


@pytest.mark.parametrize(("name", "path"), FILES)
def test_a_word_makes_another_case(name: str, path: Path) -> None:
    drill = read_drill(path)
    cases = {tuple(ready(drill, path, word).values.items()) for word in ("", *(f"student-{n}" for n in range(30)))}
    assert len(cases) >= 8, name


@pytest.mark.parametrize(("name", "path"), FILES)
def test_nothing_is_left_to_be_filled_in(name: str, path: Path) -> None:
    for word in ("", "anna", "bert"):
        drill = ready(read_drill(path), path, word).drill
        assert "{seed." not in msgspec.json.encode(msgspec.structs.replace(drill, seed={})).decode(), name


def problems(**changes: object) -> str:
    return "; ".join(drill_problems(msgspec.structs.replace(FIRST, **changes), FIRST.id))


def test_what_is_wrong_is_told() -> None:
    assert problems() == ""
    assert "1 right ways" in problems(right=FIRST.right[:1])
    assert "2 wrong ways" in problems(wrong=FIRST.wrong[:2])
    assert "2 hints" in problems(hints=FIRST.hints[:2])
    assert "two ways are called" in problems(right=(FIRST.right[0], FIRST.right[0]))
    assert "no mistake 'x'" in problems(
        wrong=(*FIRST.wrong, msgspec.structs.replace(FIRST.wrong[0], id="y", mistake="x"))
    )
    assert "write id" in problems(id="other")
    assert "format_version is 9" in problems(format_version=9)
    assert "seed variable" in problems(symptom="{seed.levle}")


def test_a_step_is_one_thing() -> None:
    for steps in ({"run": "true", "commit": True}, {}, {"run": "  "}):
        with pytest.raises(SpecError):
            msgspec.convert(steps, type=DrillStep)


def test_a_drill_is_found_by_number_id_or_part() -> None:
    for word in ("1", "01", FIRST.id, "dropped"):
        assert find_drill(word).stem == FIRST.id
    with pytest.raises(SpecError):
        find_drill("99")
