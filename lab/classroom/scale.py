"""Points for the work of a class, by a scale: a small TOML file, of which ``scale.toml`` here is the built-in one."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from lab.classroom.standing import DrillTry, LessonTry, best_try
from lab.drills.verdict import DrillVerdict
from lab.errors import SpecError
from lab.tomlfile import decode_toml, toml_text, unknown_word

BUILT_IN = "standard"
_BUILT_IN_FILE = Path(__file__).with_name("scale.toml")
Points = Annotated[float, msgspec.Meta(ge=0, le=10_000)]
Way = Literal["best", "first", "exam"]


class LessonScale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Points of one lesson."""

    passed: Points = 1.0
    every_hint: Points = 0.0
    by_lab: Points = 0.0


class ShareOf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many points times the share of the data that was saved."""

    share_of: Points


class DrillScale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Points of one drill."""

    attempt: Way = msgspec.field(name="try", default="best")
    hint: Points = 0.0
    reset: Points = 0.0
    verdict: dict[str, Points | ShareOf]


class ExamScale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is left of the points of an exam that did not go by the rules."""

    over_time: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    """Ended after its time limit."""
    another_attempt: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Not the first attempt."""


class LateScale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What late work is worth."""

    factor: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0


class CountedWork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One lesson or drill that counts."""

    name: str
    """Its id, or the number that it begins with after ``lesson`` or ``drill``: ``drill 11``."""
    attempt: Way | None = msgspec.field(name="try", default=None)
    weight: Points = 1.0
    due: datetime.date | None = None


class Scale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What each piece of work is worth."""

    format_version: Literal[1]
    lesson: LessonScale = LessonScale()
    drill: DrillScale
    exam: ExamScale = ExamScale()
    late: LateScale = LateScale()
    work: tuple[CountedWork, ...] = ()


@dataclass(frozen=True, slots=True)
class Worth:
    """What a student got for one piece of work."""

    points: float
    late_by: str = ""
    """The day on which it was due, if it was finished later."""


def read_scale(name: str) -> Scale:
    """The built-in scale, or a file. Raises SpecError for keys, verdicts or points that are not possible."""
    path = _BUILT_IN_FILE if name == BUILT_IN else Path(name)
    scale = decode_toml(toml_text(path), Scale, source=str(path))
    for verdict in scale.drill.verdict:
        if verdict not in list(DrillVerdict):
            raise unknown_word("verdict", verdict, [each.value for each in DrillVerdict])
    return scale


def counted(scale: Scale, lessons: Sequence[str], drills: Sequence[str]) -> dict[str, CountedWork]:
    """Id of each lesson and drill that counts -> its line, in the order of the file or of the course.

    Raises SpecError for a name that is in neither list, or that stands twice.
    """
    if not scale.work:
        return {name: CountedWork(name=name) for name in (*lessons, *drills)}
    found: dict[str, CountedWork] = {}
    for line in scale.work:
        name = _full_name(line.name, lessons, drills)
        if name in found:
            raise SpecError(f"the scale counts {name} twice", hint="keep one [[work]] of it")
        found[name] = line
    return found


def _full_name(word: str, lessons: Iterable[str], drills: Iterable[str]) -> str:
    lists = {"lesson": tuple(lessons), "drill": tuple(drills)}
    kind, _, number = word.partition(" ")
    if kind in lists and number.strip().isdecimal():
        fitting = [name for name in lists[kind] if name.startswith(f"{int(number):02d}-")]
    else:
        fitting = [name for names in lists.values() for name in names if name == word]
    if len(fitting) == 1:
        return fitting[0]
    raise unknown_word("lesson or drill", word, [name for names in lists.values() for name in names])


def chosen_try(scale: Scale, line: CountedWork, tries: Sequence[DrillTry]) -> DrillTry | None:
    """The try that counts; None if there is none."""
    if not tries:
        return None
    way = line.attempt or scale.drill.attempt
    if way == "best":
        return best_try(tries)
    if way == "exam":
        exams = [each for each in tries if each.exam_attempt]
        return min(exams, key=lambda each: (each.exam_attempt, each.began_utc), default=None)
    return min(tries, key=lambda each: (each.began_utc, each.outcome))


def drill_worth(scale: Scale, line: CountedWork, work: DrillTry) -> Worth:
    """Points of one try at a drill, never below zero."""
    rule = scale.drill.verdict.get(work.verdict, 0.0)
    points = rule.share_of * work.saved_percent / 100 if isinstance(rule, ShareOf) else rule
    points -= scale.drill.hint * work.hints + scale.drill.reset * work.resets
    points *= scale.exam.over_time if work.exam_over_minutes else 1.0
    points *= scale.exam.another_attempt if work.exam_attempt > 1 else 1.0
    return _worth(scale, line, points, work.ended_utc)


def lesson_worth(scale: Scale, line: CountedWork, work: LessonTry) -> Worth:
    """Points of one lesson, never below zero; one that is not passed has none."""
    off = scale.lesson.every_hint * len(work.all_hints) + scale.lesson.by_lab * len(work.by_lab)
    if not work.is_passed:
        return Worth(0.0)
    return _worth(scale, line, scale.lesson.passed - off, work.last_done_utc)


def _worth(scale: Scale, line: CountedWork, points: float, done_utc: str) -> Worth:
    is_late = line.due is not None and bool(done_utc) and done_utc[:10] > line.due.isoformat()
    worth = max(0.0, points) * line.weight * (scale.late.factor if is_late else 1.0)
    return Worth(round(worth, 3), str(line.due) if is_late else "")


def most_points(scale: Scale, line: CountedWork, *, is_drill: bool) -> float:
    """What the best possible work would get."""
    rules = [rule.share_of if isinstance(rule, ShareOf) else rule for rule in scale.drill.verdict.values()]
    return round(line.weight * (max(rules, default=0.0) if is_drill else scale.lesson.passed), 3)


def points_words(values: Mapping[str, Worth]) -> str:
    """``2026-10-01: 04-parity`` of all work that was late."""
    return "; ".join(f"{name} after {worth.late_by}" for name, worth in values.items() if worth.late_by)
