"""Work for the lab's thread or for one of its own, as values."""

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
