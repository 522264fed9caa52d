"""What a fleet's arrays are made of, in numbers alone: lives of drives, rebuilds, scrubs, spares and people.

A `FleetModel` is everything that the engine reads, so that a block of arrays can be simulated in any process from it
and a block's number. Times are hours, sizes bytes.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from numpy.random import Generator

HOURS_PER_YEAR = 365.25 * 24


class Spread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How long something takes: a Weibull distribution moved by ``location_hours``, or values that were measured."""

    shape: float = 1.0
    scale_hours: float = 0.0
    location_hours: float = 0.0
    values_hours: tuple[float, ...] = ()
    """Measured: each is as likely as the others. Not empty: the rest is not looked at."""

    @property
    def mean_hours(self) -> float:
        """The expected value."""
        if self.values_hours:
            return math.fsum(self.values_hours) / len(self.values_hours)
        return self.location_hours + self.scale_hours * math.gamma(1 + 1 / self.shape)

    def most_renewals(self, hours: float, factor: float = 1.0) -> float:
        """No more lives than so many end within these hours on average, each beginning where the last one ended.

        Lorden's bound t / m + E[X²] / m² - 1 (Annals of Mathematical Statistics 41, 1970), or that of independent
        trials, each of which must end within the hours by itself. ``factor`` multiplies the hazard. Not of values.
        """
        scale: float = self.scale_hours / factor ** (1 / self.shape)
        mean, square = math.gamma(1 + 1 / self.shape), math.gamma(1 + 2 / self.shape)
        by_trials = math.expm1(min((hours / scale) ** self.shape, 100.0))
        return min(hours / (scale * mean) + square / mean**2 - 1, by_trials)

    def draw(self, rng: Generator, count: int) -> Any:
        """So many independent values, in hours: float64 of shape ``(count,)``."""
        import numpy

        if self.values_hours:
            return numpy.asarray(self.values_hours)[rng.integers(0, len(self.values_hours), count)]
        if not self.scale_hours:
            return numpy.full(count, self.location_hours)
        return self.location_hours + self.scale_hours * rng.standard_exponential(count) ** (1 / self.shape)


class ScrubKind(StrEnum):
    """How latent defects are found before a rebuild finds them."""

    NEVER = "never"
    PERIODIC = "periodic"
    """Every interval the whole array is read once, from its beginning to its end."""
    DELAY = "delay"
    """Each defect is found after a time of its own, as in Elerath and Pecht's model."""


class Scrubbing(msgspec.Struct, frozen=True, kw_only=True):
    """When defects are found and written anew."""

    kind: ScrubKind = ScrubKind.NEVER
    interval_hours: float = 0.0
    duration_hours: float = 0.0
    delay: Spread = Spread()


class FleetModel(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of array over one span of years. Members lie in ``groups`` of equal size; losing one loses the array.

    Parity arrays and mirrors are one group; RAID 10 with two copies is one group for each pair.
    """

    groups: int
    group_members: int
    tolerance: int
    """Failures that a group survives."""
    years: float
    usable_bytes: float
    """What one array holds for its users."""
    disk_bytes: float

    life: Spread
    """From a drive's first hour to its failure; ``values_hours`` and ``location_hours`` are not used."""
    rebuild: Spread
    shares_rate: bool = False
    """Rebuilds of one group at the same time share the rate of one (each of two takes twice as long)."""
    detection_hours: float = 0.0
    """Until a failure is noticed and its rebuild begins, where a spare waits."""
    spares: int = 0
    replenish_hours: float = 0.0
    """Until a used spare is on the shelf again; without spares, until the failed drive is replaced."""

    defects_per_hour: float = 0.0
    """Latent defects that one drive gets."""
    defect_bytes: float = 4096.0
    """Data lost with each that nothing can rebuild."""
    read_errors_per_byte: float = 0.0
    """Chance that reading a byte fails at once and for good (data sheets: at most 1 in 10^14 or 10^15 bits)."""
    counts_new_defects: bool = True
    """Those too that come while the rebuild runs."""
    rebuild_clears: bool = True
    """A rebuild reads every member from end to end, and so finds its defects as a scrub does."""
    scrub: Scrubbing = Scrubbing()

    wrong_disk: float = 0.0
    """Chance, at each replacement of a drive, that a good one of the same group is pulled."""
    loses_data: float = 1.0
    """Chance that an array which stopped by that is not brought back by people."""

    bad_share: float = 0.0
    """Share of production lots that are bad."""
    bad_factor: float = 1.0
    """What their drives' hazard is multiplied by."""
    lots: int = 1
    """Lots that an array's first drives come from; each replacement comes from a lot of its own."""

    seed: int = 1
    is_biased: bool = True
    """Rare events by importance sampling (lab.fleet.engine)."""

    @property
    def members(self) -> int:
        """Drives of one array."""
        return self.groups * self.group_members

    @property
    def mission_hours(self) -> float:
        """How long an array is watched."""
        return self.years * HOURS_PER_YEAR

    @property
    def hazard_scale(self) -> float:
        """The mean factor of a drive's hazard over good and bad lots."""
        return 1 + self.bad_share * (self.bad_factor - 1)

    @property
    def repair_hours(self) -> float:
        """Mean time from a failure to the end of its rebuild, with a spare on the shelf if there are any."""
        waits = self.detection_hours if self.spares else self.replenish_hours + self.detection_hours
        return waits + self.rebuild.mean_hours


class Block(msgspec.Struct, frozen=True):
    """A piece of the work: so many arrays, whose random numbers follow from the seed and the piece's number alone."""

    number: int
    trials: int
