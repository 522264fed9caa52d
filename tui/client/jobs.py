"""Work for the lab's thread, as values."""

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
    work: Callable[[LabSession], T]
    on_done: Callable[[T], None] | None = None
    on_error: Callable[[LabError], None] | None = None
    is_shown: bool = True
    """Whether it counts as an operation that the screens show."""
    plan: Plan | None = None
    """Set if ``work`` runs this plan, so that its steps can be followed."""
