"""What plugins can add to experiments."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lab.experiments.sweeps import SweepDesk
    from lab.machine import Host, Target


class Sweeping(NamedTuple):
    """Sweeps: one experiment over many combinations."""

    desk: Callable[[Target, Host], SweepDesk]
    """Returns the desk. If the target is an embedded kernel its kind of time is used; any other target is ignored."""
