"""Machines side by side as tables: figures without a unit, the order of arrays, and what carries over."""

from __future__ import annotations

from collections.abc import Iterator

from lab.compare.platforms import Conclusion, PlatformComparison, Transfer
from lab.report.cells import NOTHING
from lab.report.table import Column, Table
from lab.results.statistics import Estimate
from lab.results.verdicts import Outcome


def platform_tables(experiment: str, found: PlatformComparison) -> Iterator[Table]:
    """Those that have rows."""
    names = [platform.name for platform in found.platforms]
    if found.rows:
        columns = (Column("figure without unit", False), Column("of", False), *map(Column, names))
        body = tuple((row.measure.value, row.what, *map(interval, row.values)) for row in found.rows)
        yield Table(f"{experiment} on {len(names)} machines", columns, body)
    if found.agreements:
        columns = (Column("same order as on the first", False), Column("of", False), Column("arrays"))
        body = tuple(
            (each.platform, each.what, str(each.arrays), f"{each.tau:.2f} [{each.low:.2f}–{each.high:.2f}]")
            for each in found.agreements
        )
        yield Table("Order of the arrays", (*columns, Column("Kendall's tau")), body)
    if found.conclusions:
        columns = (Column(f"conclusion on {names[0]}", False), Column("of", False))
        body = tuple((claim(each), each.what, *transfers(each)) for each in found.conclusions)
        notes = tuple(
            f"on {name}: {_counts([each.transfers[place] for each in found.conclusions])}"
            for place, name in enumerate(names[1:])
        )
        yield Table("What carries over", (*columns, *(Column(name, False) for name in names[1:])), body, notes)


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


def interval(value: Estimate | None) -> str:
    """``0.53 [0.50–0.56]``."""
    if value is None:
        return NOTHING
    return f"{value.median:.2f}" if value.n == 1 else f"{value.median:.2f} [{value.low:.2f}–{value.high:.2f}]"
