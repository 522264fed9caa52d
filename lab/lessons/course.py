"""The course: lesson files in the order of their names, and their translations beside them.

``05-mirroring.toml`` is a lesson in English, ``05-mirroring.es.toml`` its Spanish texts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from lab.errors import SpecError
from lab.lessons.ready import ReadyLesson, make_ready
from lab.lessons.schema import SOURCE_LANGUAGE, Lesson, Translation
from lab.tomlfile import read_toml, unknown_word

COURSE_FOLDER = Path(__file__).with_name("course")
_LESSON_FILE = re.compile(r"\d\d-[a-z0-9-]+")
_TRANSLATION_FILE = re.compile(r"(\d\d-[a-z0-9-]+)\.([a-z]{2})")


@dataclass(frozen=True, slots=True)
class LessonFiles:
    """One lesson as it was read."""

    lesson: Lesson
    path: Path
    translations: dict[str, Translation] = field(default_factory=dict)

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages in which it can be worked at, English first."""
        return (SOURCE_LANGUAGE, *sorted(self.translations))

    def ready(self, seed: str = "", language: str = SOURCE_LANGUAGE) -> ReadyLesson:
        """The lesson for a student; English where it is not translated."""
        return make_ready(self.lesson, seed, self.translations.get(language))


@dataclass(frozen=True, slots=True)
class Course:
    """All lessons of a folder, in order."""

    lessons: tuple[LessonFiles, ...]

    def find(self, word: str) -> LessonFiles:
        """A lesson by its id, its number, or a part of its id that no other has. Raises SpecError with the nearest."""
        ids = [files.lesson.id for files in self.lessons]
        if word in ids:
            return self.lessons[ids.index(word)]
        number = f"{int(word):02d}-" if word.isdecimal() else ""
        near = [each for each in ids if (number and each.startswith(number)) or (not number and word in each)]
        if len(near) == 1:
            return self.lessons[ids.index(near[0])]
        if len(near) > 1:
            raise SpecError(f"'{word}' may be {' or '.join(near)}", hint="write more of the name")
        raise unknown_word("lesson", word, ids)

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids in the order of the course."""
        return tuple(files.lesson.id for files in self.lessons)


def read_lesson(path: Path) -> LessonFiles:
    """One lesson and its translations. Raises SpecError for a file that cannot be meant as written."""
    translations = {}
    for other in sorted(path.parent.glob(f"{path.stem}.*.toml")):
        match = _TRANSLATION_FILE.fullmatch(other.stem)
        if match:
            translations[match[2]] = read_toml(other, Translation)
    return LessonFiles(read_toml(path, Lesson), path, translations)


def read_course(folder: Path) -> Course:
    """Every lesson of a folder. Raises SpecError as read_lesson does."""
    paths = sorted(path for path in folder.glob("*.toml") if not _TRANSLATION_FILE.fullmatch(path.stem))
    return Course(tuple(read_lesson(path) for path in paths))


@cache
def built_in_course() -> Course:
    """The course that comes with raidlab."""
    return read_course(COURSE_FOLDER)


def is_lesson_name(stem: str) -> bool:
    """Whether a file may be called so: two digits, a hyphen, a name."""
    return bool(_LESSON_FILE.fullmatch(stem))
