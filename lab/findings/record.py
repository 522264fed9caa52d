"""Scripts that reproduce findings, the record of their runs, and the table of outcomes.

A script's second or third line is a comment such as ``# As root: NAME.sh MEMBER MEMBER SPARE``. The script is given one
blank disk for each word after its name, except for words in brackets. Its exit status is the outcome.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from lab.errors import SpecError
from lab.gates.decoding import FormatVersion, Name, SecondsOrZero, read_own_json
from lab.gates.files import read_text
from lab.host.files import write_file
from lab.machine import TargetKind, parse_target
from lab.tables import Table
from lab.units import KIB

FORMAT_VERSION = 1
MOST_LINE_CHARACTERS = 200
MOST_DISKS = 12
_MOST_SCRIPT_BYTES = 64 * KIB
_USAGE = re.compile(r"^# As root: .*?(?P<name>[\w.-]+\.sh)(?P<disks>( \[?[A-Z]+(\.\.\.)?\]?)+)", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*#(?!!).*\n", re.MULTILINE)
_HEADING = re.compile(r"(Linux|UML) \d+\.\d+")
_CELL = re.compile(r"\((?:findings/)?(\S+\.sh)\)|`(\S+\.sh)`")


class Outcome(StrEnum):
    """The outcome of one run of a script."""

    REPRODUCED = "reproduced"
    REFUTED = "refuted"
    UNTRIED = "cannot be tried"
    HUNG = "did not end"
    """The run was ended at its time limit."""
    LOST = "machine lost"
    """The machine's kernel crashed or stopped responding."""


VERDICTS = (Outcome.REPRODUCED, Outcome.REFUTED)
OF_STATUS = {0: Outcome.REPRODUCED, 1: Outcome.REFUTED}


@dataclass(frozen=True, slots=True)
class Script:
    """A script that tries to reproduce a finding on a machine."""

    name: str
    text: str
    disks: int

    @property
    def digest(self) -> str:
        """SHA-256 digest of the script without its comments, and of the number of disks that it needs.

        Rewording a comment does not require new runs. Every line that begins with ``#`` counts as a comment, even in a
        here-document.
        """
        return hashlib.sha256(f"{self.disks}\n{_COMMENT.sub('', self.text)}".encode()).hexdigest()


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a script."""

    outcome: Outcome
    said: str
    """The last line that the script printed, or the reason why the script did not end."""
    seconds: SecondsOrZero
    """Duration by the machine's clock."""
    starts_read_only: bool
    """Whether arrays were read-auto after they were assembled (md_mod's parameter start_ro)."""
    has_udev: bool
    """Whether udev's daemon was running."""


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """The runs of one script on one machine."""

    script: Name
    digest: str
    target: str
    kernel: str
    """The release that the machine's kernel reports."""
    mdadm: str
    """The version that the machine's mdadm prints."""
    cpus: int
    runs: tuple[Run, ...] = ()

    @property
    def mdadm_version(self) -> str:
        found = re.search(r"v?(\d+\.\d+)", self.mdadm)
        return found[1] if found else self.mdadm

    @property
    def column(self) -> str:
        """The table column of this cell: its kernel's series, such as ``Linux 6.12`` or, if embedded, ``UML 6.1``."""
        release = re.match(r"\d+\.\d+", self.kernel)
        kind = "UML" if parse_target(self.target).kind is TargetKind.UML else "Linux"
        return f"{kind} {release[0] if release else self.kernel}"


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All cells that were measured."""

    cells: tuple[Cell, ...] = ()
    format_version: FormatVersion = FORMAT_VERSION

    def cell(self, script: Script, target: str) -> Cell | None:
        """Return the runs of this version of the script on this target, or None if there are none."""
        same = (cell for cell in self.cells if (cell.script, cell.target) == (script.name, target))
        return next((cell for cell in same if cell.digest == script.digest), None)

    def with_cell(self, new: Cell) -> Record:
        """Return the record with this cell, which replaces any earlier cell for the same script and target."""
        others = [cell for cell in self.cells if (cell.script, cell.target) != (new.script, new.target)]
        return Record(cells=tuple(sorted([*others, new], key=lambda cell: (cell.script, cell.target))))


def read_script(path: Path) -> Script:
    """Read a script. Raises SpecError if its comment does not say which disks it needs."""
    text = read_text(path, _MOST_SCRIPT_BYTES)
    usage = _USAGE.search(text)
    disks = [word for word in usage["disks"].split() if not word.startswith("[")] if usage else []
    if not 0 < len(disks) <= MOST_DISKS:
        raise SpecError(
            f"'{path}' does not say which disks it needs",
            hint=f"add a comment to it: # As root: {path.name} MEMBER MEMBER   (1 word per disk, at most {MOST_DISKS})",
        )
    return Script(path.name, text, len(disks))


def read_record(path: Path) -> Record:
    """Read a record. Return an empty one if the file does not exist. Raises SpecError if the file is not a record."""
    if not os.path.lexists(path):
        return Record()
    found = read_own_json(path, Record)
    if found.format_version != FORMAT_VERSION:
        raise SpecError(
            f"'{path}' has format {found.format_version}, but this raidlab reads {FORMAT_VERSION}",
            hint="give another file, or use the raidlab version that wrote it",
        )
    return found


def write_record(path: Path, record: Record) -> None:
    """Write the record to durable storage."""
    write_file(path, msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


def words_of(cells: Sequence[Cell]) -> str:
    """Describe the outcomes of one script on one kernel. mdadm versions with the same outcomes share an entry."""
    groups: dict[str, list[Cell]] = {}
    for cell in sorted(cells, key=lambda cell: cell.mdadm_version):
        kinds = {run.outcome for run in cell.runs}
        reasons = {run.said for run in cell.runs if run.outcome is Outcome.UNTRIED}
        groups.setdefault(repr((sorted(kinds), sorted(reasons))), []).append(cell)
    texts = []
    for alike in groups.values():
        runs = [run for cell in alike for run in cell.runs]
        versions = ", ".join(cell.mdadm_version for cell in alike)
        texts.append(f"mdadm {versions}: {_counted(runs)}")
    return "; ".join(texts) or "–"


def _counted(runs: Sequence[Run]) -> str:
    counts = Counter(run.outcome for run in runs)
    words = [f"{outcome} {count} of {len(runs)}" for outcome, count in counts.most_common()]
    reason = next((run.said for run in runs if run.outcome is Outcome.UNTRIED), "")
    return ", ".join(words) + (f" ({reason})" if reason else "")


def record_table(record: Record) -> Table:
    """Return a table with one row for each script and one column for each kernel."""
    cells = _by_column(record)
    columns = list(dict.fromkeys(column for _, column in cells))
    rows = [
        (script, *(words_of(cells.get((script, column), [])) for column in columns))
        for script in dict.fromkeys(script for script, _ in cells)
    ]
    return Table.listing(("script", *columns), rows)


def with_outcomes(page: str, record: Record) -> str:
    """Fill in the tables of a Markdown page that have rows for scripts and columns such as ``Linux 6.1``."""
    return "\n".join(_filled(page.split("\n"), _by_column(record)))


def _by_column(record: Record) -> Mapping[tuple[str, str], list[Cell]]:
    found: dict[tuple[str, str], list[Cell]] = {}
    for cell in record.cells:
        found.setdefault((cell.script, cell.column), []).append(cell)
    return found


def _filled(lines: Sequence[str], cells: Mapping[tuple[str, str], list[Cell]]) -> Iterator[str]:
    columns: list[str] = []
    for line in lines:
        fields = line.split("|")
        headings = [_HEADING.fullmatch(each.strip()) for each in fields]
        script = _CELL.search(line)
        if not line.startswith("|"):
            columns = []
        elif any(headings):
            columns = [found[0] if found else "" for found in headings]
        elif script and len(fields) == len(columns):
            name = script[1] or script[2]
            yield "|".join(
                f" {words_of(cells.get((name, column), []))} " if column else field
                for field, column in zip(fields, columns, strict=True)
            )
            continue
        yield line
