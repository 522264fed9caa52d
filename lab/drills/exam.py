"""A drill as an exam: no hints, a time limit by the clock, and numbered attempts.

::

    STATE/drills/exams.jsonl   every attempt at an exam, one per line, written when it begins; no line is removed

The first attempt counts. Another attempt must be requested explicitly, and its outcome has its number. If a student
deletes the state folder, the next one has another signing key, which ``raidlab class`` reports.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import msgspec

from lab.errors import DrillError
from lab.host.clock import utc_second_text
from lab.store.journal import Journal
from lab.units import MIB, counted

if TYPE_CHECKING:
    from lab.machine import Host

MOST_MINUTES = 24 * 60
_MOST_BYTES = MIB
NO_HINTS = "an exam has no hints"


class ExamTerms(msgspec.Struct, frozen=True, kw_only=True):
    """Terms of an exam that has begun."""

    minutes: Annotated[float, msgspec.Meta(gt=0, le=MOST_MINUTES)]
    """The time limit."""
    attempt: Annotated[int, msgspec.Meta(ge=1, le=100_000)] = 1
    """Number of the attempt, from 1."""
    first_utc: str
    """When the first attempt at this drill began."""


class ExamEnd(ExamTerms, frozen=True, kw_only=True):
    """Terms of an exam, and its end."""

    over_minutes: Annotated[float, msgspec.Meta(ge=0, le=10_000_000)] = 0.0
    """Time from the time limit to the end of the exam, by the clock; 0 if it ended in time."""


class _Begun(msgspec.Struct, frozen=True, kw_only=True):
    drill: str
    seed: str = ""
    minutes: float
    began_utc: str


def require_attempt(host: Host, drill: str, *, minutes: float, again: bool) -> None:
    """Raises DrillError for an attempt after the first one without ``again``, and for an invalid time limit."""
    if not 0 < minutes <= MOST_MINUTES:
        raise DrillError(f"an exam of {minutes:g} minutes is not possible", hint=f"1 to {MOST_MINUTES} minutes")
    before = _before(host, drill)
    if before and not again:
        raise DrillError(
            f"an exam in {drill} was begun at {before[0].began_utc}: the first attempt is the one that counts",
            hint="start it without --exam to practise; --again begins another attempt, which its outcome shows",
        )


def begin_exam(host: Host, drill: str, *, seed: str, minutes: float, again: bool) -> ExamTerms:
    """Record an attempt. Raises DrillError as ``require_attempt``, ResultError if it cannot be stored."""
    require_attempt(host, drill, minutes=minutes, again=again)
    before, now = _before(host, drill), utc_second_text(host.clock)
    host.state.make(host.state.root / "drills", what="the folder for drills")
    _attempts(host).append(_Begun(drill=drill, seed=seed, minutes=minutes, began_utc=now))
    first = before[0].began_utc if before else now
    return ExamTerms(minutes=minutes, attempt=len(before) + 1, first_utc=first)


def _attempts(host: Host) -> Journal[_Begun]:
    """The journal of all attempts; damaged lines are ignored."""
    path = host.state.root / "drills" / "exams.jsonl"
    return Journal(path, _Begun, skips_damaged=True, most_bytes=_MOST_BYTES)


def _before(host: Host, drill: str) -> list[_Begun]:
    """Earlier attempts at a drill, the oldest first."""
    return [each for each in _attempts(host).read() if each.drill == drill]


def minutes_left(terms: ExamTerms, began_utc: str, now_utc: str) -> float:
    """Remaining minutes of the time limit, by the clock of this computer; negative after its end."""
    passed = datetime.fromisoformat(now_utc) - datetime.fromisoformat(began_utc)
    return terms.minutes - passed.total_seconds() / 60


def require_time(terms: ExamTerms | None, began_utc: str, now_utc: str) -> None:
    """Raises DrillError when the time of an exam is over."""
    if terms is not None and minutes_left(terms, began_utc, now_utc) < 0:
        raise DrillError("the time of this exam is over", hint="'raidlab drill debrief --as-it-is' ends it")


def require_practice(terms: ExamTerms | None) -> None:
    """Raises DrillError in an exam, which cannot be given up."""
    if terms is not None:
        raise DrillError("an exam cannot be given up", hint="'raidlab drill debrief --as-it-is' ends it")


def ended(terms: ExamTerms | None, began_utc: str, now_utc: str) -> ExamEnd | None:
    """The exam of an outcome; None for practice."""
    if terms is None:
        return None
    over = max(0.0, -minutes_left(terms, began_utc, now_utc))
    return ExamEnd(minutes=terms.minutes, attempt=terms.attempt, first_utc=terms.first_utc, over_minutes=round(over, 2))


def exam_words(terms: ExamTerms, began_utc: str, now_utc: str) -> str:
    """The state of an exam, such as ``attempt 1, 12 of 45 minutes left``."""
    left = minutes_left(terms, began_utc, now_utc)
    time = f"{left:.0f} of {terms.minutes:g} minutes left" if left >= 0 else "its time is over: debrief ends it"
    return f"attempt {terms.attempt}, {time}"


def ended_words(exam: ExamEnd) -> str:
    """An ended exam: ``exam of 45 minutes, attempt 2 (the first began at …), ended 3 minutes after its time``."""
    parts = [f"exam of {counted(round(exam.minutes), 'minute')}, attempt {exam.attempt}"]
    if exam.attempt > 1:
        parts[0] += f" (the first began at {exam.first_utc})"
    if exam.over_minutes:
        parts.append(f"ended {exam.over_minutes:.1f} minutes after its time")
    return ", ".join(parts)
