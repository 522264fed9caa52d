"""Carrying a step out: its actions in order, in one open lab as far as they need one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby

from lab.lessons.actions import Action, Measure
from lab.lessons.desk import Seat, marks_of
from lab.lessons.engine import StepView
from lab.lessons.measure_checks import Ratio, RebuildIntact, ResultSaved
from lab.lessons.ready import ReadyStep
from lab.lessons.scene import Scene
from lab.plans import Plan
from lab.session.events import events_between
from lab.session.monitor import Look, look_once
from lab.session.session import LabSession


@dataclass(frozen=True, slots=True)
class SessionHands:
    """Hands in an open lab; ``run_measure`` runs a measurement by name."""

    session: LabSession
    run_measure: Callable[[str], None]

    def run(self, plan: Plan) -> None:
        """Run a plan, and look at the disks anew."""
        self.session.run(plan)
        self.session.rescan()

    def measure(self, name: str) -> None:
        """Run a measurement of the lesson."""
        self.run_measure(name)


class Watch:
    """What happens while a lab is open, from one look to the next, for the checks of the current step."""

    def __init__(self, seat: Seat, session: LabSession) -> None:
        self._seat = seat
        self._session = session
        self._before: Look = look_once(session)

    def scene(self) -> Scene:
        """What is there now, and what happened since the lab was opened."""
        session, after = self._session, look_once(self._session)
        events = events_between(self._before, after)
        return self._seat.scene(
            after, session.disks, marks=marks_of(session, after.arrays), events=events, since=self._before
        )

    def look(self) -> StepView | None:
        """Check the current step against the scene of this moment."""
        return self._seat.look(self.scene())


def carry_out(
    actions: Sequence[Action],
    seat: Seat,
    *,
    opener: Callable[[], AbstractContextManager[LabSession]],
    run_measure: Callable[[str], None],
    before_action: Callable[[Action], None] = lambda _: None,
) -> StepView | None:
    """Do all actions, and look at the step at the end, while the lab is still open where that was needed.

    A measurement takes a lab of its own, which on some machines it only gets while this one is closed.
    """
    view = None
    for is_measure, group in groupby(actions, key=lambda action: isinstance(action, Measure)):
        if is_measure:
            for action in group:
                if isinstance(action, Measure):
                    before_action(action)
                    run_measure(action.measure)
            seat.find_results()
            view = None
            continue
        with opener() as session:
            watch, hands = Watch(seat, session), SessionHands(session, run_measure)
            for action in group:
                before_action(action)
                action.perform(hands)
            view = watch.look()
    return view or look_once_more(seat, opener)


def look_once_more(seat: Seat, opener: Callable[[], AbstractContextManager[LabSession]]) -> StepView | None:
    """Check the current step now; the lab is opened only if a check is about it."""
    step = seat.step
    if step is None:
        return None
    if not needs_lab(step):
        return seat.look(Scene(results=seat.results))
    with opener() as session:
        return Watch(seat, session).look()


def needs_lab(step: ReadyStep) -> bool:
    """Whether any check of the step, or its reading, is about arrays, disks or data."""
    if step.read is not None and step.read.source.needs_lab:
        return True
    checks = (*step.checks, *(check for mistake in step.mistakes for check in mistake.when))
    return any(not isinstance(check, ResultSaved | Ratio | RebuildIntact) for check in checks)
