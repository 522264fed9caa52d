"""What plugins can add to theory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lab.theory.losses import LossFigures


class FleetLosses(NamedTuple):
    """What small fleets of arrays lose, fast enough to be asked for while somebody chooses."""

    what_if: Callable[..., LossFigures]
    """Gets the properties of the fleet by name (``lab.fleet.run``). Raises SpecError for what is no array."""
