"""``raidlab run`` runs experiments, with progress on standard error and tables or JSON on standard output.

``raidlab run seeds`` runs all built-in studies one after the other, and shows published numbers beside theory and
measurements.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from lab.cli.arguments import flag, number
from lab.cli.context import (
    Context,
    ProgressBar,
    current,
    err,
    fitted,
    named_target,
    out,
    out_json,
    output_columns,
    table,
)
from lab.errors import ExitCode, ExperimentError, LabError, RunCancelled, SpecError
from lab.experiments.published import find_published, study_names
from lab.experiments.run import RunRequest, resume_experiment, resumed_target, run_experiment
from lab.experiments.schedule import cells, estimated_seconds, rebuild_cells
from lab.experiments.schema import Experiment, built_in_names, find_experiment, seeded
from lab.gates.decoding import Seed
from lab.gates.files import FileKind
from lab.host.files import HostFiles, write_file
from lab.measure.samples import TICKS_PER_SECOND
from lab.report.tables import csv_of, findings_table, heading, render_result
from lab.results.record import ResultRecord, differences, digest
from lab.units import counted, human_seconds

SEEDS = "seeds"
QUICK = "-quick"
MOST_DIFFERENCES = 5


def run(
    name: Annotated[
        str | None, Parameter(help="An experiment, or the path of a .toml file. By default all experiments are listed.")
    ] = None,
    *,
    quick: Annotated[bool, flag("Run the experiment's short form.")] = False,
    resume: Annotated[str | None, Parameter(help="Resume an incomplete result: its id, or 'latest'.")] = None,
    plan: Annotated[bool, flag("Only print what would be measured, in order.")] = False,
    csv: Annotated[Path | None, Parameter(help="Also write the figures to this file, as the study's CSV.")] = None,
    seed: Annotated[
        int | None, number(Seed, help="Seed for addresses and order, instead of the experiment's own; 0 or more.")
    ] = None,
    verify_repeat: Annotated[
        bool, flag("Run it twice, and fail unless both results are identical (virtual time).")
    ] = False,
    allow: Annotated[
        list[str] | None, Parameter(negative="", help="A lint rule that may be violated. Repeatable.")
    ] = None,
) -> int:
    """Run an experiment in a separate lab, store the result and print its tables.

    The name 'seeds' runs all built-in studies, one after the other.
    """
    context = current()
    if name == SEEDS:
        if resume or csv or seed is not None or verify_repeat or allow:
            hint = "use --resume, --seed, --csv, --verify-repeat and --allow only with a single experiment"
            raise SpecError("'seeds' runs several experiments", hint=hint)
        return _run_seeds(context, is_quick=quick, is_plan=plan)
    name = f"{name}{QUICK}" if name and quick else name
    _require_fitting(name, resume, seed, csv, verify_repeat=verify_repeat, is_plan=plan)
    if plan and name:
        _print_plan(seeded(find_experiment(name)[0], seed), context)
        return ExitCode.DONE
    if not name and not resume:
        _list(context)
        return ExitCode.DONE
    chosen = find_experiment(name) if name else None
    context.announce_foreign(name or "", FileKind.EXPERIMENT)
    with ProgressBar(quiet=context.quiet) as bar:
        request = replace(run_request(context, bar), allowed_rules=frozenset(allow or ()))
        begun = replace(request, started_seconds=_process_started_seconds(context.host.files))
        if chosen:
            record = run_experiment(*chosen, begun, seed=seed)
            if verify_repeat:
                _verify_repeat(record, run_experiment(*chosen, request, seed=seed), context)
        else:
            earlier = context.results.incomplete(resume or "")
            target = context.target if named_target() else resumed_target(earlier, context.target)
            record = resume_experiment(earlier, replace(begun, target=target))
    try:
        if csv is not None:
            write_file(csv, csv_of(record).encode())
        context.out(record, render_result(record, most_columns=output_columns()))
    finally:
        # Print this even if the output cannot be written, because the result is stored.
        context.narrator.notice(f"stored as {record.id} in {context.results.root / record.id}")
    return ExitCode.DONE


def run_request(context: Context, bar: ProgressBar) -> RunRequest:
    """Return the run that this command requests. ``bar`` shows its progress."""
    return RunRequest(context.target, context.host, bar.show_run, context.narrator.notice, context.narrator.listen)


def _verify_repeat(first: ResultRecord, second: ResultRecord, context: Context) -> None:
    """Delete the second result if it equals the first. Raises ExperimentError with the first differences otherwise."""
    found = list(differences(first, second))
    if not found:
        context.results.delete(second.id)
        context.narrator.notice(f"both results are identical: {digest(first)}")
        return
    rest = f"; and {len(found) - MOST_DIFFERENCES} more" if len(found) > MOST_DIFFERENCES else ""
    is_exact = first.conditions.is_virtual_time and second.conditions.is_virtual_time
    hint = f"both are stored: raidlab compare {first.id} {second.id}"
    raise ExperimentError(
        f"two runs differ in {counted(len(found), 'value')}: {'; '.join(found[:MOST_DIFFERENCES])}{rest}",
        hint=hint if is_exact else f"in real time they always do, so use --on uml:?time=virtual; {hint}",
    )


def _require_fitting(
    name: str | None, resume: str | None, seed: int | None, csv: Path | None, *, verify_repeat: bool, is_plan: bool
) -> None:
    if resume is not None and not resume.strip():
        raise SpecError("--resume needs a result", hint="give its id or 'latest'; 'raidlab results' lists the ids")
    if name and resume:
        raise SpecError(
            "--resume cannot be combined with the name of an experiment",
            hint="omit the name, which the result records",
        )
    if resume and is_plan:
        raise SpecError(
            "--plan cannot be combined with --resume", hint="name an experiment instead: raidlab run NAME --plan"
        )
    if verify_repeat and not name:
        raise SpecError("--verify-repeat needs an experiment", hint="name one: raidlab run NAME --verify-repeat")
    if seed is not None and not name and not resume:
        raise SpecError("--seed needs an experiment", hint="name one: raidlab run NAME --seed 7")
    if resume and seed is not None:
        raise SpecError("--resume keeps the seed of the result", hint="omit --seed")
    if csv is not None and (name or resume) and not csv.parent.is_dir():
        raise SpecError(f"there is no folder '{csv.parent}' for the CSV file", hint="create it first")


def _process_started_seconds(files: HostFiles) -> float | None:
    """Return when this command started, from field 22 of /proc/self/stat (ticks since boot; see proc(5))."""
    fields = (files.read("/proc/self/stat") or "").rpartition(")")[2].split()
    return int(fields[19]) / TICKS_PER_SECOND if len(fields) > 19 else None


def _list(context: Context) -> None:
    found = [find_experiment(name)[0] for name in built_in_names()]
    rows = [(each.id, human_seconds(estimated_seconds(each)), each.title) for each in found]
    context.out(list(map(_listed, found)), table(("experiment", "about", "title"), rows, right=("about",)))


def _listed(experiment: Experiment) -> dict[str, Any]:
    return {"id": experiment.id, "title": experiment.title, "estimated_seconds": estimated_seconds(experiment)}


def _print_plan(experiment: Experiment, context: Context) -> None:
    keys = [cell.key for cell in cells(experiment)] + [cell.key for cell in rebuild_cells(experiment)]
    if context.json:
        out_json({"id": experiment.id, "estimated_seconds": estimated_seconds(experiment), "order": keys})
        return
    err(
        f"{experiment.title}: {counted(len(keys), 'measurement')}, about {human_seconds(estimated_seconds(experiment))}"
    )
    for key in keys:
        out(key)


def _run_seeds(context: Context, *, is_quick: bool, is_plan: bool) -> int:
    """Run every study, even after one has failed, and return the exit status.

    Raises ExperimentError at the end if a study failed. With --json, the document lists the failures instead.
    """
    suffix = QUICK if is_quick else ""
    names = [f"{study}{suffix}" for study in study_names() if f"{study}{suffix}" in built_in_names()]
    chosen = [find_experiment(name) for name in names]
    total = sum(estimated_seconds(experiment) for experiment, _ in chosen)
    context.narrator.notice(f"{len(chosen)} studies, about {human_seconds(total)}")
    if is_plan:
        lines = [f"{each.id}: about {human_seconds(estimated_seconds(each))}: {each.title}" for each, _ in chosen]
        context.out([_listed(each) for each, _ in chosen], "\n".join(lines))
        return ExitCode.DONE
    records, failed = [], {}
    for experiment, text in chosen:
        try:
            with ProgressBar(quiet=context.quiet) as bar:
                records.append(run_experiment(experiment, text, run_request(context, bar)))
        except RunCancelled:
            raise
        except LabError as error:
            failed[experiment.id] = error.message
            context.narrator.notice(f"{experiment.id} failed: {error.message}; the others continue")
        else:
            context.narrator.notice(f"stored as {records[-1].id}")
            if not context.json:
                published = find_published(experiment.study)
                table = findings_table(records[-1], published) if published else None
                out("\n\n".join([heading(records[-1]), *([fitted(table)] if table else [])]) + "\n")
    report = _report(context, records, failed)
    context.narrator.notice(f"report: {report}")
    if context.json:
        out_json({"results": [record.id for record in records], "failed": failed, "report": str(report)})
    elif failed:
        raise ExperimentError(
            f"{len(failed)} of {len(chosen)} studies failed: {', '.join(failed)}",
            hint=f"run one alone to see more: raidlab run {next(iter(failed))}",
        )
    return ExitCode.FAILED if failed else ExitCode.DONE


def _report(context: Context, records: list[ResultRecord], failed: dict[str, str]) -> Path:
    from lab.report.collected import collect, loaded
    from lab.report.page.build import write_report
    from lab.results.store import FoundResult

    raw_json = context.results.raw_json
    found = [loaded(FoundResult(record, record.id, partial(raw_json, record.id))) for record in records]
    failures = [f"{name} failed: {message}" for name, message in failed.items()]
    moment = context.host.clock.utc_now()
    title = f"{len(records)} studies: published, theory and measured"
    folder = context.host.state.root / "reports"
    return write_report(collect(found, failures=failures), folder, f"{moment:%Y%m%dT%H%M%SZ}-{SEEDS}", title)
