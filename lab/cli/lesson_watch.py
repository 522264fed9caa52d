"""Checks of the open lesson after every command in the lab, so that students see completed steps immediately."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from lab.cli.context import Context
from lab.errors import LabError
from lab.session.arrival import read_arrival
from lab.session.session import LabSession


@contextmanager
def watched(context: Context, session: LabSession) -> Iterator[None]:
    """Check the open lesson's step after a command; problems are only reported."""
    # Avoid the cost of the import if no lesson is open.
    if not (context.host.state.root / "lessons" / "desk.json").exists():
        yield
        return
    from lab.lessons.executor import Watch
    from lab.lessons.student import Student
    from lab.lessons.telling import tell

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
