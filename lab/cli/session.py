"""The open lab of one command: narrated, with a progress bar for waits, and plans as text and JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from lab.adapt.state import VolumeStatus
from lab.arrays.status import ArrayStatus
from lab.cli.context import Context
from lab.cli.lesson_watch import watched
from lab.cli.output import err, out, out_json
from lab.cli.progress import ProgressReporter
from lab.disks import Lab
from lab.machine import Host, Machine, Target
from lab.plans import Plan
from lab.session import session as core
from lab.session.session import LabSession

# How long a sync takes is not known before; the bar's own estimate comes from its progress.
_WAIT_UNITS = 0.999


@contextmanager
def open_session(context: Context, *, start_arrays: bool = True, watches: bool = True) -> Iterator[LabSession]:
    """Open the lab that lasts and, on the embedded kernel, start its arrays; close it whatever happens.

    With ``watches`` the open lesson is checked at the end, while everything is still there.
    """

    def opener(
        _target: Target, _host: Host, *, on_notice: Callable[[str], None], on_machine: Callable[[Machine], None]
    ) -> AbstractContextManager[Lab]:
        return context.open_lab()

    narrator = context.narrator
    opened = core.open_session(
        context.target,
        context.host,
        start_arrays=start_arrays,
        on_notice=narrator.notice,
        on_plan=narrator.announce,
        opener=opener,
    )
    with opened as session, watched(context, session) if watches else nullcontext():
        yield session


def wait_with_bar(context: Context, session: LabSession, name: str, what: str) -> ArrayStatus:
    """Wait for the sync that an array owes, with a progress bar."""
    with ProgressReporter(quiet=context.quiet) as progress:
        progress.start(_WAIT_UNITS, 1)
        progress.step(f"{name}: {what}", _WAIT_UNITS)

        def look(status: ArrayStatus) -> None:
            if status.sync_progress:
                progress.advance(status.sync_progress.fraction)

        return session.wait(name, on_look=look)


def wait_for_volume_with_bar(context: Context, session: LabSession, name: str, what: str) -> VolumeStatus:
    """Wait for the syncs that the arrays of a volume owe."""
    for window in session.volume(name).windows:
        if window.array:
            wait_with_bar(context, session, window.array.name, f"{what} of {name}")
    return session.volume(name)


def show_plan(context: Context, plan: Plan) -> None:
    """Print a plan and do nothing: commands on standard output, what they are for on standard error."""
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
