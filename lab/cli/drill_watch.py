"""Every command that works in a lab counts for the drill that is open there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.cli.context import Context
from lab.errors import LabError
from lab.session.session import LabSession


@contextmanager
def drilled(context: Context, session: LabSession) -> Iterator[None]:
    """What is written and typed while the lab is open is noted; what goes wrong with that is only told."""
    # Nobody who is in no drill waits for the import.
    if not (session.folder / "drill" / "case.json").exists():
        yield
        return
    from lab.drills.watch import explained, last_look, open_desk

    try:
        desk = open_desk(session)
    except LabError as error:
        context.narrator.notice(explained(error))
        desk = None
    try:
        yield
    finally:
        if desk is not None:
            try:
                last_look(desk)
            except LabError as error:
                context.narrator.notice(explained(error))
