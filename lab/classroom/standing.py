"""Statistics of a class's practice: saved data, mistakes and times in drills, and passed lessons.

A student is identified by a key, so several bundles with one key belong to one student. Work that several keys handed
in counts once and is reported.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from lab.classroom.folder import TABLES
from lab.drills.verdict import DrillVerdict
from lab.results.statistics import WANTED_COVERAGE, Estimate, estimate

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

HAVE_DATA = frozenset({DrillVerdict.SAVED, DrillVerdict.RISKED, DrillVerdict.UNFINISHED})
"""Verdicts with which all recoverable data exist at the end."""
DESTROYED = frozenset({DrillVerdict.PARTLY, DrillVerdict.LOST})
"""Verdicts with which recoverable data were destroyed."""


@dataclass(frozen=True, slots=True)
class DrillTry:
    """One ended drill in one bundle."""

    key: str
    file: str
    outcome: str
    digest: str
    drill: str
    drill_file: str
    """lab.drills.schema.file_digest; empty if the version of raidlab did not record it."""
    seed: str
    began_utc: str
    ended_utc: str
    verdict: str
    saved_percent: float
    minutes: float
    touched_bytes: int
    """Bytes written to the member disks before commit."""
    hints: int
    resets: int
    exam_attempt: int
    """0 for practice."""
    exam_over_minutes: float
    """Minutes beyond the time limit."""
    mistakes: tuple[str, ...]

    @property
    def what(self) -> str:
        """The id of the drill."""
        return self.drill

    @property
    def figures(self) -> tuple[object, ...]:
        """The values of the grading sheet, which are equal in unmodified copies of the same work."""
        counts = (self.minutes, self.hints, self.resets, self.touched_bytes, self.exam_attempt, self.exam_over_minutes)
        return (self.verdict, self.saved_percent, *counts, self.seed, self.drill_file)


@dataclass(frozen=True, slots=True)
class LessonTry:
    """The progress in one lesson in one bundle."""

    key: str
    file: str
    lesson: str
    digest: str
    seed: str
    is_passed: bool
    steps_done: int
    last_done_utc: str
    """When the last step was done; empty if none is done."""
    all_hints: tuple[str, ...]
    """Steps for which all hints were used."""
    by_lab: tuple[str, ...]
    """Steps that the lab carried out for the student."""

    @property
    def what(self) -> str:
        """The id of the lesson."""
        return self.lesson

    @property
    def figures(self) -> tuple[object, ...]:
        """The values of the grading sheet, which are equal in unmodified copies of the same work."""
        return (self.seed,)


@dataclass(frozen=True, slots=True)
class Share:
    """A share of a total, with a 95 % confidence interval."""

    count: int
    of: int
    low: float
    high: float

    @property
    def fraction(self) -> float:
        return self.count / self.of

    def text(self) -> str:
        """Such as ``12 of 40: 30 % [18–45]``."""
        return f"{self.count} of {self.of}: {self.fraction:.0%} [{self.low * 100:.0f}–{self.high * 100:.0f}]".replace(
            "%", " %"
        )


@dataclass(frozen=True, slots=True)
class TryStanding:
    """Statistics of one try of each student at one drill."""

    saved: Share
    """Tries with the verdict 'saved': nothing was written before commit, and the array is as required."""
    have_data: Share
    """Tries after which all recoverable data exist, even if they were at risk."""
    saved_percent: float
    """Median of the percentages of data saved."""
    wrote_first: int
    """Number of students who wrote to the member disks before commit."""
    minutes: Estimate
    all_minutes: tuple[float, ...]
    """Minutes of all students, in ascending order."""
    hints: float
    """Mean number of hints."""
    resets: float
    """Mean number of resets."""
    verdicts: Mapping[str, int]
    mistakes: Mapping[str, int]
    """Mistake -> number of students, in descending order."""


@dataclass(frozen=True, slots=True)
class DrillStanding:
    """Statistics of one drill over the class."""

    drill: str
    tries: int
    first: TryStanding
    """The first try of each student."""
    best: TryStanding
    """The best try of each student (``best_try``)."""
    mistakes: Mapping[str, int]
    """Mistake -> number of students who made it in any of their tries, in descending order."""


@dataclass(frozen=True, slots=True)
class LessonStanding:
    """Statistics of one lesson over the class."""

    lesson: str
    passed: Share
    all_hints: Mapping[str, int]
    """Step -> number of students who used all of its hints, in descending order."""
    by_lab: Mapping[str, int]
    """Step -> number of students for whom the lab carried it out."""


@dataclass(frozen=True, slots=True)
class CopiedWork:
    """Identical work in bundles of different keys."""

    what: str
    """The id of the drill, lesson or experiment; for a drill, possibly several tries."""
    files: tuple[str, ...]
    is_altered: bool
    """The figures differ between the bundles, so at least one was changed before it was signed."""


@dataclass(frozen=True, slots=True)
class SharedSeed:
    """A drill or lesson that several students did with the same seed, so that they have the same answers."""

    what: str
    seed: str
    """Empty without a seed, which gives everybody the same case."""
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClassPractice:
    """The practice of a class."""

    drills: tuple[DrillStanding, ...]
    lessons: tuple[LessonStanding, ...]
    copies: tuple[CopiedWork, ...]
    seeds: tuple[SharedSeed, ...]
    tries: tuple[DrillTry, ...]
    progress: tuple[LessonTry, ...]


Work = TypeVar("Work", DrillTry, LessonTry)


def practice_in(database: DuckDBPyConnection) -> ClassPractice:
    """The practice in the tables of ``lab.classroom.folder``."""
    tries = [DrillTry(*[*row[:-1], _parts(row[-1])]) for row in _rows(database, "outcomes")]
    progress = [LessonTry(*[*row[:-2], *map(_parts, row[-2:])]) for row in _rows(database, "lessons")]
    return ClassPractice(
        tuple(drill_standings(tries)),
        tuple(lesson_standings(progress)),
        (*_copies(tries), *_copies(progress)),
        (*_seeds(tries), *_seeds(progress)),
        tuple(tries),
        tuple(progress),
    )


def _rows(database: DuckDBPyConnection, table: str) -> list[Any]:
    columns = ", ".join(list(TABLES[table])[1:])
    order = list(TABLES[table])[1]
    text = f"SELECT key, file, {columns} FROM {table} JOIN files USING (file) ORDER BY file, {order}"
    return database.execute(text).fetchall()


def _parts(text: str) -> tuple[str, ...]:
    return tuple(text.split(",")) if text else ()


def share(count: int, of: int) -> Share:
    """A share with Wilson's score interval, whose coverage is good for small numbers and which stays within 0 and 1.

    Sources: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927), 209-212; Brown, Cai, DasGupta, Stat. Science 16 (2001),
    101-133.
    """
    from scipy import stats

    found = stats.binomtest(count, of).proportion_ci(WANTED_COVERAGE, method="wilson")
    return Share(count, of, float(found.low), float(found.high))


def drill_standings(tries: Iterable[DrillTry]) -> Iterable[DrillStanding]:
    """Statistics of each drill, sorted by id. A student's first try is the one with the earliest start."""
    for drill, students in _by_student(tries):
        first = [min(own, key=lambda each: (each.began_utc, each.outcome)) for own in students]
        best = [best_try(own) for own in students]
        made = _often(name for own in students for name in {name for each in own for name in each.mistakes})
        yield DrillStanding(drill, sum(map(len, students)), _standing(first), _standing(best), made)


def best_try(tries: Iterable[DrillTry]) -> DrillTry:
    """The best try, by the rule of lab.drills.case.best_of."""
    return max(tries, key=lambda each: (each.verdict == DrillVerdict.SAVED, each.saved_percent, -each.minutes))


def _standing(tries: Sequence[DrillTry]) -> TryStanding:
    of = len(tries)
    return TryStanding(
        share(sum(each.verdict == DrillVerdict.SAVED for each in tries), of),
        share(sum(each.verdict in HAVE_DATA for each in tries), of),
        statistics.median(each.saved_percent for each in tries),
        sum(each.touched_bytes > 0 for each in tries),
        estimate([each.minutes for each in tries]),
        tuple(sorted(each.minutes for each in tries)),
        statistics.fmean(each.hints for each in tries),
        statistics.fmean(each.resets for each in tries),
        _often(each.verdict for each in tries),
        _often(name for each in tries for name in each.mistakes),
    )


def lesson_standings(progress: Iterable[LessonTry]) -> Iterable[LessonStanding]:
    """Statistics of each lesson, sorted by id; the most advanced progress of each student counts."""
    for lesson, students in _by_student(progress):
        last = [max(own, key=lambda each: (each.is_passed, each.steps_done)) for own in students]
        passed = share(sum(each.is_passed for each in last), len(last))
        hinted = _often(step for each in last for step in each.all_hints)
        yield LessonStanding(lesson, passed, hinted, _often(step for each in last for step in each.by_lab))


def _by_student(work: Iterable[Work]) -> Iterator[tuple[str, list[list[Work]]]]:
    """Id of each drill or lesson, sorted, with the work of each student."""
    for what, group in _grouped(_once(work), lambda each: each.what).items():
        yield what, list(_grouped(group, lambda each: each.key).values())


def _once(work: Iterable[Work]) -> list[Work]:
    """Each piece of work once, from the first bundle in the order of the files."""
    found: dict[str, Work] = {}
    for each in work:
        found.setdefault(each.digest, each)
    return list(found.values())


def _grouped(work: Iterable[Work], word: Callable[[Work], str]) -> dict[str, list[Work]]:
    found: dict[str, list[Work]] = {}
    for each in sorted(work, key=word):
        found.setdefault(word(each), []).append(each)
    return found


def _often(names: Iterable[str]) -> dict[str, int]:
    """Name -> number of occurrences, in descending order."""
    return dict(sorted(Counter(names).items(), key=lambda each: (-each[1], each[0])))


def _copies(work: Sequence[Work]) -> Iterable[CopiedWork]:
    found: dict[tuple[str, tuple[str, ...]], bool] = {}
    for group in _grouped(work, lambda each: each.digest).values():
        if len({each.key for each in group}) > 1:
            place = group[0].what, tuple(sorted({each.file for each in group}))
            found[place] = found.get(place, False) or len({each.figures for each in group}) > 1
    for (name, files), is_altered in sorted(found.items()):
        yield CopiedWork(name, files, is_altered)


def _seeds(work: Sequence[Work]) -> Iterable[SharedSeed]:
    for name, group in _grouped(work, lambda each: each.what).items():
        for seed, same in _grouped(group, lambda each: each.seed).items():
            if len({each.key for each in same}) > 1:
                yield SharedSeed(name, seed, tuple(sorted({each.file for each in same})))
