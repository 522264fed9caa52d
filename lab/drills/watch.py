"""Whoever opens a lab in which a drill is open also counts for it: what is written, typed, and how long it takes."""

from __future__ import annotations

from contextlib import suppress

from lab.drills.case import DrillCase
from lab.drills.desk import DrillDesk
from lab.errors import LabError, MachineLost
from lab.session.session import LabSession


def open_desk(session: LabSession) -> DrillDesk | None:
    """The drill that is open in this lab, hearing of each command from now on; None if there is none.

    Raises LabError for a drill that cannot be read.
    """
    case = DrillCase.find(session.folder)
    if case is None:
        return None
    desk = DrillDesk(session, case)
    session.on_typed = desk.note_command
    return desk


def last_look(desk: DrillDesk) -> None:
    """Count once more before the lab closes. A lost machine has told what it could."""
    with suppress(MachineLost):
        desk.look(is_last=True)


def explained(error: LabError) -> str:
    """Why a drill cannot be followed."""
    return f"the drill cannot be followed: {error.message}"
