"""How often a class lost the data in its drills, for models of what people do."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab.classroom.standing import DESTROYED
from lab.classroom.view import view_class
from lab.errors import ResultError


def lost_in_drills(folder: str) -> float:
    """Of all students' first tries at all drills, the share after which data were gone that could have been saved.

    Raises ResultError if nobody ended a drill, and what reading the bundles raises.
    """
    with tempfile.TemporaryDirectory(prefix="raidlab-class-") as cache:
        found = view_class(Path(folder), Path(cache)).practice.drills
    tried = sum(each.first.saved.of for each in found)
    if not tried:
        raise ResultError(f"no bundle of '{folder}' has a drill that was ended", hint="'raidlab export --practice'")
    return sum(each.first.verdicts.get(word, 0) for each in found for word in DESTROYED) / tried
