"""Crash points under a file system, one by one and counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from lab.faults.files_arrays import FilesArray

_ARBITRARY = (
    "the member that is missing was being written, and PPL leaves arbitrary data in what was "
    "(Documentation/driver-api/md/raid5-ppl.rst); where that is metadata no file system can do without it"
)
_WRITE_HOLE = (
    "parity may not fit the data after a power cut, so that what the missing member held cannot be told: the write "
    "hole; md starts such an array only if forced (md(4), UNCLEAN SHUTDOWN)"
)


@dataclass(frozen=True, slots=True)
class FilePoint:
    """One crash point under a file system."""

    cut: str
    """As record_program.cut_of() reads it."""
    is_missing: bool
    """Whether a member was lost with the power."""
    problems: tuple[str, ...]
    """What is not as promised, each with file, offset in bytes, what was found and what is allowed; empty: all is."""
    is_fsck: bool
    """Whether the file system's own program looked at it too."""
    is_parity: bool
    """Whether copies and parity were read member by member."""
    explanation: str = ""
    """Why what is not as promised was to be expected all the same; empty: that is not known."""
    document: dict[str, Any] = field(repr=False, default_factory=dict)
    """All that the machine said."""


def file_point(document: dict[str, Any], array: FilesArray) -> FilePoint:
    """What the machine said of one cut of an array, judged."""
    problems = []
    if "dead" in document:
        problems.append(f"the array cannot be started: {document['dead']}")
    if "unmountable" in document:
        problems.append(f"the file system cannot be mounted: {document['unmountable']}")
    if "stuck" in document:
        problems.append(f"the file system cannot be unmounted: {document['stuck']}")
    for name, offset, verdict, found, allowed in document.get("bad", ()):
        problems.append(f"{name} at byte {offset}: {verdict}, found {found}, allowed {allowed}")
    if document.get("fsck"):
        problems.append(f"fsck found damage: {document['fsck_said'].strip()}")
    if rows := document.get("wrong_rows"):
        problems.append(
            f"{len(rows)} rows of the members do not fit each other when md is idle, the first is {rows[0]}"
        )
    problems += [f"the kernel said: {line}" for line in document.get("kernel", ())]
    is_missing = document["cut"].count(":") >= 3
    explanation = array.known_fault
    if is_missing and not array.survives_missing:
        explanation = _WRITE_HOLE
    if array.is_arbitrary and document.get("lost_under_way"):
        explanation = _ARBITRARY
    looks = ("fsck" in document, "wrong_rows" in document)
    return FilePoint(document["cut"], is_missing, tuple(problems), *looks, explanation if problems else "", document)


@dataclass
class PointsTotal:
    """What many points came to."""

    points: int = 0
    missing: int = 0
    fscked: int = 0
    compared: int = 0
    explained: list[FilePoint] = field(default_factory=list)
    """Not as promised, and it is known why."""
    problems: list[FilePoint] = field(default_factory=list)
    """Not as promised, and nobody knows why."""
    verdicts: Counter[str] = field(default_factory=Counter)
    """Of blocks of files."""
    more: dict[str, list[int]] = field(default_factory=dict)
    """What is more than promised -> how often it was kept, and how often not."""

    def add(self, points: Iterable[FilePoint]) -> PointsTotal:
        """Count them too."""
        for point in points:
            self.points += 1
            self.missing += point.is_missing
            self.fscked += point.is_fsck
            self.compared += point.is_parity
            if point.problems:
                (self.explained if point.explanation else self.problems).append(point)
            self.verdicts.update(point.document.get("verdicts", {}))
            for word, (kept, not_kept) in point.document.get("more", {}).items():
                each = self.more.setdefault(word, [0, 0])
                each[0] += kept
                each[1] += not_kept
        return self
