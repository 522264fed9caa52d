"""The kinds of array that the lab knows: md's own, and those that parts add."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING

from lab.errors import SpecError
from lab.parts import all_added, loaded

if TYPE_CHECKING:
    from lab.arrays.array import ArrayKind


@cache
def kinds() -> tuple[ArrayKind, ...]:
    """All kinds. md's own comes first: others are made of it, and what names no other is its."""
    # By name, since it stands on modules that ask here.
    return (loaded("lab.arrays.md:MD"), *all_added("kind of array"))


def kind_of_level(level: str) -> ArrayKind:
    """The kind that makes arrays of this level; md's own for a word that no kind knows."""
    return next((kind for kind in kinds() if level.lower() in kind.levels), kinds()[0])


def kind_of_name(name: str) -> ArrayKind:
    """The kind whose arrays have such names. Raises SpecError for what names no array."""
    for kind in kinds():
        if kind.is_name(name):
            return kind
    raise SpecError(f"'{name}' is not an array name", hint="write md and a number below 1000, such as md0")


def names_array(word: str) -> bool:
    """Whether some kind has arrays of such names."""
    return any(kind.is_name(word) for kind in kinds())


def free_name(kind: ArrayKind, taken: Collection[str]) -> str:
    """The first of md0, md1, … that is not taken; for another kind of its names."""
    return next(name for number in range(1000) if (name := kind.name(number)) not in taken)
