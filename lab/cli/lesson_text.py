"""Lessons as text for a terminal: steps, checks, hints, explanations."""

from __future__ import annotations

import sys
from typing import Any

from lab.cli.output import out
from lab.lessons.desk import CourseLine, Seat
from lab.lessons.engine import CheckView, StepView
from lab.lessons.ready import ReadyStep
from lab.lessons.words import Words

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


def show_seat(seat: Seat) -> None:
    """Where the student is: why the last step came out as it did, and what is to be done now."""
    words, lesson = seat.words, seat.lesson
    step, done = seat.step, seat.done_count
    if done:
        show_explanation(seat, lesson.steps[done - 1])
    elif step is not None:
        say(f"# {lesson.title}\n\n{words.say('goal')}: {lesson.goal}\n")
    if step is None:
        say(f"**{words.say('lesson-done', title=lesson.title)}**\n")
        return
    say(f"\n## {words.say('step-of', number=done + 1, count=len(lesson.steps))}\n\n{step.say}\n")
    if step.ask is not None:
        chosen = seat.progress.in_step(step.id).answer
        options = "\n".join(
            f"- `{key}` {text}{' ←' if key == chosen else ''}" for key, text in step.ask.options.items()
        )
        say(f"**{words.say('predict')}** {step.ask.question}\n\n{options}\n\n`raidlab lesson answer …`\n")
    if step.read is not None:
        unit = f" ({step.read.unit})" if step.read.unit else ""
        say(f"**{words.say('read-off')}** {step.read.question}{unit}\n\n`raidlab lesson answer …`\n")


def show_explanation(seat: Seat, step: ReadyStep) -> None:
    """What a step that was passed teaches, beside what was predicted."""
    words = seat.words
    chosen = seat.progress.in_step(step.id).answer
    told = ""
    if step.ask and chosen:
        told = words.say("predicted", answer=step.ask.options[chosen])
        if step.ask.answer == chosen:
            told += f" – {words.say('right')}"
        elif step.ask.answer:
            told += f" – {words.say('wrong', answer=step.ask.options[step.ask.answer])}"
    say(f"## {words.say('why')}\n\n" + (f"*{told}*\n\n" if told else "") + step.explain + "\n")


def check_line(words: Words, view: CheckView) -> str:
    """``✗ md0 is raid5; now: md0 is raid0``."""
    line = f"{PASSED if view.is_passed else OPEN} {words.want(view.name, view.facts)}"
    if view.outcome is None:
        return line
    found = words.find(view.outcome.said, view.outcome.facts)
    if not view.is_passed:
        return f"{line}; {words.say('missing', found=found)}"
    return f"{line}: {found}" if view.outcome.said.startswith(("ratio", "reading")) else line


def check_lines(seat: Seat, view: StepView) -> list[str]:
    """All checks of a look, and the mistake that was recognised."""
    lines = [check_line(seat.words, each) for each in view.checks]
    if view.mistake:
        lines += ["", f"{seat.words.say('mistake')}: {view.mistake.hint.strip()}"]
    return lines


def seat_value(seat: Seat) -> dict[str, Any]:
    """Where the student is, for JSON."""
    step = seat.step
    return {
        "lesson": seat.lesson.id,
        "title": seat.lesson.title,
        "language": seat.lesson.language,
        "seed": seat.lesson.seed,
        "values": seat.lesson.values,
        "steps": len(seat.lesson.steps),
        "done": seat.done_count,
        "step": None if step is None else step_value(seat, step),
    }


def step_value(seat: Seat, step: ReadyStep) -> dict[str, Any]:
    """One step, for JSON."""
    ask = step.ask
    return {
        "id": step.id,
        "say": step.say,
        "question": ask.question if ask else None,
        "options": ask.options if ask else {},
        "answer": seat.progress.in_step(step.id).answer,
        "read": {"question": step.read.question, "unit": step.read.unit} if step.read else None,
        "number": seat.progress.in_step(step.id).reading,
        "by_hand": [action.by_hand() for action in step.do],
        "hints_shown": seat.hints_shown,
    }


def view_value(seat: Seat, view: StepView | None) -> dict[str, Any]:
    """A look, for JSON."""
    if view is None:
        return {"lesson": seat.lesson.id, "is_lesson_done": True}
    words = seat.words
    return {
        "lesson": seat.lesson.id,
        "step": view.step.id,
        "is_step_done": view.is_done,
        "is_lesson_done": seat.step is None,
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
