"""Adds two larger disks to the lab, so that its disks differ in size."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lab.actions.action import Choice
from lab.session.more_disks import LARGER_COUNT, add_to_list, larger_bytes, larger_line, new_specs
from lab.units import human_bytes
from tui.frontend import Frontend

if TYPE_CHECKING:
    from lab.session.session import LabSession
    from tui.client import LabClient
    from tui.state import LabState

Done = Callable[[tuple[str, ...]], None]


def larger_command(state: LabState) -> str:
    """The command line that adds two larger disks to the lab."""
    return larger_line(state.disks, is_embedded=_is_embedded(state))


def ask_for_larger(frontend: Frontend, on_done: Done = lambda _: None) -> None:
    """Ask the user, then add two larger disks; ``on_done`` gets their names, possibly before the disks exist.

    An embedded kernel is restarted for this; its arrays are then assembled again.
    """
    state, size = frontend.lab, larger_bytes(frontend.lab.disks)
    anew = (
        "The machine is started anew for it; arrays and their data come back, a load ends."
        if _is_embedded(state)
        else "They are loop devices, and there at once."
    )
    choices = [
        Choice("add", "Add them", larger_command(state), "a"),
        Choice("leave", "Leave it", "nothing is changed", "l"),
    ]

    def told(names: tuple[str, ...]) -> None:
        frontend.say(f"{' and '.join(names)} of {human_bytes(size)} join the lab.")
        on_done(names)

    def then(chosen: str) -> None:
        if chosen != "add":
            return
        if _is_embedded(state):
            frontend.beside("Two larger disks", lambda: _add_to_list(frontend.client, size), on_done=told)
        else:
            frontend.job("Two larger disks", lambda session: _attach(session, size), on_done=told)

    title = f"Two disks of {human_bytes(size)}"
    frontend.pick(title, choices, then, intro=f"The lab gets two larger disks. {anew}")


def _is_embedded(state: LabState) -> bool:
    return state.facts is not None and state.facts.is_embedded


def _attach(session: LabSession, size_bytes: int) -> tuple[str, ...]:
    from lab.disks import DiskKind

    taken = [disk.name for disk in session.disks]
    made = session.lab.attach(new_specs(taken, DiskKind.LOOP, LARGER_COUNT, size_bytes))
    session.rescan()
    return tuple(disk.name for disk in made)


def _add_to_list(client: LabClient, size_bytes: int) -> tuple[str, ...]:
    """Add the disks to the disk list of an embedded lab, which is closed meanwhile. Not on the lab's own thread."""
    from lab.disks import DiskKind
    from lab.disks.lab_files import lab_folder
    from lab.machine import parse_target

    name = parse_target(client.target or "uml:").lab_name
    with client.released(), lab_folder(client.host.state, name) as folder:
        return add_to_list(folder, DiskKind.FILE, LARGER_COUNT, size_bytes)
