"""Work for the lab's thread or for one of its own, as values, and how it is done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lab.errors import LabError
from tui import messages

if TYPE_CHECKING:
    from textual.message import Message

    from lab.plans import Plan
    from lab.session.session import LabSession

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Job(Generic[T]):
    """Something to be done with the open session, and who hears of it. The callbacks run on the app's own thread."""

    title: str
    work: Callable[[LabSession], T]
    on_done: Callable[[T], None] | None = None
    on_error: Callable[[LabError], None] | None = None
    is_shown: bool = True
    """Whether it counts as an operation that the screens show."""
    plan: Plan | None = None
    """Set if ``work`` runs this plan, so that its steps can be followed."""

    @property
    def step_count(self) -> int:
        """Steps that can be followed."""
        return len(self.plan.steps) if self.plan else 0


def do(job: Job[Any], session: Any, post: Callable[[Message], object]) -> LabError | None:
    """Do it, and post what came of it; returns why it failed. A bug in it must not take the lab or the app away."""
    try:
        post(messages.JobFinished(job, job.work(session)))
        return None
    except LabError as error:
        failure = error
    except Exception as error:
        failure = LabError(f"this should not happen: {type(error).__name__}: {error}", hint="try something else")
    post(messages.JobFailed(job, failure))
    return failure
