"""Jobs as values: work for the lab's thread, or for a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from lab.errors import LabError
    from lab.plans import Plan
    from lab.session.session import LabSession

T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Job(Generic[T]):
    """Work on the open session, and the callbacks for its result. The callbacks run on the app's own thread."""

    title: str
    work: Callable[[LabSession], T] | Plan
    """A function of the session, or a plan, each step of which is reported with ``StepStarted``."""
    on_done: Callable[[T], None] | None = None
    on_error: Callable[[LabError], None] | None = None
    is_shown: bool = True
    """Whether the screens show it as an operation."""

    @property
    def step_count(self) -> int:
        """Number of steps that are reported: the steps of a plan, or 0."""
        return 0 if callable(self.work) else len(self.work.steps)
