"""What the sub-commands of ``raidlab array`` share: from a plan to its printing, or to what became of the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from lab.adapt.names import is_volume_name
from lab.arrays.names import array_device
from lab.cli import array_show, volume_show
from lab.cli.context import Context, current
from lab.cli.output import out, out_json
from lab.cli.session import open_session, plan_value, show_plan, wait_with_bar
from lab.plans import Plan
from lab.session.session import LabSession
from lab.session.words import summary_line, volume_line

PlanFlag = Annotated[
    bool, Parameter(negative="", show_default=False, help="Print the commands and what they are for; do nothing.")
]
BreakArrayFlag = Annotated[
    bool, Parameter(negative="", show_default=False, help="Even if an array loses its data by it.")
]
WaitFlag = Annotated[
    bool | None, Parameter(show_default=False, help="Wait until the array is in sync; the default on uml:.")
]
BitmapChunk = Annotated[str | None, Parameter(help="What one bit stands for, such as 64K; md's choice: 64M or more.")]


def act(
    name: str,
    make_plan: Callable[[LabSession], Plan],
    *,
    plan: bool,
    waits_for: str = "",
    wait: bool | None = None,
    rescans: bool = False,
) -> None:
    """Make a plan in an open lab; print it, or run it, wait if asked to, and print what became of the array.

    ``rescans``: which arrays run has changed, and the next start of an embedded lab must know.
    """
    context = current()
    if not is_volume_name(name):
        array_device(name)
    with open_session(context) as session:
        made = make_plan(session)
        if plan:
            show_plan(context, made)
            return
        if not made.steps:
            context.narrator.notice(made.title)
        session.run(made)
        # The labels of a volume change with its disks.
        if rescans or is_volume_name(name):
            session.rescan()
        if waits_for and not is_volume_name(name):
            wait_or_tell(context, session, name, waits_for, wait=wait)
        if is_volume_name(name):
            _tell_volume(context, session, name, made)
            return
        now = next((status for status in session.statuses() if status.name == name), None)
        if context.json:
            out_json({"array": array_show.array_value(session, now) if now else None, "plan": plan_value(made)})
        else:
            out(summary_line(now) if now else f"{name}: not running")


def _tell_volume(context: Context, session: LabSession, name: str, made: Plan) -> None:
    """A plan for a volume waits for its syncs itself, step by step, so nothing is left to wait for."""
    now = next((volume for volume in session.volumes() if volume.name == name), None)
    if context.json:
        value = volume_show.volume_value(session, now) if now else None
        out_json({"array": value, "plan": plan_value(made)})
    else:
        out(volume_line(now) if now else f"{name}: not running")


def wait_or_tell(context: Context, session: LabSession, name: str, what: str, *, wait: bool | None) -> None:
    """Wait for what goes on if asked to, or where it would stop with this command; otherwise say that it goes on."""
    if session.is_embedded if wait is None else wait:
        wait_with_bar(context, session, name, what)
    elif session.is_embedded:
        context.narrator.notice(f"the {what} goes on whenever the lab is open: raidlab watch")
