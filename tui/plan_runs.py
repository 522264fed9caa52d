"""Runs plans that wait for md between steps: other steps use the lab's queue, waiting steps a thread of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lab.arrays.kinds import names_array
from lab.errors import LabError, MachineLost
from tui.client.jobs import Job

if TYPE_CHECKING:
    from lab.plans import Plan, Step
    from lab.session.session import LabSession
    from tui.frontend import Frontend


class PlanRun:
    """One run of a plan, started by ``PlanRun(frontend, plan).go_on()``.

    A plan that waits for md runs in parts. All of ``on_done`` are called after the first part, and ``on_error`` for an
    error in it; the other parts follow without the caller.
    """

    def __init__(
        self,
        frontend: Frontend,
        plan: Plan,
        *,
        on_done: Sequence[Callable[[], object] | None] = (),
        on_error: Callable[[LabError], None] | None = None,
    ) -> None:
        self.plan = plan
        words = (word.strip(":,") for word in plan.title.split())
        self.volume = next((word for word in words if names_array(word)), "")
        """The array that the plan's title names; empty if it names none."""
        self._frontend = frontend
        self._on_done, self._on_error = on_done, on_error
        self._is_left = False
        frontend.plan_runs.add(self)

    def leave(self) -> None:
        """Stop after the current step; md continues its current operation."""
        self._is_left = True
        self._end()

    def _end(self) -> None:
        """Remove this run from the plans in progress."""
        session = self._frontend.client.session
        if session:
            session.going_on.discard(self.volume)
        self._frontend.plan_runs.discard(self)

    def go_on(self, rest: Plan | None = None) -> None:
        """Queue the next part of ``rest``; None: of the whole plan."""
        acting, wait, after = (rest or self.plan).until_wait
        client = self._frontend.client
        if wait and client.session:
            client.session.going_on.add(self.volume)
        client.submit(Job(self.plan.title, acting, partial(self._acted, wait, after), self._failed))

    def _acted(self, wait: Step | None, after: Plan, _: None) -> None:
        on_done, self._on_done = self._on_done, ()
        # After the first part no caller waits for the result.
        self._on_error = None
        session = self._frontend.client.session
        if wait is None or session is None or self._is_left:
            self._end()
        else:
            self._frontend.beside(
                self.plan.title,
                partial(self._wait, session, wait),
                on_done=partial(self._waited, after),
                on_error=self._wait_failed,
            )
        for each in filter(None, on_done):
            each()

    def _wait(self, session: LabSession, step: Step) -> int:
        """Run the waiting step on a thread of its own; returns its exit status."""
        session.lab.guard.check(step)
        command = session.machine.stream(step.argv, keeps_output=False)
        forget = self._frontend.client.on_end(command.stop)
        try:
            for _ in command.chunks():
                pass
            return command.result().status
        finally:
            forget()

    def _waited(self, after: Plan, status: int) -> None:
        if self._is_left or self._frontend.client.session is None:
            self._end()
        elif status != 0:
            self._frontend.look_up(self._is_running, on_done=self._stopped_early, on_error=self._wait_failed)
        elif after.steps:
            self.go_on(after)
        else:
            self._end()

    def _is_running(self, session: LabSession) -> bool:
        return any(status.name == self.volume for status in session.statuses())

    def _stopped_early(self, is_running: bool) -> None:
        """Report that the wait failed, unless the array was stopped meanwhile."""
        if is_running and not self._is_left:
            hint = f"look at {self.volume}; adding the disk again continues where it stopped"
            self._frontend.show_error(LabError(f"{self.plan.title}: md stopped before it was done", hint=hint))
        self._end()

    def _wait_failed(self, error: LabError) -> None:
        self._end()
        if not (self._is_left or isinstance(error, MachineLost)):
            self._frontend.show_error(error)

    def _failed(self, error: LabError) -> None:
        self._end()
        (self._on_error or self._frontend.show_error)(error)
