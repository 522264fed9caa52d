"""How many latent defects wait on a drive: their rate, times the hours since each place of it was last read.

Defects come as a Poisson process at a constant rate (Elerath and Pecht's "usage dependent data corruptions"), so what
waits at a moment is Poisson too, with the mean that is computed here: no defect needs to be drawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lab.fleet.model import FleetModel, Scrubbing, ScrubKind, Spread

if TYPE_CHECKING:
    import numpy

    Floats = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]

_AT_ONCE = 1e-6
"""A scrub that lasts for less of its interval reads all at once, as far as numbers of 53 bits can tell."""


def waiting_hours(model: FleetModel, hours_clean: Floats, scrub_phase_hours: Floats) -> Floats:
    """Mean over a drive's places of the hours in which a defect could have come and was not found since.

    Args:
        model: how it is scrubbed.
        hours_clean: hours since the drive was new or read from end to end, any shape.
        scrub_phase_hours: hours since the last scrub began, of that shape or one that fits it; for periodic ones.
    """
    match model.scrub.kind:
        case ScrubKind.PERIODIC:
            return _since_scrub(model.scrub, hours_clean, scrub_phase_hours)
        case ScrubKind.DELAY:
            return _undetected(model.scrub.delay, hours_clean)
    return hours_clean


def mean_waiting_hours(scrub: Scrubbing) -> float | None:
    """What the above comes to for an old drive, averaged over the phase; None without scrubs."""
    match scrub.kind:
        case ScrubKind.PERIODIC:
            return scrub.interval_hours / 2
        case ScrubKind.DELAY:
            return scrub.delay.mean_hours
    return None


def _since_scrub(scrub: Scrubbing, clean: Floats, phase: Floats) -> Floats:
    """The scrub that began ``phase`` hours ago reads a place x (0 to 1) at x times its duration.

    Places that it has read were last read between max(phase - duration, 0) and phase hours ago, those still ahead of
    it between phase + interval - duration and interval hours ago, evenly spread. Of each the drive's own age is the
    limit: over both spans min(age, U) is added up, as sums of what is 0 or more, which keep their digits.
    """
    import numpy

    lasting, interval = scrub.duration_hours, scrub.interval_hours
    if lasting <= _AT_ONCE * interval:
        at_most: Floats = numpy.minimum(clean, phase)
        return at_most

    def mean(age: Any, phase: Floats) -> Floats:
        ends = (
            (numpy.maximum(phase - lasting, 0), phase),
            (numpy.minimum(phase + interval - lasting, interval), interval),
        )
        found = numpy.zeros_like(phase)
        for low, high in ends:
            middle = numpy.clip(age, low, high)
            found = found + (middle - low) * (middle + low) / 2 + age * (high - middle)
        return found / lasting

    # Most drives are older than an interval, and then it does not matter by how much.
    found = numpy.broadcast_to(mean(interval, phase), clean.shape).copy()
    young = numpy.nonzero(clean < interval)
    found[young] = mean(clean[young], numpy.broadcast_to(phase, clean.shape)[young])
    return found


def _undetected(delay: Spread, ages: Floats) -> Floats:
    """The integral from 0 to each age of the chance that a defect is still undetected after so long.

    That chance is 1 up to the location; of exp(-(t / scale)^shape) the integral is an incomplete gamma function.
    """
    import numpy
    from scipy.special import gammainc

    later = numpy.maximum(ages - delay.location_hours, 0) / delay.scale_hours
    whole = delay.scale_hours * math.gamma(1 + 1 / delay.shape)
    found: Floats = numpy.minimum(ages, delay.location_hours) + whole * gammainc(1 / delay.shape, later**delay.shape)
    return found
