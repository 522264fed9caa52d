"""``raidlab compare``: comparison of results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import msgspec
from cyclopts import Parameter

from lab.cli.arguments import number
from lab.cli.context import current
from lab.cli.output import fitted, out, out_json
from lab.compare.cells import CONDITIONS, Compared, Comparison, UnlikeRuns, require_alike
from lab.compare.cells import compare as compare_cells
from lab.compare.platforms import PlatformComparison, by_experiment, compare_platforms, platform_of
from lab.errors import ResultError, SpecError
from lab.gates.numbers import Margin
from lab.lint.result_checks import shown_stamps, worked_out_stamps
from lab.report.cells import TOO_FEW, platform_tables, transfer_counts
from lab.results.elsewhere import find_results, is_file_name
from lab.results.statistics import DEFAULT_MARGIN, RatioOutcome
from lab.results.store import ResultStore
from lab.tables import Table
from lab.units import counted

_LETTERS = 26


def compare(
    *names: Annotated[
        str,
        Parameter(
            help="Results (ids, beginnings of ids, 'latest'), bundles (.zip), or folders of bundles; two or more."
        ),
    ],
    platforms: Annotated[
        bool, Parameter(negative="", help="Compare machines, in ratios only; so are more than two, and bundles.")
    ] = False,
    allow: Annotated[
        list[str] | None,
        Parameter(negative="", help=f"A difference that may be: {', '.join(CONDITIONS)} or all. May be repeated."),
    ] = None,
    margin: Annotated[float, number(Margin, help="Ratios this near to 1 count as no difference.")] = DEFAULT_MARGIN,
) -> None:
    """Compare results: two of one machine cell by cell, those of several machines by what carries over.

    For two results: by how much the second is faster or slower. For several machines raw figures are never compared,
    but speed-up over each machine's own single disk, share of theory, order of the levels, CPU cost and rebuild rate;
    and which conclusions of the first machine hold on the others, and which flip.
    """
    if platforms or len(names) != 2 or any(map(is_file_name, names)):
        show_platforms(names, margin)
    else:
        _compare_two(names[0], names[1], allow or (), margin)


def _compare_two(first: str, second: str, allow: Sequence[str], margin: float) -> None:
    context = current()
    store = ResultStore(context.host.state.results)
    before, after = store.load(first), store.load(second)
    try:
        allowed = require_alike(before, after, allow)
    except UnlikeRuns as error:
        error.hint += f"; ratios alone: raidlab compare --platforms {first} {second}"
        raise
    found = compare_cells(before, after, margin=margin)
    for each in allowed:
        context.narrator.notice(f"allowed: {each.sentence}")
    for name, only in ((before.id, found.only_first), (after.id, found.only_second)):
        if only:
            context.narrator.notice(f"only in {name}: {', '.join(only)}")
    for record in (before, after):
        for stamp in worked_out_stamps(record):
            context.narrator.notice(f"{record.id}: {stamp}")
    if context.json:
        stamps = {record.id: shown_stamps(record) for record in (before, after)}
        value = {"first": before.id, "second": after.id, "margin": margin, "allowed": allowed, "stamps": stamps}
        out_json({**msgspec.to_builtins(value), **msgspec.to_builtins(found)})
    else:
        out(_text(found))


def _text(found: Comparison) -> str:
    headings = ("array", "workload", "phase", "figure", "first", "second", "ratio", "interval", "second is")
    lines = [fitted(Table.listing(headings, map(_row, found.rows), right=("first", "second", "ratio")))]
    reasons = Counter(each.reason for each in found.rows if each.reason)
    return "\n".join([*lines, *(f"{RatioOutcome.CANNOT_TELL} ({count}): {why}" for why, count in reasons.items())])


def _row(each: Compared) -> tuple[str, ...]:
    ratio, interval = "", ""
    if each.ratio:
        ratio = f"{each.ratio.median:.2f}"
        covered = f"{each.ratio.low:.2f} to {each.ratio.high:.2f} ({100 * each.ratio.coverage:.0f} %)"
        interval = covered if each.ratio.has_enough else TOO_FEW
    medians = (f"{each.first:.4g}", f"{each.second:.4g}")
    return (each.array, each.workload, each.phase, each.figure, *medians, ratio, interval, str(each.outcome))


def show_platforms(names: Sequence[str], margin: float) -> None:
    """Compare the results of ``names``, experiment by experiment.

    Raises ResultError if no results are comparable; problems are reported, and the other results are compared.
    """
    context = current()
    named = list(find_results(names, ResultStore(context.host.state.results)))
    platforms = [platform_of(each.record) for each in named if not isinstance(each, str)]
    found: dict[str, PlatformComparison] = {}
    told = [each for each in named if isinstance(each, str)]
    for experiment, group in by_experiment(platforms).items():
        if len(group) < 2:
            told.append(f"arm-missing: {experiment} was measured on {group[0].name} only")
            continue
        try:
            found[experiment] = compare_platforms(group, margin=margin)
        except SpecError as error:
            told.append(error.message)
            continue
        told += found[experiment].left_out
        for each in found[experiment].platforms:
            told += [f"{each.name}: {said}" for said in (*each.problems, *worked_out_stamps(each.record))]
    for problem in told:
        context.narrator.notice(problem)
    if not found:
        raise ResultError(
            f"nothing can be compared: {'; '.join(told) or 'no result was named'}",
            hint="name results of the same experiment on two or more machines",
        )
    if context.json:
        out_json({"problems": told, "experiments": {name: _plain(each) for name, each in found.items()}})
    else:
        out("\n\n".join(_platforms_text(name, each) for name, each in found.items()))


def _plain(found: PlatformComparison) -> dict[str, object]:
    """Without the records themselves, which are in the bundles."""
    names = [{"name": each.name, "result": each.record.id} for each in found.platforms]
    value = {"rows": found.rows, "agreements": found.agreements, "conclusions": found.conclusions}
    return {"platforms": names, **msgspec.to_builtins(value)}


def _platforms_text(experiment: str, found: PlatformComparison) -> str:
    """Machines are abbreviated to letters, to keep the tables narrow."""
    letters = [chr(ord("A") + place) if place < _LETTERS else str(place + 1) for place in range(len(found.platforms))]
    machines = [f"{letter}: {each.name}" for letter, each in zip(letters, found.platforms, strict=True)]
    tables = [
        "\n".join(
            [
                fitted(replace(each, title="", notes=())),
                *(note for note in each.notes if note.startswith((str(RatioOutcome.CANNOT_TELL), TOO_FEW))),
            ]
        )
        for each in platform_tables(experiment, found, letters)
    ]
    summaries = [
        f"of {counted(len(found.conclusions), 'conclusion')} on A, on {name}: "
        f"{transfer_counts(found, place) or 'none can be compared'}"
        for place, name in enumerate(letters[1:])
    ]
    last = tables[-1:] if found.conclusions else []
    others = tables[:-1] if found.conclusions else tables
    heading = "\n".join([f"{experiment} on {len(machines)} machines", *machines])
    return "\n\n".join([heading, *others, *summaries, *last])
