"""How screens get things done: ask for a plan, run a job, start a load. Nothing blocks; answers come back as calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from tui.client.jobs import Job

if TYPE_CHECKING:
    from lab.errors import LabError
    from lab.plans import Plan
    from lab.session.session import LabSession
    from tui.desk import Desk

T = TypeVar("T")


class Operations:
    """The app's hands."""

    def __init__(self, app: Desk) -> None:
        self._app = app

    def job(
        self,
        title: str,
        work: Callable[[LabSession], T],
        *,
        on_done: Callable[[T], None] | None = None,
        on_error: Callable[[LabError], None] | None = None,
    ) -> None:
        """Do this with the open session when its turn comes; screens show it as the running operation."""
        self._app.client.submit(Job(title, work, on_done, on_error))

    def look_up(
        self,
        work: Callable[[LabSession], T],
        *,
        on_done: Callable[[T], None],
        on_error: Callable[[LabError], None] | None = None,
    ) -> None:
        """The same for what only looks or computes."""
        self._app.client.submit(Job("look", work, on_done, on_error, is_shown=False))

    def ask(
        self, make: Callable[[LabSession], Plan], *, note: str = "", on_done: Callable[[], None] | None = None
    ) -> None:
        """Make a plan, show it, and run the same plan if the user wants it. A refusal is shown with its hint."""

        def show(plan: Plan) -> None:
            self._app.show_plan(plan, note=note, on_done=on_done)

        self.look_up(make, on_done=show)

    def run_plan(
        self,
        plan: Plan,
        *,
        on_done: Callable[[], None] | None = None,
        on_error: Callable[[LabError], None] | None = None,
    ) -> Job[None]:
        """Run a plan at once."""
        client = self._app.client
        jobs: list[Job[Any]] = []

        def work(session: LabSession) -> None:
            client.run_plan(session, plan, jobs[0])

        done = (lambda _: on_done()) if on_done else None
        jobs.append(Job(plan.title, work, done, on_error, plan=plan))
        client.submit(jobs[0])
        return jobs[0]

    def make_and_run(self, make: Callable[[LabSession], Plan], *, on_done: Callable[[], None] | None = None) -> None:
        """Make a plan that needs no question, and run it."""

        def run(plan: Plan) -> None:
            self.run_plan(plan, on_done=on_done)

        self.look_up(make, on_done=run)
