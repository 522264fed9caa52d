"""How ratios are written, and what stands under a table of them."""

from __future__ import annotations

from collections.abc import Iterable

from lab.report.cells import NOTHING
from lab.results.statistics import Estimate


def ratio_text(found: Estimate | None) -> str:
    """``0.53 [0.50–0.56]``; one repeat has no interval."""
    if found is None:
        return NOTHING
    return f"{found.median:.2f}" if found.n == 1 else f"{found.median:.2f} [{found.low:.2f}–{found.high:.2f}]"


def paired_note(found: Iterable[Estimate | None]) -> str:
    """What the ratios of a table are, if they are of interleaved repeats."""
    coverages = [each.coverage for each in found if each is not None and each.n > 1]
    what = "ratio: Hodges-Lehmann estimate over the paired repeats"
    if not coverages:
        return f"{what}; one repeat gives no interval"
    return (
        f"{what} [interval of the exact signed-rank test: holds the true ratio with at least {min(coverages):.1%}, "
        "if the logarithms of the pairs' ratios lie symmetrically about it]"
    )
