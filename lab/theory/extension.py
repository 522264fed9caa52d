"""What a plugin can add to theory: the data loss of a fleet of arrays over years, as figures with intervals.

NOMDL, the normalised magnitude of data loss, is the expected number of bytes lost in a number of years, per usable
byte. Greenan, Plank and Wylie proposed it to replace MTTDL ("Mean time to meaningless", HotStorage 2010).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec


class Interval(msgspec.Struct, frozen=True):
    """An estimate and its 95 % interval. All three values are finite and not negative."""

    value: float
    """The estimate. It is 0 if nothing was observed, and then only ``high`` is known."""
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
    """The probability that one array loses data within a year."""
    fleet_loss_chance: Interval
    """The probability that at least one array of the fleet loses data within the period."""
    nines_per_array_year: Interval
    """-log10 of ``loss_chance_per_array_year``, at most 300. ``low`` has the fewest nines. Without losses,
    ``value`` equals ``low``.
    """
    nines_per_fleet_year: Interval
    lost_bytes_per_pb_year: Interval
    """The number of bytes lost per year and 10^15 usable bytes."""
    nomdl_bytes_per_tb: Interval
    """The expected number of bytes lost within the period, per 10^12 usable bytes."""
    cause_losses: Mapping[str, float]
    cause_bytes: Mapping[str, float]
    seldom: Mapping[str, Interval] = msgspec.field(default_factory=dict)
    """For each cause that can lose data but was rarely or never seen, the number of bytes that it loses per year and
    10^15 usable bytes.
    """
    mttdl_years: float
    """The mean time to data loss in years, at most 1e300."""
    mttdl_by_hand: str = ""
    """The formula of the MTTDL with its numbers."""
    counted: str = ""
    """The events between a failure and the end of its rebuild, and other possible errors, as a sentence."""
    losses_to_mttdl: float
    """The number of losses of an array, divided by the number that the MTTDL predicts."""
    is_biased: bool
    weight_mean: float
    """The mean weight of importance sampling. It is 1 except for the sampling error, and exactly 1 without such
    sampling.
    """
    weight_error: float

    @property
    def has_losses(self) -> bool:
        """Whether any loss was seen. If not, only one bound of each figure is known: ``high``, or ``low`` for nines."""
        return self.losses_per_array_year.value > 0


class FleetLosses(NamedTuple):
    """The data loss of small fleets of arrays, computed fast enough for an interactive screen."""

    what_if: Callable[..., LossFigures]
    """A function of the fleet's properties, passed by name (``lab.fleet.run``). Raises SpecError if the array is
    invalid.
    """
