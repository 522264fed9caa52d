"""docs/lessons.md lists every check, action and source of a reading with its keys, as the code has them."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

from lab.checks.catalogue import CHECKS, SOURCES
from lab.cli.main import run
from lab.lessons.course import ACTIONS, built_in_course

DOCS = (Path(__file__).parents[3] / "docs" / "lessons.md").read_text(encoding="utf-8")


def row(name: str, kind: type[msgspec.Struct]) -> str:
    """``| `array.level` | array?, level | The array is of this level. |``; a question mark: may be left out."""
    fields = msgspec.structs.fields(kind)
    keys = ", ".join(f"{field.name}{'' if field.required else '?'}" for field in fields)
    said = (kind.__doc__ or "").strip().partition("\n")[0].replace("``", "`")
    return f"| `{name}` | {keys} | {said} |"


@pytest.mark.parametrize(
    ("name", "kind"), [*CHECKS.items(), *ACTIONS.items(), *SOURCES.items()], ids=lambda each: str(each)
)
def test_every_name_that_a_lesson_may_use_is_documented(name: str, kind: type[msgspec.Struct]) -> None:
    assert row(name, kind) in DOCS.splitlines()


def test_the_lesson_in_the_documentation_is_sound(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"^```toml\n(.*?)^```$", DOCS, flags=re.DOTALL | re.MULTILINE)
    lesson, translation = blocks[0], blocks[-1]
    (tmp_path / "20-my-mirror.toml").write_text(lesson, encoding="utf-8")
    (tmp_path / "20-my-mirror.sv.toml").write_text(translation, encoding="utf-8")
    assert run(["lesson", "verify", str(tmp_path / "20-my-mirror.toml")]) == 0
    assert "20-my-mirror: sound" in capfd.readouterr().out


def test_commands_in_lessons_are_quoted_so_that_the_app_can_tell_them_as_keys() -> None:
    for files in built_in_course().lessons:
        for language in files.languages:
            for step in files.ready("", language).steps:
                for text in (step.say, step.explain, *step.hints, *(mistake.hint for mistake in step.mistakes)):
                    bare = re.sub(r"[`'][^`'\n]*raidlab [^`'\n]*[`']", "", text)
                    assert "raidlab " not in bare, (files.lesson.id, language, step.id, text)
