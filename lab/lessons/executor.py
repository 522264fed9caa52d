"""Runs the actions of a step in order, in one open lab if they need one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import groupby

from lab.actions.action import Action
from lab.checks.faults import APART_FROM_THE_LAB
from lab.checks.measured import ResultCheck
from lab.checks.state import CheckedState
from lab.lessons.actions import ApartAction
from lab.lessons.deep_look import deep_state
from lab.lessons.engine import StepView
from lab.lessons.ready import ReadyStep
from lab.lessons.student import LessonSession, marks_of, require_no_drill
from lab.session.events import events_between
from lab.session.monitor import Snapshot, take_snapshot
from lab.session.session import LabSession
from lab.session.versions import require_mdadm


class Watch:
    """Records events while a lab is open, for the checks of the current step."""

    def __init__(self, opened: LessonSession, session: LabSession) -> None:
        self._opened = opened
        self._session = session
        self._before: Snapshot = take_snapshot(session)

    def checked_state(self) -> CheckedState:
        """The current state, and the events since the lab was opened."""
        session, after = self._session, take_snapshot(self._session)
        events = events_between(self._before, after)
        state = self._opened.checked_state(
            after, session.disks, marks=marks_of(session, after.arrays), events=events, since=self._before
        )
        return replace(state, deep=deep_state(self._opened.lesson, session, self._before, after))

    def look(self) -> StepView | None:
        """Evaluate the current step on the current state."""
        return self._opened.look(self.checked_state())


def carry_out(
    actions: Sequence[Action],
    opened: LessonSession,
    *,
    opener: Callable[[], AbstractContextManager[LabSession]],
    run_apart: Callable[[ApartAction], None],
    before_action: Callable[[Action], None] = lambda _: None,
) -> StepView | None:
    """Run all actions, and evaluate the step at the end, before the lab is closed if one was needed.

    Some actions need a separate lab, which some machines provide only while this one is closed.
    """
    view = None
    for is_apart, group in groupby(actions, key=lambda action: isinstance(action, ApartAction)):
        if is_apart:
            for action in group:
                if isinstance(action, ApartAction):
                    before_action(action)
                    run_apart(action)
            opened.find_results()
            view = None
            continue
        with opener() as session:
            require_no_drill(session, opened.lesson)
            require_mdadm(session.machine, opened.lesson.needs_mdadm, f"lesson {opened.lesson.id}")
            watch = Watch(opened, session)
            for action in group:
                before_action(action)
                action.perform(session)
            view = watch.look()
    return view or look_once_more(opened, opener)


def look_once_more(opened: LessonSession, opener: Callable[[], AbstractContextManager[LabSession]]) -> StepView | None:
    """Evaluate the current step; the lab is opened only if a check needs it."""
    step = opened.step
    if step is None:
        return None
    if not needs_lab(step):
        return opened.look(opened.state_apart)
    with opener() as session:
        require_no_drill(session, opened.lesson)
        return Watch(opened, session).look()


def needs_lab(step: ReadyStep) -> bool:
    """Whether a check of the step, or its reading, needs arrays, disks or data."""
    readings = (step.read, *(mistake.typed for mistake in step.mistakes))
    if any(reading is not None and reading.source.needs_lab for reading in readings):
        return True
    checks = (*step.checks, *(check for mistake in step.mistakes for check in mistake.when))
    return any(not isinstance(check, (ResultCheck, *APART_FROM_THE_LAB)) for check in checks)
