"""The sentences that all lessons share, in each language: what a check wants, what it found, the frame around it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from lab.lessons.schema import SOURCE_LANGUAGE
from lab.tomlfile import read_toml

WORDS_FOLDER = Path(__file__).with_name("words")


class Words(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One language. Sentences have placeholders such as ``{array}``."""

    language: str
    name: str
    """What its speakers call it."""
    wanted: dict[str, str]
    """Check -> what must hold."""
    found: dict[str, str]
    """Finding -> what is there instead."""
    states: dict[str, str]
    """States of disks and arrays that findings mention; a word that is not listed stays as md writes it."""
    frame: dict[str, str]
    """Headings and labels."""

    def want(self, key: str, facts: Mapping[str, object]) -> str:
        """What a check wants."""
        return self.wanted[key].format_map(self._translated(facts))

    def find(self, key: str, facts: Mapping[str, object]) -> str:
        """What a check found."""
        return self.found[key].format_map(self._translated(facts))

    def say(self, key: str, **facts: object) -> str:
        """A heading or label."""
        return self.frame[key].format_map(facts)

    def _translated(self, facts: Mapping[str, object]) -> dict[str, object]:
        return {key: self.states.get(value, value) if isinstance(value, str) else value for key, value in facts.items()}

    def keys(self) -> Iterator[str]:
        """Every key that each language must have, and its placeholders, such as ``found.disk-is {disk}``."""
        for table in ("wanted", "found", "states", "frame"):
            for key, text in getattr(self, table).items():
                yield " ".join([f"{table}.{key}", *sorted(placeholders(text))])


def placeholders(text: str) -> set[str]:
    """The names in braces, as ``{array}``."""
    return {"{" + part.partition("}")[0] + "}" for part in text.split("{")[1:]}


@cache
def words_in(language: str) -> Words:
    """The sentences of a language; English where there are none."""
    path = WORDS_FOLDER / f"{language}.toml"
    return read_toml(path if path.exists() else WORDS_FOLDER / f"{SOURCE_LANGUAGE}.toml", Words)


def word_languages() -> tuple[str, ...]:
    """Languages with sentences of their own, English first."""
    found = sorted(path.stem for path in WORDS_FOLDER.glob("*.toml"))
    return (SOURCE_LANGUAGE, *(language for language in found if language != SOURCE_LANGUAGE))
