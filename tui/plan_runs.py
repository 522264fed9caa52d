"""Plans that wait for md in between: what acts goes through the lab's queue, what waits stands beside it."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from lab.errors import LabError, MachineLost
from tui import messages as happened
from tui.client.jobs import Job

if TYPE_CHECKING:
    from lab.plans import Plan, Step
    from lab.session.session import LabSession
    from tui.desk import Desk

_VOLUME = re.compile(r"\badapt\d+\b")


class PlanRun:
    """One plan on its way. ``on_done`` comes when its first part has run; what follows goes on by itself.

    Args:
        app: has the queue, and is told of failures later on.
        plan: what runs.
        on_end: called when nothing is left to do, however it ended.
    """

    def __init__(
        self,
        app: Desk,
        plan: Plan,
        *,
        on_done: Callable[[], None] | None,
        on_error: Callable[[LabError], None] | None,
        on_end: Callable[[PlanRun], None],
    ) -> None:
        self.plan = plan
        self._app = app
        self._on_done, self._on_error, self._on_end = on_done, on_error, on_end
        self._is_left = False

    def start(self) -> Job[None]:
        """Hand the first part to the queue."""
        return self._submit(self.plan, is_first=True)

    def leave(self) -> None:
        """Do nothing further; what md does at present goes on."""
        self._is_left = True
        self._rest()

    @property
    def volume(self) -> str:
        """The volume that it is about; empty for another plan."""
        found = _VOLUME.search(self.plan.title)
        return found[0] if found else ""

    def _rest(self) -> None:
        """The volume does only what md does by itself."""
        session = self._app.client.session
        if session:
            session.going_on.discard(self.volume)

    def _end(self) -> None:
        self._rest()
        self._on_end(self)

    def _submit(self, rest: Plan, *, is_first: bool = False) -> Job[None]:
        client = self._app.client
        acting, wait, after = rest.until_wait
        jobs: list[Job[Any]] = []

        def work(session: LabSession) -> None:
            if wait:
                session.going_on.add(self.volume)
            # Which disk is in which place is settled by the first part.
            client.run_plan(session, acting, jobs[0], looks_again=is_first)

        jobs.append(Job(self.plan.title, work, lambda _: self._acted(wait, after), self._failed, plan=acting))
        client.submit(jobs[0])
        return jobs[0]

    def _acted(self, wait: Step | None, after: Plan) -> None:
        on_done, self._on_done = self._on_done, None
        # From here on nobody waits for the answer.
        self._on_error = None
        session = self._app.client.session
        if wait is None or session is None or self._is_left:
            self._end()
        else:
            job: Job[int] = Job(
                self.plan.title, lambda _: 0, partial(self._waited, after), self._wait_failed, is_shown=False
            )
            threading.Thread(target=self._wait, args=(session, wait, job), name="waits", daemon=True).start()
        if on_done:
            on_done()

    def _wait(self, session: LabSession, step: Step, job: Job[int]) -> None:
        """On a thread of its own."""
        try:
            session.lab.guard.check(step)
            command = session.machine.stream(step.argv, keeps_output=False)
            forget = self._app.client.on_end(command.stop)
            try:
                for _ in command.chunks():
                    pass
                status = command.result().status
            finally:
                forget()
        except LabError as error:
            self._app.post_message(happened.JobFailed(job, error))
        else:
            self._app.post_message(happened.JobFinished(job, status))

    def _waited(self, after: Plan, status: int) -> None:
        if self._is_left or self._app.client.session is None:
            self._end()
        elif status != 0:
            self._app.operations.look_up(self._is_running, on_done=self._stopped_early, on_error=self._wait_failed)
        elif after.steps:
            self._submit(after)
        else:
            self._end()

    def _is_running(self, session: LabSession) -> bool:
        return any(volume.name == self.volume for volume in session.volumes())

    def _stopped_early(self, is_running: bool) -> None:
        """An array that was stopped meanwhile needs no words."""
        if is_running and not self._is_left:
            hint = f"see how {self.volume} stands; adding the disk again goes on where it stopped"
            self._app.tell(LabError(f"{self.plan.title}: md stopped before it was done", hint=hint))
        self._end()

    def _wait_failed(self, error: LabError) -> None:
        self._end()
        if not (self._is_left or isinstance(error, MachineLost)):
            self._app.tell(error)

    def _failed(self, error: LabError) -> None:
        self._end()
        if self._on_error:
            self._on_error(error)
        else:
            self._app.tell(error)
