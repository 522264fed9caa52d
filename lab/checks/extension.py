"""What plugins can add to lessons."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lab.checks.readings import Source


class LessonReading(NamedTuple):
    """A source of numbers that lessons can ask students for."""

    load: Callable[[], type[Source]]
