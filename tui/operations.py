"""How screens get things done: ask for a plan, run a job, start a load. Nothing blocks; answers come back as calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tui.client.jobs import Job
from tui.plan_runs import PlanRun

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
        self._runs: list[PlanRun] = []

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
        """Run a plan at once. Of one that waits for md in between ``on_done`` hears when the first wait begins."""
        run = PlanRun(self._app, plan, on_done=on_done, on_error=on_error, on_end=self._forget)
        self._runs.append(run)
        return run.start()

    def leave(self, volume: str) -> None:
        """Let no plan that waits for this volume go on."""
        for run in self._runs:
            if run.volume == volume:
                run.leave()

    def _forget(self, run: PlanRun) -> None:
        if run in self._runs:
            self._runs.remove(run)

    def make_and_run(self, make: Callable[[LabSession], Plan], *, on_done: Callable[[], None] | None = None) -> None:
        """Make a plan that needs no question, and run it."""

        def run(plan: Plan) -> None:
            self.run_plan(plan, on_done=on_done)

        self.look_up(make, on_done=run)
