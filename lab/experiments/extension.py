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
    """Of an embedded kernel as target its time is used, any other is left alone."""
