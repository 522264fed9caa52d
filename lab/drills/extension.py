"""What plugins can add to drills."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class DrillLosses(NamedTuple):
    """How often a class lost data in its drills."""

    share: Callable[[str], float]
    """Gets the folder of the class. Raises LabError if it cannot be read."""
