"""A small fleet, simulated fast enough for interactive use."""

from __future__ import annotations

import math

from lab.fleet.run import local_spreader, run_spec
from lab.fleet.schema import Failures, FleetSpec, Rebuild, Repair, Run, Scrubs, Sectors
from lab.theory.extension import LossFigures

MOST_TRIALS = 16_384
_FAILURES = 30_000
"""Number of drive failures in all simulated arrays: these determine the time, less than half a second."""
DEFECTS_PER_HOUR = 1.5e-6
"""For one drive: 3.45 % had a latent sector error within 32 months (docs/fleet.md, Parameters)."""


def what_if(
    *,
    arrays: int,
    level: str,
    members: int,
    disk_tb: float,
    afr_percent: float,
    rebuild_hours: float,
    scrub_interval_hours: float | None,
    spares: int = 0,
    replenish_hours: float = 24.0,
    years: float = 5.0,
    defects_per_hour: float = DEFECTS_PER_HOUR,
    seed: int = 1,
) -> LossFigures:
    """The losses of such a fleet, from one block of arrays: equal arguments give equal figures.

    Args:
        arrays: number of arrays of the fleet.
        level: as in md, such as ``raid6``.
        members: number of members of one array.
        disk_tb: size of one drive, in 10^12 bytes.
        afr_percent: share of drives that fail in a year.
        rebuild_hours: rebuild time of one drive, under the load of the array.
        scrub_interval_hours: None: no scrubs.
        spares: number of spares for each array.
        replenish_hours: until a used spare, or without spares the failed drive, is replaced.
        years: how long the fleet is used.
        defects_per_hour: rate of latent defects of one drive.
        seed: of the random numbers.

    Raises:
        SpecError: for an invalid array.
    """
    failures = -math.log1p(-afr_percent / 100) * members * years
    spec = FleetSpec(
        format_version=2,
        id="what-if",
        title="what if",
        arrays=arrays,
        years=years,
        level=level,
        members=members,
        disk_tb=disk_tb,
        failures=Failures(afr_percent=afr_percent),
        rebuild=Rebuild(constant_hours=rebuild_hours),
        repair=Repair(spares=spares, replenish_hours=replenish_hours),
        sectors=Sectors(defects_per_hour=defects_per_hour),
        scrub=Scrubs(interval_hours=scrub_interval_hours),
        run=Run(trials=max(100, min(MOST_TRIALS, int(_FAILURES / failures))), seed=seed),
    )
    return run_spec(spec, lambda _name, _array: (), local_spreader(1))[1]
