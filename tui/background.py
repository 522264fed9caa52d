"""Long work beside the open lab: experiments (which open labs of their own), exports, reports. One at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from lab.errors import LabError
from tui import messages as happened
from tui.client.jobs import Job

if TYPE_CHECKING:
    from tui.app import RaidlabApp

T = TypeVar("T")
Work = Callable[[Callable[[object], None], Callable[[], bool]], T]
"""Gets two functions: one to tell progress with, one to ask whether it is to end."""


class Background:
    """Runs one piece of work on a thread of its own."""

    def __init__(self, app: RaidlabApp) -> None:
        self._app = app
        self._job: Job[Any] | None = None
        self._on_progress: Callable[[Any], None] | None = None
        self._cancelled = threading.Event()

    @property
    def title(self) -> str:
        """What runs; empty: nothing."""
        return self._job.title if self._job else ""

    def run(
        self,
        title: str,
        work: Work[T],
        *,
        on_done: Callable[[T], None] | None = None,
        on_error: Callable[[LabError], None] | None = None,
        on_progress: Callable[[Any], None] | None = None,
    ) -> bool:
        """Start it; False if something else still runs. The callbacks come on the app's own thread."""
        if self._job is not None:
            return False
        self._cancelled = threading.Event()
        self._on_progress = on_progress
        job: Job[T] = Job(title, lambda _: work(lambda _: None, lambda: False), on_done, on_error, is_shown=False)
        self._job = job
        self._app.lab.background = title
        thread = threading.Thread(target=self._run, args=(job, work, self._cancelled), name=title, daemon=True)
        thread.start()
        self._app.show_soon()
        return True

    def cancel(self) -> None:
        """Ask it to end; what it has kept so far stays."""
        self._cancelled.set()

    def hear(self, message: happened.LabMessage) -> None:
        """Messages that concern the work."""
        if not isinstance(message, happened.JobAdvanced | happened.JobFinished | happened.JobFailed):
            return
        if message.job is not self._job:
            return
        if isinstance(message, happened.JobAdvanced):
            if self._on_progress:
                self._on_progress(message.progress)
            return
        self._job = None
        self._app.lab.background = ""

    def _run(self, job: Job[T], work: Work[T], cancelled: threading.Event) -> None:
        post = self._app.post_message

        def tell(progress: object) -> None:
            post(happened.JobAdvanced(job, progress))

        try:
            result = work(tell, cancelled.is_set)
        except LabError as error:
            post(happened.JobFailed(job, error))
        except Exception as error:  # a bug in it must not take the app away
            post(happened.JobFailed(job, LabError(f"this should not happen: {type(error).__name__}: {error}")))
        else:
            post(happened.JobFinished(job, result))
