"""Machines side by side as tables: figures without a unit, the order of arrays, and what carries over."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lab.compare.platforms import Agreement, Conclusion, PlatformComparison, Transfer
from lab.report.cells import NOTHING
from lab.report.ratio_words import ratio_text
from lab.report.table import Column, Table
from lab.results.verdicts import Outcome

RATIO_NOTE = (
    "ratios to one disk: Hodges-Lehmann estimate over paired repeats [interval of the exact signed-rank test, which "
    "takes their logarithms to lie symmetrically about the true one]; of rebuilds: Mann-Whitney's, for runs apart"
)
AGREEMENT_HEADINGS = ("same order as on the first", "of", "arrays", "Kendall's tau", "pairs told", "other way round")


def platform_tables(experiment: str, found: PlatformComparison) -> Iterator[Table]:
    """Those that have rows."""
    names = [platform.name for platform in found.platforms]
    if found.rows:
        columns = (Column("figure without unit", False), Column("of", False), *map(Column, names))
        body = tuple((row.measure.value, row.what, *map(ratio_text, row.values)) for row in found.rows)
        yield Table(f"{experiment} on {len(names)} machines", columns, body, (RATIO_NOTE,))
    if found.agreements:
        columns = (Column(AGREEMENT_HEADINGS[0], False), Column(AGREEMENT_HEADINGS[1], False))
        columns += tuple(map(Column, AGREEMENT_HEADINGS[2:]))
        body = tuple(map(agreement_row, found.agreements))
        note = "tau: of the medians, without an interval; pairs told: those of which both machines can tell the order"
        yield Table("Order of the arrays", columns, body, (note,))
    if found.conclusions:
        columns = (Column(f"conclusion on {names[0]}", False), Column("of", False))
        body = tuple((claim(each), each.what, *transfers(each)) for each in found.conclusions)
        notes = tuple(
            f"on {name}: {_counts([each.transfers[place] for each in found.conclusions])}"
            for place, name in enumerate(names[1:])
        )
        yield Table("What carries over", (*columns, *(Column(name, False) for name in names[1:])), body, notes)


def agreement_row(each: Agreement) -> tuple[str, ...]:
    """Under AGREEMENT_HEADINGS."""
    tau = NOTHING if math.isnan(each.tau) else f"{each.tau:.2f}"
    return (each.platform, each.what, str(each.arrays), tau, f"{each.told} of {each.pairs}", str(each.turned))


def _counts(transfers: list[Transfer]) -> str:
    return ", ".join(f"{each.value} {transfers.count(each)}" for each in Transfer if each in transfers)


def claim(conclusion: Conclusion) -> str:
    """``raid0 is faster than raid5``, as the first machine has it."""
    outcome = conclusion.verdicts[0].outcome
    if outcome is Outcome.CANNOT_TELL:
        return f"{conclusion.faster} or {conclusion.slower}: {outcome}"
    return f"{conclusion.faster} is {outcome} {'as' if outcome is Outcome.SAME else 'than'} {conclusion.slower}"


def transfers(conclusion: Conclusion) -> tuple[str, ...]:
    """What each further platform makes of it; where nothing can be told, why."""
    pairs = zip(conclusion.transfers, conclusion.verdicts[1:], strict=True)
    return tuple(
        f"{transfer} ({verdict.reason or 'not on the first'})"
        if transfer is Transfer.CANNOT_TELL
        else f"{transfer}: {verdict.outcome}"
        for transfer, verdict in pairs
    )
