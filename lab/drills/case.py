"""Drills in progress, which are stored in the folder of the lab on which they run, and drills that have ended.

::

    STATE/labs/<lab>/drill/case.json       drill and seed, hints taken, counters, commit
    STATE/labs/<lab>/drill/commands.jsonl  the typed commands, one per line
    STATE/labs/<lab>/drill/oracle-*.jsonl  the oracle's ledger of the files
    STATE/labs/<lab>/drill/disks/          copies of the disks when the drill began, if they are files
    STATE/drills/<id>/<time>.json          a finished drill with its verdict
    STATE/drills/exams.jsonl               every attempt at an exam, one per line, stored once its disaster exists

Every change is stored immediately, so the next program finds the drill as it was, however the previous program ended.

An exam is a drill without hints, with a time limit by the clock and numbered attempts, of which the first counts.
Another attempt must be requested explicitly, and its outcome records its number. If a student deletes the state folder,
the new folder has a different signing key, and ``raidlab class`` reports this.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated

import msgspec

from lab.checks.state import MemberPicture
from lab.drills.schema import Drill, EndedMistake, ReadyDrill, catalogue, find_drill, read_drill, ready
from lab.errors import DrillError, LabError, ResultError
from lab.gates.decoding import FormatVersion
from lab.host.clock import utc_second_text
from lab.lessons.course import number_of
from lab.machine import Host
from lab.store import Journal, RecordFile, RecordFiles, stem
from lab.units import MIB, counted

MOST_MINUTES = 24 * 60
_MOST_BYTES = MIB


class ExamTerms(msgspec.Struct, frozen=True, kw_only=True):
    """The terms of an exam that has begun."""

    minutes: Annotated[float, msgspec.Meta(gt=0, le=MOST_MINUTES)]
    attempt: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1
    first_utc: str
    """When the first attempt at this drill began."""


class ExamEnd(ExamTerms, frozen=True, kw_only=True):
    """The terms of an exam that has ended, and by how much it overran."""

    over_minutes: Annotated[float, msgspec.Meta(ge=0, le=10_000_000)] = 0.0
    """How long after its time limit the exam ended, by the clock; 0 if it ended in time."""


class _Begun(msgspec.Struct, frozen=True, kw_only=True):
    drill: str
    seed: str = ""
    minutes: float
    began_utc: str


def require_attempt(host: Host, drill: str, *, minutes: float, again: bool) -> None:
    """Check that an exam may begin now.

    Raises DrillError if the time limit is invalid, or, unless ``again`` is true, if there has been an attempt before.
    """
    if not 0 < minutes <= MOST_MINUTES:
        hint = f"use a time limit of 1 to {MOST_MINUTES} minutes"
        raise DrillError(f"an exam of {minutes:g} minutes is not possible", hint=hint)
    before = _before(host, drill)
    if before and not again:
        raise DrillError(
            f"an exam in {drill} began at {before[0].began_utc}, and only the first attempt counts",
            hint="start the drill without --exam to practise, or add --again for another, numbered attempt",
        )


def begin_exam(host: Host, drill: str, *, seed: str, minutes: float, again: bool) -> ExamTerms:
    """Record an attempt, and return its terms.

    Raises the same errors as ``require_attempt``, and ResultError if the attempt cannot be stored.
    """
    require_attempt(host, drill, minutes=minutes, again=again)
    before, now = _before(host, drill), utc_second_text(host.clock)
    host.state.make(host.state.root / "drills", what="the folder for drills")
    _attempts(host).append(_Begun(drill=drill, seed=seed, minutes=minutes, began_utc=now))
    first = before[0].began_utc if before else now
    return ExamTerms(minutes=minutes, attempt=len(before) + 1, first_utc=first)


def _attempts(host: Host) -> Journal[_Begun]:
    path = host.state.root / "drills" / "exams.jsonl"
    return Journal(path, _Begun, skips_damaged=True, most_bytes=_MOST_BYTES)


def _before(host: Host, drill: str) -> list[_Begun]:
    return [each for each in _attempts(host).read() if each.drill == drill]


def ended_words(exam: ExamEnd) -> str:
    """Describe a finished exam: ``exam of 45 minutes, attempt 2 (the first began at …), ended 3.0 minutes late``."""
    parts = [f"exam of {counted(round(exam.minutes), 'minute')}, attempt {exam.attempt}"]
    if exam.attempt > 1:
        parts[0] += f" (the first began at {exam.first_utc})"
    if exam.over_minutes:
        parts.append(f"ended {exam.over_minutes:.1f} minutes late")
    return ", ".join(parts)


FORMAT_VERSION = 1
OUTCOME_VERSION = 2
"""Format of finished drills. Format 1 did not record how much data could still be recovered, so its verdict 'lost' may
mean only that the data had not been recovered.
"""
CHANGED_FILE = "changed"
_LONGEST_COMMAND = 2000


class CaseRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of case.json."""

    format_version: FormatVersion = FORMAT_VERSION
    drill: str
    """The drill's ``stored_name``."""
    drill_file: str = ""
    """``lab.drills.schema.file_digest`` of its file when the drill began."""
    seed: str = ""
    target: str
    began_utc: str
    file_system_uuid: str
    blocks: int
    """Number of 4 KiB blocks in the files of the drill."""
    before: dict[str, MemberPicture] = {}
    """Maps the name of each disk to its superblock when the drill began."""
    own_ranges: dict[str, list[list[int]]] = {}
    """Byte ranges [first, end) of each disk that change when the machine starts, before the student does anything."""
    hints: int = 0
    resets: int = 0
    open_seconds: float = 0.0
    """How long the lab was open during this drill."""
    touched_bytes: int = 0
    """Number of bytes written to the disks themselves before the commit."""
    committed_utc: str = ""
    committed_seconds: float = 0.0
    exam: ExamTerms | None = None
    """None for practice."""

    def minutes_left(self, now_utc: str) -> float:
        """Return how many minutes are left by this computer's clock. The number is negative once the time is up.

        The time for practice is infinite.
        """
        if self.exam is None:
            return math.inf
        passed = datetime.fromisoformat(now_utc) - datetime.fromisoformat(self.began_utc)
        return self.exam.minutes - passed.total_seconds() / 60

    def require_time(self, now_utc: str) -> None:
        """Raises DrillError if this is an exam and its time is up."""
        if self.minutes_left(now_utc) < 0:
            raise DrillError("the time for this exam is up", hint="end it with 'raidlab drill debrief --as-it-is'")

    def exam_end(self, now_utc: str) -> ExamEnd | None:
        """Return the terms of an exam with its overrun, as its outcome records them, or None for practice."""
        over = round(max(0.0, -self.minutes_left(now_utc)), 2)
        return ExamEnd(**msgspec.structs.asdict(self.exam), over_minutes=over) if self.exam else None

    def exam_words(self, now_utc: str) -> str:
        """Return the state of an exam as text, such as ``attempt 1, 12 of 45 minutes left``; empty for practice."""
        if self.exam is None:
            return ""
        left = self.minutes_left(now_utc)
        time = f"{left:.0f} of {self.exam.minutes:g} minutes left" if left >= 0 else "the time is up: 'debrief' ends it"
        return f"attempt {self.exam.attempt}, {time}"


class DrillCommand(msgspec.Struct, frozen=True):
    """One line of commands.jsonl."""

    line: str
    seconds: float
    """Time since the drill began, counted only while the lab was open."""


class DrillCase:
    """One drill in the folder of its lab. Every change is stored immediately."""

    def __init__(self, folder: Path, record: CaseRecord, drill: ReadyDrill) -> None:
        self.folder, self.record, self.drill = folder, record, drill
        self._file = _file_in(folder)
        self._commands = Journal[DrillCommand](
            folder / "commands.jsonl", DrillCommand, skips_damaged=True, is_durable=False
        )

    @classmethod
    def find(cls, lab_folder: Path) -> DrillCase | None:
        """Return the open drill of a lab, or None if there is none. Raises DrillError if its record is damaged."""
        folder, record = lab_folder / "drill", None
        try:
            record = _file_in(folder).read()
            if record is None:
                return None
            if (found := record.format_version) != FORMAT_VERSION:
                raise DrillError(f"the drill in '{folder}' has format {found}, but this raidlab reads {FORMAT_VERSION}")
            path = find_drill(record.drill)
            return cls(folder, record, ready(read_drill(path), path, record.seed))
        except LabError as error:
            # Even a damaged drill can be given up, but not an exam whose file was moved away.
            hint = "give the drill up with 'raidlab drill leave'"
            if record is not None and record.exam:
                hint = "this exam needs the drill's file and the version of raidlab with which it began"
            raise DrillError(error.message, hint=hint) from error

    @classmethod
    def require(cls, lab_folder: Path) -> DrillCase:
        """Return the open drill of a lab. Raises DrillError if there is none, or if its record is damaged."""
        case = cls.find(lab_folder)
        if case is None:
            raise DrillError("no drill is open in this lab", hint="'raidlab drill start 1' begins one")
        return case

    @property
    def images(self) -> Path:
        return self.folder / "disks"

    @property
    def is_committed(self) -> bool:
        return bool(self.record.committed_utc)

    def change(self, **changes: object) -> None:
        # Another program may have stored a hint in the meantime.
        record = msgspec.structs.replace(self._file.read() or self.record, **changes)
        self._file.replace(record)
        self.record = record

    def hint(self) -> tuple[int, str]:
        """Take the next hint, or repeat the last one, and return its number and text. Raises DrillError in an exam."""
        self.record = self._file.read() or self.record
        if self.record.exam:
            hint = "end it with 'raidlab drill debrief'; the debriefing says what an expert would have done"
            raise DrillError("an exam has no hints", hint=hint)
        number = min(len(self.drill.drill.hints), self.record.hints + 1)
        self.change(hints=number)
        return number, self.drill.drill.hints[number - 1]

    def add_command(self, line: str, seconds: float) -> None:
        if text := line.strip()[:_LONGEST_COMMAND]:
            self._commands.append(DrillCommand(text, round(seconds, 1)))

    def commands(self) -> tuple[DrillCommand, ...]:
        return tuple(self._commands.read())


def require_no_exam(lab_folder: Path, *, besides: str = "") -> None:
    """Raises DrillError if an exam is open in this lab, unless its record cannot be read.

    Only another attempt at the same drill may replace an exam. ``besides`` is then the ``stored_name`` of that drill.
    """
    record, hint = None, "'raidlab drill debrief' ends it"
    with suppress(DrillError):
        record = _file_in(lab_folder / "drill").read()
    if record is not None and record.exam and record.drill != besides:
        raise DrillError(f"an exam in {Path(record.drill).stem} is open in this lab", hint=hint)


def stored_name(drill_id: str, path: Path) -> str:
    """Return the stored name of a drill: its id if it comes with raidlab, otherwise its path."""
    return drill_id if path.parent.name == "catalogue" else str(path.absolute())


def _file_in(folder: Path) -> RecordFile[CaseRecord]:
    return RecordFile(folder / "case.json", CaseRecord, DrillError, indent=1)


def forget_drill(lab_folder: Path) -> bool:
    """Remove the open drill of a lab, even if its record is damaged. Returns False if there is no open drill."""
    case = lab_folder / "drill" / "case.json"
    is_there = case.exists()
    case.unlink(missing_ok=True)
    shutil.rmtree(case.parent, ignore_errors=True)
    return is_there


class DrillOutcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A finished drill in the form in which it is stored and handed in."""

    format_version: FormatVersion = 1
    """A file without this key has format 1, which did not have the key."""
    id: str
    """Id of the outcome: the drill and the time of its end."""
    drill: str
    drill_file: str = ""
    """``lab.drills.schema.file_digest`` of its file; CHANGED_FILE if the file changed during the drill."""
    title: str
    seed: str = ""
    target: str = ""
    kernel: str = ""
    mdadm: str = ""
    began_utc: str
    ended_utc: str
    verdict: str
    """A value of ``lab.drills.verdict.DrillVerdict``."""
    saved_percent: float
    kept_percent: float | None = None
    """Percentage of the data that can still be recovered from the disks, whether saved or not; None if unknown."""
    gone_names: int = 0
    """Number of destroyed metadata blocks of the file system. Files named in them can be found only by content."""
    changed_bytes: int = 0
    """Number of bytes that have changed on the disks since the drill began, except by the start of the machine."""
    blocks: dict[str, int] = {}
    """Maps each verdict of the oracle to its number of 4 KiB blocks."""
    touched_bytes: int
    """Number of bytes written to the disks themselves before the commit."""
    was_committed: bool
    minutes: float
    """How long the lab was open during the drill."""
    hints: int
    resets: int
    commands: tuple[DrillCommand, ...] = ()
    mistakes: tuple[EndedMistake, ...] = ()
    missing: tuple[str, ...] = ()
    """Descriptions of the other requirements that are not met."""
    array: str = ""
    """The array that has the data at the end; empty if there is none."""
    before: dict[str, MemberPicture] = {}
    after: dict[str, MemberPicture] = {}
    changed: dict[str, list[list[int]]] = {}
    """Byte ranges [first, end) of each disk that have changed since the drill began."""
    sizes: dict[str, int] = {}
    """Maps the name of each disk to its size in bytes."""
    exam: ExamEnd | None = None
    """None for practice."""
    begun_percent: float | None = None
    """Percentage of the data that could still be recovered when the drill began; None if unknown."""

    @property
    def is_sound(self) -> bool:
        """Whether all percentages and ranges are valid. Outcomes with invalid values are ignored."""
        spans = [span for ranges in self.changed.values() for span in ranges or [[]]]
        percents = (self.saved_percent, self.kept_percent or 0.0, self.begun_percent or 0.0)
        return all(0 <= each <= 100 for each in percents) and all(
            len(span) == 2 and 0 <= span[0] < span[1] for span in spans
        )


class DrillStore:
    """The stored outcomes of finished drills."""

    def __init__(self, host: Host) -> None:
        self.root = host.state.root / "drills"
        self._files = RecordFiles(self.root, "drill", DrillOutcome, state_root=host.state.root)
        self._clock = host.clock

    def add(self, drill: str, make: Callable[[str], DrillOutcome]) -> DrillOutcome:
        """Store the outcome that ``make`` returns for a new id, which consists of the drill and the time.

        Raises ResultError or LabError.
        """
        return self._files.add(f"{drill}-{stem(self._clock.utc_now())}", make, folder=drill)

    def all(self, drill: str = "") -> tuple[DrillOutcome, ...]:
        """Return all readable outcomes, or only those of ``drill``, oldest first."""
        found = [
            outcome
            for outcome_id, outcome in self._files.read(f"{drill or '*'}/*")
            if 1 <= outcome.format_version <= OUTCOME_VERSION and outcome.id == outcome_id and outcome.is_sound
        ]
        return tuple(sorted(found, key=lambda outcome: (outcome.ended_utc, outcome.id)))

    def newest(self, word: str = "") -> DrillOutcome:
        """Return the newest outcome of any drill, or of the drill that ``word`` denotes, or the outcome with that id.

        Raises ResultError if there is none.
        """
        outcomes = self.all()
        found, path = [each for each in outcomes if each.id == word], None
        if not found:
            path = find_drill(word) if word else None
            found = [each for each in outcomes if path is None or each.drill == path.stem]
        if not found:
            what = f"drill {path.stem} has" if path else "no drill has"
            raise ResultError(
                f"{what} {'not ' if path else ''}been completed yet", hint="see 'raidlab drill list' for your results"
            )
        return found[-1]


def attempt_rank(verdict: str, saved_percent: float, minutes: float) -> tuple[bool, float, float]:
    """Return a key that sorts attempts from the worst to the best.

    Attempts with the verdict 'saved' are best, then those that saved the largest share, then the shortest.
    """
    return verdict == "saved", saved_percent, -minutes


@dataclass(frozen=True, slots=True)
class DrillLine:
    """One drill in the list of drills."""

    drill: Drill
    outcomes: tuple[DrillOutcome, ...]
    is_open: bool = False

    @property
    def id(self) -> str:
        return self.drill.id

    @property
    def number(self) -> str:
        """The drill's number, without leading zeros, such as ``5``."""
        return number_of(self.drill.id)

    @property
    def best(self) -> DrillOutcome | None:
        def rank(each: DrillOutcome) -> tuple[bool, float, float]:
            return attempt_rank(each.verdict, each.saved_percent, each.minutes)

        return max(self.outcomes, key=rank, default=None)

    @property
    def best_words(self) -> str:
        """The best verdict, such as ``partly lost, 62.5 %``; empty if the drill has not been tried."""
        return f"{self.best.verdict}, {self.best.saved_percent:g} %" if self.best else ""

    @property
    def is_saved(self) -> bool:
        return self.best is not None and self.best.verdict == "saved"

    @property
    def status(self) -> str:
        return f"{self.best_words} ({counted(len(self.outcomes), 'attempt')})" if self.best else "not tried yet"


def drill_lines(host: Host, open_id: str) -> tuple[DrillLine, ...]:
    """Return the drills that come with raidlab, with the student's results. ``open_id`` may be empty."""
    store = DrillStore(host)
    return tuple(
        DrillLine(ready(read_drill(path), path).drill, store.all(name), name == open_id)
        for name, path in catalogue().items()
    )
