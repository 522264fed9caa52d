"""The practice of a class as tables, and notes for the instructor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lab.classroom.standing import ClassPractice, DrillStanding, TryStanding
from lab.classroom.view import ClassView
from lab.drills.schema import catalogue, file_digest
from lab.tables import Column, Table

SHARES = "shares with Wilson's 95 % interval; medians with that of order statistics, 95 % from six students on"
ANOTHER_FILE = "another file"
MOST_NAMES = 8


def practice_tables(practice: ClassPractice) -> Iterator[Table]:
    """Tables of the drills by first and by best try, of mistakes, and of lessons; empty ones are left out."""
    if practice.drills:
        yield _drill_table("Drills: each student's first try", [(each, each.first) for each in practice.drills])
        yield _drill_table("Drills: each student's best try", [(each, each.best) for each in practice.drills])
    mistakes = tuple(
        (each.drill, name, each.first.mistakes.get(name, 0), count, each.first.saved.of)
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
            each.wrote_first,
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
    return listed([f"{name} ({count})" for name, count in counts.items()])


def listed(names: Sequence[str], of: int = 0) -> str:
    """The first ``MOST_NAMES`` names and the number of the others; ``of`` is the total if ``names`` is incomplete."""
    more = (of or len(names)) - MOST_NAMES
    return ", ".join(names[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def cautions(found: ClassView) -> Iterator[str]:
    """Notes for grading: copies, shared seeds, modified drill files, and several files of one key."""
    told: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for kind, copies in (("the same measurement", found.copies), ("the same work", found.practice.copies)):
        for copy in copies:
            what = f"{copy.what} (its figures differ, so somebody changed them)" if copy.is_altered else copy.what
            told.setdefault((kind, copy.files), []).append(what)
    for each in found.practice.seeds:
        seed = f"the same seed '{each.seed}'" if each.seed else "no seed, so the same case,"
        told.setdefault((seed, each.files), []).append(each.what)
    for (what, files), places in told.items():
        yield f"{what} at {listed(places)}: {listed(files)}"
    others: dict[str, set[str]] = {}
    for work in found.practice.tries:
        if file_words(work.drill, work.drill_file) == ANOTHER_FILE:
            others.setdefault(work.drill, set()).add(work.file)
    for drill, names in sorted(others.items()):
        yield f"another file than this raidlab's was played as {drill}: {listed(sorted(names))}"
    for files in found.keys.values():
        if len(files) > 1:
            yield f"one key signed: {listed(files)}"


def file_words(drill: str, digest: str) -> str:
    """Whether a built-in drill was played from its own file: empty if it was, else the difference in words."""
    path = catalogue().get(drill)
    if path is None or digest == file_digest(path):
        return ""
    return ANOTHER_FILE if digest else "not recorded"
