"""Practice in bundles: writes and reads the progress in lessons and the outcomes of drills.

The content of a bundle is untrusted: it is decoded, its numbers are bounded, and its strings are made printable before
any other code uses them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from lab.classroom.bundle import DRILLS, LESSONS, Bundle, read_practice
from lab.drills.case import OUTCOME_VERSION, DrillOutcome, DrillStore
from lab.drills.verdict import DrillVerdict
from lab.errors import LabError, ResultError
from lab.gates.names import is_name
from lab.gates.text import shortened, visible
from lab.lessons.course import is_lesson_name
from lab.lessons.engine import FORMAT_VERSION as PROGRESS_VERSION
from lab.lessons.engine import Progress
from lab.lessons.schema import HINTS
from lab.lessons.student import LessonStore
from lab.machine import Host
from lab.results.record import decode_visible, refuse_newer

_MOST_COUNT = 1_000_000
"""Maximum number of hints, resets or minutes; a million minutes are almost two years."""
_MOST_BYTES = 1 << 53
_MOST_PARTS = 1000
"""Maximum number of steps in a lesson, or mistakes in a drill."""
_LONGEST_WORD = 200
"""Maximum length of titles, seeds and times, which tables show."""
_ASK = "ask for a new export"
Kind = TypeVar("Kind", Progress, DrillOutcome)


def practice_of(host: Host) -> dict[str, bytes]:
    """All lessons and drills done on this computer: path in the bundle -> content.

    Raises LessonError for damaged progress, ResultError if there is no practice.
    """
    store = LessonStore(host.state)
    found: dict[str, bytes] = {}
    for path in sorted((host.state.root / LESSONS).glob("*.json")):
        progress = store.progress(path.stem) if is_lesson_name(path.stem) else None
        if progress is not None:
            found[f"{LESSONS}/{path.name}"] = _text(progress)
    found |= {f"{DRILLS}/{outcome.id}.json": _text(outcome) for outcome in DrillStore(host).all()}
    if not found:
        raise ResultError("there is no practice to hand in yet", hint="begin with 'raidlab lesson' or 'raidlab drill'")
    return found


def _text(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1)


def read_all(bundle: Bundle) -> Iterator[Progress | DrillOutcome | str]:
    """Each lesson and ended drill of a bundle, or an error message for one that cannot be read."""
    for place, data in read_practice(bundle):
        folder, _, name = place.partition("/")
        stem = name.removesuffix(".json")
        source = f"{bundle.source}/{place}"
        try:
            yield decode_outcome(data, stem, source) if folder == DRILLS else decode_progress(data, stem, source)
        except LabError as error:
            yield error.message


def decode_outcome(data: bytes, outcome_id: str, source: str) -> DrillOutcome:
    """An ended drill from a bundle. Raises ResultError for invalid values or a newer format."""
    outcome = _decoded(data, DrillOutcome, source)
    refuse_newer(source, "drill", outcome.format_version, OUTCOME_VERSION)
    is_good = (
        outcome.id == outcome_id
        and is_name(outcome.drill)
        and outcome.verdict in list(DrillVerdict)
        and 0 <= outcome.saved_percent <= 100
        and 0 <= (outcome.kept_percent or 0.0) <= 100
        and _is_count(outcome.minutes, outcome.hints, outcome.resets, outcome.exam.attempt if outcome.exam else 0)
        and all(0 <= count < _MOST_BYTES for count in (*_counts(outcome), *outcome.blocks.values()))
        and len(outcome.mistakes) <= _MOST_PARTS
        and _are_short(*(mistake.id for mistake in outcome.mistakes))
        and _are_short(
            outcome.title, outcome.drill_file, outcome.seed, outcome.target, outcome.began_utc, outcome.ended_utc
        )
    )
    return _require(outcome, is_good, source)


def _counts(outcome: DrillOutcome) -> tuple[int, ...]:
    return (outcome.touched_bytes, outcome.changed_bytes, outcome.gone_names)


def decode_progress(data: bytes, lesson_id: str, source: str) -> Progress:
    """The progress in a lesson from a bundle. Raises ResultError for invalid values or a newer format."""
    progress = _decoded(data, Progress, source)
    refuse_newer(source, "lesson", progress.format_version, PROGRESS_VERSION)
    is_good = (
        progress.lesson == lesson_id
        and is_lesson_name(lesson_id)
        and len(progress.steps) <= _MOST_PARTS
        and all(0 <= done.hints <= HINTS for done in progress.steps.values())
        and _are_short(*progress.steps, progress.seed, progress.target, progress.began_utc, *_words(progress))
    )
    return _require(progress, is_good, source)


def _words(progress: Progress) -> Iterator[str]:
    for done in progress.steps.values():
        yield from (done.began_utc, done.done_utc, done.answer, done.reading)


def is_passed(progress: Progress) -> bool:
    """Whether all steps are done; each step is added when the one before it is done (lab.lessons.engine)."""
    return bool(progress.steps) and all(map(progress.is_done, progress.steps))


def work_digest(work: Progress | DrillOutcome) -> str:
    """A hash of what was done and when, the same for copies of the same work even if a copy's figures were changed.

    It is distinctive: start and end are in seconds, commands in tenths of a second, and disks have random UUIDs.
    """
    if isinstance(work, Progress):
        seen: Mapping[str, Any] = {"lesson": work.lesson, "began": work.began_utc, "steps": work.steps}
    else:
        names = ("drill", "began_utc", "ended_utc", "commands", "before", "after", "changed")
        seen = {name: getattr(work, name) for name in names}
    return hashlib.sha256(msgspec.json.encode(seen, order="deterministic")).hexdigest()


def _decoded(data: bytes, kind: type[Kind], source: str) -> Kind:
    try:
        return decode_visible(data, kind)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ResultError(f"'{source}' is damaged: {visible(shortened(str(error), 200))}", hint=_ASK) from None


def _require(value: Kind, is_good: bool, source: str) -> Kind:
    if is_good:
        return value
    raise ResultError(f"'{source}' says what no raidlab writes", hint=_ASK)


def _is_count(*numbers: float) -> bool:
    return all(math.isfinite(number) and 0 <= number <= _MOST_COUNT for number in numbers)


def _are_short(*words: str) -> bool:
    return all(len(word) <= _LONGEST_WORD for word in words)
