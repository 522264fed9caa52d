"""The format of drill files, and drills with the values of a student's seed.

A drill is one TOML file. It contains the commands that create the disaster, the symptom as it would be reported to an
administrator, graded hints, the goal, common mistakes, and the right and wrong ways that the proof carries out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

import msgspec

from lab.checks.catalogue import make_check
from lab.checks.state import Check
from lab.errors import DrillError, SpecError
from lab.gates.decoding import FormatVersion, convert
from lab.gates.files import FileKind, foreign_note
from lab.gates.text import visible
from lab.lessons.course import (
    Arguments,
    Exercise,
    Value,
    draw,
    fill_tree,
    find_id,
    head_problems,
    is_path,
    lab_disks,
    refuse_problems,
    seed_problems,
)
from lab.machine import Target
from lab.session.session import NeededKernel
from lab.tomlfile import read_toml
from lab.units import counted

CATALOGUE = Path(__file__).with_name("catalogue")
FORMAT_VERSIONS = range(1, 2)
LEAST_RIGHT, LEAST_WRONG = 2, 3
HINTS = 3
_DIGEST_LETTERS = 16
_LONGEST_SEED = 100
_FILLED = ("symptom", "setup", "arrive", "hints", "expert", "goal", "mistakes", "right", "wrong")
"""The parts of a drill that may contain placeholders for values of the seed."""


class DataStep(StrEnum):
    """What the oracle does with the drill's files while the disaster is created."""

    BEGIN = "begin"
    """Make the file system on ``on``, mount it, and write the first files."""
    MORE = "more"
    """Do ``operations`` more operations, which write, replace, rename and remove files, and then sync."""
    REST = "rest"
    """Read all files back, and then unmount the file system."""


class DrillStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step, with exactly one of ``run``, ``data`` and ``commit``."""

    run: str = ""
    """Lines for bash, run as root, in which ``$disk01`` is a disk and ``$level`` is a value of the seed. The lines that
    create the disaster must succeed.
    """
    data: DataStep | None = None
    on: str = "/dev/md0"
    """The device that ``data`` uses."""
    operations: int = 0
    next_chunk: str = ""
    """For ``rest``, the chunk size in KiB after a later reshape; empty if there is none."""
    when: str = ""
    """The time on the machine's clock from here on (``lab.drills.desk``), such as ``spring``; empty for no change."""
    commit: bool = False
    """The student declares that from now on the disks themselves may be written to."""

    def __post_init__(self) -> None:
        if bool(self.run.strip()) + (self.data is not None) + self.commit != 1:
            hint = "split it into several steps"
            raise SpecError("a step must have exactly one of the keys run, data, commit", hint=hint)


class DrillGoal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conditions under which the data count as saved."""

    lost_percent: float = 0.0
    """Percentage of the data's 4 KiB blocks that cannot be saved. A greater loss is a failure."""
    check: tuple[Arguments, ...] = ()
    """Checks that the array with the data must pass, whatever its name (``lab.checks``)."""
    is_consistent: bool = False
    """A scrub of the array must find no mismatches."""
    name: str = ""
    """The name in the superblocks of the members and of no other disk, such as ``server:data``; empty for any."""
    keep: str = ""
    """Disks of other arrays, such as ``disk01,disk02``, which must remain members of those arrays."""


class DrillMistake(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A common mistake, the checks that recognise it in the final state, and an explanation."""

    id: str
    when: tuple[Arguments, ...]
    explain: str


class DrillWay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way through the drill that the proof carries out."""

    id: str
    title: str
    steps: tuple[DrillStep, ...]
    mistake: str = ""
    """The mistake that must be recognised after a wrong way; empty for a right way."""


class Drill(Exercise, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One drill, as its file describes it."""

    needs_kernel: NeededKernel | None = None
    """None for any kernel."""
    file_system: str = "ext4"
    names: int = 24
    """Maximum number of files in each folder of the file system."""
    symptom: str
    """What the administrator reads and sees, in Markdown."""
    setup: tuple[DrillStep, ...]
    """Steps that create the disaster on blank disks. At the end no array is running."""
    arrive: str = ""
    """Lines for bash that the machine runs at every start; may be empty."""
    hints: tuple[str, ...]
    expert: str
    """An expert's solution with its reasons, in Markdown. It is shown when the drill has ended."""
    sources: tuple[str, ...] = ()
    """Where people reported this problem, or where it is documented."""
    goal: DrillGoal = DrillGoal()
    mistakes: tuple[DrillMistake, ...] = ()
    right: tuple[DrillWay, ...]
    wrong: tuple[DrillWay, ...]


class EndedMistake(msgspec.Struct, frozen=True):
    """A mistake that can be recognised, in the form in which it is stored when a drill has ended."""

    id: str
    explain: str


@dataclass(frozen=True, slots=True)
class ReadyDrill:
    """A drill for one seed, with all placeholders filled in."""

    drill: Drill
    path: Path
    seed: str
    values: Mapping[str, Value]
    goal_checks: tuple[Check, ...]
    mistakes: tuple[tuple[EndedMistake, tuple[Check, ...]], ...]
    """The drill's own mistakes and then the common ones, each with the checks that all hold after it."""

    @property
    def id(self) -> str:
        return self.drill.id

    @property
    def disk_names(self) -> tuple[str, ...]:
        return tuple(lab_disks(self.drill.disks))


def ready(drill: Drill, path: Path, seed: str = "") -> ReadyDrill:
    """Return the drill for a student's seed. Raises SpecError if the seed is invalid or a placeholder is unknown."""
    if len(seed) > _LONGEST_SEED or not seed.isprintable() or seed != seed.strip():
        hint = f"use one or more words, at most {_LONGEST_SEED} characters in all"
        raise SpecError(f"'{visible(seed[:40])}' is not a valid seed", hint=hint)
    values = draw(drill, seed)
    written = msgspec.to_builtins(drill)
    filled = convert(written | fill_tree({name: written[name] for name in _FILLED}, values), Drill)
    checks = tuple(make_check(each, where=f"drill {drill.id}, goal") for each in filled.goal.check)
    mistakes = []
    for mistake in (*filled.mistakes, *common_mistakes()):
        where = f"drill {drill.id}, mistake {mistake.id}"
        when = tuple(make_check(each, where=where, in_drill=True) for each in mistake.when)
        mistakes.append((EndedMistake(mistake.id, mistake.explain.strip()), when))
    return ReadyDrill(filled, path, seed, values, checks, tuple(mistakes))


def read_drill(path: Path) -> Drill:
    """Read a drill file, and check it as far as possible without a lab. Raises a SpecError that lists every problem."""
    drill = read_toml(path, Drill)
    refuse_problems("drill", path, [*drill_problems(drill, path.stem)])
    return drill


def shell_lines(drill: Drill) -> tuple[str, ...]:
    """Return the lines that run as root when the drill is created and whenever the machine starts."""
    return tuple(text for text in (*(step.run for step in drill.setup), drill.arrive) if text.strip())


def foreign_drill(path: Path) -> str:
    """Describe what a drill that does not come with raidlab may do. Raises SpecError if the file is not a drill."""
    return foreign_note(path, FileKind.DRILL, shell_lines(read_drill(path)))


def file_digest(path: Path) -> str:
    """Return a short digest of a drill's file, or an empty string if it cannot be read.

    The digest distinguishes files with the same id.
    """
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGEST_LETTERS]
    except OSError:
        return ""


def drill_problems(drill: Drill, stem: str) -> Iterator[str]:
    """Yield the problems of a drill, each with its remedy."""
    yield from head_problems(drill, stem, FORMAT_VERSIONS)
    for written, what, least, more in (
        (drill.hints, "hint", HINTS, ", each more specific than the one before"),
        (drill.right, "right way", LEAST_RIGHT, " different ones"),
        (drill.wrong, "wrong way", LEAST_WRONG, " that people really take"),
    ):
        if len(written) < least:
            yield f"it has {counted(len(written), what)}: write at least {least}{more}"
    ways = [way.id for way in (*drill.right, *drill.wrong)]
    for name in sorted({each for each in ways if ways.count(each) > 1}):
        yield f"two ways have the id '{name}': give each way its own id"
    known = {mistake.id for mistake in (*drill.mistakes, *common_mistakes())}
    for way in drill.wrong:
        if way.mistake not in known:
            yield f"wrong way {way.id}: there is no mistake '{way.mistake}', but there are {', '.join(sorted(known))}"
    yield from (f"right way {way.id} has a mistake: remove that key" for way in drill.right if way.mistake)
    yield from seed_problems(lambda seed: ready(drill, Path(stem), seed))


class _MistakeList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format_version: FormatVersion
    mistakes: tuple[DrillMistake, ...]


@cache
def common_mistakes() -> tuple[DrillMistake, ...]:
    """Return the mistakes that can be made in every drill. They are checked after the drill's own."""
    return read_toml(Path(__file__).with_name("mistakes.toml"), _MistakeList).mistakes


@cache
def catalogue() -> dict[str, Path]:
    """Return the files of the drills that come with raidlab, by id and in order."""
    return {path.stem: path for path in sorted(CATALOGUE.glob("*.toml"))}


def find_drill(word: str) -> Path:
    """Return the file of the drill with this id, number, unique part of the id, or path. Raises SpecError."""
    if is_path(word):
        return Path(word)
    known = catalogue()
    return known[find_id("drill", word, known)]


def find_playable(word: str, target: Target) -> Path:
    """Find a drill as ``find_drill`` does, and check that it may run on this machine.

    Raises SpecError or DrillError.
    """
    path = find_drill(word)
    if path not in catalogue().values() and not target.is_embedded:
        raise DrillError(
            f"'{path}' runs its own commands as root, so it can run only on a machine that raidlab starts",
            hint="run it with --on uml: or --on qemu:",
        )
    return path
