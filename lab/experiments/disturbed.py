"""When a measurement is thrown away and made again: the computer gave the machine's processor to others meanwhile.

The rule looks at how long the machine waited and never at what was measured, since choosing by the outcome would bias
it. What was thrown away is counted in the record (``CellRecord.disturbed_before``); a measurement that is kept although
it was disturbed carries the stamp ``disturbed``.
"""

from __future__ import annotations

from lab.lint.cell_checks import MOST_WAITED_FRACTION

MEASURED_AGAIN = 2
"""How often one measurement is made again."""


class SpareMeasurements:
    """How many measurements of a run may still be made again.

    A quarter of those that were planned: on a computer that is never quiet, more would cost time and help nothing.
    """

    def __init__(self, planned: int) -> None:
        self.left = max(MEASURED_AGAIN, planned // 4)

    def take(self, waited_fraction: float | None, disturbed_before: int) -> bool:
        """Whether a measurement is made again that was made ``disturbed_before`` times and waited so long."""
        is_disturbed = waited_fraction is not None and waited_fraction > MOST_WAITED_FRACTION
        if not is_disturbed or disturbed_before >= MEASURED_AGAIN or not self.left:
            return False
        self.left -= 1
        return True
