"""Counts for an open drill in every program that opens its lab: bytes written, typed commands and time."""

from __future__ import annotations

from contextlib import suppress

from lab.drills.case import DrillCase
from lab.drills.desk import DrillDesk
from lab.errors import LabError, MachineLost
from lab.session.session import LabSession


def open_desk(session: LabSession) -> DrillDesk | None:
    """The open drill of this lab, which receives each typed command from now on; None if there is none.

    Raises LabError for a drill that cannot be read.
    """
    case = DrillCase.find(session.folder)
    if case is None:
        return None
    desk = DrillDesk(session, case)
    session.on_typed = desk.note_command
    return desk


def last_look(desk: DrillDesk) -> None:
    """Count once more before the lab closes. A lost machine cannot be read any more."""
    with suppress(MachineLost):
        desk.look(is_last=True)


def explained(error: LabError) -> str:
    """The message for a drill that cannot be read."""
    return f"the drill cannot be read: {error.message}"
