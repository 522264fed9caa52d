"""A drill that somebody works at, kept in the folder of the lab that it is played on.

::

    STATE/labs/<lab>/drill/case.json       which drill and seed, what was taken of hints, counted and committed
    STATE/labs/<lab>/drill/commands.jsonl  what was typed, one command a line
    STATE/labs/<lab>/drill/oracle-*.jsonl  the oracle's ledger of the files
    STATE/labs/<lab>/drill/disks/          the disks as they were when the drill began, where they are files
    STATE/drills/<id>/<time>.json          an ended drill with its verdict

Whatever ends a program, the next one finds the drill as it was.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from lab.drills.pictures import MemberPicture
from lab.drills.schema import ReadyDrill, find_drill, read_drill, ready
from lab.errors import DrillError, LabError, ResultError
from lab.gates.decoding import decode_json
from lab.gates.files import read_plain
from lab.gates.names import checked_name
from lab.gates.own import read_own_json
from lab.host.clock import utc_second_text
from lab.host.files import storage_error, write_all, write_file
from lab.machine import Host
from lab.units import MIB

FORMAT_VERSION = 1
CHANGED_FILE = "changed"
_MOST_BYTES = 16 * MIB
_LONGEST_COMMAND = 2000


class CaseRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """case.json."""

    format_version: int = FORMAT_VERSION
    drill: str
    """Its id, or the path of its file."""
    drill_file: str = ""
    """lab.drills.schema.file_digest of its file when the drill began."""
    seed: str = ""
    target: str
    began_utc: str
    file_system_uuid: str
    blocks: int
    """Of 4 KiB, that the drill's files have."""
    before: dict[str, MemberPicture] = {}
    """Name of a disk -> its superblock when the drill began."""
    own_ranges: dict[str, list[list[int]]] = {}
    """Bytes [first, end) of each disk that the machine's own start changes, before anybody does anything."""
    hints: int = 0
    resets: int = 0
    open_seconds: float = 0.0
    """How long the lab was open in this drill."""
    touched_bytes: int = 0
    """Written to the disks themselves before ``commit``."""
    committed_utc: str = ""
    committed_seconds: float = 0.0


class DrillCommand(msgspec.Struct, frozen=True):
    """One line of commands.jsonl."""

    line: str
    seconds: float
    """Since the drill began, of the time that the lab was open."""


class DrillCase:
    """One drill in the folder of its lab. Each change is kept at once."""

    def __init__(self, folder: Path, record: CaseRecord, drill: ReadyDrill) -> None:
        self.folder, self.record, self.drill = folder, record, drill

    @classmethod
    def find(cls, lab_folder: Path) -> DrillCase | None:
        """The drill that is open in a lab; None if there is none. Raises DrillError for a damaged one."""
        try:
            return cls._read(lab_folder / "drill")
        except FileNotFoundError:
            return None
        except LabError as error:
            # Whatever has become of it, there is a way out.
            raise DrillError(error.message, hint="'raidlab drill leave' gives the drill up") from error

    @classmethod
    def _read(cls, folder: Path) -> DrillCase:
        record = read_own_json(folder / "case.json", CaseRecord, error=DrillError)
        if record.format_version != FORMAT_VERSION:
            raise DrillError(
                f"the drill in '{folder}' has format {record.format_version}, and this raidlab reads {FORMAT_VERSION}",
                hint="go on with the raidlab that began it",
            )
        path = find_drill(record.drill)
        return cls(folder, record, ready(read_drill(path), path, record.seed))

    @property
    def images(self) -> Path:
        """Where copies of disks are that are files of this computer."""
        return self.folder / "disks"

    @property
    def is_committed(self) -> bool:
        return bool(self.record.committed_utc)

    def change(self, **changes: object) -> None:
        """Keep other values. Raises ResultError."""
        self._read_again()
        record = msgspec.structs.replace(self.record, **changes)
        write_file(self.folder / "case.json", msgspec.json.format(msgspec.json.encode(record), indent=1))
        self.record = record

    def _read_again(self) -> None:
        """Another program may have noted a hint meanwhile."""
        with suppress(FileNotFoundError):
            self.record = read_own_json(self.folder / "case.json", CaseRecord, error=DrillError)

    def hint(self) -> tuple[int, str]:
        """The next hint and its number; the last stays the last."""
        self._read_again()
        number = min(len(self.drill.drill.hints), self.record.hints + 1)
        self.change(hints=number)
        return number, self.drill.drill.hints[number - 1]

    def add_command(self, line: str, seconds: float) -> None:
        """Keep what was typed. Raises ResultError."""
        text = line.strip()[:_LONGEST_COMMAND]
        if not text:
            return
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(self.folder / "commands.jsonl", flags, 0o600)
            try:
                write_all(descriptor, msgspec.json.encode(DrillCommand(text, round(seconds, 1))) + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error(f"a command cannot be kept in '{self.folder}'", error) from error

    def commands(self) -> tuple[DrillCommand, ...]:
        """All that was typed, in order; a line that was torn is left out."""
        try:
            data = read_plain(self.folder / "commands.jsonl", _MOST_BYTES, is_own=True)
        except FileNotFoundError:
            return ()
        found = []
        for line in data.splitlines():
            with suppress(msgspec.MsgspecError):
                found.append(decode_json(line, DrillCommand))
        return tuple(found)

    def forget(self) -> None:
        """Remove the drill from its lab; the disks stay as they are."""
        forget_drill(self.folder.parent)


def forget_drill(lab_folder: Path) -> bool:
    """Remove whatever drill is open in a lab, damaged or not; False if there is none."""
    case = lab_folder / "drill" / "case.json"
    is_there = case.exists()
    case.unlink(missing_ok=True)
    shutil.rmtree(case.parent, ignore_errors=True)
    return is_there


class EndedMistake(msgspec.Struct, frozen=True):
    """A mistake that was recognised."""

    id: str
    explain: str


class DrillOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An ended drill, as it is stored and handed in."""

    format_version: int = FORMAT_VERSION
    id: str
    """Of the outcome: the drill and when it was ended."""
    drill: str
    drill_file: str = ""
    """lab.drills.schema.file_digest of its file; CHANGED_FILE if it was another at the end than at the beginning."""
    title: str
    seed: str = ""
    target: str = ""
    kernel: str = ""
    mdadm: str = ""
    began_utc: str
    ended_utc: str
    verdict: str
    """A word of lab.drills.verdict.DrillVerdict."""
    saved_percent: float
    blocks: dict[str, int] = {}
    """The oracle's verdict -> blocks of 4 KiB."""
    touched_bytes: int
    """Written to the disks themselves before the student said commit."""
    was_committed: bool
    minutes: float
    """In which the lab was open."""
    hints: int
    resets: int
    commands: tuple[DrillCommand, ...] = ()
    mistakes: tuple[EndedMistake, ...] = ()
    missing: tuple[str, ...] = ()
    """What else was asked for and does not hold, in words."""
    array: str = ""
    """That has the data at the end; empty: none."""
    before: dict[str, MemberPicture] = {}
    after: dict[str, MemberPicture] = {}
    changed: dict[str, list[list[int]]] = {}
    """Bytes [first, end) of each disk that are not as they were when the drill began."""

    @property
    def is_sound(self) -> bool:
        """Whether it can be one that raidlab wrote: others are not told of."""
        spans = [span for ranges in self.changed.values() for span in ranges or [[]]]
        return 0 <= self.saved_percent <= 100 and all(len(span) == 2 and 0 <= span[0] < span[1] for span in spans)


class DrillStore:
    """Ended drills."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self.root = host.state.root / "drills"

    def keep(self, outcome: DrillOutcome) -> None:
        """Raises ResultError."""
        folder = self._host.state.make(self.root / checked_name(outcome.drill, "drill"), what="the folder for drills")
        write_file(folder / f"{outcome.id}.json", msgspec.json.format(msgspec.json.encode(outcome), indent=1))

    def new_id(self, drill: str) -> str:
        """An id that none has yet: the drill and the time."""
        first = f"{drill}-{utc_second_text(self._host.clock).replace('-', '').replace(':', '')}"
        names, number = {outcome.id for outcome in self.all()}, 1
        name = first
        while name in names:
            number += 1
            name = f"{first}-{number}"
        return name

    def all(self, drill: str = "") -> tuple[DrillOutcome, ...]:
        """Those that can be read, the oldest first."""
        return tuple(sorted(self._read(drill), key=lambda outcome: (outcome.ended_utc, outcome.id)))

    def newest(self, word: str = "") -> DrillOutcome:
        """The newest, of one drill or by its own id. Raises ResultError."""
        outcomes = self.all()
        found = [each for each in outcomes if each.id == word]
        if not found:
            path = find_drill(word) if word else None
            found = [each for each in outcomes if path is None or each.drill == path.stem]
        if not found:
            raise ResultError("no drill has been ended yet", hint="'raidlab drill list' shows them")
        return found[-1]

    def _read(self, drill: str) -> Iterator[DrillOutcome]:
        for path in sorted(self.root.glob(f"{drill or '*'}/*.json")):
            with suppress(LabError, OSError):
                outcome = read_own_json(path, DrillOutcome)
                if outcome.format_version == FORMAT_VERSION and outcome.id == path.stem and outcome.is_sound:
                    yield outcome


def best_of(outcomes: Sequence[DrillOutcome]) -> DrillOutcome | None:
    """The one that a student would show."""
    return max(outcomes, key=lambda each: (each.verdict == "saved", each.saved_percent, -each.minutes), default=None)
