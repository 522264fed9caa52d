"""The roster of a class: a CSV file with names and ids, and which bundles are whose.

Read are lists written by hand and those that Moodle (participants, grades) and Canvas (gradebook) export: the columns
are known by their headings, and other columns are ignored.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from lab.classroom.bundle import SUFFIX
from lab.errors import SpecError
from lab.gates.files import read_text
from lab.gates.text import visible
from lab.units import MIB

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
"""Field -> headings; the first that the file has counts. Beside ``SIS User ID``, ``ID`` is Canvas's own number."""
_SAMPLE = "name,id,email,seed\nÅsa Berg,1001,asa@example.org,otter\n"


@dataclass(frozen=True, slots=True)
class Student:
    """One line of the roster; what its file does not have is empty."""

    name: str
    id: str
    canvas_id: str = ""
    login: str = ""
    email: str = ""
    section: str = ""
    file: str = ""
    """How the names of the student's bundles begin."""
    key: str = ""
    """Fingerprint of the student's key, as ``raidlab export`` prints it."""
    seed: str = ""
    """The word that the student was given for lessons and drills."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Which bundle is whose."""

    owners: Mapping[str, Student]
    """File -> student."""
    problems: tuple[str, ...] = ()
    """Sentences about bundles that belong to nobody or to several, and keys that do not fit."""
    others: Mapping[str, tuple[Student, ...]] = field(default_factory=dict)
    """Files that fit several students."""


def read_roster(path: Path) -> tuple[Student, ...]:
    """The students of a roster. Raises SpecError for a file that is none, or in which two students have one id."""
    text = read_text(path, _MOST_BYTES, hint="export the list of participants as CSV")
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    try:
        rows = list(csv.reader(lines, delimiter=_delimiter(lines[0] if lines else ""), strict=True))
    except csv.Error as error:
        raise SpecError(f"'{path}' is no CSV file: {error}", hint="save it as CSV, UTF-8") from None
    rows = [[cell.strip() for cell in row] for row in rows if any(cell.strip() for cell in row)]
    columns = _columns(rows[0], path) if rows else {}
    students = tuple(_students(rows[1:], columns))
    if not students:
        raise SpecError(f"'{path}' names no student", hint=f"such as:\n{_SAMPLE}")
    if len(students) > MOST_STUDENTS:
        raise SpecError(f"'{path}' names {len(students)} students", hint=f"at most {MOST_STUDENTS} are possible")
    _refuse_doubles(students, path)
    return students


def _delimiter(heading: str) -> str:
    """Spreadsheets write semicolons where the comma is the decimal point."""
    return max(",;\t", key=heading.count)


def _columns(heading: Sequence[str], path: Path) -> dict[str, int]:
    """Field -> its place in a row."""
    places = {word.casefold(): place for place, word in reversed(list(enumerate(heading)))}
    found: dict[str, int] = {}
    for name, words in _HEADINGS.items():
        known = [word for word in words if word in places]
        if known:
            found[name] = places[known[0]]
    if found.get("canvas_id") == found.get("id"):
        found.pop("canvas_id", None)
    if "id" not in found or not {"name", "last"} & found.keys():
        raise SpecError(
            f"'{path}' has no columns for names and ids, but: {visible(', '.join(heading[:12]))}",
            hint=f"its first line names the columns, such as:\n{_SAMPLE}",
        )
    return found


def _students(rows: Iterable[Sequence[str]], columns: Mapping[str, int]) -> Iterator[Student]:
    for row in rows:
        words = {name: row[place][:_LONGEST_WORD] if place < len(row) else "" for name, place in columns.items()}
        first, last = words.pop("first", ""), words.pop("last", "")
        name = words.pop("name", "") or f"{first} {last}".strip()
        # Canvas's second line, and the student that it makes up for teachers.
        if name.startswith("Points Possible") or name == "Student, Test" or not (name and words.get("id")):
            continue
        yield Student(name=name, **words)


def _refuse_doubles(students: Sequence[Student], path: Path) -> None:
    for field_name in ("id", "key", "email"):
        words = sorted(value.casefold() for each in students if (value := getattr(each, field_name)))
        if twice := [one for one, next_one in pairwise(words) if one == next_one]:
            raise SpecError(
                f"'{path}' has the {field_name} {visible(twice[0])} twice", hint="give each student a line and an id"
            )


def assign(students: Sequence[Student], keys: Mapping[str, str]) -> Assignment:
    """Bundles to students. ``keys``: file -> the key that signed it; empty: not known.

    In this order: the key of the roster; the file's name, which begins with the roster's ``file`` or has the id, the
    login, the part of the email address before the @ or the whole name in it; a key that signed another bundle of the
    student. A file that fits several students by the same rule is no one's.
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
    by_key: dict[str, set[Student]] = {}
    for file, student in owners.items():
        if keys[file]:
            by_key.setdefault(keys[file], set()).add(student)
    for file, key in keys.items():
        of_key = by_key.get(key, set())
        if file not in owners and len(of_key) == 1:
            owners[file] = next(iter(of_key))
            several.pop(file, None)
    return Assignment(owners, tuple(_problems(keys, owners, several, by_key)), several)


def _problems(
    keys: Mapping[str, str],
    owners: Mapping[str, Student],
    several: Mapping[str, Sequence[Student]],
    by_key: Mapping[str, set[Student]],
) -> Iterator[str]:
    for file in keys:
        if file in several:
            yield f"{file} may be that of {' or '.join(each.name for each in several[file])}: add a column file or key"
        elif file not in owners:
            yield f"{file} belongs to no student of the roster: add a column file or key"
    for of_key in by_key.values():
        if len(of_key) > 1:
            yield f"one key signed bundles of {' and '.join(sorted(each.name for each in of_key))}"
    for file, student in owners.items():
        if student.key and keys[file] and student.key.casefold() != keys[file].casefold():
            yield f"{file} is named as {student.name}'s, and signed with another key than the roster's"


def _words_of(student: Student) -> list[list[list[str]]]:
    """The ways to name a student in a file's name, strongest first: each some words that stand there in a row."""
    names = _split(student.name)
    joined = [["".join(names)], ["".join(reversed(names))]] if len(names) > 1 else []
    of_file = [_split(student.file.removesuffix(SUFFIX))] if student.file else []
    ids = [_split(word) for word in (student.id, student.login, student.email.partition("@")[0]) if word]
    return [of_file, ids, [names, names[::-1], *joined] if len(names) > 1 else [], [names[-1:]]]


def _best_by_name(file: str, rules: Mapping[Student, Sequence[Sequence[Sequence[str]]]]) -> list[Student]:
    words = _split(file.removesuffix(SUFFIX))
    for rank in range(4):
        found = [
            (max(len(each) for each in fitting), student)
            for student, ways in rules.items()
            if (fitting := [each for each in ways[rank] if each and _is_in(each, words, at_start=rank == 0)])
        ]
        if found:
            # "ann-lee" rather than "ann": of two names that fit, the longer one is meant.
            longest = max(length for length, _ in found)
            return [student for length, student in found if length == longest]
    return []


def _split(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", text.casefold())


def _is_in(words: Sequence[str], text: Sequence[str], *, at_start: bool) -> bool:
    starts = range(1 if at_start else len(text) - len(words) + 1)
    return any(list(text[start : start + len(words)]) == list(words) for start in starts)
