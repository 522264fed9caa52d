"""The kinds of array that the lab knows: md's own, and those that plugins add."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

from lab.arrays.extension import AddedKind
from lab.plugins import extensions

if TYPE_CHECKING:
    from lab.arrays.array import ArrayKind


@cache
def kinds() -> tuple[ArrayKind, ...]:
    """All kinds. md's own comes first: other kinds consist of its arrays, and it is the default."""
    from lab.arrays.md import MD

    return (MD, *(each.load() for each in extensions(AddedKind)))


def kind_of_level(level: str) -> ArrayKind:
    """The kind that makes arrays of this level; md's own for a word that no kind knows."""
    return next((kind for kind in kinds() if level.lower() in kind.levels), kinds()[0])


def kind_of_name(name: str) -> ArrayKind:
    """The kind whose arrays have names of this form. Raises SpecError if there is none."""
    from lab.arrays.array import kind_among

    return kind_among(kinds(), name)


def names_array(word: str) -> bool:
    """Whether ``word`` has the form of an array name of any kind."""
    return any(kind.is_name(word) for kind in kinds())


def free_name(kind: ArrayKind, taken: Collection[str]) -> str:
    """The first of md0, md1, … that is not taken; for another kind the first of its names that is not taken."""
    return next(name for number in range(1000) if (name := kind.name(number)) not in taken)
