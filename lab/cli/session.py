"""The open lab of one command: commands are reported, waits show a progress bar, plans print as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from lab.arrays.status import ArrayStatus
from lab.cli.context import Context
from lab.cli.output import ProgressBar, err, out, out_json
from lab.cli.watchers import drilled, watched
from lab.plans import Plan
from lab.session import session as core
from lab.session.session import LabSession


@contextmanager
def open_session(context: Context, *, start_arrays: bool = True, watches: bool = True) -> Iterator[LabSession]:
    """Open the persistent lab and, on the embedded kernel, start its arrays; the lab is always closed at the end.

    With ``watches`` the open lesson is checked at the end, before anything is stopped.
    """
    opened = core.open_session(
        context.target,
        context.host,
        start_arrays=start_arrays,
        on_notice=context.narrator.notice,
        on_machine=context.narrator.listen,
        on_plan=context.narrator.announce,
        opener=context.opener,
    )
    with opened as session, ExitStack() as stack:
        for each in (drilled, watched) if watches else ():
            stack.enter_context(each(context, session))
        yield session


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
