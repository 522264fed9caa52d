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

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from lab.checks.pictures import MemberPicture
from lab.drills.exam import NO_HINTS, ExamEnd, ExamTerms
from lab.drills.schema import ReadyDrill, find_drill, read_drill, ready
from lab.errors import DrillError, LabError, ResultError
from lab.gates.numbers import FormatVersion
from lab.gates.own import read_own_json
from lab.host.files import write_file
from lab.machine import Host
from lab.store.files import RecordFiles
from lab.store.journal import Journal
from lab.store.runs import stem

FORMAT_VERSION = 1
OUTCOME_VERSION = 2
"""Of ended drills. 1 did not know how much could still be had: its 'lost' may mean that it was only not recovered."""
CHANGED_FILE = "changed"
_LONGEST_COMMAND = 2000


class CaseRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """case.json."""

    format_version: FormatVersion = FORMAT_VERSION
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
    exam: ExamTerms | None = None
    """None: practice."""


class DrillCommand(msgspec.Struct, frozen=True):
    """One line of commands.jsonl."""

    line: str
    seconds: float
    """Since the drill began, of the time that the lab was open."""


class DrillCase:
    """One drill in the folder of its lab. Each change is kept at once."""

    def __init__(self, folder: Path, record: CaseRecord, drill: ReadyDrill) -> None:
        self.folder, self.record, self.drill = folder, record, drill
        self._commands = Journal[DrillCommand](
            folder / "commands.jsonl", DrillCommand, skips_damaged=True, is_durable=False
        )

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
        if self.record.exam:
            raise DrillError(NO_HINTS, hint="'raidlab drill debrief' ends it, and its page says what an expert does")
        number = min(len(self.drill.drill.hints), self.record.hints + 1)
        self.change(hints=number)
        return number, self.drill.drill.hints[number - 1]

    def add_command(self, line: str, seconds: float) -> None:
        """Keep what was typed. Raises ResultError."""
        text = line.strip()[:_LONGEST_COMMAND]
        if not text:
            return
        self._commands.append(DrillCommand(text, round(seconds, 1)))

    def commands(self) -> tuple[DrillCommand, ...]:
        """All that was typed, in order; a line that was torn is left out."""
        return tuple(self._commands.read())

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

    format_version: FormatVersion = 1
    """What a file is of that does not say: the first format left its number out."""
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
    kept_percent: float | None = None
    """Of the data, what can still be had from the disks, saved or not; None: not known."""
    gone_names: int = 0
    """Blocks of the file system's own that were destroyed: of files there only the content can be had."""
    changed_bytes: int = 0
    """Of the disks, that differ from what they were, beyond what the machine's own start changes."""
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
    sizes: dict[str, int] = {}
    """Bytes of each disk."""
    exam: ExamEnd | None = None
    """None: practice."""
    begun_percent: float | None = None
    """Of the data, what could still be had when the drill began; None: not known."""

    @property
    def is_sound(self) -> bool:
        """Whether it can be one that raidlab wrote: others are not told of."""
        spans = [span for ranges in self.changed.values() for span in ranges or [[]]]
        percents = (self.saved_percent, self.kept_percent or 0.0)
        return all(0 <= each <= 100 for each in percents) and all(
            len(span) == 2 and 0 <= span[0] < span[1] for span in spans
        )


class DrillStore:
    """Ended drills."""

    def __init__(self, host: Host) -> None:
        self.root = host.state.root / "drills"
        self._files = RecordFiles(self.root, "drill", DrillOutcome, state_root=host.state.root)
        self._clock = host.clock

    def keep(self, drill: str, make: Callable[[str], DrillOutcome]) -> DrillOutcome:
        """Store the outcome that ``make`` makes of its id, the drill and the time. Raises ResultError, LabError."""
        return self._files.add(f"{drill}-{stem(self._clock.utc_now())}", make, folder=drill)

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
        for outcome_id, outcome in self._files.read(f"{drill or '*'}/*"):
            if 1 <= outcome.format_version <= OUTCOME_VERSION and outcome.id == outcome_id and outcome.is_sound:
                yield outcome


def best_of(outcomes: Sequence[DrillOutcome]) -> DrillOutcome | None:
    """The one that a student would show."""
    return max(outcomes, key=lambda each: (each.verdict == "saved", each.saved_percent, -each.minutes), default=None)
