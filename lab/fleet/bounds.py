"""Bounds for each number in a fleet file: wide enough for all realistic values, and narrow enough for the arithmetic.

With any combination of the bounds, every figure is finite (tests/unit/fleet/test_bounds.py).
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from lab.errors import SpecError
from lab.gates.decoding import convert
from lab.gates.numbers import MOST_DISKS, bounds, shown

MOST_TRIALS = 10**9
MOST_HOURS = 10**9
MOST_REPLACED = 1000
"""Mean number of drive failures of one array in its years: they are simulated in sequence, which takes time."""
MOST_FAILURES = 10**10
"""Number of drive failures in all simulated arrays: hours of work."""

Hours = Annotated[float, msgspec.Meta(ge=1e-3, le=MOST_HOURS)]
HoursOrZero = Annotated[float, msgspec.Meta(ge=0, le=MOST_HOURS)]
LifeHours = Annotated[float, msgspec.Meta(ge=100, le=MOST_HOURS)]
"""Scale of a drive's life. In accelerated tests some drives live for weeks, none for less."""
LifeShape = Annotated[float, msgspec.Meta(ge=0.4, le=20)]
"""Shape of a drive's life. Published fits have 0.7 to 1.5; with less, nearly all drives would fail in their first
hours.
"""
Shape = Annotated[float, msgspec.Meta(ge=0.2, le=20)]
Years = Annotated[float, msgspec.Meta(ge=0.01, le=100)]
Factor = Annotated[float, msgspec.Meta(ge=1, le=1000)]
FailingPercent = Annotated[float, msgspec.Meta(ge=1e-3, le=99)]
"""From a thousandth of the rates that operators report to nearly all drives."""
TrialCount = Annotated[int, msgspec.Meta(ge=100, le=MOST_TRIALS)]
ArrayCount = Annotated[int, msgspec.Meta(ge=1, le=10**7)]
MemberCount = Annotated[int, msgspec.Meta(ge=1, le=MOST_DISKS)]
LotCount = Annotated[int, msgspec.Meta(ge=1, le=MOST_DISKS)]
ParityCount = Annotated[int, msgspec.Meta(ge=0, le=8)]
SpareCount = Annotated[int, msgspec.Meta(ge=0, le=8)]
DiskTb = Annotated[float, msgspec.Meta(ge=1e-6, le=1000)]
"""The minimum is that of the lab's own disks of a few megabytes."""
DefectRate = Annotated[float, msgspec.Meta(ge=0, le=1)]
DefectBytes = Annotated[int, msgspec.Meta(ge=1, le=1024**3)]
"""From one byte to the largest stripes."""
ReadErrorBits = Annotated[float, msgspec.Meta(ge=10**9, le=10**21)]
"""Data sheets state 10^14 to 10^17."""


def within(value: float, kind: Any, what: str) -> float:
    """Return ``value`` if it is within the bounds of ``kind``.

    Raises SpecError with the bounds in its message, because errors from Structs are shown without hints.
    """
    try:
        return convert(value, kind)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        told = f"{what}: {shown(value)} is not possible: write {bounds(kind)}"
        raise SpecError(told, hint="write what a drive can have") from None
