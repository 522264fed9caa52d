"""``raidlab array``: each sub-command makes a plan, then prints it (``--plan``) or runs it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

from cyclopts import App, Parameter

from lab.arrays import operations
from lab.arrays.names import array_device
from lab.cli import array_create, array_grow, array_plans, array_show
from lab.cli.context import current
from lab.cli.output import out, out_json
from lab.cli.session import Session, open_session, plan_value, show_plan
from lab.errors import SpecError
from lab.plans import Plan
from lab.units import KIB, parse_bytes

app = App(name="array", help="Create, show, change, break and mend arrays.", help_format="plaintext")
app.command(array_create.create)
app.command(array_show.show)
app.command(array_grow.grow)

PlanFlag = Annotated[
    bool, Parameter(negative="", show_default=False, help="Print the commands and what they are for; do nothing.")
]
WaitFlag = Annotated[
    bool | None, Parameter(show_default=False, help="Wait until the array is in sync; the default on uml:.")
]


@app.command
def stop(name: str, *, plan: PlanFlag = False) -> None:
    """Stop an array; its data stays on the disks."""

    def after(session: Session) -> None:
        found = session.found.array(name)
        if session.stopped and found:
            session.stopped.add(found.uuid)

    act(name, lambda session: array_plans.stop_plan(session, name), plan=plan, after=after, wakes=False)


@app.command
def assemble(
    name: str,
    *,
    force: Annotated[bool, Parameter(negative="", show_default=False, help="Also take members out of date.")] = False,
    plan: PlanFlag = False,
) -> None:
    """Start a stopped array from its members."""

    def after(session: Session) -> None:
        found = session.found.array(name)
        if session.stopped and found:
            session.stopped.discard(found.uuid)

    act(
        name, lambda session: array_plans.assemble_plan(session, name, force=force), plan=plan, after=after, wakes=False
    )


@app.command
def fail(
    name: str,
    disk: str,
    *,
    break_array: Annotated[
        bool, Parameter(negative="", show_default=False, help="Even if the array loses its data by it.")
    ] = False,
    plan: PlanFlag = False,
) -> None:
    """Mark a member as faulty, as md does when a disk stops answering."""
    act(name, lambda session: array_plans.fail_plan(session, name, disk, breaks_array=break_array), plan=plan)


@app.command
def remove(name: str, disk: str, *, plan: PlanFlag = False) -> None:
    """Take a faulty or spare member out of an array."""
    act(name, lambda session: array_plans.remove_plan(session, name, disk), plan=plan)


@app.command
def add(name: str, disk: str, *, wait: WaitFlag = None, plan: PlanFlag = False) -> None:
    """Add a disk: it becomes a spare, and a degraded array rebuilds on it."""
    act(name, lambda session: array_plans.add_plan(session, name, disk), plan=plan, waits_for="rebuild", wait=wait)


@app.command
def re_add(name: str, disk: str, *, wait: WaitFlag = None, plan: PlanFlag = False) -> None:
    """Put a former member back; with a bitmap only what changed meanwhile is copied."""
    act(name, lambda session: array_plans.re_add_plan(session, name, disk), plan=plan, waits_for="rebuild", wait=wait)


@app.command
def replace(name: str, old: str, new: str, *, wait: WaitFlag = None, plan: PlanFlag = False) -> None:
    """Copy a working member to another disk, then retire it; redundancy is kept throughout."""
    make = lambda session: array_plans.replace_plan(session, name, old, new)  # noqa: E731
    act(name, make, plan=plan, waits_for="copy", wait=wait)


@app.command
def scrub(name: str, action: str = "check", *, wait: WaitFlag = None, plan: PlanFlag = False) -> None:
    """Read a whole array and compare copies or parity: check, repair or stop."""
    plans = {
        "check": operations.scrub_check,
        "repair": operations.scrub_repair,
        "stop": operations.scrub_stop,
    }
    if action not in plans:
        raise SpecError(f"there is no scrub '{action}'", hint=f"write {', '.join(plans)}")

    def make(session: Session) -> Plan:
        array_plans.check_redundant(session.status(name))
        return plans[action](name)

    act(name, make, plan=plan, waits_for="" if action == "stop" else action, wait=wait)


@app.command
def speed(
    name: str,
    *,
    minimum: Annotated[
        str | None, Parameter(name="--min", help="Per second and member, such as 10M; a bare number is KiB, as in md.")
    ] = None,
    maximum: Annotated[str | None, Parameter(name="--max", help="Per second and member, such as 200M.")] = None,
    plan: PlanFlag = False,
) -> None:
    """Limit the speed of syncs of one array; without a limit the system's value holds."""
    low, high = (_kib_per_second(text) for text in (minimum, maximum))

    def make(session: Session) -> Plan:
        array_plans.check_redundant(session.status(name))
        if session.context.is_embedded and not plan:
            session.context.narrator.notice("the limits last as long as the lab is open: here, this command")
        return operations.set_sync_speed(name, minimum_kib_per_second=low, maximum_kib_per_second=high)

    act(name, make, plan=plan, wakes=False)


@app.command
def destroy(name: str, *, plan: PlanFlag = False) -> None:
    """Stop an array and erase its superblocks: its data is gone."""
    act(name, lambda session: array_plans.destroy_plan(session, name), plan=plan, wakes=False)


def act(
    name: str,
    make_plan: Callable[[Session], Plan],
    *,
    plan: bool,
    waits_for: str = "",
    wait: bool | None = None,
    after: Callable[[Session], None] = lambda _: None,
    wakes: bool = True,
) -> None:
    """Make a plan in an open lab; print it, or run it, wait if asked to, and print what became of the array."""
    context = current()
    array_device(name)
    with open_session(context) as session:
        made = make_plan(session)
        if wakes and made.steps:
            made = Plan(made.title, (array_plans.awake(session.status(name)) + made).steps)
        if plan:
            show_plan(context, made)
            return
        session.run(made)
        after(session)
        if waits_for and (context.is_embedded if wait is None else wait):
            session.wait(name, waits_for)
        elif waits_for and context.is_embedded:
            context.narrator.notice(f"the {waits_for} goes on whenever the lab is open: raidlab watch")
        now = next((status for status in session.statuses() if status.name == name), None)
        if context.json:
            out_json({"array": array_show.array_value(session, now) if now else None, "plan": plan_value(made)})
        else:
            out(array_show.summary_line(now) if now else f"{name}: not running")


def _kib_per_second(text: str | None) -> int | None:
    if text is None:
        return None
    # A bare number is what md itself writes and reads: KiB a second.
    return int(text) if text.isdecimal() else parse_bytes(text, what="speed") // KIB
