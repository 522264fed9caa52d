"""What plugins can add to drills."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class DrillLosses(NamedTuple):
    """How often a class lost data in its drills."""

    share: Callable[[str], float]
    """Takes the path of the class's folder. Raises LabError if the folder cannot be read."""
