"""Checks after every command in the lab: for an open drill, which counts them, and for the open lesson."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lab.cli.context import Context
from lab.errors import LabError
from lab.session.session import LabSession, read_arrival

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
    from lab.drills.desk import explained, last_look, open_desk

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
    from lab.drills.debriefing import answer_one

    while not is_over.wait(_LOOK_SECONDS):
        try:
            desk.look()
            if answer_one(desk):
                return
        except LabError:
            return


@contextmanager
def watched(context: Context, session: LabSession) -> Iterator[None]:
    """Check the open lesson's step after a command; problems are only reported."""
    # Avoid the cost of the import if no lesson is open.
    if not (context.host.state.root / "lessons" / "desk.json").exists():
        yield
        return
    from lab.lessons.engine import tell
    from lab.lessons.student import Student, Watch

    try:
        opened = Student(context.host).open_lesson()
        is_here = opened is not None and opened.step is not None and opened.progress.target == str(context.target)
        # The arrays of an open drill do not belong to the lesson.
        is_here = is_here and read_arrival(session.folder) is None
        watch = Watch(opened, session) if opened is not None and is_here else None
    except LabError as error:
        context.narrator.notice(f"the lesson cannot be followed: {error.message}")
        watch, opened = None, None
    yield
    if watch is None or opened is None:
        return
    try:
        number = opened.done_count + 1
        view = watch.look()
    except LabError as error:
        context.narrator.notice(f"the lesson cannot be followed: {error.message}")
        return
    if view is not None and view.is_done:
        words = opened.words
        told = words.say("step-done", number=number, count=len(opened.lesson.steps))
        context.narrator.notice(f"{opened.lesson.title}: {told} 'raidlab lesson show' says why, and what comes next")
    elif view is not None and (mistake := tell(opened.words, view).mistake):
        context.narrator.notice(f"{opened.words.say('mistake')}: {mistake.hint.strip()}")
