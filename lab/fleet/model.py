"""The numeric model of a fleet: drive lives, rebuilds, scrubs, spares and human errors.

A ``FleetModel`` is the complete input of the engine, so any process can simulate a block of arrays from it and the
number of the block. Times are hours, sizes bytes.
"""

from __future__ import annotations

import math
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    import numpy
    from numpy.random import Generator

    Floats = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]
    Columns = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.intp]]

HOURS_PER_YEAR = 365.25 * 24


class Spread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A duration: a Weibull distribution shifted by ``location_hours``, or measured values."""

    shape: float = 1.0
    scale_hours: float = 0.0
    location_hours: float = 0.0
    values_hours: tuple[float, ...] = ()
    """Measured values of equal probability. If not empty, the other fields are ignored."""

    @property
    def mean_hours(self) -> float:
        if self.values_hours:
            return math.fsum(self.values_hours) / len(self.values_hours)
        return self.location_hours + self.scale_hours * math.gamma(1 + 1 / self.shape)

    def most_renewals(self, hours: float, factor: float = 1.0) -> float:
        """Upper bound for the mean number of consecutive lives that end within these hours.

        Lorden's bound t / m + E[X²] / m² - 1 (Annals of Mathematical Statistics 41, 1970), or that of independent
        trials, each of which must end within the hours. ``factor`` multiplies the hazard. Not for measured values.
        """
        scale: float = self.scale_hours / factor ** (1 / self.shape)
        mean, square = math.gamma(1 + 1 / self.shape), math.gamma(1 + 2 / self.shape)
        by_trials = math.expm1(min((hours / scale) ** self.shape, 100.0))
        return min(hours / (scale * mean) + square / mean**2 - 1, by_trials)

    def draw(self, rng: Generator, count: int) -> Any:
        """Independent values in hours: float64 of shape ``(count,)``."""
        import numpy

        if self.values_hours:
            return numpy.asarray(self.values_hours)[rng.integers(0, len(self.values_hours), count)]
        if not self.scale_hours:
            return numpy.full(count, self.location_hours)
        return self.location_hours + self.scale_hours * rng.standard_exponential(count) ** (1 / self.shape)


class ScrubKind(StrEnum):
    """How latent defects are found before a rebuild reads them."""

    NEVER = "never"
    PERIODIC = "periodic"
    """The whole array is read once per interval, from beginning to end."""
    DELAY = "delay"
    """Each defect is found after its own delay, as in the model of Elerath and Pecht."""


class Scrubbing(msgspec.Struct, frozen=True, kw_only=True):
    """When defects are found and rewritten."""

    kind: ScrubKind = ScrubKind.NEVER
    interval_hours: float = 0.0
    duration_hours: float = 0.0
    delay: Spread = Spread()


class FleetModel(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of array over a number of years.

    Its ``groups`` have equal size, and the loss of one group is the loss of the array. Parity arrays and
    mirrors are one group; RAID 10 with two copies has one group for each pair.
    """

    groups: int
    group_members: int
    tolerance: int
    """Number of failures that a group tolerates."""
    years: float
    usable_bytes: float
    """Capacity of one array for data."""
    disk_bytes: float

    life: Spread
    """Time from the first hour of a drive to its failure; ``values_hours`` and ``location_hours`` are not used."""
    rebuild: Spread
    shares_rate: bool = False
    """Simultaneous rebuilds in one group share the rate of one (each of two takes twice as long)."""
    detection_hours: float = 0.0
    """Time from a failure until it is noticed and, if a spare is available, the rebuild begins."""
    spares: int = 0
    replenish_hours: float = 0.0
    """Time until a used spare is replaced; without spares, until the failed drive is replaced."""

    defects_per_hour: float = 0.0
    """Rate of latent defects of one drive."""
    defect_bytes: float = 4096.0
    """Data lost by each defect that cannot be reconstructed."""
    read_errors_per_byte: float = 0.0
    """Probability of a permanent error when a byte is read (data sheets: at most 1 in 10^14 or 10^15 bits)."""
    counts_new_defects: bool = True
    """Whether to count defects that occur during the rebuild too."""
    rebuild_clears: bool = True
    """A rebuild reads every member from end to end, and so finds its defects like a scrub."""
    scrub: Scrubbing = Scrubbing()

    wrong_disk: float = 0.0
    """Probability at each replacement of a drive that a good one of the same group is pulled."""
    loses_data: float = 1.0
    """Probability that people cannot restore an array that stopped for this reason."""

    bad_share: float = 0.0
    """Share of production lots that are bad."""
    bad_factor: float = 1.0
    """Factor for the hazard of drives from bad lots."""
    lots: int = 1
    """Number of lots of an array's first drives; each replacement is from a separate lot."""

    seed: int = 1
    is_biased: bool = True
    """Whether to use importance sampling for rare events (lab.fleet.engine)."""

    @property
    def members(self) -> int:
        return self.groups * self.group_members

    @property
    def mission_hours(self) -> float:
        """Simulated time of an array."""
        return self.years * HOURS_PER_YEAR

    @property
    def hazard_scale(self) -> float:
        """Mean factor of a drive's hazard over good and bad lots."""
        return 1 + self.bad_share * (self.bad_factor - 1)

    @property
    def repair_hours(self) -> float:
        """Mean time from a failure to the end of the rebuild, with a spare available if the model has spares."""
        waits = self.detection_hours if self.spares else self.replenish_hours + self.detection_hours
        return waits + self.rebuild.mean_hours


class Block(msgspec.Struct, frozen=True):
    """A part of the work. Its random numbers depend only on the seed and the number of the block."""

    number: int
    trials: int
