"""``raidlab lesson``: the course, command by command. Between two of these the student works with any other command."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from lab.cli import lesson_text
from lab.cli.context import Context, current
from lab.cli.output import out, out_json, table
from lab.cli.progress import ProgressReporter
from lab.cli.run_request import ProgressObserver
from lab.cli.session import open_session
from lab.errors import ExitCode, LessonError, SpecError
from lab.experiments.schedule import estimated_seconds
from lab.lessons.actions import Action
from lab.lessons.course import LessonFiles
from lab.lessons.desk import Desk, Seat, blank_lab, require_disks
from lab.lessons.engine import StepView
from lab.lessons.hands import carry_out, look_once_more
from lab.lessons.schema import SOURCE_LANGUAGE
from lab.lessons.validation import check_file, course_problems
from lab.session.session import LabSession

app = App(name="lesson", help="Guided lessons: read, predict, do, check, understand.", help_format="plaintext")


@app.default
def default() -> None:
    """Show where you are; without an open lesson, the course."""
    if Desk(current().host).open_seat() is None:
        list_course()
    else:
        show()


@app.command(name="list")
def list_course() -> None:
    """List the course with your progress."""
    context = current()
    desk = Desk(context.host)
    lines, open_id = desk.lines(), desk.state.lesson
    if context.json:
        out_json(
            [
                {
                    "id": line.files.lesson.id,
                    "title": line.files.lesson.title,
                    "goal": line.files.lesson.goal,
                    "minutes": line.files.lesson.minutes,
                    "languages": line.files.languages,
                    "needs": line.files.lesson.needs,
                    "missing_needs": line.missing_needs,
                    "steps": line.step_count,
                    "done": line.done_steps,
                    "is_open": line.files.lesson.id == open_id,
                }
                for line in lines
            ]
        )
        return
    rows = lesson_text.course_rows(lines, open_id)
    out(table(("", "lesson", "steps", "min", "languages", "title"), rows, right=("steps", "min")))
    following = next((line.files.lesson.id for line in lines if not line.is_done), None)
    if following and not open_id:
        context.narrator.notice(f"begin with 'raidlab lesson start {following}'")


@app.command
def start(
    name: Annotated[str, Parameter(help="Id, number or part of the id; or the path of a lesson file.")],
    *,
    seed: Annotated[str | None, Parameter(help="Your name, or a word from your teacher: it varies the lesson.")] = None,
    language: Annotated[str | None, Parameter(help="Such as en, es or sv.")] = None,
    reset: Annotated[
        bool, Parameter(negative="", show_default=False, help="Make all lab disks blank first: their data are gone.")
    ] = False,
    again: Annotated[bool, Parameter(negative="", show_default=False, help="From the first step.")] = False,
    anyway: Annotated[
        bool, Parameter(negative="", show_default=False, help="Even if lessons that come before are not done.")
    ] = False,
) -> None:
    """Begin a lesson, or go on with it where you left it."""
    context = current()
    desk = Desk(context.host)
    files = desk.find(name)
    before = None if again or reset or seed is not None or language else desk.resume(name)
    if before is not None and before.step is not None:
        context.narrator.notice("you go on where you left; --again begins from the first step")
        _show(context, before)
        return
    _require_needs(desk, files, anyway=anyway)
    chosen = desk.language_for(files, language, _language_of_environment())
    with open_session(context, watches=False) as session:
        if reset:
            blank_lab(session)
        require_disks(session, files.ready(desk.state.seed if seed is None else seed, chosen))
    _show(context, desk.start(name, context.target, seed=seed, language=chosen))


@app.command
def show() -> None:
    """Show why the last step came out as it did, and what is to be done now."""
    context = current()
    _show(context, Desk(context.host).require_seat())


@app.command
def answer(
    text: Annotated[str, Parameter(help="One of the options as the step lists them, or the number it asks for.")],
) -> int:
    """Predict, or type the number that this step has you read off."""
    context = current()
    seat = Desk(context.host).require_seat()
    seat.answer(text)
    step = seat.step
    if step is None or step.ask is None or text not in step.ask.options:
        return _tell(context, seat, look_once_more(seat, lambda: _opener(context)))
    if context.json:
        out_json(lesson_text.seat_value(seat))
    else:
        out(seat.words.say("predicted", answer=step.ask.options[text]))
    return ExitCode.DONE


@app.command
def check() -> int:
    """Check this step on the real lab. Exit status 1 while something is missing."""
    context = current()
    seat = Desk(context.host).require_seat()
    return _tell(context, seat, look_once_more(seat, lambda: _opener(context)))


@app.command
def hint() -> None:
    """Show one more hint for this step; the third is the whole answer."""
    context = current()
    seat = Desk(context.host).require_seat()
    text = seat.hint()
    step = seat.step
    count = seat.progress.in_step(step.id).hints if step else 0
    if context.json:
        out_json({"number": count, "hint": text})
        return
    heading = seat.words.say("hint-of", number=count, count=len(step.hints) if step else 0)
    lesson_text.say(f"**{heading}** {text}")


@app.command
def do(
    *,
    plan: Annotated[
        bool, Parameter(negative="", show_default=False, help="Print the commands of this step; do nothing.")
    ] = False,
) -> int:
    """Let the lab do this step for you, with the same commands that you would type."""
    context = current()
    desk = Desk(context.host)
    seat = desk.require_seat()
    step = seat.step
    if step is None:
        return _tell(context, seat, None)
    if plan or not step.do:
        for action in step.do:
            out(action.by_hand())
        if not step.do:
            context.narrator.notice("there is nothing to do in this step but to answer: 'raidlab lesson answer …'")
        return ExitCode.DONE
    seat.note_help()

    def tell(action: Action) -> None:
        context.narrator.notice(action.by_hand())

    view = carry_out(
        step.do,
        seat,
        opener=lambda: _opener(context),
        run_measure=lambda name: _measure(context, desk, seat, name),
        before_action=tell,
    )
    return _tell(context, seat, view)


@app.command
def measure(name: Annotated[str, Parameter(help="The measurement, as the step names it.")]) -> int:
    """Run a measurement of the open lesson, on emulated drives of its own, and check the step."""
    context = current()
    desk = Desk(context.host)
    seat = desk.require_seat()
    _measure(context, desk, seat, name)
    seat.find_results()
    return _tell(context, seat, look_once_more(seat, lambda: _opener(context)))


@app.command
def reset() -> None:
    """Make all lab disks blank and begin the open lesson again, with the same seed."""
    context = current()
    seat = Desk(context.host).require_seat()
    with open_session(context, watches=False) as session:
        blank_lab(session)
    seat.restart()
    _show(context, seat)


@app.command
def leave() -> None:
    """Close the open lesson; its progress stays."""
    context = current()
    Desk(context.host).leave()
    context.narrator.notice("no lesson is open; 'raidlab lesson start NAME' goes on where you left")


@app.command
def verify(
    *files: Annotated[Path, Parameter(help="Lesson files; without any: the whole course.")],
    prove: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="Also carry each lesson out, on a lab of its own (minutes)."),
    ] = False,
) -> None:
    """Check lesson files: everything that is wrong, with file, step and remedy."""
    context = current()
    course = Desk(context.host).course
    if files:
        chosen: tuple[LessonFiles, ...] = tuple(check_file(path) for path in files)
    else:
        problems = course_problems(course)
        if problems:
            listed = "".join(f"\n  - {problem}" for problem in problems)
            raise SpecError(f"the course is not sound:{listed}", hint="mend these, then verify it again")
        chosen = course.lessons
    if prove:
        _prove(context, chosen)
    elif context.json:
        out_json({"sound": [each.lesson.id for each in chosen]})
    else:
        out("\n".join(f"{each.lesson.id}: sound" for each in chosen))


def _prove(context: Context, chosen: tuple[LessonFiles, ...]) -> None:
    from lab.lessons.proof import prove

    proofs = [prove(files.ready(), context.target, context.host, on_notice=context.narrator.notice) for files in chosen]
    if context.json:
        out_json(proofs)
    else:
        out("\n".join(proof.sentence for proof in proofs))
    if failures := [failure for proof in proofs for failure in proof.failures]:
        listed = "".join(f"\n  - {failure}" for failure in failures)
        raise LessonError(f"not everything could be proved:{listed}", hint="mend the steps named above")


def _opener(context: Context) -> AbstractContextManager[LabSession]:
    return open_session(context, watches=False)


def _show(context: Context, seat: Seat) -> None:
    if context.json:
        out_json(lesson_text.seat_value(seat))
    else:
        lesson_text.show_seat(seat)


def _tell(context: Context, seat: Seat, view: StepView | None) -> int:
    """The checks of a look, and what comes next if the step is done."""
    is_done = view is None or view.is_done
    if context.json:
        out_json(lesson_text.view_value(seat, view))
    elif view is None:
        lesson_text.show_seat(seat)
    else:
        out("\n".join(lesson_text.check_lines(seat, view)))
        if is_done:
            out()
            lesson_text.show_seat(seat)
    return ExitCode.DONE if is_done else ExitCode.FAILED


def _measure(context: Context, desk: Desk, seat: Seat, name: str) -> None:
    experiment, _ = seat.experiment(name)
    with ProgressReporter(quiet=context.quiet) as progress:
        progress.start(estimated_seconds(experiment), 0)
        observer = ProgressObserver(progress, context.host.clock)
        desk.run_measure(seat, name, context.target, observer, on_notice=context.narrator.notice)


def _require_needs(desk: Desk, files: LessonFiles, *, anyway: bool) -> None:
    line = next((line for line in desk.lines() if line.files.lesson.id == files.lesson.id), None)
    if line and line.missing_needs and not anyway:
        raise LessonError(
            f"lesson {files.lesson.id} builds on {', '.join(line.missing_needs)}, not done yet",
            hint=f"begin with {line.missing_needs[0]}, or take --anyway",
        )


def _language_of_environment() -> str:
    """The user's language as the locale names it: ``es`` of ``es_CO.UTF-8``."""
    words = (os.environ.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return next((word[:2] for word in words if word), SOURCE_LANGUAGE)
