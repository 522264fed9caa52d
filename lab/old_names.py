"""Old names in files of earlier versions: accepted on input, never written.

Version 1 of experiments, lessons and results, and lists of disks from before those, use ``personality`` for the model
of an emulated drive.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_KEYS = {"personality": "model"}
OLD_DRIVES_FOLDER = "personalities"
"""The old name of the folder of the user's own drive models."""
STEPS = {"11-scrub-and-silent-corruption": {"mend": "repair"}}
"""Lesson -> a step's old id -> its current id."""
ANSWERS = {"11-scrub-and-silent-corruption": {"mends": "repairs"}}
"""Lesson -> an option's old id -> its current id."""
DRAWN_AS = {("12-choosing-a-level", "purpose"): "wish"}
"""Lesson and variable -> the name that seeds its random value, so that a seed gives a student the same value as
before."""


def with_new_keys(tree: Any) -> Any:
    """A tree of tables, lists and values with every old key renamed to the current one."""
    if isinstance(tree, dict):
        return {_KEYS.get(key, key): with_new_keys(value) for key, value in tree.items()}
    return [with_new_keys(each) for each in tree] if isinstance(tree, list) else tree


def with_new_arguments(action: Mapping[str, Any]) -> dict[str, Any]:
    """An action of a lesson file with its current arguments."""
    match action:
        case {"act": "array.scrub", "repair": bool(repairs), **rest}:
            return {**rest, "act": "array.scrub", "action": "repair" if repairs else "check"}
        case {"act": "array.grow", "disk": disk, **rest}:
            # ``members`` was the resulting number of members, which the disks alone determine.
            return {**rest, "act": "array.grow", "members": disk}
        case _:
            return dict(action)
