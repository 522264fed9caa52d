"""How many latent defects wait on a drive: their rate, times the hours since each place of it was last read.

Defects come as a Poisson process at a constant rate (Elerath and Pecht's "usage dependent data corruptions"), so what
waits at a moment is Poisson too, with the mean that is computed here: no defect needs to be drawn.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from lab.fleet.model import FleetModel, Scrubbing, ScrubKind, Spread

if TYPE_CHECKING:
    import numpy

    Floats = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]

_TABLE_POINTS = 4097


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
            import numpy

            hours, waited = _undetected(model.scrub.delay)
            found: Floats = numpy.interp(hours_clean, hours, waited)
            return found
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
    limit: the mean of min(limit, U) is limit - E[max(limit - U, 0)].
    """
    import numpy

    lasting = scrub.duration_hours
    if not lasting:
        at_most: Floats = numpy.minimum(clean, phase)
        return at_most
    ends = (
        (numpy.maximum(phase - lasting, 0), phase),
        (numpy.minimum(phase + scrub.interval_hours - lasting, scrub.interval_hours), scrub.interval_hours),
    )
    over = sum(numpy.maximum(clean - low, 0) ** 2 - numpy.maximum(clean - high, 0) ** 2 for low, high in ends)
    found: Floats = clean - over / (2 * lasting)
    return found


@lru_cache(maxsize=16)
def _undetected(delay: Spread) -> tuple[Floats, Floats]:
    """Age -> the integral from 0 to the age of the chance that a defect is still undetected after so long."""
    import numpy

    end = delay.location_hours + delay.scale_hours * 40 ** (1 / delay.shape)
    hours = numpy.linspace(0, end, _TABLE_POINTS)
    later = numpy.maximum(hours - delay.location_hours, 0) / delay.scale_hours
    alive = numpy.exp(-(later**delay.shape))
    steps = (alive[1:] + alive[:-1]) / 2 * numpy.diff(hours)
    return hours, numpy.concatenate([[0.0], numpy.cumsum(steps)])
