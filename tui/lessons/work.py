"""The lab does a step of a lesson for the student, on its own thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.lessons.actions import LessonAction
    from lab.session.session import LabSession
    from tui.client.client import LabClient


def lab_work(client: LabClient, actions: Sequence[LessonAction]) -> Callable[[LabSession], None]:
    """All actions of a step in order, for the lab's thread."""

    def work(session: LabSession) -> None:
        for action in actions:
            action.perform(session, partial(client.run_plan, session))
        client.look_again(session)

    return work
