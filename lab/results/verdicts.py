"""What can be said of a ratio: faster, slower, the same, or that it cannot be told. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from lab.errors import SpecError
from lab.results.statistics import WANTED_COVERAGE, Ratio

DEFAULT_MARGIN = 0.05
"""Ratios within 5 % of 1 count as no difference."""
SIGNIFICANCE = 0.05


class Outcome(StrEnum):
    """What can be said of the first of two beside the second."""

    FASTER = "faster"
    SLOWER = "slower"
    SAME = "the same"
    CANNOT_TELL = "cannot tell"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome; ``reason`` says why it cannot be told, and is empty otherwise."""

    outcome: Outcome
    reason: str = ""


def check_margin(margin: float) -> None:
    """Raises SpecError for a margin that is none."""
    if not 0 <= margin < 1:
        raise SpecError(f"a margin of {margin:g} is none", hint="write a part of 1, such as 0.05")


def judge(
    ratio: Ratio, *, margin: float = DEFAULT_MARGIN, is_time: bool = False, p_value: float | None = None
) -> Verdict:
    """The verdict on a ratio.

    A difference counts if the test rejects "none" *and* the ratio lies beyond the margin, so of runs without any
    difference far fewer than 5 % are called different; "the same" only if the whole interval lies within the margin.

    Args:
        ratio: of two medians.
        margin: ratios from 1 / (1 + margin) to 1 + margin count as none.
        is_time: less is faster.
        p_value: the ratio's, adjusted for other comparisons made at the same time.
    """
    check_margin(margin)
    lowest, highest = 1 / (1 + margin), 1 + margin
    if ratio.coverage < WANTED_COVERAGE:
        what = "1 repeat is" if ratio.n == 1 else f"{ratio.n} repeats are"
        return Verdict(Outcome.CANNOT_TELL, f"{what} too few: six of each are needed")
    if lowest <= ratio.low and ratio.high <= highest:
        return Verdict(Outcome.SAME)
    is_different = (ratio.p_value if p_value is None else p_value) <= SIGNIFICANCE
    if is_different and not lowest <= ratio.median <= highest:
        return Verdict(Outcome.FASTER if (ratio.median > 1) is not is_time else Outcome.SLOWER)
    if is_different:
        return Verdict(Outcome.CANNOT_TELL, f"there is a difference, perhaps less than the margin of {margin:.0%}")
    return Verdict(Outcome.CANNOT_TELL, "the interval holds both a difference and none")
