"""``raidlab compare`` of several machines: tables of ratios, and what carries over."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from lab.cli.context import current
from lab.cli.output import out, out_json, table
from lab.compare.loading import load_platforms
from lab.compare.platforms import PlatformComparison, Transfer, by_experiment, compare_platforms
from lab.errors import ResultError, SpecError
from lab.lint.result_checks import worked_out_stamps
from lab.report.platform_tables import AGREEMENT_HEADINGS, agreement_row, claim, transfers
from lab.report.ratio_words import ratio_text
from lab.results.store import ResultStore


def show_platforms(names: Sequence[str], margin: float) -> None:
    """Compare the results of ``names``, experiment by experiment.

    Raises ResultError if nothing can be compared; what is bad is told, and the rest compared.
    """
    context = current()
    platforms, problems = load_platforms(names, ResultStore(context.host.state.results))
    found: dict[str, PlatformComparison] = {}
    told = list(problems)
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
            f"nothing can be compared: {'; '.join(told) or 'no result is named'}",
            hint="name results of the same experiment on two or more machines",
        )
    if context.json:
        out_json({"problems": told, "experiments": {name: _plain(each) for name, each in found.items()}})
    else:
        out("\n\n".join(_text(name, each) for name, each in found.items()))


def _plain(found: PlatformComparison) -> dict[str, object]:
    """Without the records themselves, which the bundles have."""
    names = [{"name": each.name, "result": each.record.id} for each in found.platforms]
    value = {"rows": found.rows, "agreements": found.agreements, "conclusions": found.conclusions}
    return {"platforms": names, **msgspec.to_builtins(value)}


def _text(experiment: str, found: PlatformComparison) -> str:
    names = [platform.name for platform in found.platforms]
    parts = [f"{experiment} on {len(names)} machines: {'; '.join(names)}"]
    if found.rows:
        rows = [(row.measure, row.what, *map(ratio_text, row.values)) for row in found.rows]
        parts.append(table(("figure without unit", "of", *names), rows, right=names))
    if found.agreements:
        agreed = [agreement_row(each) for each in found.agreements]
        parts.append(table(AGREEMENT_HEADINGS, agreed, right=AGREEMENT_HEADINGS[2:]))
    conclusions = [(claim(each), each.what, *transfers(each)) for each in found.conclusions]
    parts += [
        _summary(name, [each.transfers[place] for each in found.conclusions]) for place, name in enumerate(names[1:])
    ]
    if conclusions:
        parts.append(table((f"conclusion on {names[0]}", "of", *names[1:]), conclusions))
    return "\n\n".join(parts)


def _summary(name: str, transfers: Sequence[Transfer]) -> str:
    counts = (f"{transfer} {transfers.count(transfer)}" for transfer in Transfer if transfer in transfers)
    return f"of {len(transfers)} conclusions, on {name}: {', '.join(counts) or 'none can be compared'}"
