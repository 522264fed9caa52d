"""The course: lesson files in the order of their names, their translations, and the sentences that lessons share.

``05-mirroring.toml`` is a lesson in English, ``05-mirroring.es.toml`` its Spanish texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import msgspec

from lab.errors import SpecError
from lab.gates.decoding import digits
from lab.lessons.ready import ReadyLesson, make_ready
from lab.lessons.schema import SOURCE_LANGUAGE, Lesson, Question, Translation
from lab.plugins import catalogue
from lab.tomlfile import read_toml, unknown_word

COURSE_FOLDER = Path(__file__).with_name("course")
_LESSON_FILE = re.compile(r"\d\d-[a-z0-9-]+")
_TRANSLATION_FILE = re.compile(r"(\d\d-[a-z0-9-]+)\.([a-z]{2})")


@dataclass(frozen=True, slots=True)
class LessonFiles:
    """One lesson and its translations, as read from their files."""

    lesson: Lesson
    path: Path
    translations: dict[str, Translation] = field(default_factory=dict)

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of this lesson, English first."""
        return (SOURCE_LANGUAGE, *sorted(self.translations))

    @property
    def shell_lines(self) -> tuple[str, ...]:
        """Lines that the lab runs as root if the student lets it do a step."""
        actions = (action for step in self.lesson.steps for action in step.do)
        return tuple(str(action.get("line", "")) for action in actions if action.get("act") == "shell")

    def ready(self, seed: str = "", language: str = SOURCE_LANGUAGE) -> ReadyLesson:
        """The lesson for a student, in English if it has no such translation."""
        return make_ready(self.lesson, seed, self.translations.get(language))


@dataclass(frozen=True, slots=True)
class Course:
    """All lessons of a folder, in order."""

    lessons: tuple[LessonFiles, ...]

    def find(self, word: str) -> LessonFiles:
        """Find a lesson by its id, its number, or a unique part of its id. Raises SpecError with the nearest id."""
        ids = [files.lesson.id for files in self.lessons]
        if word in ids:
            return self.lessons[ids.index(word)]
        count = digits(word)
        number = "" if count is None else f"{count:02d}-"
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
    """Read one lesson and its translations. Raises SpecError for an invalid file."""
    translations = {}
    for other in sorted(path.parent.glob(f"{path.stem}.*.toml")):
        match = _TRANSLATION_FILE.fullmatch(other.stem)
        if match:
            translations[match[2]] = read_toml(other, Translation)
    return LessonFiles(read_toml(path, Lesson), path, translations)


def read_course(folder: Path) -> Course:
    """Read every lesson of a folder. Raises SpecError as ``read_lesson``."""
    return _course(sorted(folder.glob("*.toml")))


def _course(paths: Iterable[Path]) -> Course:
    return Course(tuple(read_lesson(path) for path in paths if not _TRANSLATION_FILE.fullmatch(path.stem)))


@cache
def built_in_course() -> Course:
    """The course that is part of raidlab."""
    return _course(catalogue(COURSE_FOLDER).values())


def is_lesson_name(stem: str) -> bool:
    """Whether this is a valid name of a lesson file: two digits, a hyphen, a name."""
    return bool(_LESSON_FILE.fullmatch(stem))


WORDS_FOLDER = Path(__file__).with_name("words")


class LessonWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The sentences in one language, with placeholders such as ``{array}``."""

    language: str
    name: str
    """The name of the language in that language."""
    wanted: dict[str, str]
    """Key of a check -> its requirement."""
    found: dict[str, str]
    """Key of an outcome -> what was found."""
    states: dict[str, str]
    """Translations of states of disks and arrays in outcomes; other states remain as md writes them."""
    frame: dict[str, str]
    """Headings and labels."""

    def want(self, key: str, facts: Mapping[str, object]) -> str:
        """The requirement of a check."""
        return self.wanted[key].format_map(self._translated(facts))

    def find(self, key: str, facts: Mapping[str, object]) -> str:
        """The finding of a check."""
        return self.found[key].format_map(self._translated(facts))

    def say(self, key: str, **facts: object) -> str:
        """A heading or label."""
        return self.frame[key].format_map(facts)

    def predicted(self, ask: Question, chosen: str) -> str:
        """The prediction and its outcome; empty without a prediction."""
        if chosen not in ask.options:
            return ""
        told = {"answer": ask.options[chosen]}
        if not ask.answer:
            return self.say("predicted", **told)
        if chosen == ask.answer:
            return self.say("predicted-right", **told)
        return self.say("predicted-wrong", **told, truth=ask.options[ask.answer])

    def _translated(self, facts: Mapping[str, object]) -> dict[str, object]:
        return {key: self.states.get(value, value) if isinstance(value, str) else value for key, value in facts.items()}

    def keys(self) -> Iterator[str]:
        """All keys that each language must have, with their placeholders, such as ``found.disk-is {disk}``."""
        for table in ("wanted", "found", "states", "frame"):
            for key, text in getattr(self, table).items():
                yield " ".join([f"{table}.{key}", *sorted(placeholders(text))])


def placeholders(text: str) -> set[str]:
    """The placeholders of a text, with braces, such as ``{array}``."""
    return {"{" + part.partition("}")[0] + "}" for part in text.split("{")[1:]}


@cache
def words_in(language: str) -> LessonWords:
    """The sentences of a language, or those in English if it has none."""
    path = WORDS_FOLDER / f"{language}.toml"
    return read_toml(path if path.exists() else WORDS_FOLDER / f"{SOURCE_LANGUAGE}.toml", LessonWords)


def word_languages() -> tuple[str, ...]:
    """Languages that have sentences, English first."""
    found = sorted(path.stem for path in WORDS_FOLDER.glob("*.toml"))
    return (SOURCE_LANGUAGE, *(language for language in found if language != SOURCE_LANGUAGE))
