"""Expected number of latent defects on a drive: their rate, times the hours since each place was last read.

Defects are a Poisson process with a constant rate (Elerath and Pecht's "usage dependent data corruptions"), so the
number at any time is Poisson too, with the mean computed here: no defect must be drawn.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lab.fleet.model import FleetModel, Scrubbing, ScrubKind, Spread

if TYPE_CHECKING:
    import numpy

    Floats = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]

_AT_ONCE = 1e-6
"""A scrub with a shorter duration, relative to its interval, is the same as an instantaneous one in 53 bits."""


def waiting_hours(model: FleetModel, hours_clean: Floats, scrub_phase_hours: Floats) -> Floats:
    """Mean over a drive's places of the hours in which a defect could have occurred and remained undetected.

    Args:
        model: the model with its scrubs.
        hours_clean: hours since the drive was new or read from end to end, any shape.
        scrub_phase_hours: hours since the last scrub began, of that shape or one that broadcasts; for periodic scrubs.
    """
    match model.scrub.kind:
        case ScrubKind.PERIODIC:
            return _since_scrub(model.scrub, hours_clean, scrub_phase_hours)
        case ScrubKind.DELAY:
            return _undetected(model.scrub.delay, hours_clean)
    return hours_clean


def mean_waiting_hours(scrub: Scrubbing) -> float | None:
    """The value of ``waiting_hours`` for an old drive, averaged over the phase; None without scrubs."""
    match scrub.kind:
        case ScrubKind.PERIODIC:
            return scrub.interval_hours / 2
        case ScrubKind.DELAY:
            return scrub.delay.mean_hours
    return None


def _since_scrub(scrub: Scrubbing, clean: Floats, phase: Floats) -> Floats:
    """The scrub that began ``phase`` hours ago reads a place x (0 to 1) at x times its duration.

    Places already read were last read between max(phase - duration, 0) and phase hours ago, the others between phase +
    interval - duration and interval hours ago, uniformly distributed. The age of the drive is a limit for each:
    min(age, U) is integrated over both ranges as sums of nonnegative terms, which avoids cancellation.
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

    # Most drives are older than an interval, and the result does not depend on their age.
    found = numpy.broadcast_to(mean(interval, phase), clean.shape).copy()
    young = numpy.nonzero(clean < interval)
    found[young] = mean(clean[young], numpy.broadcast_to(phase, clean.shape)[young])
    return found


def _undetected(delay: Spread, ages: Floats) -> Floats:
    """The integral, from 0 to each age, of the probability that a defect is still undetected after this time.

    The probability is 1 up to the location; the integral of exp(-(t / scale)^shape) is an incomplete gamma function.
    """
    import numpy
    from scipy.special import gammainc

    later = numpy.maximum(ages - delay.location_hours, 0) / delay.scale_hours
    whole = delay.scale_hours * math.gamma(1 + 1 / delay.shape)
    found: Floats = numpy.minimum(ages, delay.location_hours) + whole * gammainc(1 / delay.shape, later**delay.shape)
    return found
