"""Monitoring of commands in a lab with an open drill, which count for the drill."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lab.cli.context import Context
from lab.errors import LabError
from lab.session.session import LabSession

if TYPE_CHECKING:
    from lab.drills.desk import DrillDesk

_LOOK_SECONDS = 0.5


@contextmanager
def drilled(context: Context, session: LabSession) -> Iterator[None]:
    """Record writes and typed commands while the lab is open; problems with this are only reported."""
    # Avoid the cost of the import if no drill is open.
    if not (session.folder / "drill" / "case.json").exists():
        yield
        return
    from lab.drills.watch import explained, last_look, open_desk

    try:
        desk = open_desk(session)
    except LabError as error:
        context.narrator.notice(explained(error))
        desk = None
    if desk is None:
        yield
        return
    is_over = threading.Event()
    follower = threading.Thread(target=_follow, args=(desk, is_over), name="raidlab-drill", daemon=True)
    follower.start()
    try:
        yield
    finally:
        is_over.set()
        follower.join()
        try:
            last_look(desk)
        except LabError as error:
            context.narrator.notice(explained(error))


def _follow(desk: DrillDesk, is_over: threading.Event) -> None:
    """Count, and answer requests from inside the machine, until the command has ended."""
    from lab.drills.mailbox import answer_one

    while not is_over.wait(_LOOK_SECONDS):
        try:
            desk.look()
            if answer_one(desk):
                return
        except LabError:
            return
