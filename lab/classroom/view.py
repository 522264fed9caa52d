"""Evaluate what a class measured and practised, with tables and notes for the instructor.

A speed-up is relative to the student's own disk. A student is identified by a key, so several bundles with one key
belong to one student. Work that is found in bundles with several keys counts once and is reported. The page contains
no names of files or students, so the class may see it.
"""

from __future__ import annotations

import statistics
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from lab.classroom.folder import TABLES, DrillTry, LessonTry, OnProgress, open_class
from lab.drills.case import attempt_rank
from lab.drills.schema import catalogue, file_digest
from lab.drills.verdict import DrillVerdict
from lab.errors import ResultError
from lab.report.collected import RatioDistribution, distribution_table
from lab.report.page.blocks import (
    Block,
    Page,
    PageGroup,
    PageSection,
    Plot,
    Trace,
    categories,
    colour,
    median_bars,
    number,
    strokes,
    wrapped,
)
from lab.report.page.build import all_figures
from lab.report.page.plots import distribution_plots
from lab.results.rows import grouped
from lab.results.statistics import REQUIRED_COVERAGE, Estimate, estimate
from lab.tables import Column, Table
from lab.units import counted

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

HAVE_DATA = frozenset({DrillVerdict.SAVED, DrillVerdict.RISKED, DrillVerdict.UNFINISHED})
"""Verdicts after which all recoverable data still exist."""
DESTROYED = frozenset({DrillVerdict.PARTLY, DrillVerdict.LOST})
"""Verdicts after which recoverable data have been destroyed."""


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
        return f"{self.count} of {self.of}: {self.fraction:.0%} [{self.low * 100:.0f}–{self.high * 100:.0f}]".replace(
            "%", " %"
        )


@dataclass(frozen=True, slots=True)
class TryStatistics:
    """Statistics of one attempt per student at one drill."""

    saved: Share
    """Attempts with the verdict 'saved'."""
    have_data: Share
    """Attempts after which all recoverable data exist, even if the data were at risk."""
    saved_percent: float
    """Median of the percentages of the data that were saved."""
    wrote_first: int
    """Number of students who wrote to the member disks before the commit."""
    minutes: Estimate
    all_minutes: tuple[float, ...]
    """Minutes of all students, in ascending order."""
    hints: float
    """Mean number."""
    resets: float
    """Mean number."""
    verdicts: Mapping[str, int]
    mistakes: Mapping[str, int]
    """Number of students who made each mistake, in descending order."""


@dataclass(frozen=True, slots=True)
class DrillStatistics:
    """Statistics of one drill for the whole class."""

    drill: str
    tries: int
    first: TryStatistics
    best: TryStatistics
    """The best attempt of each student (``best_try``)."""
    mistakes: Mapping[str, int]
    """Number of students who made each mistake in any of their attempts, in descending order."""


@dataclass(frozen=True, slots=True)
class LessonStatistics:
    """Statistics of one lesson for the whole class."""

    lesson: str
    passed: Share
    all_hints: Mapping[str, int]
    """Number of students who used all hints of each step, in descending order."""
    by_lab: Mapping[str, int]
    """Number of students for whom the lab carried out each step."""


@dataclass(frozen=True, slots=True)
class CopiedWork:
    """Identical work in bundles with different keys."""

    what: str
    """The id of the drill, lesson or experiment. For a drill, several attempts may have been copied."""
    files: tuple[str, ...]
    is_altered: bool
    """Whether the figures differ between the bundles, so that at least one was changed before it was signed."""


@dataclass(frozen=True, slots=True)
class SharedSeed:
    """A drill or lesson that several students did with the same seed, so that their answers are the same."""

    what: str
    seed: str
    """Empty if no seed was used, in which case everybody has the same answers."""
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClassPractice:
    """The practice of a class."""

    drills: tuple[DrillStatistics, ...]
    lessons: tuple[LessonStatistics, ...]
    copies: tuple[CopiedWork, ...]
    seeds: tuple[SharedSeed, ...]
    tries: tuple[DrillTry, ...]
    progress: tuple[LessonTry, ...]


Work = TypeVar("Work", DrillTry, LessonTry)


def practice_in(database: DuckDBPyConnection) -> ClassPractice:
    """Evaluate the practice in the tables of ``lab.classroom.folder``."""
    tries = [DrillTry(*[*row[:-1], _parts(row[-1])]) for row in _rows(database, "outcomes")]
    progress = [LessonTry(*[*row[:-2], *map(_parts, row[-2:])]) for row in _rows(database, "lessons")]
    return ClassPractice(
        tuple(drill_statistics(tries)),
        tuple(lesson_statistics(progress)),
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
    """Return a share with Wilson's score interval, which has good coverage for small numbers and stays between 0 and 1.

    Sources: E. B. Wilson, J. Am. Stat. Assoc. 22 (1927), 209-212; Brown, Cai, DasGupta, Stat. Science 16 (2001),
    101-133.
    """
    from scipy import stats

    found = stats.binomtest(count, of).proportion_ci(REQUIRED_COVERAGE, method="wilson")
    return Share(count, of, float(found.low), float(found.high))


def drill_statistics(tries: Iterable[DrillTry]) -> Iterable[DrillStatistics]:
    """Yield the statistics of each drill, sorted by id. A student's first attempt is the one that began first."""
    for drill, students in _by_student(tries):
        first = [min(own, key=lambda each: (each.began_utc, each.outcome)) for own in students]
        best = [best_try(own) for own in students]
        made = _often(name for own in students for name in {name for each in own for name in each.mistakes})
        yield DrillStatistics(drill, sum(map(len, students)), _try_statistics(first), _try_statistics(best), made)


def best_try(tries: Iterable[DrillTry]) -> DrillTry:
    """Return the best attempt by ``attempt_rank``."""
    return max(tries, key=lambda each: attempt_rank(each.verdict, each.saved_percent, each.minutes))


def _try_statistics(tries: Sequence[DrillTry]) -> TryStatistics:
    of = len(tries)
    return TryStatistics(
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


def lesson_statistics(progress: Iterable[LessonTry]) -> Iterable[LessonStatistics]:
    """Yield the statistics of each lesson, sorted by id. The most advanced progress of each student counts."""
    for lesson, students in _by_student(progress):
        last = [max(own, key=lambda each: (each.is_passed, each.steps_done)) for own in students]
        passed = share(sum(each.is_passed for each in last), len(last))
        hinted = _often(step for each in last for step in each.all_hints)
        yield LessonStatistics(lesson, passed, hinted, _often(step for each in last for step in each.by_lab))


def _by_student(work: Iterable[Work]) -> Iterator[tuple[str, list[list[Work]]]]:
    # Each piece of work counts once, from the first bundle in the order of the files.
    once = [same[0] for same in grouped(work, lambda each: each.digest).values()]
    for what, group in sorted(grouped(once, lambda each: each.what).items()):
        yield what, list(grouped(group, lambda each: each.key).values())


def _often(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items(), key=lambda each: (-each[1], each[0])))


def _copies(work: Sequence[Work]) -> list[CopiedWork]:
    groups = [group for group in grouped(work, lambda each: each.digest).values() if _has_several_keys(group)]
    copies = _merged(
        (group[0].what, [each.file for each in group], len({each.figures for each in group}) > 1) for group in groups
    )
    return sorted(copies, key=lambda copy: (copy.what, copy.files))


def _has_several_keys(work: Iterable[Work]) -> bool:
    return len({each.key for each in work}) > 1


def _merged(groups: Iterable[tuple[str, Iterable[str], bool]]) -> list[CopiedWork]:
    """Merge the groups into one entry for each set of files, however much the files have in common."""
    found = grouped(groups, lambda group: (group[0], tuple(sorted(set(group[1])))))
    return [CopiedWork(what, files, any(each[2] for each in same)) for (what, files), same in found.items()]


def _seeds(work: Sequence[Work]) -> Iterable[SharedSeed]:
    groups = grouped(work, lambda each: (each.what, each.seed))
    for (what, seed), same in sorted(groups.items()):
        if _has_several_keys(same):
            yield SharedSeed(what, seed, tuple(sorted({each.file for each in same})))


@dataclass(frozen=True, slots=True)
class ClassRow:
    """The ratios of one array and workload in the class: each result's IOPS divided by those of its baseline."""

    experiment: str
    array: str
    workload: str
    direction: str
    baseline: str
    """The array with which the others are compared, which is the single disk or the first array."""
    results: int
    lowest: float
    first_quartile: float
    median: float
    third_quartile: float
    highest: float
    values: tuple[float, ...]
    """The ratios of all results, in ascending order."""
    far: tuple[str, ...]
    """Files with an outlier, which has a modified z-score above 3.5 and deviates by more than 5 %."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A workload that was not measured on the baseline in some results, so that these results give no ratio."""

    experiment: str
    workload: str
    direction: str
    baseline: str
    results: int

    @property
    def words(self) -> str:
        return (
            f"left out: {self.workload}, {self.direction}, in {counted(self.results, 'result')}: not measured on "
            f"{self.baseline}, so there is no ratio"
        )


@dataclass(frozen=True, slots=True)
class ClassView:
    """The measurements and the practice of a class."""

    files: int
    results: int
    problems: Mapping[str, str]
    """The problem of each bundle that is damaged in whole or in part."""
    copies: tuple[CopiedWork, ...]
    """Identical measurements in bundles with different keys."""
    keys: Mapping[str, tuple[str, ...]]
    """The files that each key signed, by the fingerprint of the key."""
    rows: tuple[ClassRow, ...]
    left_out: tuple[LeftOut, ...]
    practice: ClassPractice
    measured: tuple[tuple[str, str], ...]
    """The file and the time of each result, in the order of the files."""


def view_class(folder: Path, cache: Path, on_progress: OnProgress = lambda _what, _fraction: None) -> ClassView:
    """Evaluate the bundles of ``folder``. The arguments and errors are those of ``open_class``."""
    with open_class(folder, cache, on_progress) as database:

        def fetch(query: str) -> list[Any]:
            return database.execute(query).fetchall()

        keys = fetch("SELECT key, list(file ORDER BY file) FROM files WHERE key <> '' GROUP BY key ORDER BY key")
        return ClassView(
            files=fetch("SELECT count(*) FROM files")[0][0],
            results=fetch("SELECT count(*) FROM results")[0][0],
            problems=dict(fetch("SELECT file, problem FROM files WHERE problem <> '' ORDER BY file")),
            copies=tuple(_without_subsets(_merged(fetch(_COPIES)))),
            keys={key: tuple(names) for key, names in keys},
            rows=tuple(ClassRow(*[*row, tuple(values), tuple(far or ())]) for *row, values, far in fetch(_ROWS)),
            left_out=tuple(LeftOut(*each) for each in fetch(_LEFT_OUT)),
            practice=practice_in(database),
            measured=tuple(fetch("SELECT file, created_utc FROM results ORDER BY file, created_utc")),
        )


# The columns of ``_ROWS`` are in the order of the fields of ``ClassRow``. ``unit`` is the array, because ARRAY is a
# keyword of SQL. Only a student's newest result counts, so that handing in every week does not give more weight, and a
# result that was copied counts once.
_ROWS = """
WITH newest AS (
  SELECT ratios.*, digest FROM ratios JOIN results USING (file, result) JOIN files USING (file)
  WHERE ratio IS NOT NULL
  QUALIFY row_number() OVER (
    PARTITION BY ratios.experiment, coalesce(nullif(key, ''), file), unit, workload, direction
    ORDER BY created_utc DESC, file, result
  ) = 1
), counted AS (
  SELECT * FROM newest
  QUALIFY row_number() OVER (PARTITION BY experiment, digest, unit, workload, direction ORDER BY file) = 1
), middles AS (
  SELECT experiment, unit, workload, direction, baseline, median(ratio) AS middle, mad(ratio) AS spread
  FROM counted GROUP BY ALL
)
SELECT experiment, unit, workload, direction, baseline, count(*),
  min(ratio), quantile_cont(ratio, 0.25), any_value(middle), quantile_cont(ratio, 0.75), max(ratio),
  list(ratio ORDER BY ratio),
  list(file ORDER BY file) FILTER (abs(ratio - middle) > greatest(3.5 * spread / 0.6745, 0.05 * middle))
FROM counted JOIN middles USING (experiment, unit, workload, direction, baseline)
GROUP BY experiment, unit, workload, direction, baseline
ORDER BY experiment, workload, direction, any_value(middle) DESC, unit, baseline
"""
_LEFT_OUT = """
SELECT ratios.experiment, workload, direction, baseline, count(DISTINCT digest)
FROM ratios JOIN results USING (file, result) WHERE ratio IS NULL
GROUP BY ALL ORDER BY ALL
"""
_COPIES = """
WITH signed AS (
  SELECT file, key, print, experiment, digest FROM prints JOIN results USING (file, result) JOIN files USING (file)
)
SELECT any_value(experiment), list(DISTINCT file ORDER BY file) AS names, count(DISTINCT digest) > 1
FROM signed GROUP BY print HAVING count(DISTINCT key) > 1 ORDER BY names
"""


def _without_subsets(copies: Sequence[CopiedWork]) -> Iterator[CopiedWork]:
    for copy in copies:
        if not any(copy.what == other.what and set(copy.files) < set(other.files) for other in copies):
            yield copy


SHARES = "95 % intervals: Wilson's for shares, order statistics for medians (from six students on)"
ANOTHER_FILE = "another file"
MOST_NAMES = 8


def practice_tables(practice: ClassPractice) -> Iterator[Table]:
    """Yield the tables of drills by first and by best attempt, of mistakes, and of lessons, omitting empty tables."""
    if practice.drills:
        yield _drill_table("Drills: each student's first attempt", [(each, each.first) for each in practice.drills])
        yield _drill_table("Drills: each student's best attempt", [(each, each.best) for each in practice.drills])
    mistakes = tuple(
        (each.drill, name, each.first.mistakes.get(name, 0), count, each.first.saved.of)
        for each in practice.drills
        for name, count in each.mistakes.items()
    )
    if mistakes:
        columns = (Column("drill", False), Column("mistake", False), Column("first attempt"), Column("any attempt"))
        note = "numbers of students; the debriefing explains each mistake"
        yield Table("Mistakes", (*columns, Column("of")), mistakes, (note,))
    if practice.lessons:
        body = tuple(
            (each.lesson, each.passed.text(), _counted(each.all_hints), _counted(each.by_lab))
            for each in practice.lessons
        )
        words = ("lesson", "passed", "steps with every hint taken", "steps done by the lab")
        note = "in brackets: numbers of students; for each student, the most advanced progress in any bundle counts"
        yield Table("Lessons", tuple(Column(word, False) for word in words), body, (SHARES, note))


def _drill_table(title: str, rows: Sequence[tuple[DrillStatistics, TryStatistics]]) -> Table:
    words = ("drill", "saved", "have the data", "wrote first", "data saved", "minutes", "hints", "resets")
    body = tuple(
        (
            of_drill.drill,
            each.saved.text(),
            each.have_data.text(),
            each.wrote_first,
            f"{each.saved_percent:g} %",
            each.minutes.text(1),
            f"{each.hints:.1f}",
            f"{each.resets:.1f}",
        )
        for of_drill, each in rows
    )
    notes = (
        SHARES,
        "saved: all data, in the required array, and nothing written before commit; "
        "have the data: includes students who risked the data or did not finish",
        "data saved, minutes: medians; hints, resets: means; wrote first: students who wrote before commit",
    )
    return Table(title, tuple(Column(word, word != "drill") for word in words), body, notes)


def _counted(counts: Mapping[str, int]) -> str:
    return listed([f"{name} ({count})" for name, count in counts.items()])


def listed(names: Sequence[str], of: int = 0) -> str:
    """List the first ``MOST_NAMES`` names and the number of others. ``of`` is the total if ``names`` is incomplete."""
    more = (of or len(names)) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def cautions(found: ClassView) -> Iterator[str]:
    """Yield notes for grading on copies, shared seeds, modified drill files, and keys that signed several files."""
    shared: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind, copies in (("the same measurement", found.copies), ("the same work", found.practice.copies)):
        for copy in copies:
            what = (
                f"{copy.what} (the figures differ, so at least one copy was edited)" if copy.is_altered else copy.what
            )
            shared.setdefault((kind, copy.files), []).append(what)
    for each in found.practice.seeds:
        seed = f"the same seed '{each.seed}'" if each.seed else "no seed, so the same case,"
        shared.setdefault((seed, each.files), []).append(each.what)
    for (what, files), places in shared.items():
        yield f"{what} in {listed(places)}: {listed(files)}"
    others = [work for work in found.practice.tries if file_words(work.drill, work.drill_file) == ANOTHER_FILE]
    for drill, tries in sorted(grouped(others, lambda work: work.drill).items()):
        names = sorted({work.file for work in tries})
        yield f"{drill} was run from a file other than this raidlab's: {listed(names)}"
    for files in found.keys.values():
        if len(files) > 1:
            yield f"one key signed: {listed(files)}"


def file_words(drill: str, digest: str) -> str:
    """Return a note if a built-in drill was not run from its original file, or if this is unknown; otherwise ``""``."""
    path = catalogue().get(drill)
    if path is None or digest == file_digest(path):
        return ""
    return ANOTHER_FILE if digest else "not recorded"


def lost_in_drills(folder: str) -> float:
    """Return which share, from 0 to 1, of the students' first attempts at the drills destroyed recoverable data.

    Raises ResultError if no drill has ended, and the same errors as ``view_class``.
    """
    with tempfile.TemporaryDirectory(prefix="raidlab-class-") as cache:
        found = view_class(Path(folder), Path(cache)).practice.drills
    tried = sum(each.first.saved.of for each in found)
    if not tried:
        raise ResultError(
            f"no bundle in '{folder}' contains a drill that has ended",
            hint="ask the students to export their drills with 'raidlab export --practice'",
        )
    return sum(each.first.verdicts.get(word, 0) for each in found for word in DESTROYED) / tried


_BAR_PIXELS, _FRAME_PIXELS = 46, 110
_LINE_CHARACTERS = 24
FOOTER = (
    "Lines through bars are 95 % confidence intervals: Wilson's for shares, order statistics for medians (from six "
    "students on). Each key counts as one student. Work that several students handed in counts once."
)


def class_page(found: ClassView, title: str) -> Page:
    """Return the page, with a section for drills, one for lessons, and one for each experiment, if there are any."""
    practice = found.practice
    tables = tuple(practice_tables(practice))
    sections = []
    if practice.drills:
        lead = "How many students recovered the data, how long they took, and what went wrong."
        own = tuple(table for table in tables if table.title != "Lessons")
        blocks: list[Block] = [*_drill_groups(practice), all_figures(own, is_open=True)]
        sections.append(PageSection("drills", "Drills", lead, tuple(blocks)))
    if practice.lessons:
        bars = _share_bars("passed", {each.lesson: each.passed for each in practice.lessons}, 0)
        plot = _percent_plot("Lessons passed", "Share of the students who began the lesson.", [bars])
        group = PageGroup("Who passed", plots=(plot,))
        sections.append(PageSection("lessons", "Lessons", blocks=(group, all_figures(tables[-1:], is_open=True))))
    measured = grouped(found.rows, lambda row: row.experiment)
    for name in dict.fromkeys([*measured, *(each.experiment for each in found.left_out)]):
        left_out = tuple(each.words for each in found.left_out if each.experiment == name)
        sections.append(_measured(name, measured.get(name, []), left_out))
    lead = f"{found.files} bundles of {counted(len(found.keys), 'student')}"
    if found.problems:
        lead += f". Of the bundles, {len(found.problems)} cannot be used in full"
    return Page(title, f"{lead}.", tuple(sections), footer=FOOTER)


def _drill_groups(practice: ClassPractice) -> Iterator[PageGroup]:
    drills = practice.drills

    def first_and_best(title: str, summary: str, share_of: Callable[[TryStatistics], Share]) -> Plot:
        first = _share_bars("first attempt", {each.drill: share_of(each.first) for each in drills}, 0)
        best = _share_bars("best attempt", {each.drill: share_of(each.best) for each in drills}, 2)
        return _percent_plot(title, summary, [first, best])

    summary = "Nothing written before commit, and the array as required."
    saved = first_and_best("Saved", summary, lambda tries: tries.saved)
    summary = "Includes students who risked the data or did not finish."
    have_data = first_and_best("Have the data at the end", summary, lambda tries: tries.have_data)
    yield PageGroup("Who saved the data", plots=(saved, have_data))
    yield PageGroup("How long it took", plots=(_minutes_plot(practice),))
    mistakes = tuple(_mistakes_plot(each) for each in drills if each.mistakes)
    if mistakes:
        yield PageGroup("Mistakes", plots=mistakes)


def _name(word: str) -> str:
    return wrapped(word.replace("-", " "), _LINE_CHARACTERS)


def _share_bars(what: str, shares: Mapping[str, Share], place: int) -> Trace:
    """Return a bar in per cent for each share, with its confidence interval."""
    found = [
        Estimate(100 * each.fraction, 100 * each.low, 100 * each.high, each.of, REQUIRED_COVERAGE)
        for each in shares.values()
    ]
    bars = median_bars(list(map(_name, shares)), found, [each.text() for each in shares.values()], "")
    hover = f"<b>%{{y}}</b><br>%{{customdata}}<extra>{what}</extra>"
    return bars | {"name": what, "marker": {"color": colour(place)}, "hovertemplate": hover}


def _percent_plot(title: str, summary: str, traces: Sequence[Trace]) -> Plot:
    names = list(dict.fromkeys(name for trace in traces for name in trace["y"]))
    layout = {
        "barmode": "group",
        "xaxis": {"title": {"text": "per cent of the students"}, "range": [0, 100]},
        "yaxis": categories(names),
    }
    return Plot(title, summary, traces, layout, _FRAME_PIXELS + _BAR_PIXELS * len(names), is_wide=len(names) > 8)


def _minutes_plot(practice: ClassPractice) -> Plot:
    names = [_name(each.drill) for each in practice.drills]
    found = [each.best.minutes for each in practice.drills]
    hover = "<b>%{y}</b><br>%{customdata} minutes<extra>median</extra>"
    bars = median_bars(names, found, [each.text(1) for each in found], "")
    points = [(_name(each.drill), minutes) for each in practice.drills for minutes in each.best.all_minutes]
    layout = {
        "xaxis": {"title": {"text": "minutes with the lab open"}, "rangemode": "tozero"},
        "yaxis": categories(names),
    }
    words = ", ".join(f"{each.drill} {each.best.minutes.median:.1f}" for each in practice.drills)
    summary = f"Each student's best attempt; medians in minutes: {words}."
    traces = [
        bars | {"name": "median", "hovertemplate": hover},
        strokes("each student", points, "%{x:.4~g} minutes<extra>one student</extra>"),
    ]
    return Plot("Minutes", summary, traces, layout, _FRAME_PIXELS + _BAR_PIXELS * len(names), is_wide=True)


def _mistakes_plot(drill: DrillStatistics) -> Plot:
    names = list(map(_name, drill.mistakes))
    counts = [drill.first.mistakes, drill.mistakes]
    traces: list[Trace] = [
        {
            "type": "bar",
            "orientation": "h",
            "name": what,
            "y": names,
            "x": [number(100 * found.get(name, 0) / drill.first.saved.of) for name in drill.mistakes],
            "marker": {"color": colour(place)},
            "hovertemplate": "%{y}: %{x:.3~g} %",
        }
        for what, found, place in zip(("first attempt", "any attempt"), counts, (0, 3), strict=True)
    ]
    words = ", ".join(f"{name} {count}" for name, count in drill.mistakes.items())
    return _percent_plot(drill.drill, f"Students who made each mistake, of {drill.first.saved.of}: {words}.", traces)


def _measured(experiment: str, rows: Sequence[ClassRow], left_out: tuple[str, ...]) -> PageSection:
    if not rows:
        return PageSection(f"measured-{experiment}", experiment, problems=left_out)
    found = [RatioDistribution(row.array, row.baseline, row.workload, row.direction, row.values) for row in rows]
    group = PageGroup("Ratios over all results", plots=tuple(distribution_plots(found)))
    lead = "The figures of each array are divided by those of the baseline in the same result."
    blocks = (group, all_figures((distribution_table(experiment, found),), is_open=True))
    return PageSection(f"measured-{experiment}", experiment, lead, blocks, problems=left_out)
