"""Make sheets for grading, with one line per student on a roster or, without a roster, one line per bundle.

The roster is a CSV file with names and ids. Points are given according to a scale, which is a small TOML file.
"""

from __future__ import annotations

import csv
import datetime
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from lab.classroom.bundle import SUFFIX
from lab.classroom.folder import DrillTry, LessonTry
from lab.classroom.view import MOST_NAMES, ClassView, best_try, file_words, listed
from lab.drills.schema import catalogue
from lab.drills.verdict import DrillVerdict
from lab.errors import SpecError
from lab.gates.files import read_text
from lab.gates.text import visible
from lab.lessons.course import built_in_course
from lab.results.rows import grouped
from lab.tables import as_csv
from lab.tomlfile import read_toml, unknown_word
from lab.units import MIB

BUILT_IN = "standard"
Points = Annotated[float, msgspec.Meta(ge=0, le=10_000)]
Way = Literal["best", "first", "exam"]


class LessonScale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Points for a lesson. ``every_hint`` and ``by_lab`` are deductions per step."""

    passed: Points = 1.0
    every_hint: Points = 0.0
    by_lab: Points = 0.0


class ShareOf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Points that are multiplied by the share of the data that was saved."""

    share_of: Points


class DrillScale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Points for a drill by verdict, and deductions per hint and per reset."""

    attempt: Way = msgspec.field(name="try", default="best")
    hint: Points = 0.0
    reset: Points = 0.0
    verdict: dict[str, Points | ShareOf]


class ExamScale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Factors applied to the points of an exam whose rules were broken."""

    over_time: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    """Factor for an exam that ended after its time limit."""
    another_attempt: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """Factor for an attempt other than the first."""


class LateScale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The factor applied to the points of late work."""

    factor: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0


class CountedWork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A lesson or drill that counts."""

    name: str
    """The work's id, or ``lesson`` or ``drill`` with the number at the beginning of the id, such as ``drill 11``."""
    attempt: Way | None = msgspec.field(name="try", default=None)
    weight: Points = 1.0
    due: datetime.date | None = None


class Scale(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The points for lessons and drills."""

    format_version: Literal[1]
    lesson: LessonScale = LessonScale()
    drill: DrillScale
    exam: ExamScale = ExamScale()
    late: LateScale = LateScale()
    work: tuple[CountedWork, ...] = ()


@dataclass(frozen=True, slots=True)
class Worth:
    """The points of a student for one lesson or drill."""

    points: float
    late_by: str = ""
    """The due date if the work was finished after it; otherwise empty."""


def read_scale(name: str) -> Scale:
    """Read the built-in scale, or a scale from a file. Raises SpecError if keys, verdicts or points are invalid."""
    scale = read_toml(Path(__file__).with_name("scale.toml") if name == BUILT_IN else Path(name), Scale)
    for verdict in scale.drill.verdict:
        if verdict not in list(DrillVerdict):
            raise unknown_word("verdict", verdict, [each.value for each in DrillVerdict])
    return scale


def counted(scale: Scale, lessons: Sequence[str], drills: Sequence[str]) -> dict[str, CountedWork]:
    """Return the entry of each lesson and drill that counts, by id, in the order of the scale or of the course.

    Raises SpecError if a name is unknown or repeated.
    """
    if not scale.work:
        return {name: CountedWork(name=name) for name in (*lessons, *drills)}
    found: dict[str, CountedWork] = {}
    for line in scale.work:
        name = _full_name(line.name, lessons, drills)
        if name in found:
            raise SpecError(f"the scale counts {name} twice", hint="keep only one [[work]] for it")
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
    """Return the attempt that counts, or None if there is none."""
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
    """Return the points for one attempt at a drill, which are at least 0."""
    rule = scale.drill.verdict.get(work.verdict, 0.0)
    points = rule.share_of * work.saved_percent / 100 if isinstance(rule, ShareOf) else rule
    points -= scale.drill.hint * work.hints + scale.drill.reset * work.resets
    points *= scale.exam.over_time if work.exam_over_minutes else 1.0
    points *= scale.exam.another_attempt if work.exam_attempt > 1 else 1.0
    return _worth(scale, line, points, work.ended_utc)


def lesson_worth(scale: Scale, line: CountedWork, work: LessonTry) -> Worth:
    """Return the points for one lesson, which are at least 0. A lesson that was not passed earns 0."""
    off = scale.lesson.every_hint * len(work.all_hints) + scale.lesson.by_lab * len(work.by_lab)
    if not work.is_passed:
        return Worth(0.0)
    return _worth(scale, line, scale.lesson.passed - off, work.last_done_utc)


def _worth(scale: Scale, line: CountedWork, points: float, done_utc: str) -> Worth:
    is_late = line.due is not None and bool(done_utc) and done_utc[:10] > line.due.isoformat()
    worth = max(0.0, points) * line.weight * (scale.late.factor if is_late else 1.0)
    return Worth(round(worth, 3), str(line.due) if is_late else "")


def most_points(scale: Scale, line: CountedWork, *, is_drill: bool) -> float:
    """Return the maximum number of points for a lesson or drill."""
    rules = [rule.share_of if isinstance(rule, ShareOf) else rule for rule in scale.drill.verdict.values()]
    return round(line.weight * (max(rules, default=0.0) if is_drill else scale.lesson.passed), 3)


MOST_STUDENTS = 20_000
_MOST_BYTES = 8 * MIB
_LONGEST_WORD = 300
_HEADINGS = {
    "name": ("name", "full name", "student", "student name"),
    "first": ("first name", "given name", "firstname"),
    "last": ("last name", "surname", "family name", "lastname"),
    "id": ("sis user id", "id number", "student id", "idnumber", "id"),
    "canvas_id": ("canvas user id", "id"),
    "login": ("sis login id", "login", "username", "user name"),
    "email": ("email address", "email", "e-mail"),
    "section": ("section", "group", "groups"),
    "file": ("file", "files", "bundle"),
    "key": ("key",),
    "seed": ("seed",),
}
"""The headings accepted for each field, with preferred ones first. If there is also a column ``SIS User
ID``, ``ID`` is Canvas's own number.
"""
_SAMPLE = "name,id,email,seed\nÅsa Berg,1001,asa@example.org,otter\n"


@dataclass(frozen=True, slots=True)
class Student:
    """One line of the roster. Fields for which there is no column are empty."""

    name: str
    id: str
    canvas_id: str = ""
    login: str = ""
    email: str = ""
    section: str = ""
    file: str = ""
    """Prefix of the file names of the student's bundles."""
    key: str = ""
    """Fingerprint of the student's key, as ``raidlab export`` prints it."""
    seed: str = ""
    """The seed that was assigned to the student for lessons and drills."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """The assignment of bundles to students."""

    owners: Mapping[str, Student]
    """The student who owns each file."""
    problems: tuple[str, ...]
    """Messages about bundles that match no student or several students, and about keys that differ from those on the
    roster.
    """


def read_roster(path: Path) -> tuple[Student, ...]:
    """Read the students on a roster. Raises SpecError if the file is invalid or two students have the same id."""
    text = read_text(path, _MOST_BYTES, hint="export the list of participants as a CSV file")
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    try:
        # Where the comma is the decimal separator, spreadsheets write semicolons.
        delimiter = max(",;\t", key=lines[0].count) if lines else ","
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise SpecError(f"'{path}' is not a CSV file: {error}", hint="save it as CSV in UTF-8") from None
    rows = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
    columns = _columns(rows[0], path) if rows else {}
    students = tuple(_students(rows[1:], columns, path))
    if not students:
        raise SpecError(f"'{path}' does not list any student", hint=f"use this format:\n{_SAMPLE}")
    if len(students) > MOST_STUDENTS:
        raise SpecError(f"'{path}' lists {len(students)} students", hint=f"list at most {MOST_STUDENTS}")
    _refuse_doubles(students, path)
    return students


def _columns(heading: Sequence[str], path: Path) -> dict[str, int]:
    """Return the index of each field's column. Raises SpecError if names or ids are missing."""
    places = {word.casefold(): place for place, word in reversed(list(enumerate(heading)))}
    known = {name: [places[word] for word in words if word in places] for name, words in _HEADINGS.items()}
    found = {name: columns[0] for name, columns in known.items() if columns}
    # If Canvas's export does not contain the school's ids, Canvas's own number serves as both.
    if found.get("canvas_id") == found.get("id") and "student" not in places:
        found.pop("canvas_id", None)
    if "id" not in found or not {"name", "last"} & found.keys():
        raise SpecError(
            f"'{path}' has no columns for names and ids; its columns are: {visible(', '.join(heading[:12]))}",
            hint=f"name the columns in its first line, for example:\n{_SAMPLE}",
        )
    return found


def _students(rows: Iterable[Sequence[str]], columns: Mapping[str, int], path: Path) -> Iterator[Student]:
    for row in rows:
        words = {name: row[place][:_LONGEST_WORD] if place < len(row) else "" for name, place in columns.items()}
        first, last = words.pop("first", ""), words.pop("last", "")
        name = words.pop("name", "") or f"{first} {last}".strip()
        # Skip the second line of Canvas's export, and the test student that Canvas adds for teachers.
        if name.startswith("Points Possible") or name == "Student, Test" or not name:
            continue
        # Guests have no school id.
        words["id"] = next((words[each] for each in ("id", "canvas_id", "login", "email") if words.get(each)), "")
        if not words["id"]:
            raise SpecError(f"'{path}' has no id for {visible(name)}", hint="add an id, or remove the line")
        yield Student(name=name, **words)


def _refuse_doubles(students: Sequence[Student], path: Path) -> None:
    for field_name in ("id", "key", "email"):
        words = sorted(value.casefold() for each in students if (value := getattr(each, field_name)))
        if twice := [one for one, next_one in pairwise(words) if one == next_one]:
            raise SpecError(
                f"'{path}' has the {field_name} {visible(twice[0])} twice",
                hint="give each student one line and a unique id",
            )


def assign(students: Sequence[Student], keys: Mapping[str, str]) -> Assignment:
    """Assign bundles to students. ``keys`` maps each file to the key that signed it, or to an empty string if unknown.

    A bundle is assigned to a student by the first of these rules that applies:

    - It was signed with the key that the roster has for the student.
    - Its name begins with the roster's ``file``, or contains the id, the login, the part of the email address before
      the @, or the full name.
    - Its key signed another of the student's bundles.

    A file that matches several students by the same rule is not assigned.
    """
    rules = {student: _words_of(student) for student in students}
    owners: dict[str, Student] = {}
    several: dict[str, tuple[Student, ...]] = {}
    for file, key in keys.items():
        fitting = [each for each in students if key and each.key.casefold() == key.casefold()]
        fitting = fitting or _best_by_name(file, rules)
        if len(fitting) == 1:
            owners[file] = fitting[0]
        elif fitting:
            several[file] = tuple(fitting)
    signed = grouped(owners, lambda file: keys[file])
    by_key = {key: {owners[file] for file in files} for key, files in signed.items() if key}
    for file, key in keys.items():
        of_key = by_key.get(key, set())
        if file not in owners and len(of_key) == 1:
            (owners[file],) = of_key
            several.pop(file, None)
    return Assignment(owners, tuple(_problems(keys, owners, several, by_key)))


def _problems(
    keys: Mapping[str, str],
    owners: Mapping[str, Student],
    several: Mapping[str, Sequence[Student]],
    by_key: Mapping[str, set[Student]],
) -> Iterator[str]:
    for file in keys:
        if file in several:
            owners_names = " or ".join(each.name for each in several[file])
            yield f"{file} may belong to {owners_names}: add a column 'file' or 'key' to the roster"
        elif file not in owners:
            yield f"{file} matches no student on the roster: add a column 'file' or 'key' to it"
    for of_key in by_key.values():
        if len(of_key) > 1:
            yield f"one key signed bundles of {' and '.join(sorted(each.name for each in of_key))}"
    for file, student in owners.items():
        if student.key and keys[file] and student.key.casefold() != keys[file].casefold():
            yield f"{file} has {student.name}'s name, but was not signed with the key on the roster"


def _words_of(student: Student) -> list[list[list[str]]]:
    """Return the word sequences that identify a student in a file name, in four ranks, with the most reliable first."""
    names = _split(student.name)
    joined = [["".join(names)], ["".join(reversed(names))]] if len(names) > 1 else []
    of_file = [_split(student.file.removesuffix(SUFFIX))] if student.file else []
    ids = [_split(word) for word in (student.id, student.login, student.email.partition("@")[0]) if word]
    return [of_file, ids, [names, names[::-1], *joined] if len(names) > 1 else [], [names[-1:]]]


def _best_by_name(file: str, rules: Mapping[Student, Sequence[Sequence[Sequence[str]]]]) -> list[Student]:
    # A browser adds a number to the name of a second download.
    words = _split(re.sub(r"\s*\(\d+\)$", "", file.removesuffix(SUFFIX)))
    for rank in range(4):
        found = [
            (max(len(each) for each in fitting), student)
            for student, ways in rules.items()
            if (fitting := [each for each in ways[rank] if each and _is_in(each, words, at_start=rank == 0)])
        ]
        if found:
            # The longest match wins, so "ann-lee" does not match a student "ann".
            longest = max(length for length, _ in found)
            return [student for length, student in found if length == longest]
    return []


def _split(text: str) -> list[str]:
    # macOS writes the names of files in decomposed form.
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFC", text).casefold())


def _is_in(words: Sequence[str], text: Sequence[str], *, at_start: bool) -> bool:
    starts = range(1 if at_start else len(text) - len(words) + 1)
    return any(list(text[start : start + len(words)]) == list(words) for start in starts)


TOTAL = "raidlab total"
_OF_LESSON = ("steps done", "every hint", "by the lab", "done UTC")
_OF_DRILL = ("verdict", "saved percent", "seed", "minutes", "hints", "resets", "tries", "exam", "ended UTC", "file")


@dataclass(slots=True)
class Line:
    """The work of one student, or of one bundle that is not assigned to a student."""

    student: Student | None
    files: list[str] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    lessons: dict[str, LessonTry] = field(default_factory=dict)
    """The most advanced progress in each lesson."""
    tries: dict[str, list[DrillTry]] = field(default_factory=dict)
    """All different attempts at each drill."""
    measured_utc: list[str] = field(default_factory=list)

    @property
    def last_utc(self) -> str:
        done = [each.last_done_utc for each in self.lessons.values()]
        ended = [each.ended_utc for tries in self.tries.values() for each in tries]
        return max((*done, *ended, *self.measured_utc), default="")

    def worth(self, scale: Scale, work: Mapping[str, CountedWork]) -> dict[str, Worth]:
        """Return the points for each lesson and drill that counts and was attempted."""
        found: dict[str, Worth] = {}
        for name, line in work.items():
            tried = chosen_try(scale, line, self.tries.get(name, ()))
            if tried is not None:
                found[name] = drill_worth(scale, line, tried)
            elif name in self.lessons:
                found[name] = lesson_worth(scale, line, self.lessons[name])
        return found


def _work_of(found: ClassView, scale: Scale | None) -> tuple[Sequence[str], Sequence[str], Mapping[str, CountedWork]]:
    """Return the ids of all lessons and of all drills, built-in ones first, and the scale's entries for what counts."""
    lessons = list(dict.fromkeys([*built_in_course().ids, *(each.lesson for each in found.practice.progress)]))
    drills = list(dict.fromkeys([*catalogue(), *(each.drill for each in found.practice.drills)]))
    return lessons, drills, counted(scale, lessons, drills) if scale else {}


def key_of_files(found: ClassView) -> dict[str, str]:
    """Return the fingerprint of the key that signed each bundle, or an empty string if the bundle cannot be read."""
    keys = {file: key for key, files in found.keys.items() for file in files}
    return {file: keys.get(file, "") for file in sorted({*keys, *found.problems})}


def lines_of(found: ClassView, students: Sequence[Student] = (), assignment: Assignment | None = None) -> list[Line]:
    """Return a line for each student, in the order of the roster, and then one for each bundle that is not assigned."""
    keys, owners = key_of_files(found), assignment.owners if assignment else {}
    lines = {student: Line(student) for student in students}
    others = {file: Line(None) for file in keys if file not in owners}
    by_file = others | {file: lines[student] for file, student in owners.items()}
    for file, key in keys.items():
        line = by_file[file]
        line.files.append(file)
        if key and key not in line.keys:
            line.keys.append(key)
    for progress in found.practice.progress:
        lessons = by_file[progress.file].lessons
        before = lessons.get(progress.lesson)
        if before is None or (progress.is_passed, progress.steps_done) > (before.is_passed, before.steps_done):
            lessons[progress.lesson] = progress
    for each in found.practice.tries:
        tries = by_file[each.file].tries.setdefault(each.drill, [])
        if all(each.digest != other.digest for other in tries):
            tries.append(each)
    for file, created_utc in found.measured:
        by_file[file].measured_utc.append(created_utc)
    return [*lines.values(), *others.values()]


def grading_sheet(
    found: ClassView, students: Sequence[Student] = (), assignment: Assignment | None = None, scale: Scale | None = None
) -> str:
    """Return the sheet as CSV, with students, times, lessons, drills, points, copies and problems."""
    lessons, drills, work = _work_of(found, scale)
    head = ["name", "id", "email"] if students else []
    head += ["file", "key", "last work UTC", "lessons passed", "lessons"]
    head += [f"{lesson} {word}" for lesson in lessons for word in _OF_LESSON]
    head += [f"{drill} {word}" for drill in drills for word in _OF_DRILL]
    head += [f"{name} points" for name in work] + (["points", "points possible", "late"] if scale else [])
    notes = _Notes(found)
    body: list[list[object]] = []
    for line in lines_of(found, students, assignment):
        identity = [line.student.name, line.student.id, line.student.email] if line.student else [""] * 3
        row: list[object] = [*(identity if students else []), listed(line.files), listed(line.keys), line.last_utc]
        row += [sum(each.is_passed for each in line.lessons.values()), len(lessons)]
        for lesson in lessons:
            row += _of_lesson(line.lessons.get(lesson))
        for drill in drills:
            row += _of_drill(line.tries.get(drill, ()))
        if scale:
            row += _of_points(scale, work, line, drills)
        body.append([*row, "; ".join(notes.of(line)), "; ".join(_grading_problems(found, line, assignment))])
    return as_csv([*head, "copies", "problems"], body)


def _of_points(scale: Scale, work: Mapping[str, CountedWork], line: Line, drills: Sequence[str]) -> Iterator[object]:
    worth = line.worth(scale, work)
    yield from _points(worth, work)
    yield round(sum(most_points(scale, each, is_drill=name in drills) for name, each in work.items()), 3)
    yield "; ".join(f"{name} after {each.late_by}" for name, each in worth.items() if each.late_by)


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
    """Describe the attempts at an exam, for example ``saved; attempt 2: lost, 3.5 min over``."""
    texts = []
    for each in sorted((each for each in tries if each.exam_attempt), key=lambda each: each.exam_attempt):
        attempt = f"attempt {each.exam_attempt}: " if each.exam_attempt > 1 else ""
        over = f", {each.exam_over_minutes:g} min over" if each.exam_over_minutes else ""
        texts.append(f"{attempt}{each.verdict}{over}")
    return "; ".join(texts)


def _grading_problems(found: ClassView, line: Line, assignment: Assignment | None) -> Iterator[str]:
    yield from (found.problems[file] for file in line.files if file in found.problems)
    if line.student is None:
        if assignment:
            yield "matches no student on the roster"
        return
    if not line.files:
        yield "nothing was handed in"
    if len(line.keys) > 1:
        yield f"{len(line.keys)} keys: raidlab was reinstalled, or several computers were used"
    if line.student.seed:
        done = [(each.lesson, each.seed) for each in line.lessons.values()]
        done += [(each.drill, each.seed) for tries in line.tries.values() for each in tries]
        wrong = [name for name, seed in done if seed != line.student.seed]
        if wrong:
            yield f"a seed other than '{line.student.seed}': {listed(list(dict.fromkeys(wrong)))}"


class _Notes:
    """Notes, by file, about content that several bundles have in common."""

    def __init__(self, found: ClassView) -> None:
        common = [(copy.files, f"{copy.what} as in", copy.is_altered) for copy in found.practice.copies]
        common += [(copy.files, f"a measurement ({copy.what}) as in", copy.is_altered) for copy in found.copies]
        common += [(names, "the key of", False) for names in found.keys.values() if len(names) > 1]
        self._notes: dict[str, list[tuple[tuple[str, ...], str, bool]]] = {}
        for note in common:
            for file in note[0]:
                self._notes.setdefault(file, []).append(note)

    def of(self, line: Line) -> Iterator[str]:
        """Yield the notes about one line. Content that only a student's own bundles have in common is not noted."""
        for file in line.files:
            for files, text, is_altered in self._notes.get(file, ()):
                if line.student and set(files) <= set(line.files):
                    continue
                # List at most ``MOST_NAMES`` names, because a key may have signed thousands of files.
                others = listed([name for name in files[: MOST_NAMES + 1] if name != file], len(files) - 1)
                yield f"{text} {others}{', altered' if is_altered else ''}"


def moodle_sheet(found: ClassView, students: Sequence[Student], assignment: Assignment, scale: Scale) -> str:
    """Return the CSV file for Moodle's *Import > CSV file*.

    There, the user maps ``ID number`` or ``Email address``, and each column of points to a grade item.
    """
    _, _, work = _work_of(found, scale)
    body = [
        [student.id, student.name, student.email, *_points(line.worth(scale, work), work)]
        for line in lines_of(found, students, assignment)
        if (student := line.student)
    ]
    return as_csv(["ID number", "Full name", "Email address", *work, TOTAL], body)


def _points(worth: Mapping[str, Worth], work: Iterable[str]) -> list[object]:
    """Return the points for each piece of work, and their sum."""
    points = [worth[name].points if name in worth else "" for name in work]
    return [*points, round(sum(each.points for each in worth.values()), 3)]


def canvas_sheet(found: ClassView, students: Sequence[Student], assignment: Assignment, scale: Scale) -> str:
    """Return the CSV file for *Import* in Canvas's gradebook. ``ID`` is empty unless Canvas exported the roster."""
    _, drills, work = _work_of(found, scale)
    possible = [most_points(scale, each, is_drill=name in drills) for name, each in work.items()]
    body: list[list[object]] = [["    Points Possible", "", "", "", "", *possible, round(sum(possible), 3)]]
    for line in lines_of(found, students, assignment):
        if student := line.student:
            points = _points(line.worth(scale, work), work)
            body.append(
                [
                    student.name,
                    student.canvas_id,
                    "" if student.id == student.canvas_id else student.id,
                    student.login,
                    student.section,
                    *points,
                ]
            )
    return as_csv(["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *work, TOTAL], body)
