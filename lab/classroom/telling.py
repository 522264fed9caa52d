"""How a class practised, in tables, in sentences, and as a sheet for grading."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from lab.classroom.standing import ClassPractice, DrillStanding, DrillTry, TryStanding, best_try
from lab.classroom.view import ClassView
from lab.drills.schema import catalogue, file_digest
from lab.lessons.course import built_in_course
from lab.report.table import Column, Table, as_csv

SHARES = "shares with Wilson's 95 % interval; medians with that of order statistics, 95 % from six students on"
ANOTHER_FILE = "another file"
_MOST_NAMES = 8
_OF_DRILL = ("verdict", "saved percent", "seed", "minutes", "hints", "tries", "file")


def practice_tables(practice: ClassPractice) -> Iterator[Table]:
    """Drills by first and by best tries, mistakes, lessons; none that would be empty."""
    if practice.drills:
        yield _drill_table("Drills: each student's first try", [(each, each.first) for each in practice.drills])
        yield _drill_table("Drills: each student's best try", [(each, each.best) for each in practice.drills])
    mistakes = tuple(
        (each.drill, name, str(each.first.mistakes.get(name, 0)), str(count), str(each.first.saved.of))
        for each in practice.drills
        for name, count in each.mistakes.items()
    )
    if mistakes:
        columns = (Column("drill", False), Column("mistake", False), Column("first try"), Column("any try"))
        note = "numbers of students; what each mistake is, the debriefing tells"
        yield Table("Mistakes", (*columns, Column("of")), mistakes, (note,))
    if practice.lessons:
        body = tuple(
            (each.lesson, each.passed.text(), _counted(each.all_hints), _counted(each.by_lab))
            for each in practice.lessons
        )
        words = ("lesson", "passed", "steps with every hint taken", "steps that the lab did")
        note = "numbers of students in brackets; of a student's several bundles the one that is furthest counts"
        yield Table("Lessons", tuple(Column(word, False) for word in words), body, (SHARES, note))


def _drill_table(title: str, rows: Sequence[tuple[DrillStanding, TryStanding]]) -> Table:
    words = ("drill", "saved", "have the data", "wrote first", "data saved", "minutes", "hints", "resets")
    body = tuple(
        (
            standing.drill,
            each.saved.text(),
            each.have_data.text(),
            str(each.wrote_first),
            f"{each.saved_percent:g} %",
            each.minutes.text(1),
            f"{each.hints:.1f}",
            f"{each.resets:.1f}",
        )
        for standing, each in rows
    )
    notes = (
        SHARES,
        "saved: the data, in the array that was asked for, and nothing written before commit; "
        "have the data: also those who risked them, or did not finish",
        "data saved, minutes: medians; hints, resets: means; wrote first: students who wrote before commit",
    )
    return Table(title, tuple(Column(word, word != "drill") for word in words), body, notes)


def _counted(counts: Mapping[str, int]) -> str:
    return _listed([f"{name} ({count})" for name, count in counts.items()])


def _listed(names: Sequence[str], of: int = 0) -> str:
    """The first of them; ``of`` says how many there are, if they are not all."""
    more = (of or len(names)) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def cautions(found: ClassView) -> Iterator[str]:
    """What somebody who grades should ask about: copies, seeds that several share, several files of one key."""
    told: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for copy in found.practice.copies:
        what = f"{copy.what} (its figures differ, so somebody changed them)" if copy.is_altered else copy.what
        told.setdefault(("the same work", copy.files), []).append(what)
    for each in found.practice.seeds:
        seed = f"the same seed '{each.seed}'" if each.seed else "no seed, so the same case,"
        told.setdefault((seed, each.files), []).append(each.what)
    for (what, files), places in told.items():
        yield f"{what} at {_listed(places)}: {_listed(files)}"
    others: dict[str, set[str]] = {}
    for work in found.practice.tries:
        if file_words(work.drill, work.drill_file) == ANOTHER_FILE:
            others.setdefault(work.drill, set()).add(work.file)
    for drill, names in sorted(others.items()):
        yield f"another file than this raidlab's was played as {drill}: {_listed(sorted(names))}"
    for files in found.keys.values():
        if len(files) > 1:
            yield f"one key signed: {_listed(files)}"


def file_words(drill: str, digest: str) -> str:
    """Whether a drill that comes with raidlab was played from its own file; empty: so it was."""
    path = catalogue().get(drill)
    if path is None or digest == file_digest(path):
        return ""
    return ANOTHER_FILE if digest else "not recorded"


def grading_sheet(found: ClassView) -> str:
    """One line for each bundle, as CSV: lessons passed, the best try at each drill, what to ask about."""
    practice = found.practice
    drills = list(dict.fromkeys([*catalogue(), *(each.drill for each in practice.drills)]))
    lessons = {*built_in_course().ids, *(each.lesson for each in practice.progress)}
    keys = {file: key for key, files in found.keys.items() for file in files}
    head = ["file", "key", "lessons passed", "lessons"]
    head += [f"{drill} {word}" for drill in drills for word in _OF_DRILL]
    passed: dict[str, set[str]] = {}
    for progress in practice.progress:
        if progress.is_passed:
            passed.setdefault(progress.file, set()).add(progress.lesson)
    tries: dict[tuple[str, str], list[DrillTry]] = {}
    for each in practice.tries:
        tries.setdefault((each.file, each.drill), []).append(each)
    copied = _copied(found)
    body: list[list[object]] = []
    for file in sorted({*keys, *found.problems}):
        line: list[object] = [file, keys.get(file, ""), len(passed.get(file, ())), len(lessons)]
        for drill in drills:
            line += _of_drill(tries.get((file, drill), ()))
        body.append([*line, "; ".join(copied.get(file, ())), found.problems.get(file, "")])
    return as_csv([*head, "copies", "problems"], body)


def _of_drill(tries: Sequence[DrillTry]) -> Iterable[object]:
    if not tries:
        return [""] * len(_OF_DRILL)
    best = best_try(tries)
    what = file_words(best.drill, best.drill_file)
    return best.verdict, best.saved_percent, best.seed, best.minutes, best.hints, len(tries), what


def _copied(found: ClassView) -> dict[str, list[str]]:
    """File -> what stands in other files too."""
    told: dict[str, list[str]] = {}

    def tell(files: Sequence[str], text: str, after: str = "") -> None:
        for file in files:
            # Of a key that signed thousands, no list for each of them.
            others = _listed([name for name in files[: _MOST_NAMES + 1] if name != file], len(files) - 1)
            told.setdefault(file, []).append(f"{text} {others}{after}")

    for copy in found.practice.copies:
        tell(copy.files, f"{copy.what} as in", ", altered" if copy.is_altered else "")
    for names in found.copies:
        tell(names, "a measurement as in")
    for names in found.keys.values():
        if len(names) > 1:
            # One that copied from itself is told of both.
            tell(names, "a measurement as in" if names in found.copies else "the key of")
    return told
