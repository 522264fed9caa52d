"""Files not shipped with raidlab: their origin, and their permissions, reported before anything in them runs."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from lab.gates.text import shortened, visible

_PACKAGE = Path(__file__).resolve().parents[1]


class FileKind(StrEnum):
    """The content of a TOML file."""

    DRILL = "drill"
    LESSON = "lesson"
    EXPERIMENT = "experiment"
    SWEEP = "sweep"
    WORKLOAD = "workload"
    FLEET = "fleet"


_EMBEDDED_ONLY = (
    "as root, in the embedded machine only, where {they} can read the system's files and write the disks of this lab"
)
_MAY = {
    FileKind.DRILL: f"runs {{lines}} {_EMBEDDED_ONLY}",
    FileKind.LESSON: f"runs {{lines}} {_EMBEDDED_ONLY}; the rest of it works on arrays of this lab",
    FileKind.EXPERIMENT: "makes arrays and runs fio or dd, as root, on disks that are blanked for it",
    FileKind.SWEEP: "makes arrays and runs fio or dd, as root, on disks that are blanked for it",
    FileKind.WORKLOAD: "runs fio or dd, as root, on the array or disk that is named for it",
    FileKind.FLEET: "holds numbers for a calculation; nothing of it runs",
}


def is_foreign(path: Path) -> bool:
    """Whether a file is not shipped with raidlab."""
    return _PACKAGE not in path.resolve().parents


def foreign_note(path: Path, kind: FileKind, lines: Sequence[str] = ()) -> str:
    """One sentence on the permissions of a file; empty for a shipped one. ``lines`` are its shell lines."""
    if not is_foreign(path):
        return ""
    count = len(foreign_lines(lines))
    number = f"{count or 'no'} shell line{'' if count == 1 else 's'}"
    may = _MAY[kind].format(lines=number, they="it" if count == 1 else "they")
    return f"'{shortened(visible(str(path)), 80)}' does not come with raidlab: this {kind} {may}"


def foreign_lines(lines: Sequence[str]) -> list[str]:
    """All shell lines of a file, in full, for the user to read before they run."""
    return [visible(line.rstrip()) for text in lines for line in text.strip().splitlines()]
