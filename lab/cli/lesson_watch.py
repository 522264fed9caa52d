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
    from lab.lessons.executor import Watch
    from lab.lessons.student import Student

    try:
        opened = Student(context.host).open_lesson()
        is_here = opened is not None and opened.step is not None and opened.progress.target == str(context.target)
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
    elif view is not None and view.mistake:
        context.narrator.notice(f"{opened.words.say('mistake')}: {view.mistake.hint.strip()}")
