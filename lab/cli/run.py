"""``raidlab run``: experiments, with progress on standard error and tables or JSON on standard output."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from lab.cli.context import Context, current
from lab.cli.output import err, out, out_json, table
from lab.cli.progress import ProgressReporter
from lab.cli.render import render_result
from lab.cli.run_request import process_started_seconds, request_of, saved_elsewhere
from lab.cli.run_seeds import QUICK, SEEDS, run_seeds
from lab.errors import ExitCode, SpecError
from lab.experiments.schedule import cells, estimated_seconds, rebuild_cells
from lab.experiments.schema import MOST_SEED, Experiment, built_in_names, find_experiment, seeded
from lab.experiments.service import resume_experiment, run_experiment
from lab.report.tables import csv_of
from lab.results.record import ResultRecord
from lab.results.store import ResultStore
from lab.units import human_seconds


def run(
    name: Annotated[
        str | None, Parameter(help="An experiment, or the path of a .toml file; nothing: list them.")
    ] = None,
    *,
    quick: Annotated[bool, Parameter(negative="", help="The experiment's short form.")] = False,
    resume: Annotated[str | None, Parameter(help="Go on with an incomplete result, by its id or 'latest'.")] = None,
    plan: Annotated[
        bool, Parameter(negative="", help="Print what would be measured, in its order, and do nothing.")
    ] = False,
    csv: Annotated[Path | None, Parameter(help="Also write the figures to this file, in the study's columns.")] = None,
    seed: Annotated[
        int | None,
        Parameter(
            help="Other addresses and another order than the experiment's own; 0 or more.",
            validator=Number(gte=0, lte=MOST_SEED),
        ),
    ] = None,
    allow: Annotated[
        list[str] | None, Parameter(negative="", help="A rule of the lint that may be broken. May be repeated.")
    ] = None,
) -> int:
    """Run an experiment on a lab of its own, store the result and print its tables.

    'seeds' runs all built-in studies, one after the other.
    """
    context = current()
    if name == SEEDS:
        if resume or csv or seed is not None:
            raise SpecError(
                "'seeds' is several experiments", hint="resume, seed, or write CSV of, one experiment at a time"
            )
        return run_seeds(context, is_quick=quick, is_plan=plan)
    name = f"{name}{QUICK}" if name and quick else name
    if name and resume:
        raise SpecError(
            "an experiment and --resume together", hint="the result knows its experiment: give only --resume"
        )
    if seed is not None and not name and not resume:
        raise SpecError("--seed without an experiment", hint="name one: raidlab run NAME --seed 7")
    if resume and seed is not None:
        raise SpecError("--resume goes on with the seed that the result has", hint="leave --seed out")
    if plan and name:
        _print_plan(seeded(find_experiment(name)[0], seed), context)
    elif name or resume:
        _run(context, name, resume, csv, frozenset(allow or ()), seed)
    else:
        _list(context)
    return ExitCode.DONE


def _list(context: Context) -> None:
    found = [find_experiment(name)[0] for name in built_in_names()]
    if context.json:
        out_json([{"id": each.id, "title": each.title, "estimated_seconds": estimated_seconds(each)} for each in found])
        return
    rows = [(each.id, human_seconds(estimated_seconds(each)), each.title) for each in found]
    out(table(("experiment", "about", "title"), rows, right=("about",)))


def _print_plan(experiment: Experiment, context: Context) -> None:
    keys = [cell.key for cell in cells(experiment)] + [cell.key for cell in rebuild_cells(experiment)]
    if context.json:
        out_json({"id": experiment.id, "estimated_seconds": estimated_seconds(experiment), "order": keys})
        return
    err(f"{experiment.title}: {len(keys)} measurements, about {human_seconds(estimated_seconds(experiment))}")
    for key in keys:
        out(key)


def _run(
    context: Context,
    name: str | None,
    resume: str | None,
    csv: Path | None,
    allowed: frozenset[str],
    seed: int | None,
) -> None:
    if csv is not None and not csv.parent.is_dir():
        raise SpecError(f"there is no folder '{csv.parent}' for the CSV file", hint="make it first")
    experiment, text = find_experiment(name) if name else (None, "")
    started = process_started_seconds(context.host.files)
    with ProgressReporter(quiet=context.quiet) as progress:
        request = request_of(context, progress, started, allowed)
        with saved_elsewhere():
            if experiment is not None:
                progress.start(estimated_seconds(experiment), 0)
                record = run_experiment(experiment, text, request, seed=seed)
            else:
                progress.start(0, 0)
                record = resume_experiment(resume or "latest", request)
    _show(context, record, csv)


def _show(context: Context, record: ResultRecord, csv: Path | None) -> None:
    if csv is not None:
        csv.write_text(csv_of(record), encoding="utf-8")
    if context.json:
        out_json(record)
    else:
        out(render_result(record))
    context.narrator.notice(f"stored as {record.id} in {ResultStore(context.host.state.results).root / record.id}")
