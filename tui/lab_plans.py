"""The plans that are shown before they run, by name of the action of the Lab screen. Nothing here knows RAID."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lab.plans import Plan
from lab.session import breaking
from lab.session.session import LabSession

if TYPE_CHECKING:
    from tui.actions import Selection

PLANS: dict[str, Callable[[Selection, LabSession], Plan]] = {
    "stop": lambda it, session: session.array(it.array).stop(),
    "destroy": lambda it, session: session.array(it.array).destroy(),
    "fail": lambda it, session: session.array(it.array).fail(it.disk, breaks_array=True),
    "remove": lambda it, session: session.array(it.array).remove(it.disk),
    "re_add": lambda it, session: session.array(it.array).re_add(it.disk),
    "add": lambda it, session: session.array(it.array).add(it.new),
    "replace": lambda it, session: session.array(it.array).replace(it.disk, it.new),
    "pull": lambda it, session: breaking.pull(session, it.disk, breaks_array=True),
    "plug_in": lambda it, session: breaking.plug_in(session, it.disk),
    "corrupt": lambda it, session: breaking.corrupt(session, it.array, it.disk),
}
