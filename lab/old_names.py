"""What files of earlier versions call otherwise: read here, never written.

Version 1 of experiments, lessons and results, and lists of disks from before those, say ``personality`` for the model
of an emulated drive.
"""

from __future__ import annotations

from typing import Any

_KEYS = {"personality": "model"}
OLD_DRIVES_FOLDER = "personalities"
"""The folder of the user's own drive models had this name."""
STEPS = {"11-scrub-and-silent-corruption": {"mend": "repair"}}
"""Lesson -> a step's old id -> its id today."""
ANSWERS = {"11-scrub-and-silent-corruption": {"mends": "repairs"}}
"""Lesson -> an option's old id -> its id today."""
DRAWN_AS = {("12-choosing-a-level", "purpose"): "wish"}
"""Lesson and variable -> the name by which it is drawn, so that a seed gives a student what it always gave."""


def with_new_keys(tree: Any) -> Any:
    """A tree of tables, lists and values with every old key under its name of today."""
    if isinstance(tree, dict):
        return {_KEYS.get(key, key): with_new_keys(value) for key, value in tree.items()}
    return [with_new_keys(each) for each in tree] if isinstance(tree, list) else tree
