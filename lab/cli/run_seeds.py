"""``raidlab run seeds``: every built-in study, one after the other, published numbers beside theory and measurement."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from lab.cli.context import Context
from lab.cli.output import err, out, out_json
from lab.cli.progress import ProgressReporter
from lab.cli.run_request import request_of, saved_elsewhere
from lab.errors import ExitCode, ExperimentError, LabError, RunCancelled
from lab.experiments.published import find_published, study_names
from lab.experiments.schedule import estimated_seconds
from lab.experiments.schema import Experiment, built_in_names, find_experiment
from lab.experiments.service import run_experiment
from lab.report.findings import findings_table
from lab.report.tables import heading
from lab.results.record import ResultRecord
from lab.results.store import ResultStore
from lab.units import human_seconds

SEEDS = "seeds"
QUICK = "-quick"


def run_seeds(context: Context, *, is_quick: bool, is_plan: bool) -> int:
    """Run every study; one that fails is reported, and the others still run. The exit status.

    Raises ExperimentError at the end if any failed; with --json the failures stand in the document instead.
    """
    suffix = QUICK if is_quick else ""
    names = [f"{study}{suffix}" for study in study_names() if f"{study}{suffix}" in built_in_names()]
    chosen = [find_experiment(name) for name in names]
    total = sum(estimated_seconds(experiment) for experiment, _ in chosen)
    err(f"{len(chosen)} studies, about {human_seconds(total)}")
    if is_plan:
        for experiment, _ in chosen:
            out(f"{experiment.id}: about {human_seconds(estimated_seconds(experiment))}: {experiment.title}")
        return ExitCode.DONE
    records, failed = [], {}
    for experiment, text in chosen:
        try:
            records.append(_run_one(context, experiment, text))
        except RunCancelled:
            raise
        except LabError as error:
            failed[experiment.id] = error.message
            context.narrator.notice(f"{experiment.id} failed: {error.message}; the others go on")
        else:
            _show(context, records[-1])
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


def _run_one(context: Context, experiment: Experiment, text: str) -> ResultRecord:
    with ProgressReporter(quiet=context.quiet) as progress, saved_elsewhere():
        progress.start(estimated_seconds(experiment), 0)
        return run_experiment(experiment, text, request_of(context, progress))


def _report(context: Context, records: list[ResultRecord], failed: dict[str, str]) -> Path:
    """All studies in one document, those that failed named in it."""
    from lab.report.collected import collect
    from lab.report.sources import loaded
    from lab.report.written import write_report

    store = ResultStore(context.host.state.results)
    found = [loaded(record, record.id, partial(store.raw_json, record.id)) for record in records]
    failures = [f"{name} failed: {message}" for name, message in failed.items()]
    moment = context.host.clock.utc_now()
    title = f"{len(records)} studies: published, theory and measured"
    folder = context.host.state.root / "reports"
    return write_report(collect(found, failures=failures), folder, f"{moment:%Y%m%dT%H%M%SZ}-{SEEDS}", title)


def _show(context: Context, record: ResultRecord) -> None:
    context.narrator.notice(f"stored as {record.id}")
    if context.json:
        return
    published = find_published(record.experiment.removesuffix(QUICK))
    table = findings_table(record, published) if published else None
    out("\n\n".join([heading(record), *([table.as_text()] if table else [])]) + "\n")
