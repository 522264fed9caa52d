"""Sheets for grading: one line a bundle, or with a roster one line a student, with points by a scale.

For the gradebooks of learning platforms: Moodle takes any CSV file whose columns are mapped by hand (docs.moodle.org,
Grade import); Canvas takes the columns of its own export (Student, ID, SIS User ID, SIS Login ID, Section, then one
for each assignment) with a second line of the points that are possible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from lab.classroom.roster import Assignment, Student
from lab.classroom.scale import (
    CountedWork,
    Scale,
    Worth,
    chosen_try,
    counted,
    drill_worth,
    lesson_worth,
    most_points,
    points_words,
)
from lab.classroom.standing import DrillTry, LessonTry, best_try
from lab.classroom.telling import MOST_NAMES, file_words, listed
from lab.classroom.view import ClassView
from lab.drills.schema import catalogue
from lab.lessons.course import built_in_course
from lab.tables import as_csv

TOTAL = "raidlab total"
_OF_LESSON = ("steps done", "every hint", "by the lab", "done UTC")
_OF_DRILL = ("verdict", "saved percent", "seed", "minutes", "hints", "resets", "tries", "exam", "ended UTC", "file")


@dataclass(slots=True)
class Line:
    """What one student handed in, or, without a roster, what one bundle holds."""

    student: Student | None
    files: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    lessons: dict[str, LessonTry] = field(default_factory=dict)
    """Of each lesson the progress that is furthest."""
    tries: dict[str, list[DrillTry]] = field(default_factory=dict)
    """Of each drill all tries, each once."""
    measured_utc: list[str] = field(default_factory=list)

    @property
    def last_utc(self) -> str:
        """When the newest of the work was finished, as the bundles say; empty: there is none."""
        done = [each.last_done_utc for each in self.lessons.values()]
        ended = [each.ended_utc for tries in self.tries.values() for each in tries]
        return max((*done, *ended, *self.measured_utc), default="")

    def worth(self, scale: Scale, work: Mapping[str, CountedWork]) -> dict[str, Worth]:
        """Points of each lesson and drill that counts and was done."""
        found: dict[str, Worth] = {}
        for name, line in work.items():
            tried = chosen_try(scale, line, self.tries.get(name, ()))
            if tried is not None:
                found[name] = drill_worth(scale, line, tried)
            elif name in self.lessons:
                found[name] = lesson_worth(scale, line, self.lessons[name])
        return found


def work_names(found: ClassView) -> tuple[list[str], list[str]]:
    """Ids of lessons and of drills: the course's, then others that were handed in."""
    lessons = dict.fromkeys([*built_in_course().ids, *(each.lesson for each in found.practice.progress)])
    drills = dict.fromkeys([*catalogue(), *(each.drill for each in found.practice.drills)])
    return list(lessons), list(drills)


def key_of_files(found: ClassView) -> dict[str, str]:
    """Every bundle -> the key that signed it; empty for one that cannot be read."""
    keys = {file: key for key, files in found.keys.items() for file in files}
    return {file: keys.get(file, "") for file in sorted({*keys, *found.problems})}


def lines_of(found: ClassView, students: Sequence[Student] = (), assignment: Assignment | None = None) -> list[Line]:
    """A line for each student in the order of the roster, or for each bundle. Bundles of nobody have a line too."""
    keys = key_of_files(found)
    lines = {student: Line(student) for student in students}
    others: dict[str, Line] = {}
    by_file: dict[str, Line] = {}
    for file, key in keys.items():
        student = assignment.owners.get(file) if assignment else None
        line = lines[student] if student else others.setdefault(file, Line(None))
        by_file[file] = line
        line.files.append(file)
        if key and key not in line.keys:
            line.keys.append(key)
    for progress in found.practice.progress:
        _take_lesson(by_file[progress.file], progress)
    for each in found.practice.tries:
        tries = by_file[each.file].tries.setdefault(each.drill, [])
        if all(each.digest != other.digest for other in tries):
            tries.append(each)
    for file, created_utc in found.measured:
        by_file[file].measured_utc.append(created_utc)
    return [*lines.values(), *others.values()]


def _take_lesson(line: Line, progress: LessonTry) -> None:
    before = line.lessons.get(progress.lesson)
    if before is None or (progress.is_passed, progress.steps_done) > (before.is_passed, before.steps_done):
        line.lessons[progress.lesson] = progress


def grading_sheet(
    found: ClassView, students: Sequence[Student] = (), assignment: Assignment | None = None, scale: Scale | None = None
) -> str:
    """The whole sheet as CSV: who, when, each lesson, each drill, points by the scale, and what to ask about."""
    lessons, drills = work_names(found)
    work = counted(scale, lessons, drills) if scale else {}
    head = ["name", "id", "email"] if students else []
    head += ["file", "key", "last work UTC", "lessons passed", "lessons"]
    head += [f"{lesson} {word}" for lesson in lessons for word in _OF_LESSON]
    head += [f"{drill} {word}" for drill in drills for word in _OF_DRILL]
    head += [f"{name} points" for name in work] + (["points", "points possible", "late"] if scale else [])
    notes = _Notes(found)
    body: list[list[object]] = []
    for line in lines_of(found, students, assignment):
        who = [line.student.name, line.student.id, line.student.email] if line.student else [""] * 3
        row: list[object] = [*(who if students else []), listed(line.files), listed(line.keys), line.last_utc]
        row += [sum(each.is_passed for each in line.lessons.values()), len(lessons)]
        for lesson in lessons:
            row += _of_lesson(line.lessons.get(lesson))
        for drill in drills:
            row += _of_drill(line.tries.get(drill, ()))
        if scale:
            row += _of_points(scale, work, line, drills)
        body.append([*row, "; ".join(notes.of(line)), "; ".join(_problems(found, line, assignment))])
    return as_csv([*head, "copies", "problems"], body)


def _of_points(scale: Scale, work: Mapping[str, CountedWork], line: Line, drills: Sequence[str]) -> Iterator[object]:
    worth = line.worth(scale, work)
    yield from (worth[name].points if name in worth else "" for name in work)
    yield round(sum(each.points for each in worth.values()), 3)
    yield round(sum(most_points(scale, each, is_drill=name in drills) for name, each in work.items()), 3)
    yield points_words(worth)


def _of_lesson(progress: LessonTry | None) -> Iterable[object]:
    if progress is None:
        return [""] * len(_OF_LESSON)
    done_utc = progress.last_done_utc if progress.is_passed else ""
    return progress.steps_done, len(progress.all_hints), len(progress.by_lab), done_utc


def _of_drill(tries: Sequence[DrillTry]) -> Iterable[object]:
    if not tries:
        return [""] * len(_OF_DRILL)
    best = best_try(tries)
    what = file_words(best.drill, best.drill_file)
    times = best.minutes, best.hints, best.resets, len(tries), _exam(tries), best.ended_utc
    return best.verdict, best.saved_percent, best.seed, *times, what


def _exam(tries: Sequence[DrillTry]) -> str:
    """What was done as an exam: ``saved; attempt 2: lost, 3.5 min over``."""
    told = []
    for each in sorted((each for each in tries if each.exam_attempt), key=lambda each: each.exam_attempt):
        attempt = f"attempt {each.exam_attempt}: " if each.exam_attempt > 1 else ""
        over = f", {each.exam_over_minutes:g} min over" if each.exam_over_minutes else ""
        told.append(f"{attempt}{each.verdict}{over}")
    return "; ".join(told)


def _problems(found: ClassView, line: Line, assignment: Assignment | None) -> Iterator[str]:
    yield from (found.problems[file] for file in line.files if file in found.problems)
    if line.student is None:
        if assignment:
            yield "belongs to no student of the roster"
        return
    if not line.files:
        yield "nothing was handed in"
    if len(line.keys) > 1:
        yield f"{len(line.keys)} keys: raidlab was set up anew, or another computer was used"
    if line.student.seed:
        done = [(each.lesson, each.seed) for each in line.lessons.values()]
        done += [(each.drill, each.seed) for tries in line.tries.values() for each in tries]
        wrong = [name for name, seed in done if seed != line.student.seed]
        if wrong:
            yield f"another seed than '{line.student.seed}': {listed(list(dict.fromkeys(wrong)))}"


class _Notes:
    """What stands in other files too, by file."""

    def __init__(self, found: ClassView) -> None:
        self._told: dict[str, list[tuple[str, tuple[str, ...], str]]] = {}
        for copy in found.practice.copies:
            self._add(copy.files, f"{copy.what} as in", ", altered" if copy.is_altered else "")
        for copy in found.copies:
            self._add(copy.files, f"a measurement ({copy.what}) as in", ", altered" if copy.is_altered else "")
        for names in found.keys.values():
            if len(names) > 1:
                self._add(names, "the key of")

    def _add(self, files: Sequence[str], text: str, after: str = "") -> None:
        for file in files:
            self._told.setdefault(file, []).append((text, tuple(files), after))

    def of(self, line: Line) -> Iterator[str]:
        """Sentences about one line; what a student's own bundles share is none."""
        for file in line.files:
            for text, files, after in self._told.get(file, ()):
                if line.student and set(files) <= set(line.files):
                    continue
                # Of a key that signed thousands, no list for each of them.
                others = listed([name for name in files[: MOST_NAMES + 1] if name != file], len(files) - 1)
                yield f"{text} {others}{after}"


def moodle_sheet(found: ClassView, students: Sequence[Student], assignment: Assignment, scale: Scale) -> str:
    """For Moodle's *Import, CSV file*: map ``ID number`` or ``Email address``, and each column to a grade item."""
    lessons, drills = work_names(found)
    work = counted(scale, lessons, drills)
    body: list[list[object]] = []
    for line in lines_of(found, students, assignment):
        if line.student:
            worth = line.worth(scale, work)
            points = [worth[name].points if name in worth else "" for name in work]
            total = round(sum(each.points for each in worth.values()), 3)
            body.append([line.student.id, line.student.name, line.student.email, *points, total])
    return as_csv(["ID number", "Full name", "Email address", *work, TOTAL], body)


def canvas_sheet(found: ClassView, students: Sequence[Student], assignment: Assignment, scale: Scale) -> str:
    """For Canvas's *Import* in the gradebook; ``ID`` is empty unless the roster is Canvas's own export."""
    lessons, drills = work_names(found)
    work = counted(scale, lessons, drills)
    possible = [most_points(scale, each, is_drill=name in drills) for name, each in work.items()]
    body: list[list[object]] = [["    Points Possible", "", "", "", "", *possible, round(sum(possible), 3)]]
    for line in lines_of(found, students, assignment):
        if line.student:
            worth = line.worth(scale, work)
            points = [worth[name].points if name in worth else "" for name in work]
            total = round(sum(each.points for each in worth.values()), 3)
            who = [line.student.name, line.student.canvas_id, line.student.id, line.student.login, line.student.section]
            body.append([*who, *points, total])
    return as_csv(["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *work, TOTAL], body)
