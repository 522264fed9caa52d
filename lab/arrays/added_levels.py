"""The words for levels that plugins add. Their arithmetic is in the kind that makes them (``lab.arrays.extension``)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class AddedLevels(NamedTuple):
    """Levels of a kind of array that is not md's own."""

    levels: tuple[str, ...]
    makes: str
    """What they make, for the error message where only md's own levels are accepted."""
    nicknames: Mapping[str, str] = MappingProxyType({})
    """Other common name of a level -> the level."""
