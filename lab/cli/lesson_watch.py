"""Every command that works in the lab also moves the open lesson on: students see at once that a step is done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.cli.context import Context
from lab.errors import LabError
from lab.session.session import LabSession


@contextmanager
def watched(context: Context, session: LabSession) -> Iterator[None]:
    """Check the open lesson's step when a command has done its work; what goes wrong here is only told."""
    # Nobody who has no lesson open waits for the import.
    if not (context.host.state.root / "lessons" / "desk.json").exists():
        yield
        return
    from lab.lessons.desk import Desk
    from lab.lessons.hands import Watch

    try:
        seat = Desk(context.host).open_seat()
        is_here = seat is not None and seat.step is not None and seat.progress.target == str(context.target)
        watch = Watch(seat, session) if seat is not None and is_here else None
    except LabError as error:
        context.narrator.notice(f"the lesson is not followed: {error.message}")
        watch, seat = None, None
    yield
    if watch is None or seat is None:
        return
    try:
        number = seat.done_count + 1
        view = watch.look()
    except LabError as error:
        context.narrator.notice(f"the lesson is not followed: {error.message}")
        return
    if view is not None and view.is_done:
        words = seat.words
        told = words.say("step-done", number=number, count=len(seat.lesson.steps))
        context.narrator.notice(f"{seat.lesson.title}: {told} 'raidlab lesson show' says why, and what comes next")
    elif view is not None and view.mistake:
        context.narrator.notice(f"{seat.words.say('mistake')}: {view.mistake.hint.strip()}")
