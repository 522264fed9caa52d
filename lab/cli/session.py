"""Commands on an open lab: what is watched during them, plans printed or run, waits, and reports on arrays."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lab.actions.action import PlanAction
from lab.arrays.array import Array
from lab.arrays.status import ArrayStatus
from lab.cli.context import Context
from lab.cli.output import ProgressBar, err, out, out_json, pairs
from lab.errors import LabError
from lab.plans import Plan
from lab.session.session import Client, LabSession, open_session, read_arrival

if TYPE_CHECKING:
    from lab.drills.desk import DrillDesk

_LOOK_SECONDS = 0.5
PlanFlag = Annotated[
    bool, Parameter(negative="", show_default=False, help="Print the commands and what they are for; do nothing.")
]
BreakArrayFlag = Annotated[bool, Parameter(negative="", show_default=False, help="Even if an array loses its data.")]


def client_of(context: Context, *, watches: bool = True) -> Client:
    """The command as a client of the lab; ``watches``: for an open drill, and for the open lesson."""

    @contextmanager
    def watching(session: LabSession) -> Iterator[None]:
        with _drilled(context, session), _watched(context, session):
            yield

    narrator = context.narrator
    client = Client(context.target, context.host, narrator.notice, narrator.listen, narrator.announce)
    if context.opener:
        client = replace(client, opener=context.opener)
    return replace(client, while_open=watching) if watches else client


def run_plan(
    context: Context, action: PlanAction, name: str, *, plan_only: bool = False, wait: bool | None = None
) -> None:
    """Make the plan in an open lab; print it, or run it, wait if requested, and report the array's state."""
    with open_session(client_of(context)) as session:
        made, array = action.plan(session), session.array(name)
        if plan_only:
            show_plan(context, made)
            return
        if not made.steps:
            context.narrator.notice(made.title)
        session.run(made)
        if session.found.array(name):
            # The array may have another name now.
            array = session.array(name)
        if action.waits_for and not array.waits_itself:
            wait_or_tell(context, session, array.name, action.waits_for, wait=wait)
        tell(context, array, array.status_now, made)


def tell(context: Context, array: Array, status: ArrayStatus | None, made: Plan, *, is_long: bool = False) -> None:
    """Report an array's state: in one line, or with all details."""
    if context.json:
        out_json({"array": array.value(status) if status else None, "plan": plan_value(made)})
    elif status is None:
        out(f"{array.name}: not running")
    else:
        out(array_text(array, status) if is_long else status.summary)


def array_text(array: Array, status: ArrayStatus) -> str:
    """All details of one array."""
    text = array.text(status)
    return "\n\n".join([pairs(text.facts), *(table.as_text() for table in text.tables)])


def wait_or_tell(context: Context, session: LabSession, name: str, what: str, *, wait: bool | None) -> None:
    """Wait for the sync if requested, or if it would stop with this command; otherwise report that it continues."""
    if session.is_embedded if wait is None else wait:
        wait_with_bar(context, session, name, what)
    elif session.is_embedded:
        context.narrator.notice(f"the {what} continues whenever the lab is open: raidlab watch")


def wait_with_bar(context: Context, session: LabSession, name: str, what: str) -> ArrayStatus:
    """Wait for an array's pending syncs, with a progress bar."""
    label = f"{name}: {what}"
    with ProgressBar(quiet=context.quiet) as bar:
        bar.show(label, 0.0)

        def look(status: ArrayStatus) -> None:
            if status.sync_progress:
                bar.show(label, status.sync_progress.fraction)

        return session.array(name).wait(on_look=look)


def show_plan(context: Context, plan: Plan) -> None:
    """Print a plan without running it: commands on standard output, their reasons on standard error."""
    if context.json:
        out_json(plan_value(plan))
        return
    for step in plan.steps:
        if not context.quiet:
            err(f"# {step.why}")
        out(step.shell_line())
    if not plan.steps and not context.quiet:
        err(f"# {plan.title}: there is nothing to do")


def plan_value(plan: Plan) -> dict[str, Any]:
    """A plan for JSON."""
    return {
        "title": plan.title,
        "steps": [
            {
                "argv": step.argv,
                "line": step.shell_line(),
                "stdin_text": step.stdin_text,
                "why": step.why,
                "undo": step.undo,
                "danger": str(step.danger),
                "writes_devices": step.writes_devices,
            }
            for step in plan.steps
        ],
    }


@contextmanager
def _drilled(context: Context, session: LabSession) -> Iterator[None]:
    """Record writes and typed commands while the lab is open; problems with this are only reported."""
    # Avoid the cost of the import if no drill is open.
    if not (session.folder / "drill" / "case.json").exists():
        yield
        return
    from lab.drills.desk import explained, last_look, open_desk

    try:
        desk = open_desk(session)
    except LabError as error:
        context.narrator.notice(explained(error))
        desk = None
    if desk is None:
        yield
        return
    is_over = threading.Event()
    follower = threading.Thread(target=_follow, args=(desk, is_over), name="raidlab-drill", daemon=True)
    follower.start()
    try:
        yield
    finally:
        is_over.set()
        follower.join()
        try:
            last_look(desk)
        except LabError as error:
            context.narrator.notice(explained(error))


def _follow(desk: DrillDesk, is_over: threading.Event) -> None:
    """Count, and answer requests from inside the machine, until the command has ended."""
    from lab.drills.verdict import answer_one

    while not is_over.wait(_LOOK_SECONDS):
        try:
            desk.look()
            if answer_one(desk):
                return
        except LabError:
            return


@contextmanager
def _watched(context: Context, session: LabSession) -> Iterator[None]:
    """Check the open lesson's step after a command; problems are only reported."""
    # Avoid the cost of the import if no lesson is open.
    if not (context.host.state.root / "lessons" / "desk.json").exists():
        yield
        return
    from lab.lessons.engine import tell
    from lab.lessons.student import Student, Watch

    try:
        opened = Student(context.host).open_lesson()
        is_here = opened is not None and opened.step is not None and opened.progress.target == str(context.target)
        # The arrays of an open drill do not belong to the lesson.
        is_here = is_here and read_arrival(session.folder) is None
        watch = Watch(opened, session) if opened is not None and is_here else None
    except LabError as error:
        context.narrator.notice(f"the lesson cannot be followed: {error.message}")
        watch, opened = None, None
    yield
    if watch is None or opened is None:
        return
    try:
        number = opened.done_count + 1
        view = watch.look()
    except LabError as error:
        context.narrator.notice(f"the lesson cannot be followed: {error.message}")
        return
    if view is not None and view.is_done:
        words = opened.words
        told = words.say("step-done", number=number, count=len(opened.lesson.steps))
        context.narrator.notice(f"{opened.lesson.title}: {told} 'raidlab lesson show' says why, and what comes next")
    elif view is not None and (mistake := tell(opened.words, view).mistake):
        context.narrator.notice(f"{opened.words.say('mistake')}: {mistake.hint.strip()}")
