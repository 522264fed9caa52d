"""Lessons as text for a terminal: steps, checks, hints, explanations."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lab.checks.readings import Reading
from lab.cli.context import Context
from lab.cli.output import out, out_json
from lab.gates.foreign import FileKind, foreign_lines, foreign_note
from lab.lessons.actions import RunMeasurement
from lab.lessons.course import LessonWords
from lab.lessons.engine import StepView
from lab.lessons.ready import ReadyStep
from lab.lessons.student import CourseLine, LessonSession
from lab.lessons.telling import ToldCheck, is_predicted, shows_solution, tell

PASSED, OPEN = "✓", "✗"
_PIPE_COLUMNS = 100


def say(markdown: str) -> None:
    """Print a page of Markdown: formatted on a terminal, as plain text elsewhere."""
    if not sys.stdout.isatty():
        from lab.plain_page import page_lines

        out("\n".join(page_lines(markdown, _PIPE_COLUMNS)).rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=min(100, Console().width)).print(Markdown(markdown))


def tell_sound(context: Context, files: Sequence[tuple[str, Path, FileKind, Sequence[str]]]) -> None:
    """Files without errors (id, path, kind, shell lines); for foreign ones also the commands that they would run."""
    notes = {path: foreign_note(path, kind, lines) for _, path, kind, lines in files}
    foreign = [(name, foreign_lines(lines)) for name, path, _, lines in files if notes[path]]
    if context.json:
        value: dict[str, Any] = {"sound": [name for name, *_ in files]}
        out_json(value | ({"foreign": [{"id": name, "runs": lines} for name, lines in foreign]} if foreign else {}))
        return
    for name, path, _, lines in files:
        if notes[path]:
            out(f"{name}: sound in form; {notes[path]}" + (":" if lines else ""))
            for line in foreign_lines(lines):
                out(f"  # {line}")
        else:
            out(f"{name}: sound")


def course_rows(lines: tuple[CourseLine, ...], open_id: str) -> list[tuple[str, ...]]:
    """One row per lesson: mark, id, progress, minutes, languages, title."""
    rows: list[tuple[str, ...]] = []
    for line in lines:
        lesson = line.files.lesson
        mark = PASSED if line.is_done else ">" if lesson.id == open_id else " "
        progress = f"{line.done_steps}/{line.step_count}"
        rows.append((mark, lesson.id, progress, str(lesson.minutes), " ".join(line.files.languages), lesson.title))
    return rows


def show_lesson(opened: LessonSession) -> None:
    """The student's position: the result of the last step with its reason, and the current task."""
    words, lesson = opened.words, opened.lesson
    step, done = opened.step, opened.done_count
    if done:
        show_explanation(opened, lesson.steps[done - 1])
    elif step is not None:
        say(f"# {lesson.title}\n\n{words.say('goal')}: {lesson.goal}\n")
    if step is None:
        say(f"**{words.say('lesson-done', title=lesson.title)}**\n")
        return
    say(f"\n## {words.say('step-of', number=done + 1, count=len(lesson.steps))}\n\n{step.say}\n")
    progress = opened.progress.in_step(step.id)
    if step.ask is not None:
        chosen = opened.progress.in_step(step.id).answer
        options = "\n".join(
            f"- `{key}` {text}{' ←' if key == chosen else ''}" for key, text in step.ask.options.items()
        )
        say(f"\n**{words.say('predict')}** {step.ask.question}\n\n{options}\n\n`raidlab lesson answer …`\n")
    ask_measurements(words, step)
    if step.read is not None and is_predicted(step, progress):
        ask_reading(words, step.read)


def ask_measurements(words: LessonWords, step: ReadyStep) -> None:
    """The commands for the measurements of a step."""
    for each in step.apart:
        if isinstance(each, RunMeasurement):
            say(f"\n**{words.say('measure')}** `{each.by_hand()}`\n")


def ask_reading(words: LessonWords, read: Reading) -> None:
    """The number that a step requests."""
    unit = f" ({read.unit})" if read.unit else ""
    say(f"\n**{words.say('read-off')}** {read.question}{unit}\n\n`raidlab lesson answer …`\n")


def show_explanation(opened: LessonSession, step: ReadyStep) -> None:
    """The explanation of a passed step, with the prediction."""
    words = opened.words
    chosen = opened.progress.in_step(step.id).answer
    told = ""
    if step.ask and chosen in step.ask.options:
        told = words.predicted(step.ask, chosen)
    say(f"## {words.say('why')}\n\n" + (f"*{told}*\n\n" if told else "") + step.explain + "\n")


def check_line(words: LessonWords, check: ToldCheck) -> str:
    """``✗ md0 is raid5; now: md0 is raid0``."""
    line = f"{PASSED if check.is_passed else OPEN} {check.wanted}"
    if not check.found:
        return line
    return f"{line}: {check.found}" if check.is_passed else f"{line}; {words.say('missing', found=check.found)}"


def check_lines(opened: LessonSession, view: StepView) -> list[str]:
    """All checks of a view, and the recognised mistake."""
    told = tell(opened.words, view)
    lines = [check_line(opened.words, each) for each in told.checks]
    if told.mistake:
        lines += ["", f"{opened.words.say('mistake')}: {told.mistake.hint.strip()}"]
    return lines


def lesson_value(opened: LessonSession) -> dict[str, Any]:
    """The student's position, for JSON."""
    step = opened.step
    return {
        "lesson": opened.lesson.id,
        "title": opened.lesson.title,
        "language": opened.lesson.language,
        "seed": opened.lesson.seed,
        "values": step.values if step else {},
        "steps": len(opened.lesson.steps),
        "done": opened.done_count,
        "step": None if step is None else step_value(opened, step),
    }


def step_value(opened: LessonSession, step: ReadyStep) -> dict[str, Any]:
    """One step, for JSON."""
    ask, progress = step.ask, opened.progress.in_step(step.id)
    read = step.read if is_predicted(step, progress) else None
    return {
        "id": step.id,
        "say": step.say,
        "question": ask.question if ask else None,
        "options": ask.options if ask else {},
        "answer": progress.answer,
        "read": {"question": read.question, "unit": read.unit} if read else None,
        "number": progress.reading,
        "by_hand": [action.by_hand() for action in step.do] if shows_solution(progress) else [],
        "hints_shown": opened.hints_shown,
    }


def view_value(opened: LessonSession, view: StepView | None) -> dict[str, Any]:
    """A view for JSON."""
    if view is None:
        return {"lesson": opened.lesson.id, "is_lesson_done": True}
    told = tell(opened.words, view)
    return {
        "lesson": opened.lesson.id,
        "step": view.step.id,
        "is_step_done": view.is_done,
        "is_lesson_done": opened.step is None,
        "checks": [
            {"check": each.name, "wanted": each.wanted, "found": each.found, "is_passed": each.is_passed}
            for each in told.checks
        ],
        "mistake": {"id": told.mistake.id, "hint": told.mistake.hint} if told.mistake else None,
    }
