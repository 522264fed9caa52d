"""Lessons as text for a terminal: steps, checks, hints, explanations."""

from __future__ import annotations

import sys
from typing import Any

from lab.cli.output import out
from lab.lessons.course import LessonWords
from lab.lessons.engine import CheckView, StepView
from lab.lessons.ready import ReadyStep
from lab.lessons.student import CourseLine, LessonSession

PASSED, OPEN = "✓", "✗"


def say(markdown: str) -> None:
    """Markdown for people on a terminal, as it is written elsewhere."""
    if not sys.stdout.isatty():
        out(markdown.rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=min(100, Console().width)).print(Markdown(markdown))


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
    """Where the student is: why the last step came out as it did, and what is to be done now."""
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
    if step.ask is not None:
        chosen = opened.progress.in_step(step.id).answer
        options = "\n".join(
            f"- `{key}` {text}{' ←' if key == chosen else ''}" for key, text in step.ask.options.items()
        )
        say(f"**{words.say('predict')}** {step.ask.question}\n\n{options}\n\n`raidlab lesson answer …`\n")
    if step.read is not None:
        unit = f" ({step.read.unit})" if step.read.unit else ""
        say(f"**{words.say('read-off')}** {step.read.question}{unit}\n\n`raidlab lesson answer …`\n")


def show_explanation(opened: LessonSession, step: ReadyStep) -> None:
    """What a step that was passed teaches, beside what was predicted."""
    words = opened.words
    chosen = opened.progress.in_step(step.id).answer
    told = ""
    if step.ask and chosen in step.ask.options:
        told = words.say("predicted", answer=step.ask.options[chosen])
        if step.ask.answer == chosen:
            told += f" – {words.say('right')}"
        elif step.ask.answer:
            told += f" – {words.say('wrong', answer=step.ask.options[step.ask.answer])}"
    say(f"## {words.say('why')}\n\n" + (f"*{told}*\n\n" if told else "") + step.explain + "\n")


def check_line(words: LessonWords, view: CheckView) -> str:
    """``✗ md0 is raid5; now: md0 is raid0``."""
    line = f"{PASSED if view.is_passed else OPEN} {words.want(view.name, view.facts)}"
    if view.outcome is None:
        return line
    found = words.find(view.outcome.said, view.outcome.facts)
    if not view.is_passed:
        return f"{line}; {words.say('missing', found=found)}"
    return f"{line}: {found}" if view.outcome.said.startswith(("ratio", "reading")) else line


def check_lines(opened: LessonSession, view: StepView) -> list[str]:
    """All checks of a look, and the mistake that was recognised."""
    lines = [check_line(opened.words, each) for each in view.checks]
    if view.mistake:
        lines += ["", f"{opened.words.say('mistake')}: {view.mistake.hint.strip()}"]
    return lines


def lesson_value(opened: LessonSession) -> dict[str, Any]:
    """Where the student is, for JSON."""
    step = opened.step
    return {
        "lesson": opened.lesson.id,
        "title": opened.lesson.title,
        "language": opened.lesson.language,
        "seed": opened.lesson.seed,
        "values": opened.lesson.values,
        "steps": len(opened.lesson.steps),
        "done": opened.done_count,
        "step": None if step is None else step_value(opened, step),
    }


def step_value(opened: LessonSession, step: ReadyStep) -> dict[str, Any]:
    """One step, for JSON."""
    ask = step.ask
    return {
        "id": step.id,
        "say": step.say,
        "question": ask.question if ask else None,
        "options": ask.options if ask else {},
        "answer": opened.progress.in_step(step.id).answer,
        "read": {"question": step.read.question, "unit": step.read.unit} if step.read else None,
        "number": opened.progress.in_step(step.id).reading,
        "by_hand": [action.by_hand() for action in step.do],
        "hints_shown": opened.hints_shown,
    }


def view_value(opened: LessonSession, view: StepView | None) -> dict[str, Any]:
    """A look, for JSON."""
    if view is None:
        return {"lesson": opened.lesson.id, "is_lesson_done": True}
    words = opened.words
    return {
        "lesson": opened.lesson.id,
        "step": view.step.id,
        "is_step_done": view.is_done,
        "is_lesson_done": opened.step is None,
        "checks": [
            {
                "check": each.name,
                "wanted": words.want(each.name, each.facts),
                "found": words.find(each.outcome.said, each.outcome.facts) if each.outcome else "",
                "is_passed": each.is_passed,
            }
            for each in view.checks
        ],
        "mistake": {"id": view.mistake.id, "hint": view.mistake.hint} if view.mistake else None,
    }
