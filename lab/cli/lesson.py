"""``raidlab lesson`` presents the course as text on a terminal, and proves lessons and drills.

The student can use any other command between its commands.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from lab.checks.proof import Proof
from lab.cli.arguments import flag
from lab.cli.context import (
    CLUSTER_HELP,
    Context,
    ProgressBar,
    calls_on,
    current,
    out,
    out_json,
    require_shared,
    table,
)
from lab.cli.session import add_verbs, client_of
from lab.drills import proof as drill_proof
from lab.drills.schema import Drill, find_drill, read_drill, ready, shell_lines
from lab.drills.schema import catalogue as drill_files
from lab.errors import ExitCode, LabError, LessonError, RequirementMissing, SpecError, UnfitVersion
from lab.gates.files import FileKind, foreign_lines, foreign_note
from lab.lessons import verbs
from lab.lessons.actions import ApartAction, RunMeasurement
from lab.lessons.course import (
    SOURCE_LANGUAGE,
    LessonFiles,
    LessonWords,
    ReadyStep,
    built_in_course,
    check_file,
    course_problems,
    is_path,
)
from lab.lessons.engine import DisplayedCheck, StepView, displayed, is_predicted, shows_solution
from lab.lessons.proof import PROOF_SEEDS, prove_apart, side_by_side
from lab.lessons.student import (
    LessonSession,
    Student,
    carry_out,
    clearing_plan,
    do_apart,
    evaluate_step,
    needs_lab,
    require_disks,
)
from lab.machine import Host, Target, parse_target
from lab.machine.kernel_image import quickest
from lab.session.session import LabSession, open_session
from lab.units import counted

if TYPE_CHECKING:
    from lab.host.pool import ClusterCalls


@dataclass(frozen=True, slots=True)
class Unproved:
    """A proof that was not completed."""

    sentence: str
    failures: tuple[str, ...]


def _attempt(name: str, job: Callable[[], Proof | Unproved]) -> Proof | Unproved:
    """Carry out one proof. Return a failure instead of raising it, so that the other proofs continue."""
    try:
        return job()
    except RequirementMissing:
        raise
    except UnfitVersion as error:
        return Unproved(f"{name}: not tried here: {error.message}", ())
    except LabError as error:
        return Unproved(f"{name}: not proved", (f"{name}: {error.message}",))


def proved_on_worker(name: str, word: str, target: str, *, is_drill: bool) -> Proof | Unproved:
    """Prove a lesson or a drill on a cluster's worker, which has the same course and drills."""
    place = (parse_target(target), Host.real("raidlab lesson verify"))

    def prove() -> Proof:
        if is_drill:
            path = find_drill(name)
            return drill_proof.prove(ready(read_drill(path), path, word), *place)
        return prove_apart(built_in_course().find(name).ready(word), *place)

    return _attempt(_title(name, word), prove)


def _title(name: str, word: str) -> str:
    return f"{name} ('{word}')"


def prove_and_print(
    context: Context,
    lessons: Sequence[LessonFiles],
    drills: Mapping[Path, Drill],
    seeds: Sequence[str] | None,
    cluster: str = "",
) -> None:
    """Prove these lessons and drills with each seed. Raises LessonError if a proof failed."""
    words = seeds or PROOF_SEEDS
    target = quickest(context.target, context.host.processes, context.host.files)
    time = "virtual time" if target.is_virtual_time else "real time"
    context.narrator.notice(f"proved in {time}; --on selects another machine, or uml:?time=real")
    done: list[Proof | Unproved] = []

    def on_wait(running: int) -> None:
        context.narrator.notice(f"no further proof begins; waiting for the end of {counted(running, 'running proof')}")

    with calls_on(cluster, context) as calls:
        jobs = _jobs(context, target, lessons, drills, words, calls)
        for proof in side_by_side(jobs, calls.workers if calls else 0, on_wait=on_wait):
            done.append(proof)
            if not context.json:
                out(proof.sentence)
    if context.json:
        out_json(done)
    if failures := [failure for proof in done for failure in proof.failures]:
        listed = "".join(f"\n  - {failure}" for failure in failures)
        raise LessonError(f"not everything could be proved:{listed}", hint="fix the steps and solutions named above")


def _jobs(
    context: Context,
    target: Target,
    lessons: Sequence[LessonFiles],
    drills: Mapping[Path, Drill],
    words: Sequence[str],
    calls: ClusterCalls | None,
) -> Iterator[Callable[[], Proof | Unproved]]:
    place = (target, context.host)
    for files, word in product(lessons, words):
        here: Callable[[], Proof | Unproved] = partial(prove_apart, files.ready(word), *place)
        there = partial(calls, proved_on_worker, files.lesson.id, word, str(target), is_drill=False) if calls else here
        yield partial(_attempt, _title(files.lesson.id, word), there)
    for (path, drill), word in product(drills.items(), words):
        here = partial(drill_proof.prove, ready(drill, path, word), *place)
        there = partial(calls, proved_on_worker, drill.id, word, str(target), is_drill=True) if calls else here
        yield partial(_attempt, _title(drill.id, word), there)


PASSED, OPEN = "✓", "✗"
_PIPE_COLUMNS = 100


def print_page(markdown: str) -> None:
    """Print a page of Markdown, formatted on a terminal and as plain text elsewhere."""
    if not sys.stdout.isatty():
        from lab.plain_page import page_lines

        out("\n".join(page_lines(markdown, _PIPE_COLUMNS)).rstrip())
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console(width=min(100, Console().width)).print(Markdown(markdown))


def verify_files(
    context: Context,
    lessons: Sequence[LessonFiles],
    drills: Mapping[Path, Drill],
    seeds: Sequence[str] | None,
    cluster: str,
    *,
    is_proof: bool,
) -> None:
    """Prove these files, or print that they have no errors. Also report what files not shipped with raidlab may do."""
    files = [(each.lesson.id, each.path, FileKind.LESSON, each.shell_lines) for each in lessons]
    files += [(drill.id, path, FileKind.DRILL, shell_lines(drill)) for path, drill in drills.items()]
    if is_proof:
        for _, path, kind, lines in files:
            context.announce_foreign(path, kind, lines)
        prove_and_print(context, lessons, drills, seeds, cluster)
        return
    notes = {path: foreign_note(path, kind, lines) for _, path, kind, lines in files}
    foreign = [(name, foreign_lines(lines)) for name, path, _, lines in files if notes[path]]
    if context.json:
        value: dict[str, Any] = {"sound": [name for name, *_ in files]}
        out_json(value | ({"foreign": [{"id": name, "runs": lines} for name, lines in foreign]} if foreign else {}))
        return
    for name, path, _, lines in files:
        if notes[path]:
            out(f"{name}: no errors; {notes[path]}" + (":" if lines else ""))
            for line in foreign_lines(lines):
                out(f"  # {line}")
        else:
            out(f"{name}: no errors")


def show_lesson(opened: LessonSession) -> None:
    """Print the result of the last step with its explanation, and the current task."""
    words, lesson = opened.words, opened.lesson
    step, done = opened.step, opened.done_count
    if done:
        _show_explanation(opened, lesson.steps[done - 1])
    elif step is not None:
        print_page(f"# {lesson.title}\n\n{words.label('goal')}: {lesson.goal}\n")
    if step is None:
        print_page(f"**{words.label('lesson-done', title=lesson.title)}**\n")
        return
    print_page(f"\n## {words.label('step-of', number=done + 1, count=len(lesson.steps))}\n\n{step.text}\n")
    progress = opened.progress.in_step(step.id)
    if step.ask is not None:
        marks = {progress.answer: " ←"}
        options = "\n".join(f"- `{key}` {text}{marks.get(key, '')}" for key, text in step.ask.options.items())
        print_page(f"\n**{words.label('predict')}** {step.ask.question}\n\n{options}\n\n`raidlab lesson answer …`\n")
    _ask_figures(opened, step)


def _ask_figures(opened: LessonSession, step: ReadyStep) -> None:
    """Print the step's measurements and, once the prediction has been made, the question about a number to read off."""
    words, read = opened.words, step.read
    for each in step.apart:
        if isinstance(each, RunMeasurement):
            print_page(f"\n**{words.label('measure')}** `{each.by_hand()}`\n")
    if read is not None and is_predicted(step, opened.progress.in_step(step.id)):
        print_page(f"\n**{words.label('read-off')}** {read.question_words}\n\n`raidlab lesson answer …`\n")


def _show_explanation(opened: LessonSession, step: ReadyStep) -> None:
    words = opened.words
    chosen = opened.progress.in_step(step.id).answer
    prediction = words.predicted(step.ask, chosen) if step.ask else ""
    print_page(f"## {words.label('why')}\n\n" + (f"*{prediction}*\n\n" if prediction else "") + step.explain + "\n")


def _check_line(words: LessonWords, check: DisplayedCheck) -> str:
    """Return a check as text, for example ``✗ md0 is raid5; now: md0 is raid0``."""
    line = f"{PASSED if check.is_passed else OPEN} {check.required}"
    if not check.found:
        return line
    return f"{line}: {check.found}" if check.is_passed else f"{line}; {words.label('missing', found=check.found)}"


def check_lines(opened: LessonSession, view: StepView) -> list[str]:
    """Return the lines for all checks of a view, and for the recognised mistake."""
    described = displayed(opened.words, view)
    lines = [_check_line(opened.words, each) for each in described.checks]
    if described.mistake:
        lines += ["", f"{opened.words.label('mistake')}: {described.mistake.hint.strip()}"]
    return lines


def lesson_value(opened: LessonSession) -> dict[str, Any]:
    """Return the student's position in the course for JSON."""
    step = opened.step
    return {
        "lesson": opened.lesson.id,
        "title": opened.lesson.title,
        "language": opened.lesson.language,
        "seed": opened.lesson.seed,
        "values": step.values if step else {},
        "steps": len(opened.lesson.steps),
        "done": opened.done_count,
        "step": None if step is None else _step_value(opened, step),
    }


def _step_value(opened: LessonSession, step: ReadyStep) -> dict[str, Any]:
    ask, progress = step.ask, opened.progress.in_step(step.id)
    read = step.read if is_predicted(step, progress) else None
    return {
        "id": step.id,
        "say": step.text,
        "question": ask.question if ask else None,
        "options": ask.options if ask else {},
        "answer": progress.answer,
        "read": {"question": read.question, "unit": read.unit} if read else None,
        "number": progress.reading,
        "by_hand": [action.by_hand() for action in step.do] if shows_solution(progress) else [],
        "hints_shown": opened.hints_shown,
    }


def view_value(opened: LessonSession, view: StepView | None) -> dict[str, Any]:
    """Return the result of the step's checks for JSON."""
    if view is None:
        return {"lesson": opened.lesson.id, "is_lesson_done": True}
    described = displayed(opened.words, view)
    return {
        "lesson": opened.lesson.id,
        "step": view.step.id,
        "is_step_done": view.is_done,
        "is_lesson_done": opened.step is None,
        "checks": [
            {"check": each.name, "wanted": each.required, "found": each.found, "is_passed": each.is_passed}
            for each in described.checks
        ],
        "mistake": {"id": described.mistake.id, "hint": described.mistake.hint} if described.mistake else None,
    }


app = App(name="lesson", help_format="plaintext")


@app.default
def default() -> None:
    """Show the current step or, if no lesson is open, the course."""
    context = current()
    if Student(context.host).open_lesson() is None:
        _list(context, verbs.ListLessons())
    else:
        _show_open(context, verbs.ShowLesson())


def _list(context: Context, _: verbs.ListLessons) -> None:
    desk = Student(context.host)
    lines, open_id = desk.lines(), desk.state.lesson
    rows, values = [], []
    for line in lines:
        lesson, is_open = line.files.lesson, line.files.lesson.id == open_id
        mark = PASSED if line.is_done else ">" if is_open else " "
        progress, languages = f"{line.done_steps}/{line.step_count}", line.files.languages
        rows.append((mark, lesson.id, progress, lesson.minutes, " ".join(languages), lesson.title))
        values.append(
            {
                "id": lesson.id,
                "title": lesson.title,
                "goal": lesson.goal,
                "minutes": lesson.minutes,
                "languages": languages,
                "needs": lesson.needs,
                "missing_needs": line.missing_needs,
                "steps": line.step_count,
                "done": line.done_steps,
                "is_open": is_open,
            }
        )
    context.out(values, table(("", "lesson", "steps", "min", "languages", "title"), rows, right=("steps", "min")))
    following = next((line.files.lesson.id for line in lines if not line.is_done), None)
    if following and not open_id and not context.json:
        context.narrator.notice(f"start with 'raidlab lesson start {following}'")


def _start(context: Context, verb: verbs.StartLesson) -> None:
    desk = Student(context.host)
    files = desk.find(verb.name)
    context.announce_foreign(files.path, FileKind.LESSON, files.shell_lines)
    before = None if verb.again or verb.reset or verb.seed is not None or verb.language else desk.resume(verb.name)
    if before is not None and before.step is not None:
        context.narrator.notice("you continue where you left off; --again begins from the first step")
        _show(context, before)
        return
    _require_needs(desk, files, anyway=verb.anyway)
    lesson = desk.ready(verb.name, seed=verb.seed, language=verb.language, fallback=_language_of_environment())
    with open_session(client_of(context, watches=False)) as session:
        if verb.reset:
            session.run(clearing_plan(session, lesson) or session.reset_all())
        require_disks(session, lesson)
    _show(context, desk.start(verb.name, context.target, seed=verb.seed, language=lesson.language))


def _show_open(context: Context, _: verbs.ShowLesson) -> None:
    _show(context, Student(context.host).require_lesson())


def _answer(context: Context, verb: verbs.Answer) -> int:
    opened = Student(context.host).require_lesson()
    step, is_prediction = opened.step, opened.predicts(verb.text)
    opened.answer(verb.text, context.target)
    if step is None or step.ask is None or not is_prediction:
        return _print_results(context, opened, evaluate_step(opened, _opener(context)))
    if context.json:
        out_json(lesson_value(opened))
    else:
        out(opened.words.label("predicted", answer=step.ask.options[verb.text]))
        _ask_figures(opened, step)
    return ExitCode.DONE


def _check(context: Context, _: verbs.CheckStep) -> int:
    opened = Student(context.host).require_lesson()
    if opened.step is not None and needs_lab(opened.step):
        opened.require_lab_of(context.target)
    return _print_results(context, opened, evaluate_step(opened, _opener(context)))


def _hint(context: Context, _: verbs.LessonHint) -> None:
    opened = Student(context.host).require_lesson()
    text = opened.hint()
    step = opened.step
    count = opened.progress.in_step(step.id).hints if step else 0
    if context.json:
        out_json({"number": count, "hint": text})
        return
    heading = opened.words.label("hint-of", number=count, count=len(step.hints) if step else 0)
    print_page(f"**{heading}** {text}")


def _do(context: Context, verb: verbs.DoStep) -> int:
    opened = Student(context.host).require_lesson()
    step = opened.step
    if step is None:
        return _print_results(context, opened, None)
    if verb.plan or not step.do:
        if verb.plan and step.do:
            # The last hint consists of the commands.
            opened.take_all_hints()
        lines = [action.by_hand() for action in step.do]
        if lines or context.json:
            context.out({"by_hand": lines}, "\n".join(lines))
        if not lines:
            context.narrator.notice("in this step you only have to answer: 'raidlab lesson answer …'")
        return ExitCode.DONE
    opened.require_lab_of(context.target)
    opened.note_help()
    view = carry_out(
        step.do,
        opened,
        opener=_opener(context),
        run_apart=partial(_do_apart, context, opened),
        before_action=lambda action: context.narrator.notice(action.by_hand()),
    )
    return _print_results(context, opened, view)


def _measure(context: Context, verb: verbs.Measure) -> int:
    opened = Student(context.host).require_lesson()
    opened.require_lab_of(context.target)
    measuring = [RunMeasurement(measure=verb.name)]
    view = carry_out(measuring, opened, opener=_opener(context), run_apart=partial(_do_apart, context, opened))
    return _print_results(context, opened, view)


def _reset(context: Context, _: verbs.ResetLesson) -> None:
    opened = Student(context.host).require_lesson()
    opened.require_lab_of(context.target)
    with open_session(client_of(context, watches=False)) as session:
        session.run(opened.clearing(session))
    opened.restart()
    _show(context, opened)


def _leave(context: Context, _: verbs.LeaveLesson) -> None:
    Student(context.host).leave()
    context.narrator.notice("no lesson is open; 'raidlab lesson start NAME' continues where you left off")


add_verbs(app, verbs.VERBS, _list, _start, _show_open, _answer, _check, _hint, _do, _measure, _reset, _leave)


@app.command
def verify(
    *names: Annotated[str, Parameter(help="Lessons, by number, id or file; by default all, and all drills.")],
    prove: Annotated[bool, flag("Also carry out each lesson, in a separate lab (takes minutes).")] = False,
    seed: Annotated[list[str] | None, Parameter(help="Prove with these seeds; by default with two.")] = None,
    cluster: Annotated[str, Parameter(help=CLUSTER_HELP)] = "",
) -> None:
    """Check lessons, and list each problem with its file, step and remedy."""
    context = current()
    course = built_in_course()
    files = [Path(name) if is_path(name) else course.find(name).path for name in names]
    if cluster:
        require_shared(files, (each.path for each in course.lessons), is_proof=prove)
    if files:
        chosen = tuple(check_file(path) for path in files)
    else:
        problems = course_problems(course)
        if problems:
            listed = "".join(f"\n  - {problem}" for problem in problems)
            raise SpecError(f"the course has errors:{listed}", hint="fix these, then verify the course again")
        chosen = course.lessons
    drills = {} if files else {path: read_drill(path) for path in drill_files().values()}
    verify_files(context, chosen, drills, seed, cluster, is_proof=prove)


def _opener(context: Context) -> Callable[[], AbstractContextManager[LabSession]]:
    return partial(open_session, client_of(context, watches=False))


def _show(context: Context, opened: LessonSession) -> None:
    if context.json:
        out_json(lesson_value(opened))
    else:
        show_lesson(opened)


def _print_results(context: Context, opened: LessonSession, view: StepView | None) -> int:
    """Print the results of the checks, and the next step if this one is done. Return the exit status."""
    is_done = view is None or view.is_done
    if context.json:
        out_json(view_value(opened, view))
    elif view is None:
        show_lesson(opened)
    else:
        out("\n".join(check_lines(opened, view)))
        if is_done:
            out()
            show_lesson(opened)
    return ExitCode.DONE if is_done else ExitCode.FAILED


def _do_apart(context: Context, opened: LessonSession, action: ApartAction) -> None:
    from lab.cli.run import run_request

    with ProgressBar(quiet=context.quiet) as bar:
        do_apart(opened.lesson, action, run_request(context, bar))


def _require_needs(desk: Student, files: LessonFiles, *, anyway: bool) -> None:
    line = next((line for line in desk.lines() if line.files.lesson.id == files.lesson.id), None)
    if line and line.missing_needs and not anyway:
        raise LessonError(
            f"lesson {files.lesson.id} builds on lessons that are not finished yet: {', '.join(line.missing_needs)}",
            hint=f"begin with {line.missing_needs[0]}, or add --anyway",
        )


def _language_of_environment() -> str:
    """Return the language of the locale, for example ``es`` for ``es_CO.UTF-8``."""
    words = (os.environ.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    return next((word[:2] for word in words if word), SOURCE_LANGUAGE)
