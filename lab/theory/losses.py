"""What a fleet of arrays loses over years, as figures with intervals.

NOMDL, the normalised magnitude of data loss, is what Greenan, Plank and Wylie propose in MTTDL's place ("Mean time to
meaningless", HotStorage 2010): bytes that are expected to be lost in the years asked about, for each usable byte.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec


class Interval(msgspec.Struct, frozen=True):
    """An estimate and its 95 % interval. All three are finite and not negative."""

    value: float
    """0: nothing was seen, and ``high`` is what is known."""
    low: float
    high: float

    def times(self, factor: float) -> Interval:
        """In another unit."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)

    def text(self, digits: int = 3) -> str:
        """``7.6e-06 [7.5e-06–7.7e-06]``."""
        value, low, high = (f"{each:.{digits}g}" for each in (self.value, self.low, self.high))
        return f"{value} [{low}–{high}]"


class LossFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a fleet loses."""

    trials: int
    array_years: float
    """Simulated."""
    failures_per_array_year: float
    losses_per_array_year: Interval
    loss_chance_per_array_year: Interval
    """That one array loses any data within a year."""
    fleet_loss_chance: Interval
    """That any array of the fleet loses data within the years."""
    nines_per_array_year: Interval
    """-log10 of the chance above, 300 at most; ``low`` is the fewer nines, and ``value`` is that if none were seen."""
    nines_per_fleet_year: Interval
    lost_bytes_per_pb_year: Interval
    """Of 10^15 usable bytes."""
    nomdl_bytes_per_tb: Interval
    """Bytes expected to be lost within the years, for 10^12 usable bytes."""
    cause_losses: Mapping[str, float]
    """Cause -> share of the losses."""
    cause_bytes: Mapping[str, float]
    """Cause -> share of the lost bytes."""
    seldom: Mapping[str, Interval] = msgspec.field(default_factory=dict)
    """Cause that can lose data and was hardly seen, or never -> bytes that it costs, of 10^15 in a year."""
    mttdl_years: float
    """At most 1e300."""
    mttdl_by_hand: str = ""
    """The same as a formula with its numbers."""
    counted: str = ""
    """What happens between a failure and the end of its rebuild, and what else can go wrong, as a sentence."""
    losses_to_mttdl: float
    """Losses of an array, divided by what MTTDL promises."""
    is_biased: bool
    weight_mean: float
    """Of importance sampling: 1 but for chance; 1 exactly without."""
    weight_error: float
    """Standard error of that."""

    @property
    def has_losses(self) -> bool:
        """False: none were seen. Then of each figure the bound alone is known: ``high``, of nines ``low``."""
        return self.losses_per_array_year.value > 0
