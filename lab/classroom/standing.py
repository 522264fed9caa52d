"""How a class practised: who saved the data in each drill, where they erred, how long it took; who passed lessons.

A student is a key: bundles that one key signed are one student's, who may hand in every week. Work that several keys
handed in counts once, and is named.
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
"""At the end all data are there that could be saved."""
DESTROYED = frozenset({DrillVerdict.PARTLY, DrillVerdict.LOST})
"""At the end data are gone that could have been saved."""


@dataclass(frozen=True, slots=True)
class DrillTry:
    """One ended drill in one bundle."""

    key: str
    file: str
    outcome: str
    digest: str
    drill: str
    drill_file: str
    """lab.drills.schema.file_digest; empty: of a raidlab that did not keep it."""
    seed: str
    began_utc: str
    ended_utc: str
    verdict: str
    saved_percent: float
    minutes: float
    touched_bytes: int
    """Written on the disks themselves before commit."""
    hints: int
    resets: int
    exam_attempt: int
    """0: practice."""
    exam_over_minutes: float
    """Beyond the time limit."""
    mistakes: tuple[str, ...]

    @property
    def what(self) -> str:
        """What was tried."""
        return self.drill

    @property
    def figures(self) -> tuple[object, ...]:
        """What stands in the sheet, of one and the same work."""
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
    """When the last step was done; empty: none is."""
    all_hints: tuple[str, ...]
    """Steps for which every hint was taken."""
    by_lab: tuple[str, ...]
    """Steps that the lab carried out for the student."""

    @property
    def what(self) -> str:
        """What was tried."""
        return self.lesson

    @property
    def figures(self) -> tuple[object, ...]:
        """What stands in the sheet, of one and the same work."""
        return (self.seed,)


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many, with the interval that covers the true share with 95 %."""

    count: int
    of: int
    low: float
    high: float

    @property
    def fraction(self) -> float:
        return self.count / self.of

    def text(self) -> str:
        """``12 of 40: 30 % [18–45]``."""
        return f"{self.count} of {self.of}: {self.fraction:.0%} [{self.low * 100:.0f}–{self.high * 100:.0f}]".replace(
            "%", " %"
        )


@dataclass(frozen=True, slots=True)
class TryStanding:
    """One try of each student at one drill."""

    saved: Share
    """With the verdict 'saved': nothing was written before commit, and the array is as it was asked for."""
    have_data: Share
    """Who have the data at the end, at whatever risk."""
    saved_percent: float
    """Median."""
    wrote_first: int
    """Students who wrote on the disks themselves before commit."""
    minutes: Estimate
    all_minutes: tuple[float, ...]
    """Of every student, sorted."""
    hints: float
    """Mean."""
    resets: float
    """Mean."""
    verdicts: Mapping[str, int]
    mistakes: Mapping[str, int]
    """Mistake -> students, the most frequent first."""


@dataclass(frozen=True, slots=True)
class DrillStanding:
    """One drill over the whole class."""

    drill: str
    tries: int
    first: TryStanding
    """Each student's first try."""
    best: TryStanding
    """The one that each student would show."""
    mistakes: Mapping[str, int]
    """Mistake -> students who made it in any of their tries, the most frequent first."""


@dataclass(frozen=True, slots=True)
class LessonStanding:
    """One lesson over the whole class."""

    lesson: str
    passed: Share
    all_hints: Mapping[str, int]
    """Step -> students who took every hint for it, the most frequent first."""
    by_lab: Mapping[str, int]
    """Step -> students for whom the lab did it."""


@dataclass(frozen=True, slots=True)
class CopiedWork:
    """The very same work in bundles of different keys."""

    what: str
    """The id of the drill, the lesson or the experiment; of a drill it may be several tries."""
    files: tuple[str, ...]
    is_altered: bool
    """Its figures differ from bundle to bundle: at least one was changed before it was signed."""


@dataclass(frozen=True, slots=True)
class SharedSeed:
    """A drill or a lesson that several students did with the same seed, so that one's answers are the other's."""

    what: str
    seed: str
    """Empty: without a seed, which is the same case for everybody."""
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClassPractice:
    """What a class practised."""

    drills: tuple[DrillStanding, ...]
    lessons: tuple[LessonStanding, ...]
    copies: tuple[CopiedWork, ...]
    seeds: tuple[SharedSeed, ...]
    tries: tuple[DrillTry, ...]
    progress: tuple[LessonTry, ...]


Work = TypeVar("Work", DrillTry, LessonTry)


def practice_in(database: DuckDBPyConnection) -> ClassPractice:
    """What the tables of ``lab.classroom.folder`` hold of practice."""
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
    """A share with Wilson's score interval: with few students it covers as often as it says, and stays within 0 and 1.

    Sources: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927), 209-212; Brown, Cai, DasGupta, Stat. Science 16 (2001),
    101-133.
    """
    from scipy import stats

    found = stats.binomtest(count, of).proportion_ci(WANTED_COVERAGE, method="wilson")
    return Share(count, of, float(found.low), float(found.high))


def drill_standings(tries: Iterable[DrillTry]) -> Iterable[DrillStanding]:
    """Each drill, in the order of their ids. The first try is the one that began first."""
    for drill, students in _by_student(tries):
        first = [min(own, key=lambda each: (each.began_utc, each.outcome)) for own in students]
        best = [best_try(own) for own in students]
        made = _often(name for own in students for name in {name for each in own for name in each.mistakes})
        yield DrillStanding(drill, sum(map(len, students)), _standing(first), _standing(best), made)


def best_try(tries: Iterable[DrillTry]) -> DrillTry:
    """The one that a student would show, by the rule of lab.drills.case.best_of."""
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
    """Each lesson; of a student's several bundles the one with the most steps done counts."""
    for lesson, students in _by_student(progress):
        last = [max(own, key=lambda each: (each.is_passed, each.steps_done)) for own in students]
        passed = share(sum(each.is_passed for each in last), len(last))
        hinted = _often(step for each in last for step in each.all_hints)
        yield LessonStanding(lesson, passed, hinted, _often(step for each in last for step in each.by_lab))


def _by_student(work: Iterable[Work]) -> Iterator[tuple[str, list[list[Work]]]]:
    """Each drill or lesson in the order of their ids, with what each student did of it."""
    for what, group in _grouped(_once(work), lambda each: each.what).items():
        yield what, list(_grouped(group, lambda each: each.key).values())


def _once(work: Iterable[Work]) -> list[Work]:
    """Each piece of work once, in the first bundle that has it; work has the order of the files."""
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
    """How often each, the most frequent first."""
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
