"""What the sub-commands of ``raidlab array`` share: from a plan to its printing, or to what became of the array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from cyclopts import Parameter

from lab.arrays.array import Array
from lab.arrays.kinds import kind_of_name
from lab.arrays.status import ArrayStatus
from lab.cli.context import Context, current
from lab.cli.output import out, out_json, pairs, table
from lab.cli.session import open_session, plan_value, show_plan, wait_with_bar
from lab.plans import Plan
from lab.session.session import LabSession

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
) -> None:
    """Make a plan in an open lab; print it, or run it, wait if asked to, and print what became of the array."""
    context = current()
    kind_of_name(name)
    with open_session(context) as session:
        made, array = make_plan(session), session.array(name)
        if plan:
            show_plan(context, made)
            return
        if not made.steps:
            context.narrator.notice(made.title)
        session.run(made)
        if waits_for and not array.waits_itself:
            wait_or_tell(context, session, name, waits_for, wait=wait)
        tell(context, array, array.status_now, made)


def tell(context: Context, array: Array, status: ArrayStatus | None, made: Plan, *, is_long: bool = False) -> None:
    """What became of an array: in one line, or with all that is known of it."""
    if context.json:
        out_json({"array": array.value(status) if status else None, "plan": plan_value(made)})
    elif status is None:
        out(f"{array.name}: not running")
    else:
        out(array_text(array, status) if is_long else status.summary)


def array_text(array: Array, status: ArrayStatus) -> str:
    """Everything that is known of one array."""
    text = array.text(status)
    return "\n\n".join(
        [pairs(text.facts), *(table(headings, rows, right=right) for headings, rows, right in text.tables)]
    )


def wait_or_tell(context: Context, session: LabSession, name: str, what: str, *, wait: bool | None) -> None:
    """Wait for what goes on if asked to, or where it would stop with this command; otherwise say that it goes on."""
    if session.is_embedded if wait is None else wait:
        wait_with_bar(context, session, name, what)
    elif session.is_embedded:
        context.narrator.notice(f"the {what} goes on whenever the lab is open: raidlab watch")
