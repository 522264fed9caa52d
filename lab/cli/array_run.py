"""A plan on an array: printed, or run with a report on the array's state."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from lab.actions.action import PlanAction
from lab.arrays.array import Array
from lab.arrays.status import ArrayStatus
from lab.cli.context import Context
from lab.cli.output import out, out_json, pairs
from lab.cli.session import open_session, plan_value, show_plan, wait_with_bar
from lab.plans import Plan
from lab.session.session import LabSession

PlanFlag = Annotated[
    bool, Parameter(negative="", show_default=False, help="Print the commands and what they are for; do nothing.")
]
BreakArrayFlag = Annotated[
    bool, Parameter(negative="", show_default=False, help="Even if an array loses its data by it.")
]


def run_plan(
    context: Context, action: PlanAction, name: str, *, plan_only: bool = False, wait: bool | None = None
) -> None:
    """Make the plan in an open lab; print it, or run it, wait if requested, and report the array's state."""
    with open_session(context) as session:
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
