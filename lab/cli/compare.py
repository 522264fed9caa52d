"""``raidlab compare``: two results side by side."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import Parameter

from lab.cli.context import current
from lab.cli.output import out, out_json, table
from lab.compare.alike import CONDITIONS, require_alike
from lab.compare.cells import Compared, Comparison
from lab.compare.cells import compare as compare_cells
from lab.results.store import ResultStore
from lab.results.verdicts import DEFAULT_MARGIN


def compare(
    first: Annotated[str, Parameter(help="A result: its id, the beginning of one, or 'latest'.")],
    second: Annotated[str, Parameter(help="What is judged: faster or slower than the first.")],
    *,
    allow: Annotated[
        list[str] | None,
        Parameter(negative="", help=f"A difference that may be: {', '.join(CONDITIONS)} or all. May be repeated."),
    ] = None,
    margin: Annotated[float, Parameter(help="Ratios this near to 1 count as no difference.")] = DEFAULT_MARGIN,
) -> None:
    """Compare two results cell by cell: ratio, interval, and what can be told of it."""
    context = current()
    store = ResultStore(context.host.state.results)
    before, after = store.load(first), store.load(second)
    allowed = require_alike(before, after, allow or ())
    found = compare_cells(before, after, margin=margin)
    for each in allowed:
        context.narrator.notice(f"allowed: {each.sentence}")
    for name, only in ((before.id, found.only_first), (after.id, found.only_second)):
        if only:
            context.narrator.notice(f"only in {name}: {', '.join(only)}")
    if context.json:
        value = {"first": before.id, "second": after.id, "margin": margin, "allowed": allowed}
        out_json({**msgspec.to_builtins(value), **msgspec.to_builtins(found)})
    else:
        out(_text(found))


def _text(found: Comparison) -> str:
    headings = ("array", "workload", "phase", "figure", "first", "second", "ratio", "interval", "second is")
    return table(headings, [_row(each) for each in found.rows], right=("first", "second", "ratio"))


def _row(each: Compared) -> tuple[str, ...]:
    ratio, interval = "", ""
    if each.ratio:
        ratio = f"{each.ratio.median:.2f}"
        interval = f"{each.ratio.low:.2f} to {each.ratio.high:.2f} ({100 * each.ratio.coverage:.0f} %)"
    said = f"{each.outcome}: {each.reason}" if each.reason else str(each.outcome)
    medians = (f"{each.first:.4g}", f"{each.second:.4g}")
    return (each.array, each.workload, each.phase, each.figure, *medians, ratio, interval, said)
