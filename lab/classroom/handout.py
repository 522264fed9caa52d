"""Pages to print: a card of the app's keys, and a sheet for each lesson, as HTML with one A4 page each.

A sheet has the goal, the steps, the questions and space for answers; it omits hints, checks and explanations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from lab.cli.context import current
from lab.cli.output import out, out_json
from lab.errors import SpecError, ToolMissing
from lab.frontend import AppFrontend
from lab.host.files import write_file
from lab.lessons.course import ReadyLesson, ReadyStep, built_in_course
from lab.plugins import extension
from lab.report.page.render import render_document, render_part

if TYPE_CHECKING:
    from markupsafe import Markup

_PARTS = Path(__file__).with_name("parts")
_MOST_POINTS, _LEAST_POINTS = 10.5, 6.5
_PAGE_CHARACTERS = 2900
"""Number of characters that fill a page at ``_MOST_POINTS``."""


@dataclass(frozen=True, slots=True)
class SheetStep:
    """A step of a lesson sheet."""

    text: Markup
    question: str
    options: tuple[str, ...]
    reading: str
    unit: str


@dataclass(frozen=True, slots=True)
class LessonSheet:
    """The content of a lesson sheet."""

    number: str
    title: str
    goal: str
    minutes: int
    disks: int
    language: str
    steps: tuple[SheetStep, ...]
    font_points: float


def handout(
    what: Annotated[Literal["keys", "lessons"], Parameter(help="A card of the app's keys, or sheets for lessons.")],
    *lessons: Annotated[str, Parameter(help="Lessons by number or id; none: all of them.")],
    to: Annotated[Path, Parameter(help="The .html file to write; print it from a browser.")],
    seed: Annotated[str, Parameter(help="The word that varies the lessons, as in 'raidlab lesson start'.")] = "",
    language: Annotated[str, Parameter(help="Language of the lessons, where there is a translation.")] = "en",
) -> None:
    """Write a page to print: the app's keys on one page, or each lesson on a page of its own, without answers."""
    context = current()
    if what == "keys" and (lessons or seed):
        raise SpecError("the card of keys has no lessons and no seed", hint="raidlab handout keys --to keys.html")
    pages = 1 if what == "keys" else len(lessons or built_in_course().ids)
    write_file(to, (key_page() if what == "keys" else lesson_pages(lessons, seed=seed, language=language)).encode())
    if context.json:
        out_json({"file": str(to), "pages": pages})
    else:
        out(f"{to}: {pages} {'page' if pages == 1 else 'pages'}, A4; print it from a browser")


def key_page() -> str:
    """The card of keys as HTML. Raises ToolMissing without the app, RequirementMissing without jinja2."""
    app = extension(AppFrontend)
    if app is None:
        raise ToolMissing("the app is not installed", hint="install raidlab with its package tui")
    return _render("keys.html.jinja", "keys", "raidlab: keys", sections=app.key_card())


def lesson_pages(names: Sequence[str], *, seed: str, language: str) -> str:
    """The sheets of these lessons, or of all.

    Raises LessonError for an unknown lesson, RequirementMissing without jinja2.
    """
    course = built_in_course()
    sheets = [_sheet(course.find(name).ready(seed, language)) for name in names or course.ids]
    return _render("lessons.html.jinja", "lessons", "raidlab: lessons", sheets=sheets, seed=seed)


def _render(template: str, kind: str, title: str, **values: object) -> str:
    style = (_PARTS / "handout.css").read_text(encoding="utf-8")
    return render_document(render_part(template, _PARTS, **values), title=title, style=style, kind=kind)


def _sheet(lesson: ReadyLesson) -> LessonSheet:
    steps = tuple(map(_step, lesson.steps))
    length = sum(len(each.say) + 90 for each in lesson.steps)
    length += sum(len(" ".join(each.options)) + len(each.question) + len(each.reading) + 60 for each in steps)
    points = _MOST_POINTS * min(1.0, (_PAGE_CHARACTERS / length) ** 0.5)
    return LessonSheet(
        number=lesson.id.split("-")[0].lstrip("0"),
        title=lesson.title,
        goal=lesson.goal,
        minutes=lesson.minutes,
        disks=lesson.disks,
        language=lesson.language,
        steps=steps,
        font_points=round(max(_LEAST_POINTS, points), 1),
    )


def _step(step: ReadyStep) -> SheetStep:
    return SheetStep(
        text=_html(step.say),
        question=step.ask.question if step.ask else "",
        options=tuple(step.ask.options.values()) if step.ask else (),
        reading=step.read.question if step.read else "",
        unit=step.read.unit if step.read else "",
    )


def _html(markdown: str) -> Markup:
    """Markdown as HTML; HTML in the Markdown is escaped."""
    from markdown_it import MarkdownIt
    from markupsafe import Markup

    return Markup(MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown))
