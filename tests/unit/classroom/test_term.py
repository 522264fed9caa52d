"""The term in docs/instructor.md names every lesson and every drill as the app does."""

from __future__ import annotations

import re
from pathlib import Path

from lab.drills.schema import catalogue, read_drill
from lab.lessons.course import built_in_course

TERM = re.compile(r"## A term\n(.*?)\n## ", re.DOTALL)


def test_every_lesson_and_drill_is_in_a_week() -> None:
    found = TERM.search(Path(__file__).parents[3].joinpath("docs", "instructor.md").read_text())
    assert found
    rows = [line.split("|")[2:4] for line in found[1].splitlines() if re.match(r"\| \d", line)]
    lessons, drills = (" ".join(row[place] for row in rows) for place in (0, 1))
    course = built_in_course()
    for name in course.ids:
        assert f" {int(name[:2])} {course.find(name).lesson.title}" in f" {lessons}", name
    for name, path in catalogue().items():
        assert f" {int(name[:2])} {read_drill(path).title}" in f" {drills}", name
