"""The format of a drill file, and a drill for a student's seed.

A drill is one TOML file: the commands that make the disaster, the symptom as an administrator would receive it, graded
hints, the goal, common mistakes, and right and wrong ways that the proof carries out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
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
"""The parts of a drill that may have placeholders for values of the seed."""


class DataStep(StrEnum):
    """What the oracle does with the drill's files while the disaster is made."""

    BEGIN = "begin"
    """Make the file system on ``on``, mount it, and write the first files."""
    MORE = "more"
    """Do ``operations`` further operations: write, replace, rename and remove files. Then sync."""
    REST = "rest"
    """Read all files back, and unmount the file system."""


class DrillStep(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One step: exactly one of ``run``, ``data`` and ``commit``."""

    run: str = ""
    """Lines for bash, as root; those of a disaster must succeed. ``$disk01`` is a disk, ``$level`` a value of the seed.
    """
    data: DataStep | None = None
    on: str = "/dev/md0"
    """The device for ``data``."""
    operations: int = 0
    next_chunk: str = ""
    """For ``rest``: chunk size in KiB after a later reshape; empty: there is none."""
    when: str = ""
    """The time on the machine's clock from here on (``lab.drills.desk``), such as ``spring``; empty: unchanged."""
    commit: bool = False
    """The student's statement that the disks themselves may be written from now on."""

    def __post_init__(self) -> None:
        if bool(self.run.strip()) + (self.data is not None) + self.commit != 1:
            raise SpecError(
                "a step must have exactly one of the keys run, data, commit", hint="split it into several steps"
            )


class DrillGoal(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Conditions under which the data count as saved."""

    lost_percent: float = 0.0
    """Percentage of all 4 KiB blocks of the data that cannot be saved; a greater loss is a failure."""
    check: tuple[Arguments, ...] = ()
    """Checks that the array with the data must pass, whatever its name (``lab.checks``)."""
    is_consistent: bool = False
    """A scrub of the array must find no mismatches."""
    name: str = ""
    """Array name in the superblocks of its members and of no other disk, such as ``server:data``; empty: any."""
    keep: str = ""
    """``disk01,disk02``: disks of other arrays, which must remain members of those."""


class DrillMistake(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A common mistake, the checks that recognise it in the final state, and an explanation."""

    id: str
    when: tuple[Arguments, ...]
    """All of these checks hold after the mistake."""
    explain: str


class DrillWay(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A way through the drill that the proof carries out."""

    id: str
    title: str
    steps: tuple[DrillStep, ...]
    mistake: str = ""
    """The mistake that must be recognised, for a wrong way."""


class Drill(Exercise, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One drill, as in its file."""

    needs_kernel: NeededKernel | None = None
    """As ``needs_mdadm``."""
    file_system: str = "ext4"
    names: int = 24
    """Maximum number of files in each folder of the file system."""
    symptom: str
    """Markdown: what the administrator reads and sees."""
    setup: tuple[DrillStep, ...]
    """Steps that make the disaster on blank disks. At the end no array is running."""
    arrive: str = ""
    """Lines for bash that the machine runs at every start. Empty: none."""
    hints: tuple[str, ...]
    expert: str
    """Markdown, shown afterwards: the solution of an expert, with reasons."""
    sources: tuple[str, ...] = ()
    """Reports of this problem, or its documentation."""
    goal: DrillGoal = DrillGoal()
    mistakes: tuple[DrillMistake, ...] = ()
    right: tuple[DrillWay, ...]
    wrong: tuple[DrillWay, ...]


class EndedMistake(msgspec.Struct, frozen=True):
    """A mistake that can be recognised, as an ended drill stores it."""

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
    """The drill's own mistakes, then those of every drill, and the checks that all hold after them."""

    @property
    def id(self) -> str:
        return self.drill.id

    @property
    def disk_names(self) -> tuple[str, ...]:
        return tuple(lab_disks(self.drill.disks))


def ready(drill: Drill, path: Path, seed: str = "") -> ReadyDrill:
    """The drill for a student's seed. Raises SpecError for an invalid seed or an unknown placeholder."""
    if len(seed) > _LONGEST_SEED or not seed.isprintable() or seed != seed.strip():
        raise SpecError(
            f"'{visible(seed[:40])}' is not a valid seed",
            hint=f"use one or more words, at most {_LONGEST_SEED} characters in all",
        )
    values = draw(drill, seed)
    written = msgspec.to_builtins(drill)
    filled = convert(written | fill_tree({name: written[name] for name in _FILLED}, values), Drill)
    checks = tuple(make_check(arguments, where=f"drill {drill.id}, goal") for arguments in filled.goal.check)
    mistakes = tuple(
        (
            EndedMistake(mistake.id, mistake.explain.strip()),
            tuple(
                make_check(arguments, where=f"drill {drill.id}, mistake {mistake.id}", in_drill=True)
                for arguments in mistake.when
            ),
        )
        for mistake in (*filled.mistakes, *common_mistakes())
    )
    return ReadyDrill(filled, path, seed, values, checks, mistakes)


def read_drill(path: Path) -> Drill:
    """Read one file, and check it as far as possible without a lab. Raises SpecError that lists every problem."""
    drill = read_toml(path, Drill)
    refuse_problems("drill", path, drill_problems(drill, path.stem))
    return drill


def shell_lines(drill: Drill) -> tuple[str, ...]:
    """The lines that the drill runs as root when it is made and at every start of the machine."""
    return tuple(text for text in (*(step.run for step in drill.setup), drill.arrive) if text.strip())


def foreign_drill(path: Path) -> str:
    """What a drill that does not come with raidlab may do (lab.gates.files). Raises SpecError if it is not a drill."""
    return foreign_note(path, FileKind.DRILL, shell_lines(read_drill(path)))


def file_digest(path: Path) -> str:
    """Short digest of a drill's file; empty if it cannot be read. Two files may have the same id."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()[:_DIGEST_LETTERS]
    except OSError:
        return ""


def drill_problems(drill: Drill, stem: str) -> list[str]:
    """The problems of a drill, each with its remedy."""
    problems = [*head_problems(drill, stem, FORMAT_VERSIONS)]
    if len(drill.hints) < HINTS:
        problems.append(
            f"it has {counted(len(drill.hints), 'hint')}: "
            f"write {HINTS} or more, each more specific than the previous one"
        )
    if len(drill.right) < LEAST_RIGHT:
        problems.append(f"it has {counted(len(drill.right), 'right way')}: write {LEAST_RIGHT} that differ")
    if len(drill.wrong) < LEAST_WRONG:
        problems.append(f"it has {counted(len(drill.wrong), 'wrong way')}: write {LEAST_WRONG} that people really take")
    ways = [way.id for way in (*drill.right, *drill.wrong)]
    problems += [f"two ways are called '{name}'" for name in sorted({each for each in ways if ways.count(each) > 1})]
    known = {mistake.id for mistake in (*drill.mistakes, *common_mistakes())}
    problems += [
        f"wrong way {way.id}: there is no mistake '{way.mistake}'; known: {', '.join(sorted(known))}"
        for way in drill.wrong
        if way.mistake not in known
    ]
    problems += [f"right way {way.id} names a mistake: leave it out" for way in drill.right if way.mistake]
    return [*problems, *seed_problems(lambda seed: ready(drill, Path(stem), seed))]


class _MistakeList(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    format_version: FormatVersion
    mistakes: tuple[DrillMistake, ...]


@cache
def common_mistakes() -> tuple[DrillMistake, ...]:
    """The mistakes that apply to every drill; a drill's own come first."""
    return read_toml(Path(__file__).with_name("mistakes.toml"), _MistakeList).mistakes


@cache
def catalogue() -> dict[str, Path]:
    """Id -> file of the drills that come with raidlab, in order."""
    return {path.stem: path for path in sorted(CATALOGUE.glob("*.toml"))}


def find_drill(word: str) -> Path:
    """The file of a drill by its id, number, unique part of the id, or path. Raises SpecError."""
    if is_path(word):
        return Path(word)
    known = catalogue()
    return known[find_id("drill", word, known)]


def find_playable(word: str, target: Target) -> Path:
    """Like ``find_drill``, for a drill that may run on this machine. Raises SpecError, DrillError."""
    path = find_drill(word)
    if path not in catalogue().values() and not target.is_embedded:
        raise DrillError(
            f"'{path}' runs its own commands as root, so it can run only on a machine that raidlab starts",
            hint="use --on uml: or --on qemu:",
        )
    return path
