"""What is kept of each bundle of a class: rows of a few tables, so that thousands of results are one query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from statistics import median

from lab.classroom.bundle import read_bundle
from lab.classroom.practice import is_passed, read_all, work_digest
from lab.classroom.prints import prints_of, record_digest
from lab.compare.figures import HEALTHY, is_speed, singles
from lab.drills.case import DrillOutcome
from lab.errors import LabError
from lab.gates.text import visible, visible_name
from lab.lessons.engine import Progress
from lab.lessons.schema import HINTS
from lab.results.record import ResultRecord

TEXT, NUMBER, WHOLE, TRUTH = "VARCHAR", "DOUBLE", "BIGINT", "BOOLEAN"
FILES = "files"
TABLES = {
    "results": {"file": TEXT, "result": TEXT, "experiment": TEXT, "created_utc": TEXT, "digest": TEXT},
    "prints": {"file": TEXT, "result": TEXT, "print": TEXT},
    "medians": {
        "file": TEXT,
        "result": TEXT,
        "experiment": TEXT,
        "unit": TEXT,
        "is_single": TRUTH,
        "workload": TEXT,
        "direction": TEXT,
        "iops": NUMBER,
    },
    "outcomes": {
        "file": TEXT,
        "outcome": TEXT,
        "digest": TEXT,
        "drill": TEXT,
        "drill_file": TEXT,
        "seed": TEXT,
        "began_utc": TEXT,
        "ended_utc": TEXT,
        "verdict": TEXT,
        "saved_percent": NUMBER,
        "minutes": NUMBER,
        "touched_bytes": WHOLE,
        "hints": WHOLE,
        "resets": WHOLE,
        "exam_attempt": WHOLE,
        "exam_over_minutes": NUMBER,
        "mistakes": TEXT,
    },
    "lessons": {
        "file": TEXT,
        "lesson": TEXT,
        "digest": TEXT,
        "seed": TEXT,
        "is_passed": TRUTH,
        "steps_done": WHOLE,
        "last_done_utc": TEXT,
        "all_hints": TEXT,
        "by_lab": TEXT,
    },
    FILES: {"file": TEXT, "bytes": WHOLE, "changed_ns": WHOLE, "key": TEXT, "problem": TEXT},
}
"""Table -> its columns. Names of steps and mistakes stand with commas between them. A median is that of a result's
repeats: the view needs no single ones, which are six times as many."""
Rows = dict[str, list[tuple[object, ...]]]
CHECKS = 8
"""Raised when bundles are checked in another way: what an earlier raidlab found good is looked at again."""
Stamped = tuple[Path, int, int]
"""A bundle, its size and its time of change in nanoseconds, as they were before it was read."""


def read_rows(bundles: Iterable[Stamped]) -> Rows:
    """The rows of some bundles by table. One that is damaged, or holds something that is, is named and stops none."""
    found: Rows = {table: [] for table in TABLES}
    for file, size, changed_ns in bundles:
        key, problem = _read(file, found)
        found[FILES].append((visible_name(file.name), size, changed_ns, key, problem))
    return found


def _read(file: Path, found: Rows) -> tuple[str, str]:
    """Key and problem of one bundle; of what it holds, all that can be read is added to ``found``."""
    try:
        bundle = read_bundle(file)
    except LabError as error:
        return "", visible(error.message)
    problems = []
    name = visible_name(file.name)
    try:
        for result_id, record in zip(bundle.ids, bundle.records(), strict=True):
            if isinstance(record, LabError):
                problems.append(record.message)
            elif medians := [(name, result_id, record.experiment, *row) for row in _medians(record)]:
                what = (record.experiment, record.created_utc, record_digest(record))
                found["results"].append((name, result_id, *map(_shown, what)))
                found["prints"] += [(name, result_id, each) for each in prints_of(record, bundle)]
                found["medians"] += medians
    except LabError as error:
        problems.append(error.message)
    try:
        for work in read_all(bundle):
            if isinstance(work, str):
                problems.append(work)
            elif isinstance(work, DrillOutcome):
                found["outcomes"].append((name, *map(_shown, _outcome(work))))
            else:
                found["lessons"].append((name, *map(_shown, _lesson(work))))
    except LabError as error:
        problems.append(error.message)
    return bundle.key_fingerprint, visible("; ".join(problems))


def _shown(value: object) -> object:
    return visible(value) if isinstance(value, str) else value


def _outcome(work: DrillOutcome) -> tuple[object, ...]:
    mistakes = _joined(mistake.id for mistake in work.mistakes)
    what = (work.id, work_digest(work), work.drill, work.drill_file, work.seed, work.began_utc, work.ended_utc)
    return (
        *what,
        work.verdict,
        work.saved_percent,
        work.minutes,
        work.touched_bytes,
        work.hints,
        work.resets,
        *_exam(work),
        mistakes,
    )


def _exam(work: DrillOutcome) -> tuple[int, float]:
    """The attempt, 0 for practice, and the minutes beyond the time limit."""
    return (work.exam.attempt, work.exam.over_minutes) if work.exam else (0, 0.0)


def _joined(names: Iterable[str]) -> str:
    """Each once; a drill of somebody's own may call its mistakes anything."""
    return ",".join(dict.fromkeys(name.replace(",", ";") for name in names if name))


def _lesson(work: Progress) -> tuple[object, ...]:
    steps = work.steps.items()
    hinted = _joined(name for name, step in steps if step.hints >= HINTS)
    by_lab = _joined(name for name, step in steps if step.by_lab)
    done = sum(map(work.is_done, work.steps))
    last = max((step.done_utc for _, step in steps), default="")
    return work.lesson, work_digest(work), work.seed, is_passed(work), done, last, hinted, by_lab


def _medians(record: ResultRecord) -> Iterator[tuple[object, ...]]:
    disks = singles(record)
    repeats: dict[tuple[str, str, str], list[float]] = {}
    for cell in record.cells:
        if cell.phase != HEALTHY:
            continue
        for direction, section in (("read", cell.figures.reads), ("write", cell.figures.writes)):
            if section is not None and is_speed(section.iops):
                repeats.setdefault((cell.array, cell.workload, direction), []).append(section.iops)
    for (array, workload, direction), iops in repeats.items():
        yield array, array in disks, workload, direction, median(iops)
