"""Work for the lab's thread or for one of its own, as values, and how it is done."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lab.errors import LabError
from tui import messages

if TYPE_CHECKING:
    from textual.message import Message

    from lab.plans import Plan, Step
    from lab.session.session import LabSession

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Job(Generic[T]):
    """Something to be done with the open session, and who hears of it. The callbacks run on the app's own thread."""

    title: str
    work: Callable[[LabSession], T] | Plan
    """What to do, or a plan to run, whose steps can be followed."""
    on_done: Callable[[T], None] | None = None
    on_error: Callable[[LabError], None] | None = None
    is_shown: bool = True
    """Whether it counts as an operation that the screens show."""

    @property
    def step_count(self) -> int:
        """Steps that can be followed."""
        return 0 if callable(self.work) else len(self.work.steps)


def do(job: Job[Any], session: Any, post: Callable[[Message], object]) -> LabError | None:
    """Do it, and post what came of it; returns why it failed. A bug in it must not take the lab or the app away."""
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
