"""Runs one job and posts its result."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lab.errors import LabError
from tui import messages
from tui.client.jobs import Job

if TYPE_CHECKING:
    from textual.message import Message

    from lab.plans import Step


def do(job: Job[Any], session: Any, post: Callable[[Message], object]) -> LabError | None:
    """Run a job and post its result or error; returns the error. An unexpected exception is an error like any other."""
    numbers = itertools.count(1)

    def tell(step: Step) -> None:
        post(messages.StepStarted(job, next(numbers), step.shell_line()))

    try:
        done = job.work(session) if callable(job.work) else session.run(job.work, before_step=tell)
        post(messages.JobFinished(job, done))
        return None
    except LabError as error:
        failure = error
    except Exception as error:
        failure = LabError(f"this should not happen: {type(error).__name__}: {error}", hint="try something else")
    post(messages.JobFailed(job, failure))
    return failure
