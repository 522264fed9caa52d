"""Readings of reliability arithmetic: the rebuild time of a large drive, and its effect on the expected life.

The student's measured rebuild of small emulated drives gives the rate, and the rate gives the time for a large drive.
The formulas are those of the first RAID paper (Patterson, Gibson and Katz, SIGMOD 1988, section 8), which assume
independent failures at a constant rate.
"""

from __future__ import annotations

import math
import statistics
from typing import ClassVar

from lab.checks.readings import Source
from lab.checks.state import CheckedState
from lab.results.record import RebuildRecord

TB = 10**12
HOURS_PER_YEAR = 365.25 * 24
_SECONDS_PER_HOUR = 3600.0


class RebuildRate(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rebuild.rate"):
    """The bytes per second that a measured rebuild wrote to the new drive; with several rebuilds, the median."""

    is_of_result: ClassVar[bool] = True
    measure: str
    array: str

    def value(self, lab: CheckedState) -> float | None:
        record = lab.results.get(self.measure)
        rebuilds: list[RebuildRecord] = [each for each in record.rebuilds if each.array == self.array] if record else []
        rates = [each.rebuilt_bytes / each.rebuild_seconds for each in rebuilds if each.rebuild_seconds > 0]
        return statistics.median(rates) if rates else None


class RebuildHours(RebuildRate, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rebuild.time"):
    """The rebuild time of a drive of this many TB (10^12 bytes) at the rate of a measured rebuild."""

    is_of_result: ClassVar[bool] = False
    drive_tb: float

    def value(self, lab: CheckedState) -> float | None:
        rate = RebuildRate(measure=self.measure, array=self.array).value(lab)
        return self.drive_tb * TB / rate if rate else None


class ExpectedLife(RebuildHours, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="rebuild.mttdl"):
    """The mean time to data loss of an array that tolerates one failure, from ``rebuild.time`` and the AFR.

    MTTF = 1 / AFR; MTTDL = MTTF^2 / (N * (N - 1) * MTTR). AFR is the annual failure rate, MTTR the rebuild time.
    """

    members: int
    afr_percent: float

    def value(self, lab: CheckedState) -> float | None:
        repair_seconds = RebuildHours(measure=self.measure, array=self.array, drive_tb=self.drive_tb).value(lab)
        if not repair_seconds:
            return None
        mean_life_seconds = HOURS_PER_YEAR * _SECONDS_PER_HOUR / (self.afr_percent / 100)
        return mean_life_seconds**2 / (self.members * (self.members - 1) * repair_seconds)


class ReadErrorChance(Source, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="read_error.chance"):
    """The probability of an unreadable sector when this many TB are read, at one error per 10^exponent bits read."""

    read_tb: float
    exponent: int

    def value(self, lab: CheckedState) -> float | None:
        return -math.expm1(-self.read_tb * TB * 8 / 10.0**self.exponent)
