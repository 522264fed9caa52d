"""Work of a lesson that happens on other threads: its steps in the lab, and its measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.lessons.actions import Action
    from lab.lessons.desk import Seat
    from lab.plans import Plan
    from lab.results.record import ResultRecord
    from lab.session.session import LabSession
    from tui.app import RaidlabApp
    from tui.client.client import LabClient

Progress = Callable[[object], None]
Cancelled = Callable[[], bool]


@dataclass(frozen=True, slots=True)
class AppHands:
    """Hands in the app's open session."""

    client: LabClient
    session: LabSession

    def run(self, plan: Plan) -> None:
        """Run a plan so that its commands are told."""
        self.client.run_plan(self.session, plan)

    def measure(self, name: str) -> None:
        """Measurements are started apart, with a key of their own."""


def lab_work(client: LabClient, actions: Sequence[Action]) -> Callable[[LabSession], None]:
    """All actions of a step in order, for the lab's thread."""

    def work(session: LabSession) -> None:
        hands = AppHands(client, session)
        for action in actions:
            action.perform(hands)
        client.look_again(session)

    return work


def measuring(app: RaidlabApp, seat: Seat, name: str) -> Callable[[Progress, Cancelled], ResultRecord]:
    """A measurement, for the thread of the long work; it tells how far it is from 0 to 1."""

    def work(progress: Progress, cancelled: Cancelled) -> ResultRecord:
        from lab.experiments.progress import ProgressMeter, RunProgress
        from lab.experiments.service import RunRequest, run_experiment
        from lab.machine import parse_target
        from lab.machine.target import TargetKind

        host = app.client.host
        target = parse_target(app.lab.target)
        experiment, text = seat.experiment(name)

        def tell(told: RunProgress) -> None:
            progress(told.fraction)

        request = RunRequest(
            target=target,
            host=host,
            observer=ProgressMeter(experiment, host.clock, tell),
            on_notice=lambda _: None,
            is_cancelled=cancelled,
        )
        # An embedded kernel is a new one each time; of any other machine there is only one, and the app holds it.
        with nullcontext() if target.kind is TargetKind.UML else app.client.released():
            return run_experiment(experiment, text, request)

    return work
