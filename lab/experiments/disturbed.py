"""When a measurement is thrown away and made again: the computer gave the machine's processor to others meanwhile.

The rule looks at how long the machine waited and never at what was measured, since choosing by the outcome would bias
it. What was thrown away is counted in the record (``CellRecord.disturbed_before``); a measurement that is kept although
it was disturbed carries the stamp ``disturbed``.
"""

from __future__ import annotations

from lab.lint.cell_checks import LEAST_SHARE_MEASURED, MOST_WAITED_FRACTION

MEASURED_AGAIN = 2
"""How often one measurement is made again."""


class SpareMeasurements:
    """How many measurements of a run may still be made again.

    A quarter of those that were planned, or two: on a computer that is never quiet, more would cost time and help
    nothing. ``used``: by the part of an interrupted run that is done.
    """

    def __init__(self, planned: int, *, used: int = 0) -> None:
        self.left = max(0, max(MEASURED_AGAIN, planned // 4) - used)

    def take(self, waited_fraction: float | None, share_measured: float, disturbed_before: int) -> bool:
        """Whether a measurement is made again.

        Args:
            waited_fraction: of its time, for a processor; None where that cannot be told.
            share_measured: how much of the time that was asked for it lasted: the computer may have stood still.
            disturbed_before: how often it was made already.
        """
        has_waited = waited_fraction is not None and waited_fraction > MOST_WAITED_FRACTION
        is_disturbed = has_waited or share_measured < LEAST_SHARE_MEASURED
        if not is_disturbed or disturbed_before >= MEASURED_AGAIN or not self.left:
            return False
        self.left -= 1
        return True
