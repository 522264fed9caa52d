"""What plugins can add to theory: the data loss of a fleet of arrays over years, as figures with intervals.

NOMDL, the normalised magnitude of data loss, was proposed by Greenan, Plank and Wylie to replace MTTDL ("Mean time to
meaningless", HotStorage 2010): the expected number of bytes lost in a number of years, per usable byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec


class Interval(msgspec.Struct, frozen=True):
    """An estimate and its 95 % interval. All three are finite and not negative."""

    value: float
    """0 if nothing was observed: then only ``high`` is known."""
    low: float
    high: float

    def times(self, factor: float) -> Interval:
        return Interval(self.value * factor, self.low * factor, self.high * factor)


class LossFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The data loss of a fleet."""

    trials: int
    array_years: float
    failures_per_array_year: float
    losses_per_array_year: Interval
    loss_chance_per_array_year: Interval
    """Probability that one array loses data within a year."""
    fleet_loss_chance: Interval
    """Probability that at least one array of the fleet loses data within the period."""
    nines_per_array_year: Interval
    """-log10 of ``loss_chance_per_array_year``, 300 at most. ``low`` has the fewest nines; without losses it is also
    the ``value``.
    """
    nines_per_fleet_year: Interval
    lost_bytes_per_pb_year: Interval
    """Per 10^15 usable bytes."""
    nomdl_bytes_per_tb: Interval
    """Expected number of bytes lost within the period, per 10^12 usable bytes."""
    cause_losses: Mapping[str, float]
    """Cause -> share of the losses."""
    cause_bytes: Mapping[str, float]
    """Cause -> share of the lost bytes."""
    seldom: Mapping[str, Interval] = msgspec.field(default_factory=dict)
    """Cause that can lose data and was rarely or never seen -> bytes lost by it per year and 10^15 usable bytes."""
    mttdl_years: float
    """At most 1e300."""
    mttdl_by_hand: str = ""
    """The MTTDL's formula with its numbers."""
    counted: str = ""
    """The events between a failure and the end of its rebuild, and other possible errors, as a sentence."""
    losses_to_mttdl: float
    """Losses of an array, divided by those expected from the MTTDL."""
    is_biased: bool
    weight_mean: float
    """Mean weight of importance sampling: 1 except for sampling error; exactly 1 if it is not used."""
    weight_error: float

    @property
    def has_losses(self) -> bool:
        """Whether any loss was seen. Otherwise only a bound on each figure is known: ``high``, or ``low`` for nines."""
        return self.losses_per_array_year.value > 0


class FleetLosses(NamedTuple):
    """The data loss of small fleets of arrays, computed fast enough for an interactive screen."""

    what_if: Callable[..., LossFigures]
    """Takes the properties of the fleet by name (``lab.fleet.run``). Raises SpecError for an invalid array."""
