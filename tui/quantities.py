"""Formats measured values with their units, and chooses scales and ticks for axes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from lab.units import human_seconds

_SCALES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


class Unit(StrEnum):
    """The unit of a value."""

    IOPS = "IOPS"
    BYTES_PER_SECOND = "B/s"
    SECONDS = "s"
    FRACTION = "fraction"
    """0 to 1, displayed in per cent."""


def format_value(value: float | None, unit: Unit) -> str:
    """Return three digits and the unit, such as ``82.9k``, ``415 MB/s``, ``1.3 ms`` or ``43 %``. None gives a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    if unit is Unit.FRACTION:
        return f"{value * 100:.0f} %"
    if unit is Unit.SECONDS:
        return format_seconds(value)
    scale, prefix = next((each for each in _SCALES if abs(value) >= 0.9995 * each[0]), (1.0, ""))
    part = value / scale
    number = f"{part:.3g}" if part >= 1 else f"{part:.2f}".rstrip("0").rstrip(".")
    return f"{number} {prefix}B/s" if unit is Unit.BYTES_PER_SECOND else f"{number}{prefix}"


def format_seconds(seconds: float) -> str:
    """Return a duration, such as ``850 µs``, ``13.3 ms``, ``4.2 s``, ``3:05 min``, ``1:40 h``."""
    if seconds >= 3600:
        return f"{int(seconds) // 3600}:{int(seconds) % 3600 // 60:02d} h"
    return human_seconds(seconds) if seconds else "0 s"


def clock_words(seconds: float) -> str:
    """Return the uptime of a machine in hours, minutes and seconds, such as ``0:02:05`` or ``12:34:56``."""
    return f"{int(seconds) // 3600}:{int(seconds) % 3600 // 60:02d}:{int(seconds) % 60:02d}"


def age_words(seconds: float) -> str:
    """Return an age, such as ``now``, ``25 s ago`` or ``3 min ago``, rounded so that old lines rarely change."""
    if seconds < 60:
        rounded = int(seconds) // 5 * 5
        return f"{rounded} s ago" if rounded else "now"
    return f"{int(seconds) // 60} min ago" if seconds < 3600 else f"{int(seconds) // 3600} h ago"


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values to positions on an axis, from 0 (bottom) to 1 (top)."""

    low: float
    high: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return the position of a value, limited to the range from 0 to 1."""
        if self.is_log:
            if value <= self.low:
                return 0.0
            part = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            part = (value - self.low) / (self.high - self.low)
        return min(1.0, max(0.0, part))


def linear_scale(highest: float, unit: Unit, *, minimum_top: float | None = None) -> Scale:
    """Return a scale from 0 to a round value at or above ``highest`` and ``minimum_top``, but 0 to 1 for fractions."""
    if unit is Unit.FRACTION:
        return Scale(0.0, 1.0)
    top = max(highest, minimum_top or 0.0)
    return Scale(0.0, _round_up(top) if top > 0 else 1.0)


def log_scale(lowest: float, highest: float) -> Scale:
    """Return a scale of whole decades that contains both values, or 1e-4 to 1e-2 if they are not positive."""
    if not 0 < lowest <= highest:
        return Scale(1e-4, 1e-2, is_log=True)
    low = 10.0 ** math.floor(math.log10(lowest) + 1e-9)
    high = 10.0 ** math.ceil(math.log10(highest) - 1e-9)
    return Scale(low, high if high > low else low * 10, is_log=True)


def ticks(scale: Scale, unit: Unit, count: int) -> tuple[tuple[float, str], ...]:
    """Return (value, label) of about ``count`` round values from bottom to top, including both ends."""
    if scale.is_log:
        decades = round(math.log10(scale.high / scale.low))
        step = max(1, math.ceil(decades / max(1, count - 1)))
        values = [scale.low * 10.0**power for power in range(0, decades + 1, step)]
    else:
        parts = next((parts for parts in (4, 2, 1) if parts < count), 1)
        values = [scale.high * part / parts for part in range(parts + 1)]
    return tuple((value, "0" if value == 0 else format_value(value, unit)) for value in values)


def _round_up(value: float) -> float:
    """Round up to 1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6 or 8 times a power of ten. Half of the result is round too."""
    power = 10.0 ** math.floor(math.log10(value))
    steps = (1.0, 1.2, 1.6, 2.0, 2.4, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
    return next(step for step in steps if step * power >= value * (1 - 1e-9)) * power
