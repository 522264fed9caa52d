"""``raidlab array assemble``: start one stopped array, or all that can be started."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from lab.cli.array_run import PlanFlag, act
from lab.cli.context import current
from lab.cli.output import out, out_json
from lab.cli.session import open_session, show_plan
from lab.errors import SpecError
from lab.plans import Plan


def assemble(
    name: Annotated[str | None, Parameter(show_default=False, help="Such as md0; without it: all of them.")] = None,
    *,
    force: Annotated[bool, Parameter(negative="", show_default=False, help="Also take members out of date.")] = False,
    plan: PlanFlag = False,
) -> None:
    """Start a stopped array from its members, or every one on the lab's disks that can be started."""
    if name is not None:
        act(name, lambda session: session.array(name).assemble(force=force), plan=plan)
    elif force:
        raise SpecError("--force needs the name of an array", hint="'raidlab array show' lists the arrays")
    else:
        _assemble_all(plan=plan)


def _assemble_all(*, plan: bool) -> None:
    """What cannot be started is told, and is no failure: a machine's start must not hang on one broken array."""
    context = current()
    with open_session(context) as session:
        if plan:
            steps = tuple(step for array in session.found.stopped for step in array.start_plan(session.machine).steps)
            show_plan(context, Plan("Start all arrays", steps))
            return
        told = {array.uuid for array in session.found.refused}
        started = session.start_all()
        refused = session.found.refused
        if context.json:
            values = [session.array(status.name).value(status) for status in started]
            out_json(
                {
                    "started": values,
                    "refused": [{"name": each.name, "uuid": each.uuid, "reason": each.refusal} for each in refused],
                }
            )
            return
        for status in started:
            out(status.summary)
        for each in refused:
            if each.uuid not in told:
                context.narrator.notice(f"array {each.name} ({each.uuid}) was not started: {each.refusal}")
        if not started:
            context.narrator.notice("no stopped array could be started" if refused else "no array is stopped")
