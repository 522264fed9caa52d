"""``raidlab run``: experiments, with progress on standard error and tables or JSON on standard output."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lab.cli.context import Context, current
from lab.cli.output import err, out, out_json, table
from lab.cli.progress import ProgressReporter
from lab.cli.render import render_result
from lab.errors import SpecError
from lab.experiments.schedule import cells, estimated_seconds, rebuild_cells
from lab.experiments.schema import Experiment, built_in_names, find_experiment
from lab.experiments.service import RunRequest, resume_experiment, run_experiment
from lab.measure.samples import TICKS_PER_SECOND, Sample
from lab.report.tables import csv_of
from lab.results.journal import ResultNotStored
from lab.results.record import ResultRecord
from lab.results.store import ResultStore
from lab.seams.clock import Clock
from lab.seams.files import HostFiles
from lab.units import human_seconds


def run(
    name: Annotated[
        str | None, Parameter(help="An experiment, or the path of a .toml file; nothing: list them.")
    ] = None,
    *,
    resume: Annotated[str | None, Parameter(help="Go on with an incomplete result, by its id or 'latest'.")] = None,
    plan: Annotated[
        bool, Parameter(negative="", help="Print what would be measured, in its order, and do nothing.")
    ] = False,
    csv: Annotated[Path | None, Parameter(help="Also write the figures to this file, in the study's columns.")] = None,
    allow: Annotated[
        list[str] | None, Parameter(negative="", help="A rule of the lint that may be broken. May be repeated.")
    ] = None,
) -> None:
    """Run an experiment on a lab of its own, store the result and print its tables."""
    context = current()
    if name and resume:
        raise SpecError(
            "an experiment and --resume together", hint="the result knows its experiment: give only --resume"
        )
    if plan and name:
        _print_plan(find_experiment(name)[0], context)
    elif name or resume:
        _run(context, name, resume, csv, frozenset(allow or ()))
    else:
        _list(context)


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


def _run(context: Context, name: str | None, resume: str | None, csv: Path | None, allowed: frozenset[str]) -> None:
    if csv is not None and not csv.parent.is_dir():
        raise SpecError(f"there is no folder '{csv.parent}' for the CSV file", hint="make it first")
    experiment, text = find_experiment(name) if name else (None, "")
    with ProgressReporter(quiet=context.quiet) as progress:
        observer = ProgressObserver(progress, context.host.clock)
        request = RunRequest(
            target=context.target,
            host=context.host,
            observer=observer,
            on_notice=context.narrator.notice,
            on_machine=context.narrator.listen,
            allowed_rules=allowed,
            started_seconds=process_started_seconds(context.host.files),
        )
        try:
            if experiment is not None:
                progress.start(estimated_seconds(experiment), 0)
                record = run_experiment(experiment, text, request)
            else:
                progress.start(0, 0)
                record = resume_experiment(resume or "latest", request)
        except ResultNotStored as error:
            error.hint = f"{error.hint}; it is saved as {_save_elsewhere(error.payload)}"
            raise
    _show(context, record, csv)


def _show(context: Context, record: ResultRecord, csv: Path | None) -> None:
    if csv is not None:
        csv.write_text(csv_of(record), encoding="utf-8")
    if context.json:
        out_json(record)
    else:
        out(render_result(record))
    context.narrator.notice(f"stored as {record.id} in {ResultStore(context.host.state.results).root / record.id}")


def _save_elsewhere(payload: bytes) -> str:
    """Keep a record that its folder would not take in the folder for temporary files."""
    with tempfile.NamedTemporaryFile("wb", prefix="raidlab-result-", suffix=".json", delete=False) as file:
        file.write(payload)
    return file.name


def process_started_seconds(files: HostFiles) -> float | None:
    """When this command began on the monotonic clock: field 22 of /proc/self/stat, in ticks since boot (proc(5))."""
    fields = (files.read("/proc/self/stat") or "").rpartition(")")[2].split()
    return int(fields[19]) / TICKS_PER_SECOND if len(fields) > 19 else None


class ProgressObserver:
    """Turns what a run tells into progress."""

    def __init__(self, progress: ProgressReporter, clock: Clock) -> None:
        self._progress = progress
        self._clock = clock
        self._expected_seconds = 0.0
        self._began_seconds = 0.0

    def doing(self, what: str, expected_seconds: float) -> None:
        """The next step begins."""
        self._expected_seconds, self._began_seconds = expected_seconds, self._clock.monotonic_seconds()
        self._progress.step(what, expected_seconds)

    def done(self, key: str) -> None:
        """Nothing to show: the next step's label tells."""

    def on_sample(self, sample: Sample) -> None:
        """The bar moves within a step as well."""
        if self._expected_seconds:
            self._progress.advance((self._clock.monotonic_seconds() - self._began_seconds) / self._expected_seconds)
