"""The commands ``raidlab export``, ``raidlab class``, which evaluates a folder of bundles, and ``raidlab handout``.

A printed sheet of a lesson contains the goal, the steps, the questions and space for answers, but no hints, checks or
explanations. Each sheet is one A4 page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from lab.classroom.bundle import DRILLS, LESSONS, export_results
from lab.classroom.folder import practice_of
from lab.classroom.grading import (
    BUILT_IN,
    assign,
    canvas_sheet,
    grading_sheet,
    key_of_files,
    moodle_sheet,
    read_roster,
    read_scale,
)
from lab.classroom.view import (
    ClassRow,
    ClassView,
    cautions,
    class_page,
    practice_tables,
    view_class,
)
from lab.cli.context import ProgressBar, current, fitted, out, out_json, table
from lab.errors import ResultError, SpecError, ToolMissing
from lab.frontend import AppFrontend
from lab.gates.text import visible
from lab.host.files import write_file
from lab.lessons.course import ReadyLesson, built_in_course
from lab.plugins import extension
from lab.report.page.blocks import render_document, render_page, render_part
from lab.results.rows import grouped
from lab.results.store import ResultStore
from lab.tomlfile import unknown_word
from lab.units import counted

if TYPE_CHECKING:
    from markupsafe import Markup

_PARTS = Path(__file__).with_name("parts")
_MOST_POINTS, _LEAST_POINTS = 10.5, 6.5
_PAGE_CHARACTERS = 2900
"""Number of characters that fill a page at ``_MOST_POINTS``."""


def handout(
    what: Annotated[Literal["keys", "lessons"], Parameter(help="A card of the app's keys, or sheets for lessons.")],
    *lessons: Annotated[str, Parameter(help="Lessons by number or id. By default, all of them are included.")],
    to: Annotated[Path, Parameter(help="The .html file to write, which you can print from a browser.")],
    seed: Annotated[str, Parameter(help="The seed of the lessons' values, as for 'raidlab lesson start'.")] = "",
    language: Annotated[str, Parameter(help="Language of the lessons that have a translation.")] = "en",
) -> None:
    """Write a page for printing that contains the app's keys, or lessons without their answers."""
    context = current()
    if what == "keys" and (lessons or seed):
        raise SpecError(
            "the key card does not accept lessons or a seed", hint="run 'raidlab handout keys --to keys.html'"
        )
    pages = 1 if what == "keys" else len(lessons or built_in_course().ids)
    write_file(to, (key_page() if what == "keys" else lesson_pages(lessons, seed=seed, language=language)).encode())
    context.out({"file": str(to), "pages": pages}, f"{to}: {counted(pages, 'page')}, A4; print it from a browser")


def key_page() -> str:
    """Return the key card as HTML.

    Raises ToolMissing if the app is missing, and RequirementMissing if jinja2 is missing.
    """
    app = extension(AppFrontend)
    if app is None:
        raise ToolMissing("the app is not installed", hint="install raidlab with the package 'tui'")
    return _render("keys.html.jinja", "keys", "raidlab: keys", sections=app.key_card())


def lesson_pages(names: Sequence[str], *, seed: str, language: str) -> str:
    """Return the sheets of these lessons, or of all lessons, as HTML.

    Raises LessonError if a lesson is unknown, and RequirementMissing if jinja2 is missing.
    """
    course = built_in_course()
    lessons = [course.find(name).ready(seed, language) for name in names or course.ids]
    sheets = [(each, _font_points(each), [_html(step.text) for step in each.steps]) for each in lessons]
    return _render("lessons.html.jinja", "lessons", "raidlab: lessons", sheets=sheets, seed=seed)


def _render(template: str, kind: str, title: str, **values: object) -> str:
    style = (_PARTS / "handout.css").read_text(encoding="utf-8")
    return render_document(render_part(template, _PARTS, **values), title=title, style=style, kind=kind)


def _font_points(lesson: ReadyLesson) -> float:
    """Return the font size, in points, at which the lesson fits on one page."""
    length = 0
    for step in lesson.steps:
        asked = " ".join([step.ask.question, *step.ask.options.values()]) if step.ask else ""
        length += len(step.text) + len(asked) + len(step.read.question if step.read else "") + 150
    points = _MOST_POINTS * min(1.0, math.sqrt(_PAGE_CHARACTERS / length))
    return round(max(_LEAST_POINTS, points), 1)


def _html(markdown: str) -> Markup:
    """Convert Markdown to HTML. HTML in the Markdown is escaped."""
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown))


_PLOT_WIDTH = 40


def classroom(
    folder: Annotated[Path, Parameter(help="A folder of bundles, one or more for each student.")],
    *,
    experiment: Annotated[str | None, Parameter(help="Only this experiment.")] = None,
    grades: Annotated[
        Path | None, Parameter(help="Also write this .csv file for grading, with one line per bundle or student.")
    ] = None,
    roster: Annotated[
        Path | None, Parameter(help="A .csv file with the students' names and ids, as exported by Moodle or Canvas.")
    ] = None,
    points: Annotated[
        str | None, Parameter(help="The scale for points, which is 'standard' or a .toml file (docs/instructor.md).")
    ] = None,
    moodle: Annotated[Path | None, Parameter(help="Also write this .csv file for Moodle's grade import.")] = None,
    canvas: Annotated[Path | None, Parameter(help="Also write this .csv file for Canvas's gradebook.")] = None,
    page: Annotated[Path | None, Parameter(help="Also write this .html page with plots and without names.")] = None,
    title: Annotated[str, Parameter(help="Title of that page.")] = "Class results",
) -> None:
    """Show what a class measured and practised, with confidence intervals.

    The command shows the speed-up of each level over the student's own disk, how many students saved the data in each
    drill, their mistakes and times, and how many students passed each lesson. Edited or damaged bundles are reported
    and left out. Copies, seeds that several students share, and outliers are also reported.
    """
    context = current()
    if (moodle or canvas) and not roster:
        raise SpecError("--moodle and --canvas need the names of the students", hint="add --roster FILE.csv")
    if (roster or points) and not (grades or moodle or canvas):
        raise SpecError(
            "--roster and --points require --grades, --moodle or --canvas", hint="add one of these, with a FILE.csv"
        )
    with ProgressBar(quiet=context.quiet) as bar:
        found = view_class(folder, context.host.state.root / "class", bar.show)
    chosen = _only(found, experiment) if experiment else found
    for problem in found.problems.values():
        context.narrator.notice(problem)
    for caution in cautions(found):
        context.narrator.notice(visible(caution))
    _write_sheets(found, grades=grades, roster=roster, points=points, moodle=moodle, canvas=canvas)
    if page is not None:
        write_file(page, render_page(class_page(chosen, visible(title))).encode())
    if context.json:
        out_json(chosen)
        return
    if not (chosen.rows or chosen.left_out or found.practice.drills or found.practice.lessons):
        raise ResultError(
            f"no bundle in '{folder}' contains practice, or results of two arrays in one experiment",
            hint="create bundles with 'raidlab export'",
        )
    practised = [] if experiment else [fitted(table) for table in practice_tables(found.practice)]
    out("\n\n".join([_text(chosen), *practised]))


def _only(found: ClassView, experiment: str) -> ClassView:
    """Return the view with only the measurements of one experiment. Raises SpecError if there are none."""
    rows = tuple(row for row in found.rows if row.experiment == experiment)
    left_out = tuple(each for each in found.left_out if each.experiment == experiment)
    if not (rows or left_out):
        known = {row.experiment for row in found.rows} | {each.experiment for each in found.left_out}
        raise unknown_word("experiment", experiment, known)
    return replace(found, rows=rows, left_out=left_out)


def _write_sheets(
    found: ClassView,
    *,
    grades: Path | None,
    roster: Path | None,
    points: str | None,
    moodle: Path | None,
    canvas: Path | None,
) -> None:
    """Write the requested sheets, and print a notice about each unassigned bundle.

    Raises SpecError before any sheet is written.
    """
    narrator = current().narrator
    students = read_roster(roster) if roster else ()
    assignment = assign(students, key_of_files(found)) if students else None
    scale = read_scale(points or BUILT_IN) if points or moodle or canvas else None
    sheets: dict[Path, str] = {}
    if grades:
        sheets[grades] = grading_sheet(found, students, assignment, scale)
    if assignment and scale:
        if moodle:
            sheets[moodle] = moodle_sheet(found, students, assignment, scale)
        if canvas:
            sheets[canvas] = canvas_sheet(found, students, assignment, scale)
    for problem in assignment.problems if assignment else ():
        narrator.notice(visible(problem))
    for file, text in sheets.items():
        write_file(file, text.encode())


def _text(found: ClassView) -> str:
    parts = [f"{found.results} results in {found.files} bundles, signed by {counted(len(found.keys), 'key')}"]
    for experiment, group in grouped(found.rows, lambda row: row.experiment).items():
        highest = max(row.highest for row in group)
        lines = [
            (
                f"{row.array} ÷ {row.baseline}",
                f"{row.workload}, {row.direction}",
                row.results,
                f"{row.median:.2f}",
                f"{row.first_quartile:.2f}–{row.third_quartile:.2f}",
                f"{row.lowest:.2f}–{row.highest:.2f}",
                box(row, highest),
            )
            for row in group
        ]
        scale = f"0 to {highest:.2f}"
        headings = (experiment, "of", "results", "median", "middle half", "all", scale)
        parts.append(table(headings, lines, right=("results", "median")))
        parts += [
            f"far from the others in {row.array}, {row.workload}: {', '.join(row.far)}" for row in group if row.far
        ]
    parts += [f"{each.experiment}, {each.words}" for each in found.left_out]
    return "\n\n".join(parts)


def box(row: ClassRow, highest: float) -> str:
    """Return a box plot in one line, with ─ for the range, █ for the middle half and ┃ for the median.

    The scale begins at 0.
    """

    def place(value: float) -> int:
        return min(_PLOT_WIDTH - 1, int(value / highest * _PLOT_WIDTH)) if highest > 0 else 0

    line = [" "] * _PLOT_WIDTH
    for start, end, mark in ((row.lowest, row.highest, "─"), (row.first_quartile, row.third_quartile, "█")):
        for column in range(place(start), place(end) + 1):
            line[column] = mark
    line[place(row.median)] = "┃"
    return "".join(line).rstrip()


def export(names: Sequence[str], file: Path, practice: bool = False) -> None:
    """Write results and, if ``practice`` is true, all lessons and finished drills to one signed file."""
    context = current()
    own = practice_of(context.host) if practice else {}
    ids = export_results(ResultStore(context.host.state.results), names, file, own)
    counts = [sum(place.startswith(folder) for place in own) for folder in (LESSONS, DRILLS)]
    work = [f"{counted(counts[0], 'lesson')} and {counted(counts[1], 'finished drill')}"] if practice else []
    value = {"exported": ids, "practice": sorted(own), "file": str(file)}
    context.out(value, f"{file}: {', '.join([*ids, *work])}")
