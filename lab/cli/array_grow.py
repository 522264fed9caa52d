"""``raidlab array grow``."""

from __future__ import annotations

import re
from typing import Annotated

from cyclopts import Parameter

from lab.arrays import operations
from lab.arrays.status import ArrayStatus
from lab.cli.array_plans import awake, check_fits, check_free
from lab.cli.array_show import array_text, array_value
from lab.cli.context import current
from lab.cli.output import out, out_json
from lab.cli.session import Session, open_session, plan_value, show_plan
from lab.errors import ArrayError, SpecError
from lab.plans import Plan


def grow(
    name: str,
    *,
    members: Annotated[
        str | None, Parameter(help="Disks that join, disk04,disk05, or how many members in all.")
    ] = None,
    size: Annotated[str | None, Parameter(help="max: use all of each member.")] = None,
    level: Annotated[str | None, Parameter(help="raid1 to raid5, or raid5 to raid6 with one disk more.")] = None,
    wait: Annotated[
        bool | None, Parameter(show_default=False, help="Wait for the end of the reshape; the default on uml:.")
    ] = None,
    plan: Annotated[
        bool, Parameter(negative="", show_default=False, help="Print the commands and what they are for; do nothing.")
    ] = False,
) -> None:
    """Reshape an array: more members, larger members, or another level."""
    if size is not None and (size != "max" or members or level):
        raise SpecError("--size takes only 'max', and stands alone", hint="grow members or level in a second command")
    if not (members or size or level):
        raise SpecError("grow what?", hint="give --members, --size max or --level")
    context = current()
    with open_session(context) as session:
        status = session.status(name)
        made = _plan(session, status, members, level)
        made = Plan(made.title, (awake(status) + made).steps)
        if plan:
            show_plan(context, made)
            return
        session.run(made)
        if context.is_embedded if wait is None else wait:
            session.wait(name, "reshape")
        elif context.is_embedded:
            context.narrator.notice("the reshape goes on whenever the lab is open: raidlab watch")
        status = session.status(name)
        if context.json:
            out_json({"array": array_value(session, status), "plan": plan_value(made)})
        else:
            out(array_text(session, status))


def _plan(session: Session, status: ArrayStatus, members: str | None, level: str | None) -> Plan:
    added = _joining(session, status, members)
    others = [node for node in added if all(member.device != node for member in status.members)]
    check_free(session, others)
    for node in others:
        check_fits(session, status, node)
    if level:
        return operations.grow_level(status.name, status.level, level, status.raid_disks, added)
    return (
        operations.grow_members(status.name, status.level, status.raid_disks, added)
        if members
        else (operations.grow_size(status.name))
    )


def _joining(session: Session, status: ArrayStatus, members: str | None) -> list[str]:
    """Nodes of the disks that join: those named, or so many free ones that there are ``members`` in all."""
    if members is None:
        return []
    if not members.isdecimal():
        return [session.node(word) for word in re.split(r"[,\s]+", members) if word]
    more = int(members) - status.raid_disks
    if more < 1:
        raise SpecError(f"{status.name} has {status.raid_disks} members", hint="ask for more, or name disks that join")
    used = {member.device for other in session.statuses() for member in other.members}
    used |= {node for array in session.found.all for node in (*array.devices, *array.former_devices)}
    free = [disk.node for disk in session.lab.disks if disk.node not in used]
    if len(free) < more:
        raise ArrayError(f"{more} more disks are wanted, and {len(free)} are free", hint="'raidlab disks' shows them")
    return free[:more]
