"""The frequency of data loss in a class's drills, for models of human error."""

from __future__ import annotations

import tempfile
from pathlib import Path

from lab.classroom.standing import DESTROYED
from lab.classroom.view import view_class
from lab.errors import ResultError


def lost_in_drills(folder: str) -> float:
    """The share of the students' first tries at drills in which recoverable data were destroyed, 0 to 1.

    Raises ResultError if there is no ended drill, and the errors of ``view_class``.
    """
    with tempfile.TemporaryDirectory(prefix="raidlab-class-") as cache:
        found = view_class(Path(folder), Path(cache)).practice.drills
    tried = sum(each.first.saved.of for each in found)
    if not tried:
        raise ResultError(f"no bundle of '{folder}' has a drill that was ended", hint="'raidlab export --practice'")
    return sum(each.first.verdicts.get(word, 0) for each in found for word in DESTROYED) / tried
