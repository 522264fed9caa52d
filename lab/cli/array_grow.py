"""``raidlab array grow``."""

from __future__ import annotations

import re
from typing import Annotated

from cyclopts import Parameter

from lab.cli.array_run import PlanFlag, tell, wait_or_tell
from lab.cli.context import current
from lab.cli.session import open_session, show_plan
from lab.errors import SpecError


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
    plan: PlanFlag = False,
) -> None:
    """Reshape an array: more members, larger members, or another level."""
    if size is not None and (size != "max" or members or level):
        raise SpecError("--size takes only 'max', and stands alone", hint="grow members or level in a second command")
    if not (members or size or level):
        raise SpecError("grow what?", hint="give --members, --size max or --level")
    context = current()
    with open_session(context) as session:
        count = int(members) if members and members.isdecimal() else None
        disks = [] if count is not None or not members else [word for word in re.split(r"[,\s]+", members) if word]
        made = session.array(name).grow(disks=disks, count=count, level=level)
        if plan:
            show_plan(context, made)
            return
        session.run(made)
        wait_or_tell(context, session, name, "reshape", wait=wait)
        array = session.array(name)
        tell(context, array, array.status(), made, is_long=True)
